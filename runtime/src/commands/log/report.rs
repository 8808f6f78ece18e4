//! `firstword log report`.

use super::{open, places, range};
use crate::cli::LogReportArgs;
use crate::commands::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{Writer, replace};
use crate::report::gather::gather;
use crate::report::summary::summarise;
use crate::report::{html, table};

/// Reads the logs and writes what they say.
pub(super) fn run(args: &LogReportArgs, context: &Context) -> Result<Exit, CommandError> {
    let places = places(&args.places, context)?;
    let source = open(&places)?;
    let range = range(&args.range, &source)?;
    let gathered = gather(&source, &range, &|| context.interrupt.is_requested());
    if let Some(exit) = context.interrupt.requested() {
        return Ok(exit);
    }
    let summary = summarise(&source, &places, &range, &gathered);
    drop(gathered);
    if let Some(path) = &args.html {
        replace(path, html::page(&summary).as_bytes())?;
        return Ok(Exit::Success);
    }
    let text = if args.json {
        let json = serde_json::to_string(&summary)
            .map_err(|error| CommandError::new(Exit::Output, "--json", error))?;
        format!("{json}\n")
    } else {
        table::text(&summary)
    };
    Writer::stdout().put(&text)?;
    Ok(Exit::Success)
}
