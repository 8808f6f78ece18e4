//! Weights as a recipe reads them: in the order the graph wants, smoothed, with progress told and a chance to stop.

use std::ops::{ControlFlow, Range};

use super::LowerError;
use crate::gguf::Kind;
use crate::gguf::blocks::{Blocks, Offset};
use crate::language::architecture::{Matrix, Order, Vector, Weights};

/// Where all weights of one lowering come from.
pub struct Reading<'a> {
    weights: &'a dyn Weights,
    progress: &'a dyn Fn(u64) -> ControlFlow<()>,
}

impl<'a> Reading<'a> {
    /// Reads from `weights`; `progress` is told how many bytes of them each read took, and may stop everything.
    pub fn new(weights: &'a dyn Weights, progress: &'a dyn Fn(u64) -> ControlFlow<()>) -> Self {
        Self { weights, progress }
    }

    /// All values of a vector, in the order that is wanted.
    ///
    /// # Errors
    ///
    /// [`LowerError::Weights`], [`LowerError::Cancelled`].
    pub fn vector(&self, vector: &Vector) -> Result<Vec<f32>, LowerError> {
        let (kind, shape) = self.find(&vector.tensor);
        let mut stored = vec![0.0; shape.first().map_or(0, |&n| n as usize)];
        self.weights.floats(&vector.tensor, 0..1, &mut stored)?;
        self.told(kind, vector.values.len())?;
        let stored = &stored[vector.values.clone()];
        Ok((0..stored.len())
            .map(|n| stored[vector.order.place(n)])
            .collect())
    }

    fn find(&self, tensor: &str) -> (Kind, &[u64]) {
        self.weights.find(tensor).unwrap_or((Kind::F32, &[]))
    }

    fn told(&self, kind: Kind, values: usize) -> Result<(), LowerError> {
        let bytes = values / kind.block() * kind.block_bytes();
        match (self.progress)(bytes as u64) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(LowerError::Cancelled),
        }
    }
}

/// One weight matrix, rows by columns: an output's weights are a row.
pub struct Weight<'a> {
    reading: &'a Reading<'a>,
    matrix: &'a Matrix,
    kind: Kind,
    /// What each row is multiplied by.
    row_factors: Option<Vec<f32>>,
    /// What each column is multiplied by.
    column_factors: Option<Vec<f32>>,
}

impl<'a> Weight<'a> {
    /// The matrix as the model has it.
    #[must_use]
    pub fn new(reading: &'a Reading<'a>, matrix: &'a Matrix) -> Self {
        Self {
            kind: reading.find(&matrix.tensor).0,
            reading,
            matrix,
            row_factors: None,
            column_factors: None,
        }
    }

    /// The same with each row multiplied by a factor.
    #[must_use]
    pub fn with_row_factors(self, factors: Option<Vec<f32>>) -> Self {
        Self {
            row_factors: factors,
            ..self
        }
    }

    /// The same with each column multiplied by a factor.
    #[must_use]
    pub fn with_column_factors(self, factors: Option<Vec<f32>>) -> Self {
        Self {
            column_factors: factors,
            ..self
        }
    }

    /// A name of its own: the tensor's, and which rows where it is a part of one.
    #[must_use]
    pub fn name(&self) -> String {
        match self.matrix.rows.start {
            0 => self.matrix.tensor.clone(),
            start => format!("{}.{start}", self.matrix.tensor),
        }
    }

    /// Outputs (N).
    #[must_use]
    pub fn rows(&self) -> usize {
        self.matrix.rows.len()
    }

    /// Inputs (K).
    #[must_use]
    pub fn columns(&self) -> usize {
        self.matrix.columns
    }

    /// How the values are stored.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether [`Weight::codes`] gives codes.
    #[must_use]
    pub fn has_codes(&self) -> bool {
        self.kind.bits().is_some() && self.column_factors.is_none()
    }

    /// Rows as floats, `rows.len() · columns` of them, factors applied.
    ///
    /// # Errors
    ///
    /// [`LowerError::Weights`], [`LowerError::Cancelled`].
    pub fn floats(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), LowerError> {
        let columns = self.matrix.columns;
        let weights = self.reading.weights;
        let start = self.matrix.rows.start;
        match self.matrix.order {
            Order::AsWanted => {
                weights.floats(
                    &self.matrix.tensor,
                    start + rows.start..start + rows.end,
                    out,
                )?;
            }
            order @ Order::Paired { .. } => {
                for (row, out) in rows.clone().zip(out.chunks_exact_mut(columns)) {
                    let stored = start + order.place(row);
                    weights.floats(&self.matrix.tensor, stored..stored + 1, out)?;
                }
            }
        }
        for (row, out) in rows.clone().zip(out.chunks_exact_mut(columns)) {
            if let Some(factors) = &self.row_factors {
                out.iter_mut().for_each(|v| *v *= factors[row]);
            }
            if let Some(factors) = &self.column_factors {
                out.iter_mut()
                    .zip(factors)
                    .for_each(|(v, factor)| *v *= factor);
            }
        }
        self.reading.told(self.kind, rows.len() * columns)
    }

    /// Rows as codes, row factors applied to the scales (and minima); `into` can be used again. Only where
    /// [`Weight::has_codes`].
    ///
    /// # Errors
    ///
    /// [`LowerError::Weights`], [`LowerError::Cancelled`].
    pub fn codes(&self, rows: Range<usize>, into: &mut Blocks) -> Result<(), LowerError> {
        let weights = self.reading.weights;
        let start = self.matrix.rows.start;
        match self.matrix.order {
            Order::AsWanted => {
                weights.codes(
                    &self.matrix.tensor,
                    start + rows.start..start + rows.end,
                    into,
                )?;
            }
            order @ Order::Paired { .. } => {
                let mut one = Blocks::default();
                for (n, row) in rows.clone().enumerate() {
                    let stored = start + order.place(row);
                    weights.codes(&self.matrix.tensor, stored..stored + 1, &mut one)?;
                    if n == 0 {
                        into.clone_from(&one);
                    } else {
                        append(into, &one);
                    }
                }
            }
        }
        if let Some(factors) = &self.row_factors {
            let groups = self.matrix.columns / into.group;
            let of_rows = &factors[rows.clone()];
            multiply(&mut into.scales, groups, of_rows);
            if let Offset::Minima(minima) = &mut into.offset {
                multiply(minima, groups, of_rows);
            }
        }
        self.reading
            .told(self.kind, rows.len() * self.matrix.columns)
    }
}

fn append(to: &mut Blocks, more: &Blocks) {
    to.codes.extend_from_slice(&more.codes);
    to.scales.extend_from_slice(&more.scales);
    if let (Offset::Minima(to), Offset::Minima(more)) = (&mut to.offset, &more.offset) {
        to.extend_from_slice(more);
    }
}

fn multiply(values: &mut [f32], per_row: usize, factors: &[f32]) {
    for (values, factor) in values.chunks_exact_mut(per_row).zip(factors) {
        values.iter_mut().for_each(|v| *v *= factor);
    }
}
