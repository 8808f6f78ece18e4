//! Recipes `fast` and `balanced`: 8-bit weights with a scale per output, inputs rounded to 8 bits with a scale per token.
//!
//! ```text
//! s = max |x| of the token / 127        u = QuantizeLinear(x, s, zero 128)
//! y = MatMulIntegerToFloat(u, weights) · s
//! ```
//!
//! QuantizeLinear takes a scale for each token since opset 21 (blocks as long as a token), and ONNX Runtime gives the
//! tokens to all of its threads. Its zero points come in the same shape: they are made once for all
//! products of the same tokens.
//!
//! Some inputs are turned before they are rounded ([`super::turn`]): blocks of channels are multiplied by a constant.
//!
//! Some are rounded twice, the second time what the first left over. Each time 7 bits are taken, so 14 of the
//! input count, and the weights need not keep to the limit of [`super::column`]: both sides gain. Both halves go through
//! one product, as twice as many tokens: a prompt's products cost twice as much there, a decode step, which waits for the
//! weights, a few hundredths more. Some products are those of `exact`, at three times the cost. Which is which is chosen
//! when a model is imported: `balanced` may take more time than `fast`.
//!
//! A token of zeros gives 0/0 at first, whatever byte ONNX Runtime makes of it, and 0 once multiplied by s.
//!
//! The head's input is always rounded twice: it comes once for each answer's token, never for a prompt's (once costs
//! SmolLM2 a KL of 0.004). Bytes read faster than the blocks of `exact`: Gemma's head, half of its decode step, takes 0.7
//! of the time and two thirds of the memory while it is loaded. The embedding stays that of `exact`; where both were
//! tied they no longer share their bytes, but of the embedding only the rows in use are ever read.

use std::collections::HashMap;
use std::ops::Range;

use super::{Exact, LowerError, Place, Product, Recipe, Weight};
use super::{column, turn};
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
    /// The same with blocks of inputs turned; [`Way::Once`] where there are no blocks.
    Turned,
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
    /// How often the tokens have changed.
    tokens: usize,
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
            tokens: 0,
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
        let channels = weights.first().map_or(0, Weight::columns);
        let block = turn::block(channels);
        let rounded = match self.ways.get(&place).unwrap_or(&self.otherwise) {
            Way::Once => Rounded::once(g, input, channels, self.tokens),
            Way::Turned => Rounded::turned(g, input, channels, block, self.tokens),
            Way::Twice => Rounded::twice(g, input),
            Way::Exact => return self.exact.product(g, input, weights, place, joined),
        };
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
        Rounded::twice(g, input).times(g, std::slice::from_ref(table))
    }

    fn other_tokens(&mut self) {
        self.tokens += 1;
    }
}

/// Inputs as bytes.
struct Rounded {
    /// Rounded twice, both halves one behind the other along the first axis.
    bytes: Value,
    /// What the products are multiplied by: `[B or 2 B, S, 1]`.
    factors: Value,
    twice: bool,
    /// Turned in blocks of so many channels.
    block: Option<usize>,
    step: Value,
    zero: Value,
}

impl Rounded {
    /// `tokens` is the same for inputs of the same tokens.
    fn once(g: &mut Builder, input: &Value, channels: usize, tokens: usize) -> Self {
        let largest = largest(g, input);
        let zero = g.constant(Element::U8, &[], vec![128]);
        let zeros = g.once(&format!("zeros of tokens {tokens}"), |g| {
            // As many as there are tokens: anything over the largest float rounds to 0.
            let most = g.scalar(f32::MAX);
            vec![g.op("QuantizeLinear", &[&largest, &most, &zero], &[])]
        });
        let part = g.scalar(STEPS.recip());
        let steps = g.op("Mul", &[&largest, &part], &[]);
        let by_token = [int("axis", -1), int("block_size", channels as i64)];
        Self {
            bytes: g.op("QuantizeLinear", &[input, &steps, &zeros[0]], &by_token),
            factors: steps,
            twice: false,
            block: None,
            step: g.scalar(1.0),
            zero,
        }
    }

    fn turned(
        g: &mut Builder,
        input: &Value,
        channels: usize,
        block: Option<usize>,
        tokens: usize,
    ) -> Self {
        let Some(size) = block else {
            return Self::once(g, input, channels, tokens);
        };
        let blocks = g.reshape(input, &[0, 0, -1, size as i64]);
        let matrix = g.once(&format!("turns blocks of {size}"), |g| {
            vec![g.floats(&[size, size], &turn::matrix(size))]
        });
        let blocks = g.op("MatMul", &[&blocks, &matrix[0]], &[]);
        let turned = g.reshape(&blocks, &[0, 0, channels as i64]);
        Self {
            block,
            ..Self::once(g, &turned, channels, tokens)
        }
    }

    fn twice(g: &mut Builder, input: &Value) -> Self {
        let largest = largest(g, input);
        let zero = g.constant(Element::U8, &[], vec![64]);
        let parts = g.op("Div", &[input, &largest], &[]);
        let step = g.scalar(HALF_STEPS.recip());
        let first = g.op("QuantizeLinear", &[&parts, &step, &zero], &[]);
        let met = g.op("DequantizeLinear", &[&first, &step, &zero], &[]);
        let left = g.op("Sub", &[&parts, &met], &[]);
        let fine = g.scalar(1.0 / HALF_STEPS / PART);
        let second = g.op("QuantizeLinear", &[&left, &fine, &zero], &[]);
        let part = g.scalar(PART.recip());
        let smaller = g.op("Mul", &[&largest, &part], &[]);
        let one_behind_the_other = [int("axis", 0)];
        Self {
            bytes: g.op("Concat", &[&first, &second], &one_behind_the_other),
            factors: g.op("Concat", &[&largest, &smaller], &one_behind_the_other),
            twice: true,
            block: None,
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
        let laid = lay(g, weights, pair, self.block)?;
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

/// The largest magnitude of each token.
fn largest(g: &mut Builder, input: &Value) -> Value {
    let last = g.integers(&[-1]);
    let magnitudes = g.op("Abs", &[input], &[]);
    g.op("ReduceMax", &[&magnitudes, &last], &[int("keepdims", 1)])
}

/// Weights laid down.
struct Laid {
    /// Signed bytes `[columns, rows]`.
    codes: Value,
    /// Floats `[rows]`.
    scales: Value,
}

/// Lays weights with one number of columns down side by side.
fn lay(
    g: &mut Builder,
    weights: &[Weight<'_>],
    pair: i32,
    block: Option<usize>,
) -> Result<Laid, LowerError> {
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
            let codes = codes(weights, held.clone(), pair, block, &mut scales)?;
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
    block: Option<usize>,
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
            if let Some(block) = block {
                turn::turn(&mut floats, block);
            }
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
