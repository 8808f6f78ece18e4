//! `firstword log`: what the latency log of this device, or of another one, says.

use std::path::PathBuf;

mod compare;
mod export;
mod replay;
mod report;
mod tail;

use super::Context;
use crate::cli::{LogAction, LogArgs, RangeArgs};
use crate::exit::{CommandError, Exit, say};
use crate::log::read::{Range, ReadError, Source, Wall, WallError, span};

/// Runs the command that was typed.
///
/// # Errors
/// [`Exit::Input`] for a place without a log, [`Exit::Usage`] for a time that can't be understood, [`Exit::Output`] when
/// the result can't be written.
pub fn run(args: &LogArgs, context: &Context) -> Result<Exit, CommandError> {
    match &args.action {
        LogAction::Tail(args) => tail::run(args, context),
        LogAction::Report(args) => report::run(args, context),
        LogAction::Compare(args) => compare::run(args, context),
        LogAction::Replay(args) => replay::run(args, context),
        LogAction::Export(args) => export::run(args, context),
    }
}

/// The places that were named, else this device's log folder.
fn places(named: &[PathBuf], context: &Context) -> Result<Vec<PathBuf>, CommandError> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    Ok(vec![context.log_folder()?])
}

/// Opens the logs at these places.
fn open(places: &[PathBuf]) -> Result<Source, CommandError> {
    let source = Source::open(places)?;
    for refused in source.refused() {
        say(&format!("left out: {refused}"));
    }
    Ok(source)
}

/// The range that was typed.
fn range(args: &RangeArgs, source: &Source) -> Result<Range, CommandError> {
    let end = |flag: &str, text: &Option<String>| {
        text.as_deref()
            .map(|text| text.parse::<Wall>().map_err(|error| refused(flag, &error)))
            .transpose()
    };
    if let Some(text) = &args.last {
        let span = span(text).map_err(|error| refused("--last", &error))?;
        let Some(newest) = source.newest() else {
            let reason = "the log has no wall clock (schema 1), so nobody knows what its last hours are; leave it out";
            return Err(CommandError::new(Exit::Usage, "--last", reason));
        };
        return Range::new(Some(newest.before(span)), None).map_err(|e| refused("--last", &e));
    }
    Range::new(end("--since", &args.since)?, end("--until", &args.until)?)
        .map_err(|error| refused("--until", &error))
}

fn refused(flag: &str, error: &WallError) -> CommandError {
    CommandError::new(Exit::Usage, flag, error)
}

impl From<ReadError> for CommandError {
    fn from(error: ReadError) -> Self {
        Self::new(Exit::Input, "", error)
    }
}
