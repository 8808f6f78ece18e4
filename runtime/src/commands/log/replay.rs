//! `firstword log replay`.

use super::{open, places, range};
use crate::cli::{LogReplayArgs, PolicyName};
use crate::commands::Context;
use crate::exit::{CommandError, Exit, name, say};
use crate::log::read::Tally;
use crate::output::Writer;
use crate::report::replay::{Fixed, NoBatching, Policy, load, replay, text};

/// Runs the rules and writes what they made of the load.
pub(super) fn run(args: &LogReplayArgs, context: &Context) -> Result<Exit, CommandError> {
    let places = places(&args.places, context)?;
    let source = open(&places)?;
    let range = range(&args.range, &source)?;
    let mut tally = Tally::default();
    let load = load(&source, &range, &mut tally, &|| {
        context.interrupt.is_requested()
    });
    if let Some(exit) = context.interrupt.requested() {
        return Ok(exit);
    }
    if load.steps.is_empty() {
        let reason = "no trace in it; expected lines of kind `trace`, which a device writes with `trace = true` below [log] in its configuration";
        return Err(CommandError::new(Exit::Input, name(&places[0]), reason));
    }
    let wanted = if args.policies.is_empty() {
        &[PolicyName::None, PolicyName::Fixed]
    } else {
        args.policies.as_slice()
    };
    let mut policies: Vec<Box<dyn Policy>> = wanted
        .iter()
        .map(|name| -> Box<dyn Policy> {
            match name {
                PolicyName::None => Box::new(NoBatching),
                PolicyName::Fixed => Box::new(Fixed::default()),
            }
        })
        .collect();
    let replayed = replay(&load, &mut policies)
        .map_err(|error| CommandError::new(Exit::Input, "log replay", error))?;
    let written = if args.json {
        let json = serde_json::to_string(&replayed)
            .map_err(|error| CommandError::new(Exit::Output, "--json", error))?;
        format!("{json}\n")
    } else {
        text(&replayed)
    };
    Writer::stdout().put(&written)?;
    for remark in tally.remarks() {
        say(&remark);
    }
    Ok(Exit::Success)
}
