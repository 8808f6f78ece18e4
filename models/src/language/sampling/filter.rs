//! Which tokens stay in the draw: the highest, then top-k, top-p, min-p. No full sort anywhere: a filter finds the
//! rank at which it cuts by selection (expected time proportional to the vocabulary) and keeps what is not below it,
//! in the order of the vocabulary.
//!
//! Of equal logits, the one with the lower token id ranks higher, so that a cut is the same on every run.

use std::cmp::Ordering;

/// A token in the draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its id.
    pub token: u32,
    /// Its logit, penalties and bias included.
    pub logit: f32,
}

/// The better first.
fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Logits looked at together: the compiler turns the search for their maximum into vector instructions.
const BLOCK: usize = 256;

/// The largest of a block, and whether something in it is neither finite nor −∞.
fn look(block: &[f32]) -> (f32, bool) {
    const LANES: usize = 8;
    let mut highest = [f32::NEG_INFINITY; LANES];
    let mut sound = [true; LANES];
    let (whole, rest) = block.as_chunks::<LANES>();
    for eight in whole {
        for lane in 0..LANES {
            let x = eight[lane];
            highest[lane] = if x > highest[lane] { x } else { highest[lane] };
            sound[lane] &= x < f32::INFINITY;
        }
    }
    for (lane, &x) in rest.iter().enumerate() {
        highest[lane] = if x > highest[lane] { x } else { highest[lane] };
        sound[lane] &= x < f32::INFINITY;
    }
    let top = highest.into_iter().fold(f32::NEG_INFINITY, f32::max);
    (top, sound.contains(&false))
}

/// The candidate with the highest logit, in one pass; the first of equals. An empty slice, or one of −∞ only, gives
/// token 0 with −∞.
///
/// # Errors
///
/// The first token whose logit is NaN or +∞.
pub fn highest(logits: &[f32]) -> Result<Candidate, usize> {
    let mut best = Candidate {
        token: 0,
        logit: f32::NEG_INFINITY,
    };
    for (index, block) in logits.chunks(BLOCK).enumerate() {
        let (top, unsound) = look(block);
        let first = index * BLOCK;
        if unsound {
            let at = block.iter().position(|&x| x.is_nan() || x == f32::INFINITY);
            return Err(first + at.unwrap_or(0));
        }
        if top > best.logit {
            let at = block.iter().position(|&x| x == top).unwrap_or(0);
            best = Candidate {
                token: (first + at) as u32,
                logit: top,
            };
        }
    }
    Ok(best)
}

/// Every token that is not ruled out (−∞) and whose logit is not below the floor, in `out`.
pub fn all(logits: &[f32], floor: f32, out: &mut Vec<Candidate>) {
    out.clear();
    for (index, block) in logits.chunks(BLOCK).enumerate() {
        if look(block).0 < floor {
            continue;
        }
        let candidates = ((index * BLOCK) as u32..)
            .zip(block)
            .map(|(token, &logit)| Candidate { token, logit });
        out.extend(candidates.filter(|c| c.logit >= floor && c.logit > f32::NEG_INFINITY));
    }
}

/// Top-k: the `k` highest, in `out`, in the order of the vocabulary. `scratch` holds 2·k at most.
pub fn top_k(logits: &[f32], k: usize, out: &mut Vec<Candidate>, scratch: &mut Vec<Candidate>) {
    debug_assert!(k > 0);
    scratch.clear();
    out.clear();
    // Below the floor a logit cannot be among the k highest. Equal to it neither: those found first rank higher.
    let mut floor = f32::NEG_INFINITY;
    for (index, block) in logits.chunks(BLOCK).enumerate() {
        if look(block).0 <= floor {
            continue;
        }
        for (token, &logit) in ((index * BLOCK) as u32..).zip(block) {
            if logit > floor {
                scratch.push(Candidate { token, logit });
                if scratch.len() == 2 * k {
                    scratch.select_nth_unstable_by(k - 1, by_rank);
                    scratch.truncate(k);
                    floor = scratch[k - 1].logit;
                }
            }
        }
    }
    if scratch.len() > k {
        scratch.select_nth_unstable_by(k - 1, by_rank);
        scratch.truncate(k);
    }
    let Some(last) = scratch.iter().copied().max_by(by_rank) else {
        return;
    };
    for (index, block) in logits.chunks(BLOCK).enumerate() {
        if look(block).0 < last.logit {
            continue;
        }
        let candidates = ((index * BLOCK) as u32..)
            .zip(block)
            .map(|(token, &logit)| Candidate { token, logit });
        out.extend(candidates.filter(|c| by_rank(c, &last).is_le()));
    }
}

/// Below this logit no token can be in what [`top_p`] leaves of `count` candidates whose weights sum up to `total`:
/// all that are less probable than an equal share of 1 − p have, together, less than 1 − p, so the cut is above them.
pub fn top_p_floor(p: f32, highest: f32, total: f64, count: usize) -> f32 {
    /// Of a logit: far more than the rounding of weights and sums.
    const MARGIN: f32 = 0.01;
    let share = (1.0 - f64::from(p)) * total / count.max(1) as f64;
    highest + share.ln() as f32 - MARGIN
}

/// Top-p: the fewest of the highest whose probabilities (at temperature 1) reach `p`. `highest` is the largest logit,
/// and `total` the sum of the weights `exp(logit − highest)`, of all there were to choose from; candidates below
/// [`top_p_floor`] may be missing already.
pub fn top_p(
    p: f32,
    highest: f32,
    total: f64,
    candidates: &mut Vec<Candidate>,
    scratch: &mut Vec<Candidate>,
) {
    /// Few enough to be sorted.
    const FEW: usize = 64;
    let weight = |c: &Candidate| f64::from((c.logit - highest).exp());
    scratch.clear();
    scratch.extend_from_slice(candidates);
    let mut need = f64::from(p) * total;
    // Whatever ranks above `rest` is kept already; `need` is what is still missing.
    let mut rest = scratch.as_mut_slice();
    let mut last = None;
    while rest.len() > FEW {
        let middle = rest.len() / 2;
        rest.select_nth_unstable_by(middle, by_rank);
        let above: f64 = rest[..middle].iter().map(weight).sum();
        if above >= need {
            rest = &mut rest[..middle];
        } else {
            need -= above;
            rest = &mut rest[middle..];
        }
    }
    rest.sort_unstable_by(by_rank);
    for candidate in rest {
        last = Some(*candidate);
        need -= weight(candidate);
        if need <= 0.0 {
            break;
        }
    }
    if let Some(last) = last {
        candidates.retain(|c| by_rank(c, &last).is_le());
    }
}

/// Min-p keeps what is not below this logit: those whose probability is at least `p` times that of the highest.
pub fn min_p_floor(p: f32, highest: f32) -> f32 {
    highest + p.ln()
}

/// Min-p among what other filters left.
pub fn min_p(p: f32, highest: f32, candidates: &mut Vec<Candidate>) {
    let floor = min_p_floor(p, highest);
    candidates.retain(|c| c.logit >= floor);
}

/// The `count` highest and their logits, best first, in `out`.
pub fn best(logits: &[f32], count: usize, out: &mut Vec<Candidate>, scratch: &mut Vec<Candidate>) {
    out.clear();
    if count > 0 {
        top_k(logits, count, out, scratch);
        out.sort_unstable_by(by_rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All candidates, sorted: what the filters avoid.
    fn sorted(logits: &[f32]) -> Vec<Candidate> {
        let mut found = Vec::new();
        all(logits, f32::NEG_INFINITY, &mut found);
        found.sort_by(by_rank);
        found
    }

    fn tokens(candidates: &[Candidate]) -> Vec<u32> {
        let mut tokens: Vec<u32> = candidates.iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn the_highest_is_the_first_of_equals_wherever_it_stands() {
        for at in [0, 7, 8, 255, 256, 999] {
            let mut logits = vec![-3.0; 1000];
            logits[at] = -1.0;
            logits[999] = -1.0;
            let found = highest(&logits).unwrap();
            assert_eq!((found.token as usize, found.logit), (at, -1.0));
        }
    }

    #[test]
    fn a_logit_that_is_no_number_is_found_wherever_it_stands() {
        for bad in [f32::NAN, f32::INFINITY] {
            for at in [0, 9, 255, 256, 998] {
                let mut logits = vec![0.0; 999];
                logits[at] = bad;
                assert_eq!(highest(&logits), Err(at));
            }
        }
        assert_eq!(
            highest(&[f32::NEG_INFINITY; 3]).unwrap().logit,
            f32::NEG_INFINITY
        );
    }

    proptest! {
        // Few different values: many ties. The expected sets come from a full sort.
        #[test]
        fn filters_keep_what_a_full_sort_keeps(
            logits in proptest::collection::vec((-6i8..6).prop_map(|x| f32::from(x) * 0.75), 1..700),
            k in 1usize..800,
            p in 0.01f32..1.0,
        ) {
            let sorted = sorted(&logits);
            let (mut out, mut scratch) = (Vec::new(), Vec::new());
            top_k(&logits, k, &mut out, &mut scratch);
            prop_assert_eq!(tokens(&out), tokens(&sorted[..k.min(sorted.len())]));
            prop_assert!(out.is_sorted_by_key(|c| c.token));
            best(&logits, k, &mut out, &mut scratch);
            prop_assert_eq!(&out[..], &sorted[..k.min(sorted.len())]);

            let weights: Vec<f64> = sorted.iter().map(|c| f64::from((c.logit - sorted[0].logit).exp())).collect();
            let total: f64 = weights.iter().sum();
            // The floor leaves out none that belongs to it.
            for floor in [f32::NEG_INFINITY, top_p_floor(p, sorted[0].logit, total, sorted.len())] {
                all(&logits, floor, &mut scratch);
                std::mem::swap(&mut out, &mut scratch);
                top_p(p, sorted[0].logit, total, &mut out, &mut scratch);
                prop_assert_eq!(tokens(&out), tokens(&sorted[..out.len()]));
            }
            let mass = |n: usize| weights[..n].iter().sum::<f64>() / total;
            // Enough, and with one less not enough (but for rounding).
            prop_assert_eq!(tokens(&out), tokens(&sorted[..out.len()]));
            prop_assert!(mass(out.len()) >= f64::from(p) - 1e-9);
            prop_assert!(mass(out.len() - 1) < f64::from(p) + 1e-9);
        }
    }
}
