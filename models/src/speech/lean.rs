//! Moonshine's decoder, built anew from the weights of the shipped graph.
//!
//! The shipped decoder spends more than half of a token's time on what is not arithmetic: 36 Pad,
//! 100 Slice, 155 Unsqueeze nodes and an `If`, and the keys and values of the sound are padded and
//! copied at every token. The same network is built here in 143 nodes: the keys and values of
//! the sound are computed once per utterance (a graph of 8 nodes, [`Encoded`] keeps them), and a
//! step is nothing but products, attention and norms. The products are the shipped ones: the same
//! uint8 matrices, inputs quantised the same way. So the logits differ only as rounding in another
//! order does, which now and then moves one quantised input by one (see `tests/lean_decoder.rs`).
//! Graphs and text were compared under ONNX Runtime 1.20.1, 1.22.1 and 1.31.1.
//!
//! Measured on an AMD EPYC with AVX2 (a shared machine), ONNX Runtime 1.31.1, one thread, CPU
//! time in ms, medians (`benches/src/bin/decoder_forms.rs`); shipped → lean:
//!
//! | sound | encoder and keys of the sound | first pass | pass over the whole draft | each token |
//! | --- | --- | --- | --- | --- |
//! | 2 s (8 tokens) | 22.4 → 24.2 | 6.3 → 2.9 | 8.2 → 4.8 | 4.2 → 2.4 |
//! | 5 s (22) | 53.0 → 56.1 | 8.2 → 2.5 | 15.2 → 9.7 | 3.9 → 2.1 |
//! | 10 s (51) | 122 → 135 | 12.5 → 3.0 | 35.0 → 24.8 | 4.5 → 2.5 |
//! | 15 s (62) | 228 → 267 | 18.4 → 3.7 | 55.7 → 33.8 | 7.2 → 3.5 |
//!
//! What the lean form needs of the sound is counted with the encoder, in the shipped form with the
//! first pass. Most of a token's time is now the products. Loading the whole recogniser: 484–690 ms
//! shipped, 791 ms lean when built, 155 ms when kept.
//!
//! Built at load time from the shipped file, and kept in a folder if the caller names one. Where
//! the weights are not as expected, the error says what was, and the shipped graph is used.
//!
//! [`Encoded`]: super::Encoded

mod cache;
mod decoder;
mod graph;
mod weights;

use std::path::Path;

use firstword_targets::{Library, SessionError};

use super::SpeechError;
pub(super) use weights::WIDTH;

/// The two graphs as ONNX files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Graphs {
    /// Encoder output to the keys and values of the attention over the sound.
    pub cross: Vec<u8>,
    /// One step, for any number of tokens.
    pub step: Vec<u8>,
}

/// Why the decoder was not built anew.
#[derive(Debug, thiserror::Error)]
pub enum LeanError {
    /// ONNX Runtime would not write the shipped graph as ONNX.
    #[error("ONNX Runtime could not write the shipped decoder as ONNX: {said}")]
    Translation {
        /// What it said.
        said: String,
    },
    /// The temporary file between both failed.
    #[error("the temporary file for the shipped decoder's weights failed: {0}; check TMPDIR")]
    Temporary(#[source] std::io::Error),
    /// The shipped graph is not the one that is known.
    #[error("the shipped decoder is not Moonshine tiny's: expected {expected}, found {found}")]
    Unexpected {
        /// What the builder looks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// This ONNX Runtime refuses the graphs.
    #[error("the rebuilt decoder: {0}")]
    Session(#[from] SessionError),
    /// The graphs load, but the first step fails.
    #[error("the rebuilt decoder does not run: {0}")]
    Trial(String),
}

impl LeanError {
    pub(super) fn trial(error: SpeechError) -> Self {
        Self::Trial(error.to_string())
    }
}

impl Graphs {
    /// The graphs for the shipped decoder `file`, from the folder `kept` if they are there and
    /// whole; otherwise built, and kept there for the next time if that can be done.
    pub fn of(library: &Library, file: &Path, kept: Option<&Path>) -> Result<Self, LeanError> {
        let place = kept.and_then(|folder| cache::Place::of(file, folder));
        if let Some(graphs) = place.as_ref().and_then(cache::Place::read) {
            return Ok(graphs);
        }
        let graphs = Self::build(library, file)?;
        if let Some(place) = place {
            // Without it the next start builds again, no more.
            let _ = place.write(&graphs);
        }
        Ok(graphs)
    }

    fn build(library: &Library, file: &Path) -> Result<Self, LeanError> {
        let weights = weights::Weights::of_shipped(library, file)?;
        Ok(Self {
            cross: decoder::cross(&weights).into_bytes("moonshine_cross"),
            step: decoder::step(&weights).into_bytes("moonshine_step"),
        })
    }
}
