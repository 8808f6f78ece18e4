//! Whole downloads in the store: `ROOT/downloads/NAME/` with the files and `download.json`.
//!
//! A download grows under `ROOT/tmp/partial/KEY`, where a try that was cut off is found again by the next one; when all
//! of it is there and right it is renamed into place in one step. Partial downloads that nobody came back for are swept
//! after a week.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::address::{Address, safe_name};
use super::client::{Client, Patience, Surroundings, is_sha256};
use super::note::{FILE, Note, NotedFile, is_same, read_note};
use super::repository;
use super::transfer::{Attended, Item, Progress, fetch, free};
use super::{HubError, Token, Url};
use crate::store::{Stamp, Store, hash, place};

/// What to fetch and how.
#[derive(Debug, Clone)]
pub struct Download {
    /// From where.
    pub address: Address,
    /// Under which name; made from the address where none is given.
    pub name: Option<String>,
    /// The SHA-256 that a single file must have.
    pub sha256: Option<String>,
    /// The token given for this download: it goes to the server of the address only.
    pub token: Option<Token>,
    /// Never touch the network.
    pub offline: bool,
}

/// What a download did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// It was there, whole and from the same version.
    AlreadyThere,
    /// It was fetched.
    Fetched,
    /// It was there from an older version, or damaged, and was replaced.
    Replaced,
}

/// A download in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downloaded {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// Where it came from, without keys.
    pub from: String,
    /// The licence its repository claims.
    pub licence: Option<String>,
    /// Size of all files in bytes.
    pub bytes: u64,
    /// Its files, as paths below `path`.
    pub files: Vec<String>,
}

impl Downloaded {
    /// Its GGUF file, the first part where there are several: what `firstword model import` takes.
    #[must_use]
    pub fn gguf(&self) -> Option<PathBuf> {
        let mut files: Vec<&String> = self
            .files
            .iter()
            .filter(|file| file.ends_with(".gguf"))
            .collect();
        files.sort();
        files.first().map(|file| self.path.join(file))
    }

    /// Whether it holds an ONNX graph.
    #[must_use]
    pub fn has_onnx(&self) -> bool {
        self.files.iter().any(|file| file.ends_with(".onnx"))
    }
}

/// How much to hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Changed,
    Everything,
}

impl Store {
    /// Fetches files from an address into the store.
    ///
    /// # Errors
    /// [`HubError`]; the store is then as it was before, and what has come is kept for the next try where it can be
    /// gone on with.
    pub fn download(
        &self,
        download: &Download,
        surroundings: &Surroundings,
        patience: Patience,
        user: Option<Token>,
        attended: &mut Attended<'_>,
    ) -> Result<(Downloaded, Got), HubError> {
        let name = self.name_for(download)?;
        let sum = match &download.sha256 {
            Some(text) if !is_sha256(text) => {
                return Err(HubError::NoSum {
                    found: text.clone(),
                });
            }
            sum => sum.as_ref().map(|text| text.to_ascii_lowercase()),
        };
        let from = download.address.to_string();
        let target = self.downloads_folder().join(&name);
        if let Some(there) = read_note(&target).filter(|there| there.from != from) {
            return Err(HubError::Taken {
                name,
                from: there.from,
            });
        }
        if target.exists() && read_note(&target).is_none() {
            let from = "somewhere unknown".to_owned();
            return Err(HubError::Taken { name, from });
        }
        if download.offline {
            // What is here and whole needs no network.
            return match self.check_download(&name, Effort::Changed) {
                Ok(there) => Ok((there, Got::AlreadyThere)),
                Err(_) => Err(HubError::Offline { address: from }),
            };
        }
        let client = client(download, surroundings, patience, user, sum.is_some())?;
        let (version, licence, mut items) = match &download.address {
            Address::Repository(wanted) => {
                let chosen = repository::choose(&client, wanted, attended)?;
                (Some(chosen.commit), chosen.licence, chosen.items)
            }
            Address::File(url) => {
                let path = url
                    .file_name()
                    .and_then(|name| safe_name(&name))
                    .filter(|path| path != FILE);
                let item = Item {
                    url: url.clone(),
                    path: path.unwrap_or_else(|| "file".to_owned()),
                    bytes: None,
                    sha256: None,
                };
                (None, None, vec![item])
            }
        };
        if let Some(sum) = sum {
            match &mut items[..] {
                [item] => item.sha256 = Some(sum),
                items => {
                    // The licence that comes along is not what the sum is of.
                    let mut wanted: Vec<_> = items
                        .iter_mut()
                        .filter(|item| item.path.contains(".gguf"))
                        .collect();
                    let files = wanted.len();
                    match &mut wanted[..] {
                        [item] => item.sha256 = Some(sum),
                        _ => {
                            return Err(HubError::OneSum {
                                address: from,
                                files,
                            });
                        }
                    }
                }
            }
        }

        let there = self.check_download(&name, Effort::Changed);
        if let (Ok(there), Some(note)) = (&there, read_note(&target))
            && is_same(&note, version.as_deref(), &items)
        {
            return Ok((there.clone(), Got::AlreadyThere));
        }
        let work = self.work_folder(&from, version.as_deref(), attended)?;
        let files = work.fetch_all(&client, &items, download, attended)?;
        let version =
            version.or_else(|| files.first().and_then(|(_, validator)| validator.clone()));
        let note = Note {
            schema: 1,
            from,
            version,
            licence,
            fetched_unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            files: files.into_iter().map(|(file, _)| file).collect(),
        };
        let fresh = work.folder.join("files");
        note.write(&fresh)?;
        let existed = target.exists();
        place(&fresh, &target)
            .map_err(|error| HubError::writing("put in place", &target, error))?;
        let _ = fs::remove_dir_all(&work.folder);
        let got = if existed { Got::Replaced } else { Got::Fetched };
        Ok((note.downloaded(name, target), got))
    }

    /// Every download with what is wrong with it, if something is; in the order of names.
    #[must_use]
    pub fn downloads(&self) -> Vec<(Downloaded, Option<HubError>)> {
        let mut names: Vec<String> = self
            .downloads_folder()
            .read_dir()
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
            .into_iter()
            .filter_map(|name| {
                let path = self.downloads_folder().join(&name);
                let note = read_note(&path)?;
                let wrong = self.check_download(&name, Effort::Changed).err();
                Some((note.downloaded(name, path), wrong))
            })
            .collect()
    }

    /// A download by name, its files checked as [`Store::resolve`] checks an entry's.
    ///
    /// # Errors
    /// [`HubError::Unknown`], or what is wrong with a file ([`HubError::Damaged`]).
    pub fn downloaded(&self, name: &str) -> Result<Downloaded, HubError> {
        self.check_download(name, Effort::Changed)
    }

    /// Hashes every file of a download, whatever was noted.
    ///
    /// # Errors
    /// As [`Store::downloaded`].
    pub fn verify_download(&self, name: &str) -> Result<Downloaded, HubError> {
        self.check_download(name, Effort::Everything)
    }

    fn downloads_folder(&self) -> PathBuf {
        self.root().join("downloads")
    }

    fn name_for(&self, download: &Download) -> Result<String, HubError> {
        let refuse = |name: &str, reason| HubError::Name {
            name: name.to_owned(),
            reason,
        };
        let name = match (&download.name, &download.address) {
            (Some(name), _) => {
                if safe_name(name).as_ref() != Some(name) {
                    return Err(refuse(
                        name,
                        "expected letters, digits, '.', '_' and '-', not beginning with '.' or '-'",
                    ));
                }
                name.clone()
            }
            (None, Address::Repository(repository)) => {
                let pattern = repository.pattern.as_deref().unwrap_or_default();
                // Of a repository with many models, one file or folder gives the name.
                let part = pattern
                    .trim_end_matches(['/', '*'])
                    .rsplit('/')
                    .next()
                    .unwrap_or_default();
                match stem(part) {
                    "" => repository.name.clone(),
                    part if part.contains(['*', '?']) => repository.name.clone(),
                    part if pattern.ends_with(".gguf") => part.to_owned(),
                    part => format!("{}-{part}", repository.name),
                }
            }
            (None, Address::File(url)) => stem(&url.file_name().unwrap_or_default()).to_owned(),
        };
        let name =
            safe_name(&name).ok_or_else(|| refuse(&name, "nothing of it can be a file name"))?;
        if self.catalogue().find(&name).is_some() {
            return Err(refuse(&name, "a model of the catalogue is called that"));
        }
        Ok(name)
    }

    /// The folder in which a download of that version grows, held for this process alone.
    fn work_folder(
        &self,
        from: &str,
        version: Option<&str>,
        attended: &mut Attended<'_>,
    ) -> Result<Work, HubError> {
        let partial = self.root().join("tmp").join(PARTIAL);
        fs::create_dir_all(&partial)
            .map_err(|error| HubError::writing("create", &partial, error))?;
        sweep(&partial);
        let mut key = Sha256::new_with_prefix(from.as_bytes());
        key.update([0]);
        key.update(version.unwrap_or_default().as_bytes());
        let key = hash::in_hexadecimal(key);
        let key = &key[..16];
        let lock = partial.join(format!("{key}.lock"));
        let failed = |error: io::Error| HubError::writing("lock", &lock, error);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock)
            .map_err(failed)?;
        let mut told = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    if !told {
                        (attended.tell)(Progress::Waiting);
                        told = true;
                    }
                    attended.check()?;
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        let folder = partial.join(key);
        fs::create_dir_all(&folder).map_err(|error| HubError::writing("create", &folder, error))?;
        Ok(Work {
            folder,
            _lock: file,
        })
    }

    fn check_download(&self, name: &str, effort: Effort) -> Result<Downloaded, HubError> {
        let unknown = || HubError::Unknown {
            name: name.to_owned(),
        };
        if safe_name(name).as_deref() != Some(name) {
            return Err(unknown());
        }
        let path = self.downloads_folder().join(name);
        let mut note = read_note(&path).ok_or_else(unknown)?;
        let from = note.from.clone();
        let mut news = false;
        for noted in &mut note.files {
            let file = path.join(&noted.path);
            let damaged = |reason: String| HubError::Damaged {
                file: file.clone(),
                reason,
                folder: path.clone(),
                from: from.clone(),
            };
            let opened = hash::open(&file).map_err(|error| damaged(error.to_string()))?;
            let before = Stamp::of(&opened).map_err(|error| damaged(error.to_string()))?;
            if before.bytes != noted.bytes {
                return Err(damaged(format!(
                    "expected {} bytes, found {}",
                    noted.bytes, before.bytes
                )));
            }
            if effort == Effort::Changed && noted.hashed.as_ref() == Some(&before) {
                continue;
            }
            let found =
                hash::of_file(&opened, &mut |_| {}).map_err(|error| damaged(error.to_string()))?;
            if found != noted.sha256 {
                return Err(damaged(format!(
                    "SHA-256 expected {}, found {found}",
                    noted.sha256
                )));
            }
            if before.has_settled() && Stamp::of(&opened).is_ok_and(|after| after == before) {
                news |= noted.hashed.as_ref() != Some(&before);
                noted.hashed = Some(before);
            }
        }
        if news {
            // Best effort: on a read-only store every use hashes, and works all the same.
            let _ = note.write(&path);
        }
        Ok(note.downloaded(name.to_owned(), path))
    }
}

/// The folder for downloads that were cut off, in `ROOT/tmp`.
pub(crate) const PARTIAL: &str = "partial";

/// Removes partial downloads that nobody came back for.
pub(crate) fn sweep(partial: &Path) {
    const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
    for entry in partial.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        // The lock is touched when a try begins.
        let age = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .map(|at| at.elapsed().unwrap_or_default());
        if !age.is_ok_and(|age| age > KEPT) {
            continue;
        }
        let Ok(lock) = File::open(&path) else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(path.with_extension(""));
            let _ = fs::remove_file(&path);
        }
    }
}

/// The folder of a download on its way, and the lock on it.
struct Work {
    folder: PathBuf,
    _lock: File,
}

impl Work {
    fn fetch_all(
        &self,
        client: &Client,
        items: &[Item],
        download: &Download,
        attended: &mut Attended<'_>,
    ) -> Result<Vec<(NotedFile, Option<String>)>, HubError> {
        // So that sweeping knows that somebody came back.
        let now = fs::FileTimes::new().set_modified(SystemTime::now());
        let _ = self._lock.set_times(now);
        self.clear_strangers(items)?;
        let here = |item: &Item| {
            self.folder
                .join("files")
                .join(&item.path)
                .metadata()
                .map_or(0, |found| found.len())
        };
        let needed: u64 = items
            .iter()
            .map(|item| item.bytes.unwrap_or(0).saturating_sub(here(item)))
            .fold(0, u64::saturating_add);
        let available = free(&self.folder)?;
        if needed > available {
            return Err(HubError::NoRoom {
                path: self.folder.clone(),
                needed,
                available,
            });
        }
        let mut files = Vec::with_capacity(items.len());
        for item in items {
            let arrived = fetch(client, item, &self.folder, attended).map_err(|error| {
                match &download.address {
                    Address::Repository(wanted) => {
                        let page = client
                            .endpoint()
                            .below(&[&wanted.owner, &wanted.name], None);
                        repository::gated(error, wanted, &page)
                    }
                    Address::File(_) => error,
                }
            })?;
            let noted = NotedFile {
                path: item.path.clone(),
                bytes: arrived.bytes,
                sha256: arrived.sha256,
                checked: arrived.checked,
                hashed: None,
            };
            files.push((noted, arrived.validator));
        }
        Ok(files)
    }

    /// Removes files of an earlier try that are not wanted now (another pattern has another key; this is for
    /// repositories whose licence file came and went): they must not be put in place with the rest.
    fn clear_strangers(&self, items: &[Item]) -> Result<(), HubError> {
        let files = self.folder.join("files");
        let mut folders = vec![files.clone()];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !items.iter().any(|item| files.join(&item.path) == path) {
                    fs::remove_file(&path)
                        .map_err(|error| HubError::writing("remove", &path, error))?;
                }
            }
        }
        Ok(())
    }
}

fn client(
    download: &Download,
    surroundings: &Surroundings,
    patience: Patience,
    user: Option<Token>,
    has_sum: bool,
) -> Result<Client, HubError> {
    let server: &Url = match &download.address {
        Address::File(url) => url,
        Address::Repository(_) => &surroundings.endpoint,
    };
    let safe = server.https || server.is_loopback();
    if !safe {
        if download.token.is_some() {
            return Err(HubError::TokenInTheOpen {
                url: server.shown(),
            });
        }
        // An endpoint of plain http was set by the user (a mirror in the house); a file must be known by its sum.
        if matches!(download.address, Address::File(_)) && !has_sum {
            return Err(HubError::Plain {
                url: server.shown(),
            });
        }
    }
    let token = match (&download.token, user) {
        (Some(token), _) => Some((token.clone(), server.clone())),
        (None, Some(token)) => Some((token, surroundings.endpoint.clone())),
        (None, None) => None,
    };
    Ok(Client::new(surroundings.clone(), patience, token))
}

/// A file's name without the ending that says what it is.
fn stem(name: &str) -> &str {
    [".gguf", ".onnx"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(address: &str) -> Result<String, HubError> {
        let endpoint = Url::parse("https://huggingface.co").unwrap();
        Store::new("unused".into()).name_for(&Download {
            address: Address::parse(address, &endpoint).unwrap(),
            name: None,
            sha256: None,
            token: None,
            offline: false,
        })
    }

    #[test]
    fn a_download_is_named_after_what_was_asked_for() {
        for (address, expected) in [
            (
                "hf:microsoft/Phi-3-mini-4k-instruct-gguf",
                "Phi-3-mini-4k-instruct-gguf",
            ),
            (
                "hf:o/r/Phi-3-mini-4k-instruct-q4.gguf",
                "Phi-3-mini-4k-instruct-q4",
            ),
            ("hf:o/r/*q4*", "r"),
            ("hf:o/r/cpu/int4/", "r-int4"),
            ("https://host/a/b%20c.gguf?key=1", "b-c"),
        ] {
            assert_eq!(name(address).unwrap(), expected, "{address}");
        }
        // Names of the catalogue stay the catalogue's.
        let error = name("https://host/smollm2-135m-instruct.gguf").unwrap_err();
        assert!(error.to_string().contains("--as"), "{error}");
    }
}
