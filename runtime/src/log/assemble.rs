//! Events become records, and records lines. Only the writing thread is here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use firstword_audio::clock::Stamp;
use serde::Serialize;

use super::cause::{Cause, Group, Known, Usual};
use super::clock::{Oddity, Reading, oddities};
use super::device::Sample;
use super::event::{Event, ModelId, StreamId, Ticket};
use super::metrics::{Figure, Metrics};
use super::objective::{Judged, Metric, Objective};
use super::rare::{LoadLine, Model, Rare};
use super::read::WorkKind;
use super::recorder::{Shared, WORDS};
use crate::record::{
    Language, Path, Record, Reply, ReplyPath, Request, SCHEMA, STAGES, Steps, Turn, Work,
    milliseconds,
};

/// Records that may be half told at a time; partials of so many utterances are kept.
const OPEN: usize = 256;
/// Partials of an utterance that enter its statistics.
const PARTIALS: usize = 1024;
/// What time did is remembered for so many sleeps and steps.
const ODDITIES: usize = 64;

/// A line, ready to be written.
#[derive(Debug)]
pub(super) struct Line {
    pub bytes: Vec<u8>,
    /// Whether it is a record; a line of the trace is the first to go where there is no room.
    pub is_record: bool,
}

/// Makes lines.
#[derive(Debug)]
pub(super) struct Assembler {
    shared: Arc<Shared>,
    objective: Objective,
    drafts: HashMap<Ticket, Draft>,
    order: VecDeque<Ticket>,
    partials: HashMap<(StreamId, u32), Partials>,
    partials_order: VecDeque<(StreamId, u32)>,
    texts: HashMap<Ticket, (String, Option<String>)>,
    /// Models that have worked in this process.
    warm: HashSet<ModelId>,
    usual: Usual,
    clocks: Reading,
    oddities: VecDeque<(Stamp, Oddity)>,
    /// The newest sample.
    pub device: Option<Sample>,
    /// Records of which an event was lost.
    pub incomplete: u64,
    pub metrics: Metrics,
}

/// A record that is being told.
#[derive(Debug, Default)]
struct Draft {
    seen: u16,
    stream: StreamId,
    heard: Option<ModelId>,
    asked: Option<ModelId>,
    record: Record,
    reply: Reply,
    slow: usize,
    words: Vec<[Stamp; 3]>,
}

/// The partials of an utterance.
#[derive(Debug, Default)]
struct Partials {
    first: Option<Stamp>,
    count: u32,
    micros: Vec<u32>,
}

impl Assembler {
    pub fn new(shared: Arc<Shared>, objective: Objective) -> Self {
        Self {
            shared,
            objective,
            drafts: HashMap::new(),
            order: VecDeque::new(),
            partials: HashMap::new(),
            partials_order: VecDeque::new(),
            texts: HashMap::new(),
            warm: HashSet::new(),
            usual: Usual::default(),
            clocks: Reading::now(),
            oddities: VecDeque::new(),
            device: None,
            incomplete: 0,
            metrics: Metrics::default(),
        }
    }

    /// Looks at the clocks; what time did since the last look becomes lines. The second value: the wall was set.
    pub fn clocks(&mut self, now: Reading) -> (Vec<Line>, bool) {
        let mut stepped = false;
        let mut lines = Vec::new();
        for oddity in oddities(&self.clocks, &now).into_iter().flatten() {
            let (what, ms) = match oddity {
                Oddity::Suspend(slept) => ("suspend", milliseconds(slept)),
                Oddity::Step(ns) => ("clock_step", ns as f64 / 1e6),
            };
            stepped |= matches!(oddity, Oddity::Step(_));
            if self.oddities.len() >= ODDITIES {
                self.oddities.pop_front();
            }
            self.oddities.push_back((now.mono, oddity));
            lines.extend(line("mark", now.mono, &Mark { what, ms }));
        }
        self.clocks = now;
        (lines, stepped)
    }

    /// Everything that was told since the last time.
    pub fn gather(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        loop {
            // At most one queue full at a time, so that a flood does not fill the memory.
            let events: Vec<Event> = std::iter::from_fn(|| self.shared.queue.pop())
                .take(super::recorder::WAITING)
                .collect();
            // Behind the events: what belongs to a record was told before its last one.
            for rare in self.shared.take_rare() {
                lines.extend(self.rare(rare));
            }
            if events.is_empty() {
                return lines;
            }
            if events.iter().any(|e| matches!(e, Event::Done { .. })) {
                let (marks, _) = self.clocks(Reading::now());
                lines.extend(marks);
            }
            for event in events {
                lines.extend(self.event(event));
            }
            if lines.len() >= super::recorder::WAITING {
                return lines;
            }
        }
    }

    /// Records that will never be whole.
    pub fn give_up(&mut self) {
        self.incomplete += self.drafts.len() as u64;
        self.drafts.clear();
        self.order.clear();
    }

    fn rare(&mut self, rare: Rare) -> Option<Line> {
        let now = Stamp::now();
        match rare {
            Rare::Load(model, load) => line("load", now, &LoadLine::new(&model, &load)),
            Rare::Move(moved) => {
                self.metrics.count("ladder_moves");
                line("move", now, &moved)
            }
            Rare::Drop(dropped) => {
                self.metrics.count("drops");
                line("drop", now, &dropped)
            }
            Rare::Bench { kind, fields } => line(kind, now, &fields),
            Rare::Text {
                ticket,
                said,
                reply,
            } => {
                self.texts.insert(ticket, (said, reply));
                None
            }
        }
    }

    fn draft(&mut self, ticket: Ticket) -> &mut Draft {
        if !self.drafts.contains_key(&ticket) {
            if self.order.len() >= OPEN
                && let Some(oldest) = self.order.pop_front()
                && self.drafts.remove(&oldest).is_some()
            {
                self.incomplete += 1;
                self.texts.remove(&oldest);
            }
            self.order.push_back(ticket);
        }
        let draft = self.drafts.entry(ticket).or_default();
        draft.seen += 1;
        draft
    }

    fn event(&mut self, event: Event) -> Option<Line> {
        match event {
            Event::None => {}
            Event::Partial {
                stream,
                utterance,
                captured,
                handed_over,
            } => self.partial((stream, utterance), captured, handed_over),
            Event::Heard {
                ticket,
                stream,
                model,
                utterance,
                start,
                end,
                ending,
            } => {
                let draft = self.draft(ticket);
                draft.stream = stream;
                draft.heard = Some(model);
                let record = &mut draft.record;
                (record.utterance, record.start, record.end, record.ending) =
                    (utterance, start, end, ending);
            }
            Event::PathBegin(ticket, at) => {
                let path = &mut self.draft(ticket).record.path;
                *path = Path {
                    first_captured: at[0],
                    last_captured: at[1],
                    end_captured: at[2],
                    received: at[3],
                    resampled: at[4],
                    ..*path
                };
            }
            Event::PathEnd(ticket, at) => {
                let path = &mut self.draft(ticket).record.path;
                *path = Path {
                    judged: at[0],
                    started: at[1],
                    encoded: at[2],
                    decoded: at[3],
                    assembled: at[4],
                    handed_over: at[5],
                    ..*path
                };
            }
            Event::Work(ticket, nanos) => {
                let [read, resample, voice_activity, encode, decode, slowest_step] =
                    nanos.map(Duration::from_nanos);
                self.draft(ticket).record.work = Work {
                    read,
                    resample,
                    voice_activity,
                    encode,
                    decode,
                    slowest_step,
                };
            }
            Event::Counts(ticket, counts) => self.draft(ticket).record.counts = counts,
            Event::Word {
                ticket,
                captured,
                committed,
                handed_over,
            } => {
                let words = &mut self.draft(ticket).words;
                if words.len() < WORDS {
                    words.push([captured, committed, handed_over]);
                }
            }
            Event::Asked {
                ticket,
                model,
                prompt_tokens,
                cached_tokens,
                prefill_chunks,
                tokens,
                context_tokens,
                finish,
                detokenise_ns,
            } => {
                let draft = self.draft(ticket);
                draft.asked = Some(model);
                draft.reply = Reply {
                    prompt_tokens,
                    cached_tokens,
                    prefill_chunks,
                    tokens,
                    context_tokens,
                    finish,
                    detokenise: Duration::from_nanos(detokenise_ns),
                    ..draft.reply
                };
            }
            Event::ReplyPath(ticket, at) => {
                self.draft(ticket).reply.path = ReplyPath {
                    accepted: at[0],
                    prompted: at[1],
                    started: at[2],
                    prefilled: at[3],
                    first_token: at[4],
                    last_token: at[5],
                };
            }
            Event::Steps {
                ticket,
                count,
                micros,
                batch,
            } => {
                let [p50, p95, p99, slowest] =
                    micros.map(|micros| Duration::from_micros(u64::from(micros)));
                let steps = &mut self.draft(ticket).reply.steps;
                *steps = Steps {
                    count,
                    p50,
                    p95,
                    p99,
                    slowest,
                    batch_p50: batch[0],
                    batch_max: batch[1],
                    slow: steps.slow,
                };
            }
            Event::SlowStep(ticket, slow) => {
                let draft = self.draft(ticket);
                if let Some(place) = draft.reply.steps.slow.get_mut(draft.slow) {
                    *place = slow;
                    draft.slow += 1;
                }
            }
            Event::Done {
                ticket,
                kind,
                parts,
                words_more,
            } => return self.done(ticket, kind, parts, words_more),
            Event::Step {
                role,
                batch,
                stream,
                model,
                due,
                start,
                end,
            } => {
                let name = self.shared.stream(stream);
                let model = self.shared.model(model);
                let step = StepLine {
                    t: "step",
                    role: role.name(),
                    due_ns: due.as_nanos(),
                    start_ns: start.as_nanos(),
                    end_ns: end.as_nanos(),
                    batch,
                    stream: name.as_deref(),
                    model: model.as_ref().map(|model| model.model.as_str()),
                };
                return trace(end, &step);
            }
            Event::Arrival {
                stream,
                samples,
                captured,
                received,
            } => {
                let name = self.shared.stream(stream);
                let arrival = ArrivalLine {
                    t: "arrival",
                    stream: name.as_deref(),
                    samples,
                    captured_ns: captured.as_nanos(),
                };
                return trace(received, &arrival);
            }
            Event::Closed(stream) => self.shared.forget(stream),
        }
        None
    }

    fn partial(&mut self, of: (StreamId, u32), captured: Stamp, handed_over: Stamp) {
        if !self.partials.contains_key(&of) {
            if self.partials_order.len() >= OPEN
                && let Some(oldest) = self.partials_order.pop_front()
            {
                self.partials.remove(&oldest);
            }
            self.partials_order.push_back(of);
        }
        let partials = self.partials.entry(of).or_default();
        partials.first.get_or_insert(handed_over);
        partials.count += 1;
        let latency = handed_over.since(captured);
        if partials.micros.len() < PARTIALS {
            partials
                .micros
                .push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
        }
        self.metrics.observe(Figure::Partial, latency);
    }

    fn done(
        &mut self,
        ticket: Ticket,
        kind: WorkKind,
        parts: u16,
        words_more: u32,
    ) -> Option<Line> {
        let mut draft = self.drafts.remove(&ticket).unwrap_or_default();
        self.order.retain(|open| *open != ticket);
        let text = self.texts.remove(&ticket);
        let heard = draft.heard.and_then(|id| self.shared.model(id));
        let asked = draft.asked.and_then(|id| self.shared.model(id));
        let complete = draft.seen + 1 == parts
            && (kind == WorkKind::Request || heard.is_some())
            && (kind == WorkKind::Utterance || asked.is_some());
        if !complete {
            self.incomplete += 1;
            return None;
        }
        let partials = {
            let of = (draft.stream, draft.record.utterance);
            self.partials_order.retain(|open| *open != of);
            self.partials.remove(&of).unwrap_or_default()
        };
        let mut cold = false;
        for model in [draft.heard, draft.asked].into_iter().flatten() {
            cold |= self.warm.insert(model);
        }
        if let Some(model) = &heard {
            let name = self.shared.stream(draft.stream);
            let record = &mut draft.record;
            record.schema = SCHEMA;
            record.kind = "utterance";
            record.stream = name.as_deref().unwrap_or_default().to_owned();
            record.model.clone_from(&model.model);
            record.decoder = model.decoder.clone().unwrap_or_default();
            record.target.clone_from(&model.target);
            record.onnxruntime.clone_from(&model.onnxruntime);
        }
        let whole = Whole {
            kind,
            cold,
            partials,
            words_more,
            heard,
            asked,
            draft,
            text,
        };
        self.whole(whole)
    }

    fn whole(&mut self, whole: Whole) -> Option<Line> {
        let language = whole.asked.as_deref().map(|model| Language {
            model: model.model.clone(),
            precision: model.precision.clone().unwrap_or_default(),
            target: model.target.clone(),
            placement: model.placement.clone(),
        });
        let (record, reply) = (&whole.draft.record, whole.draft.reply);
        match whole.kind {
            WorkKind::Utterance => {
                let stages: Vec<_> = STAGES.into_iter().zip(record.path.stages()).collect();
                self.finish(&whole, &stages, record.path.total(), None, record)
            }
            WorkKind::Request => {
                let onnxruntime = whole.asked.as_ref()?.onnxruntime.clone();
                let request = Request::new(language?, onnxruntime, reply);
                let stages = request.stages_ms.0.clone();
                self.finish(&whole, &stages, request.e2e, None, &request)
            }
            WorkKind::Turn => {
                let turn = Turn::new(record, language?, reply);
                let stages = turn.stages_ms.0.clone();
                self.finish(&whole, &stages, turn.e2e, Some(turn.voice_ttft), &turn)
            }
        }
    }

    /// The line of a record: its own fields, and what only the log knows.
    fn finish<B: Serialize>(
        &mut self,
        whole: &Whole,
        stages: &[(&'static str, Duration)],
        total: Duration,
        voice_ttft: Option<Duration>,
        body: &B,
    ) -> Option<Line> {
        let (path, reply) = (&whole.draft.record.path, &whole.draft.reply);
        let heard = whole.heard.is_some();
        let first_partial = whole
            .partials
            .first
            .filter(|_| heard)
            .map(|first| first.since(path.first_captured));
        let partial_ms = PartialsLine::of(&whole.partials);
        let value = |metric: Metric| match metric {
            Metric::Ttft => (whole.asked.is_some() && reply.tokens > 0).then(|| reply.path.ttft()),
            Metric::VoiceTtft => voice_ttft.filter(|_| reply.tokens > 0),
            Metric::FirstPartial => first_partial,
            Metric::Partial => partial_ms
                .as_ref()
                .map(|partial| Duration::from_secs_f64(partial.p95 / 1e3)),
            Metric::Final => heard.then(|| path.total()),
            Metric::E2e => Some(total),
        };
        let metric = self.objective.metric(whole.kind);
        let judged: Option<Judged> =
            metric.and_then(|metric| Some(self.objective.judge(metric, value(metric)?)));
        let missed = judged.is_some_and(|judged| !judged.held);

        let begin = if heard {
            path.first_captured
        } else {
            reply.path.accepted
        };
        let since = |at: Stamp| at >= begin;
        let (mut suspended, mut stepped) = (Duration::ZERO, None);
        for (at, oddity) in self.oddities.iter().filter(|(at, _)| since(*at)) {
            let _ = at;
            match oddity {
                Oddity::Suspend(slept) => suspended += *slept,
                Oddity::Step(ns) => *stepped.get_or_insert(0.0) += *ns as f64 / 1e6,
            }
        }

        let models = [&whole.heard, &whole.asked];
        let of: Vec<&str> = models
            .into_iter()
            .flatten()
            .flat_map(|model| [model.model.as_str(), model.target.as_str()])
            .collect();
        let group = Group::new(whole.kind, &of);
        let cause = missed
            .then(|| {
                let known = Known {
                    metric,
                    cold: whole.cold,
                    slept: !suspended.is_zero(),
                    device: self.device.as_ref(),
                };
                self.usual.cause(&group, stages, &known)
            })
            .flatten();
        if !whole.cold && !missed {
            self.usual.learn(&group, stages);
        }
        self.measure(whole, judged, voice_ttft, first_partial);

        let at = Stamp::now();
        let extra = Extra {
            at_ns: at.as_nanos(),
            cold: whole.cold,
            objective: judged,
            cause,
            device: self.device.as_ref(),
            lost_events: self
                .shared
                .lost
                .swap(0, std::sync::atomic::Ordering::Relaxed),
            suspended_ms: milliseconds(suspended),
            clock_step_ms: stepped,
            heard: whole.heard.as_ref().map(|model| HeardExtra {
                placement: model.placement.as_deref(),
                first_partial_ms: first_partial.map(milliseconds),
                partial_ms,
                words: whole.draft.words.iter().map(WordLine::of).collect(),
                words_more: whole.words_more,
            }),
            text: whole.text.as_ref().map(|(said, _)| said.as_str()),
            reply_text: whole.text.as_ref().and_then(|(_, reply)| reply.as_deref()),
        };
        render(&Both { body, extra }, true)
    }

    fn measure(
        &mut self,
        whole: &Whole,
        judged: Option<Judged>,
        voice_ttft: Option<Duration>,
        first_partial: Option<Duration>,
    ) {
        let metrics = &mut self.metrics;
        metrics.record(whole.kind, whole.cold, judged);
        if whole.heard.is_some() {
            metrics.observe(Figure::Final, whole.draft.record.path.total());
            if let Some(first) = first_partial {
                metrics.observe(Figure::FirstPartial, first);
            }
        }
        if whole.asked.is_some() {
            let reply = &whole.draft.reply;
            metrics.observe(Figure::QueueWait, reply.path.queue_wait());
            if reply.tokens > 0 {
                metrics.observe(Figure::Ttft, reply.path.ttft());
            }
            if let Some(tpot) = reply.tpot() {
                metrics.observe(Figure::Tpot, tpot);
            }
        }
        if let Some(voice) = voice_ttft {
            metrics.observe(Figure::VoiceTtft, voice);
        }
    }
}

/// A record whose events are all there.
struct Whole {
    kind: WorkKind,
    cold: bool,
    partials: Partials,
    words_more: u32,
    heard: Option<Arc<Model>>,
    asked: Option<Arc<Model>>,
    draft: Draft,
    text: Option<(String, Option<String>)>,
}

/// A record's own fields and the log's.
#[derive(Serialize)]
struct Both<'a, B: Serialize> {
    #[serde(flatten)]
    body: &'a B,
    #[serde(flatten)]
    extra: Extra<'a>,
}

#[derive(Serialize)]
struct Extra<'a> {
    at_ns: u64,
    cold: bool,
    objective: Option<Judged>,
    cause: Option<Cause>,
    device: Option<&'a Sample>,
    lost_events: u64,
    suspended_ms: f64,
    clock_step_ms: Option<f64>,
    #[serde(flatten)]
    heard: Option<HeardExtra<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_text: Option<&'a str>,
}

#[derive(Serialize)]
struct HeardExtra<'a> {
    placement: Option<&'a str>,
    first_partial_ms: Option<f64>,
    partial_ms: Option<PartialsLine>,
    words: Vec<WordLine>,
    words_more: u32,
}

#[derive(Clone, Copy, Serialize)]
struct PartialsLine {
    count: u32,
    p50: f64,
    p95: f64,
    max: f64,
}

impl PartialsLine {
    /// Nearest ranks, as everywhere; `None` without a partial.
    fn of(partials: &Partials) -> Option<Self> {
        let mut sorted = partials.micros.clone();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            Some(f64::from(*sorted.get(at)?) / 1e3)
        };
        Some(Self {
            count: partials.count,
            p50: rank(50)?,
            p95: rank(95)?,
            max: rank(100)?,
        })
    }
}

#[derive(Serialize)]
struct WordLine {
    captured_ns: u64,
    committed_ns: u64,
    handed_over_ns: u64,
}

impl WordLine {
    fn of(at: &[Stamp; 3]) -> Self {
        let [captured_ns, committed_ns, handed_over_ns] = at.map(Stamp::as_nanos);
        Self {
            captured_ns,
            committed_ns,
            handed_over_ns,
        }
    }
}

#[derive(Serialize)]
struct StepLine<'a> {
    t: &'static str,
    role: &'static str,
    due_ns: u64,
    start_ns: u64,
    end_ns: u64,
    batch: u16,
    stream: Option<&'a str>,
    model: Option<&'a str>,
}

#[derive(Serialize)]
struct ArrivalLine<'a> {
    t: &'static str,
    stream: Option<&'a str>,
    samples: u32,
    captured_ns: u64,
}

#[derive(Serialize)]
struct Mark {
    what: &'static str,
    ms: f64,
}

/// The beginning of every other line than a record.
#[derive(Serialize)]
struct Headed<'a, B: Serialize> {
    schema: u32,
    kind: &'a str,
    at_ns: u64,
    #[serde(flatten)]
    body: &'a B,
}

/// A line of this kind.
pub(super) fn line<B: Serialize>(kind: &str, at: Stamp, body: &B) -> Option<Line> {
    let headed = Headed {
        schema: SCHEMA,
        kind,
        at_ns: at.as_nanos(),
        body,
    };
    render(&headed, true)
}

fn trace<B: Serialize>(at: Stamp, body: &B) -> Option<Line> {
    let headed = Headed {
        schema: SCHEMA,
        kind: "trace",
        at_ns: at.as_nanos(),
        body,
    };
    render(&headed, false)
}

fn render(line: &impl Serialize, is_record: bool) -> Option<Line> {
    // Nothing in a line can fail to be written as JSON: there are no maps with other keys than texts.
    let mut bytes = serde_json::to_vec(line).ok()?;
    bytes.push(b'\n');
    Some(Line { bytes, is_record })
}
