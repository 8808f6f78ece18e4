//! A folder that is not there before it is complete.
//!
//! A process that is killed leaves its unfinished folder behind. Each is therefore locked as long as its process lives
//! (`flock` on the folder itself, which the system undoes at any end), and the next import beside it removes those that
//! nobody holds. Making and locking one, and looking for dead ones, happen under a lock on the folder around them, so
//! that none is taken for dead before it was locked. A file system without such locks keeps what is left behind.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock};
use tempfile::TempDir;

use super::ImportError;

/// How the names of unfinished folders begin; six letters and digits follow.
const PREFIX: &str = ".importing-";

/// A folder under construction, beside its goal. Dropped, it is removed with all that is in it.
pub struct Unfinished {
    folder: TempDir,
    /// Locked: its process lives. `None` where the file system can't lock.
    _alive: Option<File>,
    parent: PathBuf,
}

impl Unfinished {
    /// Makes an empty folder beside `goal`, and removes those there whose process is dead.
    pub fn beside(goal: &Path) -> Result<Self, ImportError> {
        let parent = match goal.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        // Until the end of this function.
        let around = locked(parent, FlockOperation::LockExclusive);
        if around.is_some() {
            sweep(parent);
        }
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(parent)
            .map_err(|source| unwritable(parent, source))?;
        Ok(Self {
            _alive: locked(folder.path(), FlockOperation::NonBlockingLockExclusive),
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

/// The folder, locked; `None` where that can't be had.
fn locked(folder: &Path, how: FlockOperation) -> Option<File> {
    let file = File::open(folder).ok()?;
    loop {
        match flock(&file, how) {
            Ok(()) => return Some(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Removes unfinished folders that no process holds. What can't be removed is in nobody's way.
fn sweep(parent: &Path) {
    let ours = |name: &str| {
        name.strip_prefix(PREFIX)
            .is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        // Not followed, where it is a link.
        let owned = entry
            .metadata()
            .is_ok_and(|found| found.is_dir() && found.uid() == user);
        if !owned || !entry.file_name().to_str().is_some_and(ours) {
            continue;
        }
        if let Some(_dead) = locked(&path, FlockOperation::NonBlockingLockExclusive) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn unwritable(path: &Path, source: std::io::Error) -> ImportError {
    ImportError::Write {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_import_left_is_swept_and_a_living_one_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let goal = parent.path().join("model");
        let living = Unfinished::beside(&goal).unwrap();
        living.write("model.onnx", b"half").unwrap();
        // As a kill leaves it: there, and held by nobody.
        let dead = parent.path().join(".importing-aB3dE6");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("model.onnx.data"), b"half").unwrap();
        // Not ours, whatever they are for.
        let others = [
            ".importing-notes",
            ".importing-",
            "importing-aB3dE6",
            "model.old",
        ];
        for other in others {
            fs::create_dir(parent.path().join(other)).unwrap();
        }
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("kept"), b"").unwrap();
        let link = parent.path().join(".importing-aaaaaa");
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();

        let next = Unfinished::beside(&goal).unwrap();
        assert!(!dead.exists());
        assert!(living.path().join("model.onnx").exists());
        assert!(next.path().exists());
        assert!(link.exists() && elsewhere.path().join("kept").exists());
        for other in others {
            assert!(parent.path().join(other).exists(), "{other}");
        }
        // Finished, it is no longer under that name; the next sweep leaves it alone.
        living.finish(&goal, false).unwrap();
        drop(next);
        drop(Unfinished::beside(&goal).unwrap());
        assert!(goal.join("model.onnx").exists());
        assert!(elsewhere.path().join("kept").exists());
    }
}
