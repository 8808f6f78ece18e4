//! A file that is there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::OutputError;
use crate::exit::name;

/// Writes a file, replacing it: readers see the old one or the new one, never half of it, and what was there stays
/// when the disk is full. A device or pipe is written to as it is.
///
/// # Errors
/// When it can't be written.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let mut part = Part::create(path)?;
    let written = part.file().write_all(bytes);
    written
        .map_err(|error| OutputError::new(&name(path), error))
        .and_then(|()| part.keep())
}

/// A file that is being written, under another name until it is whole.
#[derive(Debug)]
pub struct Part {
    /// What messages call it.
    to: String,
    file: File,
    /// Its name now and its name to be; `None` for a device or pipe.
    names: Option<(PathBuf, PathBuf)>,
}

impl Part {
    /// Begins a file beside the one that it will replace.
    ///
    /// # Errors
    /// When it can't be created.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let to = name(path);
        begin(path)
            .map(|(file, names)| Self {
                to: to.clone(),
                file,
                names,
            })
            .map_err(|error| OutputError::new(&to, error))
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// It is whole: it takes its name.
    ///
    /// # Errors
    /// When it can't be renamed.
    pub fn keep(mut self) -> Result<(), OutputError> {
        let Some((part, path)) = self.names.take() else {
            return Ok(());
        };
        fs::rename(&part, path).map_err(|error| {
            let _ = fs::remove_file(&part);
            OutputError::new(&self.to, error)
        })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.names {
            let _ = fs::remove_file(part);
        }
    }
}

type Begun = (File, Option<(PathBuf, PathBuf)>);

fn begin(path: &Path) -> io::Result<Begun> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => {
            return Err(io::Error::other("is a folder; name a file in it"));
        }
        Ok(there) if !there.is_file() => {
            return Ok((File::options().write(true).open(path)?, None));
        }
        _ => {}
    }
    // What a link points to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let file_name = path
        .file_name()
        .ok_or_else(|| io::Error::other("is no name of a file"))?;
    let mut part = std::ffi::OsString::from(".");
    part.push(file_name);
    part.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(part);
    Ok((File::create(&part)?, Some((part, path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        fs::write(&path, "old").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let said = replace(folder.path(), b"x").unwrap_err().to_string();
        assert!(
            said.ends_with("can't be written: is a folder; name a file in it"),
            "{said}"
        );
        let said = replace(&folder.path().join("no/such"), b"x")
            .unwrap_err()
            .to_string();
        assert!(said.contains("no such file or directory"), "{said}");
        assert!(replace(Path::new("/dev/full"), b"x").is_err());
    }
}
