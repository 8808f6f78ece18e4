//! What can be typed behind `firstword log`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

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
    /// Say how fast it was, which stage was slow, and why
    Report(LogReportArgs),
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
