//! What a line of a log can say, as far as the reports need it, borrowed from the line. [`super::line`] reads it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Error, IgnoredAny, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::log::device;

/// A duration in microseconds. What is longer than 71 minutes counts as 71 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u32);

impl Micros {
    /// The longest: 4294.967294 s. (The number above it is free for "none".)
    pub const LONGEST: Self = Self(u32::MAX - 1);

    /// Milliseconds.
    #[must_use]
    pub fn ms(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// From milliseconds, if they can be a duration: not negative, not above ten days.
    #[must_use]
    pub fn of_ms(ms: f64) -> Option<Self> {
        (0.0..=8.64e8)
            .contains(&ms)
            .then(|| Self(((ms * 1e3 + 0.5) as u64).min(u64::from(Self::LONGEST.0)) as u32))
    }
}

impl Serialize for Micros {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.ms())
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ms = f64::deserialize(deserializer)?;
        Self::of_ms(ms).ok_or_else(|| {
            D::Error::custom(format_args!(
                "a duration of {ms} ms; expected one from 0 to ten days"
            ))
        })
    }
}

/// A text that is borrowed from the line, unless it has escapes in it. A number is taken as its digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

/// Durations by name, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named<'a>(pub Vec<(Text<'a>, Micros)>);

impl<'de: 'a, 'a> Deserialize<'de> for Named<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Named<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("stages with their durations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut stages = Vec::with_capacity(16);
                while let Some((name, spent)) = map.next_entry::<Text<'de>, Option<Micros>>()? {
                    // Absent knowledge is null.
                    if let Some(spent) = spent {
                        stages.push((name, spent));
                    }
                }
                Ok(Named(stages))
            }
        }
        deserializer.deserialize_map(Reads)
    }
}

/// How many worked together in a step: a number in a trace, order statistics in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// The median over the steps.
    pub p50: f64,
    /// The largest.
    pub max: f64,
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Batch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("members of a batch")
            }

            fn visit_u64<E>(self, members: u64) -> Result<Batch, E> {
                let members = members as f64;
                Ok(Batch {
                    p50: members,
                    max: members,
                })
            }

            fn visit_f64<E: Error>(self, members: f64) -> Result<Batch, E> {
                if !(0.0..1e6).contains(&members) {
                    return Err(E::invalid_value(Unexpected::Float(members), &self));
                }
                Ok(Batch {
                    p50: members,
                    max: members,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Batch, A::Error> {
                let mut batch = Batch::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    match &*key {
                        "p50" => batch.p50 = map.next_value::<Option<f64>>()?.unwrap_or_default(),
                        "max" => batch.max = map.next_value::<Option<f64>>()?.unwrap_or_default(),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(batch)
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

/// What a record was held to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Objective<'a> {
    /// Its name.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// What is measured: `ttft_ms` and so on.
    #[serde(borrow, default)]
    pub metric: Option<Text<'a>>,
    /// The limit.
    #[serde(rename = "limit_ms", default)]
    pub limit: Option<Micros>,
    /// What was reached.
    #[serde(rename = "value_ms", default)]
    pub value: Option<Micros>,
    /// Whether it held.
    #[serde(default)]
    pub held: Option<bool>,
}

/// Why it was not held, as the writer saw it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Cause<'a> {
    /// The stage with the largest excess.
    #[serde(borrow, default)]
    pub stage: Option<Text<'a>>,
    /// What it took.
    #[serde(rename = "spent_ms", default)]
    pub spent: Option<Micros>,
    /// What it usually takes.
    #[serde(rename = "usual_ms", default)]
    pub usual: Option<Micros>,
    /// The difference.
    #[serde(rename = "excess_ms", default)]
    pub excess: Option<Micros>,
    /// `thermal` and so on.
    #[serde(borrow, default)]
    pub because: Option<Text<'a>>,
}

/// The device's state, compact or full; in a header its identity.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Device<'a> {
    /// The hottest zone.
    #[serde(default)]
    pub temperature_c: Option<f64>,
    /// Mean clock of the cores now.
    #[serde(default)]
    pub cpu_mhz: Option<f64>,
    /// Their highest.
    #[serde(default)]
    pub cpu_max_mhz: Option<f64>,
    /// Whether the device said that it slows itself down.
    #[serde(default)]
    pub throttled: Option<bool>,
    /// Memory that can be had.
    #[serde(default)]
    pub memory_available_bytes: Option<f64>,
    /// Memory of the process.
    #[serde(default)]
    pub process_rss_bytes: Option<f64>,
    /// Runnable tasks, mean of a minute.
    #[serde(default)]
    pub load_1m: Option<f64>,
    /// Share of all cores' time in use, from 0 to 1.
    #[serde(default)]
    pub busy: Option<f64>,
    /// Share that a hypervisor took away.
    #[serde(default)]
    pub steal: Option<f64>,
    /// Power mode, as the device calls it.
    #[serde(borrow, default)]
    pub power_mode: Option<Text<'a>>,
    /// Header: what device it is.
    #[serde(borrow, default)]
    pub model: Option<Text<'a>>,
    /// Header: its name in the network.
    #[serde(borrow, default)]
    pub hostname: Option<Text<'a>>,
    /// Header: its processor.
    #[serde(borrow, default)]
    pub cpu: Option<Text<'a>>,
    /// Header: how many cores.
    #[serde(default)]
    pub cores: Option<f64>,
    /// Header: its memory.
    #[serde(default)]
    pub memory_bytes: Option<f64>,
}

impl Device<'_> {
    /// Whether it runs clearly below its clock: by its own word, or hot and below 85 % of the highest clock.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        device::is_throttled(self.throttled, self.temperature_c, self.clock())
    }

    /// Clock as a share of the highest.
    #[must_use]
    pub fn clock(&self) -> Option<f64> {
        let share = self.cpu_mhz? / self.cpu_max_mhz?;
        (0.0..=2.0).contains(&share).then_some(share)
    }

    /// Whether others used the processor: nearly all cores in use, or a hypervisor took its share.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        device::is_loaded(self.steal, self.busy, self.load_1m, self.cores)
    }
}

/// The figures of a reply: beside the others in a request, below `reply` in a turn.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Reply<'a> {
    /// The request was accepted.
    #[serde(default)]
    pub accepted_ns: Option<u64>,
    /// Time to the first token.
    #[serde(rename = "ttft_ms", default)]
    pub ttft: Option<Micros>,
    /// Time per token.
    #[serde(rename = "tpot_ms", default)]
    pub tpot: Option<Micros>,
    /// Tokens per second.
    #[serde(default)]
    pub tps: Option<f64>,
    /// Accepted → first work.
    #[serde(rename = "queue_wait_ms", default)]
    pub queue_wait: Option<Micros>,
    /// Tokens of the prompt.
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
    /// Of them, from the cache.
    #[serde(default)]
    pub cached_tokens: Option<u64>,
    /// Tokens of the reply.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Why it ended.
    #[serde(borrow, default)]
    pub finish: Option<Text<'a>>,
    /// Tokens in the cache at the end.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    /// Members of its steps.
    #[serde(default)]
    pub batch: Option<Batch>,
}

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Speech → text.
    Utterance,
    /// Prompt → reply.
    Request,
    /// Speech → reply.
    Turn,
}

impl WorkKind {
    /// As the lines call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utterance => "utterance",
            Self::Request => "request",
            Self::Turn => "turn",
        }
    }
}

/// An utterance, a request or a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Work<'a> {
    /// Which of them.
    pub kind: WorkKind,
    /// The model; of a turn that of the speech.
    pub model: Text<'a>,
    /// Of a turn, the language model.
    pub language: Option<Text<'a>>,
    /// Precision of the language model, or of the model.
    pub precision: Option<Text<'a>>,
    /// Where it ran.
    pub target: Text<'a>,
    /// Of a turn, where the language model ran.
    pub language_target: Option<Text<'a>>,
    /// Version of the ONNX Runtime library.
    pub onnxruntime: Option<Text<'a>>,
    /// The stream's name.
    pub stream: Option<Text<'a>>,
    /// The utterance's number in its stream.
    pub utterance: Option<u64>,
    /// The stages of the critical path, in order.
    pub stages: Vec<(Text<'a>, Micros)>,
    /// All of it: final latency of an utterance, E2E of the others.
    pub total: Option<Micros>,
    /// Last sample → final transcript.
    pub final_latency: Option<Micros>,
    /// Last sample → first token of the reply.
    pub voice_ttft: Option<Micros>,
    /// First sample → first partial.
    pub first_partial: Option<Micros>,
    /// The figures of the reply.
    pub reply: Option<Reply<'a>>,
    /// First work of its model in this process; `None` in schema 1.
    pub cold: Option<bool>,
    /// What it was held to.
    pub objective: Option<Objective<'a>>,
    /// Why it was not held.
    pub cause: Option<Cause<'a>>,
    /// The device then.
    pub device: Option<Device<'a>>,
    /// Records and events lost before it.
    pub lost_events: u64,
    /// How long the device slept meanwhile.
    pub suspended: Option<Micros>,
    /// The text, where it was asked to be logged.
    pub text: Option<Text<'a>>,
}

/// The first line of a segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header<'a> {
    /// Version of the program.
    pub version: Option<Text<'a>>,
    /// The process.
    pub pid: Option<u64>,
    /// Number of the segment in its process.
    pub number: Option<u64>,
    /// Which start of the device.
    pub boot_id: Option<Text<'a>>,
    /// Wall − monotonic.
    pub wall_offset_ns: Option<i64>,
    /// How exactly that is known.
    pub wall_uncertainty_ns: Option<u64>,
    /// What device it is.
    pub device: Device<'a>,
    /// Records lost that no record told.
    pub lost_before: u64,
}

/// A model was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Load<'a> {
    /// `speech`, `voice_activity`, `language`.
    pub role: Option<Text<'a>>,
    /// Its name.
    pub model: Text<'a>,
    /// Where it runs.
    pub target: Text<'a>,
    /// What took how long.
    pub stages: Vec<(Text<'a>, Micros)>,
    /// All of it.
    pub total: Option<Micros>,
    /// Whether something compiled was taken from a cache.
    pub cached: Option<bool>,
}

/// The ladder moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Move<'a> {
    /// Whose.
    pub stream: Option<Text<'a>>,
    /// The rung before.
    pub from: Text<'a>,
    /// The rung after.
    pub to: Text<'a>,
    /// Why.
    pub reason: Option<Text<'a>>,
}

/// Work was dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop<'a> {
    /// What was.
    pub what: Text<'a>,
    /// How much.
    pub count: u64,
    /// Why.
    pub why: Option<Text<'a>>,
}

/// Time did something odd.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark<'a> {
    /// `suspend` or `clock_step`.
    pub what: Text<'a>,
    /// How much, ms; a clock may step backwards.
    pub ms: f64,
}

/// Part of the log itself could not be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss<'a> {
    /// Events.
    pub events: u64,
    /// Records.
    pub records: u64,
    /// Why.
    pub why: Option<Text<'a>>,
}

/// A step on the device, as the trace has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<'a> {
    /// `encode`, `prefill`, `decode` and so on.
    pub role: Text<'a>,
    /// When it could have begun.
    pub due_ns: u64,
    /// When it began.
    pub start_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// How many worked together in it.
    pub batch: u32,
    /// For whom.
    pub stream: Option<Text<'a>>,
}

/// A line of the trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Trace<'a> {
    /// A step.
    Step(Step<'a>),
    /// Something came in.
    Arrival {
        /// Whose.
        stream: Option<Text<'a>>,
        /// When.
        at_ns: u64,
    },
}

/// A run of `firstword bench` begins or ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Bench<'a> {
    /// Which run.
    pub run: Option<Text<'a>>,
    /// Which of its processes.
    pub process: Option<u64>,
    /// What was measured.
    pub what: Option<Text<'a>>,
    /// Whether the machine was too busy for the figures to count.
    pub noisy: Option<bool>,
    /// Why it was.
    pub why: Option<Text<'a>>,
    /// Whether this is the end.
    pub end: bool,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a> {
    /// A segment begins.
    Header(Box<Header<'a>>),
    /// An utterance, a request or a turn.
    Work(Box<Work<'a>>),
    /// A model was opened.
    Load(Load<'a>),
    /// The device's state.
    Device(Box<Device<'a>>),
    /// The ladder moved.
    Move(Move<'a>),
    /// Work was dropped.
    Drop(Drop<'a>),
    /// Time did something odd.
    Mark(Mark<'a>),
    /// Part of the log was lost.
    Loss(Loss<'a>),
    /// A trace.
    Trace(Trace<'a>),
    /// A bench.
    Bench(Bench<'a>),
    /// A kind that this program does not know.
    Other(Text<'a>),
}

/// A line that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    /// Version of its shape.
    pub schema: u64,
    /// When it was assembled, on the device's monotonic clock; not in schema 1.
    pub at_ns: Option<u64>,
    /// What it says.
    pub content: Content<'a>,
}

/// A line that was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing on it.
    Empty,
    /// It is of this newer schema.
    Newer(u64),
    /// It is no record, for this reason.
    Damaged(String),
}
