//! GGUF files: the weights that people have. Reading (versions 2 and 3, little-endian, split files), the block
//! formats of the weights, and writing.
//!
//! A file is not to be believed: whatever is in it, opening ends with a model whose every offset is good, or with one
//! line that says where the file is wrong. The head is kept in memory (10 to 20 MB for the largest vocabularies);
//! tensors are read a few rows at a time with `pread`, so that a model of any size passes through a small buffer.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sha2::{Digest, Sha256};

pub mod blocks;
mod cursor;
mod error;
mod header;
mod kind;
mod metadata;
mod parts;
mod tensor;
pub mod write;

pub use error::{GgufError, MetadataError, Shown};
pub use header::TensorInfo;
pub use kind::Kind;
pub use metadata::{Array, FromValue, Metadata, Strings, Value};
pub use tensor::Tensor;
pub use write::{WriteError, Writer};

/// One opened model: all parts of it, if it is split.
#[derive(Debug)]
pub struct Gguf {
    parts: Vec<parts::Part>,
    tensors: Vec<TensorInfo>,
    places: HashMap<String, usize>,
}

impl Gguf {
    /// Opens a model by its file, or by any file of a split one, and checks every offset, count, shape and type.
    ///
    /// # Errors
    ///
    /// [`GgufError`], in one line.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let mut parts = parts::open(path)?;
        let mut tensors = Vec::new();
        for (number, part) in parts.iter_mut().enumerate() {
            for mut tensor in part.header.tensors.drain(..) {
                tensor.part = number;
                tensors.push(tensor);
            }
        }
        let places = (tensors.iter().enumerate())
            .map(|(place, tensor)| (tensor.name.clone(), place))
            .collect();
        Ok(Self {
            parts,
            tensors,
            places,
        })
    }

    /// The format's version: 2 or 3.
    pub fn version(&self) -> u32 {
        self.parts[0].header.version
    }

    /// Keys and values; those of the first part, if it is split.
    pub fn metadata(&self) -> &Metadata {
        &self.parts[0].header.metadata
    }

    /// All tensors, in the file's order, part after part.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name, to be read.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.places.get(name).map(|&place| self.at(place))
    }

    /// All tensors, to be read, in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        (0..self.tensors.len()).map(|place| self.at(place))
    }

    fn at(&self, place: usize) -> Tensor<'_> {
        let info = &self.tensors[place];
        let part = &self.parts[info.part];
        Tensor::new(info, &part.path, &part.file)
    }

    /// The files and their sizes in bytes, in order.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&Path, u64)> {
        self.parts
            .iter()
            .map(|part| (part.path.as_path(), part.bytes))
    }

    /// The SHA-256 of the file in hexadecimal; of all parts one after another, if it is split (what
    /// `cat PARTS | sha256sum` says). `progress` is told the bytes done so far, of all parts together.
    ///
    /// # Errors
    ///
    /// What the system says of a file that can't be read.
    pub fn sha256(&self, progress: &mut dyn FnMut(u64)) -> io::Result<String> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        let mut done = 0;
        for part in &self.parts {
            let mut at = 0;
            loop {
                // Its own place in the file: a tensor may be read meanwhile.
                let read = match part.file.read_at(&mut buffer, at) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                hash.update(&buffer[..read]);
                at += read as u64;
                done += read as u64;
                progress(done);
            }
        }
        Ok(crate::store::hash::in_hexadecimal(hash))
    }
}
