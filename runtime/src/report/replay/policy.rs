//! Rules that decide which steps run together, and when. Pure: `now` is an argument and nothing sleeps, so a rule that
//! serves live is replayed from a log as it is.

use std::time::Duration;

/// A step that is due and does not run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Since when it is due, since the beginning of the replay.
    pub due: Duration,
    /// What it is; only steps of one role run together.
    pub role: usize,
    /// Whose it is.
    pub stream: usize,
}

/// What to do with a device that is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run these of the waiting steps together, by their places; all of one role.
    Run(Vec<usize>),
    /// Wait until then, or until another step is due.
    WaitUntil(Duration),
}

/// A rule.
pub trait Policy {
    /// Its name.
    fn name(&self) -> &str;

    /// What to do at `now`, while the device is free and these steps wait, the one that is due the longest first.
    /// There is at least one.
    fn decide(&mut self, now: Duration, waiting: &[Waiting]) -> Decision;
}

/// Every step by itself, in the order in which they were due.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBatching;

impl Policy for NoBatching {
    fn name(&self) -> &str {
        "none"
    }

    fn decide(&mut self, _now: Duration, _waiting: &[Waiting]) -> Decision {
        Decision::Run(vec![0])
    }
}

/// The fixed rule that latency-targets.md starts from: at most 4 together, 2 and 4 preferred, wait at most 80 ms for company.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// Sizes that run at once, ascending.
    pub preferred: &'static [usize],
    /// The largest batch.
    pub most: usize,
    /// How long the oldest step waits for company.
    pub window: Duration,
}

impl Default for Fixed {
    fn default() -> Self {
        Self {
            preferred: &[2, 4],
            most: 4,
            window: Duration::from_millis(80),
        }
    }
}

impl Policy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn decide(&mut self, now: Duration, waiting: &[Waiting]) -> Decision {
        let Some(oldest) = waiting.first() else {
            return Decision::WaitUntil(now + self.window);
        };
        let mut members: Vec<usize> = (0..waiting.len())
            .filter(|&at| waiting[at].role == oldest.role)
            .take(self.most)
            .collect();
        let preferred = self
            .preferred
            .iter()
            .rev()
            .find(|&&size| size <= members.len());
        let until = oldest.due + self.window;
        match preferred {
            Some(&size) => {
                members.truncate(size);
                Decision::Run(members)
            }
            None if now >= until => Decision::Run(members),
            None => Decision::WaitUntil(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(dues: &[u64]) -> Vec<Waiting> {
        dues.iter()
            .map(|&ms| Waiting {
                due: Duration::from_millis(ms),
                role: 0,
                stream: 0,
            })
            .collect()
    }

    #[test]
    fn the_fixed_rule_runs_preferred_sizes_at_once_and_waits_80_ms_for_company() {
        let mut rule = Fixed::default();
        let at = Duration::from_millis;
        assert_eq!(
            rule.decide(at(10), &waiting(&[10])),
            Decision::WaitUntil(at(90))
        );
        assert_eq!(
            rule.decide(at(89), &waiting(&[10])),
            Decision::WaitUntil(at(90))
        );
        assert_eq!(rule.decide(at(90), &waiting(&[10])), Decision::Run(vec![0]));
        assert_eq!(
            rule.decide(at(20), &waiting(&[10, 20])),
            Decision::Run(vec![0, 1])
        );
        assert_eq!(
            rule.decide(at(20), &waiting(&[10, 20, 20])),
            Decision::Run(vec![0, 1])
        );
        assert_eq!(
            rule.decide(at(20), &waiting(&[9; 7])),
            Decision::Run(vec![0, 1, 2, 3])
        );
        // Another role is no company.
        let mut mixed = waiting(&[10, 11, 12]);
        mixed[1].role = 1;
        assert_eq!(rule.decide(at(20), &mixed), Decision::Run(vec![0, 2]));
    }
}
