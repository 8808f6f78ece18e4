//! Reads latency logs: this device's folder or one that somebody copied, of this version or an older one.
//!
//! A log comes from a device in a cabinet: it may be cut by a power loss, copied half, mixed with other files. What can be
//! read is read; what can't is counted with the first reason ([`Tally`]); only a place with no log at all is an error.
//! Lines are parsed where they lie in the buffer, and nothing is kept that the caller does not keep.

mod follow;
mod line;
mod lines;
pub mod planted;
mod segment;
mod shape;
mod wall;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::path::PathBuf;

pub use follow::Follow;
pub use line::parse;
pub use segment::{ReadError, Segment, is_segment};
pub use shape::{
    Batch, Bench, Cause, Content, Device, Drop, Fault, Header, Line, Load, Loss, Mark, Micros,
    Move, Objective, Reply, Step, Text, Trace, Work, WorkKind,
};
pub use wall::{Range, Wall, WallError, span};

use lines::{Lines, Next};

/// Newest version of the lines' shape that this program reads.
pub const NEWEST_SCHEMA: u64 = 2;

/// What was read, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files that were read.
    pub segments: u64,
    /// Lines that were understood, those outside the wanted range included.
    pub read: u64,
    /// Of them, lines outside the wanted range.
    pub outside: u64,
    /// Of those, lines left out because nobody knows their time (schema 1 has no wall clock).
    pub timeless: u64,
    /// Last lines without an end: a power cut, or a writer at work.
    pub torn: u64,
    /// Lines that are not records: damaged, not UTF-8, with absurd values.
    pub damaged: u64,
    /// Lines of a schema that only a newer program reads.
    pub newer: u64,
    /// The highest schema among them.
    pub newest_schema: u64,
    /// Files that went (rotated away) or could not be read on while they were read.
    pub vanished: u64,
    /// Where the first damaged line is, and what is wrong with it.
    pub first_damage: Option<String>,
}

impl Tally {
    /// What a person should know about what is missing: sentences, none if nothing is.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.newer > 0 {
            remarks.push(format!(
                "{} of schema {} (this program reads up to {NEWEST_SCHEMA}) {} left out: use the firstword that wrote them, or a newer one",
                counted(self.newer, "record"), self.newest_schema, was(self.newer)
            ));
        }
        if self.damaged > 0 {
            let first = self.first_damage.as_deref().unwrap_or_default();
            remarks.push(format!(
                "{} could not be read and {} skipped; the first: {first}",
                counted(self.damaged, "line"),
                was(self.damaged)
            ));
        }
        if self.torn > 0 {
            remarks.push(format!(
                "{} torn at the end (a power cut, or written while it was read) and skipped",
                counted_was(self.torn, "line")
            ));
        }
        if self.timeless > 0 {
            remarks.push(format!(
                "{} of schema 1, which has no wall clock, left out by the wanted range of time",
                counted_was(self.timeless, "record")
            ));
        }
        if self.vanished > 0 {
            remarks.push(format!(
                "{} away while the log was read",
                match self.vanished {
                    1 => "one file went".to_owned(),
                    n => format!("{n} files went"),
                }
            ));
        }
        remarks
    }
}

fn counted(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

fn was(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

fn counted_was(n: u64, what: &str) -> String {
    format!("{} {}", counted(n, what), was(n))
}

/// The files of a log, in the order of their first records.
#[derive(Clone, Debug)]
pub struct Source {
    segments: Vec<Segment>,
    refused: Vec<ReadError>,
}

impl Source {
    /// Finds the logs at these places: folders (also one with a `log` folder in it) or files.
    ///
    /// # Errors
    /// When one of them does not exist, can't be read, or holds no latency log; the message says what was found.
    pub fn open(places: &[PathBuf]) -> Result<Self, ReadError> {
        let (mut segments, mut refused) = (Vec::new(), Vec::new());
        for place in places {
            let (found, others) = segment::find(place)?;
            segments.extend(found);
            refused.extend(others);
        }
        // Files without a wall clock are older than those with one. Names break ties: they hold the number.
        segments.sort_by(|a, b| (a.first, &a.path).cmp(&(b.first, &b.path)));
        segments.dedup_by(|a, b| a.path == b.path);
        Ok(Self { segments, refused })
    }

    /// The files.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Why files that have the name of a log were left out.
    #[must_use]
    pub fn refused(&self) -> &[ReadError] {
        &self.refused
    }

    /// When the newest record was written, if any file knows the wall clock.
    #[must_use]
    pub fn newest(&self) -> Option<Wall> {
        self.segments.iter().filter_map(|s| s.last).max()
    }

    /// Gives every line within `range` to `visit`, file after file. Files of processes that ran at the same time follow
    /// each other; see [`Source::in_order`].
    pub fn each(
        &self,
        range: &Range,
        tally: &mut Tally,
        visit: &mut dyn FnMut(&Segment, &Line<'_>) -> ControlFlow<()>,
    ) {
        for segment in self.segments.iter().filter(|s| s.touches(range)) {
            tally.segments += 1;
            let Some(mut reader) = Reader::open(segment, tally) else {
                continue;
            };
            while reader.advance(tally) {
                if reader.take(segment, range, tally, visit).is_break() {
                    return;
                }
            }
        }
    }

    /// Gives every line within `range` to `visit`, in the order of their times: what several processes wrote at the
    /// same time is interleaved. A line is looked at twice, once for its time.
    pub fn in_order(
        &self,
        range: &Range,
        tally: &mut Tally,
        visit: &mut dyn FnMut(&Segment, &Line<'_>) -> ControlFlow<()>,
    ) {
        let wanted: Vec<&Segment> = self.segments.iter().filter(|s| s.touches(range)).collect();
        let mut waiting = wanted.iter().enumerate().peekable();
        let mut readers: Vec<Option<Reader>> = wanted.iter().map(|_| None).collect();
        let mut due: BinaryHeap<Reverse<(Option<Wall>, usize)>> = BinaryHeap::new();
        loop {
            // A file is opened when its first record is due: a fleet's folder has more files than a process may open.
            while let Some((at, segment)) = waiting.peek().copied() {
                if due
                    .peek()
                    .is_some_and(|Reverse((time, _))| *time < segment.first)
                {
                    break;
                }
                waiting.next();
                tally.segments += 1;
                if let Some(mut reader) = Reader::open(segment, tally)
                    && reader.advance(tally)
                {
                    due.push(Reverse((reader.time(segment), at)));
                    readers[at] = Some(reader);
                }
            }
            let Some(Reverse((time, at))) = due.pop() else {
                return;
            };
            let Some(reader) = &mut readers[at] else {
                continue;
            };
            if reader.take(wanted[at], range, tally, visit).is_break() {
                return;
            }
            if reader.advance(tally) {
                // A line without a time of its own stays behind the one before it.
                due.push(Reverse((reader.time(wanted[at]).or(time), at)));
            } else {
                readers[at] = None;
            }
        }
    }
}

/// A file that is being read, and its current line.
struct Reader {
    name: String,
    lines: Lines,
}

impl Reader {
    fn open(segment: &Segment, tally: &mut Tally) -> Option<Self> {
        match Lines::open(&segment.path) {
            Ok(lines) => Some(Self {
                name: segment.name(),
                lines,
            }),
            Err(_) => {
                tally.vanished += 1;
                None
            }
        }
    }

    /// Goes to the next line that is whole.
    fn advance(&mut self, tally: &mut Tally) -> bool {
        loop {
            match self.lines.advance() {
                Ok(Next::Line) => return true,
                Ok(Next::TooLong) => self.damage(tally, "longer than 1 MiB; expected one record"),
                Ok(Next::Torn) => {
                    tally.torn += 1;
                    return false;
                }
                Ok(Next::End) => return false,
                Err(_) => {
                    tally.vanished += 1;
                    return false;
                }
            }
        }
    }

    fn time(&self, segment: &Segment) -> Option<Wall> {
        segment.wall(line::time(self.lines.current())?)
    }

    fn take(
        &self,
        segment: &Segment,
        range: &Range,
        tally: &mut Tally,
        visit: &mut dyn FnMut(&Segment, &Line<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match parse(self.lines.current()) {
            Ok(line) => {
                tally.read += 1;
                let time = line.at_ns.and_then(|at| segment.wall(at));
                // Headers and losses carry what is known about the rest, whatever the range.
                if !range.is_everything() && !matches!(line.content, Content::Header(_)) {
                    match time {
                        Some(time) if range.holds(time) => {}
                        Some(_) => {
                            tally.outside += 1;
                            return ControlFlow::Continue(());
                        }
                        None => {
                            tally.outside += 1;
                            tally.timeless += 1;
                            return ControlFlow::Continue(());
                        }
                    }
                }
                visit(segment, &line)
            }
            Err(Fault::Empty) => ControlFlow::Continue(()),
            Err(Fault::Newer(schema)) => {
                tally.newer += 1;
                tally.newest_schema = tally.newest_schema.max(schema);
                ControlFlow::Continue(())
            }
            Err(Fault::Damaged(why)) => {
                self.damage(tally, &why);
                ControlFlow::Continue(())
            }
        }
    }

    fn damage(&self, tally: &mut Tally, why: &str) {
        tally.damaged += 1;
        tally
            .first_damage
            .get_or_insert_with(|| format!("{}:{}: {why}", self.name, self.lines.number()));
    }
}

#[cfg(test)]
mod tests;
