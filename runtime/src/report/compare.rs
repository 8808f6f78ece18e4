//! What changed between two logs: per metric and stage, with an interval, and in a sentence.

use std::fmt::Write;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::bootstrap::{self, Difference, FEW};
use super::gather::{Columns, Gathered, Group, METRICS};
use super::stage::{ORDER, counts_for, metric_words};
use super::stats::Column;
use crate::exit::printable;
use crate::log::read::WorkKind;

/// Confidence of all rows of a table together.
const CONFIDENCE: f64 = 0.95;
/// The same logs give the same intervals.
const SEED: u64 = 0x1a7e;

/// Two logs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this shape.
    pub comparison: u32,
    /// The first, in words.
    pub a: String,
    /// The second, in words.
    pub b: String,
    /// All of it in a sentence.
    pub verdict: String,
    /// What both have.
    pub groups: Vec<Pair>,
    /// What only one of them has.
    pub alone: Vec<String>,
    /// What is missing or not to be trusted.
    pub remarks: Vec<String>,
}

/// One kind of work with one model on one target, in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Turn, request or utterance.
    pub kind: WorkKind,
    /// The model.
    pub model: String,
    /// Where it ran.
    pub target: String,
    /// Warm records of A.
    pub a_count: usize,
    /// Warm records of B.
    pub b_count: usize,
    /// In sentences.
    pub findings: Vec<String>,
    /// Confidence of a single row's interval, so that it is 95 % for all.
    pub row_confidence: f64,
    /// Medians and P95 of metrics and stages.
    pub rows: Vec<Row>,
}

/// One metric or stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// `metric` or `stage`.
    pub what: &'static str,
    /// Which order statistic: 50 or 95.
    pub percentile: u32,
    /// The figures.
    #[serde(flatten)]
    pub difference: Difference,
    /// Whether chance alone does not do it.
    pub real: bool,
}

/// Compares what both have.
#[must_use]
pub fn compare(a: (&str, &Gathered), b: (&str, &Gathered)) -> Comparison {
    let alike = |x: &Group, y: &Group| {
        x.key.kind == y.key.kind && x.key.model == y.key.model && x.key.target == y.key.target
    };
    let mut comparison = Comparison {
        comparison: 1,
        a: a.0.to_owned(),
        b: b.0.to_owned(),
        verdict: String::new(),
        groups: Vec::new(),
        alone: Vec::new(),
        remarks: Vec::new(),
    };
    for (name, gathered) in [a, b] {
        let remarks = gathered
            .noise
            .iter()
            .cloned()
            .chain(gathered.tally.remarks());
        comparison
            .remarks
            .extend(remarks.map(|remark| format!("{name}: {remark}")));
    }
    for group in &a.1.groups {
        let same_objective = |other: &&Group| other.key.objective == group.key.objective;
        let others: Vec<&Group> =
            b.1.groups
                .iter()
                .filter(|other| alike(group, other))
                .collect();
        // Another limit is no other work.
        match others
            .iter()
            .copied()
            .find(|o| same_objective(o))
            .or(others.first().copied())
        {
            Some(other) => comparison.groups.push(pair(group, other)),
            None => comparison
                .alone
                .push(format!("{} is in {} only", name(group), a.0)),
        }
    }
    for group in &b.1.groups {
        if !a.1.groups.iter().any(|other| alike(group, other)) {
            comparison
                .alone
                .push(format!("{} is in {} only", name(group), b.0));
        }
    }
    comparison.verdict = verdict(&comparison);
    comparison
}

fn name(group: &Group) -> String {
    format!(
        "{} · {} · {}",
        group.key.kind.name(),
        group.key.model,
        group.key.target
    )
}

fn verdict(comparison: &Comparison) -> String {
    let headlines: Vec<&Row> = comparison
        .groups
        .iter()
        .filter_map(|p| headline(p, 50))
        .collect();
    if comparison.groups.is_empty() {
        return "Nothing to compare: no kind of work, model and target is in both.".to_owned();
    }
    if headlines.is_empty() {
        return format!(
            "Too few records to compare: at least {FEW} warm ones on each side are needed."
        );
    }
    let real = |slower: bool| {
        headlines
            .iter()
            .filter(|row| row.real && (row.difference.difference_ms > 0.0) == slower)
            .count()
    };
    match (real(true), real(false)) {
        (0, 0) => "Noise: the medians differ by no more than chance does.".to_owned(),
        (slower, 0) => format!("Slower: {slower} of {}.", headlines.len()),
        (0, faster) => format!("Faster: {faster} of {}.", headlines.len()),
        (slower, faster) => format!(
            "Slower: {slower}, faster: {faster}, of {}.",
            headlines.len()
        ),
    }
}

/// The row that the kind of work is judged by.
fn headline(pair: &Pair, percentile: u32) -> Option<&Row> {
    let metric = match pair.kind {
        WorkKind::Turn => "voice_ttft_ms",
        WorkKind::Request => "ttft_ms",
        WorkKind::Utterance => "final_latency_ms",
    };
    pair.rows
        .iter()
        .find(|row| row.name == metric && row.percentile == percentile)
}

fn pair(a: &Group, b: &Group) -> Pair {
    let (warm_a, warm_b) = (&a.warm, &b.warm);
    let mut wanted: Vec<(String, &'static str, u32, &Column, &Column)> = Vec::new();
    for (at, metric) in METRICS.iter().enumerate() {
        for percentile in [50, 95] {
            let (x, y) = (&warm_a.metrics[at], &warm_b.metrics[at]);
            wanted.push(((*metric).to_owned(), "metric", percentile, x, y));
        }
    }
    let mut stages: Vec<&str> = warm_a
        .stages
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    stages.sort_by_key(|stage| ORDER.iter().position(|known| known == stage));
    for stage in stages {
        if let (Some(x), Some(y)) = (column(warm_a, stage), column(warm_b, stage)) {
            for percentile in [50, 95] {
                wanted.push((stage.to_owned(), "stage", percentile, x, y));
            }
        }
    }
    wanted.retain(|(.., x, y)| !x.is_empty() && !y.is_empty());
    // Bonferroni: with k rows, each may err in one of k times as few cases.
    let row_confidence = 1.0 - (1.0 - CONFIDENCE) / wanted.len().max(1) as f64;
    let rows = wanted
        .into_iter()
        .enumerate()
        .filter_map(|(at, (name, what, percentile, x, y))| {
            let (x, y) = (x.sorted(), y.sorted());
            let seed = SEED + at as u64;
            let difference = bootstrap::compare(&x, &y, percentile * 10, row_confidence, seed)?;
            Some(Row {
                name,
                what,
                percentile,
                real: difference.is_real(),
                difference,
            })
        })
        .collect();
    let mut pair = Pair {
        kind: a.key.kind,
        model: a.key.model.clone(),
        target: a.key.target.clone(),
        a_count: warm_a.count,
        b_count: warm_b.count,
        findings: Vec::new(),
        row_confidence,
        rows,
    };
    pair.findings = findings(&pair);
    pair
}

fn column<'c>(columns: &'c Columns, stage: &str) -> Option<&'c Column> {
    columns
        .stages
        .iter()
        .find(|(name, _)| name == stage)
        .map(|(_, column)| column)
}

fn findings(pair: &Pair) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(median) = headline(pair, 50) else {
        return vec![format!(
            "Too few warm records to compare: {} and {}; at least {FEW} on each side are needed.",
            pair.a_count, pair.b_count
        )];
    };
    let changed = |row: &Row| {
        let d = &row.difference;
        let share = if d.a_ms > 0.0 {
            format!(", {:+.1} %", d.difference_ms / d.a_ms * 100.0)
        } else {
            String::new()
        };
        format!(
            "{:.1} → {:.1} ms ({:+.2} ms{share})",
            d.a_ms, d.b_ms, d.difference_ms
        )
    };
    for row in [Some(median), headline(pair, 95)].into_iter().flatten() {
        let what = match row.percentile {
            50 => format!("The median of {}", metric_words(&row.name)),
            p => format!("P{p} of {}", metric_words(&row.name)),
        };
        let d = &row.difference;
        findings.push(if row.real {
            let direction = if d.difference_ms > 0.0 { "SLOWER" } else { "FASTER" };
            format!("{direction}: {what} went {}.", changed(row))
        } else {
            format!(
                "NOISE: {what}, {}, could differ by chance as much; the true change is between {:+.2} and {:+.2} ms.",
                changed(row),
                d.low_ms,
                d.high_ms
            )
        });
    }
    // What lies behind the metric's end changed something else.
    let mut stages: Vec<&Row> = pair
        .rows
        .iter()
        .filter(|row| row.what == "stage" && row.real && counts_for(&row.name, Some(&median.name)))
        .collect();
    stages.sort_by(|x, y| {
        y.difference
            .difference_ms
            .abs()
            .total_cmp(&x.difference.difference_ms.abs())
    });
    findings.push(if stages.is_empty() {
        "No stage changed by more than chance does.".to_owned()
    } else {
        let named: Vec<String> = stages
            .iter()
            .take(3)
            .map(|row| {
                format!(
                    "P{} of {} {:+.2} ms",
                    row.percentile,
                    row.name.replace('_', " "),
                    row.difference.difference_ms
                )
            })
            .collect();
        format!("Stages that changed most: {}.", named.join(", "))
    });
    findings
}

/// The comparison on a terminal.
#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "A: {}\nB: {}",
        printable(&comparison.a),
        printable(&comparison.b)
    );
    let _ = writeln!(out, "{}", comparison.verdict);
    for remark in &comparison.remarks {
        let _ = writeln!(out, "note: {}", printable(remark));
    }
    for pair in &comparison.groups {
        let _ = writeln!(
            out,
            "\n━━ {} · {} · {} ({} and {} warm)",
            pair.kind.name(),
            printable(&pair.model),
            printable(&pair.target),
            pair.a_count,
            pair.b_count
        );
        for finding in &pair.findings {
            out.push_str(&super::table::wrapped(&printable(finding)));
        }
        if pair.rows.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "{:<28}{:>10} {:>10} {:>10} {:>23}",
            "ms", "A", "B", "B − A", "interval"
        );
        for row in &pair.rows {
            if row.what == "stage" && row.percentile == 95 && !row.real {
                continue;
            }
            let d = &row.difference;
            let label = match row.what {
                "metric" => format!("{} P{}", metric_words(&row.name), row.percentile),
                _ => format!("· {} P{}", row.name.replace('_', " "), row.percentile),
            };
            let label = printable(&label).into_owned();
            let fill = 26_usize.saturating_sub(label.width()).max(1);
            let _ = writeln!(
                out,
                "  {label}{}{:>10.2} {:>10.2} {:>+10.2} {:>23}{}",
                " ".repeat(fill),
                d.a_ms,
                d.b_ms,
                d.difference_ms,
                format!("{:+.2} to {:+.2}", d.low_ms, d.high_ms),
                match (row.real, d.difference_ms > 0.0) {
                    (false, _) => "  noise",
                    (true, true) => "  slower",
                    (true, false) => "  faster",
                }
            );
        }
    }
    if !comparison.alone.is_empty() {
        out.push('\n');
        for line in &comparison.alone {
            let _ = writeln!(out, "{}", printable(line));
        }
    }
    out
}
