//! The file beside a graph that holds its weights, written tensor after tensor: ONNX's external data.
//!
//! Every tensor begins at a multiple of [`ALIGNMENT`], so that ONNX Runtime can map the file instead of reading it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Where tensors begin, in bytes: a page on most machines.
pub const ALIGNMENT: u64 = 4096;

/// Tensors smaller than this stay in the graph, in bytes.
pub const SMALLEST: u64 = 1024;

/// A data file under construction.
#[derive(Debug)]
pub struct DataFile {
    file: BufWriter<File>,
    name: String,
    /// Bytes written.
    length: u64,
    /// The first failure of a write whose caller could not be told.
    failed: Option<io::Error>,
}

impl DataFile {
    /// Creates the file `path`, which must not exist; the graph will name it by its last component.
    ///
    /// # Errors
    ///
    /// What the system said; [`io::ErrorKind::InvalidInput`] where the name is not UTF-8.
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self {
            name: name.to_owned(),
            file: BufWriter::with_capacity(1 << 18, File::create_new(path)?),
            length: 0,
            failed: None,
        })
    }

    /// How the graph names the file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Fills up to the place of the next tensor and says where that is.
    pub(super) fn begin(&mut self) -> io::Result<u64> {
        const ZEROS: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];
        let gap = self.length.next_multiple_of(ALIGNMENT) - self.length;
        self.write_all(&ZEROS[..gap as usize])?;
        Ok(self.length)
    }

    /// Keeps a failure until [`DataFile::finish`].
    pub(super) fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }

    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes out what is still in memory and waits until it is on the device.
    ///
    /// # Errors
    ///
    /// The first failure of any write to this file.
    pub(super) fn finish(self) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.file.into_inner()?.sync_all()
    }
}

impl Write for DataFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
