//! What stages hold in their hands to tell the log something: a push into a queue, nothing else. Cloning shares the log.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firstword_audio::clock::Stamp;

use super::event::{Event, ModelId, Part, Role, StreamId, Ticket};
use super::metrics::Metrics;
use super::queue::Queue;
use super::rare::{Load, Model, Rare};
use super::read::WorkKind;
use crate::record::{Record, Reply};
use crate::speech::transcript::{Partial, Word};

/// Events that may wait for the writing thread: two seconds of a busy device with its trace on.
pub(super) const WAITING: usize = 8192;
/// So many words of a record are told one by one.
pub const WORDS: usize = 64;

/// What the stages and the writing thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub queue: Queue<Event>,
    /// Events that found the queue full, not yet told.
    lost: AtomicU64,
    metrics: Mutex<Metrics>,
    closing: AtomicBool,
    wishes: AtomicU64,
    /// A wish was fulfilled; goes with the lock of the writer's status.
    pub fulfilled: Condvar,
    /// Whether steps and arrivals are told.
    trace: bool,
    /// Whether texts are told.
    text: bool,
    tickets: AtomicU32,
    names: Mutex<Names>,
    rare: Mutex<Vec<Rare>>,
}

/// What the numbers in events stand for.
#[derive(Debug, Default)]
struct Names {
    streams: HashMap<u32, Arc<str>>,
    models: Vec<Arc<Model>>,
    next_stream: u32,
}

/// A panic elsewhere leaves nothing half-done in these tables.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(trace: bool, text: bool) -> Self {
        Self {
            queue: Queue::new(WAITING),
            lost: AtomicU64::new(0),
            metrics: Mutex::default(),
            closing: AtomicBool::new(false),
            wishes: AtomicU64::new(0),
            fulfilled: Condvar::new(),
            trace,
            text,
            tickets: AtomicU32::new(1),
            names: Mutex::default(),
            rare: Mutex::default(),
        }
    }

    fn push(&self, event: Event) -> bool {
        let taken = self.queue.push(event);
        if !taken {
            self.lost.fetch_add(1, Relaxed);
        }
        taken
    }

    pub fn stream(&self, id: StreamId) -> Option<Arc<str>> {
        lock(&self.names).streams.get(&id.0).cloned()
    }

    pub fn forget(&self, id: StreamId) {
        lock(&self.names).streams.remove(&id.0);
    }

    pub fn model(&self, id: ModelId) -> Option<Arc<Model>> {
        let at = (id.0 as usize).checked_sub(1)?;
        lock(&self.names).models.get(at).cloned()
    }

    pub fn take_rare(&self) -> Vec<Rare> {
        std::mem::take(&mut *lock(&self.rare))
    }

    /// The figures so far. Stages do not come here: only the writing thread and who asks for them.
    pub fn metrics(&self) -> MutexGuard<'_, Metrics> {
        lock(&self.metrics)
    }

    /// Events that were lost since the last time; whoever takes them tells them.
    pub fn take_lost(&self) -> u64 {
        let lost = self.lost.swap(0, Relaxed);
        if lost > 0 {
            self.metrics().add("log_lost_events", lost);
        }
        lost
    }

    /// Somebody wants everything on the disk; the number of this wish.
    pub fn wish(&self) -> u64 {
        self.wishes.fetch_add(1, Release) + 1
    }

    pub fn wished(&self) -> u64 {
        self.wishes.load(Acquire)
    }

    pub fn close(&self) {
        self.closing.store(true, Release);
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }
}

/// Tells the log. One that is off does nothing at all.
///
/// [`Recorder::stream`], [`Recorder::load`] and the other rare ones take a lock and allocate: they are for the beginnings
/// and ends of things. All others only push events: no allocation, no lock, no system call.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Arc<Shared>>);

impl Recorder {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(Some(shared))
    }

    /// One without a log.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Whether there is a log behind it.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether steps and arrivals are wanted.
    #[must_use]
    pub fn traces(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.trace)
    }

    /// Announces a stream.
    #[must_use]
    pub fn stream(&self, name: &str) -> StreamId {
        let Some(shared) = &self.0 else {
            return StreamId::default();
        };
        let mut names = lock(&shared.names);
        // 0 stands for none.
        names.next_stream = names.next_stream.wrapping_add(1).max(1);
        let id = names.next_stream;
        names.streams.insert(id, name.into());
        StreamId(id)
    }

    /// A stream ended: nothing more comes of it.
    pub fn close_stream(&self, stream: StreamId) {
        if let Some(shared) = &self.0 {
            // Where the queue is full, a name stays behind.
            let _ = shared.push(Event::Closed(stream));
        }
    }

    /// Announces a model that was loaded, with what loading it cost.
    #[must_use]
    pub fn load(&self, model: Model, load: Load) -> ModelId {
        let Some(shared) = &self.0 else {
            return ModelId::default();
        };
        let model = Arc::new(model);
        let id = {
            let mut names = lock(&shared.names);
            names.models.push(Arc::clone(&model));
            ModelId(names.models.len() as u32)
        };
        lock(&shared.rare).push(Rare::Load(model, Box::new(load)));
        id
    }

    /// Something that happens rarely: a move of the ladder, dropped work, a line of a bench.
    pub fn rare(&self, what: Rare) {
        if let Some(shared) = &self.0 {
            lock(&shared.rare).push(what);
        }
    }

    /// A partial transcript was handed over.
    pub fn partial(&self, stream: StreamId, partial: &Partial, handed_over: Stamp) {
        if let Some(shared) = &self.0 {
            shared.push(Event::Partial {
                stream,
                utterance: partial.utterance,
                captured: partial.captured,
                handed_over,
            });
        }
    }

    /// An utterance is finished, and its text was handed over.
    pub fn utterance(&self, heard: &Heard<'_>) {
        let Some(mut run) = self.begin() else {
            return;
        };
        run.heard(heard);
        run.text(heard.text, None);
        run.done(WorkKind::Utterance, heard.words_more());
    }

    /// A request is answered.
    pub fn request(&self, model: ModelId, reply: &Reply, prompt: &str, text: &str) {
        let Some(mut run) = self.begin() else {
            return;
        };
        run.reply(model, reply);
        run.text(prompt, Some(text));
        run.done(WorkKind::Request, 0);
    }

    /// An utterance is answered.
    pub fn turn(&self, heard: &Heard<'_>, model: ModelId, reply: &Reply, text: &str) {
        let Some(mut run) = self.begin() else {
            return;
        };
        run.heard(heard);
        run.reply(model, reply);
        run.text(heard.text, Some(text));
        run.done(WorkKind::Turn, heard.words_more());
    }

    /// Trace: a step of the device, for one of its members.
    pub fn step(&self, step: Step) {
        if let Some(shared) = self.0.as_ref().filter(|shared| shared.trace) {
            shared.push(Event::Step {
                role: step.role,
                batch: u16::try_from(step.batch).unwrap_or(u16::MAX),
                stream: step.stream,
                model: step.model,
                due: step.due,
                start: step.start,
                end: step.end,
            });
        }
    }

    /// Trace: sound came in.
    pub fn arrival(&self, stream: StreamId, samples: usize, captured: Stamp, received: Stamp) {
        if let Some(shared) = self.0.as_ref().filter(|shared| shared.trace) {
            shared.push(Event::Arrival {
                stream,
                samples: u32::try_from(samples).unwrap_or(u32::MAX),
                captured,
                received,
            });
        }
    }

    fn begin(&self) -> Option<Run<'_>> {
        let shared = self.0.as_deref()?;
        Some(Run {
            shared,
            ticket: Ticket(shared.tickets.fetch_add(1, Relaxed)),
            parts: 0,
        })
    }
}

/// A step of the device, for one of its members.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Which kind.
    pub role: Role,
    /// With which model.
    pub model: ModelId,
    /// For whom.
    pub stream: StreamId,
    /// How many worked together in it.
    pub batch: usize,
    /// It could have begun.
    pub due: Stamp,
    /// It began.
    pub start: Stamp,
    /// It was over.
    pub end: Stamp,
}

/// What was heard.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// Its stream.
    pub stream: StreamId,
    /// The speech model.
    pub model: ModelId,
    /// What it cost.
    pub record: &'a Record,
    /// Its words.
    pub words: &'a [Word],
    /// Its text.
    pub text: &'a str,
}

impl Heard<'_> {
    fn words_more(&self) -> u32 {
        self.words.len().saturating_sub(WORDS) as u32
    }
}

/// The events of one record, under one ticket.
struct Run<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    parts: u16,
}

impl Run<'_> {
    fn push(&mut self, part: Part) {
        // One that is lost counts as a part: the record is found incomplete.
        self.parts += 1;
        let _ = self.shared.push(Event::Part(self.ticket, part));
    }

    fn heard(&mut self, heard: &Heard<'_>) {
        let record = heard.record;
        self.push(Part::Heard {
            stream: heard.stream,
            model: heard.model,
            utterance: record.utterance,
            start: record.start,
            end: record.end,
            ending: record.ending,
        });
        for half in Part::path(&record.path) {
            self.push(half);
        }
        let work = &record.work;
        let spent = [
            work.read,
            work.resample,
            work.voice_activity,
            work.encode,
            work.decode,
            work.slowest_step,
        ];
        self.push(Part::Work(spent.map(|spent| spent.as_nanos() as u64)));
        self.push(Part::Counts(record.counts));
        for word in heard.words.iter().take(WORDS) {
            self.push(Part::Word {
                captured: word.captured,
                committed: word.committed,
                handed_over: word.handed_over.unwrap_or(record.path.handed_over),
            });
        }
    }

    fn reply(&mut self, model: ModelId, reply: &Reply) {
        let steps = &reply.steps;
        self.push(Part::Asked {
            model,
            prompt_tokens: reply.prompt_tokens,
            cached_tokens: reply.cached_tokens,
            prefill_chunks: reply.prefill_chunks,
            tokens: reply.tokens,
            context_tokens: reply.context_tokens,
            finish: reply.finish,
            detokenise_ns: reply.detokenise.as_nanos() as u64,
        });
        self.push(Part::reply_path(&reply.path));
        let micros = |d: std::time::Duration| u32::try_from(d.as_micros()).unwrap_or(u32::MAX);
        self.push(Part::Steps {
            count: steps.count,
            micros: [steps.p50, steps.p95, steps.p99, steps.slowest].map(micros),
            batch: [steps.batch_p50, steps.batch_max],
        });
        for slow in steps.slow.iter().filter(|slow| slow.step > 0) {
            self.push(Part::SlowStep(*slow));
        }
    }

    fn done(&mut self, kind: WorkKind, words_more: u32) {
        let done = Event::Done {
            ticket: self.ticket,
            kind,
            parts: self.parts + 1,
            words_more,
        };
        let _ = self.shared.push(done);
    }

    /// Only where `log.text` asks for it; before the last event, so that it is there when that one is seen.
    fn text(&self, said: &str, reply: Option<&str>) {
        if self.shared.text {
            lock(&self.shared.rare).push(Rare::Text {
                ticket: self.ticket,
                said: said.to_owned(),
                reply: reply.map(str::to_owned),
            });
        }
    }
}
