//! The thread that writes: it empties the queue, keeps the device's state at hand, and appends lines in blocks, so that
//! flash is written seldom and never faster than agreed.
//!
//! Trouble with the disk never reaches the stages. Lines wait for a while; what has to go is counted, and the count is
//! written as soon as anything can be written again.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use firstword_audio::clock::Stamp;
use serde::Serialize;

use super::assemble::Assembler;
use super::clock::Reading;
use super::device::{Full, Sampler};
use super::files::{Files, Limits};
use super::line::{Line, line};
use super::recorder::Shared;
use super::{Options, Sync};
use crate::config::plain;

/// How often the queue is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often the clocks are looked at where nothing happens.
const CLOCKS: Duration = Duration::from_secs(1);
/// A block is written early when it has this many bytes.
const BLOCK: usize = 64 << 10;
/// Lines may wait for the disk up to this many bytes.
const WAITING: usize = 512 << 10;
/// A device's full state is written this often at most.
const FULL_STATE: Duration = Duration::from_secs(60);
/// After trouble with the disk it is tried again after this time, then after twice that, up to the longest.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// So many seconds of the agreed rate may come at once.
const BURST_S: u64 = 16;

/// What the writing thread tells about itself.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Why it could not write, the last time that it could not.
    pub trouble: Option<String>,
    /// Whether it can't at present.
    pub failing: bool,
    /// Records that are lost for good.
    pub lost: u64,
    /// Bytes in segments.
    pub written: u64,
    /// Wishes to have everything on the disk that were fulfilled.
    pub flushed: u64,
}

/// What was lost and is not told yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lost {
    events: u64,
    records: u64,
    bytes: u64,
    why: &'static str,
}

#[derive(Serialize)]
struct LostLine {
    events: u64,
    records: u64,
    bytes: u64,
    why: &'static str,
}

/// The thread's state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    status: Arc<Mutex<Status>>,
    options: Options,
    assembler: Assembler,
    files: Files,
    sampler: Sampler,
    pending: VecDeque<Line>,
    pending_bytes: usize,
    pending_since: Option<Instant>,
    lost: Lost,
    /// Bytes that may be written now.
    allowance: f64,
    allowed_at: Instant,
    trace_bytes: u64,
    sampled: Option<Instant>,
    clocked: Instant,
    told_state: Option<Instant>,
    retry: Option<(Instant, Duration)>,
    synced: Instant,
    dirty: bool,
    flushed: u64,
}

impl Writer {
    pub fn new(shared: Arc<Shared>, status: Arc<Mutex<Status>>, options: Options) -> Self {
        let now = Instant::now();
        let limits = Limits {
            budget: options.budget_bytes,
            segment: options.segment_bytes,
            age: options.segment_age,
        };
        Self {
            assembler: Assembler::new(Arc::clone(&shared), options.objective),
            files: Files::new(&options.folder, limits),
            sampler: Sampler::new(Path::new("/")),
            pending: VecDeque::new(),
            pending_bytes: 0,
            pending_since: None,
            lost: Lost::default(),
            allowance: (options.rate_bytes_per_s * BURST_S) as f64,
            allowed_at: now,
            trace_bytes: 0,
            sampled: None,
            clocked: now,
            told_state: None,
            retry: None,
            synced: now,
            dirty: false,
            flushed: 0,
            shared,
            status,
            options,
        }
    }

    /// Works until the log is closed.
    pub fn run(mut self) {
        loop {
            let closing = self.shared.is_closing();
            self.turn(closing);
            if closing {
                return;
            }
            thread::park_timeout(LOOK);
        }
    }

    fn turn(&mut self, closing: bool) {
        let now = Instant::now();
        let wished = self.shared.wished();
        let at_once = closing || wished != self.flushed;
        self.look_at_device(now);
        self.look_at_clocks(now);
        for line in self.assembler.gather() {
            self.take(line);
        }
        self.tell_state(now);
        if closing {
            self.assembler.give_up();
        }
        let incomplete = std::mem::take(&mut self.assembler.incomplete);
        if incomplete > 0 {
            self.lose(incomplete, 0, "queue_full");
        }
        if closing {
            self.lost.events += self.shared.take_lost();
        }
        let due = self
            .pending_since
            .is_some_and(|since| now.duration_since(since) >= self.options.flush_every);
        if at_once || due || self.pending_bytes >= BLOCK {
            self.flush(now, closing);
        }
        self.sync(now, at_once);
        if at_once {
            self.flushed = wished;
            let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
            status.flushed = wished;
            self.shared.fulfilled.notify_all();
        }
    }

    fn look_at_device(&mut self, now: Instant) {
        let due = self
            .sampled
            .is_none_or(|at| now.duration_since(at) >= self.options.device_every);
        if due {
            self.sampled = Some(now);
            self.assembler.device = Some(self.sampler.sample());
        }
    }

    fn tell_state(&mut self, now: Instant) {
        // Beside records only: a device that does nothing writes nothing.
        let told = self
            .told_state
            .is_some_and(|at| now.duration_since(at) < FULL_STATE);
        if !told
            && !self.pending.is_empty()
            && let Some(sample) = &self.assembler.device
            && let Some(line) = line("device", sample.at, &Full::of(sample))
        {
            self.told_state = Some(now);
            self.take(line);
        }
    }

    fn look_at_clocks(&mut self, now: Instant) {
        if now.duration_since(self.clocked) < CLOCKS {
            return;
        }
        self.clocked = now;
        for mark in self.assembler.clocks(Reading::now()) {
            self.take(mark);
        }
    }

    /// A line joins those that wait, unless it is over what may be written.
    fn take(&mut self, line: Line) {
        let now = Instant::now();
        let rate = self.options.rate_bytes_per_s as f64;
        let passed = now.duration_since(self.allowed_at).as_secs_f64();
        self.allowed_at = now;
        self.allowance = (self.allowance + passed * rate).min(rate * BURST_S as f64);
        let bytes = line.bytes.len();
        if !line.is_record {
            self.trace_bytes += bytes as u64;
            if self.trace_bytes > self.options.trace_bytes {
                self.lose(0, bytes, "trace_full");
                self.lost.events += 1;
                return;
            }
        }
        // A trace leaves half of what is allowed to the records.
        let floor = if line.is_record {
            0.0
        } else {
            rate * BURST_S as f64 / 2.0
        };
        if self.allowance - (bytes as f64) < floor {
            self.lose(u64::from(line.is_record), bytes, "rate");
            self.lost.events += u64::from(!line.is_record);
            return;
        }
        self.allowance -= bytes as f64;
        self.pending_bytes += bytes;
        self.pending_since.get_or_insert(now);
        self.pending.push_back(line);
        while self.pending_bytes > WAITING {
            let Some(oldest) = self.pending.pop_front() else {
                break;
            };
            self.pending_bytes -= oldest.bytes.len();
            let why = if self.lost.why.is_empty() {
                "disk"
            } else {
                self.lost.why
            };
            self.lose(u64::from(oldest.is_record), oldest.bytes.len(), why);
        }
    }

    fn lose(&mut self, records: u64, bytes: usize, why: &'static str) {
        self.lost.records += records;
        self.lost.bytes += bytes as u64;
        self.lost.why = why;
        self.shared.metrics().add("log_lost_records", records);
    }

    fn flush(&mut self, now: Instant, closing: bool) {
        let untold = self.lost.records > 0 || self.lost.events > 0 || self.lost.bytes > 0;
        if self.pending.is_empty() && !(closing && untold) {
            self.pending_since = None;
            return;
        }
        if !closing && self.retry.is_some_and(|(at, _)| now < at) {
            return;
        }
        let mut block = Vec::with_capacity(self.pending_bytes + 256);
        if untold {
            let lost = LostLine {
                events: self.lost.events,
                records: self.lost.records,
                bytes: self.lost.bytes,
                why: self.lost.why,
            };
            if let Some(line) = line("lost", Stamp::now(), &lost) {
                block.extend(line.bytes);
            }
        }
        for line in &self.pending {
            block.extend_from_slice(&line.bytes);
        }
        let written = self
            .files
            .append(&block, &Reading::now(), self.lost.records);
        match written {
            Ok(()) => {
                self.settle(block.len() as u64);
                self.pending.clear();
                self.pending_bytes = 0;
                self.pending_since = None;
                self.retry = None;
                self.dirty = true;
            }
            Err(error) => {
                self.lost.why = reason(&error);
                let wait = self
                    .retry
                    .map_or(RETRY, |(_, wait)| (wait * 2).min(LONGEST_RETRY));
                self.retry = Some((now + wait, wait));
                if closing {
                    let records = self.pending.iter().filter(|line| line.is_record).count();
                    self.lose(records as u64, self.pending_bytes, reason(&error));
                    self.pending.clear();
                    self.pending_bytes = 0;
                }
                let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
                status.trouble = Some(plain(&error));
                status.failing = true;
                if closing {
                    status.lost += self.lost.records;
                }
            }
        }
    }

    /// What was lost is told now.
    fn settle(&mut self, bytes: u64) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.failing = false;
        status.written += bytes;
        status.lost += self.lost.records;
        if self.lost.records > 0 && status.trouble.is_none() {
            status.trouble = Some(in_words(self.lost.why).to_owned());
        }
        self.lost = Lost::default();
    }

    fn sync(&mut self, now: Instant, at_once: bool) {
        let due = match self.options.sync {
            Sync::Never => false,
            Sync::Each => true,
            Sync::Interval => at_once || now.duration_since(self.synced) >= self.options.sync_every,
        };
        if due && self.dirty {
            self.synced = now;
            self.dirty = false;
            if let Err(error) = self.files.sync() {
                let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
                status.trouble = Some(plain(&error));
            }
        }
    }
}

/// Why a block could not be written, as `lost` says it.
fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "disk_full"
        }
        io::ErrorKind::ReadOnlyFilesystem => "read_only",
        io::ErrorKind::PermissionDenied => "permission",
        _ => "disk",
    }
}

fn in_words(why: &str) -> &'static str {
    match why {
        "rate" => "more came than log.rate_bytes_per_s allows",
        "queue_full" => "more came than the writing thread could take",
        _ => "the disk did not take it",
    }
}
