//! What a report says: worked out once, written as a table, as JSON or as a page.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::curve::{self, Context, Pareto};
use super::diagnose::{self, Usual};
use super::gather::{Columns, Event, Gathered, Group, METRICS, THROTTLED};
use super::stage::{Class, ORDER, because_words, class, counts_for, metric_words};
use super::stats::{Column, NONE, Sorted, Stats};
use crate::exit::name;
use crate::log::read::{Micros, Range, Source, Wall, WorkKind};

/// Points of a distribution's curve.
const CURVE: usize = 200;
/// Stretches of time in the course of a latency, at most.
const STRETCHES: usize = 160;
/// Hours in the table by hour, at most: two weeks.
const HOURS: usize = 14 * 24;

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Version of this shape.
    pub report: u32,
    /// The places that were read.
    pub places: Vec<String>,
    /// The range that was asked for.
    pub since: Option<String>,
    /// Its end.
    pub until: Option<String>,
    /// First record.
    pub first: Option<String>,
    /// Last record.
    pub last: Option<String>,
    /// Files.
    pub segments: u64,
    /// Processes that wrote them.
    pub processes: usize,
    /// The devices.
    pub devices: Vec<String>,
    /// The programs.
    pub versions: Vec<String>,
    /// Utterances, requests and turns.
    pub records: usize,
    /// What is missing or not to be trusted.
    pub remarks: Vec<String>,
    /// By model, target and objective.
    pub groups: Vec<GroupSummary>,
    /// Loads of models.
    pub loads: Vec<LoadSummary>,
    /// Moves of the ladder.
    pub moves: Vec<EventSummary>,
    /// How many there were; the list may be shorter.
    pub move_count: u64,
    /// Work that was dropped.
    pub drops: Vec<Count>,
    /// What the log itself lost.
    pub lost: Vec<Count>,
    /// Suspends and steps of the wall clock.
    pub marks: Vec<EventSummary>,
    /// Runs of `firstword bench`.
    pub benches: Vec<String>,
}

/// So many of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// How many.
    pub count: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventSummary {
    /// When.
    pub at: Option<String>,
    /// What.
    pub what: String,
}

/// The loads of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadSummary {
    /// What for.
    pub role: String,
    /// Which.
    pub model: String,
    /// Where.
    pub target: String,
    /// All of it.
    pub total: Option<Stats>,
    /// By stage.
    pub stages: Vec<Named>,
}

/// A statistic with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The figures.
    #[serde(flatten)]
    pub stats: Stats,
}

/// An objective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectiveSummary {
    /// Its name.
    pub name: String,
    /// What is measured.
    pub metric: String,
    /// The limit of the percentile.
    #[serde(rename = "limit_ms")]
    pub limit: Micros,
    /// Which percentile: 95, of `decision` 99.
    pub percentile: u32,
    /// Its value over the warm records.
    #[serde(rename = "reached_ms")]
    pub reached: Option<Micros>,
    /// Whether it is within the limit.
    pub holds: Option<bool>,
    /// Warm records above the limit.
    pub misses: usize,
    /// Warm records that were judged.
    pub judged: usize,
}

/// A stage of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageSummary {
    /// Its name.
    pub name: String,
    /// What it is spent on.
    pub class: Class,
    /// Whether the objective's metric covers it.
    pub counts: bool,
    /// The figures of the warm records.
    #[serde(flatten)]
    pub stats: Stats,
    /// Share of the time that the metric covers, from 0 to 1; `None` where it does not cover this stage.
    pub share: Option<f64>,
}

/// How often a stage was the cause of a miss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseSummary {
    /// The stage.
    pub stage: String,
    /// The reason beyond it.
    pub because: Option<String>,
    /// Misses.
    pub misses: usize,
    /// Median of what it took then.
    #[serde(rename = "spent_ms")]
    pub spent: Micros,
    /// What it usually takes.
    #[serde(rename = "usual_ms")]
    pub usual: Micros,
}

/// One record with its stages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// When it ended.
    pub at: Option<String>,
    /// Whose it was.
    pub who: String,
    /// What the objective is about.
    #[serde(rename = "value_ms")]
    pub value: Micros,
    /// Whether it was cold.
    pub cold: bool,
    /// The stage that was slow.
    pub cause: Option<String>,
    /// What that took.
    #[serde(rename = "spent_ms")]
    pub spent: Option<Micros>,
    /// What it usually takes.
    #[serde(rename = "usual_ms")]
    pub usual: Option<Micros>,
    /// The reason beyond the stage.
    pub because: Option<String>,
    /// The stages.
    pub stages: Vec<Span>,
}

/// A stage of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// What it took.
    #[serde(rename = "ms")]
    pub spent: Micros,
}

/// A stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stretch {
    /// When it begins.
    pub at: String,
    /// The same, s since 1970.
    pub seconds: i64,
    /// Warm records in it.
    pub count: usize,
    /// Median.
    #[serde(rename = "p50_ms")]
    pub p50: Micros,
    /// 95 of 100 took no longer.
    #[serde(rename = "p95_ms")]
    pub p95: Micros,
    /// 99 of 100 took no longer.
    #[serde(rename = "p99_ms")]
    pub p99: Micros,
    /// The slowest.
    #[serde(rename = "max_ms")]
    pub max: Micros,
    /// Above the limit.
    pub misses: usize,
    /// The hottest the device was.
    pub temperature_c: Option<f64>,
    /// Median of its clock, as a share of the highest.
    pub clock: Option<f64>,
    /// Records while it had slowed itself down.
    pub throttled: usize,
}

/// Latencies at a temperature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// From, °C.
    pub from_c: i32,
    /// Up to, °C.
    pub to_c: i32,
    /// The figures.
    #[serde(flatten)]
    pub stats: Stats,
    /// Median of the clock, as a share of the highest.
    pub clock: Option<f64>,
}

/// One side of a group: warm or cold.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// Records.
    pub count: usize,
    /// The metrics.
    pub metrics: Vec<Named>,
    /// All waiting for a turn, of each record together.
    pub queue: Option<Stats>,
    /// All work, of each record together.
    pub compute: Option<Stats>,
    /// Distribution of what the objective is about: `[ms, share]`.
    pub distribution: Vec<(f64, f64)>,
}

/// The records of one model, target and objective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSummary {
    /// Turn, request or utterance.
    pub kind: WorkKind,
    /// The model.
    pub model: String,
    /// Where it ran.
    pub target: String,
    /// What it was held to.
    pub objective: Option<ObjectiveSummary>,
    /// What `value` is: the objective's metric, or that of the kind.
    pub metric: String,
    /// What a person should know first, in sentences.
    pub findings: Vec<String>,
    /// Warm records.
    pub warm: Side,
    /// Cold records, never mixed with the others.
    pub cold: Side,
    /// Records that don't say which they are; they are among the warm ones.
    pub unsaid: usize,
    /// The stages of the warm records.
    pub stages: Vec<StageSummary>,
    /// Causes of the warm misses, most frequent first.
    pub causes: Vec<CauseSummary>,
    /// A record whose value is the median.
    pub typical: Option<Example>,
    /// The slowest, warm or cold.
    pub worst: Vec<Example>,
    /// Process by process, where `firstword bench` wrote the records.
    pub runs: Vec<Named>,
    /// The figure of the standard run: the median of their P95.
    #[serde(rename = "median_p95_ms")]
    pub median_p95: Option<Micros>,
    /// Hour by hour.
    pub hours: Vec<Stretch>,
    /// The course, in stretches of equal length.
    pub course: Vec<Stretch>,
    /// By temperature.
    pub bands: Vec<Band>,
    /// Time of the prompt over its length.
    pub context: Option<Context>,
    /// By batch size.
    pub batches: Vec<Pareto>,
}

/// Works out what a report says.
#[must_use]
pub fn summarise(
    source: &Source,
    places: &[PathBuf],
    range: &Range,
    gathered: &Gathered,
) -> Summary {
    let rfc = |wall: Option<Wall>| wall.map(Wall::rfc3339);
    let mut remarks = gathered.noise.clone();
    remarks.extend(
        source
            .refused()
            .iter()
            .map(|error| format!("left out: {error}")),
    );
    remarks.extend(gathered.tally.remarks());
    let (mut records, mut events) = (0_u64, gathered.lost_events);
    for (lost_records, lost_events) in gathered.lost.values() {
        records = records.saturating_add(*lost_records);
        events = events.max(*lost_events);
    }
    if records > 0 || events > 0 {
        remarks.push(format!(
            "the device itself could not write {records} records and {events} events; the figures are of the others"
        ));
    }
    Summary {
        report: 1,
        places: places.iter().map(name).collect(),
        since: rfc(range.since),
        until: rfc(range.until),
        first: rfc(gathered.span.map(|(first, _)| first)),
        last: rfc(gathered.span.map(|(_, last)| last)),
        segments: gathered.tally.segments,
        processes: gathered
            .processes
            .len()
            .max(usize::from(!source.segments().is_empty())),
        devices: gathered.devices.iter().cloned().collect(),
        versions: gathered.versions.iter().cloned().collect(),
        records: gathered
            .groups
            .iter()
            .map(|g| g.warm.count + g.cold.count)
            .sum(),
        remarks,
        groups: gathered
            .groups
            .iter()
            .map(|found| group(found, &gathered.runs))
            .collect(),
        loads: gathered
            .loads
            .iter()
            .map(|((role, model, target), loads)| LoadSummary {
                role: role.clone(),
                model: model.clone(),
                target: target.clone(),
                total: loads.total.sorted().stats(),
                stages: loads
                    .stages
                    .iter()
                    .filter_map(|(name, column)| named(name, column.sorted().stats()))
                    .collect(),
            })
            .collect(),
        moves: events_of(&gathered.moves),
        move_count: gathered.move_count,
        drops: gathered
            .drops
            .iter()
            .map(|((what, why), &count)| Count {
                what: what.clone(),
                why: why.clone(),
                count,
            })
            .collect(),
        lost: gathered
            .lost
            .iter()
            .flat_map(|(why, &(records, events))| {
                [("records", records), ("events", events)].map(|(what, count)| Count {
                    what: what.to_owned(),
                    why: why.clone(),
                    count,
                })
            })
            .filter(|count| count.count > 0)
            .collect(),
        marks: events_of(&gathered.marks),
        benches: gathered.benches.clone(),
    }
}

fn events_of(events: &[Event]) -> Vec<EventSummary> {
    events
        .iter()
        .map(|event| EventSummary {
            at: event.at.map(Wall::rfc3339),
            what: event.what.clone(),
        })
        .collect()
}

fn named(name: &str, stats: Option<Stats>) -> Option<Named> {
    stats.map(|stats| Named {
        name: name.to_owned(),
        stats,
    })
}

fn group(group: &Group, runs: &[String]) -> GroupSummary {
    let (warm, cold) = (&group.warm, &group.cold);
    let metric = match (&group.key.objective, group.key.kind) {
        (Some((_, metric, _)), _) => metric.clone(),
        (None, WorkKind::Utterance) => "final_latency_ms".to_owned(),
        (None, WorkKind::Request) => "ttft_ms".to_owned(),
        (None, WorkKind::Turn) => "voice_ttft_ms".to_owned(),
    };
    let values = warm.value.sorted();
    let objective = group.key.objective.as_ref().map(|(name, metric, limit)| {
        // latency-targets.md: P95 for all but the risk decision.
        let percentile = if name == "decision" { 99 } else { 95 };
        let reached = values.quantile(percentile * 10);
        let judged = (0..warm.count).filter_map(|at| warm.held.get(at));
        let (mut misses, mut count) = (0, 0);
        for held in judged {
            count += 1;
            misses += usize::from(held == 0);
        }
        ObjectiveSummary {
            name: name.clone(),
            metric: metric.clone(),
            limit: *limit,
            percentile,
            reached,
            holds: reached.map(|reached| reached <= *limit),
            misses,
            judged: count,
        }
    });
    let usual = Usual::of(warm);
    let causes = causes(warm, &usual, &metric);
    let (typical, worst) = examples(group, &usual, &metric, values.quantile(500));
    let (hours, course) = over_time(warm);
    let runs = by_run(warm, runs);
    let mut summary = GroupSummary {
        kind: group.key.kind,
        model: group.key.model.clone(),
        target: group.key.target.clone(),
        objective,
        metric: metric.clone(),
        findings: Vec::new(),
        warm: side(warm, &values),
        cold: side(cold, &cold.value.sorted()),
        unsaid: group.unsaid,
        stages: stages(warm, &metric),
        causes,
        typical,
        worst,
        median_p95: median_p95(&runs),
        runs,
        hours,
        course,
        bands: bands(warm),
        context: curve::context(warm),
        batches: curve::pareto(warm),
    };
    summary.findings = findings(&summary);
    summary
}

/// The values of each process of a bench.
fn by_run(columns: &Columns, runs: &[String]) -> Vec<Named> {
    let mut values: Vec<Vec<u32>> = vec![Vec::new(); runs.len()];
    for at in 0..columns.count {
        let run = columns
            .run
            .get(at)
            .and_then(|run| values.get_mut(run as usize));
        if let (Some(values), Some(value)) = (run, columns.value.get(at)) {
            values.push(value);
        }
    }
    runs.iter()
        .zip(values)
        .filter_map(|(name, values)| named(name, Sorted::of(values).stats()))
        .collect()
}

/// latency-targets.md: the median of the three P95 values is the figure, all three are kept.
fn median_p95(runs: &[Named]) -> Option<Micros> {
    Sorted::of(runs.iter().map(|run| run.stats.p95.0).collect()).quantile(500)
}

fn side(columns: &Columns, values: &Sorted) -> Side {
    let per_record = |wanted: Class| {
        let mut sums = vec![NONE; columns.count];
        for (name, column) in &columns.stages {
            if class(name) != wanted {
                continue;
            }
            for (at, sum) in sums.iter_mut().enumerate() {
                if let Some(spent) = column.get(at) {
                    let before = if *sum == NONE { 0 } else { *sum };
                    *sum = before.saturating_add(spent).min(Micros::LONGEST.0);
                }
            }
        }
        sums.retain(|&sum| sum != NONE);
        Sorted::of(sums).stats()
    };
    let last = values.len().saturating_sub(1);
    let points = values.len().min(CURVE);
    Side {
        count: columns.count,
        metrics: METRICS
            .iter()
            .zip(&columns.metrics)
            .filter_map(|(name, column)| named(name, column.sorted().stats()))
            .collect(),
        queue: per_record(Class::Queue),
        compute: per_record(Class::Compute),
        distribution: (0..points)
            .map(|point| {
                let at = if points > 1 {
                    point * last / (points - 1)
                } else {
                    0
                };
                let share = (at + 1) as f64 / values.len() as f64;
                (
                    Micros(values.values()[at]).ms(),
                    (share * 1e5).round() / 1e5,
                )
            })
            .collect(),
    }
}

/// Where a stage stands in [`ORDER`]; unknown ones behind.
fn place(stage: &str) -> usize {
    ORDER
        .iter()
        .position(|&known| known == stage)
        .unwrap_or(ORDER.len())
}

fn stages(columns: &Columns, metric: &str) -> Vec<StageSummary> {
    let mut stages: Vec<StageSummary> = columns
        .stages
        .iter()
        .filter_map(|(name, column)| {
            Some(StageSummary {
                name: name.clone(),
                class: class(name),
                counts: counts_for(name, Some(metric)),
                stats: column.sorted().stats()?,
                share: None,
            })
        })
        .collect();
    let sum = |stage: &StageSummary| stage.stats.mean_ms * stage.stats.count as f64;
    let all: f64 = stages.iter().filter(|stage| stage.counts).map(sum).sum();
    for stage in stages.iter_mut().filter(|stage| stage.counts && all > 0.0) {
        stage.share = Some((sum(stage) / all * 1e4).round() / 1e4);
    }
    stages.sort_by_key(|stage| place(&stage.name));
    stages
}

fn causes(columns: &Columns, usual: &Usual, metric: &str) -> Vec<CauseSummary> {
    let mut by: BTreeMap<(usize, Option<String>), Vec<u32>> = BTreeMap::new();
    for at in (0..columns.count).filter(|&at| columns.held.get(at) == Some(0)) {
        if let Some(cause) = diagnose::cause(columns, usual, at, Some(metric), false) {
            by.entry((cause.stage, cause.because))
                .or_default()
                .push(cause.spent);
        }
    }
    let mut causes: Vec<CauseSummary> = by
        .into_iter()
        .map(|((stage, because), spent)| CauseSummary {
            stage: columns.stages[stage].0.clone(),
            because,
            misses: spent.len(),
            spent: Sorted::of(spent).quantile(500).unwrap_or_default(),
            usual: Micros(usual.stage(stage)),
        })
        .collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.misses));
    causes
}

fn examples(
    group: &Group,
    usual: &Usual,
    metric: &str,
    median: Option<Micros>,
) -> (Option<Example>, Vec<Example>) {
    let example = |columns: &Columns, at: usize, who: &str, cold: bool, slow: bool| {
        // The usual times are those of the warm columns, whose stages may stand in another order.
        let order: Vec<u32> = columns
            .stages
            .iter()
            .map(|(name, _)| {
                let warm = group
                    .warm
                    .stages
                    .iter()
                    .position(|(other, _)| other == name);
                warm.map_or(0, |at| usual.stage(at))
            })
            .collect();
        let usual = Usual::known(order);
        let cause = slow
            .then(|| diagnose::cause(columns, &usual, at, Some(metric), cold))
            .flatten();
        let mut spans: Vec<Span> = columns
            .stages
            .iter()
            .filter_map(|(name, column)| {
                Some(Span {
                    name: name.clone(),
                    spent: Micros(column.get(at)?),
                })
            })
            .collect();
        spans.sort_by_key(|span| place(&span.name));
        Example {
            at: columns
                .time
                .get(at)
                .map(|seconds| Wall(i64::from(seconds) * 1_000_000_000).rfc3339()),
            who: who.to_owned(),
            value: Micros(columns.value.get(at).unwrap_or_default()),
            cold,
            spent: cause.as_ref().map(|cause| Micros(cause.spent)),
            usual: cause.as_ref().map(|cause| Micros(cause.usual)),
            because: cause.as_ref().and_then(|cause| cause.because.clone()),
            cause: cause.map(|cause| columns.stages[cause.stage].0.clone()),
            stages: spans,
        }
    };
    let typical = median.and_then(|median| {
        let at = (0..group.warm.count).find(|&at| group.warm.value.get(at) == Some(median.0))?;
        Some(example(&group.warm, at, "", false, false))
    });
    let mut worst = Vec::new();
    for (columns, cold) in [(&group.warm, false), (&group.cold, true)] {
        for std::cmp::Reverse((_, at, who)) in &columns.worst {
            worst.push(example(columns, *at, who, cold, true));
        }
    }
    worst.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.at.cmp(&b.at)));
    worst.truncate(10);
    (typical, worst)
}

fn over_time(columns: &Columns) -> (Vec<Stretch>, Vec<Stretch>) {
    let times: Vec<u32> = (0..columns.count)
        .filter_map(|at| columns.time.get(at))
        .collect();
    let (Some(&first), Some(&last)) = (times.iter().min(), times.iter().max()) else {
        return (Vec::new(), Vec::new());
    };
    let mut hours = stretches(columns, first / 3600 * 3600, 3600);
    // The newest are those that somebody asks about.
    let surplus = hours.len().saturating_sub(HOURS);
    hours.drain(..surplus);
    // As many stretches as give each some records to judge, of a round length.
    let wanted = (times.len() / 8).clamp(1, STRETCHES) as u32;
    let least = (last - first) / wanted + 1;
    let round = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
        86_400,
    ];
    let length = round
        .into_iter()
        .find(|&length| length >= least)
        .unwrap_or_else(|| least.div_ceil(86_400) * 86_400);
    (hours, stretches(columns, first / length * length, length))
}

fn stretches(columns: &Columns, begin: u32, length: u32) -> Vec<Stretch> {
    let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for at in 0..columns.count {
        if let (Some(time), Some(_)) = (columns.time.get(at), columns.value.get(at)) {
            members.entry((time - begin) / length).or_default().push(at);
        }
    }
    members
        .into_iter()
        .map(|(number, members)| {
            let of = |column: &Column| {
                Sorted::of(members.iter().filter_map(|&at| column.get(at)).collect())
            };
            let values = of(&columns.value);
            let seconds = i64::from(begin + number * length);
            let at = |per_mille| values.quantile(per_mille).unwrap_or_default();
            Stretch {
                at: Wall(seconds * 1_000_000_000).rfc3339(),
                seconds,
                count: members.len(),
                p50: at(500),
                p95: at(950),
                p99: at(990),
                max: at(1000),
                misses: members
                    .iter()
                    .filter(|&&at| columns.held.get(at) == Some(0))
                    .count(),
                temperature_c: of(&columns.temperature).quantile(1000).map(celsius),
                clock: of(&columns.clock)
                    .quantile(500)
                    .map(|share| f64::from(share.0) / 1e3),
                throttled: members
                    .iter()
                    .filter(|&&at| columns.conditions[at] & THROTTLED != 0)
                    .count(),
            }
        })
        .collect()
}

fn celsius(stored: Micros) -> f64 {
    ((f64::from(stored.0) / 10.0 - 100.0) * 10.0).round() / 10.0
}

/// Bands of ten degrees.
fn bands(columns: &Columns) -> Vec<Band> {
    let mut members: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for at in 0..columns.count {
        if let (Some(stored), Some(_)) = (columns.temperature.get(at), columns.value.get(at)) {
            let band = (celsius(Micros(stored)) / 10.0).floor() as i32;
            members.entry(band).or_default().push(at);
        }
    }
    members
        .into_iter()
        .filter_map(|(band, members)| {
            let of = |column: &Column| {
                Sorted::of(members.iter().filter_map(|&at| column.get(at)).collect())
            };
            Some(Band {
                from_c: band * 10,
                to_c: band * 10 + 10,
                stats: of(&columns.value).stats()?,
                clock: of(&columns.clock)
                    .quantile(500)
                    .map(|share| f64::from(share.0) / 1e3),
            })
        })
        .collect()
}

fn percent(part: usize, all: usize) -> String {
    let share = part as f64 / all.max(1) as f64 * 100.0;
    if part > 0 && share < 0.1 {
        "under 0.1 %".to_owned()
    } else {
        format!("{share:.1} %")
    }
}

/// The sentences that stand above the tables.
fn findings(group: &GroupSummary) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(objective) = &group.objective else {
        findings.push("Held to no objective: nothing is judged.".to_owned());
        return findings;
    };
    let what = metric_words(&objective.metric);
    let Some(reached) = objective.reached else {
        findings.push("No warm record to judge.".to_owned());
        return findings;
    };
    let kinds = match group.kind {
        WorkKind::Turn => "turns",
        WorkKind::Request => "requests",
        WorkKind::Utterance => "utterances",
    };
    findings.push(format!(
        "{}: P{} of {what} is {:.1} ms, the limit {:.1} ms; {} of {} warm {kinds} ({}) took longer.",
        if objective.holds == Some(true) { "HOLDS" } else { "BROKEN" },
        objective.percentile,
        reached.ms(),
        objective.limit.ms(),
        objective.misses,
        objective.judged,
        percent(objective.misses, objective.judged),
    ));
    let mut by_stage: Vec<(&str, usize)> = Vec::new();
    let mut by_reason: Vec<(&str, usize)> = Vec::new();
    for cause in &group.causes {
        match by_stage.iter_mut().find(|(stage, _)| *stage == cause.stage) {
            Some((_, misses)) => *misses += cause.misses,
            None => by_stage.push((&cause.stage, cause.misses)),
        }
        if let Some(because) = &cause.because {
            match by_reason.iter_mut().find(|(reason, _)| reason == because) {
                Some((_, misses)) => *misses += cause.misses,
                None => by_reason.push((because, cause.misses)),
            }
        }
    }
    by_stage.sort_by_key(|&(_, misses)| std::cmp::Reverse(misses));
    by_reason.sort_by_key(|&(_, misses)| std::cmp::Reverse(misses));
    let all: usize = by_stage.iter().map(|(_, misses)| misses).sum();
    if let Some(&(stage, misses)) = by_stage.first() {
        let most = group.causes.iter().find(|cause| cause.stage == stage);
        let times = most.map_or(String::new(), |cause| {
            format!(
                ", {:.1} ms where {:.1} ms is usual",
                cause.spent.ms(),
                cause.usual.ms()
            )
        });
        // Where the objective holds, the few above it have a reason, too, but the device is not slow.
        let begin = if objective.holds == Some(true) {
            "Slow in those was"
        } else {
            "Slow was"
        };
        findings.push(format!(
            "{begin} {stage}: in {misses} of {all} misses ({}) it was furthest above its usual time{times}.",
            percent(misses, all)
        ));
    }
    if let Some(&(because, misses)) = by_reason.first()
        && misses * 10 >= all
        // That a queue was slow because of waiting says nothing new.
        && because != "queue"
    {
        findings.push(format!(
            "Because ({because}): {}, in {misses} of {all} misses ({}).",
            because_words(because),
            percent(misses, all)
        ));
    }
    if let Some(context) = &group.context
        && let Some(knee) = context.knee_tokens
    {
        findings.push(format!(
            "Prompts get dearer from about {knee} tokens on: {:.2} ms for each token, {:.2} ms before.",
            context.after_ms_per_token.unwrap_or_default(),
            context.before_ms_per_token.unwrap_or_default()
        ));
    }
    findings
}
