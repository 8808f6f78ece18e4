//! The charts of the page.

use super::svg::{Axis, Chart, Rows, Sign, ms};
use crate::report::curve::{Context, Pareto};
use crate::report::stage::{Class, class, is_staged, metric_words};
use crate::report::summary::{Example, GroupSummary, Stretch};

/// A stage below this share of the whole has no row of its own.
const SMALL: f64 = 0.01;
/// How far apart two stretches may be, in stretches, before the line between them would tell a story.
const GAP: f64 = 6.0;

fn fill(stage: &str) -> &'static str {
    match class(stage) {
        Class::Pause => "pause",
        Class::Queue => "wait",
        Class::Compute => "work",
    }
}

/// One record, stage below stage. With `usual`, what each stage takes in the median is outlined.
pub fn waterfall(
    group: &GroupSummary,
    example: &Example,
    title: &str,
    longest: f64,
    usual: bool,
) -> String {
    let counts = |name: &str| {
        group
            .stages
            .iter()
            .find(|s| s.name == name)
            .is_none_or(|s| s.counts)
    };
    let median = |name: &str| {
        let stage = group.stages.iter().find(|stage| stage.name == name)?;
        // The objective's own "usual" where the record tells of it, the median of all else.
        let known = group.causes.iter().find(|cause| cause.stage == name);
        Some(known.map_or(stage.stats.p50, |cause| cause.usual).ms())
    };
    let spans: Vec<_> = example
        .stages
        .iter()
        .filter(|span| counts(&span.name))
        .collect();
    let whole: f64 = spans.iter().map(|span| span.spent.ms()).sum();
    let large = |name: &str, spent: f64| {
        spent >= SMALL * whole.max(longest) || Some(name) == example.cause.as_deref()
    };
    let rows = spans
        .iter()
        .filter(|span| large(&span.name, span.spent.ms()))
        .count();
    let limit = group
        .objective
        .as_ref()
        .filter(|objective| is_staged(&objective.metric))
        .map(|objective| objective.limit.ms());
    let axis = Axis::linear(
        &format!("ms since the {}", begins(group)),
        0.0,
        longest.max(limit.unwrap_or_default()),
    );
    let mut chart = Rows::new(axis, rows + 1);
    let (mut at, mut small) = (0.0, 0.0);
    for span in spans {
        let spent = span.spent.ms();
        if large(&span.name, spent) {
            let slow = Some(&*span.name) == example.cause.as_deref();
            chart.row(
                &span.name.replace('_', " "),
                if slow { "slow" } else { fill(&span.name) },
                at,
                at + spent,
                median(&span.name).filter(|_| usual),
                &format!("{} ms{}", ms(spent), if slow { " ← slow" } else { "" }),
            );
        } else {
            small += spent;
        }
        at += spent;
    }
    chart.row(
        "all others together",
        "work",
        at - small,
        at,
        None,
        &format!("{} ms", ms(small)),
    );
    let classes = [
        ("work", "work"),
        ("wait", "waiting for a turn"),
        ("pause", "pause that proves the end"),
    ];
    for (class, label) in classes {
        chart.chart().legend(Sign::Box(class), label);
    }
    if usual {
        chart.chart().legend(Sign::Box("slow"), "slow stage");
        chart.chart().legend(Sign::Box("usual"), "usual time");
    }
    if let Some(limit) = limit {
        chart.chart().legend(Sign::Line("limit"), "objective");
        chart
            .chart()
            .upright("limit", limit, &format!("{} ms", ms(limit)), false);
    }
    chart.finish(title)
}

/// What the metric counts from.
fn begins(group: &GroupSummary) -> &'static str {
    match group.metric.as_str() {
        "ttft_ms" | "queue_wait_ms" => "request was accepted",
        "e2e_ms" if group.kind == crate::log::read::WorkKind::Request => "request was accepted",
        _ => "last sample of the speech",
    }
}

fn spacing(course: &[Stretch]) -> f64 {
    let least = course
        .windows(2)
        .map(|pair| pair[1].seconds - pair[0].seconds)
        .min();
    least.unwrap_or(60) as f64
}

fn times(course: &[Stretch]) -> Axis {
    let low = course.first().map_or(0, |s| s.seconds);
    let high = course.last().map_or(60, |s| s.seconds);
    Axis::time(low, high)
}

/// The metric over time.
pub fn course(group: &GroupSummary) -> String {
    let limit = group.objective.as_ref().map(|o| o.limit.ms());
    let top = group
        .course
        .iter()
        .map(|s| s.p95.ms())
        .fold(limit.unwrap_or_default(), f64::max);
    let metric = metric_words(&group.metric);
    let mut chart = Chart::new(
        times(&group.course),
        Axis::linear(&format!("{metric}, ms"), 0.0, top * 1.05),
        300.0,
    );
    let step = spacing(&group.course);
    let mut hot: Option<(f64, f64)> = None;
    let says = "the device had slowed itself down";
    for stretch in group.course.iter().filter(|s| s.throttled * 2 > s.count) {
        let (from, to) = (
            stretch.seconds as f64 - step / 2.0,
            stretch.seconds as f64 + step / 2.0,
        );
        // Neighbours are one area: seams would look like a pattern.
        hot = match hot {
            Some((begin, end)) if from - end <= step * GAP => Some((begin, to)),
            Some((begin, end)) => {
                chart.shade("hot", begin, end, says);
                Some((from, to))
            }
            None => Some((from, to)),
        };
    }
    if let Some((begin, end)) = hot {
        chart.shade("hot", begin, end, says);
    }
    let line = |of: fn(&Stretch) -> f64| -> Vec<(f64, f64)> {
        group
            .course
            .iter()
            .map(|s| (s.seconds as f64, of(s)))
            .collect()
    };
    chart.line("p50", &line(|s| s.p50.ms()), step * GAP);
    chart.line("p95", &line(|s| s.p95.ms()), step * GAP);
    for s in &group.course {
        let above = limit.is_some_and(|limit| s.p95.ms() > limit);
        chart.dot(
            if above { "miss" } else { "hit" },
            s.seconds as f64,
            s.p95.ms(),
            if above { 3.2 } else { 1.8 },
            &format!(
                "{}: {} records, P50 {} ms, P95 {} ms, {} misses",
                s.at,
                s.count,
                ms(s.p50.ms()),
                ms(s.p95.ms()),
                s.misses
            ),
        );
    }
    chart.legend(Sign::Line("p95"), "P95");
    chart.legend(Sign::Line("p50"), "P50");
    if let Some(limit) = limit {
        chart.level("limit", limit, &format!("objective {} ms", ms(limit)));
        chart.legend(Sign::Line("limit"), "objective");
        chart.legend(Sign::Dot("miss"), "P95 above it");
    }
    if group.course.iter().any(|s| s.throttled * 2 > s.count) {
        chart.legend(Sign::Box("hot"), "device slowed itself down");
    }
    chart.finish(&format!("{metric} over time"))
}

/// Temperature and clock over the same time; empty where nobody measured.
pub fn device(group: &GroupSummary) -> String {
    let mut out = String::new();
    let step = spacing(&group.course);
    let heat: Vec<(f64, f64)> = group
        .course
        .iter()
        .filter_map(|s| Some((s.seconds as f64, s.temperature_c?)))
        .collect();
    if let (Some(low), Some(high)) = (
        heat.iter().map(|p| p.1).reduce(f64::min),
        heat.iter().map(|p| p.1).reduce(f64::max),
    ) {
        let axis = Axis::linear("hottest, °C", low - 5.0, high + 5.0);
        let mut chart = Chart::new(times(&group.course), axis, 190.0);
        chart.line("heat", &heat, step * GAP);
        chart.legend(Sign::Line("heat"), "hottest zone");
        out.push_str(&chart.finish("Temperature over time"));
    }
    let clock: Vec<(f64, f64)> = group
        .course
        .iter()
        .filter_map(|s| Some((s.seconds as f64, s.clock? * 100.0)))
        .collect();
    if !clock.is_empty() {
        let mut chart = Chart::new(
            times(&group.course),
            Axis::linear("clock, % of highest", 0.0, 100.0),
            190.0,
        );
        chart.line("clock", &clock, step * GAP);
        chart.legend(Sign::Line("clock"), "processor clock, median");
        out.push_str(&chart.finish("Processor clock over time"));
    }
    out
}

/// The distribution, warm and cold.
pub fn distribution(group: &GroupSummary) -> String {
    let metric = metric_words(&group.metric);
    let sides = [&group.warm.distribution, &group.cold.distribution];
    let values = || {
        sides
            .iter()
            .flat_map(|side| side.iter().map(|point| point.0))
    };
    let limit = group.objective.as_ref().map(|o| o.limit.ms());
    let low = values().fold(limit.unwrap_or(f64::MAX), f64::min);
    let high = values().fold(limit.unwrap_or_default(), f64::max);
    let title = format!("{metric}, ms");
    let axis = if low > 0.0 && high / low > 8.0 {
        Axis::log(&title, low, high)
    } else {
        Axis::linear(&title, low, high)
    };
    let mut chart = Chart::new(axis, Axis::linear("share of records, %", 0.0, 100.0), 300.0);
    // A record raises the curve where it is: steps, so that few points are not taken for a slope.
    let steps = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let mut out = Vec::with_capacity(points.len() * 2);
        let mut share = 0.0;
        for &(x, y) in points {
            out.push((x, share));
            share = y * 100.0;
            out.push((x, share));
        }
        out
    };
    chart.level("guide", 95.0, "");
    chart.line("p95", &steps(&group.warm.distribution), f64::MAX);
    chart.legend(Sign::Line("p95"), &format!("warm ({})", group.warm.count));
    if group.cold.count > 0 {
        chart.line("cold", &steps(&group.cold.distribution), f64::MAX);
        chart.legend(Sign::Line("cold"), &format!("cold ({})", group.cold.count));
    }
    chart.legend(Sign::Line("guide"), "95 %");
    if let Some(limit) = limit {
        chart.upright("limit", limit, &format!("objective {} ms", ms(limit)), true);
        chart.legend(Sign::Line("limit"), "objective");
    }
    chart.finish(&format!("Distribution of {metric}"))
}

/// Time of the prompt over its length.
pub fn context(context: &Context) -> String {
    let last = context.points.last().map_or(1.0, |p| f64::from(p.tokens));
    let top = context
        .points
        .iter()
        .map(|p| p.p95.ms())
        .fold(0.0, f64::max);
    let mut chart = Chart::new(
        Axis::linear("prompt without what was in the cache, tokens", 0.0, last),
        Axis::linear("prefill and first token, ms", 0.0, top),
        300.0,
    );
    let points = |of: fn(&crate::report::curve::Point) -> f64| -> Vec<(f64, f64)> {
        context
            .points
            .iter()
            .map(|p| (f64::from(p.tokens), of(p)))
            .collect()
    };
    chart.line("p50", &points(|p| p.p50.ms()), f64::MAX);
    chart.line("p95", &points(|p| p.p95.ms()), f64::MAX);
    for p in &context.points {
        chart.dot(
            "hit",
            f64::from(p.tokens),
            p.p50.ms(),
            3.0,
            &format!(
                "{} tokens, {} requests: P50 {} ms, P95 {} ms",
                p.tokens,
                p.count,
                ms(p.p50.ms()),
                ms(p.p95.ms())
            ),
        );
    }
    chart.legend(Sign::Line("p95"), "P95");
    chart.legend(Sign::Line("p50"), "P50");
    if let Some(knee) = context.knee_tokens {
        chart.upright(
            "guide",
            knee as f64,
            &format!("knee, about {knee} tokens"),
            false,
        );
        chart.legend(Sign::Line("guide"), "knee: from here on it is steeper");
    }
    chart.finish("Time of the prompt over its length")
}

/// TTFT against tokens per second by batch size.
pub fn pareto(points: &[Pareto], limit: Option<f64>) -> String {
    let right = points.iter().map(|p| p.tps).fold(0.0, f64::max);
    let top = points
        .iter()
        .map(|p| p.p95_ttft.ms())
        .fold(limit.unwrap_or_default(), f64::max);
    let mut chart = Chart::new(
        Axis::linear("tokens per second, all members together", 0.0, right * 1.1),
        Axis::linear("TTFT, ms", 0.0, top * 1.05),
        300.0,
    );
    let mut best: Vec<(f64, f64)> = points
        .iter()
        .filter(|p| p.best)
        .map(|p| (p.tps, p.p95_ttft.ms()))
        .collect();
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    chart.line("p95", &best, f64::MAX);
    for p in points {
        let says = format!(
            "batch {}: {} requests, {:.1} tokens/s, P95 TTFT {} ms, mean {} ms",
            p.batch,
            p.count,
            p.tps,
            ms(p.p95_ttft.ms()),
            ms(p.mean_ttft_ms)
        );
        chart.dot("hit", p.tps, p.p95_ttft.ms(), 5.0, &says);
        chart.dot("mean", p.tps, p.mean_ttft_ms, 4.0, &says);
        let (x, y) = (chart.x(p.tps), chart.y(p.p95_ttft.ms()));
        chart.text("note", x, y - 10.0, "middle", &format!("batch {}", p.batch));
    }
    chart.legend(Sign::Dot("hit"), "P95");
    chart.legend(Sign::Dot("mean"), "mean");
    chart.legend(Sign::Line("p95"), "no other size is better in both");
    if let Some(limit) = limit {
        chart.level("limit", limit, &format!("objective {} ms", ms(limit)));
        chart.legend(Sign::Line("limit"), "objective");
    }
    chart.finish("TTFT against tokens per second by batch size")
}
