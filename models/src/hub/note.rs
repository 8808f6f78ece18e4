//! Where a download came from and what its files must be: `download.json` beside them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::address::is_safe_path;
use super::transfer::Item;
use super::{Downloaded, HubError};
use crate::store::Stamp;

/// The file that says where a download came from.
pub(super) const FILE: &str = "download.json";

/// What [`FILE`] says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Note {
    pub schema: u32,
    pub from: String,
    /// Known by the server's commit, or ETag or date.
    pub version: Option<String>,
    pub licence: Option<String>,
    /// Seconds since 1970, UTC.
    pub fetched_unix: u64,
    pub files: Vec<NotedFile>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NotedFile {
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
    /// Whether that sum was known beforehand and compared, or only taken down.
    pub checked: bool,
    /// The file as it was when it was last hashed in its place.
    pub hashed: Option<Stamp>,
}

impl Note {
    pub fn write(&self, folder: &Path) -> Result<(), HubError> {
        let path = folder.join(FILE);
        let failed = |error: io::Error| HubError::writing("write", &path, error);
        let mut file = tempfile::Builder::new()
            .prefix(".download")
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(folder)
            .map_err(failed)?;
        serde_json::to_writer_pretty(&mut file, self).map_err(|error| failed(error.into()))?;
        file.write_all(b"\n").map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path)
            .map(drop)
            .map_err(|error| failed(error.error))
    }

    pub fn downloaded(&self, name: String, path: PathBuf) -> Downloaded {
        Downloaded {
            name,
            path,
            from: self.from.clone(),
            licence: self.licence.clone(),
            bytes: self
                .files
                .iter()
                .map(|file| file.bytes)
                .fold(0, u64::saturating_add),
            files: self.files.iter().map(|file| file.path.clone()).collect(),
        }
    }
}

pub(super) fn read_note(folder: &Path) -> Option<Note> {
    let text = fs::read(folder.join(FILE)).ok()?;
    let note: Note = serde_json::from_slice(&text).ok()?;
    // Whoever wrote into it: its paths stay in the folder.
    note.files
        .iter()
        .all(|file| is_safe_path(&file.path))
        .then_some(note)
}

/// Whether what is here is what would be fetched. A file from an address has no version that is known beforehand, so
/// only its sum can tell.
pub(super) fn is_same(note: &Note, version: Option<&str>, items: &[Item]) -> bool {
    let same_files = note.files.len() == items.len()
        && items.iter().all(|item| {
            note.files.iter().any(|file| {
                file.path == item.path && item.sha256.as_ref().is_none_or(|sum| *sum == file.sha256)
            })
        });
    let pinned = version.is_some() && note.version.as_deref() == version;
    same_files && (pinned || items.iter().all(|item| item.sha256.is_some()))
}
