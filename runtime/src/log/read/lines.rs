//! Lines of a file, one at a time in a buffer that is used again.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A record has a few kilobytes at most; what is longer is no record, and must not fill the memory.
const LONGEST: usize = 1 << 20;
/// How much is read at once.
const BUFFER: usize = 256 << 10;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole line: see [`Lines::current`].
    Line,
    /// A line that is longer than any record; it was skipped.
    TooLong,
    /// The last line, without its end.
    Torn,
    /// Nothing more.
    End,
}

/// The lines of a file.
#[derive(Debug)]
pub struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(File::open(path)?))
    }

    /// Goes on in a file where it stands.
    pub fn of(file: File) -> Self {
        Self {
            file: BufReader::with_capacity(BUFFER, file),
            line: Vec::new(),
            number: 0,
        }
    }

    /// Goes to the next line.
    pub fn advance(&mut self) -> io::Result<Next> {
        self.line.clear();
        let taken = (&mut self.file)
            .take(LONGEST as u64)
            .read_until(b'\n', &mut self.line)?;
        if taken == 0 {
            return Ok(Next::End);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            return Ok(Next::Line);
        }
        if taken < LONGEST {
            return Ok(Next::Torn);
        }
        self.line.clear();
        loop {
            let buffer = self.file.fill_buf()?;
            if buffer.is_empty() {
                return Ok(Next::TooLong);
            }
            match buffer.iter().position(|&byte| byte == b'\n') {
                Some(at) => {
                    self.file.consume(at + 1);
                    return Ok(Next::TooLong);
                }
                None => {
                    let all = buffer.len();
                    self.file.consume(all);
                }
            }
        }
    }

    /// The line, without its end.
    pub fn current(&self) -> &[u8] {
        &self.line
    }

    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}
