//! A log as a table for other programs: one row for each utterance, request and turn, the same columns for every log, so
//! that the exports of a fleet can be read together.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;
mod row;

use std::io;
use std::ops::ControlFlow;

use crate::log::read::{Content, Range, Source, Tally};

pub use csv::Csv;
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
pub use row::{COLUMNS, Cell, Column, Kind};

/// Takes rows, one after the other.
pub trait Rows {
    /// Takes a row; its cells have the order of [`COLUMNS`].
    ///
    /// # Errors
    /// When it can't be written.
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()>;

    /// All rows were given.
    ///
    /// # Errors
    /// When the rest can't be written.
    fn finish(&mut self) -> io::Result<()>;
}

/// Writes the records within a range, in the order of their times, and says how many.
///
/// # Errors
/// When a row can't be written.
pub fn export(
    source: &Source,
    range: &Range,
    stop: &dyn Fn() -> bool,
    tally: &mut Tally,
    rows: &mut dyn Rows,
) -> io::Result<u64> {
    let (mut count, mut failed) = (0, None);
    source.in_order(range, tally, &mut |segment, line| {
        let Content::Work(work) = &line.content else {
            return ControlFlow::Continue(());
        };
        if let Err(error) = rows.row(row::row(segment, line.at_ns, work)) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        count += 1;
        if stop() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    match failed {
        Some(error) => Err(error),
        None => rows.finish().map(|()| count),
    }
}
