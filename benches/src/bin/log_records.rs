//! Writes a latency log of any size whose truth is known, to measure and to try `firstword log` with.
//!
//! ```text
//! log_records FOLDER [RECORDS [typical|encode|queue|thermal [SEED [PACE]]]]
//! ```
//!
//! PACE multiplies every stage (1.1: ten per cent slower), to have something for `firstword log compare`. What was made
//! slow is in FOLDER/truth.json.

use std::path::Path;
use std::process::ExitCode;

use firstword::log::read::planted::{self, Plan, Plant};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("log_records: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<String, String> {
    let folder = arguments.first().ok_or(
        "expected log_records FOLDER [RECORDS [typical|encode|queue|thermal [SEED [PACE]]]]",
    )?;
    let mut plan = Plan {
        per_segment: 4_000,
        trace: false,
        ..Plan::default()
    };
    let number = |at: usize, what: &str| match arguments.get(at) {
        None => Ok(None),
        Some(text) => text
            .parse::<f64>()
            .map(Some)
            .map_err(|_| format!("expected {what}, found {text:?}")),
    };
    if let Some(records) = number(1, "a number of records")? {
        plan.records = records as u64;
    }
    if let Some(name) = arguments.get(2) {
        plan.plant = Plant::ALL
            .into_iter()
            .find(|plant| plant.name() == name)
            .ok_or_else(|| format!("expected typical, encode, queue or thermal, found {name:?}"))?;
    }
    if let Some(seed) = number(3, "a seed")? {
        plan.seed = seed as u64;
    }
    if let Some(pace) = number(4, "a pace")? {
        plan.pace = pace;
    }
    // A small log is for trying things: with the trace that `log replay` reads.
    plan.trace = plan.records <= 20_000;
    let truth =
        planted::write(Path::new(folder), &plan).map_err(|error| format!("{folder}: {error}"))?;
    Ok(format!(
        "{} records in {folder}, {} of them made slow ({})",
        truth.records,
        truth.slow.len(),
        plan.plant.name()
    ))
}
