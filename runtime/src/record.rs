//! The latency record: one line for each utterance, request and turn, and the only place where its shape is defined.
//!
//! Stamps are instants on CLOCK_MONOTONIC. The path from the last sample of the speech to the text
//! in the reader's hands is cut into stages at stamps, so the stages add up to the whole by
//! construction; work that overlapped it (partials, voice activity of earlier sound) is counted
//! apart, in [`Work`].

use std::time::Duration;

use firstword_audio::clock::{Samples, Stamp};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

mod reply;
mod turn;

pub use reply::{Finish, REPLY_STAGES, Reply, ReplyPath, SLOWEST, SlowStep, Steps};
pub use turn::{Language, Request, Stages, Turn};

/// Version of the shape below. It grows when a field changes its meaning or goes.
pub const SCHEMA: u32 = 2;

/// Why an utterance ended where it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The speaker paused.
    #[default]
    Pause,
    /// The longest allowed utterance was reached: cut inside speech, at the weakest point.
    Length,
    /// The sound ended.
    EndOfSound,
}

/// What one utterance cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What the line is about: `utterance`.
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
    /// The form of its decoder that ran: `lean` or `shipped`.
    pub decoder: String,
    /// Where it ran.
    pub target: String,
    /// Version of the ONNX Runtime library.
    pub onnxruntime: String,
    /// The instants that cut the critical path into stages.
    #[serde(flatten)]
    pub path: Path,
    /// Time spent on the utterance, on the critical path or beside it.
    pub work: Work,
    /// What was done.
    pub counts: Counts,
}

/// The instants between the last sample of the speech and the text in the reader's hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The first sample of the utterance was captured (or read from the file).
    pub first_captured: Stamp,
    /// The last sample of the speech was captured.
    pub last_captured: Stamp,
    /// The sample was captured with which the end of the utterance was certain.
    pub end_captured: Stamp,
    /// That sample was taken from the ring.
    pub received: Stamp,
    /// It had passed the resampler.
    pub resampled: Stamp,
    /// Voice activity had judged it: the utterance is over.
    pub judged: Stamp,
    /// The last pass over the utterance began.
    pub started: Stamp,
    /// The encoder was done.
    pub encoded: Stamp,
    /// The decoder was done.
    pub decoded: Stamp,
    /// The text was put together.
    pub assembled: Stamp,
    /// The text was in the reader's hands (written and flushed).
    pub handed_over: Stamp,
}

/// The stages of [`Path`], in order.
pub const STAGES: [&str; 9] = [
    "silence",
    "ring",
    "resample",
    "voice_activity",
    "wait",
    "encode",
    "decode",
    "final",
    "hand_over",
];

impl Path {
    /// The stages' durations, in the order of [`STAGES`]. They add up to [`Path::total`].
    #[must_use]
    pub fn stages(&self) -> [Duration; STAGES.len()] {
        let at = [
            self.last_captured,
            self.end_captured,
            self.received,
            self.resampled,
            self.judged,
            self.started,
            self.encoded,
            self.decoded,
            self.assembled,
            self.handed_over,
        ];
        between(&at)
    }

    /// Last sample captured → text handed over: the final latency.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.stages().iter().sum()
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Stages([Duration; STAGES.len()]);
        impl Serialize for Stages {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(STAGES.len()))?;
                for (name, spent) in STAGES.iter().zip(&self.0) {
                    map.serialize_entry(name, &milliseconds(*spent))?;
                }
                map.end()
            }
        }
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("first_captured_ns", &self.first_captured.as_nanos())?;
        map.serialize_entry("last_captured_ns", &self.last_captured.as_nanos())?;
        map.serialize_entry("final_latency_ms", &milliseconds(self.total()))?;
        map.serialize_entry("stages_ms", &Stages(self.stages()))?;
        map.end()
    }
}

/// Time spent for an utterance in each stage, whenever it was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Reading and decoding the source.
    #[serde(rename = "read_ms", serialize_with = "ms")]
    pub read: Duration,
    /// Resampling and mixing to 16 kHz mono.
    #[serde(rename = "resample_ms", serialize_with = "ms")]
    pub resample: Duration,
    /// Voice activity.
    #[serde(rename = "voice_activity_ms", serialize_with = "ms")]
    pub voice_activity: Duration,
    /// The encoder, partials included.
    #[serde(rename = "encode_ms", serialize_with = "ms")]
    pub encode: Duration,
    /// The decoder, partials included.
    #[serde(rename = "decode_ms", serialize_with = "ms")]
    pub decode: Duration,
    /// The slowest single call of the decoder.
    #[serde(rename = "slowest_step_ms", serialize_with = "ms")]
    pub slowest_step: Duration,
}

/// What was done for an utterance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Passes over the utterance: partials and the final one.
    pub passes: u32,
    /// Calls of the decoder.
    pub decoder_steps: u32,
    /// Tokens of the final text.
    pub tokens: u32,
    /// Tokens that a pass took over from the one before, over all passes.
    pub tokens_kept: u32,
    /// Tokens thrown away because the decoder ran in a loop.
    pub tokens_looped: u32,
    /// The decoder did not find an end within the limit.
    pub cut_short: bool,
    /// Samples that a live source lost because the ring was full.
    pub samples_lost: u64,
}

/// The durations between `at`'s instants, one fewer than there are. One that was never set, or is older than the one
/// before it, takes no time.
fn between<const N: usize>(at: &[Stamp]) -> [Duration; N] {
    let mut previous = at.first().copied().unwrap_or_default();
    std::array::from_fn(|i| {
        let next = at.get(i + 1).copied().unwrap_or(previous).max(previous);
        let spent = next.since(previous);
        previous = next;
        spent
    })
}

/// Milliseconds to the microsecond.
pub(crate) fn milliseconds(d: Duration) -> f64 {
    (d.as_nanos() as f64 / 1e3).round() / 1e3
}

fn ms<S: Serializer>(d: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(milliseconds(*d))
}

fn seconds_of_samples<S: Serializer>(s: &Samples, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((s.seconds() * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_stages_add_up_to_the_final_latency() {
        let path = Path {
            first_captured: at(10),
            last_captured: at(1000),
            end_captured: at(1500),
            received: at(1501),
            resampled: at(1503),
            judged: at(1506),
            started: at(1506),
            encoded: at(1516),
            decoded: at(1586),
            assembled: at(1587),
            handed_over: at(1590),
        };
        let expected = [500, 1, 2, 3, 0, 10, 70, 1, 3].map(Duration::from_millis);
        assert_eq!(path.stages(), expected);
        assert_eq!(path.total(), Duration::from_millis(590));
    }

    #[test]
    fn a_stamp_that_was_never_set_takes_no_time() {
        let path = Path {
            last_captured: at(1000),
            assembled: at(1040),
            ..Path::default()
        };
        assert_eq!(path.total(), Duration::from_millis(40));
    }

    #[test]
    fn a_line_names_every_stage() {
        let line = serde_json::to_value(Record::default()).unwrap();
        for stage in STAGES {
            assert!(line["stages_ms"][stage].is_number(), "{stage}: {line}");
        }
    }
}
