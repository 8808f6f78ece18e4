//! The files of a split model: `NAME-00001-of-00003.gguf` and so on. Any of them may be named; all are found, and each
//! must say that it is the part its name says.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::GgufError;
use super::header::Header;
use super::metadata::{FromValue, Metadata};

/// Which part this is, from 0.
pub const NUMBER_KEY: &str = "split.no";
/// How many parts there are.
pub const COUNT_KEY: &str = "split.count";
/// How many tensors there are in all parts.
pub const TENSORS_KEY: &str = "split.tensors.count";

/// One file, open, and what its head says.
#[derive(Debug)]
pub struct Part {
    /// Its path.
    pub path: PathBuf,
    /// Open for reading.
    pub file: File,
    /// Bytes it has.
    pub bytes: u64,
    /// Its head.
    pub header: Header,
}

impl Part {
    fn open(path: &Path) -> Result<Self, GgufError> {
        let fail = |source| GgufError::Io {
            file: path.to_owned(),
            source,
        };
        let file = crate::store::hash::open(path).map_err(fail)?;
        let bytes = file.metadata().map_err(fail)?.len();
        let header = Header::read(&file, path, bytes)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            header,
        })
    }

    fn mismatch(&self, what: &str, expected: impl ToString, found: impl ToString) -> GgufError {
        GgufError::PartMismatch {
            file: self.path.clone(),
            what: what.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// A key about the split; `None` if it is absent.
    fn split<T>(&self, key: &str) -> Result<Option<T>, GgufError>
    where
        T: for<'a> FromValue<'a>,
    {
        let metadata: &Metadata = &self.header.metadata;
        metadata.find(key).map_err(|_| {
            let found = metadata
                .get(key)
                .map_or_else(String::new, |value| value.description());
            self.mismatch(&format!("key `{key}`"), T::EXPECTED, found)
        })
    }
}

/// Opens the file, and all others of its model if it is split. In order; never empty.
pub fn open(path: &Path) -> Result<Vec<Part>, GgufError> {
    let named = Part::open(path)?;
    // One file that was split off nothing says 1, or 0.
    let count = named.split::<u64>(COUNT_KEY)?.unwrap_or(1);
    if count < 2 {
        return Ok(vec![named]);
    }

    let number = named.split::<u64>(NUMBER_KEY)?.unwrap_or(0);
    let stem = stem(path, number, count).ok_or_else(|| GgufError::PartName {
        file: path.to_owned(),
        number,
        count,
    })?;
    let paths: Vec<PathBuf> = (0..count)
        .map(|part| path.with_file_name(part_name(&stem, part, count)))
        .collect();
    let mut absent = paths.iter().filter(|path| !path.exists());
    if let Some(first) = absent.next() {
        return Err(GgufError::PartMissing {
            file: first.clone(),
            count,
            absent: 1 + absent.count(),
        });
    }

    let mut parts = Vec::new();
    for (part_number, path) in (0..).zip(&paths) {
        let part = Part::open(path)?;
        let found = part.split::<u64>(COUNT_KEY)?.unwrap_or(1);
        if found != count {
            return Err(part.mismatch("number of parts", count, found));
        }
        let found = part.split::<u64>(NUMBER_KEY)?.unwrap_or(0);
        if found != part_number {
            return Err(part.mismatch("which part it is, from 0", part_number, found));
        }
        parts.push(part);
    }
    check(&parts)?;
    Ok(parts)
}

/// Sees that the parts have all tensors, each once.
fn check(parts: &[Part]) -> Result<(), GgufError> {
    let mut names = std::collections::HashSet::new();
    for part in parts {
        for tensor in &part.header.tensors {
            if !names.insert(tensor.name.as_str()) {
                let name = super::error::Shown::new(&tensor.name).to_string();
                return Err(part.mismatch("tensors", "each in one part", format!("{name} in two")));
            }
        }
    }
    let first = &parts[0];
    match first.split::<u64>(TENSORS_KEY)? {
        Some(expected) if expected != names.len() as u64 => {
            Err(first.mismatch("number of tensors in all parts", expected, names.len()))
        }
        _ => Ok(()),
    }
}

/// The name without `-00001-of-00003.gguf`, if that is how it ends.
fn stem(path: &Path, number: u64, count: u64) -> Option<Vec<u8>> {
    let name = path.file_name()?.as_bytes();
    let stem = name.strip_suffix(suffix(number, count).as_bytes())?;
    Some(stem.to_owned())
}

fn part_name(stem: &[u8], number: u64, count: u64) -> OsString {
    let mut name = stem.to_owned();
    name.extend_from_slice(suffix(number, count).as_bytes());
    OsString::from_vec(name)
}

/// As llama.cpp's `llama_split_path` writes it: parts are counted from 1 in names.
fn suffix(number: u64, count: u64) -> String {
    format!("-{:05}-of-{count:05}.gguf", number.saturating_add(1))
}
