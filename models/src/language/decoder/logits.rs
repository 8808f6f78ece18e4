//! The logits of a run: their place in memory, and what the caller sees of them.

use super::error::DecoderError;
use super::raw::{Buffer, Host, Value};
use crate::language::folder::Element;

/// Rows of logits, one number for each token of the vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Logits<'a> {
    values: &'a [f32],
    width: usize,
    /// The row of each answer, where they are in another order.
    order: &'a [usize],
}

impl<'a> Logits<'a> {
    /// How many rows were wanted.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.order.len()
    }

    /// The logits of the `index`-th wanted row or sequence, one for each token.
    ///
    /// # Panics
    ///
    /// If there are not so many: see [`Logits::rows`].
    #[must_use]
    pub fn row(&self, index: usize) -> &'a [f32] {
        &self.values[self.order[index] * self.width..][..self.width]
    }
}

/// Where logits are written.
#[derive(Debug)]
pub(super) struct Output {
    width: usize,
    element: Element,
    /// What ONNX Runtime writes, if it writes f32, or what it wrote, as f32.
    values: Buffer<f32>,
    /// What it writes if it writes f16.
    halves: Option<Buffer<half::f16>>,
    /// The last run wrote to the memory of [`Output::tensor`].
    written: bool,
    /// Raised when the memory moves: whoever bound it must bind it again.
    generation: u64,
    /// For each answer its row.
    pub order: Vec<usize>,
}

impl Output {
    pub fn new(width: usize, element: Element, rows: usize) -> Result<Self, DecoderError> {
        let mut output = Self {
            width,
            element,
            values: Buffer::zeroed(0)?,
            halves: None,
            written: false,
            generation: 0,
            order: Vec::new(),
        };
        output.reserve(rows)?;
        Ok(output)
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes room for this many rows; what was there is lost if there was less.
    pub fn reserve(&mut self, rows: usize) -> Result<(), DecoderError> {
        let size = rows
            .checked_mul(self.width)
            .ok_or_else(|| DecoderError::NoMemory(std::io::ErrorKind::OutOfMemory.into()))?;
        if size <= self.values.len() {
            return Ok(());
        }
        let values = Buffer::zeroed(size)?;
        if self.element == Element::F16 {
            self.halves = Some(Buffer::zeroed(size)?);
        }
        self.values = values;
        self.generation += 1;
        Ok(())
    }

    /// A tensor `[batch, rows, width]` over the rows from `first` on, for the session to write.
    pub fn tensor(
        &mut self,
        host: &Host,
        first: usize,
        batch: usize,
        rows: usize,
    ) -> Result<Value, DecoderError> {
        let shape = [batch, rows, self.width].map(|size| size as i64);
        match &mut self.halves {
            Some(halves) => halves.tensor(host, first * self.width, &shape),
            None => self.values.tensor(host, first * self.width, &shape),
        }
    }

    /// Takes row `from` of an output that ONNX Runtime allocated as row `to`, for which there is room.
    pub fn take(&mut self, output: &Value, from: usize, to: usize) -> Result<(), DecoderError> {
        let (width, element) = (self.width, self.element);
        let range = from * width..(from + 1) * width;
        self.written = false;
        let place = &mut self.values.as_mut_slice()[to * width..][..width];
        let short = || DecoderError::Unexpected {
            found: "fewer logits".to_owned(),
            expected: format!("row {from} of {width}"),
        };
        match element {
            Element::F32 => {
                place.copy_from_slice(output.numbers::<f32>()?.get(range).ok_or_else(short)?)
            }
            Element::F16 => {
                let halves = output
                    .numbers::<half::f16>()?
                    .get(range)
                    .ok_or_else(short)?;
                place
                    .iter_mut()
                    .zip(halves)
                    .for_each(|(to, from)| *to = from.to_f32());
            }
        }
        Ok(())
    }

    /// Announces a run that writes where [`Output::tensor`] says.
    pub fn expect_run(&mut self) {
        self.written = true;
    }

    /// After a run: the rows of `order` as f32.
    pub fn widen(&mut self) {
        if !self.written {
            return;
        }
        let Some(halves) = &self.halves else { return };
        for &row in &self.order {
            let range = row * self.width..(row + 1) * self.width;
            let (from, to) = (
                &halves.as_slice()[range.clone()],
                &mut self.values.as_mut_slice()[range],
            );
            to.iter_mut()
                .zip(from)
                .for_each(|(to, from)| *to = from.to_f32());
        }
    }

    /// What the caller gets.
    ///
    /// # Errors
    ///
    /// [`DecoderError::NotNumbers`].
    pub fn logits(&self) -> Result<Logits<'_>, DecoderError> {
        let logits = Logits {
            values: self.values.as_slice(),
            width: self.width,
            order: &self.order,
        };
        match (0..logits.rows()).all(|row| all_finite(logits.row(row))) {
            true => Ok(logits),
            false => Err(DecoderError::NotNumbers),
        }
    }
}

/// Without an early end, so that it compiles to a few vector instructions: NaN and infinity are those
/// whose exponent is all ones.
fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    !values.iter().fold(false, |found, value| {
        found | (value.to_bits() & EXPONENT == EXPONENT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_number_among_many_is_found() {
        let mut values = vec![f32::MAX; 1000];
        assert!(all_finite(&values));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            values[731] = bad;
            assert!(!all_finite(&values));
        }
        assert!(all_finite(&[]));
    }
}
