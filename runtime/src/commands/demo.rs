//! `firstword demo`: a real recording as text, with the latency of each stage.

use super::Context;
use crate::cli::DemoArgs;
use crate::exit::{CommandError, Exit};

/// Runs the demo.
///
/// # Errors
/// Always, until the recogniser is connected.
pub fn run(_args: &DemoArgs, _context: &Context) -> Result<Exit, CommandError> {
    Err(CommandError::new(
        Exit::OnnxRuntime,
        "demo",
        "the recogniser is not connected yet",
    ))
}
