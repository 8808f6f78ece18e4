//! Recipe `exact`: weights as 4- or 8-bit codes with a scale for 32 or 16 of them, multiplied by `MatMulNBits`.
//!
//! | stored as | laid down as | error |
//! | --- | --- | --- |
//! | Q4_0 | 4-bit codes, zero 8 | none |
//! | Q8_0, Q5_0 (Q4_0 beside others) | 8-bit codes, zero 128 | none |
//! | Q3_K, Q6_K | 8-bit codes, zero 128; always in blocks of 16 | none |
//! | Q4_1, Q5_1, Q4_K, Q5_K, Q2_K | codes times a whole number, a zero of their own | of the minimum only, see [`stretch`] |
//! | F32, F16, BF16 | 8-bit codes, zero 128 | half a step of 1/127 of the block's largest |
//!
//! Q4_1 has a minimum that is no whole number of steps: with a 4-bit zero point the KL against the float model was
//! 0.275, with 8 bits 0.001 (SmolLM2); float zero points are 18 times slower on the CPU. The inputs are rounded to 8
//! bits for each block (`accuracy_level` 4) by the operator itself; with floats it decodes 40 times slower.

use std::collections::HashMap;
use std::ops::Range;

use super::{LowerError, Place, Product, Recipe, Weight};
use crate::gguf::Kind;
use crate::gguf::blocks::{Blocks, Offset};
use crate::onnx::{Builder, Element, Value, int};

/// Codes that share a scale, of embedding and head.
pub const BLOCK: usize = 32;
/// Codes that share a scale, of the other matrices: the operator rounds the inputs block by block. In blocks of 32
/// Gemma 3 270M was at a KL of 0.0081 and 1.031 of the reference's perplexity, in blocks of 16 at 0.0039 and 0.993.
const FINE: usize = 16;
/// A head of more bytes of codes than this is multiplied in pieces, see [`multiply_in_pieces`].
const LARGEST_PIECE: usize = 32 << 20;
/// Codes that are read at once.
const PIECE: usize = 1 << 18;

/// Weights laid down.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Bytes `[rows, blocks, block · bits / 8]`; of 4-bit codes, the first is in the low half.
    pub codes: Value,
    /// Floats `[rows, blocks]`.
    pub scales: Value,
    /// Bytes `[rows, blocks]`; 8 or 128 where there are none.
    pub zeros: Option<Value>,
    /// 4 or 8.
    pub bits: usize,
    /// Codes that share a scale: 16 or 32.
    pub block: usize,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Exact {
    /// Embeddings laid down, by name.
    tables: HashMap<String, Packed>,
}

impl Exact {
    fn table(&mut self, g: &mut Builder, table: &Weight<'_>) -> Result<Packed, LowerError> {
        let name = table.name();
        if let Some(packed) = self.tables.get(&name) {
            return Ok(packed.clone());
        }
        let packed = pack(g, std::slice::from_ref(table), BLOCK)?;
        self.tables.insert(name, packed.clone());
        Ok(packed)
    }
}

impl Recipe for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn bytes_per_weight(&self, kind: Kind) -> f64 {
        // A code, and a scale and a zero for each block.
        let code = if kind == Kind::Q4_0 { 0.5 } else { 1.0 };
        code + 5.0 / FINE as f64
    }

    fn product(
        &mut self,
        g: &mut Builder,
        input: &Value,
        weights: &[Weight<'_>],
        _: Place,
        joined: bool,
    ) -> Result<Product, LowerError> {
        // Beside others, 4-bit codes would be laid down in 8, and blocks of 32 as two.
        let alike = weights
            .windows(2)
            .all(|pair| form(&pair[..1], FINE) == form(&pair[1..], FINE));
        if joined && alike {
            let packed = pack(g, weights, FINE)?;
            return Ok(Product::Joined(multiply(g, input, &packed)));
        }
        let mut products = Vec::with_capacity(weights.len());
        for weight in weights {
            let packed = pack(g, std::slice::from_ref(weight), FINE)?;
            products.push(multiply(g, input, &packed));
        }
        Ok(Product::Apart(products))
    }

    fn embedding(
        &mut self,
        g: &mut Builder,
        ids: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        let packed = self.table(g, table)?;
        embedding(g, ids, &packed)
    }

    fn head(
        &mut self,
        g: &mut Builder,
        input: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        let packed = self.table(g, table)?;
        let product = multiply_in_pieces(g, input, &packed)?;
        if packed.bytes() > LARGEST_PIECE {
            // What an embedding does not share with it is in the pieces.
            g.forget_unused(&packed.codes);
            self.tables
                .retain(|_, table| table.codes.name() != packed.codes.name());
        }
        Ok(product)
    }
}

impl Packed {
    /// Of all codes.
    fn bytes(&self) -> usize {
        self.rows * self.columns.div_ceil(self.block) * self.block * self.bits / 8
    }
}

/// The product with a large table, as products with parts of it that follow one another in the same bytes of the data
/// file. ONNX Runtime lays a matrix down anew when it loads it, and until then its pages of the file count as ours:
/// Gemma's head in one piece made the peak of loading 160 MB higher. The logits are the same bit by bit, and a step
/// takes the same time.
fn multiply_in_pieces(
    g: &mut Builder,
    input: &Value,
    packed: &Packed,
) -> Result<Value, LowerError> {
    let count = packed.bytes().div_ceil(LARGEST_PIECE);
    if count <= 1 {
        return Ok(multiply(g, input, packed));
    }
    // A multiple of what any kernel computes at once.
    let step = packed.rows.div_ceil(count).next_multiple_of(64);
    let mut products = Vec::with_capacity(count);
    for first in (0..packed.rows).step_by(step) {
        let rows = first..packed.rows.min(first + step);
        let mut part = |whole: &Value| g.rows(whole, rows.clone());
        let piece = Packed {
            codes: part(&packed.codes).map_err(LowerError::Write)?,
            scales: part(&packed.scales).map_err(LowerError::Write)?,
            zeros: packed
                .zeros
                .as_ref()
                .map(part)
                .transpose()
                .map_err(LowerError::Write)?,
            rows: rows.len(),
            ..*packed
        };
        products.push(multiply(g, input, &piece));
    }
    let products: Vec<&Value> = products.iter().collect();
    Ok(g.op("Concat", &products, &[int("axis", -1)]))
}

/// `input · weightsᵀ`.
pub fn multiply(g: &mut Builder, input: &Value, packed: &Packed) -> Value {
    let mut inputs = vec![input, &packed.codes, &packed.scales];
    inputs.extend(&packed.zeros);
    let attributes = [
        int("K", packed.columns as i64),
        int("N", packed.rows as i64),
        int("bits", packed.bits as i64),
        int("block_size", packed.block as i64),
        int("accuracy_level", 4),
    ];
    g.contrib("MatMulNBits", &inputs, &attributes)
}

/// Rows of a table, as floats.
///
/// # Errors
///
/// [`LowerError::Write`].
pub fn embedding(g: &mut Builder, ids: &Value, packed: &Packed) -> Result<Value, LowerError> {
    // The same bytes as the head's where both are tied: a Reshape would copy them.
    let bytes_of_row = packed.columns.div_ceil(packed.block) * packed.block * packed.bits / 8;
    let codes = g.alias(&packed.codes, &[packed.rows, bytes_of_row])?;
    let mut inputs = vec![&codes, ids, &packed.scales];
    inputs.extend(&packed.zeros);
    let attributes = [
        int("bits", packed.bits as i64),
        int("block_size", packed.block as i64),
        int("gather_axis", 0),
        int("quantize_axis", 1),
    ];
    Ok(g.contrib("GatherBlockQuantized", &inputs, &attributes))
}

/// How the weights are quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The codes as they are, their zero moved.
    Codes,
    /// The codes multiplied, so that their minimum is nearly a whole number of steps.
    Stretched,
    /// Anew, from floats.
    Symmetric,
}

fn way(weight: &Weight<'_>) -> Way {
    if !weight.has_codes() {
        return Way::Symmetric;
    }
    match weight.kind().zero() {
        Some(_) => Way::Codes,
        None => Way::Stretched,
    }
}

/// Bits and codes to a block of these weights laid down together, in blocks of `largest` at most.
pub(super) fn form(weights: &[Weight<'_>], largest: usize) -> (usize, usize) {
    if (weights.iter()).all(|w| w.kind() == Kind::Q4_0 && w.has_codes()) {
        return (4, BLOCK);
    }
    let finest = weights
        .iter()
        .any(|w| w.has_codes() && w.kind().group() == 16);
    (8, if finest { 16 } else { largest })
}

/// Lays weights with one number of columns down, one below the other. 8-bit codes come in blocks of `largest` (16 or
/// 32) at most; 4-bit ones in blocks of 32.
///
/// # Errors
///
/// [`LowerError`].
pub fn pack(g: &mut Builder, weights: &[Weight<'_>], largest: usize) -> Result<Packed, LowerError> {
    let (Some(first), (bits, block)) = (weights.first(), form(weights, largest)) else {
        return Err(LowerError::Write(std::io::Error::other(
            "no weights; this is a bug",
        )));
    };
    let name = first.name();
    let columns = first.columns();
    let rows: usize = weights.iter().map(Weight::rows).sum();
    let blocks = columns.div_ceil(block);
    let mut scales = Vec::with_capacity(rows * blocks);
    let mut zeros = weights
        .iter()
        .any(|w| way(w) == Way::Stretched)
        .then(|| Vec::with_capacity(rows * blocks));
    let codes = g.stream(
        &format!("{name}.codes"),
        Element::U8,
        &[rows, blocks, block * bits / 8],
        |out| {
            let mut piece = Piece::default();
            for weight in weights {
                let at_once = (PIECE / columns.max(1)).max(1);
                for start in (0..weight.rows()).step_by(at_once) {
                    let range = start..(start + at_once).min(weight.rows());
                    piece.read(weight, range, bits, block)?;
                    out.write_all(&piece.codes)?;
                    scales.extend_from_slice(&piece.scales);
                    if let Some(zeros) = &mut zeros {
                        zeros.extend_from_slice(&piece.zeros);
                    }
                }
            }
            Ok::<_, LowerError>(())
        },
    )?;
    let shape = [rows, blocks];
    let scales = g.stream(&format!("{name}.scales"), Element::F32, &shape, |out| {
        scales.chunks(PIECE).try_for_each(|some| {
            let bytes: Vec<u8> = some.iter().flat_map(|v| v.to_le_bytes()).collect();
            out.write_all(&bytes)
        })
    })?;
    let zeros = zeros
        .map(|zeros| {
            g.stream(&format!("{name}.zeros"), Element::U8, &shape, |out| {
                out.write_all(&zeros)
            })
        })
        .transpose()?;
    Ok(Packed {
        codes,
        scales,
        zeros,
        bits,
        block,
        rows,
        columns,
    })
}

/// Some rows, quantised. The memory is used again.
#[derive(Default)]
struct Piece {
    codes: Vec<u8>,
    scales: Vec<f32>,
    zeros: Vec<u8>,
    floats: Vec<f32>,
    blocks: Blocks,
}

impl Piece {
    fn read(
        &mut self,
        weight: &Weight<'_>,
        rows: Range<usize>,
        bits: usize,
        block: usize,
    ) -> Result<(), LowerError> {
        self.codes.clear();
        self.scales.clear();
        self.zeros.clear();
        if way(weight) == Way::Symmetric {
            return self.read_floats(weight, rows, block);
        }
        weight.codes(rows, &mut self.blocks)?;
        match std::mem::replace(&mut self.blocks.offset, Offset::Zero(0)) {
            Offset::Zero(zero) => {
                self.moved(zero, bits);
                self.scales.extend_from_slice(&self.blocks.scales);
                self.zeros.resize(self.scales.len(), 128);
            }
            Offset::Minima(minima) => {
                self.stretched(&minima);
                self.blocks.offset = Offset::Minima(minima);
            }
        }
        // Codes that shared a scale and now lie in several blocks.
        let parts = self.blocks.group / block;
        if parts > 1 {
            self.scales = self
                .scales
                .iter()
                .flat_map(|&v| std::iter::repeat_n(v, parts))
                .collect();
            self.zeros = self
                .zeros
                .iter()
                .flat_map(|&v| std::iter::repeat_n(v, parts))
                .collect();
        }
        Ok(())
    }

    /// The codes as they are, their zero at the middle.
    fn moved(&mut self, zero: u8, bits: usize) {
        if bits == 4 {
            let pairs = self.blocks.codes.as_chunks::<2>().0;
            self.codes
                .extend(pairs.iter().map(|[low, high]| low | high << 4));
        } else {
            // At most 255: codes of fewer bits lie around a zero of their own.
            let moved = self
                .blocks
                .codes
                .iter()
                .map(|code| code.wrapping_add(128 - zero));
            self.codes.extend(moved);
        }
    }

    fn stretched(&mut self, minima: &[f32]) {
        let groups = self.blocks.codes.chunks_exact(self.blocks.group);
        for ((codes, &scale), &minimum) in groups.zip(&self.blocks.scales).zip(minima) {
            let most = codes.iter().copied().max().unwrap_or(0);
            if let Some((times, zero)) = stretch(scale, minimum, most) {
                self.codes.extend(codes.iter().map(|code| code * times));
                self.scales.push(scale / f32::from(times));
                self.zeros.push(zero);
            } else {
                let value = |code: u8| scale * f32::from(code) + minimum;
                let (low, high) = codes.iter().fold((0.0f32, 0.0f32), |(low, high), &code| {
                    (low.min(value(code)), high.max(value(code)))
                });
                let step = step(high - low, 255.0);
                let zero = (-low / step).round_ties_even().clamp(0.0, 255.0);
                let anew = |&code: &u8| {
                    ((value(code) / step).round_ties_even() + zero).clamp(0.0, 255.0) as u8
                };
                self.codes.extend(codes.iter().map(anew));
                self.scales.push(step);
                self.zeros.push(zero as u8);
            }
        }
    }

    fn read_floats(
        &mut self,
        weight: &Weight<'_>,
        rows: Range<usize>,
        block: usize,
    ) -> Result<(), LowerError> {
        let columns = weight.columns();
        self.floats.resize(rows.len() * columns, 0.0);
        weight.floats(rows, &mut self.floats)?;
        for row in self.floats.chunks_exact(columns) {
            for values in row.chunks(block) {
                let largest = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                let step = step(largest, 127.0);
                let code =
                    |&v: &f32| ((v / step).round_ties_even() + 128.0).clamp(1.0, 255.0) as u8;
                self.codes.extend(values.iter().map(code));
                // A last block that is not full: codes that mean 0.
                self.codes
                    .resize(self.codes.len() + block - values.len(), 128);
                self.scales.push(step);
                self.zeros.push(128);
            }
        }
        Ok(())
    }
}

/// By what whole number to multiply codes up to `most`, so that 0 comes nearest to a code: the number and that code.
///
/// Values are `scale · code + minimum`; multiplied by `n`, codes lie `n` steps of `scale / n` apart, and 0 lies at
/// `−minimum · n / scale`, which has to be rounded: the values are all off by that fraction of a step. With up to 17
/// numbers to choose from (4-bit codes), it is a small one. `None` where 0 lies at no code from 0 to 255.
fn stretch(scale: f32, minimum: f32, most: u8) -> Option<(u8, u8)> {
    let at = -f64::from(minimum) / f64::from(scale);
    (1..=255 / most.max(1))
        .filter_map(|times| {
            let zero = at * f64::from(times);
            let rounded = zero.round();
            (0.0..=255.0).contains(&rounded).then(|| {
                (
                    (zero - rounded).abs() / f64::from(times),
                    times,
                    rounded as u8,
                )
            })
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, times, zero)| (times, zero))
}

/// A step; 1 where there is nothing to tell apart.
pub(super) fn step(range: f32, steps: f32) -> f32 {
    let step = range / steps;
    if step.is_normal() { step } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stretched_until_zero_lies_at_a_code() {
        // By hand: 0 lies at 2.25 codes, at 9 when they lie 4 apart.
        assert_eq!(stretch(1.0, -2.25, 15), Some((4, 9)));
        // 8-bit codes stay; 0 is rounded.
        assert_eq!(stretch(1.0, -2.25, 255), Some((1, 2)));
        // 0 is below all codes, or there is nothing to multiply.
        assert_eq!(stretch(1.0, 2.0, 15), None);
        assert_eq!(stretch(0.0, -1.0, 15), None);
        assert_eq!(stretch(0.0, 0.0, 15), None);
    }
}
