//! Recipes `fast` and `balanced`: 8-bit weights with a scale per output, inputs rounded to 8 bits with a scale per token.
//!
//! ```text
//! m = max |x| of the token        u = QuantizeLinear(x / m, 1/127, zero 128)
//! y = MatMulIntegerToFloat(u, weights) · m
//! ```
//!
//! A token of zeros gives 0/0 at first, whatever byte ONNX Runtime makes of it, and 0 once multiplied by m.
//! `balanced` rounds what goes into the products named in [`TWICE`] twice: the second time what the first left over, so
//! that 16 bits of it count. Their weights are read from the same bytes.
//!
//! Embedding and head stay those of `exact`: tied, they share their bytes, and a head of one scale per token costs
//! quality (SmolLM2: KL 0.021 instead of 0.017) for what bandwidth says are 0.5 ms of 18 per token.

use super::column;
use super::{Exact, LowerError, Place, Product, Recipe, Role, Weight};
use crate::gguf::Kind;
use crate::onnx::{Builder, Element, Value, int};

/// Products whose inputs `balanced` takes with 16 bits.
const TWICE: [Role; 1] = [Role::Down];
/// Weights that are read at once.
const PIECE: usize = 1 << 18;
/// Inputs whose weights are turned at once.
const TURNED: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Fast {
    twice: &'static [Role],
    exact: Exact,
}

impl Fast {
    /// Recipe `balanced`.
    #[must_use]
    pub fn balanced() -> Self {
        Self {
            twice: &TWICE,
            ..Self::default()
        }
    }
}

impl Recipe for Fast {
    fn name(&self) -> &'static str {
        if self.twice.is_empty() {
            "fast"
        } else {
            "balanced"
        }
    }

    fn bytes_per_weight(&self, kind: Kind) -> f64 {
        // Embedding and head.
        self.exact.bytes_per_weight(kind).max(1.0)
    }

    fn product(
        &mut self,
        g: &mut Builder,
        input: &Value,
        weights: &[Weight<'_>],
        place: Place,
        joined: bool,
    ) -> Result<Product, LowerError> {
        let rounded = Rounded::of(g, input, self.twice.contains(&place.role));
        if joined {
            let laid = lay(g, weights)?;
            return Ok(Product::Joined(rounded.times(g, &laid)));
        }
        let mut products = Vec::with_capacity(weights.len());
        for weight in weights {
            let laid = lay(g, std::slice::from_ref(weight))?;
            products.push(rounded.times(g, &laid));
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
        self.exact.head(g, input, table)
    }
}

/// Inputs as bytes.
struct Rounded {
    /// The largest magnitude of each token.
    largest: Value,
    /// The first time and, at a 254th of its step, the second: bytes and their step.
    bytes: Vec<(Value, Value)>,
    zero: Value,
}

impl Rounded {
    fn of(g: &mut Builder, input: &Value, twice: bool) -> Self {
        let last = g.integers(&[-1]);
        let zero = g.constant(Element::U8, &[], vec![128]);
        let magnitudes = g.op("Abs", &[input], &[]);
        let largest = g.op("ReduceMax", &[&magnitudes, &last], &[int("keepdims", 1)]);
        let parts = g.op("Div", &[input, &largest], &[]);
        let step = g.scalar(1.0 / 127.0);
        let first = g.op("QuantizeLinear", &[&parts, &step, &zero], &[]);
        let mut bytes = vec![(first.clone(), step.clone())];
        if twice {
            let met = g.op("DequantizeLinear", &[&first, &step, &zero], &[]);
            let left = g.op("Sub", &[&parts, &met], &[]);
            // What is left is half a step at most: 127 of these.
            let step = g.scalar(1.0 / 127.0 / 254.0);
            bytes.push((g.op("QuantizeLinear", &[&left, &step, &zero], &[]), step));
        }
        Self {
            largest,
            bytes,
            zero,
        }
    }

    fn times(&self, g: &mut Builder, laid: &Laid) -> Value {
        let products: Vec<Value> = self
            .bytes
            .iter()
            .map(|(bytes, step)| {
                let inputs = [bytes, &laid.codes, step, &laid.scales, &self.zero];
                g.contrib("MatMulIntegerToFloat", &inputs, &[])
            })
            .collect();
        let product = match products.as_slice() {
            [first, second] => g.op("Add", &[first, second], &[]),
            _ => products[0].clone(),
        };
        g.op("Mul", &[&product, &self.largest], &[])
    }
}

/// Weights laid down.
struct Laid {
    /// Signed bytes `[columns, rows]`.
    codes: Value,
    /// Floats `[rows]`.
    scales: Value,
}

/// Lays weights with one number of columns down side by side. All of their codes are in memory meanwhile.
fn lay(g: &mut Builder, weights: &[Weight<'_>]) -> Result<Laid, LowerError> {
    let Some(first) = weights.first() else {
        return Err(LowerError::Write(std::io::Error::other(
            "no weights; this is a bug",
        )));
    };
    let columns = first.columns();
    let rows: usize = weights.iter().map(Weight::rows).sum();
    let mut codes = vec![0i8; rows * columns];
    let mut scales = Vec::with_capacity(rows);
    let mut floats = Vec::new();
    let mut rest = codes.chunks_exact_mut(columns.max(1));
    for weight in weights {
        let at_once = (PIECE / columns.max(1)).max(1);
        for start in (0..weight.rows()).step_by(at_once) {
            let range = start..(start + at_once).min(weight.rows());
            floats.resize(range.len() * columns, 0.0);
            weight.floats(range, &mut floats)?;
            for (row, codes) in floats.chunks_exact(columns).zip(&mut rest) {
                scales.push(column::quantise(row, codes));
            }
        }
    }
    let name = first.name();
    let shape = [columns, rows];
    let codes = g.stream(&format!("{name}.bytes"), Element::I8, &shape, |out| {
        let mut turned = Vec::new();
        for start in (0..columns).step_by(TURNED) {
            let some = TURNED.min(columns - start);
            turned.clear();
            turned.resize(some * rows, 0u8);
            for (n, row) in codes.chunks_exact(columns).enumerate() {
                for (k, &code) in row[start..start + some].iter().enumerate() {
                    turned[k * rows + n] = code.cast_unsigned();
                }
            }
            out.write_all(&turned)?;
        }
        Ok::<_, LowerError>(())
    })?;
    Ok(Laid {
        codes,
        scales: g.floats(&[rows], &scales),
    })
}
