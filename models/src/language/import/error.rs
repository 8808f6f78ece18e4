//! Why a model can't be imported.

use std::io;
use std::path::PathBuf;

use crate::gguf::{GgufError, MetadataError};
use crate::language::architecture::ArchitectureError;
use crate::language::lower::LowerError;

use super::Room;

/// Why a model can't be imported, in one line. Nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The goal is there.
    #[error("{} is already there; choose another name, or ask for it to be replaced", goal.display())]
    Exists {
        /// The goal.
        goal: PathBuf,
    },
    /// The source is no model that can be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The source lacks a key, or has it of another type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The source's model is not one of the known kinds.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// The graph can't be written.
    #[error(transparent)]
    Lower(LowerError),
    /// The model can't be run to measure it.
    #[error("the model can't be measured: {said}")]
    Calibrate {
        /// One line.
        said: String,
    },
    /// The tokenizer can't be made of what the source says.
    #[error("no tokenizer: {said}")]
    Tokenizer {
        /// One line.
        said: String,
    },
    /// The flavour has no such precision.
    #[error(
        "flavour {flavour} has no precision {found}: expected exact; its providers round activations themselves, if told"
    )]
    Precision {
        /// The flavour.
        flavour: &'static str,
        /// What was asked for.
        found: &'static str,
    },
    /// A window that the model was not made for.
    #[error("window: expected 1 to {most} tokens, what the model was made for, found {found}")]
    Window {
        /// The model's context.
        most: usize,
        /// What was asked for.
        found: usize,
    },
    /// The device has too little room.
    #[error(transparent)]
    Room(#[from] Room),
    /// The machine has too little memory.
    #[error(
        "not enough memory to import: expected {needed} MB, found {free} MB available; stop other programs or import on another machine"
    )]
    Memory {
        /// Megabytes that may be needed.
        needed: u64,
        /// Megabytes that are available.
        free: u64,
    },
    /// The source can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file of the folder can't be written.
    #[error("{} can't be written: {source}; free some room or choose another folder", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The caller stopped it.
    #[error("cancelled; nothing is left of the import")]
    Cancelled,
}
