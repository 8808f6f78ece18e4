//! Chooses how each product of `fast` and `balanced` is made: where inputs are rounded once, where they are turned before,
//! where they are rounded twice, and where a product stays that of `exact`.
//!
//! All begin rounded once. Then time is spent where it takes most of the expected error away. A product's time is
//! counted in that of a product rounded once, for each of its weights: 1, 2 and 3. Measured without VNNI (AMD Zen 3, 512
//! tokens, layers of SmolLM2 and Gemma 3) they make 172, 86 and 57 billion operations a second. To turn inputs takes a
//! product of floats with as many outputs as a block has channels.

use super::{Precision, Quality};
use crate::language::lower::smoothing::Choice;
use crate::language::lower::{Place, Smoothing, Way, Ways, turn};

/// A product of floats in the time of one of bytes rounded once, for each weight.
const FLOATS: f64 = 3.0;

/// A product, and what it would cost.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Where.
    pub place: Place,
    /// Its part of all layers' weights.
    pub part: f64,
    /// Its outputs.
    pub outputs: usize,
    /// The expected errors.
    pub choice: Choice,
}

/// How much time a precision may take, step by step: [`is_near`] decides how far it goes.
#[must_use]
pub fn times(precision: Precision) -> &'static [f64] {
    match precision {
        // Neither chooses.
        Precision::Float | Precision::Exact => &[0.0],
        Precision::Balanced => &[2.5],
        Precision::Fast => &[1.1, 1.25, 1.6],
    }
}

/// Whether a distance from `exact` is small enough: more time is taken only beyond it. Some models answer to the same
/// errors with ten times the distance of others (SmolLM2 and Gemma 3 do), so it is measured.
#[must_use]
pub fn is_near(quality: &Quality) -> bool {
    quality.kl <= 0.01 && quality.top1 >= 0.95
}

/// A way for each place, with the factors that go with it: time up to this mean of a product is given
/// to whatever gains most for it.
pub fn choose(most: f64, candidates: &[Candidate]) -> (Ways, Smoothing) {
    let mut steps: Vec<Step> = candidates.iter().flat_map(steps).collect();
    steps.sort_by(|a, b| b.worth.total_cmp(&a.worth));
    let mut ways: Ways = candidates.iter().map(|c| (c.place, Way::Once)).collect();
    let mut time: f64 = candidates.iter().map(|c| c.part).sum();
    for step in steps {
        // What does not fit leaves room for smaller ones.
        if time + step.time <= most && ways.get(&step.place) == Some(&step.from) {
            ways.insert(step.place, step.to);
            time += step.time;
        }
    }
    let mut smoothing = Smoothing::new();
    for Candidate { place, choice, .. } in candidates {
        let factors = match ways.get(place) {
            Some(Way::Once) => Some(&choice.once),
            Some(Way::Turned) => choice.turned.as_ref(),
            Some(Way::Twice) => Some(&choice.twice),
            Some(Way::Exact) | None => None,
        };
        smoothing.extend(factors.map(|factors| (*place, factors.values.clone())));
    }
    (ways, smoothing)
}

/// A better way for a product, and what it takes.
struct Step {
    place: Place,
    from: Way,
    to: Way,
    time: f64,
    /// Error taken away, for this time.
    worth: f64,
}

/// The steps that a place can take, one after the other, each worth less than the one before.
fn steps(candidate: &Candidate) -> Vec<Step> {
    let Candidate {
        place,
        part,
        outputs,
        choice,
    } = candidate;
    let turning = 1.0 + FLOATS * turn::BLOCK as f64 / (*outputs).max(1) as f64;
    let mut left = vec![
        (Way::Twice, 2.0, choice.twice.error),
        (Way::Exact, 3.0, 0.0),
    ];
    left.extend(
        choice
            .turned
            .as_ref()
            .map(|f| (Way::Turned, turning, f.error)),
    );
    let mut steps = Vec::new();
    let mut now = (Way::Once, 1.0, choice.once.error);
    loop {
        left.retain(|way| way.1 > now.1 && way.2 < now.2);
        let worth = |way: &(Way, f64, f64)| (now.2 - way.2) / (way.1 - now.1);
        let best = left.iter().max_by(|a, b| worth(a).total_cmp(&worth(b)));
        let Some(&next) = best else { return steps };
        steps.push(Step {
            place: *place,
            from: now.0,
            to: next.0,
            time: (next.1 - now.1) * part,
            worth: worth(&next) / part,
        });
        now = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::lower::Role;
    use crate::language::lower::smoothing::Factors;

    fn candidate(layer: usize, part: f64, once: f64, twice: f64) -> Candidate {
        let factors = |error, value| Factors {
            values: vec![value],
            error,
        };
        Candidate {
            place: Place {
                layer,
                role: Role::Down,
            },
            part,
            outputs: 960,
            choice: Choice {
                once: factors(once, 1.0),
                turned: None,
                twice: factors(twice, 2.0),
            },
        }
    }

    fn way(ways: &Ways, layer: usize) -> Option<Way> {
        let role = Role::Down;
        ways.get(&Place { layer, role }).copied()
    }

    // By hand: the first gains 8 for a quarter of the time, then 1 for another; the second 2 and 1 for three quarters.
    #[test]
    fn time_goes_where_it_takes_most_away() {
        let candidates = [candidate(0, 0.25, 9.0, 1.0), candidate(1, 0.75, 3.0, 1.0)];
        let at = |most| {
            let (ways, _) = choose(most, &candidates);
            [way(&ways, 0), way(&ways, 1)].map(Option::unwrap)
        };
        assert_eq!(at(1.0), [Way::Once, Way::Once]);
        assert_eq!(at(1.25), [Way::Twice, Way::Once]);
        assert_eq!(at(1.5), [Way::Exact, Way::Once]);
        assert_eq!(at(2.0), [Way::Exact, Way::Once]);
        assert_eq!(at(2.25), [Way::Exact, Way::Twice]);
        assert_eq!(at(3.0), [Way::Exact, Way::Exact]);
    }

    // By hand: rounding twice gains 1, being exact 10 for twice the time: 5 for each part, more than the other's 3.
    #[test]
    fn a_product_that_gains_by_being_exact_alone_is_not_rounded_twice() {
        let candidates = [candidate(0, 0.5, 10.0, 9.0), candidate(1, 0.5, 3.0, 1.5)];
        let (ways, smoothing) = choose(2.0, &candidates);
        assert_eq!(way(&ways, 0), Some(Way::Exact));
        assert_eq!(way(&ways, 1), Some(Way::Once));
        // What is exact has no factors.
        assert_eq!(smoothing.len(), 1);
    }

    #[test]
    fn factors_are_those_of_the_way() {
        let (_, smoothing) = choose(2.0, &[candidate(3, 1.0, 1.0, 0.1)]);
        assert_eq!(smoothing.into_values().next().unwrap(), [2.0]);
    }

    // By hand: turned 960 outputs take 0.1 more; that gains 7 for 0.05, being exact 2 more for 0.95.
    #[test]
    fn what_is_turned_takes_little_more_time() {
        let mut turned = candidate(0, 0.5, 9.0, 1.9);
        turned.choice.turned = Some(Factors {
            values: vec![3.0],
            error: 2.0,
        });
        let candidates = [turned, candidate(1, 0.5, 1.0, 0.9)];
        let at = |most| way(&choose(most, &candidates).0, 0).unwrap();
        assert_eq!(at(1.04), Way::Once);
        assert_eq!(at(1.06), Way::Turned);
        assert_eq!(at(1.9), Way::Turned);
        assert_eq!(at(2.1), Way::Exact);
        assert_eq!(choose(1.06, &candidates).1[&candidates[0].place], [3.0]);
    }
}
