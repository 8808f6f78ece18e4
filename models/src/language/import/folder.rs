//! A folder that is not there before it is complete.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use tempfile::TempDir;

use super::ImportError;

/// A folder under construction, beside its goal. Dropped, it is removed with all that is in it.
pub struct Unfinished {
    folder: TempDir,
    parent: PathBuf,
}

impl Unfinished {
    /// Makes an empty folder beside `goal`.
    pub fn beside(goal: &Path) -> Result<Self, ImportError> {
        let parent = match goal.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        let folder = tempfile::Builder::new()
            .prefix(".importing-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(parent)
            .map_err(|source| unwritable(parent, source))?;
        Ok(Self {
            folder,
            parent: parent.to_owned(),
        })
    }

    /// Where it is for now.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of it.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), ImportError> {
        let path = self.path().join(name);
        let write = || File::create_new(&path)?.write_all(contents);
        write().map_err(|source| unwritable(&path, source))
    }

    /// Moves it to `goal` once every file is on the device.
    pub fn finish(self, goal: &Path, replace: bool) -> Result<(), ImportError> {
        let path = self.path();
        let sync = || {
            for entry in fs::read_dir(path)? {
                File::open(entry?.path())?.sync_all()?;
            }
            File::open(path)?.sync_all()
        };
        sync().map_err(|source| unwritable(path, source))?;
        let moved = rustix::fs::renameat_with(CWD, path, CWD, goal, RenameFlags::NOREPLACE);
        match moved {
            // The folder's handle forgets it: it is no longer ours to remove.
            Ok(()) => drop(self.folder.keep()),
            Err(rustix::io::Errno::EXIST) if replace => {
                // What was there is now under our name, and goes with it.
                rustix::fs::renameat_with(CWD, path, CWD, goal, RenameFlags::EXCHANGE)
                    .map_err(|error| unwritable(goal, error.into()))?;
            }
            Err(rustix::io::Errno::EXIST) => {
                return Err(ImportError::Exists {
                    goal: goal.to_owned(),
                });
            }
            Err(error) => return Err(unwritable(goal, error.into())),
        }
        let parent = &self.parent;
        let sync = File::open(parent).and_then(|folder| folder.sync_all());
        sync.map_err(|source| unwritable(parent, source))
    }
}

fn unwritable(path: &Path, source: std::io::Error) -> ImportError {
    ImportError::Write {
        path: path.to_owned(),
        source,
    }
}
