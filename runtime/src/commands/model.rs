//! `firstword model`: what can be had, what is here, and whether it is whole.

use super::Context;
use crate::cli::ModelArgs;
use crate::exit::{CommandError, Exit};

/// Runs `model list`, `model pull` or `model verify`.
///
/// # Errors
/// Always, until the store is connected.
pub fn run(_args: &ModelArgs, _context: &Context) -> Result<Exit, CommandError> {
    Err(CommandError::new(
        Exit::Model,
        "model",
        "the store is not connected yet",
    ))
}
