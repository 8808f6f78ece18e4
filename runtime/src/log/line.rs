//! The shapes of lines: a record with what only the log knows, and all others.

use firstword_audio::clock::Stamp;
use serde::Serialize;

use super::cause::Cause;
use super::device::Sample;
use super::draft::Partials;
use super::objective::Judged;
use crate::record::SCHEMA;

/// A line, ready to be written.
#[derive(Debug)]
pub(super) struct Line {
    pub bytes: Vec<u8>,
    /// Whether it is a record; a line of the trace is the first to go where there is no room.
    pub is_record: bool,
}

/// A record's own fields and the log's.
#[derive(Serialize)]
pub(super) struct Both<'a, B: Serialize> {
    #[serde(flatten)]
    pub body: &'a B,
    #[serde(flatten)]
    pub extra: Extra<'a>,
}

/// What only the log knows of a record.
#[derive(Serialize)]
pub(super) struct Extra<'a> {
    pub at_ns: u64,
    pub cold: bool,
    pub objective: Option<Judged>,
    pub cause: Option<Cause>,
    pub device: Option<&'a Sample>,
    pub lost_events: u64,
    pub suspended_ms: f64,
    pub clock_step_ms: Option<f64>,
    #[serde(flatten)]
    pub heard: Option<HeardExtra<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_text: Option<&'a str>,
}

/// What it knows of one that was heard.
#[derive(Serialize)]
pub(super) struct HeardExtra<'a> {
    pub placement: Option<&'a str>,
    pub first_partial_ms: Option<f64>,
    pub partial_ms: Option<PartialsLine>,
    pub words: Vec<WordLine>,
    pub words_more: u32,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct PartialsLine {
    pub count: u32,
    p50: f64,
    pub p95: f64,
    pub max: f64,
}

impl PartialsLine {
    /// Nearest ranks, as everywhere; `None` without a partial.
    pub fn of(partials: &Partials) -> Option<Self> {
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
pub(super) struct WordLine {
    pub captured_ns: u64,
    pub committed_ns: u64,
    pub handed_over_ns: u64,
}

impl WordLine {
    pub fn of(at: &[Stamp; 3]) -> Self {
        let [captured_ns, committed_ns, handed_over_ns] = at.map(Stamp::as_nanos);
        Self {
            captured_ns,
            committed_ns,
            handed_over_ns,
        }
    }
}

#[derive(Serialize)]
pub(super) struct StepLine<'a> {
    pub t: &'static str,
    pub role: &'static str,
    pub due_ns: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub batch: u16,
    pub stream: Option<&'a str>,
    pub model: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct ArrivalLine<'a> {
    pub t: &'static str,
    pub stream: Option<&'a str>,
    pub samples: u32,
    pub captured_ns: u64,
}

#[derive(Serialize)]
pub(super) struct Mark {
    pub what: &'static str,
    pub ms: f64,
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

/// A line of the trace.
pub(super) fn trace<B: Serialize>(at: Stamp, body: &B) -> Option<Line> {
    let headed = Headed {
        schema: SCHEMA,
        kind: "trace",
        at_ns: at.as_nanos(),
        body,
    };
    render(&headed, false)
}

/// Any of them as JSON.
pub(super) fn render(line: &impl Serialize, is_record: bool) -> Option<Line> {
    // Nothing in a line can fail to be written as JSON: there are no maps with other keys than texts.
    let mut bytes = serde_json::to_vec(line).ok()?;
    bytes.push(b'\n');
    Some(Line { bytes, is_record })
}
