//! What each family of language models computes, as a description that the flavours lower to graphs.
//!
//! All families read here are decoders of one kind: an embedding; layers of attention and a gated product, each
//! between norms and added to what came in; a last norm; a head. They differ in the details that the types below name.

use std::ops::Range;

mod error;
mod families;
mod reader;
mod rope;

#[cfg(test)]
mod tests;

pub use error::ArchitectureError;
pub use families::known;
pub use rope::{Rope, Scaling, Table};

use crate::gguf::blocks::Blocks;
use crate::gguf::{Gguf, GgufError, Kind, Metadata};

/// Where weights come from: a GGUF file, or whatever can stand in for one.
pub trait Weights {
    /// Type and shape (innermost size first) of a tensor.
    fn find(&self, name: &str) -> Option<(Kind, &[u64])>;

    /// Names of all tensors.
    fn names(&self) -> Vec<&str>;

    /// Rows of a tensor as floats, `rows.len() · columns` of them.
    ///
    /// # Errors
    ///
    /// As [`crate::gguf::Tensor::dequantise`].
    fn floats(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<(), GgufError>;

    /// Rows of a tensor as codes; `false` where they are floats.
    ///
    /// # Errors
    ///
    /// As [`crate::gguf::Tensor::codes`].
    fn codes(&self, name: &str, rows: Range<usize>, into: &mut Blocks) -> Result<bool, GgufError>;
}

impl Weights for Gguf {
    fn find(&self, name: &str) -> Option<(Kind, &[u64])> {
        let info = self.tensor(name)?.info();
        Some((info.kind, &info.shape))
    }

    fn names(&self) -> Vec<&str> {
        self.tensors().iter().map(|t| t.name.as_str()).collect()
    }

    fn floats(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<(), GgufError> {
        self.tensor(name)
            .map_or(Ok(()), |tensor| tensor.dequantise(rows, out))
    }

    fn codes(&self, name: &str, rows: Range<usize>, into: &mut Blocks) -> Result<bool, GgufError> {
        self.tensor(name)
            .map_or(Ok(false), |tensor| tensor.codes(rows, into))
    }
}

/// A decoder: everything a graph of it has to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The family, as GGUF's `general.architecture` names it.
    pub architecture: &'static str,
    /// Numbers that stand for one token between the layers.
    pub width: usize,
    /// Rows of the embedding and of the head.
    pub vocabulary: usize,
    /// Tokens the model was made for.
    pub context: usize,
    /// What the norms add under the root.
    pub epsilon: f32,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides [`Description::heads`].
    pub kv_heads: usize,
    /// Numbers of one head.
    pub head_dim: usize,
    /// A row per token.
    pub embedding: Matrix,
    /// What embeddings are multiplied by.
    pub embedding_scale: Option<f32>,
    /// In order.
    pub layers: Vec<Layer>,
    /// Before the head.
    pub norm: Vector,
    /// The head; the embedding's matrix again where both are tied.
    pub head: Matrix,
    /// Logits are `cap · tanh(logits / cap)`.
    pub softcap: Option<f32>,
    /// The rotations in use; [`Attention::rope`] counts in them.
    pub ropes: Vec<Rope>,
}

/// One layer: `x += post(attention(norm(x)))`, then `x += post(mlp(norm(x)))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Before the attention.
    pub attention_norm: Vector,
    /// The attention.
    pub attention: Attention,
    /// After the attention, before the sum.
    pub post_attention_norm: Option<Vector>,
    /// Before the gated product.
    pub mlp_norm: Vector,
    /// The gated product.
    pub mlp: Mlp,
    /// After the gated product, before the sum.
    pub post_mlp_norm: Option<Vector>,
}

/// Attention of [`Description::heads`] queries over [`Description::kv_heads`] keys and values.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// To queries.
    pub q: Linear,
    /// To keys.
    pub k: Linear,
    /// To values.
    pub v: Linear,
    /// From the heads back to the width.
    pub output: Linear,
    /// Norm of each query head, before the rotation.
    pub q_norm: Option<Vector>,
    /// Norm of each key head, before the rotation.
    pub k_norm: Option<Vector>,
    /// What products of query and key are multiplied by.
    pub scale: f32,
    /// How many tokens are seen, a token itself included; all before it where there is none.
    pub window: Option<usize>,
    /// Scores are `cap · tanh(scores / cap)`.
    pub softcap: Option<f32>,
    /// Which of [`Description::ropes`] turns queries and keys.
    pub rope: usize,
}

/// `down(activation(gate(x)) · up(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    /// What the gate goes through.
    pub activation: Activation,
    /// To the inner width.
    pub gate: Linear,
    /// To the inner width.
    pub up: Linear,
    /// Back.
    pub down: Linear,
}

/// What a gate goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// GELU by its tanh formula.
    GeluTanh,
}

/// `weight · x + bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// A row per output.
    pub weight: Matrix,
    /// One per output.
    pub bias: Option<Vector>,
}

/// Some rows of a tensor, in some order.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// The tensor's name.
    pub tensor: String,
    /// Which of its rows.
    pub rows: Range<usize>,
    /// A row's length.
    pub columns: usize,
    /// How the rows lie.
    pub order: Order,
}

/// Some values of a tensor of one row, in some order.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    /// The tensor's name.
    pub tensor: String,
    /// Which of its values.
    pub values: Range<usize>,
    /// How they lie.
    pub order: Order,
}

/// How rows lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As the graph wants them.
    AsWanted,
    /// The rows of each head lie as pairs that are turned together, `0 h 1 h+1 …` where `h` is half the head: so
    /// llama.cpp's converter writes `llama`. Graphs want `0 1 … h h+1 …`.
    Paired {
        /// Rows of one head.
        head: usize,
    },
}

impl Order {
    /// Where row `wanted` lies.
    #[must_use]
    pub fn place(self, wanted: usize) -> usize {
        match self {
            Self::AsWanted => wanted,
            Self::Paired { head } => {
                let (start, within) = (wanted / head * head, wanted % head);
                let half = head / 2;
                start + 2 * (within % half) + within / half
            }
        }
    }
}

impl Description {
    /// Reads what `metadata` and the names and shapes of `weights` say; no weight is read but the rotation's factors.
    ///
    /// # Errors
    ///
    /// [`ArchitectureError`]: an unknown architecture, or metadata and tensors that don't fit each other.
    pub fn read(metadata: &Metadata, weights: &dyn Weights) -> Result<Self, ArchitectureError> {
        families::read(metadata, weights)
    }

    /// How many tokens each layer sees, in order.
    #[must_use]
    pub fn windows(&self) -> Vec<Option<usize>> {
        let layers = self.layers.iter();
        layers.map(|layer| layer.attention.window).collect()
    }

    /// The length from which on the long factors of a LongRoPE are used, in tokens.
    #[must_use]
    pub fn original_window(&self) -> Option<usize> {
        self.ropes.iter().find_map(Rope::original_window)
    }
}
