//! When does each step run, and what did it cost?
//!
//! The library behind the `firstword` command: the recogniser's schedule, the records of what it cost, and
//! everything between a person's command line and both.

pub mod cli;
pub mod commands;
pub mod config;
pub mod exit;
pub mod interrupt;
pub mod language;
pub mod log;
pub mod output;
pub mod place;
pub mod progress;
pub mod record;
pub mod report;
pub mod speech;
pub mod timings;
