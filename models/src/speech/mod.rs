//! Speech models: voice activity (Silero) and recognition (Moonshine).

mod decoder;
pub mod decoding;
pub mod lean;
pub mod moonshine;
pub mod silero;
pub mod tokenizer;

use std::path::PathBuf;

use firstword_targets::SessionError;

pub use decoder::Form;
pub use decoding::{Draft, Hypothesis, Limits};
pub use lean::LeanError;
pub use moonshine::{Encoded, Moonshine};
pub use silero::{Silero, Voice};
pub use tokenizer::Tokenizer;

/// Why a speech model can't be used, or a step of it failed.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// The folder lacks a file of the layout.
    #[error("{folder} is not a {layout} model: {file} is missing; expected {expected}", folder = folder.display())]
    Incomplete {
        /// The folder.
        folder: PathBuf,
        /// The layout that was looked for.
        layout: &'static str,
        /// The first file that is not there.
        file: &'static str,
        /// All files of the layout.
        expected: &'static str,
    },
    /// The graph could not be loaded.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The graph has other inputs or outputs than the layout says.
    #[error("{file} has no {missing}: it is not the {expected} of a Moonshine or Silero model", file = file.display())]
    Signature {
        /// The graph's file.
        file: PathBuf,
        /// What the graph should have.
        missing: String,
        /// The role in which it was opened.
        expected: &'static str,
    },
    /// The tokenizer file is damaged.
    #[error("{file}: {source}", file = file.display())]
    Tokenizer {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: tokenizer::TokenizerError,
    },
    /// A file of the model can't be read.
    #[error("{file} can't be read: {source}", file = file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// ONNX Runtime failed in a step.
    #[error("{step} failed: {said}")]
    Step {
        /// Which step.
        step: &'static str,
        /// What ONNX Runtime said.
        said: String,
    },
    /// A step gave numbers that mean nothing, as a wrong precision or damaged weights do.
    #[error(
        "{step} gave values that are not numbers (NaN); the model's files or the target's precision are at fault"
    )]
    NotNumbers {
        /// Which step.
        step: &'static str,
    },
}

impl SpeechError {
    /// For `map_err` at each call of ONNX Runtime.
    fn step<R>(step: &'static str) -> impl Fn(ort::Error<R>) -> Self {
        move |error| Self::Step {
            step,
            said: firstword_targets::one_line(error.message()),
        }
    }
}
