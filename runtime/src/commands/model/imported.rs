//! Rows of `model list` for what `model import` and `model synth` made.

use std::fs;
use std::path::{Path, PathBuf};

use firstword_models::Store;
use firstword_models::language::import::{MANIFEST, Manifest};

use super::Row;
use crate::config::plain;
use crate::exit::printable;

/// A row for each imported model, by name.
pub(super) fn rows(store: &Store) -> Vec<Row> {
    let found = store.imports().into_iter();
    found.map(|(name, path)| row(name, path)).collect()
}

fn row(name: String, path: PathBuf) -> Row {
    let read = read(&path);
    let (licence, purpose, from) = match &read {
        Ok(manifest) => {
            let file = &manifest.source.file;
            let made = format!("imported from {}, {}", printable(file), manifest.precision);
            (
                manifest.licence.clone(),
                manifest.remark.clone().unwrap_or(made),
                Some(file.clone()),
            )
        }
        Err(_) => (None, "imported".to_owned(), None),
    };
    Row {
        name,
        kind: "import".to_owned(),
        state: if read.is_ok() { "ready" } else { "damaged" },
        reason: read.err(),
        bytes: bytes(&path),
        licence: licence.unwrap_or_else(|| "?".to_owned()),
        purpose: printable(&purpose).into_owned(),
        path: path.to_string_lossy().into_owned(),
        package: None,
        version: None,
        from,
    }
}

/// What the folder says of itself, or why it does not.
fn read(folder: &Path) -> Result<Manifest, String> {
    let bytes = fs::read(folder.join(MANIFEST))
        .map_err(|error| format!("{MANIFEST} can't be read: {}", plain(&error)))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| format!("{MANIFEST} is damaged: {error}; import the model again"))
}

/// Bytes of its files.
fn bytes(folder: &Path) -> u64 {
    let files = folder.read_dir().into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .filter(|file| file.is_file())
        .map(|file| file.len())
        .sum()
}
