//! Which terms were accepted on this machine: a note for each, under the hash of the text.
//!
//! Some weights come under terms that their authors want accepted by whoever uses them. Nothing of such an entry is
//! fetched before somebody has. The note says what was accepted (title, address, SHA-256 of the text) and when; if the
//! catalogue one day pins another text, its hash is another and it is asked for again.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::{Store, StoreError};
use crate::catalogue::{Entry, Terms};

/// A note under `ROOT/accepted`.
#[derive(Debug, Serialize)]
struct Acceptance<'a> {
    title: &'a str,
    dated: &'a str,
    address: &'a str,
    sha256: &'a str,
    /// For which entry they were accepted first.
    entry: &'a str,
    /// Seconds since 1970, UTC.
    accepted_unix: u64,
}

impl Store {
    /// Whether these terms were accepted on this machine before.
    pub fn has_accepted(&self, terms: &Terms) -> bool {
        self.note_of(terms).is_file()
    }

    /// The entries among `names` whose terms must be accepted before they can be fetched: those that are not here and
    /// whose terms nobody has accepted yet. Unknown names are left out; [`Store::pull`] refuses them.
    pub fn to_accept(&self, names: &[&str]) -> Vec<(&'static Entry, &'static Terms)> {
        names
            .iter()
            .filter_map(|name| self.entry(name).ok())
            .filter_map(|(entry, build)| Some((entry, build, entry.terms?)))
            .filter(|(entry, build, terms)| {
                !self.has_accepted(terms)
                    && self.check(entry, build, super::Effort::Changed).is_err()
            })
            .map(|(entry, _, terms)| (entry, terms))
            .collect()
    }

    /// Notes durably that the terms of `entry` were accepted now.
    pub(super) fn accept(&self, entry: &Entry, terms: &Terms) -> Result<(), StoreError> {
        let path = self.note_of(terms);
        let failed = |error: io::Error| StoreError::writing("write", &path, error);
        let folder = self.root.join("accepted");
        fs::create_dir_all(&folder).map_err(failed)?;
        let note = Acceptance {
            title: terms.title,
            dated: terms.dated,
            address: terms.address,
            sha256: terms.sha256,
            entry: entry.name,
            accepted_unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        };
        let mut file = tempfile::Builder::new()
            .prefix(".accepted")
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(&folder)
            .map_err(failed)?;
        serde_json::to_writer_pretty(&mut file, &note).map_err(|error| failed(error.into()))?;
        file.write_all(b"\n").map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path)
            .map(drop)
            .map_err(|error| failed(error.error))
    }

    fn note_of(&self, terms: &Terms) -> PathBuf {
        self.root
            .join("accepted")
            .join(format!("{}.json", terms.sha256))
    }
}
