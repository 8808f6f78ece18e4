//! `firstword transcribe`: recordings and streams to text.

use super::Context;
use crate::cli::TranscribeArgs;
use crate::exit::{CommandError, Exit};

/// Transcribes the files in order.
///
/// # Errors
/// Always, until the recogniser is connected.
pub fn run(_args: &TranscribeArgs, _context: &Context) -> Result<Exit, CommandError> {
    Err(CommandError::new(
        Exit::OnnxRuntime,
        "transcribe",
        "the recogniser is not connected yet",
    ))
}
