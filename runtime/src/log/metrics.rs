//! The log's figures as Prometheus reads them: text exposition format 0.0.4, histograms with the thresholds of the
//! objectives among their bounds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::objective::Judged;
use super::read::WorkKind;

/// What has a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Time to first token.
    Ttft,
    /// Time per output token.
    Tpot,
    /// Last sample captured → first token.
    VoiceTtft,
    /// First sample captured → first partial.
    FirstPartial,
    /// Latency of partials.
    Partial,
    /// Last sample captured → final text.
    Final,
    /// Accepted → first work.
    QueueWait,
}

const FIGURES: [(Figure, &str, &str); 7] = [
    (
        Figure::Ttft,
        "ttft",
        "Time to first token: request accepted to first token handed over.",
    ),
    (
        Figure::Tpot,
        "tpot",
        "Time per output token after the first.",
    ),
    (
        Figure::VoiceTtft,
        "voice_ttft",
        "Last speech sample captured to first token of the reply handed over.",
    ),
    (
        Figure::FirstPartial,
        "first_partial",
        "First speech sample captured to first partial transcript handed over.",
    ),
    (
        Figure::Partial,
        "partial",
        "Last sample that a partial transcript covers captured to its hand-over.",
    ),
    (
        Figure::Final,
        "final",
        "Last speech sample captured to final transcript handed over.",
    ),
    (
        Figure::QueueWait,
        "queue_wait",
        "Request accepted to its first work on the device.",
    ),
];

/// Upper bounds in µs. Among them the limits of the objectives: 10, 85, 150, 220, 300, 350, 387 ms.
const BOUNDS: [u64; 20] = [
    500, 1_000, 2_500, 5_000, 10_000, 20_000, 30_000, 50_000, 85_000, 150_000, 220_000, 300_000,
    350_000, 387_000, 500_000, 750_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

#[derive(Clone, Copy, Debug, Default)]
struct Histogram {
    /// How many were within each bound and above the one before; the last place is above all.
    counts: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

/// All figures since the process began.
#[derive(Clone, Debug)]
pub struct Metrics {
    histograms: [Histogram; FIGURES.len()],
    /// Records by kind and whether they were cold.
    records: BTreeMap<(&'static str, bool), u64>,
    /// By objective: how many were judged, how many missed.
    objectives: BTreeMap<&'static str, (u64, u64)>,
    counters: BTreeMap<&'static str, u64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            histograms: [Histogram::default(); FIGURES.len()],
            records: BTreeMap::new(),
            objectives: BTreeMap::new(),
            // Counters that are named later than the first scrape look like resets.
            counters: [
                "drops",
                "ladder_moves",
                "log_lost_events",
                "log_lost_records",
            ]
            .map(|name| (name, 0))
            .into(),
        }
    }
}

impl Metrics {
    /// A value of a figure.
    pub fn observe(&mut self, figure: Figure, value: Duration) {
        let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|&bound| bound < micros);
        if let Some(place) = FIGURES.iter().position(|(known, ..)| *known == figure) {
            let histogram = &mut self.histograms[place];
            histogram.counts[at] += 1;
            histogram.sum = histogram.sum.saturating_add(value);
        }
    }

    /// A record was assembled.
    pub fn record(&mut self, kind: WorkKind, cold: bool, judged: Option<Judged>) {
        *self.records.entry((kind.name(), cold)).or_default() += 1;
        if let Some(judged) = judged {
            let (count, missed) = self.objectives.entry(judged.name).or_default();
            *count += 1;
            *missed += u64::from(!judged.held);
        }
    }

    /// So many more of a counter.
    pub fn add(&mut self, counter: &'static str, more: u64) {
        *self.counters.entry(counter).or_default() += more;
    }

    /// All of it in the text format of Prometheus, version 0.0.4.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        for ((_, name, help), histogram) in FIGURES.iter().zip(&self.histograms) {
            let name = format!("firstword_{name}_seconds");
            head(&mut text, &name, help, "histogram");
            let mut below = 0;
            for (bound, count) in BOUNDS.iter().zip(histogram.counts) {
                below += count;
                let bound = *bound as f64 / 1e6;
                let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {below}");
            }
            let all: u64 = histogram.counts.iter().sum();
            let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {all}");
            let _ = writeln!(text, "{name}_sum {}", histogram.sum.as_secs_f64());
            let _ = writeln!(text, "{name}_count {all}");
        }
        head(
            &mut text,
            "firstword_records_total",
            "Records by kind; cold ones are the first work of their model in this process.",
            "counter",
        );
        for ((kind, cold), count) in &self.records {
            let _ = writeln!(
                text,
                "firstword_records_total{{kind=\"{kind}\",cold=\"{cold}\"}} {count}"
            );
        }
        for (name, help, pick) in [
            (
                "firstword_objective_judged_total",
                "Records that were held to an objective.",
                (|counts| counts.0) as fn(&(u64, u64)) -> u64,
            ),
            (
                "firstword_objective_missed_total",
                "Records that took longer than their objective allows.",
                |counts| counts.1,
            ),
        ] {
            head(&mut text, name, help, "counter");
            for (objective, counts) in &self.objectives {
                let _ = writeln!(text, "{name}{{objective=\"{objective}\"}} {}", pick(counts));
            }
        }
        for (name, count) in &self.counters {
            let name = format!("firstword_{name}_total");
            let help = match name.as_str() {
                "firstword_drops_total" => "Times that work was dropped.",
                "firstword_ladder_moves_total" => "Moves of the ladder.",
                "firstword_log_lost_events_total" => "Events that found the log's queue full.",
                _ => "Records that could not be written to the log.",
            };
            head(&mut text, &name, help, "counter");
            let _ = writeln!(text, "{name} {count}");
        }
        text
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::objective::{Metric, Objective};

    // By the format's description (prometheus.io, "Exposition formats"): buckets are cumulative, +Inf equals the count.
    #[test]
    fn the_buckets_are_cumulative_and_a_bound_belongs_to_its_bucket() {
        let mut metrics = Metrics::default();
        for micros in [387_000, 387_001, 400, 20_000_000] {
            metrics.observe(Figure::Ttft, Duration::from_micros(micros));
        }
        let text = metrics.exposition();
        for line in [
            "# TYPE firstword_ttft_seconds histogram",
            "firstword_ttft_seconds_bucket{le=\"0.0005\"} 1",
            "firstword_ttft_seconds_bucket{le=\"0.35\"} 1",
            "firstword_ttft_seconds_bucket{le=\"0.387\"} 2",
            "firstword_ttft_seconds_bucket{le=\"0.5\"} 3",
            "firstword_ttft_seconds_bucket{le=\"10\"} 3",
            "firstword_ttft_seconds_bucket{le=\"+Inf\"} 4",
            "firstword_ttft_seconds_sum 20.774401",
            "firstword_ttft_seconds_count 4",
            "firstword_tpot_seconds_count 0",
            "firstword_log_lost_events_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn records_and_misses_are_counted_by_kind_and_objective() {
        let mut metrics = Metrics::default();
        let objective = Objective::default();
        for (cold, ms) in [(true, 900), (false, 300), (false, 388)] {
            let judged = objective.judge(Metric::Ttft, Duration::from_millis(ms));
            metrics.record(WorkKind::Request, cold, Some(judged));
        }
        metrics.record(WorkKind::Utterance, false, None);
        let text = metrics.exposition();
        for line in [
            "firstword_records_total{kind=\"request\",cold=\"false\"} 2",
            "firstword_records_total{kind=\"request\",cold=\"true\"} 1",
            "firstword_records_total{kind=\"utterance\",cold=\"false\"} 1",
            "firstword_objective_judged_total{objective=\"interactive\"} 3",
            "firstword_objective_missed_total{objective=\"interactive\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
