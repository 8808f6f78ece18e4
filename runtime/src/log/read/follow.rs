//! New lines of a log, as they come: what several processes append, new segments, files that were rotated away.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Content, Line, ReadError, Segment, Tally, Wall, parse, segment};

/// Files that are looked into for their last lines when following begins.
const NEWEST: usize = 8;
/// A record has less; so many bytes from the end hold as many records as are wanted.
const PER_RECORD: u64 = 4 << 10;
/// Bytes looked into at least.
const LEAST: u64 = 256 << 10;
/// A line that has no end after so many bytes is none.
const LONGEST: u64 = 1 << 20;

/// A place whose log is followed.
#[derive(Debug)]
pub struct Follow {
    place: PathBuf,
    /// By device and inode: a file that is renamed stays the same file.
    files: HashMap<(u64, u64), Followed>,
    /// What could not be read.
    pub tally: Tally,
}

#[derive(Debug)]
struct Followed {
    segment: Segment,
    /// All before it was told.
    offset: u64,
}

/// What is told of a line, with its time and its place among those without.
type Told = (Option<Wall>, u64, String);

impl Follow {
    /// Follows a folder or a file, and gives what `tell` makes of the last `count` lines that it makes something of.
    ///
    /// # Errors
    /// When the place can't be read. A folder without a log is none yet.
    pub fn begin(
        place: &Path,
        count: usize,
        tell: &mut dyn FnMut(&Segment, &Line<'_>) -> Option<String>,
    ) -> Result<(Self, Vec<String>), ReadError> {
        let mut follow = Self {
            place: place.to_owned(),
            files: HashMap::new(),
            tally: Tally::default(),
        };
        let mut segments = match segment::find(place) {
            Ok((segments, _)) => segments,
            Err(ReadError::NoLog { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        if place.is_dir()
            && let Some(folder) = segments.first().and_then(|s| s.path.parent())
        {
            folder.clone_into(&mut follow.place);
        }
        segments.sort_by_key(|s| std::cmp::Reverse((s.last, s.path.clone())));
        let window = (count as u64).saturating_mul(PER_RECORD).max(LEAST);
        let mut told: Vec<Told> = Vec::new();
        for (number, segment) in segments.into_iter().enumerate() {
            let Ok(what) = fs::metadata(&segment.path) else {
                continue;
            };
            let length = what.len();
            let back = if number < NEWEST && count > 0 {
                window
            } else {
                0
            };
            let mut file = Followed {
                segment,
                offset: length.saturating_sub(back),
            };
            // Where the file is entered in the middle of a line, that line is not told.
            if file.offset > 0 {
                file.offset = file.line_end().unwrap_or(length);
            }
            file.new_lines(&mut follow.tally, tell, &mut told);
            follow.files.insert((what.dev(), what.ino()), file);
        }
        told.sort_by_key(|t| (t.0, t.1));
        let surplus = told.len().saturating_sub(count);
        Ok((
            follow,
            told.into_iter()
                .skip(surplus)
                .map(|(.., text)| text)
                .collect(),
        ))
    }

    /// What `tell` makes of the lines that have come since, in the order of their times.
    pub fn poll(
        &mut self,
        tell: &mut dyn FnMut(&Segment, &Line<'_>) -> Option<String>,
    ) -> Vec<String> {
        let mut told = Vec::new();
        let mut there = HashSet::new();
        for path in self.paths() {
            let Ok(what) = fs::metadata(&path) else {
                continue;
            };
            let key = (what.dev(), what.ino());
            there.insert(key);
            let file = self.files.entry(key).or_insert_with(|| Followed {
                segment: Segment::unread(&path),
                offset: 0,
            });
            // Renamed meanwhile.
            path.clone_into(&mut file.segment.path);
            if what.len() < file.offset {
                // Cut off: somebody emptied it.
                file.offset = 0;
            }
            if what.len() > file.offset {
                file.new_lines(&mut self.tally, tell, &mut told);
            }
        }
        // An inode may be given to a new file.
        self.files.retain(|key, _| there.contains(key));
        told.sort_by_key(|t| (t.0, t.1));
        told.into_iter().map(|(.., text)| text).collect()
    }

    fn paths(&self) -> Vec<PathBuf> {
        if self.place.is_file() {
            return vec![self.place.clone()];
        }
        let mut folder = self.place.clone();
        if let (true, log) = (self.files.is_empty(), self.place.join("log"))
            && log.is_dir()
        {
            folder = log;
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| segment::is_segment(path))
            .collect();
        paths.sort();
        paths
    }
}

impl Followed {
    fn read(&self, limit: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.segment.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Behind the end of the line at the offset.
    fn line_end(&self) -> Option<u64> {
        let bytes = self.read(LONGEST).ok()?;
        let at = bytes.iter().position(|&byte| byte == b'\n')?;
        Some(self.offset + at as u64 + 1)
    }

    /// Tells the whole lines behind the offset, and leaves half a line for later.
    fn new_lines(
        &mut self,
        tally: &mut Tally,
        tell: &mut dyn FnMut(&Segment, &Line<'_>) -> Option<String>,
        told: &mut Vec<Told>,
    ) {
        let Ok(bytes) = self.read(u64::MAX) else {
            tally.vanished += 1;
            return;
        };
        let end = match bytes.iter().rposition(|&byte| byte == b'\n') {
            Some(end) => end + 1,
            None if bytes.len() as u64 > LONGEST => {
                tally.damaged += 1;
                bytes.len()
            }
            None => return,
        };
        self.offset += end as u64;
        for line in bytes[..end].split(|&byte| byte == b'\n') {
            let Ok(line) = parse(line) else {
                tally.damaged += u64::from(!line.is_empty());
                continue;
            };
            if let Content::Header(header) = &line.content {
                self.segment.wall_offset_ns = header.wall_offset_ns;
            }
            tally.read += 1;
            if let Some(text) = tell(&self.segment, &line) {
                let time = line.at_ns.and_then(|at| self.segment.wall(at));
                told.push((time, told.len() as u64, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn streams(follow: &mut Follow) -> Vec<String> {
        follow.poll(&mut |_, line| stream(line))
    }

    fn stream(line: &Line<'_>) -> Option<String> {
        match &line.content {
            Content::Work(work) => Some(work.stream.as_ref()?.to_string()),
            _ => None,
        }
    }

    fn line(at: u64, stream: &str) -> String {
        format!(
            "{{\"schema\":2,\"kind\":\"utterance\",\"at_ns\":{at},\"stream\":\"{stream}\",\"model\":\"m\",\"stages_ms\":{{}}}}\n"
        )
    }

    const HEADER: &str = "{\"schema\":2,\"kind\":\"segment\",\"at_ns\":1,\"wall_offset_ns\":0}\n";

    fn append(path: &Path, text: &str) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn what_comes_later_is_told_once_in_the_order_of_time_across_files_and_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (
            folder.path().join("latency-a.jsonl"),
            folder.path().join("latency-b.jsonl"),
        );
        append(&a, HEADER);
        for at in 2..6 {
            append(&a, &line(at, &format!("old{at}")));
        }
        let (mut follow, last) = Follow::begin(folder.path(), 2, &mut |_, l| stream(l)).unwrap();
        assert_eq!(last, ["old4", "old5"]);
        assert!(streams(&mut follow).is_empty());
        // Two processes, the later line first; one of the files is new.
        append(&a, &line(20, "second"));
        append(&b, &format!("{HEADER}{}", line(10, "first")));
        assert_eq!(streams(&mut follow), ["first", "second"]);
        // Half a line is told when it is whole.
        let text = line(30, "third");
        append(&b, &text[..20]);
        assert!(streams(&mut follow).is_empty());
        append(&b, &text[20..]);
        assert_eq!(streams(&mut follow), ["third"]);
        // Rotation by renaming, as the first schema did it.
        let plain = folder.path().join("latency.jsonl");
        append(&plain, &line(40, "before"));
        assert_eq!(streams(&mut follow), ["before"]);
        append(&plain, &line(41, "just before"));
        fs::rename(&plain, folder.path().join("latency.1.jsonl")).unwrap();
        append(&plain, &line(50, "after"));
        assert_eq!(streams(&mut follow).len(), 2);
        // The oldest file goes; the rest is followed.
        fs::remove_file(&a).unwrap();
        append(&b, "no record\n");
        append(&b, &line(60, "last"));
        assert_eq!(streams(&mut follow), ["last"]);
        assert_eq!(follow.tally.damaged, 1);
    }

    #[test]
    fn a_folder_without_a_log_can_be_followed_until_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let (mut follow, last) = Follow::begin(folder.path(), 5, &mut |_, l| stream(l)).unwrap();
        assert!(last.is_empty() && streams(&mut follow).is_empty());
        append(&folder.path().join("latency-a.jsonl"), &line(1, "here"));
        assert_eq!(streams(&mut follow), ["here"]);
        assert!(Follow::begin(&folder.path().join("none"), 5, &mut |_, _| None).is_err());
    }

    #[test]
    fn the_last_lines_of_a_large_file_are_found_without_reading_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latency-a.jsonl");
        let text: String = (2..9_000).map(|at| line(at, &format!("s{at}"))).collect();
        append(&path, &format!("{HEADER}{text}"));
        let mut told = 0;
        let (_, last) = Follow::begin(folder.path(), 3, &mut |_, l| {
            told += 1;
            stream(l)
        })
        .unwrap();
        assert_eq!(last, ["s8997", "s8998", "s8999"]);
        assert!(told < 4_000, "{told}");
    }
}
