//! Statistics of latencies: exact order statistics of values that were measured, never averages of percentiles.

use serde::Serialize;

use crate::log::read::Micros;

/// A place in a column where nothing was measured. ([`Micros::LONGEST`] is below it.)
pub const NONE: u32 = u32::MAX;

/// Measured values of one kind, one place for each record; µs, or what the column counts.
#[derive(Clone, Debug, Default)]
pub struct Column(Vec<u32>);

impl Column {
    /// The value of record `at`. Records before it that had none are filled up.
    pub fn put(&mut self, at: usize, value: u32) {
        if self.0.len() < at {
            self.0.resize(at, NONE);
        }
        self.0.push(value);
    }

    /// The value of record `at`, if it has one.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<u32> {
        self.0.get(at).copied().filter(|&value| value != NONE)
    }

    /// All values, in order of their size.
    #[must_use]
    pub fn sorted(&self) -> Sorted {
        Sorted::of(self.0.iter().copied().filter(|&v| v != NONE).collect())
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&value| value == NONE)
    }
}

/// Values in order of their size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sorted(Vec<u32>);

impl Sorted {
    /// Puts them in order.
    #[must_use]
    pub fn of(mut values: Vec<u32>) -> Self {
        values.sort_unstable();
        Self(values)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &[u32] {
        &self.0
    }

    /// The order statistic by nearest rank: the smallest value that at least this share does not exceed
    /// (numpy calls it `inverted_cdf`).
    #[must_use]
    pub fn quantile(&self, per_mille: u32) -> Option<Micros> {
        let rank = (self.0.len() as u64 * u64::from(per_mille)).div_ceil(1000);
        let at = rank.saturating_sub(1) as usize;
        self.0.get(at).copied().map(Micros)
    }

    /// Share of the values that are above a limit.
    #[must_use]
    pub fn above(&self, limit: Micros) -> usize {
        self.0.len() - self.0.partition_point(|&value| value <= limit.0)
    }

    /// Count, order statistics and dispersion; `None` where there is nothing.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        let (&least, &most) = (self.0.first()?, self.0.last()?);
        let n = self.0.len() as f64;
        let mean = self.0.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = self
            .0
            .iter()
            .map(|&v| (f64::from(v) - mean).powi(2))
            .sum::<f64>()
            / n;
        let at = |per_mille| self.quantile(per_mille).unwrap_or_default();
        Some(Stats {
            count: self.0.len(),
            mean_ms: round(mean / 1e3),
            min: Micros(least),
            p50: at(500),
            p95: at(950),
            p99: at(990),
            max: Micros(most),
            dispersion: (mean > 0.0).then(|| (variance.sqrt() / mean * 1e4).round() / 1e4),
        })
    }
}

/// What is reported of a sample of durations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean_ms: f64,
    /// The smallest.
    #[serde(rename = "min_ms")]
    pub min: Micros,
    /// The median.
    #[serde(rename = "p50_ms")]
    pub p50: Micros,
    /// 95 of 100 took no longer.
    #[serde(rename = "p95_ms")]
    pub p95: Micros,
    /// 99 of 100 took no longer.
    #[serde(rename = "p99_ms")]
    pub p99: Micros,
    /// The largest.
    #[serde(rename = "max_ms")]
    pub max: Micros,
    /// σ ÷ μ (σ of the population); `None` where the mean is 0.
    pub dispersion: Option<f64>,
}

/// To microseconds.
#[must_use]
pub fn round(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_statistics_are_those_of_numpy_on_skewed_data() {
        // Made by tests/fixtures/percentiles.py with numpy; see there.
        let fixture: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/fixtures/percentiles.json")).unwrap();
        let samples = fixture["samples"].as_array().unwrap();
        assert!(samples.len() >= 8);
        for sample in samples {
            let values: Vec<u32> = serde_json::from_value(sample["us"].clone()).unwrap();
            let stats = Sorted::of(values).stats().unwrap();
            let name = &sample["name"];
            for (ours, theirs) in [
                (stats.p50, "p50"),
                (stats.p95, "p95"),
                (stats.p99, "p99"),
                (stats.max, "max"),
            ] {
                assert_eq!(
                    u64::from(ours.0),
                    sample[theirs].as_u64().unwrap(),
                    "{theirs} of {name}"
                );
            }
            // A mean is stated to the microsecond.
            let near = |a: f64, b: f64| (a - b).abs() <= 0.5 + 1e-6;
            assert!(
                near(stats.mean_ms * 1e3, sample["mean"].as_f64().unwrap()),
                "{name}"
            );
            match sample["dispersion"].as_f64() {
                Some(theirs) => {
                    assert!((stats.dispersion.unwrap() - theirs).abs() <= 5e-5, "{name}")
                }
                None => assert_eq!(stats.dispersion, None),
            }
        }
    }

    #[test]
    fn places_without_a_value_are_no_zeros() {
        let mut column = Column::default();
        column.put(2, 7);
        column.put(4, 5);
        assert_eq!(
            (column.get(0), column.get(2), column.get(3)),
            (None, Some(7), None)
        );
        assert_eq!(column.sorted().values(), [5, 7]);
        assert_eq!(Sorted::default().stats(), None);
        assert_eq!(column.sorted().above(Micros(5)), 1);
    }
}
