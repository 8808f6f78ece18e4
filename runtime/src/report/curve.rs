//! Latency over the length of the prompt, with the knee; and over the size of the batch.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gather::Columns;
use super::stats::{Sorted, round};
use crate::log::read::Micros;

/// Points of each doubling of the prompt's length.
const PER_OCTAVE: f64 = 2.0;
/// Records a point must have.
const LEAST: usize = 3;
/// Points a knee needs: two lines of two, and one to spare.
const KNEE_POINTS: usize = 5;
/// How much steeper it must be behind a knee.
const STEEPER: f64 = 1.5;

/// Time until the first token over the tokens that were prefilled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Context {
    /// By length.
    pub points: Vec<Point>,
    /// Where the slope jumps, if it does.
    pub knee_tokens: Option<u64>,
    /// Slope before the knee.
    pub before_ms_per_token: Option<f64>,
    /// Slope behind it.
    pub after_ms_per_token: Option<f64>,
}

/// Prompts of about one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Median of their lengths.
    pub tokens: u32,
    /// How many.
    pub count: usize,
    /// Median of prefill and first token together.
    #[serde(rename = "p50_ms")]
    pub p50: Micros,
    /// 95 of 100 took no longer.
    #[serde(rename = "p95_ms")]
    pub p95: Micros,
}

/// Requests of one batch size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pareto {
    /// Members.
    pub batch: u32,
    /// How many requests.
    pub count: usize,
    /// Median of tokens per second of one, times the members.
    pub tps: f64,
    /// Mean TTFT.
    pub mean_ttft_ms: f64,
    /// 95 of 100 took no longer.
    #[serde(rename = "p95_ttft_ms")]
    pub p95_ttft: Micros,
    /// Whether no other size is both faster to the first token and gives more.
    pub best: bool,
}

/// The curve over the prompt's length; `None` where there are too few lengths.
#[must_use]
pub fn context(columns: &Columns) -> Option<Context> {
    let stage = |name: &str| {
        columns
            .stages
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, column)| column)
    };
    let (prefill, first) = (stage("prefill")?, stage("first_token"));
    let mut by_length: BTreeMap<i32, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for at in 0..columns.count {
        if let (Some(tokens), Some(spent)) = (columns.prefilled.get(at), prefill.get(at))
            && tokens > 0
        {
            let spent = spent.saturating_add(first.and_then(|f| f.get(at)).unwrap_or_default());
            let bin = (f64::from(tokens).log2() * PER_OCTAVE).round() as i32;
            let (lengths, times) = by_length.entry(bin).or_default();
            lengths.push(tokens);
            times.push(spent);
        }
    }
    let points: Vec<Point> = by_length
        .into_values()
        .filter(|(lengths, _)| lengths.len() >= LEAST)
        .map(|(lengths, times)| {
            let (lengths, times) = (Sorted::of(lengths), Sorted::of(times));
            Point {
                tokens: lengths.quantile(500).unwrap_or_default().0,
                count: times.len(),
                p50: times.quantile(500).unwrap_or_default(),
                p95: times.quantile(950).unwrap_or_default(),
            }
        })
        .collect();
    if points.len() < 3 {
        return None;
    }
    let line: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (f64::from(point.tokens), point.p50.ms()))
        .collect();
    let knee = knee(&line);
    Some(Context {
        points,
        knee_tokens: knee.map(|(at, ..)| at.round() as u64),
        before_ms_per_token: knee.map(|(_, before, _)| round(before)),
        after_ms_per_token: knee.map(|(_, _, after)| round(after)),
    })
}

/// Where two straight lines fit much better than one, and the second is clearly steeper: place, slopes.
#[must_use]
pub fn knee(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    if points.len() < KNEE_POINTS {
        return None;
    }
    let (_, _, whole) = fit(points)?;
    let mut best: Option<(f64, f64, f64, f64)> = None;
    for split in 2..=points.len() - 2 {
        let (a, b) = (fit(&points[..split])?, fit(&points[split..])?);
        let error = a.2 + b.2;
        if best.is_none_or(|(least, ..)| error < least) {
            // Where the lines cross, if that is between the points that they part.
            let (low, high) = (points[split - 1].0, points[split].0);
            let cross = (b.1 - a.1) / (a.0 - b.0);
            let place = if (low..=high).contains(&cross) {
                cross
            } else {
                low
            };
            best = Some((error, place, a.0, b.0));
        }
    }
    let (error, place, before, after) = best?;
    (error < 0.25 * whole && after > before * STEEPER && after > 0.0)
        .then_some((place, before, after))
}

/// Least squares, each point weighted with the inverse of its height (long prompts would decide alone otherwise):
/// slope, height at 0, squared error.
fn fit(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    let weight = |y: f64| 1.0 / (y * y).max(1e-6);
    let (mut w, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(px, py) in points {
        let v = weight(py);
        w += v;
        x += v * px;
        y += v * py;
        xx += v * px * px;
        xy += v * px * py;
    }
    let below = w * xx - x * x;
    if below <= 0.0 {
        return None;
    }
    let slope = (w * xy - x * y) / below;
    let base = (y - slope * x) / w;
    let error = points
        .iter()
        .map(|&(px, py)| weight(py) * (py - base - slope * px).powi(2))
        .sum();
    Some((slope, base, error))
}

/// TTFT and tokens per second by batch size; empty where there is but one.
#[must_use]
pub fn pareto(columns: &Columns) -> Vec<Pareto> {
    let ttft = &columns.metrics[1];
    let mut by_batch: BTreeMap<u32, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for at in 0..columns.count {
        if let (Some(batch), Some(first), Some(tps)) =
            (columns.batch.get(at), ttft.get(at), columns.tps.get(at))
        {
            let (firsts, rates) = by_batch.entry(batch).or_default();
            firsts.push(first);
            rates.push(tps);
        }
    }
    if by_batch.len() < 2 {
        return Vec::new();
    }
    let mut points: Vec<Pareto> = by_batch
        .into_iter()
        .filter_map(|(batch, (firsts, rates))| {
            let stats = Sorted::of(firsts).stats()?;
            let rate = Sorted::of(rates).quantile(500)?;
            Some(Pareto {
                batch,
                count: stats.count,
                tps: round(rate.ms() * f64::from(batch.max(1))),
                mean_ttft_ms: stats.mean_ms,
                p95_ttft: stats.p95,
                best: false,
            })
        })
        .collect();
    let all = points.clone();
    for point in &mut points {
        point.best = !all.iter().any(|other| {
            other.tps >= point.tps
                && other.p95_ttft <= point.p95_ttft
                && (other.tps > point.tps || other.p95_ttft < point.p95_ttft)
        });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knee_is_found_where_it_was_put_and_not_where_there_is_none() {
        // By hand: 10 ms + 0.1 ms per token up to 2000 tokens, 0.4 ms for each beyond.
        let bent = |x: f64| 10.0 + 0.1 * x + 0.3 * (x - 2000.0).max(0.0);
        let lengths = [128.0, 256.0, 512.0, 1024.0, 1448.0, 2896.0, 4096.0, 8192.0];
        let points: Vec<_> = lengths.iter().map(|&x| (x, bent(x))).collect();
        let (place, before, after) = knee(&points).unwrap();
        assert!((place - 2000.0).abs() < 1.0, "{place}");
        assert!((before - 0.1).abs() < 1e-6 && (after - 0.4).abs() < 1e-6);
        let straight: Vec<_> = lengths.iter().map(|&x| (x, 10.0 + 0.1 * x)).collect();
        assert_eq!(knee(&straight), None);
        let flattening: Vec<_> = lengths.iter().map(|&x| (x, x.sqrt())).collect();
        assert_eq!(knee(&flattening), None);
        assert_eq!(knee(&points[..4]), None);
    }
}
