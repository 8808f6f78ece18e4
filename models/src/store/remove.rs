//! Taking a model out of the store again.
//!
//! A name can stand for several things: weights that were pulled, the folder that was imported from them, files from an
//! address. All of them go. Each moves aside in one step, under the lock that pulls hold, and is deleted then: killed in
//! the middle, a model is there or not, never in parts, and the next pull sweeps the rest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Store, StoreError};

/// Something in the store that has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its folder, or a link that the user put there.
    pub path: PathBuf,
    /// Bytes of the files in it; of a link only the link goes, and nothing is freed.
    pub bytes: u64,
}

impl Store {
    /// What is in the store under this name; nothing for a name that is none.
    pub fn held(&self, name: &str) -> Vec<Held> {
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        if !is_name {
            return Vec::new();
        }
        let library = self.catalogue.find(name).and_then(|entry| {
            Some(self.folder_of(entry, entry.build_for(std::env::consts::ARCH)?))
        });
        let places =
            ["models", "imported", "downloads"].map(|part| self.root.join(part).join(name));
        let mut paths: Vec<PathBuf> = library.into_iter().chain(places).collect();
        paths.sort();
        paths.dedup();
        paths
            .into_iter()
            .filter(|path| path.symlink_metadata().is_ok())
            .map(|path| Held {
                bytes: bytes(&path),
                path,
            })
            .collect()
    }

    /// Every name that [`Store::held`] finds something for, sorted.
    pub fn names_held(&self) -> Vec<String> {
        let in_folders = ["models", "imported", "downloads"]
            .into_iter()
            .flat_map(|part| {
                let folder = fs::read_dir(self.root.join(part));
                let entries = folder.into_iter().flatten().flatten();
                entries.filter_map(|entry| entry.file_name().into_string().ok())
            });
        let listed = self.catalogue.entries().iter();
        let mut names: Vec<String> = listed
            .map(|entry| entry.name.to_owned())
            .chain(in_folders)
            .filter(|name| !self.held(name).is_empty())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Removes what [`Store::held`] found; the bytes freed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] for what can't be moved or deleted; [`StoreError::Outside`] for what is not in this store.
    pub fn remove(&self, held: &[Held]) -> Result<u64, StoreError> {
        let _lock = self.lock(&mut |_| {})?;
        let tmp = self.root.join("tmp");
        fs::create_dir_all(&tmp).map_err(|error| StoreError::writing("create", &tmp, error))?;
        let mut freed = 0;
        for Held { path, bytes } in held {
            let inside = ["models", "imported", "downloads", "lib"]
                .iter()
                .any(|part| path.parent() == Some(&self.root.join(part)));
            if !inside || path.file_name().is_none() {
                return Err(StoreError::Outside { path: path.clone() });
            }
            let failed = |error: io::Error| StoreError::writing("remove", path, error);
            let aside = tempfile::Builder::new()
                .prefix("removed-")
                .tempdir_in(&tmp)
                .map_err(failed)?;
            match fs::rename(path, aside.path().join("model")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                moved => moved.map_err(failed)?,
            }
            aside.close().map_err(failed)?;
            freed += bytes;
        }
        Ok(freed)
    }
}

/// Bytes of the files under a path. Links are not followed.
fn bytes(path: &Path) -> u64 {
    let Ok(found) = path.symlink_metadata() else {
        return 0;
    };
    if found.is_file() {
        return found.len();
    }
    if !found.is_dir() {
        return 0;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| bytes(&entry.path()))
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, bytes: usize) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; bytes]).unwrap();
    }

    #[test]
    fn all_that_a_name_stands_for_goes_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "models/gemma-3-270m/weights.gguf", 1000);
        write(root.path(), "imported/gemma-3-270m/model.onnx", 20);
        write(root.path(), "imported/gemma-3-270m/deep/model.onnx.data", 3);
        write(root.path(), "imported/mine/model.onnx", 500);
        write(root.path(), "accepted/0.json", 1);
        let store = Store::new(root.path().to_owned());
        assert_eq!(store.names_held(), ["gemma-3-270m", "mine"]);
        let held = store.held("gemma-3-270m");
        assert_eq!(held.len(), 2);
        assert_eq!(store.remove(&held).unwrap(), 1023);
        assert_eq!(store.names_held(), ["mine"]);
        assert!(root.path().join("accepted/0.json").exists());
        assert_eq!(fs::read_dir(root.path().join("tmp")).unwrap().count(), 0);
        // Again: it is gone already, and nothing is freed.
        assert_eq!(store.remove(&held).unwrap(), 0);
    }

    #[test]
    fn nothing_outside_the_store_is_touched() {
        let outside = tempfile::tempdir().unwrap();
        write(outside.path(), "weights", 7);
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "imported/mine/model.onnx", 5);
        let link = root.path().join("models/linked");
        fs::create_dir_all(root.path().join("models")).unwrap();
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        let store = Store::new(root.path().to_owned());
        for name in [
            "",
            ".",
            "..",
            "../imported",
            "/",
            "imported/mine",
            "mine/",
            "\0",
        ] {
            assert_eq!(store.held(name), [], "{name:?}");
        }
        // Of a link, the link goes.
        let held = store.held("linked");
        assert_eq!(store.remove(&held).unwrap(), 0);
        assert!(link.symlink_metadata().is_err());
        assert!(outside.path().join("weights").exists());
        for path in [outside.path().to_owned(), root.path().join("imported/..")] {
            let held = [Held { path, bytes: 1 }];
            let error = store.remove(&held).unwrap_err();
            assert!(matches!(error, StoreError::Outside { .. }), "{error}");
        }
        assert!(root.path().join("imported/mine/model.onnx").exists());
    }
}
