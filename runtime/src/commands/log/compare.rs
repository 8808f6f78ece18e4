//! `firstword log compare`.

use super::{open, refused};
use crate::cli::LogCompareArgs;
use crate::commands::Context;
use crate::exit::{CommandError, Exit, name};
use crate::log::read::{Range, Wall};
use crate::output::Writer;
use crate::report::compare::{compare, text};
use crate::report::gather::gather;

/// Reads both sides and writes what changed.
pub(super) fn run(args: &LogCompareArgs, context: &Context) -> Result<Exit, CommandError> {
    let read = |flag: &str, text: &Option<String>| -> Result<Range, CommandError> {
        let range = text.as_deref().map(str::parse).transpose();
        Ok(range
            .map_err(|error| refused(flag, &error))?
            .unwrap_or_default())
    };
    let (before, after) = match &args.split {
        Some(text) => {
            let at: Wall = text.parse().map_err(|error| refused("--split", &error))?;
            let side = |since, until| Range { since, until };
            (side(None, Some(at)), side(Some(at), None))
        }
        None => (
            read("--before", &args.before)?,
            read("--after", &args.after)?,
        ),
    };
    if args.b.is_none() && before == after {
        let reason = "is one log; name a second one, or two times of it with --split or --before and --after";
        return Err(CommandError::new(Exit::Usage, name(&args.a), reason));
    }
    let b = args.b.as_ref().unwrap_or(&args.a);
    let mut sides = Vec::new();
    for (place, range) in [(&args.a, before), (b, after)] {
        let source = open(std::slice::from_ref(place))?;
        let gathered = gather(&source, &range, &|| context.interrupt.is_requested());
        if let Some(exit) = context.interrupt.requested() {
            return Ok(exit);
        }
        sides.push((described(&name(place), &range), gathered));
    }
    let comparison = compare((&sides[0].0, &sides[0].1), (&sides[1].0, &sides[1].1));
    let written = if args.json {
        let json = serde_json::to_string(&comparison)
            .map_err(|error| CommandError::new(Exit::Output, "--json", error))?;
        format!("{json}\n")
    } else {
        text(&comparison)
    };
    Writer::stdout().put(&written)?;
    Ok(Exit::Success)
}

fn described(place: &str, range: &Range) -> String {
    let mut words = place.to_owned();
    if let Some(since) = range.since {
        words.push_str(&format!(" from {since}"));
    }
    if let Some(until) = range.until {
        words.push_str(&format!(" until {until}"));
    }
    words
}
