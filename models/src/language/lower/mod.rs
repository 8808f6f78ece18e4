//! A description becomes a graph: the flavours (`fused`, `plain`) and the precisions of the weights (`exact`, `balanced`, `fast`).
//!
//! Three things meet here and know little of each other. [`decoder`] walks a [`Description`] and says what follows what;
//! a [`Flavour`] says in which operators norms, attention and activations are written; a [`Recipe`] says how weights
//! are laid down and multiplied.

pub mod column;
mod decoder;
mod fast;
mod float;
mod fused;
mod nbits;
mod plain;
mod recipe;
pub mod smoothing;
mod stage;
mod symmetric;
pub mod turn;
mod weight;

use std::collections::HashMap;
use std::io;

use decoder::capped;
pub use decoder::{Flavour, decoder};
pub use fast::{Fast, Way, Ways};
pub use float::Float;
pub use fused::Fused;
pub use nbits::{Exact, Packed, embedding, multiply, pack};
pub use plain::Plain;
pub use recipe::{Place, Product, Recipe, Role};
pub use stage::{Stage, head, stage};
pub use symmetric::Symmetric;
pub use weight::{Reading, Weight};

use super::architecture::Description;
use crate::gguf::GgufError;

/// What is lowered, and to what size.
#[derive(Debug, Clone, Copy)]
pub struct Lowering<'a> {
    /// The model.
    pub description: &'a Description,
    /// The longest sequence, in tokens.
    pub window: usize,
    /// Factors that move range from the inputs of products into their weights.
    pub smoothing: &'a Smoothing,
}

/// For some products, one factor above 0 per input channel: the input comes divided by it, the weights' columns are
/// multiplied by it, and the product stays what it was.
///
/// The division costs nothing at run time: it goes into the norm before ([`Role::Attention`], [`Role::GateUp`]), into
/// the rows of `up` ([`Role::Down`]), or into the rows of `v` ([`Role::Output`], where there is one factor per *value*
/// channel, `kv_heads · head_dim`, since several query heads share one).
pub type Smoothing = HashMap<Place, Vec<f32>>;

/// Why a graph can't be written.
#[derive(Debug, thiserror::Error)]
pub enum LowerError {
    /// The weights can't be read.
    #[error(transparent)]
    Weights(#[from] GgufError),
    /// The graph's data can't be written.
    #[error("the graph's data can't be written: {0}")]
    Write(#[from] io::Error),
    /// The caller no longer wants it.
    #[error("cancelled")]
    Cancelled,
    /// This flavour has no operator for it.
    #[error(
        "flavour {flavour} can't express the model: expected {expected}, found {found}; choose another flavour"
    )]
    Unsupported {
        /// The flavour.
        flavour: &'static str,
        /// What its operators take.
        expected: String,
        /// What the model has.
        found: String,
    },
}
