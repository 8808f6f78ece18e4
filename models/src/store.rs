//! The models on this machine: where they lie, whether they are whole, how they get here.
//!
//! ```text
//! ROOT/models/NAME/…              the members of an entry and manifest.json
//! ROOT/lib/NAME-VERSION-MACHINE/… the same for a library
//! ROOT/imported/NAME/…           language models that `model import` made
//! ROOT/downloads/NAME/…           files from an address and download.json (see [`crate::hub`])
//! ROOT/accepted/HASH.json         terms that were accepted here, and when
//! ROOT/tmp/…                      what is being fetched; nothing here is ever used
//! ROOT/tmp/partial/…              downloads that were cut off, for the next try
//! ROOT/lock                       held while entries are fetched
//! ```
//!
//! The catalogue says what each file must be; the manifest only notes which files were found to be
//! that, so that not every start has to hash every byte again. Losing it costs a hash, no more.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::catalogue::{Build, Catalogue, Entry, Kind, ONNX_RUNTIME};
use crate::hub::HubError;

mod error;
pub(crate) mod hash;
mod manifest;
mod pull;
mod remove;
mod terms;
mod unpack;

pub use error::StoreError;
pub use pull::{Outcome, Progress, PullOptions};
pub use remove::Held;

pub(crate) use manifest::Stamp;
pub(crate) use pull::place;

use manifest::Manifest;

/// The store under one folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    catalogue: Catalogue,
    python: OsString,
}

/// A model's folder, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where the files are.
    pub path: PathBuf,
    /// The catalogue's entry; `None` for a folder the user named, whose files nobody vouches for.
    pub entry: Option<&'static Entry>,
}

impl Folder {
    /// The path of the file `name` in this folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Whether an entry is on this machine.
#[derive(Debug)]
pub enum State {
    /// Every file is there and right.
    Present,
    /// Nothing is there.
    Absent,
    /// Something is there, but not all of it or not the right thing.
    Damaged(StoreError),
    /// There is no build of it for this machine.
    NotForThisMachine,
}

/// One line of `firstword model list`.
#[derive(Debug)]
pub struct Listed {
    /// The entry.
    pub entry: &'static Entry,
    /// Where it is or would be.
    pub path: PathBuf,
    /// Its state.
    pub state: State,
    /// The size of its files when whole, in bytes.
    pub bytes: u64,
}

impl Store {
    /// The store under `root` (`FIRSTWORD_HOME`, or the cache folder by the XDG convention), which
    /// need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            catalogue: Catalogue::default(),
            python: "python3".into(),
        }
    }

    /// The same store with other entries.
    #[must_use]
    pub fn with_catalogue(self, catalogue: Catalogue) -> Self {
        Self { catalogue, ..self }
    }

    /// The same store, with another program than `python3` to fetch with.
    #[must_use]
    pub fn with_python(self, python: impl Into<OsString>) -> Self {
        Self {
            python: python.into(),
            ..self
        }
    }

    /// The folder this store is in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the language model that was imported under this name is, or would be.
    pub fn imported(&self, name: &str) -> PathBuf {
        self.root.join("imported").join(name)
    }

    /// Folders of language models that were imported, with their names, in order. Those under way are not among them.
    pub fn imports(&self) -> Vec<(String, PathBuf)> {
        let mut found: Vec<(String, PathBuf)> = self
            .root
            .join("imported")
            .read_dir()
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
            .filter(|(name, path)| !name.starts_with('.') && path.is_dir())
            .collect();
        found.sort();
        found
    }

    /// What it can hold.
    pub fn catalogue(&self) -> Catalogue {
        self.catalogue
    }

    /// The folder that holds ONNX Runtime once it was pulled (the `cache` of a library search).
    /// `None` where the catalogue has none for this machine.
    pub fn library_folder(&self) -> Option<PathBuf> {
        let entry = self.catalogue.find(ONNX_RUNTIME)?;
        entry
            .build_for(std::env::consts::ARCH)
            .map(|build| self.folder_of(entry, build))
    }

    /// Every entry and its state, found as [`Store::resolve`] finds it.
    pub fn list(&self) -> Vec<Listed> {
        self.catalogue
            .entries()
            .iter()
            .map(|entry| self.listed(entry))
            .collect()
    }

    fn listed(&self, entry: &'static Entry) -> Listed {
        let Some(build) = entry.build_for(std::env::consts::ARCH) else {
            return Listed {
                entry,
                path: self.root.clone(),
                state: State::NotForThisMachine,
                bytes: 0,
            };
        };
        let state = match self.check(entry, build, Effort::Changed) {
            Ok(_) => State::Present,
            Err(StoreError::Absent { .. }) => State::Absent,
            Err(error) => State::Damaged(error),
        };
        Listed {
            entry,
            path: self.folder_of(entry, build),
            state,
            bytes: build.bytes(),
        }
    }

    /// The folder of a model, ready for use: `name` is the name of an entry or of a download, or the
    /// path of a folder of the user's own (recognised by a `/` in it), which is taken as it is.
    ///
    /// Called at every use, so it hashes only what changed since it was last hashed: a file whose
    /// size, times, inode and device are the recorded ones is taken to be the same file.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::NoFolder`], [`StoreError::Absent`], or what is wrong
    /// with a file ([`StoreError::Missing`], [`StoreError::WrongSize`], [`StoreError::WrongHash`],
    /// [`StoreError::Download`]).
    pub fn resolve(&self, name: &str) -> Result<Folder, StoreError> {
        if name.contains('/') {
            let path = PathBuf::from(name);
            return match path.metadata() {
                Ok(metadata) if metadata.is_dir() => Ok(Folder { path, entry: None }),
                Ok(_) => Err(StoreError::NoFolder {
                    path,
                    reason: "it is not a folder".to_owned(),
                }),
                Err(error) => Err(StoreError::NoFolder {
                    path,
                    reason: error.to_string(),
                }),
            };
        }
        if self.catalogue.find(name).is_none() {
            match self.downloaded(name) {
                Ok(found) => {
                    let path = found.path;
                    return Ok(Folder { path, entry: None });
                }
                Err(HubError::Unknown { .. }) => {}
                Err(error) => return Err(StoreError::Download(error)),
            }
        }
        let (entry, build) = self.entry(name)?;
        self.check(entry, build, Effort::Changed)
    }

    /// Hashes every file of an entry, whatever was recorded.
    ///
    /// # Errors
    ///
    /// As [`Store::resolve`].
    pub fn verify(&self, name: &str) -> Result<Folder, StoreError> {
        let (entry, build) = self.entry(name)?;
        self.check(entry, build, Effort::Everything)
    }

    /// The entry of that name and its build for this machine.
    fn entry(&self, name: &str) -> Result<(&'static Entry, &'static Build), StoreError> {
        let Some(entry) = self.catalogue.find(name) else {
            return Err(StoreError::unknown(name, self.catalogue));
        };
        let machine = std::env::consts::ARCH;
        let build = entry.build_for(machine).ok_or(StoreError::NoBuild {
            name: entry.name,
            machine,
        })?;
        Ok((entry, build))
    }

    fn folder_of(&self, entry: &Entry, build: &Build) -> PathBuf {
        if entry.kind == Kind::Library {
            let machine = build.machine.unwrap_or("any");
            self.root
                .join("lib")
                .join(format!("{}-{}-{machine}", entry.name, build.version()))
        } else {
            self.root.join("models").join(entry.name)
        }
    }

    /// Checks the files of an entry and records what was hashed.
    fn check(
        &self,
        entry: &'static Entry,
        build: &'static Build,
        effort: Effort,
    ) -> Result<Folder, StoreError> {
        let path = self.folder_of(entry, build);
        if !path.is_dir() {
            return Err(StoreError::Absent {
                name: entry.name,
                path,
            });
        }
        let recorded = Manifest::read(&path);
        let mut seen = BTreeMap::new();
        let mut news = false;
        for member in build.members {
            let file = path.join(member.name);
            let opened = hash::open(&file).map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound => StoreError::Missing {
                    name: entry.name,
                    file: file.clone(),
                },
                _ => StoreError::Io {
                    action: "read",
                    path: file.clone(),
                    source,
                },
            })?;
            let unreadable = |source| StoreError::Io {
                action: "read",
                path: file.clone(),
                source,
            };
            let before = Stamp::of(&opened).map_err(unreadable)?;
            if before.bytes != member.bytes {
                let (expected, found) = (member.bytes, before.bytes);
                return Err(StoreError::WrongSize {
                    name: entry.name,
                    file,
                    expected,
                    found,
                });
            }
            if effort == Effort::Changed && recorded.vouches(member, &before) {
                seen.insert(member.name.to_owned(), before);
                continue;
            }
            let found = hash::of_file(&opened, &mut |_| {}).map_err(unreadable)?;
            if found != member.sha256 {
                return Err(StoreError::WrongHash {
                    name: entry.name,
                    file,
                    expected: member.sha256,
                    found,
                });
            }
            // A file that changed while it was read, or a moment before, is hashed again next time.
            if before.has_settled() && Stamp::of(&opened).is_ok_and(|after| after == before) {
                news = true;
                seen.insert(member.name.to_owned(), before);
            }
        }
        if news {
            // Best effort: on a read-only store every use hashes, and works all the same.
            let _ = Manifest::new(entry, build, seen).write(&path);
        }
        Ok(Folder {
            path,
            entry: Some(entry),
        })
    }
}

/// How much to hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// What is not known from last time.
    Changed,
    /// All.
    Everything,
}
