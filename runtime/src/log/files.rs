//! Segments on the disk: their names, their first line, when the next one begins, and which one goes when the folder is full.
//!
//! A process writes segments of its own and never into an older one, so what a power cut left torn stays the last line of
//! its file. The segment that is being written is locked (flock): a process that makes room passes over it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::Serialize;

use super::clock::Reading;
use super::device::Identity;
use super::read::{Wall, is_segment};
use crate::record::SCHEMA;

/// A file takes this much of the disk at least.
const BLOCK: u64 = 4096;
/// More segments than this are not kept, however small: each start of the program makes one.
const MOST: usize = 1024;
/// NTP turns the wall slowly; when it is off by this much from what the segment's first line says, a new one begins.
const DRIFT_NS: u64 = 200_000_000;

/// Sizes and ages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// All segments together.
    pub budget: u64,
    /// One of them.
    pub segment: u64,
    /// Longest time in one.
    pub age: Duration,
}

/// The segments of one process.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    limits: Limits,
    identity: Identity,
    boot_id: Option<String>,
    number: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Bytes of whole lines.
    bytes: u64,
    began: Reading,
}

/// The first line of a segment.
#[derive(Serialize)]
struct Header<'a> {
    schema: u32,
    kind: &'static str,
    at_ns: u64,
    program: &'static str,
    version: &'static str,
    pid: u32,
    number: u32,
    boot_id: Option<&'a str>,
    mono_ns: u64,
    wall_ns: i64,
    wall_offset_ns: i64,
    wall_uncertainty_ns: u64,
    boottime_offset_ns: i64,
    device: &'a Identity,
    lost_before: u64,
}

impl Files {
    pub fn new(folder: &Path, limits: Limits) -> Self {
        let budget = limits.budget.max(4 * BLOCK);
        Self {
            folder: folder.to_owned(),
            limits: Limits {
                budget,
                // With less than four segments too much of the past would go at once.
                segment: limits.segment.clamp(BLOCK, budget / 4),
                ..limits
            },
            identity: Identity::read(Path::new("/")),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .ok()
                .map(|id| id.trim().to_owned()),
            number: 0,
            open: None,
        }
    }

    /// Appends whole lines. `lost`: records that were lost so far and are told by none.
    ///
    /// On an error nothing of the lines is in the segment.
    pub fn append(&mut self, lines: &[u8], now: &Reading, lost: u64) -> io::Result<()> {
        if let Some(open) = &self.open {
            let full = open.bytes + lines.len() as u64 > self.limits.segment;
            let old = now.mono.since(open.began.mono) >= self.limits.age;
            let off = (now.wall_offset_ns - open.began.wall_offset_ns).unsigned_abs() > DRIFT_NS;
            // Somebody may have cleared the folder while we write.
            let gone = open.file.metadata().map_or(true, |meta| meta.nlink() == 0);
            if full || old || off || gone {
                self.open = None;
            }
        }
        if self.open.is_none() {
            self.begin(now, lost)?;
        }
        let Some(open) = &mut self.open else {
            return Err(io::Error::other("no segment"));
        };
        let written = open.file.write_all(lines);
        match written {
            Ok(()) => {
                open.bytes += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A disk that ran full takes a part of a line.
                if open.file.set_len(open.bytes).is_err() {
                    self.open = None;
                }
                Err(error)
            }
        }
    }

    /// Brings what was written to the disk.
    pub fn sync(&self) -> io::Result<()> {
        match &self.open {
            Some(open) => open.file.sync_data(),
            None => Ok(()),
        }
    }

    fn begin(&mut self, now: &Reading, lost: u64) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.make_room();
        let stamp: String = Wall(now.wall_ns)
            .rfc3339()
            .chars()
            .take(19)
            .filter(|c| !matches!(c, '-' | ':'))
            .collect();
        let pid = std::process::id();
        let path = loop {
            let path = self
                .folder
                .join(format!("latency-{stamp}Z-{pid}-{:04}.jsonl", self.number));
            // A clock that was set back could make a name twice.
            if fs::symlink_metadata(&path).is_err() {
                break path;
            }
            self.number = self.number.wrapping_add(1);
        };
        let mut file = File::options().append(true).create_new(true).open(&path)?;
        // Some file systems know no locks; then the newest segments are safe by their age alone.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let header = Header {
            schema: SCHEMA,
            kind: "segment",
            at_ns: now.mono.as_nanos(),
            program: "firstword",
            version: env!("CARGO_PKG_VERSION"),
            pid,
            number: self.number,
            boot_id: self.boot_id.as_deref(),
            mono_ns: now.mono.as_nanos(),
            wall_ns: now.wall_ns,
            wall_offset_ns: now.wall_offset_ns,
            wall_uncertainty_ns: now.uncertainty_ns,
            boottime_offset_ns: now.slept_ns,
            device: &self.identity,
            lost_before: lost,
        };
        let mut line = serde_json::to_vec(&header)?;
        line.push(b'\n');
        if let Err(error) = file.write_all(&line) {
            // Half a header is no segment.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        self.number = self.number.wrapping_add(1);
        self.open = Some(Open {
            file,
            bytes: line.len() as u64,
            began: *now,
        });
        Ok(())
    }

    /// Removes the oldest segments that nobody writes until a new one fits into the budget.
    fn make_room(&self) {
        let mut found: Vec<(i64, PathBuf, u64)> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_segment(path))
            .filter_map(|path| {
                let meta = fs::symlink_metadata(&path).ok()?;
                let size = meta.len().div_ceil(BLOCK).max(1) * BLOCK;
                meta.is_file()
                    .then(|| (meta.mtime() * 1_000_000_000 + meta.mtime_nsec(), path, size))
            })
            .collect();
        found.sort();
        let mut total: u64 = found.iter().map(|(.., size)| size).sum();
        let mut count = found.len();
        for (_, path, size) in found {
            if total + self.limits.segment <= self.limits.budget && count < MOST {
                return;
            }
            let free = File::open(&path).is_ok_and(|file| {
                rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
                    != Err(rustix::io::Errno::WOULDBLOCK)
            });
            if free && fs::remove_file(&path).is_ok() {
                total -= size;
                count -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstword_audio::clock::Stamp;

    fn files(folder: &Path, budget: u64, segment: u64) -> Files {
        let age = Duration::from_secs(3600);
        Files::new(
            folder,
            Limits {
                budget,
                segment,
                age,
            },
        )
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    const LINE: &[u8] = b"{\"schema\":2,\"kind\":\"drop\",\"at_ns\":1,\"what\":\"packets\"}\n";

    #[test]
    fn a_segment_begins_with_who_wrote_it_where_and_when() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), 1 << 20, 1 << 18);
        let now = Reading::now();
        files.append(LINE, &now, 3).unwrap();
        let names = names(folder.path());
        let pid = std::process::id().to_string();
        let parts: Vec<&str> = names[0].split('-').collect();
        assert_eq!(
            (parts[0], parts[2], parts[3]),
            ("latency", &*pid, "0000.jsonl")
        );
        assert_eq!(parts[1].len(), "20261124T080000Z".len());
        let text = fs::read_to_string(folder.path().join(&names[0])).unwrap();
        let header: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(header["kind"], "segment");
        assert_eq!(header["lost_before"], 3);
        assert_eq!(header["wall_ns"], now.wall_ns);
        assert_eq!(header["device"]["architecture"], std::env::consts::ARCH);
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn the_folder_stays_within_its_budget_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("latency.jsonl"), LINE).unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        let (budget, segment) = (64 << 10, 8 << 10);
        let mut files = files(folder.path(), budget, segment);
        let many = LINE.repeat(100);
        for _ in 0..40 {
            files.append(&many, &Reading::now(), 0).unwrap();
            let size: u64 = fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(size <= budget, "{size}");
        }
        let names = names(folder.path());
        assert!(
            names.contains(&"notes.txt".to_owned()),
            "not ours to remove"
        );
        assert!(!names.contains(&"latency.jsonl".to_owned()));
        assert!(
            names.iter().any(|name| name.ends_with("-0039.jsonl")),
            "{names:?}"
        );
    }

    #[test]
    fn a_segment_that_somebody_writes_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut other = files(folder.path(), 1 << 20, 1 << 18);
        other.append(LINE, &Reading::now(), 0).unwrap();
        let kept = names(folder.path())[0].clone();
        let mut files = files(folder.path(), 16 << 10, 4 << 10);
        files.number = 5000;
        for _ in 0..20 {
            files.append(&LINE.repeat(60), &Reading::now(), 0).unwrap();
        }
        assert!(names(folder.path()).contains(&kept));
        drop(other);
        for _ in 0..20 {
            files.append(&LINE.repeat(60), &Reading::now(), 0).unwrap();
        }
        assert!(!names(folder.path()).contains(&kept));
    }

    #[test]
    fn age_a_set_clock_and_a_cleared_folder_begin_a_new_segment() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), 1 << 20, 1 << 18);
        let mut now = Reading::now();
        files.append(LINE, &now, 0).unwrap();
        files.append(LINE, &now, 0).unwrap();
        assert_eq!(names(folder.path()).len(), 1);
        now.mono = Stamp::from_nanos(now.mono.as_nanos() + 3_600_000_000_000);
        files.append(LINE, &now, 0).unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        now.wall_offset_ns += 3_600_000_000_000;
        files.append(LINE, &now, 0).unwrap();
        assert_eq!(names(folder.path()).len(), 3);
        for name in names(folder.path()) {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        files.append(LINE, &now, 0).unwrap();
        assert_eq!(names(folder.path()).len(), 1);
        fs::remove_dir_all(folder.path()).unwrap();
        files.append(LINE, &now, 0).unwrap();
        assert_eq!(names(folder.path()).len(), 1);
    }
}
