//! The seam between the graph and its weights: how matrices are laid down and multiplied.

use super::{LowerError, Weight};
use crate::gguf::Kind;
use crate::onnx::{Builder, Value};

/// Which product of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its layer; the number of layers for the head.
    pub layer: usize,
    /// Its part in the layer.
    pub role: Role,
}

/// What a product is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// To q, k and v.
    Attention,
    /// From the heads back to the width.
    Output,
    /// To gate and up.
    GateUp,
    /// From the inner width back.
    Down,
    /// To the logits.
    Head,
}

/// Products with one input.
#[derive(Debug, Clone)]
pub enum Product {
    /// All side by side along the last axis.
    Joined(Value),
    /// Each on its own.
    Apart(Vec<Value>),
}

impl Product {
    /// Each on its own; `sizes` are their widths.
    pub fn apart(self, g: &mut Builder, sizes: &[usize]) -> Vec<Value> {
        match self {
            Self::Joined(value) if sizes.len() == 1 => vec![value],
            Self::Joined(value) => g.split(&value, -1, sizes),
            Self::Apart(values) => values,
        }
    }
}

/// A way of laying weights down and multiplying by them.
///
/// Implementations read each weight once, row range by row range, and stream what they make of it into the builder.
pub trait Recipe {
    /// Its name, as `--quant` and the manifest have it.
    fn name(&self) -> &'static str;

    /// At most so many bytes are laid down for each weight that is stored as `kind`.
    fn bytes_per_weight(&self, kind: Kind) -> f64;

    /// So many bytes are laid down beside those for each weight of the embedding.
    fn bytes_per_embedded(&self) -> f64 {
        0.0
    }

    /// So many bytes of memory are taken for each weight of the largest matrix: by default a scale and a zero for 32.
    fn held_per_weight(&self) -> f64 {
        5.0 / 32.0
    }

    /// `input · weightᵀ` for each of `weights`: `[…, columns]` to `[…, rows]`. What is prepared of the input (its
    /// quantised form) is made once here and shared. `joined` says that the products are taken side by side at no
    /// cost; apart, they are split, which costs a copy.
    ///
    /// # Errors
    ///
    /// [`LowerError`].
    fn product(
        &mut self,
        g: &mut Builder,
        input: &Value,
        weights: &[Weight<'_>],
        place: Place,
        joined: bool,
    ) -> Result<Product, LowerError>;

    /// The rows of `table` for these tokens: `[B, S]` to `[B, S, columns]`.
    ///
    /// # Errors
    ///
    /// [`LowerError`].
    fn embedding(
        &mut self,
        g: &mut Builder,
        ids: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError>;

    /// Logits `[B, R, rows]`. Where it is tied, `table` is the one of the embedding, already laid down there.
    ///
    /// # Errors
    ///
    /// [`LowerError`].
    fn head(
        &mut self,
        g: &mut Builder,
        input: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError>;

    /// From here on the graph works on other tokens than before: what was made for each of those is of no use any more.
    fn other_tokens(&mut self) {}
}
