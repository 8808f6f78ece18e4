//! The record of a request to a language model, and that of a voice turn: speech → words → prompt → reply.

use std::time::Duration;

use firstword_audio::clock::Samples;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::reply::{REPLY_STAGES, Reply};
use super::{Counts, Ending, Path, Record, SCHEMA, STAGES, Work, milliseconds, seconds_of_samples};

/// Which language model ran, and on what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Language {
    /// The model's name.
    pub model: String,
    /// The precision of its weights: `exact`, `balanced`, `fast`, or what a published folder says.
    pub precision: String,
    /// Where it ran.
    pub target: String,
    /// Which provider of ONNX Runtime ran its nodes, as far as is known.
    pub placement: Option<String>,
}

/// What one request to a language model cost.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What the line is about: `request`.
    pub kind: &'static str,
    /// Which model, and where.
    #[serde(flatten)]
    pub language: Language,
    /// Version of the ONNX Runtime library.
    pub onnxruntime: String,
    /// Request accepted → last token handed over.
    #[serde(rename = "e2e_ms", serialize_with = "super::ms")]
    pub e2e: Duration,
    /// The stages of that time, one after the other.
    pub stages_ms: Stages,
    /// What it cost.
    #[serde(flatten)]
    pub reply: Reply,
}

impl Request {
    /// The record of a reply.
    #[must_use]
    pub fn new(language: Language, onnxruntime: String, reply: Reply) -> Self {
        Self {
            schema: SCHEMA,
            kind: "request",
            language,
            onnxruntime,
            e2e: reply.path.e2e(),
            stages_ms: Stages(REPLY_STAGES.into_iter().zip(reply.path.stages()).collect()),
            reply,
        }
    }
}

/// What one voice turn cost, from the last sample of the speech to the last token of the reply.
#[derive(Clone, Debug, Serialize)]
pub struct Turn {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What the line is about: `turn`.
    pub kind: &'static str,
    /// The stream's name, as the user gave it.
    pub stream: String,
    /// The utterance's number in its stream, from 0.
    pub utterance: u32,
    /// First sample of the utterance, pre-roll included.
    #[serde(rename = "start_s", serialize_with = "seconds_of_samples")]
    pub start: Samples,
    /// One past its last sample.
    #[serde(rename = "end_s", serialize_with = "seconds_of_samples")]
    pub end: Samples,
    /// Why it ended there.
    pub ending: Ending,
    /// The recogniser's name.
    pub model: String,
    /// The form of its decoder that ran.
    pub decoder: String,
    /// Where it ran.
    pub target: String,
    /// Version of the ONNX Runtime library.
    pub onnxruntime: String,
    /// Which language model, and where.
    pub language: Language,
    /// Instant of the utterance's first sample, ns.
    pub first_captured_ns: u64,
    /// Instant of the last sample of its speech, ns.
    pub last_captured_ns: u64,
    /// Last sample captured → text handed over.
    #[serde(rename = "final_latency_ms", serialize_with = "super::ms")]
    pub final_latency: Duration,
    /// Last sample captured → first token of the reply handed over.
    #[serde(rename = "voice_ttft_ms", serialize_with = "super::ms")]
    pub voice_ttft: Duration,
    /// Last sample captured → last token handed over.
    #[serde(rename = "e2e_ms", serialize_with = "super::ms")]
    pub e2e: Duration,
    /// The stages on the critical path, one after the other: they add up to `e2e_ms`.
    pub stages_ms: Stages,
    /// Time spent for the utterance, on that path or beside it.
    pub work: Work,
    /// What was done for the utterance.
    pub counts: Counts,
    /// What the reply cost.
    pub reply: Reply,
}

impl Turn {
    /// Joins the record of an utterance, whose text was handed over, with that of the reply to it.
    #[must_use]
    pub fn new(heard: &Record, language: Language, reply: Reply) -> Self {
        let spoken: Path = heard.path;
        // The reply begins where the text was handed over; a request that was accepted later waited in between.
        let waited = reply.path.accepted.since(spoken.handed_over);
        let mut stages: Vec<(&'static str, Duration)> =
            STAGES.into_iter().zip(spoken.stages()).collect();
        stages.push(("turn_wait", waited));
        stages.extend(REPLY_STAGES.into_iter().zip(reply.path.stages()));
        Self {
            schema: SCHEMA,
            kind: "turn",
            stream: heard.stream.clone(),
            utterance: heard.utterance,
            start: heard.start,
            end: heard.end,
            ending: heard.ending,
            model: heard.model.clone(),
            decoder: heard.decoder.clone(),
            target: heard.target.clone(),
            onnxruntime: heard.onnxruntime.clone(),
            language,
            first_captured_ns: spoken.first_captured.as_nanos(),
            last_captured_ns: spoken.last_captured.as_nanos(),
            final_latency: spoken.total(),
            // Straight from the two stamps, not from the stages: a stage that is wrong shows.
            voice_ttft: reply.path.first_token.since(spoken.last_captured),
            e2e: reply.path.last_token.since(spoken.last_captured),
            stages_ms: Stages(stages),
            work: heard.work,
            counts: heard.counts,
            reply,
        }
    }
}

/// Stages with their names, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stages(pub Vec<(&'static str, Duration)>);

impl Serialize for Stages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, spent) in &self.0 {
            map.serialize_entry(name, &milliseconds(*spent))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply::ReplyPath;
    use super::*;
    use firstword_audio::clock::Stamp;

    fn at(ms: u64) -> Stamp {
        Stamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_stages_of_a_turn_add_up_to_its_length() {
        let heard = Record {
            path: Path {
                last_captured: at(1000),
                end_captured: at(1500),
                received: at(1501),
                resampled: at(1502),
                judged: at(1503),
                started: at(1503),
                encoded: at(1550),
                decoded: at(1600),
                assembled: at(1601),
                handed_over: at(1602),
                ..Path::default()
            },
            ..Record::default()
        };
        let reply = Reply {
            path: ReplyPath {
                accepted: at(1610),
                prompted: at(1611),
                started: at(1611),
                prefilled: at(1700),
                first_token: at(1702),
                last_token: at(2000),
            },
            ..Reply::default()
        };
        let turn = Turn::new(&heard, Language::default(), reply);
        let sum: Duration = turn.stages_ms.0.iter().map(|(_, spent)| *spent).sum();
        assert_eq!(sum, turn.e2e);
        assert_eq!(turn.voice_ttft, Duration::from_millis(702));
        let line = serde_json::to_value(&turn).unwrap();
        assert_eq!(line["stages_ms"]["turn_wait"], 8.0);
        assert_eq!(line["reply"]["ttft_ms"], 92.0);
        assert_eq!(line["kind"], "turn");
    }
}
