//! What can be wrong with a GGUF file, each in one line with what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a GGUF file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The system refused to open or read it.
    #[error("{} can't be read: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is another kind of file.
    #[error("{} is no GGUF file: expected it to begin with `GGUF`, found {found}", file.display())]
    NotGguf {
        /// The file.
        file: PathBuf,
        /// What its first bytes look like, and what to do about it.
        found: String,
    },
    /// It is GGUF of a version that is not read.
    #[error(
        "{} is GGUF version {version}, expected version 2 or 3: {}", file.display(),
        if *version < 2 { "fetch a newer conversion of the model" } else { "a newer firstword may read it" }
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// The version found.
        version: u32,
    },
    /// It was written for big-endian machines.
    #[error(
        "{} is a big-endian GGUF file, expected little-endian: fetch the usual build of the model",
        file.display()
    )]
    BigEndian {
        /// The file.
        file: PathBuf,
    },
    /// Something in it contradicts the format, or the file is cut.
    #[error(
        "{} is damaged: at byte {offset}, {what}: expected {expected}, found {found}; fetch it again",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where, in bytes from its start.
        offset: u64,
        /// What was being read.
        what: String,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A tensor has a type that is not read here.
    #[error(
        "tensor {tensor} of {} (at byte {offset}) has type {kind}, expected one of {}: fetch the model in one of these",
        file.display(), supported()
    )]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// Where its description begins, in bytes from the start.
        offset: u64,
        /// The tensor.
        tensor: Shown,
        /// The name of its type in ggml, or its number.
        kind: String,
    },
    /// A split file has a name that says nothing of its parts.
    #[error(
        "{} is part {} of {count} of a split model, so its name should end in \
         `-{:05}-of-{count:05}.gguf`: rename the parts so",
        file.display(), number + 1, number + 1
    )]
    PartName {
        /// The file.
        file: PathBuf,
        /// The part it is, from 0.
        number: u64,
        /// Parts in all.
        count: u64,
    },
    /// A part of a split file is not beside the others.
    #[error(
        "{} is missing: the model is split in {count} files, {absent} of them absent; put them all in one folder",
        file.display()
    )]
    PartMissing {
        /// The first that is missing.
        file: PathBuf,
        /// Parts in all.
        count: u64,
        /// How many are missing.
        absent: usize,
    },
    /// The parts of a split file don't belong together.
    #[error(
        "{} does not fit the other parts: {what}: expected {expected}, found {found}; fetch all parts again",
        file.display()
    )]
    PartMismatch {
        /// The part.
        file: PathBuf,
        /// What differs.
        what: String,
        /// What the others ask for.
        expected: String,
        /// What it says.
        found: String,
    },
    /// The caller asked for rows that a tensor doesn't have, or for other values than it holds.
    #[error(
        "tensor {tensor}: {what}: expected {expected}, found {found}; this is a bug of the caller"
    )]
    Request {
        /// The tensor.
        tensor: Shown,
        /// What was asked for.
        what: &'static str,
        /// What it has.
        expected: String,
        /// What was asked.
        found: String,
    },
}

/// Why a value can't be had from the metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The key is not there.
    #[error(
        "{} has no metadata key {key} (expected {expected}): fetch another conversion of the model",
        file.display()
    )]
    Missing {
        /// The file.
        file: PathBuf,
        /// The key.
        key: Shown,
        /// What it should have been.
        expected: &'static str,
    },
    /// The key is there, with another type or a value out of range.
    #[error(
        "metadata key {key} of {}: expected {expected}, found {found}: fetch another conversion of the model",
        file.display()
    )]
    Type {
        /// The file.
        file: PathBuf,
        /// The key.
        key: Shown,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
}

fn supported() -> String {
    super::Kind::ALL.map(super::Kind::name).join(", ")
}

/// A name out of a file, fit to be shown: quoted, without control characters, not longer than a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    /// More characters than this are cut: names in real files have fewer than 64.
    const LONGEST: usize = 80;

    /// Makes any bytes fit to be shown.
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref();
        // Four bytes at most make a character: enough is looked at, however long the name.
        let start = String::from_utf8_lossy(&name[..name.len().min(4 * Self::LONGEST)]);
        let mut text: String = start
            .chars()
            .take(Self::LONGEST)
            .collect::<String>()
            .escape_debug()
            .collect();
        if start.chars().count() > Self::LONGEST || name.len() > 4 * Self::LONGEST {
            text.push('…');
        }
        Self(format!("`{text}`"))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
