//! Which files are a log, and what they are if they are none.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::line;
use super::lines::{Lines, Next};
use super::shape::{Content, Device, Fault};
use super::{Range, Wall};
use crate::config::plain;
use crate::exit::name;

/// How far from the end of a file its last record is looked for: a record has a few kilobytes.
const TAIL: u64 = 256 << 10;
/// So many lines may be damaged before the first record of a file that is ours.
const HEAD_LINES: usize = 64;
/// So many other files are named when a folder holds no log.
const NAMED: usize = 3;

/// What a file without a byte is called.
const EMPTY: &str = "an empty file";

/// One file of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it is.
    pub path: PathBuf,
    /// Wall − monotonic, ns; schema 1 does not know it.
    pub wall_offset_ns: Option<i64>,
    /// The process that wrote it, and the start of the device in which it ran.
    pub process: Option<(u64, String)>,
    /// What device it is, in words.
    pub device: Option<String>,
    /// Version of the program that wrote it.
    pub version: Option<String>,
    /// Its first record.
    pub first: Option<Wall>,
    /// Its last whole record.
    pub last: Option<Wall>,
}

impl Segment {
    /// The wall clock at an instant of this segment's monotonic clock.
    #[must_use]
    pub fn wall(&self, at_ns: u64) -> Option<Wall> {
        let at = i64::try_from(at_ns).ok()?;
        Some(Wall(at.checked_add(self.wall_offset_ns?)?))
    }

    /// A file of which nothing is known yet.
    pub(super) fn unread(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            wall_offset_ns: None,
            process: None,
            device: None,
            version: None,
            first: None,
            last: None,
        }
    }

    /// Its path for messages.
    #[must_use]
    pub fn name(&self) -> String {
        name(&self.path)
    }

    /// Whether some of it may be in a range.
    pub(super) fn touches(&self, range: &Range) -> bool {
        // Records of one file are in order up to what a stage took; nothing near an edge is left out here.
        let slack = std::time::Duration::from_secs(3600);
        let after = |since: Wall| self.last.is_none_or(|last| last >= since.before(slack));
        let before = |until: Wall| self.first.is_none_or(|first| first.before(slack) < until);
        range.since.is_none_or(after) && range.until.is_none_or(before)
    }

    /// Reads what its first lines and its last one say.
    ///
    /// # Errors
    /// When it can't be read, or is no latency log.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let refuse = |error: &io::Error| ReadError::Unreadable {
            path: name(path),
            reason: plain(error),
        };
        let mut segment = Self::unread(path);
        let mut lines = Lines::open(path).map_err(|error| refuse(&error))?;
        let mut first_fault = None;
        let mut ours = false;
        for _ in 0..HEAD_LINES {
            match lines.advance().map_err(|error| refuse(&error))? {
                Next::Line | Next::Torn => {}
                Next::TooLong => {
                    first_fault.get_or_insert_with(|| "a line of more than 1 MiB".to_owned());
                    continue;
                }
                Next::End => break,
            }
            match line::parse(lines.current()) {
                Ok(found) => {
                    ours = true;
                    if let Content::Header(header) = &found.content {
                        segment.wall_offset_ns = header.wall_offset_ns;
                        segment.version = header.version.as_ref().map(|v| v.to_string());
                        segment.device = in_words(&header.device);
                        segment.process = header.pid.map(|pid| {
                            let boot = header.boot_id.as_deref().unwrap_or_default();
                            (pid, boot.to_owned())
                        });
                        segment.first = line::time(lines.current()).and_then(|at| segment.wall(at));
                    }
                    break;
                }
                Err(Fault::Newer(_)) => {
                    ours = true;
                    break;
                }
                Err(Fault::Empty) => {}
                Err(Fault::Damaged(why)) => {
                    first_fault.get_or_insert_with(|| what_it_is(lines.current(), why));
                }
            }
        }
        if !ours {
            return Err(ReadError::NotOurs {
                path: name(path),
                found: first_fault.unwrap_or_else(|| EMPTY.to_owned()),
            });
        }
        segment.last = last_time(path)
            .ok()
            .flatten()
            .and_then(|at| segment.wall(at))
            .or(segment.first);
        Ok(segment)
    }
}

/// `NVIDIA Jetson AGX Orin (cabinet-7), 12 cores`.
fn in_words(device: &Device<'_>) -> Option<String> {
    let model = device.model.as_deref().or(device.cpu.as_deref());
    let mut words = model.or(device.hostname.as_deref())?.to_owned();
    if let (Some(_), Some(host)) = (model, device.hostname.as_deref()) {
        words.push_str(&format!(" ({host})"));
    }
    if let Some(cores) = device.cores {
        words.push_str(&format!(", {cores} cores"));
    }
    Some(words)
}

/// What the first bytes of a file that is no log look like.
fn what_it_is(line: &[u8], why: String) -> String {
    if line.starts_with(&[0x1f, 0x8b]) {
        return "a gzip file; unpack it first (gunzip)".to_owned();
    }
    if line.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return "a zstd file; unpack it first (unzstd)".to_owned();
    }
    if line.starts_with(b"PK\x03\x04") {
        return "a zip file; unpack it first (unzip)".to_owned();
    }
    if line.starts_with(b"PAR1") {
        return "a Parquet file; DuckDB reads it, `firstword log` reads what the device wrote"
            .to_owned();
    }
    match std::str::from_utf8(line) {
        Err(_) => "binary data".to_owned(),
        Ok(text) if text.starts_with('{') => why,
        Ok(text) => {
            let begin: String = text.chars().take(40).collect();
            format!("a line that begins {begin:?}")
        }
    }
}

/// The time of the last whole line.
fn last_time(path: &Path) -> io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    // Behind the last line break is what is torn.
    let end = tail.iter().rposition(|&b| b == b'\n').unwrap_or(0);
    Ok(tail[..end].rsplit(|&b| b == b'\n').find_map(line::time))
}

/// The logs at one place, and why files beside them that have the name of one were left out.
pub(super) fn find(place: &Path) -> Result<(Vec<Segment>, Vec<ReadError>), ReadError> {
    let refuse = |error: &io::Error| ReadError::Unreadable {
        path: name(place),
        reason: plain(error),
    };
    let what = fs::metadata(place).map_err(|error| refuse(&error))?;
    if !what.is_dir() {
        if !what.is_file() {
            return Err(ReadError::NotOurs {
                path: name(place),
                found: "neither a file nor a folder".to_owned(),
            });
        }
        return Segment::open(place).map(|segment| (vec![segment], Vec::new()));
    }
    let mut folder = place.to_owned();
    let mut found = list(&folder).map_err(|error| refuse(&error))?;
    if found.logs.is_empty() && place.join("log").is_dir() {
        // The folder around it was copied.
        folder = place.join("log");
        found = list(&folder).map_err(|error| refuse(&error))?;
    }
    let (mut segments, mut refused) = (Vec::new(), Vec::new());
    for path in &found.logs {
        match Segment::open(path) {
            Ok(segment) => segments.push(segment),
            Err(error) => refused.push(error),
        }
    }
    if segments.is_empty() {
        return Err(match refused.into_iter().next() {
            Some(error) => error,
            None => ReadError::NoLog {
                path: name(&folder),
                found: found.in_words(),
            },
        });
    }
    // An empty file is what a writer leaves that was killed before its first record: nothing is missing.
    refused.retain(|error| !matches!(error, ReadError::NotOurs { found, .. } if found == EMPTY));
    Ok((segments, refused))
}

/// What a folder holds.
#[derive(Default)]
struct Listing {
    logs: Vec<PathBuf>,
    others: Vec<String>,
}

impl Listing {
    fn in_words(&self) -> String {
        match self.others.len() {
            0 => "an empty folder".to_owned(),
            n if n <= NAMED => self.others.join(", "),
            n => format!(
                "{} and {} others",
                self.others[..NAMED].join(", "),
                n - NAMED
            ),
        }
    }
}

/// Whether a file in a log folder is a segment, by its name: `latency.jsonl`, `latency.1.jsonl`, `latency-….jsonl`.
pub fn is_segment(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| {
        name.strip_prefix("latency")
            .and_then(|rest| rest.strip_suffix(".jsonl"))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    })
}

fn list(folder: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_segment(&path) && path.is_file() {
            listing.logs.push(path);
        } else {
            listing
                .others
                .push(name(path.file_name().unwrap_or_default()));
        }
    }
    listing.logs.sort();
    listing.others.sort();
    Ok(listing)
}

/// A place without a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It can't be read.
    #[error("{path}: can't be read: {reason}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
    /// A folder with other things in it.
    #[error("{path}: expected a folder with a latency log (latency*.jsonl), found {found}")]
    NoLog {
        /// Which.
        path: String,
        /// What is there.
        found: String,
    },
    /// A file with something else in it.
    #[error(
        "{path}: expected a latency log of firstword (one JSON object with `schema` and `kind` on each line), found {found}"
    )]
    NotOurs {
        /// Which.
        path: String,
        /// What it seems to be.
        found: String,
    },
}
