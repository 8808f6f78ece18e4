//! One file over the network: resumed where it was cut off, counted, hashed, and nothing else than what it must be.
//!
//! What has come lies under `FOLDER/files/PATH`; a note beside it says by what the server knows this version of
//! the file (ETag or date) and how long it is, so that the next try, of this process or a later one, asks for the
//! rest only (`Range` with `If-Range`, RFC 9110). A server that ignores the range, or whose file has changed, has
//! the file begun anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::client::{Answer, Client, Trouble, reason};
use super::{HubError, Url};
use crate::store::hash;

/// What a download is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another process fetches the same; this one waits for it.
    Waiting,
    /// The repository is asked what it holds.
    Asking {
        /// The address.
        address: &'a str,
    },
    /// A file is coming.
    Receiving {
        /// Its path.
        file: &'a str,
        /// Bytes here.
        done: u64,
        /// Bytes in all, where the server says so.
        total: Option<u64>,
    },
    /// The server can't resume, or has another file now: it is begun anew.
    Anew {
        /// The file's path.
        file: &'a str,
    },
    /// It did not work; there will be another try.
    Again {
        /// What happened, in one line.
        reason: &'a str,
        /// When.
        pause: Duration,
    },
}

/// Who is told, and who says when to stop.
pub struct Attended<'a> {
    /// Told of every step.
    pub tell: &'a mut dyn FnMut(Progress<'_>),
    /// Asked often; true stops the download and keeps what has come.
    pub stop: &'a dyn Fn() -> bool,
}

impl Attended<'_> {
    pub(super) fn check(&self) -> Result<(), HubError> {
        if (self.stop)() {
            Err(HubError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Waits before another try, looking up often.
    fn pause(&self, pause: Duration) -> Result<(), HubError> {
        const LOOK: Duration = Duration::from_millis(50);
        let mut left = pause;
        while !left.is_zero() {
            self.check()?;
            std::thread::sleep(left.min(LOOK));
            left = left.saturating_sub(LOOK);
        }
        self.check()
    }

    /// Runs `attempt` until it succeeds, fails for good, or has failed too often without getting on.
    /// `position` says how far it got.
    pub(super) fn persist<T>(
        &mut self,
        client: &Client,
        position: &dyn Fn() -> u64,
        attempt: &mut dyn FnMut(&mut Self) -> Result<T, Trouble>,
    ) -> Result<T, HubError> {
        // Less than this is no progress: a server that sends a byte and hangs up is broken.
        const GETTING_ON: u64 = 1 << 16;
        let patience = client.patience();
        let mut failures = 0;
        loop {
            self.check()?;
            let before = position();
            let trouble = match attempt(self) {
                Ok(done) => return Ok(done),
                Err(trouble) => trouble,
            };
            if position() >= before.saturating_add(GETTING_ON) {
                failures = 0;
            }
            failures += 1;
            if !trouble.passing || failures >= patience.tries.max(1) {
                return Err(trouble.error);
            }
            let pause = trouble
                .after
                .unwrap_or_else(|| patience.pause.saturating_mul(1 << (failures - 1).min(16)))
                .min(patience.longest_pause);
            (self.tell)(Progress::Again {
                reason: &trouble.error.to_string(),
                pause,
            });
            self.pause(pause)?;
        }
    }
}

/// A file to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it is.
    pub url: Url,
    /// Its path in the download, checked to be safe.
    pub path: String,
    /// Its length, where that is known.
    pub bytes: Option<u64>,
    /// Its SHA-256 in small hexadecimal digits, where that is known.
    pub sha256: Option<String>,
}

/// A file that has come, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// Whether that sum was known beforehand, and compared.
    pub checked: bool,
    /// By what the server knows this version of the file.
    pub validator: Option<String>,
}

/// By what a part of a file is known to belong to the rest.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    validator: Option<String>,
    total: Option<u64>,
}

/// Where one file grows.
struct Place<'a> {
    item: &'a Item,
    file: PathBuf,
    note: PathBuf,
}

impl Place<'_> {
    fn here(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_note(&self) -> Note {
        fs::read(&self.note)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    fn write_note(&self, note: &Note) -> Result<(), HubError> {
        let text = serde_json::to_vec(note).unwrap_or_default();
        fs::write(&self.note, text).map_err(|error| HubError::writing("write", &self.note, error))
    }

    /// Forgets what has come.
    fn clear(&self) -> Result<(), HubError> {
        for path in [&self.note, &self.file] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(HubError::writing("remove", path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Brings `item` into `folder` (see above for where it then lies).
///
/// # Errors
/// [`HubError`]; what has come by then is kept where it may be gone on with.
pub fn fetch(
    client: &Client,
    item: &Item,
    folder: &Path,
    attended: &mut Attended<'_>,
) -> Result<Arrived, HubError> {
    let file = folder.join("files").join(&item.path);
    let notes = folder.join("notes");
    let name = hash::in_hexadecimal(Sha256::new_with_prefix(item.path.as_bytes()));
    let place = Place {
        item,
        file,
        note: notes.join(name),
    };
    for needed in [place.file.parent().unwrap_or(folder), &notes] {
        fs::create_dir_all(needed).map_err(|error| HubError::writing("create", needed, error))?;
    }
    attended.persist(client, &|| place.here(), &mut |attended| {
        attempt(client, &place, attended)
    })
}

fn attempt(
    client: &Client,
    place: &Place<'_>,
    attended: &mut Attended<'_>,
) -> Result<Arrived, Trouble> {
    let item = place.item;
    let note = place.read_note();
    // A part can be gone on with if the server can tell whether it still is that file, or if we can afterwards.
    if note.validator.is_none() && item.sha256.is_none() && place.here() > 0 {
        place.clear()?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&place.file)
        .map_err(|error| HubError::writing("write", &place.file, error))?;
    let mut sum = Sha256::new();
    let resumed = hash_all(&mut file, &place.file, &mut sum)?;
    let known = item.bytes.or(note.total);
    if known == Some(resumed) {
        return finish(place, &file, sum, resumed, note.validator, resumed > 0);
    }
    if known.is_some_and(|known| resumed > known) {
        place.clear()?;
        return Err(Trouble::passing(cut(
            place,
            "more is here than there should be",
        )));
    }

    let range = format!("bytes={resumed}-");
    let mut headers = Vec::new();
    if resumed > 0 {
        headers.push(("range", range.as_str()));
        if let Some(validator) = &note.validator {
            headers.push(("if-range", validator.as_str()));
        }
    }
    let answer = client.get(&item.url, &headers)?;
    let begin = match begin(place, &answer, resumed, known)? {
        Some(begin) => begin,
        None => {
            place.clear()?;
            (attended.tell)(Progress::Anew { file: &item.path });
            return Err(Trouble::passing(cut(
                place,
                "the server has another file now, or can't resume",
            )));
        }
    };
    if begin.at == 0 && resumed > 0 {
        (attended.tell)(Progress::Anew { file: &item.path });
        file.set_len(0)
            .map_err(|error| HubError::writing("write", &place.file, error))?;
        io::Seek::rewind(&mut file)
            .map_err(|error| HubError::writing("write", &place.file, error))?;
        sum = Sha256::new();
    }
    if let (Some(expected), Some(linked)) = (&item.sha256, &answer.linked)
        && expected != linked
    {
        return Err(HubError::WrongHash {
            url: item.url.shown(),
            expected: expected.clone(),
            found: linked.clone(),
        }
        .into());
    }
    let total = begin.total;
    if let Some(total) = total {
        let needed = total - begin.at;
        let available = free(&place.file)?;
        if needed > available {
            return Err(HubError::NoRoom {
                path: place.file.clone(),
                needed,
                available,
            }
            .into());
        }
    }
    let validator = validator(&answer);
    place.write_note(&Note {
        validator: validator.clone(),
        total,
    })?;
    let done = receive(
        place,
        answer,
        &mut file,
        &mut sum,
        (begin.at, total),
        attended,
    )?;
    finish(place, &file, sum, done, validator, begin.at > 0)
}

/// Where the body of an answer begins in the file, and how long the file is.
struct Begin {
    at: u64,
    total: Option<u64>,
}

/// Reads what the answer is; `None` if what is here is of no use and must go.
fn begin(
    place: &Place<'_>,
    answer: &Answer,
    resumed: u64,
    known: Option<u64>,
) -> Result<Option<Begin>, HubError> {
    let item = place.item;
    let url = || item.url.shown();
    let nonsense = |reason: &str| HubError::Nonsense {
        url: url(),
        reason: reason.to_owned(),
    };
    match answer.header("content-encoding") {
        None | Some("identity" | "") => {}
        Some(_) => return Err(nonsense("it is compressed, which was not asked for")),
    }
    let page = answer
        .header("content-type")
        .is_some_and(|kind| kind.trim_start().starts_with("text/html"));
    if page && item.sha256.is_none() && !item.path.contains(".htm") {
        return Err(HubError::WebPage { url: url() });
    }
    let length = match answer.header("content-length") {
        None => None,
        Some(text) => Some(
            text.trim()
                .parse::<u64>()
                .map_err(|_| nonsense("its length is no number"))?,
        ),
    };
    let begin = match answer.status {
        206 => {
            if resumed == 0 {
                return Err(nonsense("it is a part, and the whole was asked for"));
            }
            let Some((from, total)) = answer.header("content-range").and_then(content_range) else {
                return Ok(None);
            };
            let rest = total.checked_sub(from);
            if from != resumed
                || known.is_some_and(|known| known != total)
                || length.is_some_and(|length| rest != Some(length))
            {
                return Ok(None);
            }
            Begin {
                at: from,
                total: Some(total),
            }
        }
        200 => Begin {
            at: 0,
            total: length,
        },
        416 if resumed > 0 => return Ok(None),
        status => return Err(HubError::Status { url: url(), status }),
    };
    if let (Some(expected), Some(found)) = (item.bytes, begin.total)
        && expected != found
    {
        return Err(HubError::WrongLength {
            url: url(),
            expected,
            found: found.to_string(),
        });
    }
    let chunked = answer
        .header("transfer-encoding")
        .is_some_and(|text| text.to_ascii_lowercase().contains("chunked"));
    let total = begin.total.or(item.bytes);
    if total.is_none() && !chunked && item.sha256.is_none() {
        return Err(HubError::NoLength { url: url() });
    }
    Ok(Some(Begin {
        at: begin.at,
        total,
    }))
}

/// Writes the body to the file from `at` on; returns how long the file then is.
fn receive(
    place: &Place<'_>,
    answer: Answer,
    file: &mut File,
    sum: &mut Sha256,
    (at, total): (u64, Option<u64>),
    attended: &mut Attended<'_>,
) -> Result<u64, Trouble> {
    // A body without an announced length is stopped before it fills the disk.
    const LOOK_EVERY: u64 = 64 << 20;
    const LEAVE: u64 = 128 << 20;
    let item = place.item;
    let mut body = answer.body.into_reader();
    let mut buffer = vec![0; 1 << 18];
    let mut done = at;
    let mut looked = at;
    loop {
        attended.check()?;
        let read = match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Trouble::passing(cut(place, &reason(&error)))),
        };
        done += read as u64;
        if let Some(expected) = total.filter(|total| done > *total) {
            place.clear()?;
            return Err(HubError::WrongLength {
                url: item.url.shown(),
                expected,
                found: "more".to_owned(),
            }
            .into());
        }
        sum.update(&buffer[..read]);
        file.write_all(&buffer[..read])
            .map_err(|error| HubError::writing("write", &place.file, error))?;
        if total.is_none() && done - looked >= LOOK_EVERY {
            looked = done;
            if free(&place.file)? < LEAVE {
                return Err(HubError::DiskFull {
                    path: place.file.clone(),
                }
                .into());
            }
        }
        (attended.tell)(Progress::Receiving {
            file: &item.path,
            done,
            total,
        });
    }
    match total {
        Some(total) if done < total => Err(Trouble::passing(cut(place, "the server hung up"))),
        _ => Ok(done),
    }
}

/// Compares the sum, and has the system write the file out.
fn finish(
    place: &Place<'_>,
    file: &File,
    sum: Sha256,
    bytes: u64,
    validator: Option<String>,
    resumed: bool,
) -> Result<Arrived, Trouble> {
    let found = hash::in_hexadecimal(sum);
    if let Some(expected) = &place.item.sha256
        && *expected != found
    {
        place.clear()?;
        let error = HubError::WrongHash {
            url: place.item.url.shown(),
            expected: expected.clone(),
            found,
        };
        // The part that was here may have been another file's.
        return Err(if resumed {
            Trouble::passing(error)
        } else {
            error.into()
        });
    }
    file.sync_all()
        .map_err(|error| HubError::writing("write", &place.file, error))?;
    Ok(Arrived {
        bytes,
        sha256: found,
        checked: place.item.sha256.is_some(),
        validator,
    })
}

fn cut(place: &Place<'_>, reason: &str) -> HubError {
    HubError::Cut {
        url: place.item.url.shown(),
        done: place.here(),
        reason: reason.to_owned(),
    }
}

/// Reads a file from its beginning to its end, where the next byte is then written.
fn hash_all(file: &mut File, path: &Path, sum: &mut Sha256) -> Result<u64, HubError> {
    let mut buffer = vec![0; 1 << 18];
    let mut done = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(done),
            Ok(read) => {
                sum.update(&buffer[..read]);
                done += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(HubError::Io {
                    action: "read",
                    path: path.to_owned(),
                    source,
                });
            }
        }
    }
}

/// By what the server knows this version: a strong ETag, else the date (RFC 9110, section 13.1.5).
fn validator(answer: &Answer) -> Option<String> {
    answer
        .header("etag")
        .filter(|tag| tag.starts_with('"'))
        .or_else(|| answer.header("last-modified"))
        .map(str::to_owned)
}

/// `bytes FROM-TO/TOTAL`: from and total, if they make sense together.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, total) = text
        .trim()
        .strip_prefix("bytes")?
        .trim_start()
        .split_once('/')?;
    let (from, to) = range.split_once('-')?;
    let (from, to, total) = (
        from.trim().parse().ok()?,
        to.trim().parse::<u64>().ok()?,
        total.trim().parse().ok()?,
    );
    (from <= to && to.checked_add(1) == Some(total)).then_some((from, total))
}

/// Bytes free for this user on the disk that holds `path`.
pub(super) fn free(path: &Path) -> Result<u64, HubError> {
    let found = rustix::fs::statvfs(path).map_err(|error| HubError::Io {
        action: "look at the disk that holds",
        path: path.to_owned(),
        source: error.into(),
    })?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_does_not_reach_to_the_end_is_none() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 10)));
        for wrong in [
            "bytes 5-8/10",
            "bytes 9-5/10",
            "bytes 5-9/*",
            "items 5-9/10",
            "bytes */10",
            "bytes 5-18446744073709551615/3",
        ] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
    }
}
