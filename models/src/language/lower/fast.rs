//! Recipes `fast` and `balanced`: 8-bit weights with a scale per output, inputs rounded to 8 bits with a scale per token.
//!
//! ```text
//! m = max |x| of the token        u = QuantizeLinear(x / m, 1/127, zero 128)
//! y = MatMulIntegerToFloat(u, weights) · m
//! ```
//!
//! Some inputs are rounded twice, the second time what the first left over. Each time 7 bits are taken, so 14 of the
//! input count, and the weights need not keep to the limit of [`super::column`]: both sides gain. Both halves go through
//! one product, as twice as many tokens: a prompt's products cost twice as much there, a decode step, which waits for the
//! weights, a few hundredths more. Some products are those of `exact`, at three times the cost. Which is which is chosen
//! when a model is imported: `balanced` may take more time than `fast`.
//!
//! A token of zeros gives 0/0 at first, whatever byte ONNX Runtime makes of it, and 0 once multiplied by m.
//!
//! The head's input is always rounded twice: it comes once for each answer's token, never for a prompt's (once costs
//! SmolLM2 a KL of 0.004). Bytes read faster than the blocks of `exact`: Gemma's head, half of its decode step, takes 0.7
//! of the time and two thirds of the memory while it is loaded. The embedding stays that of `exact`; where both were
//! tied they no longer share their bytes, but of the embedding only the rows in use are ever read.

use std::collections::HashMap;
use std::ops::Range;

use super::column;
use super::{Exact, LowerError, Place, Product, Recipe, Weight};
use crate::gguf::Kind;
use crate::onnx::{Builder, Element, Value, int};

/// Weights that are read at once.
const PIECE: usize = 1 << 18;
/// Inputs whose weights are turned at once.
const TURNED: usize = 64;
/// Codes that are in memory at once: larger matrices are read several times.
const HELD: usize = 1 << 24;
/// A token's largest input, rounded once, in steps.
const STEPS: f32 = 127.0;
/// The same in steps of the first of two times.
const HALF_STEPS: f32 = 63.0;
/// What is left of such a step, rounded in steps of so small a part of it: half a step is 63 of them.
const PART: f32 = 126.0;

/// How a product is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Weights of 8 bits, inputs rounded once.
    Once,
    /// Weights of 8 bits, inputs rounded twice.
    Twice,
    /// As [`Exact`] makes it.
    Exact,
}

/// The ways that were chosen, place by place.
pub type Ways = HashMap<Place, Way>;

/// See the module.
#[derive(Debug)]
pub struct Fast {
    name: &'static str,
    ways: Ways,
    /// Where none was chosen.
    otherwise: Way,
    exact: Exact,
}

impl Fast {
    /// Recipe `fast`: inputs are rounded once where nothing else was chosen.
    #[must_use]
    pub fn new(ways: Ways) -> Self {
        Self {
            name: "fast",
            ways,
            otherwise: Way::Once,
            exact: Exact::default(),
        }
    }

    /// Recipe `balanced`: they are rounded twice there.
    #[must_use]
    pub fn balanced(ways: Ways) -> Self {
        Self {
            name: "balanced",
            otherwise: Way::Twice,
            ..Self::new(ways)
        }
    }
}

impl Recipe for Fast {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bytes_per_weight(&self, kind: Kind) -> f64 {
        // The embedding.
        self.exact.bytes_per_weight(kind).max(1.0)
    }

    fn bytes_per_embedded(&self) -> f64 {
        // The head, where it is tied.
        1.0
    }

    fn product(
        &mut self,
        g: &mut Builder,
        input: &Value,
        weights: &[Weight<'_>],
        place: Place,
        joined: bool,
    ) -> Result<Product, LowerError> {
        let twice = match self.ways.get(&place).unwrap_or(&self.otherwise) {
            Way::Once => false,
            Way::Twice => true,
            Way::Exact => return self.exact.product(g, input, weights, place, joined),
        };
        let rounded = Rounded::of(g, input, twice);
        if joined {
            return Ok(Product::Joined(rounded.times(g, weights)?));
        }
        let mut products = Vec::with_capacity(weights.len());
        for weight in weights {
            products.push(rounded.times(g, std::slice::from_ref(weight))?);
        }
        Ok(Product::Apart(products))
    }

    fn embedding(
        &mut self,
        g: &mut Builder,
        ids: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        self.exact.embedding(g, ids, table)
    }

    fn head(
        &mut self,
        g: &mut Builder,
        input: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        Rounded::of(g, input, true).times(g, std::slice::from_ref(table))
    }
}

/// Inputs as bytes.
struct Rounded {
    /// Rounded twice, both halves one behind the other along the first axis.
    bytes: Value,
    /// What the products are multiplied by: `[B or 2 B, S, 1]`.
    factors: Value,
    twice: bool,
    step: Value,
    zero: Value,
}

impl Rounded {
    fn of(g: &mut Builder, input: &Value, twice: bool) -> Self {
        let last = g.integers(&[-1]);
        let zero = g.constant(Element::U8, &[], vec![if twice { 64 } else { 128 }]);
        let magnitudes = g.op("Abs", &[input], &[]);
        let largest = g.op("ReduceMax", &[&magnitudes, &last], &[int("keepdims", 1)]);
        let parts = g.op("Div", &[input, &largest], &[]);
        let steps = if twice { HALF_STEPS } else { STEPS };
        let step = g.scalar(steps.recip());
        let first = g.op("QuantizeLinear", &[&parts, &step, &zero], &[]);
        let (bytes, factors) = if twice {
            let met = g.op("DequantizeLinear", &[&first, &step, &zero], &[]);
            let left = g.op("Sub", &[&parts, &met], &[]);
            let fine = g.scalar(1.0 / HALF_STEPS / PART);
            let second = g.op("QuantizeLinear", &[&left, &fine, &zero], &[]);
            let part = g.scalar(PART.recip());
            let smaller = g.op("Mul", &[&largest, &part], &[]);
            let one_behind_the_other = [int("axis", 0)];
            (
                g.op("Concat", &[&first, &second], &one_behind_the_other),
                g.op("Concat", &[&largest, &smaller], &one_behind_the_other),
            )
        } else {
            (first, largest)
        };
        Self {
            bytes,
            factors,
            twice,
            step,
            zero,
        }
    }

    /// `[B, S, inputs]` times the weights.
    fn times(&self, g: &mut Builder, weights: &[Weight<'_>]) -> Result<Value, LowerError> {
        let pair = if self.twice {
            column::ANY_PAIR
        } else {
            column::PAIR
        };
        let laid = lay(g, weights, pair)?;
        let inputs = [
            &self.bytes,
            &laid.codes,
            &self.step,
            &laid.scales,
            &self.zero,
        ];
        let product = g.contrib("MatMulIntegerToFloat", &inputs, &[]);
        let product = g.op("Mul", &[&product, &self.factors], &[]);
        if !self.twice {
            return Ok(product);
        }
        let halves = [g.fresh(), g.fresh()];
        let both = [&halves[0], &halves[1]];
        let attributes = [int("axis", 0), int("num_outputs", 2)];
        g.op_to("Split", &[&product], &both, &attributes);
        Ok(g.op("Add", &both, &[]))
    }
}

/// Weights laid down.
struct Laid {
    /// Signed bytes `[columns, rows]`.
    codes: Value,
    /// Floats `[rows]`.
    scales: Value,
}

/// Lays weights with one number of columns down side by side.
fn lay(g: &mut Builder, weights: &[Weight<'_>], pair: i32) -> Result<Laid, LowerError> {
    let Some(first) = weights.first() else {
        return Err(LowerError::Write(std::io::Error::other(
            "no weights; this is a bug",
        )));
    };
    let columns = first.columns();
    let rows: usize = weights.iter().map(Weight::rows).sum();
    let mut scales = Vec::with_capacity(rows);
    let name = first.name();
    let shape = [columns, rows];
    let codes = g.stream(&format!("{name}.bytes"), Element::I8, &shape, |out| {
        let mut turned = Vec::new();
        let some = (HELD / rows.max(1)).max(1);
        for start in (0..columns).step_by(some) {
            let held = start..(start + some).min(columns);
            let codes = codes(weights, held.clone(), pair, &mut scales)?;
            for start in (0..held.len()).step_by(TURNED) {
                let some = TURNED.min(held.len() - start);
                turned.clear();
                turned.resize(some * rows, 0u8);
                for (n, row) in codes.chunks_exact(held.len()).enumerate() {
                    for (k, &code) in row[start..start + some].iter().enumerate() {
                        turned[k * rows + n] = code.cast_unsigned();
                    }
                }
                out.write_all(&turned)?;
            }
        }
        Ok::<_, LowerError>(())
    })?;
    Ok(Laid {
        codes,
        scales: g.floats(&[rows], &scales),
    })
}

/// The codes of these columns, row by row. The scales of all rows are found the first time.
fn codes(
    weights: &[Weight<'_>],
    held: Range<usize>,
    pair: i32,
    scales: &mut Vec<f32>,
) -> Result<Vec<i8>, LowerError> {
    let rows: usize = weights.iter().map(Weight::rows).sum();
    let mut codes = Vec::with_capacity(rows * held.len());
    let (mut floats, mut whole) = (Vec::new(), Vec::new());
    let mut n = 0;
    for weight in weights {
        let columns = weight.columns();
        let at_once = (PIECE / columns.max(1)).max(1);
        whole.resize(columns, 0);
        for start in (0..weight.rows()).step_by(at_once) {
            let range = start..(start + at_once).min(weight.rows());
            floats.resize(range.len() * columns, 0.0);
            weight.floats(range, &mut floats)?;
            for row in floats.chunks_exact(columns) {
                if n == scales.len() {
                    scales.push(column::scale(row, pair));
                }
                column::code(row, scales[n], &mut whole, pair);
                codes.extend_from_slice(&whole[held.clone()]);
                n += 1;
            }
        }
    }
    Ok(codes)
}
