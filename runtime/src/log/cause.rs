//! Why an objective was missed: the stage with the largest excess over what it usually takes, and what is known beyond.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

use super::device::Sample;
use super::objective::Metric;
use super::read::WorkKind;
use crate::record::milliseconds;
use crate::report::stage::{Class, class, counts_for};

/// "Usual" is the median of so many records that held, the latest.
const REMEMBERED: usize = 64;
/// Below so many, nothing is usual yet.
const ENOUGH: usize = 8;
/// So many groups are remembered; the one that was not seen for longest goes first.
const GROUPS: usize = 64;

/// Stages with what they took, in order.
pub type Stages = [(&'static str, Duration)];

/// Records are compared with those of their group: what kind of work, with which models.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Utterance, request or turn.
    pub kind: u8,
    /// Models and where they ran, as one text.
    pub of: String,
}

impl Group {
    /// The group of a record.
    #[must_use]
    pub fn new(kind: WorkKind, models: &[&str]) -> Self {
        Self {
            kind: kind as u8,
            of: models.join("\n"),
        }
    }
}

/// What stages usually take, by group.
#[derive(Debug, Default)]
pub struct Usual {
    groups: HashMap<Group, Past>,
    seen: u64,
}

#[derive(Debug, Default)]
struct Past {
    /// Of each record, its stages in µs, in their order.
    records: VecDeque<Vec<u32>>,
    last: u64,
}

/// The cause of a miss, as a record has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The stage.
    pub stage: &'static str,
    /// What it took.
    pub spent_ms: f64,
    /// What it usually takes.
    pub usual_ms: f64,
    /// The difference.
    pub excess_ms: f64,
    /// `suspend`, `queue`, `thermal`, `cold`, `memory`, `load`, or nothing beyond the stage is known.
    pub because: Option<&'static str>,
}

/// What is known of a record beside its stages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// What the objective measures.
    pub metric: Option<Metric>,
    /// First work of its model in this process.
    pub cold: bool,
    /// The device slept meanwhile.
    pub slept: bool,
    /// The device.
    pub device: Option<&'a Sample>,
}

impl Usual {
    /// Remembers the stages of a record that may stand for what is usual: warm, and not a miss.
    pub fn learn(&mut self, group: &Group, stages: &Stages) {
        self.seen += 1;
        if self.groups.len() >= GROUPS
            && !self.groups.contains_key(group)
            && let Some(oldest) = self
                .groups
                .iter()
                .min_by_key(|(_, past)| past.last)
                .map(|(group, _)| group.clone())
        {
            self.groups.remove(&oldest);
        }
        let past = self.groups.entry(group.clone()).or_default();
        past.last = self.seen;
        if past.records.len() >= REMEMBERED {
            past.records.pop_front();
        }
        past.records.push_back(
            stages
                .iter()
                .map(|(_, spent)| u32::try_from(spent.as_micros()).unwrap_or(u32::MAX))
                .collect(),
        );
    }

    /// The median of a stage, if enough is known.
    fn stage(&self, group: &Group, stage: usize) -> Option<Duration> {
        let past = self.groups.get(group)?;
        if past.records.len() < ENOUGH {
            return None;
        }
        let mut values: Vec<u32> = past
            .records
            .iter()
            .filter_map(|record| record.get(stage).copied())
            .collect();
        let middle = values.len().div_ceil(2).checked_sub(1)?;
        let (_, median, _) = values.select_nth_unstable(middle);
        Some(Duration::from_micros(u64::from(*median)))
    }

    /// Why a record missed: `None` where nothing is usual yet, or no stage took more than usual.
    #[must_use]
    pub fn cause(&self, group: &Group, stages: &Stages, known: &Known<'_>) -> Option<Cause> {
        let field = known.metric.map(Metric::field);
        let (excess, usual, at) = stages
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| counts_for(name, field))
            .filter_map(|(at, (_, spent))| {
                let usual = self.stage(group, at)?;
                Some((spent.saturating_sub(usual), usual, at))
            })
            .filter(|(excess, ..)| !excess.is_zero())
            // Of two that are equal, the earlier one.
            .max_by_key(|&(excess, _, at)| (excess, std::cmp::Reverse(at)))?;
        let (stage, spent) = stages[at];
        Some(Cause {
            stage,
            spent_ms: milliseconds(spent),
            usual_ms: milliseconds(usual),
            excess_ms: milliseconds(excess),
            because: because(stage, known),
        })
    }
}

/// What is known beyond the stage. The order is that of the reports, which judge records without a cause.
fn because(stage: &str, known: &Known<'_>) -> Option<&'static str> {
    let device = |is: fn(&Sample) -> bool| known.device.is_some_and(is);
    if known.slept {
        Some("suspend")
    } else if class(stage) == Class::Queue {
        Some("queue")
    } else if device(Sample::is_throttled) {
        Some("thermal")
    } else if known.cold {
        Some("cold")
    } else if device(Sample::is_short_of_memory) {
        Some("memory")
    } else if device(Sample::is_loaded) {
        Some("load")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::read::planted::Dice;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn group() -> Group {
        Group::new(WorkKind::Turn, &["a", "b"])
    }

    fn learned(records: usize) -> Usual {
        let mut usual = Usual::default();
        for _ in 0..records {
            usual.learn(
                &group(),
                &[("encode", ms(24)), ("queue", ms(1)), ("reply", ms(300))],
            );
        }
        usual
    }

    #[test]
    fn the_largest_excess_is_the_cause_and_not_the_largest_stage() {
        let stages = [("encode", ms(120)), ("queue", ms(2)), ("reply", ms(350))];
        let cause = |metric| {
            let known = Known {
                metric,
                ..Known::default()
            };
            learned(ENOUGH).cause(&group(), &stages, &known).unwrap()
        };
        // 120 − 24 = 96 ms; the reply is 50 above, and behind the first token besides.
        for metric in [Some(Metric::VoiceTtft), None] {
            let found = cause(metric);
            assert_eq!((found.stage, found.excess_ms), ("encode", 96.0));
            assert_eq!(
                (found.spent_ms, found.usual_ms, found.because),
                (120.0, 24.0, None)
            );
        }
    }

    #[test]
    fn a_stage_behind_the_first_token_makes_no_ttft_slow() {
        let stages = [("encode", ms(25)), ("queue", ms(1)), ("reply", ms(900))];
        let cause = |metric| {
            let known = Known {
                metric: Some(metric),
                ..Known::default()
            };
            learned(ENOUGH)
                .cause(&group(), &stages, &known)
                .unwrap()
                .stage
        };
        assert_eq!(cause(Metric::VoiceTtft), "encode");
        assert_eq!(cause(Metric::E2e), "reply");
    }

    #[test]
    fn nothing_is_usual_before_enough_was_seen_and_other_groups_do_not_count() {
        let stages = [("encode", ms(120)), ("queue", ms(2)), ("reply", ms(350))];
        let known = Known::default();
        assert_eq!(learned(ENOUGH - 1).cause(&group(), &stages, &known), None);
        let other = Group::new(WorkKind::Turn, &["a", "c"]);
        assert_eq!(learned(20).cause(&other, &stages, &known), None);
    }

    #[test]
    fn what_is_known_of_the_device_is_said_where_it_explains_the_stage() {
        let hot = Sample {
            temperature_c: Some(91.0),
            cpu_mhz: Some(1100.0),
            cpu_max_mhz: Some(2200.0),
            ..Sample::default()
        };
        let because = |stage, known: Known<'_>| super::because(stage, &known);
        let with_device = Known {
            device: Some(&hot),
            ..Known::default()
        };
        assert_eq!(because("encode", with_device), Some("thermal"));
        // Waiting is not made longer by heat, but by the work that was waited for.
        assert_eq!(because("queue", with_device), Some("queue"));
        assert_eq!(
            because(
                "encode",
                Known {
                    slept: true,
                    ..with_device
                }
            ),
            Some("suspend")
        );
        assert_eq!(
            because(
                "encode",
                Known {
                    cold: true,
                    ..Known::default()
                }
            ),
            Some("cold")
        );
        assert_eq!(because("encode", Known::default()), None);
    }

    // Acceptance of the log: in at least 95 of 100 planted cases the cause names the stage.
    #[test]
    fn a_planted_stage_is_named_in_at_least_95_of_100_cases() {
        let mut dice = Dice(11);
        let names = ["silence", "encode", "decode", "queue", "prefill"];
        let medians = [150.0, 24.0, 31.0, 0.4, 60.0];
        let mut usual = Usual::default();
        let mut spend = |slow: Option<usize>| -> Vec<(&'static str, Duration)> {
            (0..names.len())
                .map(|at| {
                    let usual = medians[at] * (0.15 * dice.normal()).exp();
                    let extra = if slow == Some(at) { 120.0 } else { 0.0 };
                    (names[at], Duration::from_secs_f64((usual + extra) / 1e3))
                })
                .collect()
        };
        for _ in 0..100 {
            usual.learn(&group(), &spend(None));
        }
        for (planted, name) in names.iter().enumerate().skip(1) {
            let named = (0..200)
                .filter(|_| {
                    let stages = spend(Some(planted));
                    let cause = usual.cause(&group(), &stages, &Known::default());
                    cause.is_some_and(|cause| cause.stage == *name)
                })
                .count();
            assert!(named >= 190, "{name}: {named} of 200");
        }
    }

    #[test]
    fn groups_that_nobody_sees_any_more_are_forgotten() {
        let mut usual = Usual::default();
        for n in 0..3 * GROUPS {
            usual.learn(
                &Group::new(WorkKind::Request, &[&n.to_string()]),
                &[("prefill", ms(1))],
            );
        }
        assert_eq!(usual.groups.len(), GROUPS);
    }
}
