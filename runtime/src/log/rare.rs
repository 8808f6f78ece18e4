//! What happens so rarely that it may allocate: loads, moves of the ladder, dropped work, the marks of a bench.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::event::Ticket;
use crate::record::{Stages, milliseconds};

/// A model as records name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub model: String,
    /// Precision of its weights, where it has a name: `exact`, `fast`, ….
    pub precision: Option<String>,
    /// Of a speech model, the form of its decoder.
    pub decoder: Option<String>,
    /// Where it runs.
    pub target: String,
    /// Which provider runs its nodes, as far as is known.
    pub placement: Option<String>,
    /// Version of the ONNX Runtime library.
    pub onnxruntime: String,
}

/// What a model is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Sound → text.
    #[default]
    Speech,
    /// Sound → is it speech?
    VoiceActivity,
    /// Text → reply.
    Language,
}

/// What loading a model cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// What it is for.
    pub role: Purpose,
    /// What took how long, one after the other.
    pub stages: Vec<(&'static str, Duration)>,
    /// Bytes of its folder.
    pub bytes: Option<u64>,
    /// Whether something that was built before was taken from a cache; `None`: there is nothing to build.
    pub cached: Option<bool>,
    /// Memory of the process before.
    pub rss_before_bytes: Option<u64>,
    /// Memory of the process after.
    pub rss_after_bytes: Option<u64>,
}

/// The ladder moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Move {
    /// Whose; `None`: everybody's.
    pub stream: Option<String>,
    /// The rung before.
    pub from: String,
    /// The rung after.
    pub to: String,
    /// Why.
    pub reason: String,
    /// The value that decided, if one did.
    pub value: Option<f64>,
}

/// Work was dropped.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Drop {
    /// Whose, if it had a stream.
    pub stream: Option<String>,
    /// What: `samples`, `packets`, `partials`, `requests`.
    pub what: &'static str,
    /// How much.
    pub count: u64,
    /// Why.
    pub why: &'static str,
}

/// One of them.
#[derive(Clone, Debug)]
pub enum Rare {
    /// A model was loaded.
    Load(Arc<Model>, Box<Load>),
    /// The ladder moved.
    Move(Move),
    /// Work was dropped.
    Drop(Drop),
    /// The texts of a record, where they are wanted.
    Text {
        /// Which record.
        ticket: Ticket,
        /// What was heard, or asked.
        said: String,
        /// What was answered.
        reply: Option<String>,
    },
    /// A run of `firstword bench` begins (`bench`) or ends (`bench_end`): its fields as they are.
    Bench {
        /// `bench` or `bench_end`.
        kind: &'static str,
        /// Its fields.
        fields: serde_json::Map<String, serde_json::Value>,
    },
}

/// The line of a load.
#[derive(Serialize)]
pub(super) struct LoadLine<'a> {
    role: Purpose,
    model: &'a str,
    precision: Option<&'a str>,
    decoder: Option<&'a str>,
    target: &'a str,
    placement: Option<&'a str>,
    onnxruntime: &'a str,
    stages_ms: Stages,
    total_ms: f64,
    bytes: Option<u64>,
    cached: Option<bool>,
    rss_before_bytes: Option<u64>,
    rss_after_bytes: Option<u64>,
}

impl<'a> LoadLine<'a> {
    pub fn new(model: &'a Model, load: &Load) -> Self {
        let total: Duration = load.stages.iter().map(|(_, spent)| *spent).sum();
        Self {
            role: load.role,
            model: &model.model,
            precision: model.precision.as_deref(),
            decoder: model.decoder.as_deref(),
            target: &model.target,
            placement: model.placement.as_deref(),
            onnxruntime: &model.onnxruntime,
            stages_ms: Stages(load.stages.clone()),
            total_ms: milliseconds(total),
            bytes: load.bytes,
            cached: load.cached,
            rss_before_bytes: load.rss_before_bytes,
            rss_after_bytes: load.rss_after_bytes,
        }
    }
}
