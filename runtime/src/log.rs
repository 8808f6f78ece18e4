//! Where the records go: a file of JSON Lines in the state folder, bounded in size.
//!
//! Losing the log must not stop the product: a line that can't be written is counted, and the
//! reason is told once.

pub mod read;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::plain;
use crate::exit::{name, say};

/// The file in the log folder.
pub const FILE: &str = "latency.jsonl";
/// The one before it.
pub const PREVIOUS: &str = "latency.1.jsonl";
/// When the file has grown to this many bytes (some eight thousand utterances), it becomes the previous one.
const ROTATE_AT: u64 = 8 << 20;

/// The log, or the reason why there is none.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: Option<File>,
    lost: u64,
    first_trouble: Option<io::Error>,
}

impl Log {
    /// Opens (or creates) the log in this folder. Never fails: see [`Log::trouble`].
    #[must_use]
    pub fn open(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let (file, first_trouble) = match open(folder, &path) {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            path,
            file,
            lost: 0,
            first_trouble,
        }
    }

    /// Appends a record, or counts it as lost.
    pub fn write(&mut self, record: &impl Serialize) {
        let written = self.append(record);
        if let Err(error) = written {
            self.lost += 1;
            self.first_trouble.get_or_insert(error);
        }
    }

    fn append(&mut self, record: &impl Serialize) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("not open"));
        };
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let length = file.metadata()?.len();
        if length >= ROTATE_AT {
            fs::rename(&self.path, self.path.with_file_name(PREVIOUS))?;
            *file = append_to(&self.path)?;
        }
        let length = file.metadata()?.len();
        file.write_all(&line).inspect_err(|_| {
            // A disk that ran full takes a part of the line. Another process may have written
            // behind it, but then the disk is not full.
            let _ = file.set_len(length);
        })
    }

    /// Tells a person what was lost and why, if anything was.
    pub fn tell(&self) {
        if let Some(trouble) = self.trouble() {
            say(&format!("{}: {trouble}", name(&self.path)));
        }
    }

    /// What was lost and why, in one line, if anything was.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let error = plain(self.first_trouble.as_ref()?);
        Some(match self.lost {
            0 => format!("can't be written: {error}"),
            1 => format!("can't be written: {error}; one record is lost"),
            n => format!("can't be written: {error}; {n} records are lost"),
        })
    }

    /// Where the log is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn open(folder: &Path, path: &Path) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let mut file = append_to(path)?;
    // A process that was killed while it wrote leaves half a line: it must not swallow ours.
    let length = file.seek(SeekFrom::End(0))?;
    if length > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

fn append_to(path: &Path) -> io::Result<File> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn lines(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn records_are_appended_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        for utterance in 0..2 {
            let mut log = Log::open(folder.path());
            log.write(&Record {
                utterance,
                ..Record::default()
            });
            assert_eq!(log.trouble(), None);
        }
        let found: Vec<u64> = lines(&folder.path().join(FILE))
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|record| record["utterance"].as_u64().unwrap())
            .collect();
        assert_eq!(found, [0, 1]);
    }

    #[test]
    fn half_a_line_of_a_killed_process_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "{\"schema\":1,\"ki").unwrap();
        Log::open(folder.path()).write(&Record::default());
        let found = lines(&folder.path().join(FILE));
        assert_eq!(found.len(), 2);
        assert!(serde_json::from_str::<serde_json::Value>(&found[1]).is_ok());
    }

    #[test]
    fn a_log_that_cannot_be_is_counted_and_nothing_stops() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let mut log = Log::open(&file.join("below"));
        log.write(&Record::default());
        log.write(&Record::default());
        let trouble = log.trouble().unwrap();
        assert!(trouble.ends_with("2 records are lost"), "{trouble}");
    }

    #[test]
    fn a_full_file_becomes_the_previous_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        File::create(&path).unwrap().set_len(ROTATE_AT).unwrap();
        Log::open(folder.path()).write(&Record::default());
        assert_eq!(lines(&path).len(), 1);
        let previous = folder.path().join(PREVIOUS).metadata().unwrap().len();
        assert!(previous >= ROTATE_AT);
    }
}
