//! Chooses the factors that move range from the inputs of a product into its weights.
//!
//! A few channels of a model's inputs are many times larger than the others; they fix the step to which all channels of
//! a token are rounded. Divided by a factor each, with the weights' columns multiplied by it, the product stays what it
//! was and both sides round better (SmoothQuant, Xiao et al. 2022: `max|x|^a / max|w|^(1 − a)`, one `a` for all).
//! Here `a` is chosen for each product by the error that is to be expected, relative to each token's output, so that
//! a few tokens of enormous activations (Gemma's first) don't decide for all others:
//!
//! ```text
//! inputs   mean over tokens (max_k |x_k / s_k| / 127)² / 12 · Σ_k s_k² Σ_n w_nk²
//! weights  Σ_n step_n² / 12 · Σ_k mean over tokens (x_k / s_k)²
//! ```
//!
//! The first token counts as [`FIRST`] others: nearly all later ones attend to it, whatever it is, and what it says to
//! them is kept in the few largest values of the whole text.
//!
//! The same error tells where it pays to turn blocks of channels ([`super::turn`]), which is tried with fewer factors
//! since it does much of their work, and where to round inputs twice, which leaves the error of the weights alone: see
//! [`Choice`].

use super::column::{ANY_PAIR, PAIR, unclipped};
use super::turn;

/// Values of `a` that are tried, beside no factors at all.
const TRIED: [f32; 8] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Of no factors and [`TRIED`], those that are tried with turned blocks: none, 0.3, 0.5, 0.7.
const TURNED: [usize; 4] = [0, 2, 4, 6];

/// A factor further from the mean one than this is cut.
const FURTHEST: f32 = 1e3;

/// How many other tokens the first one counts as.
pub const FIRST: f32 = 30.0;

/// What the inputs' error, a square, is multiplied by where they are rounded twice: `fast` takes 63 · 126 steps then.
const TWICE: f64 = (127.0 / 63.0 / 126.0) * (127.0 / 63.0 / 126.0);

/// What a product's inputs looked like on some tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// `channels` for each token.
    pub values: Vec<f32>,
    /// Channels of a token.
    pub channels: usize,
}

/// Reads a product's weights, the way the caller stores them: calls back with each row, in any order, always the same.
pub trait Rows<E> {
    /// Each row, `channels` weights.
    ///
    /// # Errors
    ///
    /// What reading them gives.
    fn each(&mut self, row: &mut dyn FnMut(&[f32])) -> Result<(), E>;
}

/// Factors, and the error that is to be expected with them.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// One for each group of channels that share one.
    pub values: Vec<f32>,
    /// The mean square error of an output divided by the mean square of outputs.
    pub error: f64,
}

/// The best factors for each way of rounding inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// One byte for each.
    pub once: Factors,
    /// One byte for each, after blocks of them were turned; where there are blocks.
    pub turned: Option<Factors>,
    /// Two bytes for each.
    pub twice: Factors,
}

impl Choice {
    fn nothing(groups: usize) -> Self {
        let none = Factors {
            values: vec![1.0; groups],
            error: 0.0,
        };
        Self {
            once: none.clone(),
            turned: None,
            twice: none,
        }
    }
}

/// One factor per group of channels that share one, in the order of `share`: `share[k]` is the group of channel `k`.
/// All are 1 where factors don't help.
///
/// The weights are read twice.
///
/// # Errors
///
/// What reading the weights gives.
pub fn factors<E>(
    inputs: &Inputs,
    share: &[usize],
    weights: &mut dyn Rows<E>,
) -> Result<Choice, E> {
    let channels = inputs.channels;
    let groups = share.iter().max().map_or(0, |&most| most + 1);
    let mut energy = vec![0.0f64; channels];
    let mut rows = 0usize;
    weights.each(&mut |row| {
        rows += 1;
        energy
            .iter_mut()
            .zip(row)
            .for_each(|(e, w)| *e += f64::from(w * w));
    })?;
    let tokens = relative(inputs, &energy);
    if groups == 0 || rows == 0 || tokens.is_empty() {
        return Ok(Choice::nothing(groups));
    }

    let mut largest = vec![0.0f32; groups];
    let mut typical = vec![0.0f64; groups];
    let mut squares = vec![0.0f64; channels];
    for (k, &group) in share.iter().enumerate() {
        typical[group] = typical[group].max((energy[k] / rows as f64).sqrt());
        for token in tokens.chunks_exact(channels) {
            largest[group] = largest[group].max(token[k].abs());
            squares[k] += f64::from(token[k]).powi(2);
        }
    }
    let count = (tokens.len() / channels) as f64;
    squares.iter_mut().for_each(|s| *s /= count);

    let mut tried = vec![vec![1.0; groups]];
    tried.extend(TRIED.map(|a| candidate(a, &largest, &typical)));
    let spread: Vec<Vec<f32>> = tried
        .iter()
        .map(|factors| share.iter().map(|&group| factors[group]).collect())
        .collect();
    let block = turn::block(channels);
    // Σ_n step_n² of each: with the limit on pairs, without it, and turned with it.
    let mut steps = vec![[0.0f64; 3]; tried.len()];
    let mut scaled = vec![0.0; channels];
    weights.each(&mut |row| {
        for (n, (steps, factors)) in steps.iter_mut().zip(&spread).enumerate() {
            for ((to, w), s) in scaled.iter_mut().zip(row).zip(factors) {
                *to = w * s;
            }
            for (steps, pair) in steps.iter_mut().zip([PAIR, ANY_PAIR]) {
                *steps += f64::from(unclipped(&scaled, pair)).powi(2);
            }
            if let Some(block) = block.filter(|_| TURNED.contains(&n)) {
                turn::turn(&mut scaled, block);
                steps[2] += f64::from(unclipped(&scaled, PAIR)).powi(2);
            }
        }
    })?;
    let errors: Vec<[f64; 3]> = spread
        .iter()
        .zip(&steps)
        .enumerate()
        .map(|(n, (factors, [once, twice, turned]))| {
            let of_weights: f64 = factors
                .iter()
                .zip(&squares)
                .map(|(&s, x)| x / f64::from(s * s))
                .sum();
            let of_inputs = |block| of_inputs(&tokens, factors, &energy, block);
            let straight = of_inputs(None);
            [
                (of_weights * once + straight) / 12.0,
                (of_weights * twice + straight * TWICE) / 12.0,
                if block.is_some() && TURNED.contains(&n) {
                    (of_weights * turned + of_inputs(block)) / 12.0
                } else {
                    f64::INFINITY
                },
            ]
        })
        .collect();
    let best = |way: usize| {
        let (n, error) = errors
            .iter()
            .map(|errors| errors[way])
            .enumerate()
            .filter(|(_, error)| error.is_finite())
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((0, 0.0));
        Factors {
            values: tried[n].clone(),
            error,
        }
    };
    Ok(Choice {
        once: best(0),
        turned: block.map(|_| best(2)),
        twice: best(1),
    })
}

/// Inputs, each token divided by how large its output is to be expected, such that the mean of their squares is
/// weighted. Tokens of zeros, or of values that are no numbers, are left out.
fn relative(inputs: &Inputs, energy: &[f64]) -> Vec<f32> {
    let mut all = Vec::with_capacity(inputs.values.len());
    let tokens = inputs.values.chunks_exact(inputs.channels.max(1));
    let count = tokens.len() as f32;
    for (n, token) in tokens.enumerate() {
        let weight = if n == 0 { FIRST } else { 1.0 } * count / (count + FIRST - 1.0);
        let output: f64 = token
            .iter()
            .zip(energy)
            .map(|(&x, e)| f64::from(x).powi(2) * e)
            .sum();
        let scale = output.sqrt().recip() as f32 * weight.sqrt();
        if scale.is_normal() {
            all.extend(token.iter().map(|x| x * scale));
        }
    }
    all
}

/// `largest^a / typical^(1 − a)`, divided by their geometric mean.
fn candidate(a: f32, largest: &[f32], typical: &[f64]) -> Vec<f32> {
    let logs: Vec<f32> = largest
        .iter()
        .zip(typical)
        .map(|(&x, &w)| a * x.max(1e-9).ln() - (1.0 - a) * (w as f32).max(1e-9).ln())
        .collect();
    let mean = logs.iter().sum::<f32>() / logs.len() as f32;
    let furthest = FURTHEST.ln();
    logs.iter()
        .map(|log| (log - mean).clamp(-furthest, furthest).exp())
        .collect()
}

fn of_inputs(tokens: &[f32], factors: &[f32], energy: &[f64], block: Option<usize>) -> f64 {
    let channels = factors.len();
    let inverse: Vec<f32> = factors.iter().map(|s| s.recip()).collect();
    let count = tokens.len() / channels;
    let mut divided = vec![0.0; channels];
    let steps: f64 = tokens
        .chunks_exact(channels)
        .map(|token| {
            for ((to, x), i) in divided.iter_mut().zip(token).zip(&inverse) {
                *to = x * i;
            }
            if let Some(block) = block {
                turn::turn(&mut divided, block);
            }
            let most = divided.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            f64::from(most / 127.0).powi(2)
        })
        .sum();
    let weights: f64 = factors
        .iter()
        .zip(energy)
        .map(|(&s, e)| f64::from(s * s) * e)
        .sum();
    steps / count as f64 * weights
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    struct Matrix(Vec<Vec<f32>>);

    impl Rows<Infallible> for Matrix {
        fn each(&mut self, row: &mut dyn FnMut(&[f32])) -> Result<(), Infallible> {
            self.0.iter().for_each(|values| row(values));
            Ok(())
        }
    }

    /// Numbers in −1…1 that look random: a linear congruential generator.
    fn noise(seed: u32, count: usize) -> Vec<f32> {
        let mut state = seed;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .take(count)
        .collect()
    }

    fn case(large: f32) -> (Vec<Vec<f32>>, Matrix) {
        let mut inputs: Vec<Vec<f32>> = (0..24).map(|n| noise(n, 16)).collect();
        inputs.iter_mut().for_each(|token| token[5] *= large);
        (inputs, Matrix((0..12).map(|n| noise(99 + n, 16)).collect()))
    }

    /// The mean square error of 8-bit products, measured.
    fn error(inputs: &[Vec<f32>], weights: &Matrix, factors: &[f32]) -> f64 {
        let mut error = 0.0;
        for row in &weights.0 {
            let scaled: Vec<f32> = row.iter().zip(factors).map(|(w, s)| w * s).collect();
            let mut codes = vec![0; row.len()];
            let scale = super::super::column::quantise(&scaled, &mut codes, PAIR);
            for token in inputs {
                let x: Vec<f32> = token.iter().zip(factors).map(|(x, s)| x / s).collect();
                let most = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                let rounded: f32 = x
                    .iter()
                    .zip(&codes)
                    .map(|(v, &c)| (v / most * 127.0).round() * f32::from(c))
                    .sum();
                let exact: f32 = token.iter().zip(row).map(|(x, w)| x * w).sum();
                error += f64::from(rounded * scale * most / 127.0 - exact).powi(2);
            }
        }
        error
    }

    fn seen(inputs: &[Vec<f32>]) -> Inputs {
        Inputs {
            values: inputs.concat(),
            channels: 16,
        }
    }

    #[test]
    fn one_loud_channel_no_longer_costs_the_others_their_precision() {
        let (inputs, mut weights) = case(100.0);
        let share: Vec<usize> = (0..16).collect();
        let factors = factors(&seen(&inputs), &share, &mut weights)
            .unwrap()
            .once
            .values;
        let (before, after) = (
            error(&inputs, &weights, &[1.0; 16]),
            error(&inputs, &weights, &factors),
        );
        assert!(after < before / 3.0, "{before} {after}");
        assert!(factors[5] > 3.0 * factors[4]);
    }

    // Tokens with one loud channel, another one each time: no factors help, turning does. A loud channel of 30 among 16
    // comes out as 7.5 in each, a sixteenth of the square of the step; the error of the weights stays about what it is.
    #[test]
    fn loud_channels_that_change_are_turned() {
        let (mut inputs, mut weights) = case(1.0);
        for (n, token) in inputs.iter_mut().enumerate() {
            token[n % 16] = 30.0;
        }
        let share: Vec<usize> = (0..16).collect();
        let choice = factors(&seen(&inputs), &share, &mut weights).unwrap();
        let turned = choice.turned.unwrap();
        let once = choice.once.error;
        assert!(turned.error < once / 2.0, "{} {once}", turned.error);
    }

    #[test]
    fn channels_that_share_a_factor_get_one() {
        let (inputs, mut weights) = case(100.0);
        let share: Vec<usize> = (0..16).map(|k| k % 8).collect();
        let factors = factors(&seen(&inputs), &share, &mut weights)
            .unwrap()
            .once
            .values;
        assert_eq!(factors.len(), 8);
        assert!(factors[5] > 2.0 * factors[4]);
    }

    #[test]
    fn nothing_seen_or_nothing_to_tell_leaves_ones() {
        let share: Vec<usize> = (0..16).collect();
        let (_, mut weights) = case(1.0);
        for values in [vec![], vec![0.0; 32], vec![f32::NAN; 16]] {
            let inputs = Inputs {
                values,
                channels: 16,
            };
            let choice = factors(&inputs, &share, &mut weights).unwrap();
            assert_eq!(choice.once.values, [1.0; 16]);
            assert_eq!([choice.once.error, choice.twice.error], [0.0; 2]);
        }
    }
}
