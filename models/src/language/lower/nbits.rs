//! Recipe `exact`: weights as 4- or 8-bit codes with a scale for 32 of them, multiplied by `MatMulNBits`.
//!
//! | stored as | laid down as | error |
//! | --- | --- | --- |
//! | Q4_0 | 4-bit codes, zero 8 | none |
//! | Q8_0, Q5_0 (Q4_0 beside others) | 8-bit codes, zero 128 | none |
//! | Q3_K, Q6_K, F32, F16, BF16 | 8-bit codes, zero 128 | half a step of 1/127 of the largest of 32 |
//! | Q4_1, Q5_1, Q2_K, Q4_K, Q5_K | 8-bit codes with a zero of their own | half a step of 1/255 of the range of 32 |
//!
//! Q4_1 has a minimum that is no whole number of steps: with a 4-bit zero point the KL against the float model was
//! 0.275, with 8 bits 0.003 (SmolLM2); float zero points are 18 times slower on the CPU. The inputs are rounded to 8
//! bits for each 32 (`accuracy_level` 4) by the operator itself.

use std::collections::HashMap;

use super::{LowerError, Place, Product, Recipe, Weight};
use crate::gguf::Kind;
use crate::gguf::blocks::{Blocks, Offset};
use crate::onnx::{Builder, Element, Value, int};

/// Codes that share a scale.
pub const BLOCK: usize = 32;
/// Codes that are read at once.
const PIECE: usize = 1 << 18;

/// Weights laid down.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Bytes `[rows, blocks, 32 · bits / 8]`; of 4-bit codes, the first is in the low half.
    pub codes: Value,
    /// Floats `[rows, blocks]`.
    pub scales: Value,
    /// Bytes `[rows, blocks]`; 8 or 128 where there are none.
    pub zeros: Option<Value>,
    /// 4 or 8.
    pub bits: usize,
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
        let packed = pack(g, std::slice::from_ref(table))?;
        self.tables.insert(name, packed.clone());
        Ok(packed)
    }
}

impl Recipe for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn bytes_per_weight(&self, kind: Kind) -> f64 {
        // A code, and a scale and a zero for each 32.
        let code = if kind == Kind::Q4_0 { 0.5 } else { 1.0 };
        code + 5.0 / BLOCK as f64
    }

    fn product(
        &mut self,
        g: &mut Builder,
        input: &Value,
        weights: &[Weight<'_>],
        _: Place,
        joined: bool,
    ) -> Result<Product, LowerError> {
        // Beside others, 4-bit codes would be laid down in 8.
        let alike = weights
            .windows(2)
            .all(|pair| bits(&pair[..1]) == bits(&pair[1..]));
        if joined && alike {
            let packed = pack(g, weights)?;
            return Ok(Product::Joined(multiply(g, input, &packed)));
        }
        let mut products = Vec::with_capacity(weights.len());
        for weight in weights {
            let packed = pack(g, std::slice::from_ref(weight))?;
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
        Ok(multiply(g, input, &packed))
    }
}

/// `input · weightsᵀ`.
pub fn multiply(g: &mut Builder, input: &Value, packed: &Packed) -> Value {
    let mut inputs = vec![input, &packed.codes, &packed.scales];
    inputs.extend(&packed.zeros);
    let attributes = [
        int("K", packed.columns as i64),
        int("N", packed.rows as i64),
        int("bits", packed.bits as i64),
        int("block_size", BLOCK as i64),
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
    let bytes_of_row = packed.columns.div_ceil(BLOCK) * BLOCK * packed.bits / 8;
    let codes = g.alias(&packed.codes, &[packed.rows, bytes_of_row])?;
    let mut inputs = vec![&codes, ids, &packed.scales];
    inputs.extend(&packed.zeros);
    let attributes = [
        int("bits", packed.bits as i64),
        int("block_size", BLOCK as i64),
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
    Symmetric,
    Affine,
}

fn way(weight: &Weight<'_>) -> Way {
    match weight.kind() {
        Kind::Q4_0 | Kind::Q5_0 | Kind::Q8_0 if weight.has_codes() => Way::Codes,
        Kind::Q4_1 | Kind::Q5_1 | Kind::Q2K | Kind::Q4K | Kind::Q5K => Way::Affine,
        _ => Way::Symmetric,
    }
}

fn bits(weights: &[Weight<'_>]) -> usize {
    let all = weights
        .iter()
        .all(|w| w.kind() == Kind::Q4_0 && way(w) == Way::Codes);
    if all { 4 } else { 8 }
}

/// Lays weights with one number of columns down, one below the other.
///
/// # Errors
///
/// [`LowerError`].
pub fn pack(g: &mut Builder, weights: &[Weight<'_>]) -> Result<Packed, LowerError> {
    let (Some(first), bits) = (weights.first(), bits(weights)) else {
        return Err(LowerError::Write(std::io::Error::other(
            "no weights; this is a bug",
        )));
    };
    let name = first.name();
    let columns = first.columns();
    let rows: usize = weights.iter().map(Weight::rows).sum();
    let blocks = columns.div_ceil(BLOCK);
    let mut scales = Vec::with_capacity(rows * blocks);
    let mut zeros = weights
        .iter()
        .any(|w| way(w) == Way::Affine)
        .then(|| Vec::with_capacity(rows * blocks));
    let codes = g.stream(
        &format!("{name}.codes"),
        Element::U8,
        &[rows, blocks, BLOCK * bits / 8],
        |out| {
            let mut block = Piece::default();
            for weight in weights {
                let at_once = (PIECE / columns.max(1)).max(1);
                for start in (0..weight.rows()).step_by(at_once) {
                    let range = start..(start + at_once).min(weight.rows());
                    block.read(weight, range, bits)?;
                    out.write_all(&block.codes)?;
                    scales.extend_from_slice(&block.scales);
                    if let Some(zeros) = &mut zeros {
                        zeros.extend_from_slice(&block.zeros);
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
        rows: std::ops::Range<usize>,
        bits: usize,
    ) -> Result<(), LowerError> {
        self.codes.clear();
        self.scales.clear();
        self.zeros.clear();
        let way = way(weight);
        if way == Way::Codes {
            weight.codes(rows, &mut self.blocks)?;
            let Offset::Zero(zero) = self.blocks.offset else {
                return Err(LowerError::Write(std::io::Error::other(
                    "codes with minima; this is a bug",
                )));
            };
            self.scales.extend_from_slice(&self.blocks.scales);
            self.zeros.resize(self.scales.len(), 128);
            if bits == 4 {
                let pairs = self.blocks.codes.as_chunks::<2>().0;
                self.codes
                    .extend(pairs.iter().map(|[low, high]| low | high << 4));
            } else {
                let moved = self.blocks.codes.iter().map(|code| code + (128 - zero));
                self.codes.extend(moved);
            }
            return Ok(());
        }
        let columns = weight.columns();
        self.floats.resize(rows.len() * columns, 0.0);
        weight.floats(rows, &mut self.floats)?;
        for row in self.floats.chunks_exact(columns) {
            for values in row.chunks(BLOCK) {
                let (scale, zero) = if way == Way::Affine {
                    affine(values)
                } else {
                    symmetric(values)
                };
                self.scales.push(scale);
                self.zeros.push(zero);
                let lowest = if way == Way::Affine { 0.0 } else { 1.0 };
                let code = |v: f32| {
                    ((v / scale).round_ties_even() + f32::from(zero)).clamp(lowest, 255.0) as u8
                };
                self.codes.extend(values.iter().map(|&v| code(v)));
                // A last block that is not full: codes that mean 0.
                self.codes
                    .resize(self.codes.len() + BLOCK - values.len(), zero);
            }
        }
        Ok(())
    }
}

fn symmetric(values: &[f32]) -> (f32, u8) {
    let largest = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
    (scale(largest, 127.0), 128)
}

fn affine(values: &[f32]) -> (f32, u8) {
    let low = values.iter().fold(0.0f32, |low, &v| low.min(v));
    let high = values.iter().fold(0.0f32, |high, &v| high.max(v));
    let scale = scale(high - low, 255.0);
    (
        scale,
        (-low / scale).round_ties_even().clamp(0.0, 255.0) as u8,
    )
}

/// A step; 1 where there is nothing to tell apart.
fn scale(range: f32, steps: f32) -> f32 {
    let scale = range / steps;
    if scale.is_normal() { scale } else { 1.0 }
}
