//! What can be typed behind `firstword log`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `firstword log`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct LogArgs {
    /// What to do with latency logs.
    #[command(subcommand)]
    pub action: LogAction,
}

/// What to do with latency logs.
#[derive(Debug, Subcommand)]
pub enum LogAction {
    /// Show the last turns, one line each, and with -f those to come
    Tail(LogTailArgs),
    /// Say how fast it was, which stage was slow, and why
    Report(LogReportArgs),
    /// Say what changed between two logs, or between two times of one
    Compare(LogCompareArgs),
    /// Run other batching rules over a recorded load
    Replay(LogReplayArgs),
    /// Write a log as a table for DuckDB, Spark, pandas and others
    Export(LogExportArgs),
}

/// Arguments of `firstword log tail`.
#[derive(Debug, Args)]
#[command(after_help = "\
A line has the time (UTC), what it was, the latency with ✓ or ✗ for its objective,
and where the time went:
  █ work   ▒ waiting for a turn   ░ pause that proves the end   ▓ the slow stage

Examples:
  firstword log tail -f                         what happens on this device now
  firstword log tail -n 50 /media/stick/log
  firstword log tail --color always | less -R")]
pub struct LogTailArgs {
    /// Log folder or file [default: this device's log folder]
    #[arg(value_name = "PATH")]
    pub place: Option<PathBuf>,
    /// Go on with what is written from now on, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// Lines of what was before
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub lines: u32,
    /// Colour: on a terminal unless NO_COLOR is set (auto), or as said
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: When,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Arguments of `firstword log report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads log folders copied from any device, without network; times are UTC.

Examples:
  firstword log report                          this device's log
  firstword log report /media/stick/log         a copied one
  firstword log report --last 2h                the two hours before its last record
  firstword log report --since 2026-11-24T08:00 --until 2026-11-24T09:00 cabinet-7/log
  firstword log report --html report.html cabinet-7/log cabinet-8/log
  firstword log report --json | jq -r '.groups[].findings[]'")]
pub struct LogReportArgs {
    /// Log folders or files [default: this device's log folder]
    #[arg(value_name = "PATH")]
    pub places: Vec<PathBuf>,
    /// Only what was written in this time
    #[command(flatten)]
    pub range: RangeArgs,
    /// Write one JSON object [default: tables for people]
    #[arg(long)]
    pub json: bool,
    /// Write one page with charts into this file, replacing it; it needs neither network nor script [default: no page]
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
}

/// A range of time.
#[derive(Clone, Debug, Default, Args)]
pub struct RangeArgs {
    /// Leave out what is older: 2026-11-24 or 2026-11-24T08:30, UTC unless it ends in an offset [default: nothing]
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Leave out this instant and what is newer [default: nothing]
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only so much before the log's last record: 30min, 2h, 7d [default: all]
    #[arg(long, value_name = "SPAN", conflicts_with_all = ["since", "until"])]
    pub last: Option<String>,
}

/// Arguments of `firstword log compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Compares what both have: the same kind of work with the same model on the same target,
warm records only. A difference counts where its bootstrap interval leaves out zero;
the interval is wide enough for 95 % over all rows of a table together.

Examples:
  firstword log compare monday/log tuesday/log
  firstword log compare --split 2026-11-24T12:00 cabinet-7/log      before and after an update
  firstword log compare --before 2026-11-23..2026-11-24 --after 2026-11-24..2026-11-25 cabinet-7/log
  firstword log compare --json monday/log tuesday/log | jq -r '.verdict'")]
pub struct LogCompareArgs {
    /// The log before: a folder or file
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The log after [default: A at another time]
    #[arg(value_name = "B")]
    pub b: Option<PathBuf>,
    /// Compare what was before this time with what was from it on: 2026-11-24T12:00, UTC
    #[arg(long, value_name = "TIME", conflicts_with_all = ["b", "before", "after"])]
    pub split: Option<String>,
    /// Only this range of A: FROM..TO, either may be left out [default: all]
    #[arg(long, value_name = "RANGE")]
    pub before: Option<String>,
    /// Only this range of B [default: all]
    #[arg(long, value_name = "RANGE")]
    pub after: Option<String>,
    /// Write one JSON object [default: tables for people]
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `firstword log export`.
#[derive(Debug, Args)]
#[command(after_help = "\
One row for each utterance, request and turn, in the order of time; every log has the
same columns. Parquet needs a program that was built with it (cargo build --features parquet).

Examples:
  firstword log export --format csv cabinet-7/log > cabinet-7.csv
  firstword log export --format parquet -o cabinet-7.parquet cabinet-7/log
  duckdb -c \"select device, quantile_cont(ttft_ms, 0.95) from 'fleet/*.csv' group by device\"")]
pub struct LogExportArgs {
    /// Log folders or files [default: this device's log folder]
    #[arg(value_name = "PATH")]
    pub places: Vec<PathBuf>,
    /// Only what was written in this time
    #[command(flatten)]
    pub range: RangeArgs,
    /// What to write
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    pub format: ExportFormat,
    /// Write into this file, replacing it [default: standard output, CSV only]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Comma-separated values with a header (RFC 4180)
    Csv,
    /// Apache Parquet
    Parquet,
}

/// Arguments of `firstword log replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Needs a log with a trace (trace = true below [log] in the configuration): the steps
of the device with the times at which they were due.

Rules:
  none   every step by itself, in the order in which they were due
  fixed  at most 4 together, 2 and 4 preferred, wait at most 80 ms for company

Examples:
  firstword log replay cabinet-7/log
  firstword log replay --policy fixed --last 1h --json cabinet-7/log")]
pub struct LogReplayArgs {
    /// Log folders or files [default: this device's log folder]
    #[arg(value_name = "PATH")]
    pub places: Vec<PathBuf>,
    /// Only what was written in this time
    #[command(flatten)]
    pub range: RangeArgs,
    /// A rule to run, may be given again [default: all of them]
    #[arg(long = "policy", value_name = "NAME")]
    pub policies: Vec<PolicyName>,
    /// Write one JSON object [default: tables for people]
    #[arg(long)]
    pub json: bool,
}

/// A batching rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// Every step by itself
    None,
    /// At most 4, preferred 2 and 4, wait at most 80 ms
    Fixed,
}
