//! Events become records, and records lines. Only the writing thread is here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use firstword_audio::clock::Stamp;
use serde::Serialize;

use super::cause::{Group, Known, Usual};
use super::clock::{Oddity, Reading, oddities};
use super::device::Sample;
use super::draft::{Draft, Partials};
use super::event::{Event, ModelId, StreamId, Ticket};
use super::line::{
    ArrivalLine, Both, Extra, HeardExtra, Line, Mark, PartialsLine, StepLine, WordLine, line,
    render, trace,
};
use super::metrics::Figure;
use super::objective::{Judged, Metric, Objective};
use super::rare::{LoadLine, Model, Rare};
use super::read::WorkKind;
use super::recorder::Shared;
use crate::record::{Language, Request, SCHEMA, STAGES, Turn, milliseconds};

/// Records that may be half told at a time; partials of so many utterances are kept.
const OPEN: usize = 256;
/// What time did is remembered for so many sleeps and steps.
const ODDITIES: usize = 64;

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
        }
    }

    /// Looks at the clocks; what time did since the last look becomes lines.
    pub fn clocks(&mut self, now: Reading) -> Vec<Line> {
        let mut lines = Vec::new();
        for oddity in oddities(&self.clocks, &now).into_iter().flatten() {
            let (what, ms) = match oddity {
                Oddity::Suspend(slept) => ("suspend", milliseconds(slept)),
                Oddity::Step(ns) => ("clock_step", ns as f64 / 1e6),
            };
            if self.oddities.len() >= ODDITIES {
                self.oddities.pop_front();
            }
            self.oddities.push_back((now.mono, oddity));
            lines.extend(line("mark", now.mono, &Mark { what, ms }));
        }
        self.clocks = now;
        lines
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
                lines.extend(self.clocks(Reading::now()));
            }
            for event in events {
                lines.extend(self.event(event));
            }
            // Texts of records that were lost from their first event to their last.
            if self.texts.len() > OPEN {
                let open = &self.drafts;
                self.texts.retain(|ticket, _| open.contains_key(ticket));
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
                self.shared.metrics().add("ladder_moves", 1);
                line("move", now, &moved)
            }
            Rare::Drop(dropped) => {
                self.shared.metrics().add("drops", 1);
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
        self.drafts.entry(ticket).or_default()
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
            Event::Part(ticket, part) => self.draft(ticket).take(part),
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
        let latency = handed_over.since(captured);
        self.partials
            .entry(of)
            .or_default()
            .take(handed_over, latency);
        self.shared.metrics().observe(Figure::Partial, latency);
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
        let (mut suspended, mut stepped) = (Duration::ZERO, None);
        for (_, oddity) in self.oddities.iter().filter(|(at, _)| *at >= begin) {
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
            lost_events: self.shared.take_lost(),
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
        &self,
        whole: &Whole,
        judged: Option<Judged>,
        voice_ttft: Option<Duration>,
        first_partial: Option<Duration>,
    ) {
        let mut metrics = self.shared.metrics();
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
