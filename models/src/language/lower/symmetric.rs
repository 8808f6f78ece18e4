//! Recipe `exact` of flavour `plain`: `DequantizeLinear` and `MatMul`, which providers run as one product of codes.
//!
//! | stored as | laid down as | error |
//! | --- | --- | --- |
//! | Q4_0 | 4-bit codes in blocks of 32 | none |
//! | Q8_0, Q5_0 (Q4_0 beside others) | 8-bit codes in blocks of 32 | none |
//! | Q3_K, Q6_K | 8-bit codes in blocks of 16 | none |
//! | all others | 8-bit codes in blocks of 32 | half a step of 1/127 of the block's largest |
//! | an embedding | 16-bit floats | of 11 bits |
//!
//! All codes lie around 0: TensorRT takes no zero points. An embedding is 16-bit floats because only the rows of a few
//! tokens are read of it, and no standard operator that all providers have reads rows of codes.

use std::ops::Range;

use half::f16;

use super::nbits::{BLOCK, form, step};
use super::{LowerError, Place, Product, Recipe, Weight};
use crate::gguf::Kind;
use crate::gguf::blocks::{Blocks, Offset};
use crate::onnx::{Builder, Element, Value, int};

/// Weights that are read at once.
const PIECE: usize = 1 << 18;
/// Rows of the turned matrix that are written at once.
const STRIP: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Symmetric;

impl Recipe for Symmetric {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn bytes_per_weight(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Q4_0 => 0.5 + 4.0 / 32.0,
            Kind::Q3K | Kind::Q6K => 1.0 + 4.0 / 16.0,
            _ => 1.0 + 4.0 / 32.0,
        }
    }

    fn bytes_per_embedded(&self) -> f64 {
        2.0
    }

    fn held_per_weight(&self) -> f64 {
        // The matrix is turned in memory.
        1.0 + 4.0 / 16.0
    }

    fn product(
        &mut self,
        g: &mut Builder,
        input: &Value,
        weights: &[Weight<'_>],
        _: Place,
        joined: bool,
    ) -> Result<Product, LowerError> {
        let alike = weights
            .windows(2)
            .all(|pair| form(&pair[..1], BLOCK) == form(&pair[1..], BLOCK));
        if joined && alike {
            let turned = lay(g, weights)?;
            return Ok(Product::Joined(g.op("MatMul", &[input, &turned], &[])));
        }
        let mut products = Vec::with_capacity(weights.len());
        for weight in weights {
            let turned = lay(g, std::slice::from_ref(weight))?;
            products.push(g.op("MatMul", &[input, &turned], &[]));
        }
        Ok(Product::Apart(products))
    }

    fn embedding(
        &mut self,
        g: &mut Builder,
        ids: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        let (rows, columns) = (table.rows(), table.columns());
        let at_once = (PIECE / columns.max(1)).max(1);
        let mut floats = vec![0.0; at_once.min(rows) * columns];
        let name = format!("{}.rows", table.name());
        let laid = g.stream(&name, Element::F16, &[rows, columns], |out| {
            for start in (0..rows).step_by(at_once) {
                let range = start..(start + at_once).min(rows);
                let floats = &mut floats[..range.len() * columns];
                table.floats(range, floats)?;
                if let Some(large) = floats.iter().find(|v| v.abs() > f16::MAX.to_f32()) {
                    return Err(LowerError::Unsupported {
                        flavour: "plain",
                        expected: "an embedding of 16-bit floats".to_owned(),
                        found: format!("{large} in it"),
                    });
                }
                let bytes = floats.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes());
                out.write_all(&bytes.collect::<Vec<u8>>())?;
            }
            Ok::<_, LowerError>(())
        })?;
        let found = g.op("Gather", &[&laid, ids], &[int("axis", 0)]);
        let to = int("to", i64::from(Element::F32.code()));
        Ok(g.op("Cast", &[&found], &[to]))
    }

    fn head(
        &mut self,
        g: &mut Builder,
        input: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        let turned = lay(g, std::slice::from_ref(table))?;
        Ok(g.op("MatMul", &[input, &turned], &[]))
    }
}

/// Weights with one number of columns side by side, turned: floats `[columns, rows]`.
fn lay(g: &mut Builder, weights: &[Weight<'_>]) -> Result<Value, LowerError> {
    let (Some(first), (bits, block)) = (weights.first(), form(weights, BLOCK)) else {
        return Err(LowerError::Write(std::io::Error::other(
            "no weights; this is a bug",
        )));
    };
    let (name, columns) = (first.name(), first.columns());
    let rows: usize = weights.iter().map(Weight::rows).sum();
    let mut laid = Laid {
        block,
        codes: Vec::with_capacity(rows * columns),
        scales: Vec::with_capacity(rows * columns.div_ceil(block)),
    };
    let at_once = (PIECE / columns.max(1)).max(1);
    for weight in weights {
        for start in (0..weight.rows()).step_by(at_once) {
            laid.read(weight, start..(start + at_once).min(weight.rows()))?;
        }
    }
    let element = if bits == 4 { Element::I4 } else { Element::I8 };
    let shape = [columns, rows];
    let codes = g.stream(&format!("{name}.codes"), element, &shape, |out| {
        let mut odd = None;
        turn(&laid.codes, shape, |strip| match bits {
            4 => out.write_all(&nibbles(strip, &mut odd)),
            _ => out.write_all(&strip.iter().map(|c| c.cast_unsigned()).collect::<Vec<u8>>()),
        })?;
        odd.map_or(Ok(()), |low: u8| out.write_all(&[low]))
    })?;
    let shape = [columns.div_ceil(block), rows];
    let scales = g.stream(&format!("{name}.scales"), Element::F32, &shape, |out| {
        turn(&laid.scales, shape, |strip| {
            let bytes = strip.iter().flat_map(|v| v.to_le_bytes());
            out.write_all(&bytes.collect::<Vec<u8>>())
        })
    })?;
    let attributes = [int("axis", 0), int("block_size", block as i64)];
    Ok(g.op("DequantizeLinear", &[&codes, &scales], &attributes))
}

/// A matrix `[columns, rows]` from its rows, strip by strip.
fn turn<T: Copy>(
    values: &[T],
    [columns, rows]: [usize; 2],
    mut write: impl FnMut(&[T]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut strip = Vec::with_capacity(STRIP * rows);
    for start in (0..columns).step_by(STRIP) {
        strip.clear();
        for column in start..(start + STRIP).min(columns) {
            strip.extend(values.iter().skip(column).step_by(columns));
        }
        write(&strip)?;
    }
    Ok(())
}

/// Two codes a byte, the first in the low half; `odd` is the one that waits for its other half.
fn nibbles(codes: &[i8], odd: &mut Option<u8>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(codes.len() / 2 + 1);
    for code in codes {
        let code = code.cast_unsigned() & 15;
        match odd.take() {
            Some(low) => bytes.push(low | code << 4),
            None => *odd = Some(code),
        }
    }
    bytes
}

/// Rows, quantised.
struct Laid {
    /// Weights that share a scale.
    block: usize,
    codes: Vec<i8>,
    scales: Vec<f32>,
}

impl Laid {
    fn read(&mut self, weight: &Weight<'_>, rows: Range<usize>) -> Result<(), LowerError> {
        if weight.has_codes() && weight.kind().zero().is_some() {
            let mut blocks = Blocks::default();
            weight.codes(rows.clone(), &mut blocks)?;
            if let Offset::Zero(zero) = blocks.offset {
                let around = |code: &u8| code.wrapping_sub(zero).cast_signed();
                self.codes.extend(blocks.codes.iter().map(around));
                let parts = blocks.group / self.block;
                let scales = blocks.scales.iter();
                self.scales
                    .extend(scales.flat_map(|&v| std::iter::repeat_n(v, parts)));
                return Ok(());
            }
        }
        let columns = weight.columns();
        let mut floats = vec![0.0; rows.len() * columns];
        weight.floats(rows, &mut floats)?;
        for row in floats.chunks_exact(columns) {
            for values in row.chunks(self.block) {
                let largest = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                let step = step(largest, 127.0);
                let code = |&v: &f32| (v / step).round_ties_even().clamp(-127.0, 127.0) as i8;
                self.codes.extend(values.iter().map(code));
                self.scales.push(step);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_turned_and_4_bit_codes_are_paired_across_its_rows() {
        // By hand: rows (1 2 3), (4 5 6), (-1 -2 -8) turned are 1 4 -1, 2 5 -2, 3 6 -8.
        let mut turned = Vec::new();
        turn(&[1i8, 2, 3, 4, 5, 6, -1, -2, -8], [3, 3], |strip| {
            turned.extend_from_slice(strip);
            Ok(())
        })
        .unwrap();
        assert_eq!(turned, [1, 4, -1, 2, 5, -2, 3, 6, -8]);
        let mut odd = None;
        assert_eq!(nibbles(&turned, &mut odd), [0x41, 0x2F, 0xE5, 0x63]);
        assert_eq!(odd, Some(8));
    }
}
