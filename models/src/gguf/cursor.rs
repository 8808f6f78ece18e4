//! Reads the head of a file from front to back, and asks before every read and every allocation whether the file still
//! has that many bytes.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::error::{GgufError, Shown};

/// The head of a file is kept in memory, so there is an end to how long it may be. The largest known are those of
/// models with 262144 tokens: 10 to 20 MB.
const HEAD_LIMIT: u64 = 256 << 20;

/// A place in a file of known length.
pub struct Cursor<'a> {
    file: BufReader<&'a File>,
    path: &'a Path,
    length: u64,
    at: u64,
    kept: u64,
}

impl<'a> Cursor<'a> {
    /// At the start of `file`, which must not have been read from.
    pub fn new(file: &'a File, path: &'a Path, length: u64) -> Self {
        Self {
            file: BufReader::with_capacity(1 << 16, file),
            path,
            length,
            at: 0,
            kept: 0,
        }
    }

    /// Bytes from the start of the file.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Bytes until the end of the file.
    pub fn left(&self) -> u64 {
        self.length - self.at
    }

    /// The file's path, for an error.
    pub fn path(&self) -> PathBuf {
        self.path.to_owned()
    }

    /// The error for something at `offset` that is not as it must be.
    pub fn damaged(
        &self,
        offset: u64,
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> GgufError {
        GgufError::Damaged {
            file: self.path(),
            offset,
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Refuses if the file has fewer than `bytes` more.
    pub fn need(&self, bytes: u64, what: &str) -> Result<(), GgufError> {
        if bytes > self.left() {
            let found = format!("{} until the end of the file", self.left());
            return Err(self.damaged(self.at, what, format!("{bytes} bytes"), found));
        }
        Ok(())
    }

    /// Counts memory that is about to be taken, and refuses when the head would take too much of it.
    pub fn keep(&mut self, bytes: u64, what: &str) -> Result<(), GgufError> {
        self.kept = self.kept.saturating_add(bytes);
        if self.kept > HEAD_LIMIT {
            let expected = format!("a file head of at most {HEAD_LIMIT} bytes");
            return Err(self.damaged(self.at, what, expected, format!("at least {}", self.kept)));
        }
        Ok(())
    }

    /// The next bytes.
    pub fn fill(&mut self, into: &mut [u8], what: &str) -> Result<(), GgufError> {
        self.need(into.len() as u64, what)?;
        match self.file.read_exact(into) {
            Ok(()) => {
                self.at += into.len() as u64;
                Ok(())
            }
            // It had the bytes when it was opened.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let expected = format!("a file of {} bytes", self.length);
                Err(self.damaged(
                    self.at,
                    what,
                    expected,
                    "one that was cut while it was read",
                ))
            }
            Err(source) => Err(GgufError::Io {
                file: self.path(),
                source,
            }),
        }
    }

    /// The next `N` bytes: what a number is made from.
    pub fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    /// A 32-bit number.
    pub fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    /// A 64-bit number.
    pub fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    /// A length and as many bytes, at most `longest`.
    pub fn string(&mut self, longest: u64, what: &str) -> Result<Vec<u8>, GgufError> {
        let start = self.at;
        let length = self.u64(what)?;
        if length > longest.min(self.left()) {
            let expected = if longest < self.left() {
                format!("a string of at most {longest} bytes")
            } else {
                format!("a string that ends within the file's {} bytes", self.length)
            };
            return Err(self.damaged(start, what, expected, format!("one of {length} bytes")));
        }
        self.keep(length, what)?;
        // At most HEAD_LIMIT, as just seen.
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    /// A string that names something: not empty, in UTF-8, at most 65535 bytes (what the format allows for keys).
    pub fn name(&mut self, what: &str) -> Result<String, GgufError> {
        let start = self.at;
        let bytes = self.string(u64::from(u16::MAX), what)?;
        match String::from_utf8(bytes) {
            Ok(name) if !name.is_empty() => Ok(name),
            Ok(_) => Err(self.damaged(start, what, "a name", "an empty string")),
            Err(error) => {
                let found = Shown::new(error.as_bytes()).to_string();
                Err(self.damaged(start, what, "a name in UTF-8", found))
            }
        }
    }

    /// Passes over bytes that are not needed.
    pub fn skip(&mut self, bytes: u64, what: &str) -> Result<(), GgufError> {
        self.need(bytes, what)?;
        let read = io::copy(&mut (&mut self.file).take(bytes), &mut io::sink());
        match read {
            Ok(read) if read == bytes => {
                self.at += bytes;
                Ok(())
            }
            Ok(_) => {
                let expected = format!("a file of {} bytes", self.length);
                Err(self.damaged(
                    self.at,
                    what,
                    expected,
                    "one that was cut while it was read",
                ))
            }
            Err(source) => Err(GgufError::Io {
                file: self.path(),
                source,
            }),
        }
    }
}
