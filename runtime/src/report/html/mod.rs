//! The report as one page that needs nothing else: no network, no script. Charts are SVG, told apart by pattern and dash as
//! well as by colour, so that a print in grey and a reader who sees no red still get them.

mod charts;
mod svg;

use std::fmt::Write;

use self::svg::{escape, ms};
use super::stage::{Class, is_staged, metric_words, staged_words};
use super::stats::Stats;
use super::summary::{Example, GroupSummary, Stretch, Summary};

const STYLE: &str = include_str!("style.css");

/// Patterns that every chart fills with.
const PAINT: &str = r#"<svg class="paint" aria-hidden="true"><defs><pattern id="f-work" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="c-work" width="8" height="8"/></pattern><pattern id="f-wait" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="c-wait" width="8" height="8"/><path d="M-2 2L2 -2M0 8L8 0M6 10L10 6"/></pattern><pattern id="f-pause" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="c-pause" width="6" height="6"/><circle class="c-ground" cx="3" cy="3" r="1.4"/></pattern><pattern id="f-slow" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="c-slow" width="8" height="8"/><path d="M0 0L8 8M8 0L0 8"/></pattern></defs></svg>"#;

/// Hours of the table at most; all are in the JSON.
const HOURS: usize = 72;

/// Writes the page.
#[must_use]
pub fn page(summary: &Summary) -> String {
    let mut out = String::with_capacity(256 << 10);
    let _ = write!(
        out,
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><title>Latency report: {}</title><style>{STYLE}</style></head><body>{PAINT}<h1>Latency report</h1>"#,
        escape(&summary.places.join(", "))
    );
    head(&mut out, summary);
    for (number, group) in summary.groups.iter().enumerate() {
        section(&mut out, number, group);
    }
    rest(&mut out, summary);
    out.push_str("</body></html>\n");
    out
}

fn head(out: &mut String, summary: &Summary) {
    let times = match (&summary.first, &summary.last) {
        (Some(first), Some(last)) => format!("{} to {} UTC", minute(first), minute(last)),
        _ => "times unknown".to_owned(),
    };
    let _ = write!(
        out,
        r#"<p class="soft">{} · {} in {} · {times}"#,
        escape(&summary.places.join(", ")),
        counted(summary.records, "record"),
        counted(summary.segments as usize, "file")
    );
    for device in &summary.devices {
        let _ = write!(out, "<br>{}", escape(device));
    }
    if !summary.versions.is_empty() {
        let _ = write!(out, " · firstword {}", escape(&summary.versions.join(", ")));
    }
    out.push_str("</p>");
    for (number, group) in summary.groups.iter().enumerate() {
        let (class, mark) = match group.objective.as_ref().and_then(|o| o.holds) {
            Some(true) => ("good", "✓ "),
            Some(false) => ("bad", "✗ "),
            None => ("", ""),
        };
        let _ = write!(
            out,
            r##"<div class="card {class}"><b><a href="#g{number}">{}</a></b>"##,
            escape(&name(group))
        );
        for (at, finding) in group.findings.iter().enumerate() {
            // "BROKEN: …", "Slow was encode: …": what stands before the colon is what to see first.
            let (verdict, text) = match finding.split_once(": ") {
                Some((verdict, text)) if at == 0 => (
                    format!(
                        r#"<span class="verdict">{mark}{}</span>: "#,
                        escape(verdict)
                    ),
                    text,
                ),
                Some((head, text)) => (format!("<strong>{}</strong>: ", escape(head)), text),
                None => (String::new(), finding.as_str()),
            };
            let _ = write!(out, "<p>{verdict}{}</p>", escape(text));
        }
        out.push_str("</div>");
    }
    if summary.groups.is_empty() {
        out.push_str("<p>No utterance, request or turn in it.</p>");
    }
    if !summary.remarks.is_empty() {
        out.push_str("<h3>To know beforehand</h3><ul>");
        for remark in &summary.remarks {
            let _ = write!(out, "<li>{}</li>", escape(remark));
        }
        out.push_str("</ul>");
    }
}

/// `Turns: tiny-speech → small-talker (fast) on cpu, objective interactive`.
fn name(group: &GroupSummary) -> String {
    let kind = match group.kind {
        crate::log::read::WorkKind::Turn => "Turns",
        crate::log::read::WorkKind::Request => "Requests",
        crate::log::read::WorkKind::Utterance => "Utterances",
    };
    let objective = group
        .objective
        .as_ref()
        .map(|o| format!(", objective {}", o.name));
    format!(
        "{kind}: {} on {}{}",
        group.model,
        group.target,
        objective.unwrap_or_default()
    )
}

fn figure(out: &mut String, title: &str, caption: &str, chart: &str) {
    let _ = write!(
        out,
        "<h3>{}</h3><figure>{chart}<figcaption>{}</figcaption></figure>",
        escape(title),
        escape(caption)
    );
}

fn section(out: &mut String, number: usize, group: &GroupSummary) {
    let metric = metric_words(&group.metric);
    let _ = write!(out, r#"<h2 id="g{number}">{}</h2>"#, escape(&name(group)));
    let sum = |example: &Example| {
        let counts = |name: &str| {
            group
                .stages
                .iter()
                .find(|s| s.name == name)
                .is_none_or(|s| s.counts)
        };
        let spans = example.stages.iter().filter(|span| counts(&span.name));
        spans.map(|span| span.spent.ms()).sum::<f64>()
    };
    // Warm ones first: what a cold one lost is known.
    let worst = group.worst.iter().find(|e| !e.cold).or(group.worst.first());
    let longest = [group.typical.as_ref(), worst]
        .into_iter()
        .flatten()
        .map(sum)
        .fold(0.0, f64::max);
    if let Some(worst) = worst {
        let when = worst.at.as_deref().map(|at| format!(", {}", second(at)));
        let title = format!(
            "The worst: {} ms{}{}",
            ms(worst.value.ms()),
            when.unwrap_or_default(),
            if worst.cold { ", cold" } else { "" }
        );
        let caption = if is_staged(&group.metric) {
            "Stage after stage, to one scale with the typical one below. The dashed outline is what each stage usually takes."
        } else {
            "The stages of its final latency (the first partial has none of its own), to one scale with the typical one below. The dashed outline is what each stage usually takes."
        };
        figure(
            out,
            &title,
            caption,
            &charts::waterfall(group, worst, &title, longest, true),
        );
    }
    if let Some(typical) = &group.typical {
        let title = format!("A typical one: {} ms, the median", ms(typical.value.ms()));
        let caption = "A record from the log whose value is the median.";
        figure(
            out,
            &title,
            caption,
            &charts::waterfall(group, typical, &title, longest, false),
        );
    }
    stages(out, group);
    causes(out, group);
    if !group.course.is_empty() {
        figure(
            out,
            &format!("{} over time", capital(metric)),
            "P50 and P95 of the warm records in stretches of equal length. Point at a dot for its figures.",
            &charts::course(group),
        );
        let device = charts::device(group);
        if !device.is_empty() {
            figure(
                out,
                "The device meanwhile",
                "Sampled at a low rate, so steps are late by some seconds.",
                &device,
            );
        }
    }
    if !group.warm.distribution.is_empty() {
        figure(
            out,
            &format!("Distribution of {metric}"),
            "So many per cent of the records took no longer. What is right of the objective missed it.",
            &charts::distribution(group),
        );
    }
    if let Some(context) = &group.context {
        figure(
            out,
            "Length of the prompt",
            "Prompts of about one length together, their medians joined.",
            &charts::context(context),
        );
    }
    if !group.batches.is_empty() {
        let limit = group
            .objective
            .as_ref()
            .filter(|o| o.metric == "ttft_ms")
            .map(|o| o.limit.ms());
        figure(
            out,
            "Batch size",
            "Each point is a batch size: further right gives more, further down answers sooner.",
            &charts::pareto(&group.batches, limit),
        );
    }
    figures(out, group);
    worst_table(out, group);
    hours(out, group);
}

const COLUMNS: &str =
    "<th>count</th><th>P50 ms</th><th>P95 ms</th><th>P99 ms</th><th>max ms</th><th>σ/μ</th>";

fn cells(stats: &Stats) -> String {
    format!(
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
        stats.count,
        ms(stats.p50.ms()),
        ms(stats.p95.ms()),
        ms(stats.p99.ms()),
        ms(stats.max.ms()),
        stats
            .dispersion
            .map_or("–".to_owned(), |d| format!("{d:.2}"))
    )
}

fn stages(out: &mut String, group: &GroupSummary) {
    let slow = group.causes.first().map(|cause| cause.stage.as_str());
    let _ = write!(
        out,
        r#"<h3>Stages of the warm records</h3><div class="sheet"><table><tr><th>stage</th><th class="left">spent on</th>{COLUMNS}<th>share of {}</th></tr>"#,
        escape(staged_words(&group.metric))
    );
    for stage in &group.stages {
        let what = match stage.class {
            Class::Pause => "pause",
            Class::Queue => "waiting",
            Class::Compute => "work",
        };
        let _ = write!(
            out,
            r#"<tr><td{}>{}{}</td><td class="left">{what}</td>{}<td>{}</td></tr>"#,
            if slow == Some(&stage.name) {
                r#" class="mark""#
            } else {
                ""
            },
            escape(&stage.name.replace('_', " ")),
            if slow == Some(&stage.name) {
                " ← slow in most misses"
            } else {
                ""
            },
            cells(&stage.stats),
            stage.share.map_or("after it".to_owned(), |share| format!(
                "{:.1} %",
                share * 100.0
            ))
        );
    }
    out.push_str("</table></div>");
}

fn causes(out: &mut String, group: &GroupSummary) {
    if group.causes.is_empty() {
        return;
    }
    out.push_str(r#"<h3>Causes of the misses</h3><div class="sheet"><table><tr><th>stage</th><th>misses</th><th>spent ms</th><th>usual ms</th><th class="left">because</th></tr>"#);
    for cause in &group.causes {
        let because = cause.because.as_deref();
        let _ = write!(
            out,
            r#"<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class="left">{}</td></tr>"#,
            escape(&cause.stage.replace('_', " ")),
            cause.misses,
            ms(cause.spent.ms()),
            ms(cause.usual.ms()),
            because.map_or("–".to_owned(), |b| {
                format!("{}: {}", escape(b), escape(super::stage::because_words(b)))
            })
        );
    }
    out.push_str("</table></div>");
}

fn figures(out: &mut String, group: &GroupSummary) {
    let _ = write!(
        out,
        r#"<h3>All figures</h3><div class="sheet"><table><tr><th>warm</th>{COLUMNS}</tr>"#
    );
    let row = |out: &mut String, name: &str, stats: &Stats| {
        let _ = write!(out, "<tr><td>{}</td>{}</tr>", escape(name), cells(stats));
    };
    for metric in &group.warm.metrics {
        row(out, metric_words(&metric.name), &metric.stats);
    }
    for (name, stats) in [
        ("waiting", &group.warm.queue),
        ("computing", &group.warm.compute),
    ] {
        if let Some(stats) = stats {
            row(out, name, stats);
        }
    }
    if group.cold.count > 0 {
        let _ = write!(out, "<tr><th>cold</th>{COLUMNS}</tr>");
        for metric in &group.cold.metrics {
            row(out, metric_words(&metric.name), &metric.stats);
        }
    }
    if let Some(median) = group.median_p95 {
        let _ = write!(
            out,
            "<tr><th>by process: median of P95 {} ms</th>{COLUMNS}</tr>",
            ms(median.ms())
        );
        for run in &group.runs {
            row(out, &run.name, &run.stats);
        }
    }
    for (at, band) in group.bands.iter().enumerate() {
        if at == 0 {
            let _ = write!(out, "<tr><th>by temperature</th>{COLUMNS}</tr>");
        }
        row(
            out,
            &format!("{} to {} °C", band.from_c, band.to_c),
            &band.stats,
        );
    }
    out.push_str("</table></div>");
}

fn worst_table(out: &mut String, group: &GroupSummary) {
    if group.worst.is_empty() {
        return;
    }
    let _ = write!(
        out,
        r#"<h3>The worst</h3><div class="sheet"><table><tr><th>when (UTC)</th><th>{} ms</th><th class="left">slow was</th><th>spent ms</th><th>usual ms</th><th class="left">because</th><th class="left">whose</th></tr>"#,
        escape(metric_words(&group.metric))
    );
    for example in &group.worst {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let _ = write!(
            out,
            r#"<tr><td>{}</td><td>{}</td><td class="left">{}</td><td>{}</td><td>{}</td><td class="left">{}</td><td class="left">{}{}</td></tr>"#,
            or_dash(example.at.as_deref().map(second)),
            ms(example.value.ms()),
            or_dash(
                example
                    .cause
                    .as_deref()
                    .map(|c| escape(&c.replace('_', " ")))
            ),
            or_dash(example.spent.map(|v| ms(v.ms()))),
            or_dash(example.usual.map(|v| ms(v.ms()))),
            or_dash(example.because.as_deref().map(escape)),
            escape(&example.who),
            if example.cold { " (cold)" } else { "" }
        );
    }
    out.push_str("</table></div>");
}

fn hours(out: &mut String, group: &GroupSummary) {
    if group.hours.is_empty() {
        return;
    }
    out.push_str(r#"<h3>Hour by hour</h3><div class="sheet"><table><tr><th>hour (UTC)</th><th>count</th><th>P50 ms</th><th>P95 ms</th><th>P99 ms</th><th>misses</th><th>hottest °C</th><th>clock</th></tr>"#);
    let hidden = group.hours.len().saturating_sub(HOURS);
    let mut row = |hour: &Stretch| {
        let broken = group.objective.as_ref().is_some_and(|o| hour.p95 > o.limit);
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td{}>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            minute(&hour.at),
            hour.count,
            ms(hour.p50.ms()),
            if broken { r#" class="mark""# } else { "" },
            ms(hour.p95.ms()),
            ms(hour.p99.ms()),
            hour.misses,
            hour.temperature_c
                .map_or("–".to_owned(), |c| format!("{c:.0}")),
            hour.clock
                .map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0))
        );
    };
    for hour in group.hours.iter().skip(hidden) {
        row(hour);
    }
    out.push_str("</table></div>");
    if hidden > 0 {
        let _ = write!(
            out,
            r#"<p class="soft">{hidden} hours before are in the JSON.</p>"#
        );
    }
}

fn rest(out: &mut String, summary: &Summary) {
    if !summary.loads.is_empty() {
        let _ = write!(
            out,
            r#"<h2>Loads of models</h2><div class="sheet"><table><tr><th>what</th>{COLUMNS}</tr>"#
        );
        for load in &summary.loads {
            if let Some(total) = &load.total {
                let _ = write!(
                    out,
                    "<tr><td>{}</td>{}</tr>",
                    escape(&format!("{} {} on {}", load.role, load.model, load.target)),
                    cells(total)
                );
            }
            for stage in &load.stages {
                let _ = write!(
                    out,
                    "<tr><td>· {}</td>{}</tr>",
                    escape(&stage.name.replace('_', " ")),
                    cells(&stage.stats)
                );
            }
        }
        out.push_str("</table></div>");
    }
    let list = |out: &mut String, title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(out, "<h2>{title}</h2><ul>");
            for line in lines {
                let _ = write!(out, "<li>{}</li>", escape(&line));
            }
            out.push_str("</ul>");
        }
    };
    let when = |at: &Option<String>| at.as_deref().map_or("time unknown".to_owned(), second);
    let mut moves: Vec<String> = summary
        .moves
        .iter()
        .map(|e| format!("{}: {}", when(&e.at), e.what))
        .collect();
    if summary.move_count > moves.len() as u64 {
        moves.push(format!(
            "and {} more",
            summary.move_count - moves.len() as u64
        ));
    }
    list(out, "Moves of the ladder", moves);
    list(
        out,
        "Clock and sleep",
        summary
            .marks
            .iter()
            .map(|e| format!("{}: {}", when(&e.at), e.what))
            .collect(),
    );
    let mut losses: Vec<String> = summary
        .lost
        .iter()
        .map(|l| {
            format!(
                "The log lost {} {} ({}).",
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
            .map(|d| format!("Dropped: {} {} ({}).", d.count, d.what, d.why)),
    );
    list(out, "Losses", losses);
    list(out, "Benches", summary.benches.clone());
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// The same with a capital, for a heading.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
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
