//! One output's weights as signed bytes with one scale, such that 8-bit products of them are exact on every CPU.
//!
//! Without VNNI, x86 CPUs multiply unsigned by signed bytes in pairs and keep each pair's sum in 16 bits with
//! saturation (`vpmaddubsw`); ONNX Runtime pairs weights 2i and 2i + 1 of the input's axis. Where inputs are at most
//! 255, two weights of one sign whose magnitudes add up to at most 128 stay within 255 · 128 = 32 640 < 32 767; weights
//! of unlike signs stay within 255 · 127. So a pair of one sign is kept within 128 here, and the results are the same
//! bits with and without VNNI. With full-range weights, SmolLM2's KL on a CPU without VNNI was 0.085, against 0.043
//! within the limit. Where inputs are at most 128, any two weights will do: 128 · (127 + 127) = 32 512; that takes 0.6
//! of the weights' square error.

/// What the magnitudes of two neighbours of one sign may add up to where inputs are bytes of up to 255.
pub const PAIR: i32 = 128;

/// The same where they are up to 128: all that there is.
pub const ANY_PAIR: i32 = 254;

/// The largest magnitude of a code.
const LARGEST: f32 = 127.0;

/// Steps that are tried, as parts of the smallest one that clips nothing. Weights are bell-shaped: clipping a few
/// costs less than a finer step for the others gains.
const TRIED: [f32; 6] = [1.0, 0.92, 0.84, 0.76, 0.68, 0.6];

/// Lays `weights` down in `codes`, as many, and returns their scale: a weight is about its code times the scale.
/// `pair` is [`PAIR`] or [`ANY_PAIR`].
///
/// # Panics
///
/// Where `codes` is not as long as `weights`: a bug.
pub fn quantise(weights: &[f32], codes: &mut [i8], pair: i32) -> f32 {
    let scale = scale(weights, pair);
    code(weights, scale, codes, pair);
    scale
}

/// Of a few scales the one with the smallest mean square error. Weights that are no numbers count as 0.
pub fn scale(weights: &[f32], pair: i32) -> f32 {
    let whole = unclipped(weights, pair);
    let mut best = (f32::INFINITY, whole);
    for part in TRIED {
        let scale = whole * part;
        if scale.is_normal() {
            let error = error(weights, scale, pair);
            if error < best.0 {
                best = (error, scale);
            }
        }
    }
    best.1
}

/// Lays `weights` down in `codes`, as many, with this scale.
///
/// # Panics
///
/// Where `codes` is not as long as `weights`: a bug.
pub fn code(weights: &[f32], scale: f32, codes: &mut [i8], pair: i32) {
    assert_eq!(weights.len(), codes.len(), "a code for each weight");
    let inverse = scale.recip();
    for (two, codes) in weights.chunks(2).zip(codes.chunks_mut(2)) {
        let [first, second] = coded(two, inverse, pair);
        codes[0] = first as i8;
        if let Some(code) = codes.get_mut(1) {
            *code = second as i8;
        }
    }
}

/// The smallest scale at which nothing is clipped (but for rounding); 1 where all is 0.
pub fn unclipped(weights: &[f32], pair: i32) -> f32 {
    let scale = weights.chunks(2).fold(0.0f32, |most, two| {
        let (first, second) = (two[0], two.get(1).copied().unwrap_or(0.0));
        let single = first.abs().max(second.abs()) / LARGEST;
        let both = if first * second > 0.0 {
            (first + second).abs() / pair as f32
        } else {
            0.0
        };
        // An infinite weight leaves a scale to the others.
        [single, both]
            .into_iter()
            .filter(|v| v.is_finite())
            .fold(most, f32::max)
    });
    if scale.is_normal() && scale.recip().is_finite() {
        scale
    } else {
        1.0
    }
}

/// Two neighbours within the limit: what is over it is taken off both.
fn coded(weights: &[f32], inverse: f32, pair: i32) -> [i32; 2] {
    let code = |v: f32| (v * inverse).round_ties_even().clamp(-LARGEST, LARGEST) as i32;
    let first = code(weights[0]);
    let second = weights.get(1).map_or(0, |&v| code(v));
    let over = first.abs() + second.abs() - pair;
    if first.signum() != second.signum() || over <= 0 {
        return [first, second];
    }
    let sign = first.signum();
    [first - sign * (over - over / 2), second - sign * (over / 2)]
}

fn error(weights: &[f32], scale: f32, pair: i32) -> f32 {
    let inverse = scale.recip();
    weights
        .chunks(2)
        .map(|weights| {
            let codes = coded(weights, inverse, pair);
            weights
                .iter()
                .zip(codes)
                .filter(|(weight, _)| weight.is_finite())
                .map(|(weight, code)| (weight - code as f32 * scale).powi(2))
                .sum::<f32>()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // The arithmetic of vpmaddubsw, for the inputs at its ends.
        #[test]
        fn sums_of_pairs_never_leave_16_bits(
            weights in prop::collection::vec(any::<f32>(), 0..64),
            inputs in prop::collection::vec(prop::sample::select(vec![0i32, 1, 128, 255]), 64),
            halved in any::<bool>(),
        ) {
            let mut codes = vec![0; weights.len()];
            let (pair, most) = if halved { (ANY_PAIR, 128) } else { (PAIR, 255) };
            let scale = quantise(&weights, &mut codes, pair);
            prop_assert!(scale.is_finite() && scale > 0.0);
            let inputs: Vec<i32> = inputs.into_iter().map(|u| u.min(most)).collect();
            for (codes, inputs) in codes.chunks(2).zip(inputs.chunks(2)) {
                let sum: i32 = codes.iter().zip(inputs).map(|(&c, &u)| i32::from(c) * u).sum();
                prop_assert!(i16::try_from(sum).is_ok(), "{codes:?} {inputs:?}");
            }
        }

        #[test]
        fn a_weight_is_off_by_no_more_than_half_a_step_where_nothing_is_clipped(
            weights in prop::collection::vec(-1.0f32..1.0, 2..64),
        ) {
            let scale = unclipped(&weights, PAIR);
            for pair in weights.chunks(2) {
                for (weight, code) in pair.iter().zip(coded(pair, scale.recip(), PAIR)) {
                    // A pair whose halves both round up loses one more step.
                    prop_assert!((weight - code as f32 * scale).abs() <= 1.51 * scale);
                }
            }
        }
    }

    // By hand: 100 + 100 are 72 over 128, 36 off each; 127 − 127 have unlike signs and stay; 3 is alone.
    #[test]
    fn only_pairs_of_one_sign_are_cut() {
        assert_eq!(coded(&[100.0, 100.0], 1.0, PAIR), [64, 64]);
        assert_eq!(coded(&[-101.0, -100.0], 1.0, PAIR), [-64, -64]);
        assert_eq!(coded(&[127.0, -127.0], 1.0, PAIR), [127, -127]);
        assert_eq!(coded(&[127.0, 0.0], 1.0, PAIR), [127, 0]);
        assert_eq!(coded(&[3.0], 1.0, PAIR), [3, 0]);
        assert_eq!(coded(&[127.0, 130.0], 1.0, ANY_PAIR), [127, 127]);
    }

    // By hand: neighbours 64 + 64 = 128 just fit at scale 1, so a scale of 1 gives no error at all.
    #[test]
    fn whole_numbers_within_the_limit_are_kept() {
        let weights = [64.0, 64.0, -127.0, 127.0, 1.0, -2.0, 5.0];
        let mut codes = [0; 7];
        assert_eq!(
            quantise(&weights, &mut codes, PAIR).to_bits(),
            1.0f32.to_bits()
        );
        assert_eq!(codes, [64, 64, -127, 127, 1, -2, 5]);
    }

    #[test]
    fn no_weights_and_zeros_have_a_scale_that_can_be_divided_by() {
        assert_eq!(quantise(&[], &mut [], PAIR), 1.0);
        let mut codes = [7; 3];
        assert_eq!(quantise(&[0.0; 3], &mut codes, PAIR), 1.0);
        assert_eq!(codes, [0; 3]);
    }
}
