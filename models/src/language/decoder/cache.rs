//! Keys and values of all rows: one block of memory for each layer's keys and each layer's values,
//! `[rows, heads, window, head_dim]`.

use super::error::DecoderError;
use super::raw::{Buffer, Host, Number, Value};
use crate::language::folder::ModelShape;

/// The cache, its numbers of type `T`.
#[derive(Debug)]
pub(super) struct Cache<T: Number> {
    /// Keys and values of layer 0, of layer 1 …
    tensors: Vec<Buffer<T>>,
    heads: usize,
    window: usize,
    head_dim: usize,
}

impl<T: Number> Cache<T> {
    /// Zeros; the memory is taken as tokens come.
    pub fn new(shape: &ModelShape, rows: usize, window: usize) -> Result<Self, DecoderError> {
        let size = [rows, shape.kv_heads, window, shape.head_dim]
            .into_iter()
            .try_fold(1_usize, usize::checked_mul)
            .filter(|&size| i64::try_from(size).is_ok())
            .ok_or_else(|| DecoderError::NoMemory(std::io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self {
            tensors: (0..2 * shape.layers)
                .map(|_| Buffer::zeroed(size))
                .collect::<Result<_, _>>()?,
            heads: shape.kv_heads,
            window,
            head_dim: shape.head_dim,
        })
    }

    pub fn tensors(&self) -> usize {
        self.tensors.len()
    }

    /// Some adjacent rows of one tensor, `[count, heads, window, head_dim]`, over the cache's own memory.
    pub fn view(
        &mut self,
        host: &Host,
        tensor: usize,
        first: usize,
        count: usize,
    ) -> Result<Value, DecoderError> {
        let shape = [count, self.heads, self.window, self.head_dim].map(|size| size as i64);
        let start = first * self.row_size();
        self.tensors[tensor].tensor(host, start, &shape)
    }

    fn row_size(&self) -> usize {
        self.heads * self.window * self.head_dim
    }

    /// Where the first `length` tokens of each head lie in a row.
    fn pieces(&self, length: usize) -> impl Iterator<Item = std::ops::Range<usize>> + use<T> {
        let (stride, size) = (
            self.window * self.head_dim,
            length.min(self.window) * self.head_dim,
        );
        (0..self.heads).map(move |head| head * stride..head * stride + size)
    }

    /// Copies the first `length` tokens of a row over those of another.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) {
        let (row, pieces) = (self.row_size(), self.pieces(length));
        for piece in pieces {
            for tensor in &mut self.tensors {
                let source = from * row + piece.start..from * row + piece.end;
                tensor
                    .as_mut_slice()
                    .copy_within(source, to * row + piece.start);
            }
        }
    }

    /// Exchanges the first `length` tokens of two rows.
    pub fn exchange(&mut self, a: usize, b: usize, length: usize) {
        let (a, b) = (a.min(b), a.max(b));
        if a == b {
            return;
        }
        let (row, pieces) = (self.row_size(), self.pieces(length));
        for piece in pieces {
            for tensor in &mut self.tensors {
                let (before, after) = tensor.as_mut_slice().split_at_mut(b * row);
                before[a * row..][piece.clone()].swap_with_slice(&mut after[piece.clone()]);
            }
        }
    }

    /// Overwrites everything from `length` on in a row: what a test does to show that it is not read.
    #[cfg(test)]
    pub fn spoil(&mut self, row: usize, length: usize, with: T) {
        let (size, stride, head_dim) =
            (self.row_size(), self.window * self.head_dim, self.head_dim);
        for tensor in &mut self.tensors {
            for head in tensor.as_mut_slice()[row * size..][..size].chunks_exact_mut(stride) {
                head[length * head_dim..].fill(with);
            }
        }
    }

    /// One row of one tensor.
    #[cfg(test)]
    pub fn row_numbers(&self, tensor: usize, row: usize) -> Vec<T> {
        let size = self.row_size();
        self.tensors[tensor].as_slice()[row * size..][..size].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Cache<f32> {
        let shape = ModelShape {
            layers: 1,
            kv_heads: 2,
            head_dim: 1,
            vocabulary: 1,
            window: 3,
            local_window: None,
            original_window: None,
        };
        let mut cache = Cache::new(&shape, 3, 3).unwrap();
        for tensor in &mut cache.tensors {
            for (at, number) in tensor.as_mut_slice().iter_mut().enumerate() {
                *number = at as f32;
            }
        }
        cache
    }

    // Rows of 2 heads × 3 tokens: row 0 is 0 1 2 | 3 4 5, row 1 is 6 7 8 | 9 10 11, row 2 12 … 17.
    #[test]
    fn only_the_valid_tokens_of_each_head_are_copied() {
        let mut cache = cache();
        cache.copy(2, 0, 2);
        for tensor in &cache.tensors {
            assert_eq!(tensor.as_slice()[..6], [12.0, 13.0, 2.0, 15.0, 16.0, 5.0]);
        }
    }

    #[test]
    fn rows_change_places_token_by_token() {
        let mut cache = cache();
        cache.exchange(2, 1, 1);
        for tensor in &cache.tensors {
            assert_eq!(tensor.as_slice()[6..12], [12.0, 7.0, 8.0, 15.0, 10.0, 11.0]);
            assert_eq!(tensor.as_slice()[12..], [6.0, 13.0, 14.0, 9.0, 16.0, 17.0]);
        }
    }
}
