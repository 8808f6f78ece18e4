//! `firstword log export`.

use std::io::{self, BufWriter, Write};

use super::{open, places, range};
use crate::cli::{ExportFormat, LogExportArgs};
use crate::commands::Context;
use crate::exit::{CommandError, Exit, name, say};
use crate::log::read::{Range, Source, Tally};
use crate::output::{OutputError, Part};
use crate::report::export::{self, Csv, Rows};

/// Writes the table.
pub(super) fn run(args: &LogExportArgs, context: &Context) -> Result<Exit, CommandError> {
    if args.format == ExportFormat::Parquet {
        if cfg!(not(feature = "parquet")) {
            let reason = "this program was built without Parquet; build it with `cargo build --release -p firstword --features parquet`, or use --format csv";
            return Err(CommandError::new(Exit::Usage, "--format", reason));
        }
        if args.output.is_none() {
            let reason = "Parquet is written into a file; name one with --output";
            return Err(CommandError::new(Exit::Usage, "--format", reason));
        }
    }
    let source = open(&places(&args.places, context)?)?;
    let range = range(&args.range, &source)?;
    let mut tally = Tally::default();
    match &args.output {
        Some(path) => {
            let mut part = Part::create(path)?;
            write(
                args.format,
                part.file(),
                &source,
                &range,
                context,
                &mut tally,
            )
            .map_err(|error| OutputError::new(&name(path), error))?;
            // What was cut off by Ctrl-C does not replace what is there.
            if let Some(exit) = context.interrupt.requested() {
                return Ok(exit);
            }
            part.keep()?;
        }
        None => write(
            args.format,
            io::stdout(),
            &source,
            &range,
            context,
            &mut tally,
        )
        .map_err(|error| OutputError::new("standard output", error))?,
    }
    for remark in tally.remarks() {
        say(&remark);
    }
    Ok(context.interrupt.requested().unwrap_or(Exit::Success))
}

fn write(
    format: ExportFormat,
    out: impl Write + Send,
    source: &Source,
    range: &Range,
    context: &Context,
    tally: &mut Tally,
) -> io::Result<()> {
    let out = BufWriter::with_capacity(1 << 18, out);
    let mut rows: Box<dyn Rows + '_> = match format {
        #[cfg(feature = "parquet")]
        ExportFormat::Parquet => Box::new(export::Parquet::new(out)?),
        _ => Box::new(Csv::new(out)?),
    };
    let stop = || context.interrupt.is_requested();
    export::export(source, range, &stop, tally, rows.as_mut()).map(drop)
}
