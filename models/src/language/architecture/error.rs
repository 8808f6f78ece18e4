//! Why a model can't be described.

use crate::gguf::{GgufError, MetadataError, Shown};

/// Why a model can't be described, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ArchitectureError {
    /// An architecture that is not read here.
    #[error(
        "unknown architecture {found}: expected one of {known}; convert a model of one of these"
    )]
    Unknown {
        /// The file's.
        found: Shown,
        /// Those that are read.
        known: String,
    },
    /// The metadata lack a key, or have it of another type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A value that can't be.
    #[error(
        "metadata key {key}: expected {expected}, found {found}; the file is damaged or of an unknown kind"
    )]
    Value {
        /// The key.
        key: String,
        /// What could be.
        expected: String,
        /// What is.
        found: String,
    },
    /// A tensor is not there.
    #[error(
        "tensor {name} is missing: expected {shape:?} (a row's length first); fetch the file again"
    )]
    Missing {
        /// Its name.
        name: String,
        /// The shape it should have, a row's length first.
        shape: Vec<u64>,
    },
    /// A tensor's shape contradicts the metadata.
    #[error(
        "tensor {name}: expected the shape {expected:?} that the metadata ask for (a row's length first), found {found:?}; fetch the file again"
    )]
    Shape {
        /// Its name.
        name: String,
        /// What the metadata ask for.
        expected: Vec<u64>,
        /// What it has.
        found: Vec<u64>,
    },
    /// A tensor that this architecture has no use for: without it the model would compute something else.
    #[error(
        "tensor {name} is not part of architecture {architecture} as it is known here; the model is of another kind"
    )]
    Unused {
        /// Its name.
        name: Shown,
        /// The architecture.
        architecture: &'static str,
    },
    /// The file can't be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
}
