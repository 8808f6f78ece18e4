//! By how much two samples differ, and how sure that is: the bootstrap (Efron 1979) of an order statistic, without
//! resampling.
//!
//! The k-th smallest of n draws with replacement from sorted values x is x[⌊U·n⌋], where U, the k-th smallest of n uniform
//! draws, has the distribution Beta(k, n − k + 1). So one draw of U gives what a resample of n values would, and a
//! comparison of a million records takes no longer than one of a hundred.

use serde::Serialize;

use super::stats::{Sorted, round};
use crate::log::read::planted::Dice;

/// Draws for one interval.
const DRAWS: usize = 10_000;
/// A sample with fewer values says nothing.
pub const FEW: usize = 10;

/// The difference of an order statistic between two samples, B − A.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Of A, ms.
    pub a_ms: f64,
    /// Of B, ms.
    pub b_ms: f64,
    /// B − A, ms.
    pub difference_ms: f64,
    /// Lower end of the interval, ms.
    pub low_ms: f64,
    /// Upper end, ms.
    pub high_ms: f64,
    /// Values in A.
    pub a_count: usize,
    /// Values in B.
    pub b_count: usize,
}

impl Difference {
    /// Whether the interval leaves out 0.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.low_ms > 0.0 || self.high_ms < 0.0
    }
}

/// Compares the order statistic at `per_mille`, with an interval that holds the difference with this confidence (0.95).
/// `None` where one of the samples has fewer than [`FEW`] values.
#[must_use]
pub fn compare(
    a: &Sorted,
    b: &Sorted,
    per_mille: u32,
    confidence: f64,
    seed: u64,
) -> Option<Difference> {
    if a.len() < FEW || b.len() < FEW {
        return None;
    }
    let mut dice = Dice(seed);
    let (mut from_a, mut from_b) = (Resampled::of(a, per_mille), Resampled::of(b, per_mille));
    let mut differences: Vec<f64> = (0..DRAWS)
        .map(|_| from_b.draw(&mut dice) - from_a.draw(&mut dice))
        .collect();
    differences.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let low = (tail * DRAWS as f64).floor() as usize;
    let high = DRAWS - 1 - low;
    let of = |sorted: &Sorted| sorted.quantile(per_mille).unwrap_or_default().ms();
    Some(Difference {
        a_ms: of(a),
        b_ms: of(b),
        difference_ms: round(of(b) - of(a)),
        low_ms: round(differences[low]),
        high_ms: round(differences[high]),
        a_count: a.len(),
        b_count: b.len(),
    })
}

/// Draws what an order statistic is in resamples.
struct Resampled<'s> {
    values: &'s [u32],
    k: f64,
}

impl<'s> Resampled<'s> {
    fn of(sorted: &'s Sorted, per_mille: u32) -> Self {
        let n = sorted.len() as u64;
        let k = (n * u64::from(per_mille)).div_ceil(1000).max(1);
        Self {
            values: sorted.values(),
            k: k as f64,
        }
    }

    /// One draw, ms.
    fn draw(&mut self, dice: &mut Dice) -> f64 {
        let n = self.values.len() as f64;
        let (x, y) = (gamma(dice, self.k), gamma(dice, n - self.k + 1.0));
        let at = (x / (x + y) * n) as usize;
        f64::from(self.values[at.min(self.values.len() - 1)]) / 1e3
    }
}

/// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), for shapes from 1 on.
fn gamma(dice: &mut Dice, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = dice.normal();
        let v = (1.0 + c * x).powi(3);
        if v <= 0.0 {
            continue;
        }
        let u = 1.0 - dice.unit();
        if u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seed: u64, n: usize, shift: u32) -> Vec<u32> {
        let mut dice = Dice(seed);
        (0..n)
            .map(|_| shift + (20_000.0 * (0.3 * dice.normal()).exp()) as u32)
            .collect()
    }

    #[test]
    fn the_interval_is_that_of_resampling() {
        // The independent way: 4000 resamples with replacement, as Efron describes it.
        let (a, b) = (sample(1, 150, 0), sample(2, 90, 1_500));
        let mut dice = Dice(3);
        let mut differences: Vec<f64> = (0..4000)
            .map(|_| {
                let mut median = |values: &[u32]| {
                    let again = (0..values.len())
                        .map(|_| values[dice.below(values.len())])
                        .collect();
                    Sorted::of(again).quantile(500).unwrap().ms()
                };
                median(&b) - median(&a)
            })
            .collect();
        differences.sort_unstable_by(f64::total_cmp);
        let ours = compare(&Sorted::of(a), &Sorted::of(b), 500, 0.95, 4).unwrap();
        let width = differences[3899] - differences[100];
        assert!(
            (ours.low_ms - differences[100]).abs() < 0.1 * width,
            "{ours:?} {}",
            differences[100]
        );
        assert!(
            (ours.high_ms - differences[3899]).abs() < 0.1 * width,
            "{ours:?} {}",
            differences[3899]
        );
    }

    #[test]
    fn noise_is_rarely_taken_for_a_difference_and_a_difference_is_found() {
        let mut found = 0;
        for seed in 0..200 {
            let (a, b) = (
                Sorted::of(sample(seed, 200, 0)),
                Sorted::of(sample(seed + 1000, 200, 0)),
            );
            found += usize::from(compare(&a, &b, 500, 0.95, seed).unwrap().is_real());
        }
        // 5 of 100 is what 95 % means; 20 of 200 would come up once in a thousand times.
        assert!(found < 20, "{found}");
        let (a, b) = (
            Sorted::of(sample(1, 400, 0)),
            Sorted::of(sample(2, 400, 3_000)),
        );
        let difference = compare(&a, &b, 500, 0.95, 5).unwrap();
        assert!(
            difference.is_real() && difference.low_ms < 3.0 && difference.high_ms > 3.0,
            "{difference:?}"
        );
        assert_eq!(
            compare(&a, &Sorted::of(vec![1; FEW - 1]), 500, 0.95, 5),
            None
        );
    }
}
