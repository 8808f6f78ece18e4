//! What a reply of a language model cost: the part that a request and a voice turn have in common.

use std::time::Duration;

use firstword_audio::clock::Stamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::milliseconds;

/// Why a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model said that it is done.
    #[default]
    Stop,
    /// A stop string came.
    StopString,
    /// As many tokens as were allowed.
    Length,
    /// The window was full.
    Window,
    /// Somebody stopped it.
    Cancelled,
}

/// The instants that cut a reply into stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyPath {
    /// The request was accepted: its words were there.
    pub accepted: Stamp,
    /// They were a prompt, in tokens.
    pub prompted: Stamp,
    /// The first step for it began.
    pub started: Stamp,
    /// The prompt was in the cache, and the logits of the first token were there.
    pub prefilled: Stamp,
    /// The first token's text was handed over.
    pub first_token: Stamp,
    /// The last one's was.
    pub last_token: Stamp,
}

/// The stages of [`ReplyPath`], in order.
pub const REPLY_STAGES: [&str; 5] = ["prompt", "queue", "prefill", "first_token", "reply"];

impl ReplyPath {
    /// The stages' durations, in the order of [`REPLY_STAGES`]: from the accepted request to the last token.
    #[must_use]
    pub fn stages(&self) -> [Duration; REPLY_STAGES.len()] {
        super::between(&[
            self.accepted,
            self.prompted,
            self.started,
            self.prefilled,
            self.first_token,
            self.last_token,
        ])
    }

    /// Time to first token: request accepted → first token handed over.
    #[must_use]
    pub fn ttft(&self) -> Duration {
        self.stages()[..4].iter().sum()
    }

    /// Request accepted → last token handed over.
    #[must_use]
    pub fn e2e(&self) -> Duration {
        self.stages().iter().sum()
    }

    /// Request accepted → its first work started.
    #[must_use]
    pub fn queue_wait(&self) -> Duration {
        self.stages()[..2].iter().sum()
    }
}

/// How many of the slowest decode steps are told one by one.
pub const SLOWEST: usize = 5;

/// A decode step that stood out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowStep {
    /// Its number, from 1: the step after the first token is 1.
    pub step: u32,
    /// What it took, µs.
    pub micros: u32,
    /// How many replies were in it.
    pub batch: u16,
}

/// The decode steps, as order statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// How many there were.
    pub count: u32,
    /// The median.
    pub p50: Duration,
    /// 95 of 100 took no longer.
    pub p95: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// The slowest.
    pub slowest: Duration,
    /// The median of how many replies were in a step, the lower of two.
    pub batch_p50: u16,
    /// The most that were in one.
    pub batch_max: u16,
    /// The slowest ones, the slowest first; unused places have the number 0.
    pub slow: [SlowStep; SLOWEST],
}

impl Steps {
    /// The order statistics of these steps (µs, replies in the step), in the order in which they ran. Nearest rank: the
    /// smallest value that at least that share does not exceed.
    #[must_use]
    pub fn of(steps: impl IntoIterator<Item = (u32, u16)>) -> Self {
        let mut all: Vec<SlowStep> = steps
            .into_iter()
            .zip(1..)
            .map(|((micros, batch), step)| SlowStep {
                step,
                micros,
                batch,
            })
            .collect();
        let mut batches: Vec<u16> = all.iter().map(|step| step.batch).collect();
        batches.sort_unstable();
        // Of two that took as long, the earlier one first.
        all.sort_unstable_by_key(|step| (std::cmp::Reverse(step.micros), step.step));
        let rank = |percent: usize| {
            let at = (all.len() * percent).div_ceil(100).max(1);
            let from_slowest = all.len().checked_sub(at);
            let micros = from_slowest.map_or(0, |at| all[at].micros);
            Duration::from_micros(u64::from(micros))
        };
        let mut slow = [SlowStep::default(); SLOWEST];
        for (place, step) in slow.iter_mut().zip(&all) {
            *place = *step;
        }
        Self {
            count: all.len() as u32,
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            slowest: rank(100),
            batch_p50: batches
                .get(batches.len().div_ceil(2).saturating_sub(1))
                .copied()
                .unwrap_or_default(),
            batch_max: batches.last().copied().unwrap_or_default(),
            slow,
        }
    }
}

/// What a reply cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The instants on the way.
    pub path: ReplyPath,
    /// Tokens of the prompt, those found in the cache included.
    pub prompt_tokens: u32,
    /// Tokens of the prompt that were in the cache already.
    pub cached_tokens: u32,
    /// Steps in which the rest was prefilled.
    pub prefill_chunks: u32,
    /// Tokens of the reply.
    pub tokens: u32,
    /// Tokens in the cache when it ended.
    pub context_tokens: u32,
    /// Why it ended.
    pub finish: Finish,
    /// Time spent on turning tokens into text; part of the stages `first_token` and `reply`.
    pub detokenise: Duration,
    /// The decode steps after the first token.
    pub steps: Steps,
}

impl Reply {
    /// Time per output token: (last token − first token) ÷ (tokens − 1); `None` below two tokens.
    #[must_use]
    pub fn tpot(&self) -> Option<Duration> {
        let gaps = self.tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
        Some(self.path.last_token.since(self.path.first_token) / gaps)
    }

    /// Tokens per second: tokens ÷ (last token − first token), the prompt and its time not counted; `None` below two.
    #[must_use]
    pub fn tps(&self) -> Option<f64> {
        let spent = self
            .path
            .last_token
            .since(self.path.first_token)
            .as_secs_f64();
        (self.tokens > 1 && spent > 0.0).then(|| f64::from(self.tokens) / spent)
    }

    /// Tokens prefilled per second of prefilling, those from the cache not counted.
    #[must_use]
    pub fn prefill_rate(&self) -> Option<f64> {
        let spent = self.path.prefilled.since(self.path.started).as_secs_f64();
        let done = self.prompt_tokens.saturating_sub(self.cached_tokens);
        (done > 0 && spent > 0.0).then(|| f64::from(done) / spent)
    }
}

/// Milliseconds, or null.
fn or_null(d: Option<Duration>) -> Option<f64> {
    d.map(milliseconds)
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("accepted_ns", &self.path.accepted.as_nanos())?;
        map.serialize_entry("ttft_ms", &milliseconds(self.path.ttft()))?;
        map.serialize_entry("tpot_ms", &or_null(self.tpot()))?;
        map.serialize_entry("tps", &self.tps().map(|rate| (rate * 1e3).round() / 1e3))?;
        map.serialize_entry("queue_wait_ms", &milliseconds(self.path.queue_wait()))?;
        map.serialize_entry("prompt_tokens", &self.prompt_tokens)?;
        map.serialize_entry("cached_tokens", &self.cached_tokens)?;
        map.serialize_entry("prefill_chunks", &self.prefill_chunks)?;
        map.serialize_entry("tokens", &self.tokens)?;
        map.serialize_entry("finish", &self.finish)?;
        map.serialize_entry("steps", &self.steps.count)?;
        map.serialize_entry("step_p50_ms", &milliseconds(self.steps.p50))?;
        map.serialize_entry("step_p95_ms", &milliseconds(self.steps.p95))?;
        map.serialize_entry("step_p99_ms", &milliseconds(self.steps.p99))?;
        map.serialize_entry("slowest_step_ms", &milliseconds(self.steps.slowest))?;
        map.serialize_entry("slowest_steps", &SlowSteps(&self.steps.slow))?;
        map.serialize_entry("batch", &Batch::of(&self.steps))?;
        map.serialize_entry("detokenise_ms", &milliseconds(self.detokenise))?;
        map.serialize_entry("context_tokens", &self.context_tokens)?;
        map.end()
    }
}

/// The places of slow steps that are used.
struct SlowSteps<'a>(&'a [SlowStep]);

impl Serialize for SlowSteps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Slow {
            step: u32,
            ms: f64,
            batch: u16,
        }
        let used = self.0.iter().filter(|slow| slow.step > 0);
        serializer.collect_seq(used.map(|slow| Slow {
            step: slow.step,
            ms: f64::from(slow.micros) / 1e3,
            batch: slow.batch,
        }))
    }
}

/// How many replies shared a step.
#[derive(Serialize)]
struct Batch {
    p50: u16,
    max: u16,
}

impl Batch {
    /// `None` where there was no step.
    fn of(steps: &Steps) -> Option<Self> {
        (steps.count > 0).then_some(Self {
            p50: steps.batch_p50,
            max: steps.batch_max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp::from_nanos(ms * 1_000_000)
    }

    fn reply() -> Reply {
        Reply {
            path: ReplyPath {
                accepted: at(100),
                prompted: at(101),
                started: at(103),
                prefilled: at(203),
                first_token: at(204),
                last_token: at(404),
            },
            prompt_tokens: 300,
            cached_tokens: 100,
            tokens: 11,
            ..Reply::default()
        }
    }

    #[test]
    fn the_figures_follow_their_definitions() {
        // By hand: 104 ms to the first token; 200 ms for 10 gaps; 11 tokens in 0.2 s; 200 tokens prefilled in 0.1 s.
        let reply = reply();
        assert_eq!(reply.path.ttft(), Duration::from_millis(104));
        assert_eq!(reply.path.e2e(), Duration::from_millis(304));
        assert_eq!(reply.path.queue_wait(), Duration::from_millis(3));
        assert_eq!(reply.tpot(), Some(Duration::from_millis(20)));
        assert_eq!(reply.tps().map(f64::round), Some(55.0));
        assert_eq!(reply.prefill_rate().map(f64::round), Some(2000.0));
    }

    #[test]
    fn one_token_has_no_time_per_token() {
        let one = Reply {
            tokens: 1,
            ..reply()
        };
        assert_eq!((one.tpot(), one.tps()), (None, None));
    }

    #[test]
    fn the_order_statistics_are_values_that_were_measured() {
        let steps = Steps::of((1..=20).rev().map(|ms| (ms * 1000, (ms % 4) as u16 + 1)));
        // Nearest rank of 20 values: the 10th, the 19th, the 20th and the 20th. 19 ms was the second to run.
        assert_eq!(steps.p50, Duration::from_millis(10));
        assert_eq!(steps.p95, Duration::from_millis(19));
        assert_eq!(steps.p99, Duration::from_millis(20));
        assert_eq!(steps.slowest, Duration::from_millis(20));
        assert_eq!((steps.batch_p50, steps.batch_max), (2, 4));
        let slow = |step, ms: u32, batch| SlowStep {
            step,
            micros: ms * 1000,
            batch,
        };
        assert_eq!(
            steps.slow,
            [
                slow(1, 20, 1),
                slow(2, 19, 4),
                slow(3, 18, 3),
                slow(4, 17, 2),
                slow(5, 16, 1)
            ]
        );
        assert_eq!(Steps::of([]), Steps::default());
    }

    #[test]
    fn one_slow_step_is_told_once_and_unused_places_are_not_told() {
        let reply = Reply {
            steps: Steps::of([(7_000, 1), (9_000, 3)]),
            ..reply()
        };
        let line = serde_json::to_value(reply).unwrap();
        assert_eq!(
            line["slowest_steps"],
            serde_json::json!([{"step": 2, "ms": 9.0, "batch": 3}, {"step": 1, "ms": 7.0, "batch": 1}])
        );
        assert_eq!(line["batch"], serde_json::json!({"p50": 1, "max": 3}));
        let none = serde_json::to_value(Reply::default()).unwrap();
        assert_eq!(none["batch"], serde_json::Value::Null);
    }
}
