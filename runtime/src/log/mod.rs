//! The latency log: what each utterance, request and turn cost, on the device's disk.
//!
//! Stages hold a [`Recorder`] and push events of fixed size into a queue; one thread makes records of them, adds what the
//! device did meanwhile, and appends lines to segments. Losing the log must not stop the product: what can't be written is
//! counted, and the reason is told once.

mod assemble;
pub mod cause;
pub mod clock;
pub mod device;
mod draft;
pub mod event;
mod files;
mod line;
pub mod metrics;
pub mod objective;
pub mod queue;
pub mod rare;
pub mod read;
mod recorder;
mod sync;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub use event::{ModelId, Role, StreamId};
pub use rare::{Load, Model, Purpose};
pub use recorder::{Heard, Recorder, Step, WORDS};

use crate::config::Settings;
use crate::exit::{name, say};
use objective::Objective;
use recorder::Shared;
use writer::{Status, Writer};

/// When what was written is brought to the disk (fdatasync).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// When the kernel likes.
    Never,
    /// At most so often as [`Options::sync_every`] says, and at the end.
    #[default]
    Interval,
    /// After every block.
    Each,
}

/// How the log is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub folder: PathBuf,
    /// What records are held to.
    pub objective: Objective,
    /// Whether texts are written.
    pub text: bool,
    /// All segments together; the oldest goes first.
    pub budget_bytes: u64,
    /// One segment.
    pub segment_bytes: u64,
    /// The longest time in one segment.
    pub segment_age: Duration,
    /// When it is brought to the disk.
    pub sync: Sync,
    /// How often, with [`Sync::Interval`].
    pub sync_every: Duration,
    /// The longest time that a line waits for others.
    pub flush_every: Duration,
    /// Bytes a second, on average.
    pub rate_bytes_per_s: u64,
    /// How often the device's state is read.
    pub device_every: Duration,
    /// Whether steps and arrivals are traced.
    pub trace: bool,
    /// Bytes of trace that a process writes at most.
    pub trace_bytes: u64,
}

impl Options {
    /// As the configuration says, into this folder.
    #[must_use]
    pub fn of(settings: &Settings, folder: PathBuf) -> Self {
        let log = &settings.log;
        Self {
            folder,
            objective: Objective::named(&settings.latency.objective).unwrap_or_default(),
            text: log.text,
            budget_bytes: log.budget_bytes as u64,
            segment_bytes: log.segment_bytes as u64,
            segment_age: log.segment_age,
            sync: match log.sync.as_str() {
                "never" => Sync::Never,
                "each" => Sync::Each,
                _ => Sync::Interval,
            },
            sync_every: log.sync_every,
            flush_every: log.flush_every,
            rate_bytes_per_s: log.rate_bytes_per_s as u64,
            device_every: log.device_every,
            trace: log.trace,
            trace_bytes: log.trace_bytes as u64,
        }
    }
}

/// A log that is being written. Dropping it writes what is left.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    status: Arc<Mutex<Status>>,
    thread: Option<JoinHandle<()>>,
    folder: PathBuf,
}

impl Log {
    /// Begins to write. Never fails: see [`Log::trouble`].
    #[must_use]
    pub fn start(options: Options) -> Self {
        let shared = Arc::new(Shared::new(options.trace, options.text));
        let status = Arc::new(Mutex::new(Status::default()));
        let folder = options.folder.clone();
        let (theirs, told) = (Arc::clone(&shared), Arc::clone(&status));
        // What device this is, its clocks and its state are looked at there, so that nobody waits for it.
        let thread = std::thread::Builder::new()
            .name("latency-log".to_owned())
            .spawn(move || Writer::new(theirs, told, options).run());
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
                status.trouble = Some(error.to_string());
                status.failing = true;
                drop(status);
                None
            }
        };
        Self {
            shared,
            status,
            thread,
            folder,
        }
    }

    /// What stages tell it with.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder::new(Arc::clone(&self.shared))
    }

    /// Writes what is left and says what was lost and why, if anything was.
    pub fn finish(mut self) {
        self.close();
        if let Some(trouble) = self.trouble() {
            say(&format!("{}: {trouble}", name(&self.folder)));
        }
    }

    /// Brings everything that was told before this call to the disk, as far as the disk takes it, and waits for that.
    pub fn flush(&self) {
        let Some(thread) = &self.thread else {
            return;
        };
        let wish = self.shared.wish();
        thread.thread().unpark();
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        while status.flushed < wish && !thread.is_finished() {
            let waited = self
                .shared
                .fulfilled
                .wait_timeout(status, Duration::from_secs(1));
            status = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What was lost and why, in one line, if anything was.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let why = status.trouble.as_deref()?;
        match (status.lost, status.failing) {
            // What waited was written later.
            (0, false) => None,
            (0, true) => Some(format!("can't be written: {why}")),
            (1, _) => Some(format!("can't be written: {why}; one record is lost")),
            (n, _) => Some(format!("can't be written: {why}; {n} records are lost")),
        }
    }

    /// Bytes in segments so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.written
    }

    /// The figures so far, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.shared.metrics().exposition()
    }

    /// Where the log is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn close(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the writing thread was printed; the product goes on.
            let _ = thread.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
