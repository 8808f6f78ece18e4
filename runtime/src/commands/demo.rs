//! `firstword demo`: a real recording as text, with the latency of each stage.

use super::Context;
use super::transcribe::Session;
use crate::cli::{DemoArgs, TranscribeArgs};
use crate::exit::{CommandError, Exit, aside};
use crate::output;

/// The catalogue's name of the recordings.
const CLIPS: &str = "demo-clips";
/// The recordings that hold speech.
const FILES: [&str; 2] = ["beckett.wav", "two_cities.wav"];

/// Transcribes the demo's recordings and prints what each stage cost.
///
/// # Errors
/// When a model, a recording or the library is missing; says what to do.
pub fn run(_args: &DemoArgs, context: &Context) -> Result<Exit, CommandError> {
    let clips = context.store()?.resolve(CLIPS)?;
    let (log, recorder) = context.log();
    let mut recogniser = context.recogniser(&recorder)?;
    let mut exit = Exit::Success;
    for file in FILES {
        let path = clips.file(file);
        let args = TranscribeArgs::of_file(path.clone());
        aside(&format!("\n$ firstword transcribe --timings {file}\n"));
        let sink = output::open(&args)?;
        let mut session = Session::new(context, &mut recogniser, sink);
        exit = exit.and(session.file(&path, &args)?);
        session.finish(true)?;
        if context.interrupt.is_requested() {
            break;
        }
    }
    if let Some(log) = log {
        log.finish();
    }
    aside(
        "\nYour own recording: firstword transcribe FILE (`--partials` shows the words as they come)\n",
    );
    Ok(exit)
}
