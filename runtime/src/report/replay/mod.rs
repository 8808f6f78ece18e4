//! What another rule would have made of the same load: the recorded steps come due as they did, and a rule decides when they run
//! and with whom. Pure: one list of events, no clock.
//!
//! The replay is open: when a step came due is taken as recorded, although a rule that finishes a step sooner would have made
//! the next one of the same reply due sooner. It compares rules; it does not predict a device.

mod policy;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

pub use policy::{Decision, Fixed, NoBatching, Policy, Waiting};

use super::stats::{Sorted, Stats};
use crate::exit::printable;
use crate::log::read::{Content, Micros, Range, Source, Tally, Trace};

/// Steps of one batch size that a cost must have been seen in.
const SEEN: usize = 5;
/// Steps read at most: more would not change what is learned, and 40 bytes each fill the memory of a small device.
const MOST: usize = 2_000_000;

/// A step as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it came due, since the first of all.
    pub due: Duration,
    /// When it began.
    pub start: Duration,
    /// When it was over.
    pub end: Duration,
    /// How many ran together.
    pub batch: u32,
    /// Number of its role in [`Load::roles`].
    pub role: usize,
    /// Number of its stream.
    pub stream: usize,
}

/// The load of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Steps in the order in which they came due.
    pub steps: Vec<Recorded>,
    /// Names of the roles.
    pub roles: Vec<String>,
    /// Arrivals of sound or requests.
    pub arrivals: u64,
    /// Steps that ended before they began, or began before they were due.
    pub impossible: u64,
}

/// Reads the trace of a log.
pub fn load(source: &Source, range: &Range, tally: &mut Tally, stop: &dyn Fn() -> bool) -> Load {
    let mut load = Load::default();
    let mut streams: Vec<String> = Vec::new();
    let mut raw: Vec<(i64, u64, u64, u32, usize, usize)> = Vec::new();
    source.each(range, tally, &mut |segment, line| {
        match &line.content {
            Content::Trace(Trace::Arrival { .. }) => load.arrivals += 1,
            Content::Trace(Trace::Step(step)) => {
                if step.due_ns > step.start_ns || step.start_ns > step.end_ns {
                    load.impossible += 1;
                    return ControlFlow::Continue(());
                }
                // Processes that ran one after the other have one wall clock, each start of the device another monotonic one.
                let due = segment
                    .wall(step.due_ns)
                    .map_or(step.due_ns as i64, |wall| wall.0);
                let stream = step.stream.as_deref().unwrap_or_default();
                raw.push((
                    due,
                    step.start_ns - step.due_ns,
                    step.end_ns - step.start_ns,
                    step.batch.max(1),
                    number(&mut load.roles, &step.role),
                    number(&mut streams, stream),
                ));
            }
            _ => {}
        }
        if raw.len() >= MOST || stop() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    raw.sort_unstable();
    let first = raw.first().map_or(0, |step| step.0);
    load.steps = raw
        .into_iter()
        .map(|(due, wait, spent, batch, role, stream)| {
            let due = Duration::from_nanos(due.abs_diff(first));
            let start = due + Duration::from_nanos(wait);
            Recorded {
                due,
                start,
                end: start + Duration::from_nanos(spent),
                batch,
                role,
                stream,
            }
        })
        .collect();
    load
}

fn number(names: &mut Vec<String>, name: &str) -> usize {
    names
        .iter()
        .position(|known| known == name)
        .unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        })
}

/// What a step costs by the size of its batch, as a factor of what it costs alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// By role, then by size: factors that were measured.
    measured: Vec<BTreeMap<u32, f64>>,
}

impl Costs {
    /// Learns from what was recorded: medians, each of at least five steps.
    #[must_use]
    pub fn of(load: &Load) -> Self {
        let mut spent: Vec<BTreeMap<u32, Vec<u32>>> = vec![BTreeMap::new(); load.roles.len()];
        for step in &load.steps {
            let micros = micros(step.end - step.start);
            spent[step.role]
                .entry(step.batch)
                .or_default()
                .push(micros.0);
        }
        let measured = spent
            .into_iter()
            .map(|by_size| {
                let medians: Vec<(u32, f64)> = by_size
                    .into_iter()
                    .filter(|(_, spent)| spent.len() >= SEEN)
                    .filter_map(|(size, spent)| Some((size, Sorted::of(spent).quantile(500)?.ms())))
                    .collect();
                let base = medians
                    .first()
                    .map_or(1.0, |(size, ms)| ms / f64::from(*size))
                    .max(1e-6);
                let alone = medians
                    .iter()
                    .find(|(size, _)| *size == 1)
                    .map_or(base, |(_, ms)| *ms);
                medians
                    .into_iter()
                    .map(|(size, ms)| (size, ms / alone.max(1e-6)))
                    .collect()
            })
            .collect();
        Self { measured }
    }

    /// Factor of a batch of this size. Sizes that were not measured lie on the straight line through the nearest two that
    /// were; with one alone, every member costs its full time.
    #[must_use]
    pub fn factor(&self, role: usize, size: u32) -> f64 {
        let Some(known) = self.measured.get(role) else {
            return f64::from(size);
        };
        if let Some(factor) = known.get(&size) {
            return *factor;
        }
        let mut near: Vec<(u32, f64)> = known
            .iter()
            .map(|(&size, &factor)| (size, factor))
            .collect();
        near.sort_by_key(|(other, _)| other.abs_diff(size));
        match near[..] {
            [(a, x), (b, y), ..] => {
                let slope = (y - x) / (f64::from(b) - f64::from(a));
                (x + slope * (f64::from(size) - f64::from(a))).max(x.min(y) * 0.5)
            }
            [(a, x)] => x * f64::from(size) / f64::from(a),
            [] => f64::from(size),
        }
    }

    /// Whether a size was measured.
    #[must_use]
    pub fn is_measured(&self, role: usize, size: u32) -> bool {
        self.measured
            .get(role)
            .is_some_and(|known| known.contains_key(&size))
    }
}

/// What a rule made of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The rule; `recorded` is what happened.
    pub policy: String,
    /// Calls of the device.
    pub batches: u64,
    /// By size of the batch, how many.
    pub sizes: BTreeMap<u32, u64>,
    /// Due → begins.
    pub wait: Option<Stats>,
    /// Due → over.
    pub whole: Option<Stats>,
    /// Share of the time in which the device worked.
    pub busy: f64,
    /// Calls of a size whose cost was not measured.
    pub assumed: u64,
}

/// A replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// Version of this shape.
    pub replay: u32,
    /// Steps.
    pub steps: usize,
    /// Arrivals.
    pub arrivals: u64,
    /// Names of what the steps were.
    pub roles: Vec<String>,
    /// What happened, and what each rule would have made of it.
    pub outcomes: Vec<Outcome>,
    /// What to keep in mind.
    pub remarks: Vec<String>,
}

/// A rule that can't be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule {policy} {what} at {at:?}; this is a bug in the rule")]
pub struct PolicyError {
    policy: String,
    what: String,
    at: Duration,
}

/// Runs a rule over a load.
///
/// # Errors
/// When it decides what can't be: an empty batch, steps of two roles, waiting for nothing.
pub fn run(load: &Load, costs: &Costs, policy: &mut dyn Policy) -> Result<Outcome, PolicyError> {
    let refuse = |policy: &dyn Policy, what: &str, at: Duration| PolicyError {
        policy: policy.name().to_owned(),
        what: what.to_owned(),
        at,
    };
    let (mut now, mut next, mut busy) = (Duration::ZERO, 0, Duration::ZERO);
    let mut waiting: Vec<(Waiting, usize)> = Vec::new();
    let (mut waits, mut wholes) = (Vec::new(), Vec::new());
    let (mut sizes, mut assumed) = (BTreeMap::new(), 0);
    loop {
        if waiting.is_empty() {
            match load.steps.get(next) {
                Some(step) => now = now.max(step.due),
                None => break,
            }
        }
        while let Some(step) = load.steps.get(next).filter(|step| step.due <= now) {
            let entry = Waiting {
                due: step.due,
                role: step.role,
                stream: step.stream,
            };
            waiting.push((entry, next));
            next += 1;
        }
        let shown: Vec<Waiting> = waiting.iter().map(|(waiting, _)| *waiting).collect();
        match policy.decide(now, &shown) {
            Decision::Run(mut members) => {
                members.sort_unstable();
                members.dedup();
                let role = members
                    .first()
                    .and_then(|&at| shown.get(at))
                    .map(|w| w.role);
                let Some(role) = role else {
                    return Err(refuse(
                        policy,
                        "ran an empty batch or a step that is not there",
                        now,
                    ));
                };
                if members
                    .iter()
                    .any(|&at| shown.get(at).map(|w| w.role) != Some(role))
                {
                    return Err(refuse(policy, "ran steps of two roles together", now));
                }
                let size = members.len() as u32;
                let mut spent = Duration::ZERO;
                for &at in &members {
                    let step = &load.steps[waiting[at].1];
                    let factor =
                        costs.factor(role, size) / costs.factor(role, step.batch).max(1e-9);
                    spent = spent.max((step.end - step.start).mul_f64(factor.clamp(0.0, 1e3)));
                }
                for &at in members.iter().rev() {
                    let (step, _) = waiting.remove(at);
                    waits.push(micros(now - step.due).0);
                    wholes.push(micros(now + spent - step.due).0);
                }
                *sizes.entry(size).or_default() += 1;
                assumed += u64::from(!costs.is_measured(role, size));
                busy += spent;
                now += spent;
            }
            Decision::WaitUntil(until) => {
                let due = load.steps.get(next).map(|step| step.due);
                let woken = due.map_or(until, |due| due.min(until));
                if woken <= now {
                    return Err(refuse(policy, "waits for an instant that has passed", now));
                }
                now = woken;
            }
        }
    }
    Ok(Outcome {
        policy: policy.name().to_owned(),
        batches: sizes.values().sum(),
        sizes,
        wait: Sorted::of(waits).stats(),
        whole: Sorted::of(wholes).stats(),
        busy: share(busy, now),
        assumed,
    })
}

/// What happened.
#[must_use]
pub fn recorded(load: &Load) -> Outcome {
    let mut sizes: BTreeMap<u32, f64> = BTreeMap::new();
    let mut busy = Duration::ZERO;
    for step in &load.steps {
        // Each member of a batch has its line.
        *sizes.entry(step.batch).or_default() += 1.0 / f64::from(step.batch);
        busy += (step.end - step.start) / step.batch;
    }
    let sizes: BTreeMap<u32, u64> = sizes
        .into_iter()
        .map(|(size, calls)| (size, calls.ceil() as u64))
        .collect();
    let of = |spent: fn(&Recorded) -> Duration| {
        Sorted::of(
            load.steps
                .iter()
                .map(|step| micros(spent(step)).0)
                .collect(),
        )
        .stats()
    };
    let end = load.steps.iter().map(|step| step.end).max();
    Outcome {
        policy: "recorded".to_owned(),
        batches: sizes.values().sum(),
        sizes,
        wait: of(|step| step.start - step.due),
        whole: of(|step| step.end - step.due),
        busy: share(busy, end.unwrap_or_default()),
        assumed: 0,
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        return 0.0;
    }
    (part.as_secs_f64() / whole.as_secs_f64() * 1e4).round() / 1e4
}

fn micros(span: Duration) -> Micros {
    Micros::of_ms(span.as_secs_f64() * 1e3).unwrap_or(Micros::LONGEST)
}

/// Runs several rules over a load.
///
/// # Errors
/// When one of them can't be replayed.
pub fn replay(load: &Load, policies: &mut [Box<dyn Policy>]) -> Result<Replay, PolicyError> {
    let costs = Costs::of(load);
    let mut outcomes = vec![recorded(load)];
    for policy in policies {
        outcomes.push(run(load, &costs, policy.as_mut())?);
    }
    let mut remarks = vec![
        "steps come due as they were recorded; a rule that answers sooner would make the next ones due sooner".to_owned(),
    ];
    if outcomes.iter().any(|outcome| outcome.assumed > 0) {
        let sizes: Vec<String> = load
            .roles
            .iter()
            .enumerate()
            .map(|(role, name)| {
                let known: Vec<String> = (1..=64)
                    .filter(|&size| costs.is_measured(role, size))
                    .map(|size| size.to_string())
                    .collect();
                format!(
                    "{name}: {}",
                    if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    }
                )
            })
            .collect();
        remarks.push(format!(
            "batch sizes whose cost this log has measured: {}; others are drawn out from these, and with a single one every member is taken to cost its full time",
            sizes.join("; ")
        ));
    }
    if load.impossible > 0 {
        remarks.push(format!(
            "{} steps with times that can't be were left out",
            load.impossible
        ));
    }
    Ok(Replay {
        replay: 1,
        steps: load.steps.len(),
        arrivals: load.arrivals,
        roles: load.roles.clone(),
        outcomes,
        remarks,
    })
}

/// The replay on a terminal.
#[must_use]
pub fn text(replay: &Replay) -> String {
    let mut out = format!(
        "{} steps ({}), {} arrivals\n",
        replay.steps,
        printable(&replay.roles.join(", ")),
        replay.arrivals
    );
    for remark in &replay.remarks {
        out.push_str(&super::table::wrapped(&format!(
            "note: {}",
            printable(remark)
        )));
    }
    for (title, of) in [
        (
            "wait, ms",
            (|o: &Outcome| o.wait) as fn(&Outcome) -> Option<Stats>,
        ),
        ("due to over, ms", |o| o.whole),
    ] {
        let _ = writeln!(
            out,
            "\n{title:<18}{:>8} {:>9} {:>9} {:>9} {:>9} {:>6}",
            "steps", "P50", "P95", "P99", "max", "σ/μ"
        );
        for outcome in &replay.outcomes {
            if let Some(stats) = of(outcome) {
                let _ = writeln!(
                    out,
                    "  {:<16}{:>8} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>6}",
                    outcome.policy,
                    stats.count,
                    stats.p50.ms(),
                    stats.p95.ms(),
                    stats.p99.ms(),
                    stats.max.ms(),
                    stats
                        .dispersion
                        .map_or("-".to_owned(), |d| format!("{d:.2}"))
                );
            }
        }
    }
    let _ = writeln!(
        out,
        "\n{:<18}{:>8} {:>9}  calls by size",
        "batches", "calls", "busy"
    );
    for outcome in &replay.outcomes {
        let sizes: Vec<String> = outcome
            .sizes
            .iter()
            .map(|(size, calls)| format!("{size}: {calls}"))
            .collect();
        let fill = 16_usize.saturating_sub(outcome.policy.width());
        let _ = writeln!(
            out,
            "  {}{}{:>8} {:>7.1} %  {}",
            outcome.policy,
            " ".repeat(fill),
            outcome.batches,
            outcome.busy * 100.0,
            sizes.join(", ")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Steps of 10 ms each, due at these times, as they would be without batching on a free device.
    fn load(dues: &[u64]) -> Load {
        Load {
            steps: dues
                .iter()
                .map(|&due| Recorded {
                    due: ms(due),
                    start: ms(due),
                    end: ms(due + 10),
                    batch: 1,
                    role: 0,
                    stream: 0,
                })
                .collect(),
            roles: vec!["encode".to_owned()],
            ..Load::default()
        }
    }

    #[test]
    fn waits_are_those_of_a_calculation_by_hand() {
        // Without batching: due 0, 5, 5, 100; they begin at 0, 10, 20, 100.
        let load = load(&[0, 5, 5, 100]);
        let costs = Costs::of(&load);
        let none = run(&load, &costs, &mut NoBatching).unwrap();
        let wait = none.wait.unwrap();
        assert_eq!((wait.p50, wait.max), (Micros(0), Micros(15_000)));
        assert_eq!((none.batches, none.sizes[&1]), (4, 4));
        // 40 ms of work until 110 ms.
        assert!((none.busy - 0.3636).abs() < 1e-9, "{}", none.busy);
        // The fixed rule: the first waits for the second, 0 and 5 run at 5 (two of full cost: 20 ms), the third, due at 5, finds
        // no company and begins 80 ms after it was due; the last one, due at 100, begins at 180.
        let fixed = run(&load, &costs, &mut Fixed::default()).unwrap();
        let wait = fixed.wait.unwrap();
        assert_eq!(
            (wait.min, wait.p50, wait.max),
            (Micros(0), Micros(5_000), Micros(80_000))
        );
        assert_eq!((fixed.sizes[&1], fixed.sizes[&2]), (2, 1));
        assert_eq!(fixed.assumed, 3);
    }

    #[test]
    fn what_a_batch_costs_is_learned_where_it_was_measured() {
        let mut load = load(&[0; 5]);
        // Batches of 4 take 16 ms where one takes 10.
        for _ in 0..5 {
            load.steps.push(Recorded {
                end: ms(16),
                batch: 4,
                ..load.steps[0]
            });
        }
        let costs = Costs::of(&load);
        assert!((costs.factor(0, 4) - 1.6).abs() < 1e-9);
        // On the line through 1 and 4: 1 + 0.2 for each more.
        assert!((costs.factor(0, 2) - 1.2).abs() < 1e-9);
        assert!((costs.factor(0, 6) - 2.0).abs() < 1e-9);
        assert!(costs.is_measured(0, 4) && !costs.is_measured(0, 2));
    }

    #[test]
    fn a_rule_that_decides_what_cannot_be_is_refused() {
        struct Broken(Decision);
        impl Policy for Broken {
            fn name(&self) -> &str {
                "broken"
            }
            fn decide(&mut self, _: Duration, _: &[Waiting]) -> Decision {
                self.0.clone()
            }
        }
        let load = load(&[0, 5]);
        let costs = Costs::of(&load);
        for decision in [
            Decision::Run(Vec::new()),
            Decision::Run(vec![7]),
            Decision::WaitUntil(Duration::ZERO),
        ] {
            let error = run(&load, &costs, &mut Broken(decision)).unwrap_err();
            assert!(error.to_string().contains("the rule broken"), "{error}");
        }
    }
}
