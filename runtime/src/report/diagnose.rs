//! Which stage made a record miss its objective: the one with the largest excess over what it usually takes.
//!
//! The writer says so in the record, from what it had seen by then. Where it did not (an older log, a record before there
//! was anything to compare with), it is worked out here, from all the warm records of the group that held.

use super::gather::{Columns, LOADED, SHORT_OF_MEMORY, SUSPENDED, THROTTLED};
use super::stage::{Class, class, counts_for};

/// So many records must have held before "usual" means them and not all.
const ENOUGH: usize = 20;

/// What each stage usually takes, µs, in the order of the columns.
#[derive(Clone, Debug, Default)]
pub struct Usual(Vec<u32>);

/// Why a record was slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Number of the stage in the columns.
    pub stage: usize,
    /// What it took, µs.
    pub spent: u32,
    /// What it usually takes, µs.
    pub usual: u32,
    /// A reason beyond the stage.
    pub because: Option<String>,
}

impl Cause {
    /// How much more than usual, µs.
    #[must_use]
    pub fn excess(&self) -> u32 {
        self.spent.saturating_sub(self.usual)
    }
}

impl Usual {
    /// The medians of the records that held; of all, where few did.
    #[must_use]
    pub fn of(columns: &Columns) -> Self {
        let held = (0..columns.count)
            .filter(|&at| columns.held.get(at) == Some(1))
            .count();
        let enough = held >= ENOUGH;
        Self(
            columns
                .stages
                .iter()
                .map(|(_, column)| {
                    let mut values: Vec<u32> = (0..columns.count)
                        .filter(|&at| !enough || columns.held.get(at) == Some(1))
                        .filter_map(|at| column.get(at))
                        .collect();
                    // The median alone: a fifth of what sorting costs.
                    let middle = values.len().div_ceil(2).saturating_sub(1);
                    if values.is_empty() {
                        0
                    } else {
                        *values.select_nth_unstable(middle).1
                    }
                })
                .collect(),
        )
    }

    /// Known already, in the order of the columns.
    #[must_use]
    pub fn known(usual: Vec<u32>) -> Self {
        Self(usual)
    }

    /// What a stage usually takes, µs.
    #[must_use]
    pub fn stage(&self, stage: usize) -> u32 {
        self.0.get(stage).copied().unwrap_or_default()
    }
}

/// Why record `at` was slow: the writer's word, or the largest excess among the stages that `metric` covers.
/// `usual` has the order of `columns.stages`.
#[must_use]
pub fn cause(
    columns: &Columns,
    usual: &Usual,
    at: usize,
    metric: Option<&str>,
    cold: bool,
) -> Option<Cause> {
    let spent = |stage: usize| columns.stages[stage].1.get(at);
    let named = columns.cause.get(at).map(|stage| stage as usize);
    let stage = named.or_else(|| {
        (0..columns.stages.len())
            .filter(|&stage| counts_for(&columns.stages[stage].0, metric))
            .filter_map(|stage| Some((spent(stage)?.saturating_sub(usual.stage(stage)), stage)))
            .filter(|(excess, _)| *excess > 0)
            // Of two that are equal, the earlier one.
            .max_by_key(|&(excess, stage)| (excess, std::cmp::Reverse(stage)))
            .map(|(_, stage)| stage)
    })?;
    let because = match named.and(columns.because.get(at)) {
        Some(because) => columns.becauses.get(because as usize).cloned(),
        None if named.is_some() => None,
        None => {
            let conditions = columns.conditions.get(at).copied().unwrap_or_default();
            let has = |condition: u8| conditions & condition != 0;
            if has(SUSPENDED) {
                Some("suspend")
            } else if class(&columns.stages[stage].0) == Class::Queue {
                Some("queue")
            } else if has(THROTTLED) {
                Some("thermal")
            } else if cold {
                Some("cold")
            } else if has(SHORT_OF_MEMORY) {
                Some("memory")
            } else if has(LOADED) {
                Some("load")
            } else {
                None
            }
            .map(str::to_owned)
        }
    };
    Some(Cause {
        stage,
        spent: spent(stage).unwrap_or_default(),
        usual: usual.stage(stage),
        because,
    })
}
