//! What the stages of the log are, to a person who reads a report.

use serde::Serialize;

/// What a stage's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// More sound has to come before the end of the utterance is certain: a setting, not work.
    Pause,
    /// Waiting for a turn: for other work, for the reply before, for company in a batch.
    Queue,
    /// Work.
    Compute,
}

/// What a stage's time is spent on, by its name.
#[must_use]
pub fn class(stage: &str) -> Class {
    match stage {
        "silence" => Class::Pause,
        "ring" | "jitter" | "wait" | "turn_wait" | "queue" | "queue_wait" | "batch_wait" => {
            Class::Queue
        }
        _ => Class::Compute,
    }
}

/// The stages in the order of the way from the sound to the reply, for those that a report puts side by side.
pub const ORDER: [&str; 19] = [
    "silence",
    "ring",
    "jitter",
    "resample",
    "voice_activity",
    "wait",
    "encode",
    "decode",
    "final",
    "hand_over",
    "turn_wait",
    "prompt",
    "queue",
    "queue_wait",
    "batch_wait",
    "prefill",
    "first_token",
    "reply",
    "detokenise",
];

/// Whether a stage is part of what a metric measures: the time to the first token ends before the others are made.
#[must_use]
pub fn counts_for(stage: &str, metric: Option<&str>) -> bool {
    match metric {
        Some("ttft_ms" | "voice_ttft_ms") => !matches!(stage, "reply" | "detokenise"),
        _ => true,
    }
}

/// Whether the stages of a record are those of the metric. The first partial has none of its own: the stages are those of
/// the final latency.
#[must_use]
pub fn is_staged(metric: &str) -> bool {
    metric != "first_partial_ms"
}

/// What the stages of a record add up to, in words.
#[must_use]
pub fn staged_words(metric: &str) -> &str {
    if is_staged(metric) {
        metric_words(metric)
    } else {
        metric_words("final_latency_ms")
    }
}

/// A metric's name in words.
#[must_use]
pub fn metric_words(metric: &str) -> &str {
    match metric {
        "voice_ttft_ms" => "voice TTFT",
        "ttft_ms" => "TTFT",
        "final_latency_ms" => "final latency",
        "first_partial_ms" => "first partial",
        "e2e_ms" => "E2E",
        "tpot_ms" => "TPOT",
        "queue_wait_ms" => "queue wait",
        other => other,
    }
}

/// Why a stage was slow, in words.
#[must_use]
pub fn because_words(because: &str) -> &str {
    match because {
        "queue" => "it waited for other work",
        "thermal" => "the device was hot and had slowed itself down",
        "cold" => "it was the first work of its model",
        "memory" => "memory was short",
        "load" => "something else used the processor",
        "overrun" => "sound came faster than it was worked off",
        other => other,
    }
}
