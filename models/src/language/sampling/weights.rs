//! The weights of a whole vocabulary, `exp((logit − highest) / temperature)`, and a draw among them.
//!
//! Without a filter every token is in the draw, and with 262 144 of them (Gemma) calling the C library's `exp` for
//! each takes milliseconds. Here the exponential is a polynomial without a branch, which the compiler turns into vector
//! instructions; and only multiplications and additions, so that the same seed gives the same text on every processor.

/// Tokens whose weights are summed up on their own.
const BLOCK: usize = 256;
const LANES: usize = 8;

/// e to the power of `x` for `x` ≤ 0: within 2·10⁻⁷ of it, relatively; 0 below −87, where single precision ends.
///
/// The coefficients are those of the Cephes library (`expf.c`, S. Moshier): for `x = k·ln 2 + r`, a polynomial in `r`
/// and `k` into the exponent.
fn exp(x: f32) -> f32 {
    /// 1.5 · 2²³: added, it leaves an integer in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts, the first of few bits.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let inside = if x > -87.0 { x } else { 0.0 };
    let shifted = inside * std::f32::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = inside - k * LN_2.0 - k * LN_2.1;
    let mut sum = 1.987_569_2e-4;
    for coefficient in [
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        sum = sum * r + coefficient;
    }
    let fraction = sum * r * r + r + 1.0;
    // k is in −126 … 0, so that the exponent's field is in 1 … 127.
    let exponent = shifted
        .to_bits()
        .wrapping_sub(ROUND.to_bits())
        .wrapping_add(127)
        << 23;
    let value = fraction * f32::from_bits(exponent);
    if x > -87.0 { value } else { 0.0 }
}

/// The sum of some weights, always in the same order.
fn sum(weights: &[f32]) -> f64 {
    let mut sums = [0.0_f64; LANES];
    let (whole, rest) = weights.as_chunks::<LANES>();
    for eight in whole {
        for lane in 0..LANES {
            sums[lane] += f64::from(eight[lane]);
        }
    }
    for (lane, &weight) in rest.iter().enumerate() {
        sums[lane] += f64::from(weight);
    }
    sums.into_iter().sum()
}

/// Writes the weights of a block.
fn weigh(logits: &[f32], highest: f32, temperature: f32, weights: &mut [f32]) {
    for (weight, &logit) in weights.iter_mut().zip(logits) {
        *weight = exp((logit - highest) / temperature);
    }
}

/// The sum of `exp(logit − highest)` over all logits, none of which is above `highest`.
pub fn total(logits: &[f32], highest: f32) -> f64 {
    let mut weights = [0.0; BLOCK];
    logits
        .chunks(BLOCK)
        .map(|block| {
            let weights = &mut weights[..block.len()];
            weigh(block, highest, 1.0, weights);
            sum(weights)
        })
        .sum()
}

/// Draws a token: the first whose running sum of weights exceeds `unit` (in [0, 1)) of the total. Leaves the weight of
/// every token in `weights`, and the sum of every block of them in `sums`.
///
/// `None` where rounding leaves no such token.
pub fn draw(
    logits: &[f32],
    highest: f32,
    temperature: f32,
    unit: f64,
    weights: &mut Vec<f32>,
    sums: &mut Vec<f64>,
) -> Option<u32> {
    weights.resize(logits.len(), 0.0);
    sums.clear();
    for (block, weights) in logits.chunks(BLOCK).zip(weights.chunks_mut(BLOCK)) {
        weigh(block, highest, temperature, weights);
        sums.push(sum(weights));
    }
    let goal = unit * sums.iter().sum::<f64>();
    let mut before = 0.0;
    for (index, &sum) in sums.iter().enumerate() {
        if before + sum <= goal {
            before += sum;
            continue;
        }
        let first = index * BLOCK;
        let block = &weights[first..weights.len().min(first + BLOCK)];
        let mut last = None;
        for (at, &weight) in block.iter().enumerate() {
            if weight > 0.0 {
                before += f64::from(weight);
                last = Some((first + at) as u32);
                if before > goal {
                    break;
                }
            }
        }
        // Summed up one by one, the block may be a rounding short of its sum: then it is its last.
        return last;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected values are the C library's, in double precision.
    #[test]
    fn the_exponential_is_that_of_double_precision() {
        for step in 0..=87_000 {
            let x = -(step as f32) / 1000.0;
            let expected = f64::from(x).exp();
            let off = (f64::from(exp(x)) / expected - 1.0).abs();
            if x > -87.0 {
                assert!(off < 2e-7, "{x}: {off}");
            }
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(
            [exp(-87.0), exp(-1e30), exp(f32::NEG_INFINITY)],
            [0.0, 0.0, 0.0]
        );
    }

    #[test]
    fn the_total_of_many_is_that_of_double_precision() {
        let logits: Vec<f32> = (0..1003).map(|i| -((i * 37 % 101) as f32) / 9.0).collect();
        let expected: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        assert!((total(&logits, 0.0) / expected - 1.0).abs() < 1e-6);
    }

    // Four blocks of equal weights: token n has the numbers from n / 1024 up to (n + 1) / 1024, exactly.
    #[test]
    fn every_token_has_its_part_of_the_unit_whatever_block_it_is_in() {
        let logits = vec![3.5; 1024];
        let (mut weights, mut sums) = (Vec::new(), Vec::new());
        for token in 0..1024 {
            for inside in [0.0, 0.5, 0.999] {
                let unit = (f64::from(token) + inside) / 1024.0;
                let drawn = draw(&logits, 3.5, 0.7, unit, &mut weights, &mut sums);
                assert_eq!(drawn, Some(token));
            }
        }
    }

    #[test]
    fn what_is_ruled_out_is_never_drawn() {
        let mut logits = vec![f32::NEG_INFINITY; 700];
        logits[300] = 1.0;
        let (mut weights, mut sums) = (Vec::new(), Vec::new());
        for unit in [0.0, 0.3, 1.0 - f64::EPSILON] {
            let drawn = draw(&logits, 1.0, 1.0, unit, &mut weights, &mut sums);
            assert_eq!(drawn, Some(300));
        }
    }
}
