//! A reader into which a few bytes can be put back: how a stream without seeking looks ahead.

use std::io::{self, Read};

/// As many bytes as the header reader ever looks ahead.
const MOST: usize = 16;

/// A reader that counts what was taken from it.
pub(super) struct Pushback<R> {
    reader: R,
    held: [u8; MOST],
    from: usize,
    position: u64,
}

impl<R: Read> Pushback<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            held: [0; MOST],
            from: MOST,
            position: 0,
        }
    }

    /// Bytes taken and not put back.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Puts bytes back, to be read again. At most 16 are held; a longer slice keeps its tail.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(self.from);
        self.from -= n;
        self.held[self.from..self.from + n].copy_from_slice(&bytes[bytes.len() - n..]);
        self.position -= n as u64;
    }

    /// Fills the buffer as far as the stream goes; returns how far.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            match self.read(&mut buffer[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(have)
    }

    /// Reads `count` bytes into nothing; false where the stream ends first. Takes constant memory
    /// whatever the count claims.
    pub(super) fn skip(&mut self, count: u64) -> io::Result<bool> {
        let mut scratch = [0; 4096];
        let mut left = count;
        while left > 0 {
            let want = scratch
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            match self.fill(&mut scratch[..want])? {
                0 => return Ok(false),
                n => left -= n as u64,
            }
        }
        Ok(true)
    }
}

impl<R: Read> Read for Pushback<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let held = &self.held[self.from..];
        let n = if held.is_empty() {
            self.reader.read(buffer)?
        } else {
            let n = held.len().min(buffer.len());
            buffer[..n].copy_from_slice(&held[..n]);
            self.from += n;
            n
        };
        self.position += n as u64;
        Ok(n)
    }
}
