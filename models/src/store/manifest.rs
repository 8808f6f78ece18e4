//! Which files of an entry were hashed and found right, and by what they are known again.
//!
//! Hashing 44 MB of weights at every start would cost a small device a good part of a second. A
//! file is known again by its size, both times, inode and device: replacing it, or writing into it,
//! changes at least the change time, which no program can set.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::catalogue::{Build, Entry, Member};

pub const FILE: &str = "manifest.json";

/// What `manifest.json` says.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    name: String,
    licence: String,
    #[serde(default)]
    wheels: Vec<Origin>,
    members: BTreeMap<String, Note>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Origin {
    package: String,
    version: String,
    sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    sha256: String,
    /// The file as it was when that hash was computed; `None` until it is hashed in its place.
    hashed: Option<Stamp>,
}

/// By what a file is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its length.
    pub bytes: u64,
    /// Time of the last write, ns since 1970.
    modified: i128,
    /// Time of the last change of contents or attributes, ns since 1970.
    changed: i128,
    inode: u64,
    device: u64,
}

impl Stamp {
    /// The stamp of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let nanoseconds =
            |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Ok(Self {
            bytes: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            device: metadata.dev(),
        })
    }

    /// Whether the last change is far enough in the past that one more change would show. File times
    /// move in steps (a kernel tick, two seconds on FAT): two changes within one look like one.
    pub fn has_settled(&self) -> bool {
        const STEP: i128 = 2_000_000_000;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        i128::try_from(now).is_ok_and(|now| self.changed + STEP < now)
    }
}

impl Manifest {
    /// A manifest for `entry` with the stamps of the files that were hashed.
    pub fn new(entry: &Entry, build: &Build, mut hashed: BTreeMap<String, Stamp>) -> Self {
        let mut note = |member: &Member| Note {
            sha256: member.sha256.to_owned(),
            hashed: hashed.remove(member.name),
        };
        Self {
            name: entry.name.to_owned(),
            licence: entry.licence.to_owned(),
            wheels: build
                .wheels
                .iter()
                .map(|wheel| Origin {
                    package: wheel.package.to_owned(),
                    version: wheel.version.to_owned(),
                    sha256: wheel.sha256.to_owned(),
                })
                .collect(),
            members: build
                .members
                .iter()
                .map(|member| (member.name.to_owned(), note(member)))
                .collect(),
        }
    }

    /// The manifest of a folder; an empty one, which vouches for nothing, if it can't be read.
    pub fn read(folder: &Path) -> Self {
        fs::read(folder.join(FILE))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Whether the file with that stamp was hashed before and had the hash the catalogue wants now.
    pub fn vouches(&self, member: &Member, stamp: &Stamp) -> bool {
        self.members
            .get(member.name)
            .is_some_and(|note| note.sha256 == member.sha256 && note.hashed.as_ref() == Some(stamp))
    }

    /// Writes the manifest in one step: a reader sees the old one or this one.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        // Temporary files are private; another user's process may use this store.
        let mut file = tempfile::Builder::new()
            .prefix(".manifest")
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(folder)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.persist(folder.join(FILE))
            .map(drop)
            .map_err(|error| error.error)
    }
}
