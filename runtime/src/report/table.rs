//! The report on a terminal.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::stage::{Class, metric_words, staged_words};
use super::stats::Stats;
use super::summary::{Example, GroupSummary, Stretch, Summary};
use crate::exit::printable;

/// Cells of a line.
const WIDTH: usize = 98;
/// Cells of the bars.
const BAR: usize = 14;
/// Hours shown at most; all are in the JSON.
const HOURS: usize = 48;
/// Events shown at most.
const EVENTS: usize = 12;

/// Writes a report.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    let times = match (&summary.first, &summary.last) {
        (Some(first), Some(last)) => format!("{} to {} UTC", minute(first), minute(last)),
        _ => "times unknown".to_owned(),
    };
    let _ = writeln!(
        out,
        "{} in {} of {}, {times}",
        counted(summary.records, "record"),
        counted(summary.segments as usize, "file"),
        counted(summary.processes, "process").replace("processs", "processes"),
    );
    for device in &summary.devices {
        let _ = writeln!(out, "{}", printable(device));
    }
    for remark in &summary.remarks {
        out.push_str(&wrapped(&format!("note: {}", printable(remark))));
    }
    for group in &summary.groups {
        group_text(&mut out, group);
    }
    if summary.groups.is_empty() {
        out.push_str("\nNo utterance, request or turn in it.\n");
    }
    loads(&mut out, summary);
    events(&mut out, summary);
    out
}

fn group_text(out: &mut String, group: &GroupSummary) {
    let _ = writeln!(
        out,
        "\n━━ {} · {} · {}",
        group.kind.name(),
        printable(&group.model),
        printable(&group.target)
    );
    if let Some(objective) = &group.objective {
        let _ = writeln!(
            out,
            "objective {}: P{} of {} at most {} ms",
            printable(&objective.name),
            objective.percentile,
            metric_words(&objective.metric),
            objective.limit.ms()
        );
    }
    for finding in &group.findings {
        out.push_str(&wrapped(&printable(finding)));
    }
    header(out, "\nwarm, ms", "");
    for metric in &group.warm.metrics {
        row(out, metric_words(&metric.name), &metric.stats, "");
    }
    for (name, stats) in [
        ("waiting", &group.warm.queue),
        ("computing", &group.warm.compute),
    ] {
        if let Some(stats) = stats {
            row(out, name, stats, "");
        }
    }
    if group.unsaid > 0 {
        let _ = writeln!(
            out,
            "  ({} of schema 1 don't say whether they were cold; they are counted here)",
            group.unsaid
        );
    }
    if group.cold.count > 0 {
        header(out, "cold, ms", "");
        for metric in &group.cold.metrics {
            row(out, metric_words(&metric.name), &metric.stats, "");
        }
    }
    let share = format!("  share of {}", staged_words(&group.metric));
    header(out, "stage (warm), ms", &share);
    for stage in &group.stages {
        let after = match stage.share {
            Some(share) => {
                format!(
                    "{:>5.1} % {}",
                    share * 100.0,
                    bar(share, class_mark(stage.class))
                )
            }
            None => "after it".to_owned(),
        };
        row(out, &stage.name.replace('_', " "), &stage.stats, &after);
    }
    let _ = writeln!(
        out,
        "  █ work  ▒ waiting for a turn  ░ pause that proves the end of the utterance"
    );
    causes(out, group);
    if !group.worst.is_empty() {
        let _ = writeln!(
            out,
            "{:<22}{:>9}  {:<30}whose",
            "worst (UTC)",
            metric_words(&group.metric),
            "slow was"
        );
        for example in &group.worst {
            worst(out, example);
        }
    }
    runs(out, group);
    hours(out, group);
    if group.bands.len() > 1 {
        header(out, "by temperature, ms", "   clock");
        for band in &group.bands {
            let clock = band
                .clock
                .map_or(String::new(), |share| format!("{:>6.0} %", share * 100.0));
            row(
                out,
                &format!("{} to {} °C", band.from_c, band.to_c),
                &band.stats,
                &clock,
            );
        }
    }
    curves(out, group);
}

fn causes(out: &mut String, group: &GroupSummary) {
    if group.causes.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{:<22}{:>7} {:>9} {:>9}  because",
        "cause of misses", "misses", "spent", "usual"
    );
    for cause in group.causes.iter().take(8) {
        let _ = writeln!(
            out,
            "  {:<20}{:>7} {:>9.1} {:>9.1}  {}",
            printable(&cause.stage.replace('_', " ")),
            cause.misses,
            cause.spent.ms(),
            cause.usual.ms(),
            printable(cause.because.as_deref().unwrap_or("-"))
        );
    }
}

fn worst(out: &mut String, example: &Example) {
    let mut slow = String::new();
    if let (Some(cause), Some(spent), Some(usual)) = (&example.cause, example.spent, example.usual)
    {
        slow = format!(
            "{} {:.0} (usual {:.0})",
            cause.replace('_', " "),
            spent.ms(),
            usual.ms()
        );
        if let Some(because) = &example.because {
            slow.push_str(&format!(", {because}"));
        }
    }
    let _ = writeln!(
        out,
        "  {:<20}{:>9.1}  {}{}{}",
        example
            .at
            .as_deref()
            .map_or("time unknown".to_owned(), second),
        example.value.ms(),
        pad(&printable(&slow), 30),
        printable(&example.who),
        if example.cold { " (cold)" } else { "" }
    );
}

fn runs(out: &mut String, group: &GroupSummary) {
    let Some(median) = group.median_p95 else {
        return;
    };
    header(out, "by process, ms", "");
    for run in &group.runs {
        row(
            out,
            run.name.rsplit(", ").next().unwrap_or(&run.name),
            &run.stats,
            "",
        );
    }
    let _ = writeln!(
        out,
        "  the figure is the median of the P95 values of {}: {:.1} ms",
        counted(group.runs.len(), "process").replace("processs", "processes"),
        median.ms()
    );
}

fn hours(out: &mut String, group: &GroupSummary) {
    if group.hours.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{:<22}{:>7} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7}",
        "by hour (UTC)", "count", "P50", "P95", "P99", "misses", "°C max", "clock"
    );
    let hidden = group.hours.len().saturating_sub(HOURS);
    if hidden > 0 {
        let _ = writeln!(out, "  … {hidden} hours before are in --json");
    }
    let shown: Vec<&Stretch> = group.hours.iter().skip(hidden).collect();
    for hour in shown {
        let _ = writeln!(
            out,
            "  {:<20}{:>7} {:>9.1} {:>9.1} {:>9.1} {:>7} {:>7} {:>7}",
            minute(&hour.at),
            hour.count,
            hour.p50.ms(),
            hour.p95.ms(),
            hour.p99.ms(),
            hour.misses,
            hour.temperature_c
                .map_or("-".to_owned(), |c| format!("{c:.0}")),
            hour.clock
                .map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        );
    }
}

fn curves(out: &mut String, group: &GroupSummary) {
    if let Some(context) = &group.context {
        let _ = writeln!(
            out,
            "{:<22}{:>7} {:>9} {:>9}  prefill and first token, ms",
            "prompt, tokens", "count", "P50", "P95"
        );
        for point in &context.points {
            let _ = writeln!(
                out,
                "  {:<20}{:>7} {:>9.1} {:>9.1}",
                point.tokens,
                point.count,
                point.p50.ms(),
                point.p95.ms()
            );
        }
    }
    if !group.batches.is_empty() {
        let _ = writeln!(
            out,
            "{:<22}{:>7} {:>9} {:>9} {:>9}",
            "batch", "count", "TPS", "mean TTFT", "P95 TTFT"
        );
        for point in &group.batches {
            let _ = writeln!(
                out,
                "  {:<20}{:>7} {:>9.1} {:>9.1} {:>9.1}{}",
                point.batch,
                point.count,
                point.tps,
                point.mean_ttft_ms,
                point.p95_ttft.ms(),
                if point.best {
                    ""
                } else {
                    "  (another size is better in both)"
                }
            );
        }
    }
}

fn loads(out: &mut String, summary: &Summary) {
    if summary.loads.is_empty() {
        return;
    }
    header(out, "\n━━ loads of models, ms", "");
    for load in &summary.loads {
        if let Some(total) = &load.total {
            row(out, &format!("{} {}", load.role, load.model), total, "");
        }
        for stage in &load.stages {
            row(out, &format!("  {}", stage.name), &stage.stats, "");
        }
    }
}

fn events(out: &mut String, summary: &Summary) {
    let list = |out: &mut String, title: &str, lines: Vec<String>, all: u64| {
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n━━ {title}");
        for line in lines.iter().take(EVENTS) {
            let _ = writeln!(out, "  {}", printable(line));
        }
        let more = all.saturating_sub(lines.len().min(EVENTS) as u64);
        if more > 0 {
            let _ = writeln!(out, "  … and {more} more");
        }
    };
    let when = |at: &Option<String>| at.as_deref().map_or("time unknown".to_owned(), second);
    let moves = summary
        .moves
        .iter()
        .map(|e| format!("{}  {}", when(&e.at), e.what))
        .collect();
    list(out, "moves of the ladder", moves, summary.move_count);
    let marks: Vec<String> = summary
        .marks
        .iter()
        .map(|e| format!("{}  {}", when(&e.at), e.what))
        .collect();
    let count = marks.len() as u64;
    list(out, "clock and sleep", marks, count);
    let mut losses: Vec<String> = summary
        .lost
        .iter()
        .map(|l| {
            format!(
                "the log lost {} {} ({})",
                l.count,
                l.what,
                l.why.replace('_', " ")
            )
        })
        .collect();
    losses.extend(
        summary
            .drops
            .iter()
            .map(|d| format!("dropped: {} {} ({})", d.count, d.what, d.why)),
    );
    let count = losses.len() as u64;
    list(out, "losses", losses, count);
    let count = summary.benches.len() as u64;
    list(out, "benches", summary.benches.clone(), count);
}

fn header(out: &mut String, title: &str, after: &str) {
    let (breaks, title) = match title.strip_prefix('\n') {
        Some(title) => ("\n", title),
        None => ("", title),
    };
    let _ = writeln!(
        out,
        "{breaks}{}{:>7} {:>9} {:>9} {:>9} {:>9} {:>6}{after}",
        pad(title, 22),
        "count",
        "P50",
        "P95",
        "P99",
        "max",
        "σ/μ"
    );
}

fn row(out: &mut String, name: &str, stats: &Stats, after: &str) {
    let dispersion = stats
        .dispersion
        .map_or("-".to_owned(), |d| format!("{d:.2}"));
    let _ = writeln!(
        out,
        "  {}{:>7} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>6}{}{after}",
        pad(&printable(name), 20),
        stats.count,
        stats.p50.ms(),
        stats.p95.ms(),
        stats.p99.ms(),
        stats.max.ms(),
        dispersion,
        if after.is_empty() { "" } else { "  " },
    );
}

/// A paragraph in lines of a terminal's width.
pub(super) fn wrapped(text: &str) -> String {
    let (mut out, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.width() + 1 + word.width() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = "  ".to_owned();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    format!("{out}{line}\n")
}

/// `text` and spaces up to so many cells; at least one.
fn pad(text: &str, cells: usize) -> String {
    let fill = cells.saturating_sub(text.width()).max(1);
    format!("{text}{}", " ".repeat(fill))
}

fn class_mark(class: Class) -> char {
    match class {
        Class::Pause => '░',
        Class::Queue => '▒',
        Class::Compute => '█',
    }
}

fn bar(share: f64, mark: char) -> String {
    let cells = (share * BAR as f64).round() as usize;
    std::iter::repeat_n(mark, cells.min(BAR)).collect()
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// `2026-11-24 08:30` of an RFC 3339 time.
fn minute(at: &str) -> String {
    at.chars()
        .take(16)
        .map(|c| if c == 'T' { ' ' } else { c })
        .collect()
}

/// `2026-11-24 08:30:05` of an RFC 3339 time.
fn second(at: &str) -> String {
    at.chars()
        .take(19)
        .map(|c| if c == 'T' { ' ' } else { c })
        .collect()
}
