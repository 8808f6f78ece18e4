//! One pass over a log: the figures of each record, in columns, and the events beside them.
//!
//! A column holds four bytes for each record; a million turns with fifteen stages and six metrics are about 100 MB.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::ControlFlow;

use super::stats::Column;
use crate::log::read::{
    Bench, Content, Line, Micros, Objective, Range, Segment, Source, Tally, Wall, Work, WorkKind,
};

/// Worst records kept for each group.
const WORST: usize = 10;
/// Names of stages kept for each group: more than that are not ours.
const STAGES: usize = 48;
/// Events (moves, drops, marks) kept with their details; all are counted.
const EVENTS: usize = 200;

/// The metrics of a record, in the order in which reports show them.
pub const METRICS: [&str; 7] = [
    "voice_ttft_ms",
    "ttft_ms",
    "first_partial_ms",
    "final_latency_ms",
    "e2e_ms",
    "tpot_ms",
    "queue_wait_ms",
];

/// Condition of the device: it had slowed itself down.
pub const THROTTLED: u8 = 1;
/// Condition: others used the processor.
pub const LOADED: u8 = 2;
/// Condition: less than 64 MiB of memory could be had.
pub const SHORT_OF_MEMORY: u8 = 4;
/// Condition: it slept meanwhile.
pub const SUSPENDED: u8 = 8;

/// What the records of one group share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Turn, request or utterance.
    pub kind: WorkKind,
    /// The model; of a turn both.
    pub model: String,
    /// Where it ran.
    pub target: String,
    /// What it was held to: name, metric, limit.
    pub objective: Option<(String, String, Micros)>,
}

/// One figure for each record, side by side.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// How many records.
    pub count: usize,
    /// The stages, in the order of the way.
    pub stages: Vec<(String, Column)>,
    /// See [`METRICS`].
    pub metrics: [Column; METRICS.len()],
    /// What the objective is about.
    pub value: Column,
    /// Whether it was held: 1, or not: 0.
    pub held: Column,
    /// Wall time, whole seconds since 1970.
    pub time: Column,
    /// Process of a bench run that wrote it: number in [`Gathered::runs`].
    pub run: Column,
    /// Temperature, tenths of a degree above −100 °C.
    pub temperature: Column,
    /// Clock, per mille of the highest.
    pub clock: Column,
    /// See [`THROTTLED`] and so on.
    pub conditions: Vec<u8>,
    /// Tokens that were prefilled.
    pub prefilled: Column,
    /// Members of its steps (median).
    pub batch: Column,
    /// Tokens per second, in thousandths.
    pub tps: Column,
    /// The writer's cause: number of the stage in `stages`.
    pub cause: Column,
    /// The writer's reason: number in [`Columns::becauses`].
    pub because: Column,
    /// The writer's reasons.
    pub becauses: Vec<String>,
    /// The worst: value, number of the record, who it was.
    pub worst: BinaryHeap<Reverse<(u32, usize, String)>>,
}

/// The records of one group.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they share.
    pub key: Key,
    /// Warm records, and those that don't say.
    pub warm: Columns,
    /// Cold records: the first work of a model in its process.
    pub cold: Columns,
    /// Records that don't say whether they were cold (schema 1).
    pub unsaid: usize,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, if known.
    pub at: Option<Wall>,
    /// What, in words.
    pub what: String,
}

/// Loads of one model.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// All of it.
    pub total: Column,
    /// By stage.
    pub stages: Vec<(String, Column)>,
    /// How many.
    pub count: usize,
}

/// Everything that a report is made of.
#[derive(Debug, Default)]
pub struct Gathered {
    /// By what they share.
    pub groups: Vec<Group>,
    /// By role, model and target.
    pub loads: BTreeMap<(String, String, String), Loads>,
    /// Moves of the ladder, the first of them.
    pub moves: Vec<Event>,
    /// How many there were.
    pub move_count: u64,
    /// What was dropped, by what and why.
    pub drops: BTreeMap<(String, String), u64>,
    /// Suspends and steps of the wall clock, the first of them.
    pub marks: Vec<Event>,
    /// Records and events that the writer lost, by the reason.
    pub lost: BTreeMap<String, (u64, u64)>,
    /// Events that the writer counted as lost in the records.
    pub lost_events: u64,
    /// Runs of the bench.
    pub benches: Vec<String>,
    /// Processes of bench runs, in words; each has a segment of its own.
    pub runs: Vec<String>,
    /// The one whose segment is being read: which segment, number in `runs`.
    run: Option<(std::path::PathBuf, u32)>,
    /// Why a bench run is not a result.
    pub noise: Vec<String>,
    /// The devices.
    pub devices: BTreeSet<String>,
    /// The programs.
    pub versions: BTreeSet<String>,
    /// Processes that wrote.
    pub processes: BTreeSet<(u64, String)>,
    /// First and last record within the range.
    pub span: Option<(Wall, Wall)>,
    /// What could not be read.
    pub tally: Tally,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// Reads what is within a range.
pub fn gather(source: &Source, range: &Range, stop: &dyn Fn() -> bool) -> Gathered {
    let mut gathered = Gathered::default();
    let mut tally = Tally::default();
    let mut count = 0_u32;
    let mut stopped = false;
    for segment in source.segments() {
        if let Some(device) = &segment.device {
            gathered.devices.insert(device.clone());
        }
        if let Some(version) = &segment.version {
            gathered.versions.insert(version.clone());
        }
        if let Some(process) = &segment.process {
            gathered.processes.insert(process.clone());
        }
    }
    source.each(range, &mut tally, &mut |segment, line| {
        gathered.line(segment, line);
        count = count.wrapping_add(1);
        if count.is_multiple_of(4096) && stop() {
            stopped = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    gathered.tally = tally;
    gathered.stopped = stopped;
    // The largest groups first; those of a kind stay together.
    gathered.groups.sort_by(|a, b| a.key.cmp(&b.key));
    gathered
        .groups
        .sort_by_key(|group| (Reverse(group.key.kind), Reverse(group.warm.count)));
    gathered
}

impl Gathered {
    fn line(&mut self, segment: &Segment, line: &Line<'_>) {
        let at = line.at_ns.and_then(|at| segment.wall(at));
        let known = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
        match &line.content {
            Content::Work(work) => {
                if let Some(at) = at {
                    let (first, last) = self.span.get_or_insert((at, at));
                    *first = (*first).min(at);
                    *last = (*last).max(at);
                }
                self.lost_events = self.lost_events.saturating_add(work.lost_events);
                let group = match self.groups.iter().position(|group| group.key.is_of(work)) {
                    Some(at) => &mut self.groups[at],
                    None => {
                        self.groups.push(Group {
                            key: Key::of(work),
                            warm: Columns::default(),
                            cold: Columns::default(),
                            unsaid: 0,
                        });
                        let last = self.groups.len() - 1;
                        &mut self.groups[last]
                    }
                };
                let columns = match work.cold {
                    Some(true) => &mut group.cold,
                    Some(false) => &mut group.warm,
                    None => {
                        group.unsaid += 1;
                        &mut group.warm
                    }
                };
                if let Some((path, run)) = &self.run
                    && *path == segment.path
                {
                    columns.run.put(columns.count, *run);
                }
                columns.put(work, at);
            }
            Content::Header(header) if header.lost_before > 0 => {
                let process = "a process that ended".to_owned();
                let (_, events) = self.lost.entry(process).or_default();
                *events = events.saturating_add(header.lost_before);
            }
            Content::Load(load) => {
                let key = (
                    known(load.role.as_deref()),
                    load.model.to_string(),
                    load.target.to_string(),
                );
                let loads = self.loads.entry(key).or_default();
                let number = loads.count;
                loads.count += 1;
                if let Some(total) = load.total {
                    loads.total.put(number, total.0);
                }
                for (name, spent) in &load.stages {
                    if let Some(at) = place_of(&mut loads.stages, name, 0) {
                        loads.stages[at].1.put(number, spent.0);
                    }
                }
            }
            Content::Move(moved) => {
                self.move_count += 1;
                if self.moves.len() < EVENTS {
                    let stream = moved.stream.as_deref().map(|s| format!("{s}: "));
                    let reason = moved.reason.as_deref().map(|r| format!(" ({r})"));
                    self.moves.push(Event {
                        at,
                        what: format!(
                            "{}{} → {}{}",
                            stream.unwrap_or_default(),
                            &*moved.from,
                            &*moved.to,
                            reason.unwrap_or_default()
                        ),
                    });
                }
            }
            Content::Drop(drop) => {
                let key = (drop.what.to_string(), known(drop.why.as_deref()));
                let count = self.drops.entry(key).or_default();
                *count = count.saturating_add(drop.count);
            }
            Content::Mark(mark) if self.marks.len() < EVENTS => {
                let what = match &*mark.what {
                    "suspend" => format!("the device slept {:.1} s", mark.ms / 1e3),
                    "clock_step" => format!("the wall clock was set, by {:+.3} s", mark.ms / 1e3),
                    other => format!("{other}: {} ms", mark.ms),
                };
                self.marks.push(Event { at, what });
            }
            Content::Loss(loss) => {
                let (records, events) = self.lost.entry(known(loss.why.as_deref())).or_default();
                *records = records.saturating_add(loss.records);
                *events = events.saturating_add(loss.events);
            }
            Content::Bench(bench) => self.bench(segment, bench),
            _ => {}
        }
    }

    fn bench(&mut self, segment: &Segment, bench: &Bench<'_>) {
        let words = format!(
            "bench {}, run {}, process {}",
            bench.what.as_deref().unwrap_or("?"),
            bench.run.as_deref().unwrap_or("?"),
            bench.process.map_or("?".to_owned(), |p| p.to_string())
        );
        if !bench.end && self.runs.len() < EVENTS {
            self.benches.push(words.clone());
            self.run = Some((segment.path.clone(), self.runs.len() as u32));
            self.runs.push(words.clone());
        }
        if bench.noisy == Some(true) && self.noise.len() < EVENTS {
            self.noise.push(format!(
                "{words}: the machine was busy meanwhile ({}); these figures are not a result",
                bench.why.as_deref().unwrap_or("no reason given")
            ));
        }
    }
}

impl Key {
    fn of(work: &Work<'_>) -> Self {
        Self {
            kind: work.kind,
            model: model(work),
            target: target(work),
            objective: objective(work)
                .map(|(name, metric, limit)| (name.to_owned(), metric.to_owned(), limit)),
        }
    }

    fn is_of(&self, work: &Work<'_>) -> bool {
        self.kind == work.kind
            && self.objective.as_ref().map(|(n, m, l)| (&**n, &**m, *l)) == objective(work)
            && same(&self.model, &model_parts(work))
            && same(&self.target, &target_parts(work))
    }
}

/// Whether a text is these parts, one after the other; without putting them together.
fn same(text: &str, parts: &[&str]) -> bool {
    let mut rest = text;
    for part in parts {
        match rest.strip_prefix(part) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}

fn model_parts<'w>(work: &'w Work<'_>) -> [&'w str; 6] {
    let mut parts = [""; 6];
    parts[0] = &work.model;
    if let Some(language) = &work.language {
        parts[1] = " → ";
        parts[2] = language;
    }
    if let (Some(precision), false) = (&work.precision, work.kind == WorkKind::Utterance) {
        parts[3] = " (";
        parts[4] = precision;
        parts[5] = ")";
    }
    parts
}

fn model(work: &Work<'_>) -> String {
    model_parts(work).concat()
}

fn target_parts<'w>(work: &'w Work<'_>) -> [&'w str; 3] {
    match &work.language_target {
        Some(other) if *other != work.target => [&work.target, " + ", other],
        _ => [&work.target, "", ""],
    }
}

fn target(work: &Work<'_>) -> String {
    target_parts(work).concat()
}

fn objective<'w>(work: &'w Work<'_>) -> Option<(&'w str, &'w str, Micros)> {
    let Objective {
        name,
        metric,
        limit,
        ..
    } = work.objective.as_ref()?;
    Some((
        name.as_deref().unwrap_or("unnamed"),
        metric.as_deref()?,
        (*limit)?,
    ))
}

/// The place of a stage, which is added if it is new. `hint` is where it was in the record before.
fn place_of(stages: &mut Vec<(String, Column)>, name: &str, hint: usize) -> Option<usize> {
    if stages.get(hint).is_some_and(|(known, _)| known == name) {
        return Some(hint);
    }
    if let Some(at) = stages.iter().position(|(known, _)| known == name) {
        return Some(at);
    }
    if stages.len() >= STAGES {
        return None;
    }
    stages.push((name.to_owned(), Column::default()));
    Some(stages.len() - 1)
}

impl Columns {
    fn put(&mut self, work: &Work<'_>, time: Option<Wall>) {
        let at = self.count;
        self.count += 1;
        for (hint, (name, spent)) in work.stages.iter().enumerate() {
            if let Some(place) = place_of(&mut self.stages, name, hint) {
                self.stages[place].1.put(at, spent.0);
            }
        }
        let reply = work.reply.as_ref();
        let metrics = [
            work.voice_ttft,
            reply.and_then(|reply| reply.ttft),
            work.first_partial,
            work.final_latency,
            if work.kind == WorkKind::Utterance {
                None
            } else {
                work.total
            },
            reply.and_then(|reply| reply.tpot),
            reply.and_then(|reply| reply.queue_wait),
        ];
        for (column, value) in self.metrics.iter_mut().zip(metrics) {
            if let Some(value) = value {
                column.put(at, value.0);
            }
        }
        let objective = work.objective.as_ref();
        let value = objective.and_then(|o| o.value).or(match work.kind {
            WorkKind::Utterance => work.final_latency,
            WorkKind::Request => reply.and_then(|reply| reply.ttft),
            WorkKind::Turn => work.voice_ttft,
        });
        if let Some(value) = value {
            self.value.put(at, value.0);
            if self.worst.len() < WORST {
                self.worst.push(Reverse((value.0, at, who(work))));
            } else if self
                .worst
                .peek()
                .is_some_and(|Reverse((least, ..))| *least < value.0)
            {
                self.worst.pop();
                self.worst.push(Reverse((value.0, at, who(work))));
            }
        }
        let held = objective.and_then(|o| {
            o.held.or(match (o.value, o.limit) {
                (Some(value), Some(limit)) => Some(value <= limit),
                _ => None,
            })
        });
        if let Some(held) = held {
            self.held.put(at, u32::from(held));
        }
        if let Some(time) = time
            && let Ok(seconds) = u32::try_from(time.seconds())
        {
            self.time.put(at, seconds);
        }
        let mut conditions = 0;
        if let Some(device) = &work.device {
            if let Some(c) = device.temperature_c
                && (-99.0..1000.0).contains(&c)
            {
                self.temperature
                    .put(at, ((c + 100.0) * 10.0).round() as u32);
            }
            if let Some(clock) = device.clock() {
                self.clock.put(at, (clock * 1e3).round() as u32);
            }
            let short = device
                .memory_available_bytes
                .is_some_and(|bytes| bytes < crate::log::device::SHORT_OF_MEMORY);
            for (holds, condition) in [
                (device.is_throttled(), THROTTLED),
                (device.is_loaded(), LOADED),
                (short, SHORT_OF_MEMORY),
            ] {
                if holds {
                    conditions |= condition;
                }
            }
        }
        if work.suspended.is_some_and(|slept| slept.0 > 0) {
            conditions |= SUSPENDED;
        }
        self.conditions.push(conditions);
        if let Some(reply) = reply {
            if let Some(prompt) = reply.prompt_tokens {
                let new = prompt.saturating_sub(reply.cached_tokens.unwrap_or_default());
                self.prefilled.put(at, new.min(10_000_000) as u32);
            }
            if let Some(batch) = reply.batch {
                self.batch.put(at, batch.p50.clamp(0.0, 1e6).round() as u32);
            }
            if let Some(tps) = reply.tps
                && (0.0..4e6).contains(&tps)
            {
                self.tps.put(at, (tps * 1e3).round() as u32);
            }
        }
        if let Some(cause) = &work.cause
            && let Some(stage) = &cause.stage
        {
            if let Some(place) = place_of(&mut self.stages, stage, 0) {
                self.cause.put(at, place as u32);
            }
            if let Some(because) = &cause.because {
                let place = self.becauses.iter().position(|known| **known == **because);
                let place = place.or_else(|| {
                    (self.becauses.len() < STAGES).then(|| {
                        self.becauses.push(because.to_string());
                        self.becauses.len() - 1
                    })
                });
                if let Some(place) = place {
                    self.because.put(at, place as u32);
                }
            }
        }
    }
}

/// `mic, utterance 12`.
fn who(work: &Work<'_>) -> String {
    match (&work.stream, work.utterance) {
        (Some(stream), Some(utterance)) => format!("{}, utterance {utterance}", &**stream),
        (Some(stream), None) => stream.to_string(),
        _ => String::new(),
    }
}
