//! Walks a description and says what follows what, in whatever operators and precision.

use super::{LowerError, Lowering, Place, Product, Reading, Recipe, Role, Weight};
use crate::language::architecture::{Activation, Attention, Layer, Linear, Vector};
use crate::onnx::{Builder, Element, Size, Value};

/// The operators in which a decoder is written.
pub trait Flavour {
    /// Its name, as `--flavour` and the manifest have it.
    fn name(&self) -> &'static str;

    /// The opset of the standard operators.
    fn opset(&self) -> i64;

    /// Declares the inputs and whatever all layers need; the tokens `[B, S]`.
    ///
    /// # Errors
    ///
    /// [`LowerError::Unsupported`] for a model that these operators can't express; [`LowerError::Write`].
    fn begin(&mut self, g: &mut Builder, lowering: &Lowering<'_>) -> Result<Value, LowerError>;

    /// `x` divided by its root mean square along the last axis, times `weight`.
    fn norm(&mut self, g: &mut Builder, x: &Value, weight: &Value, epsilon: f32) -> Value;

    /// The norm of `x + sum`, and the sum itself.
    fn add_and_norm(
        &mut self,
        g: &mut Builder,
        x: &Value,
        sum: &Value,
        weight: &Value,
        epsilon: f32,
    ) -> (Value, Value);

    /// Attention of layer `layer`, from its products, to `[B, S, heads · head_dim]`; declares its share of the cache.
    fn attention(
        &mut self,
        g: &mut Builder,
        lowering: &Lowering<'_>,
        layer: usize,
        qkv: Product,
        head_norms: [Option<Value>; 2],
    ) -> Value;

    /// The activation of a gate.
    fn activation(&mut self, g: &mut Builder, kind: Activation, gate: &Value) -> Value;

    /// Of `x` `[B, S, width]` the rows whose logits are wanted: `[B, R, width]`.
    fn wanted(&mut self, g: &mut Builder, x: &Value) -> Value;

    /// What the graph says of R.
    fn rows(&self) -> Size;
}

/// Writes the whole decoder into `g`.
///
/// # Errors
///
/// [`LowerError`].
pub fn decoder(
    g: &mut Builder,
    lowering: &Lowering<'_>,
    reading: &Reading<'_>,
    flavour: &mut dyn Flavour,
    recipe: &mut dyn Recipe,
) -> Result<(), LowerError> {
    Walk {
        g,
        lowering,
        reading,
        flavour,
        recipe,
    }
    .whole()
}

struct Walk<'w> {
    g: &'w mut Builder,
    lowering: &'w Lowering<'w>,
    reading: &'w Reading<'w>,
    flavour: &'w mut dyn Flavour,
    recipe: &'w mut dyn Recipe,
}

impl Walk<'_> {
    fn whole(&mut self) -> Result<(), LowerError> {
        let d = self.lowering.description;
        let ids = self.flavour.begin(self.g, self.lowering)?;
        let table = Weight::new(self.reading, &d.embedding);
        let mut sum = self.recipe.embedding(self.g, &ids, &table)?;
        if let Some(scale) = d.embedding_scale {
            let scale = self.g.scalar(scale);
            sum = self.g.op("Mul", &[&sum, &scale], &[]);
        }
        let Some(first) = d.layers.first() else {
            return Ok(());
        };
        let weight = self.norm(&first.attention_norm, Some(at(0, Role::Attention)))?;
        let mut normed = self.flavour.norm(self.g, &sum, &weight, d.epsilon);
        for (n, layer) in d.layers.iter().enumerate() {
            let last = n + 1 == d.layers.len();
            if last {
                // From here on only what the wanted rows say: a prompt has many, and the other rows of the last layer
                // are read by nobody once their keys and values are in the cache.
                sum = self.flavour.wanted(self.g, &sum);
            }
            let attended = self.attention(n, &layer.attention, &normed, last)?;
            let attended = self.post(attended, layer.post_attention_norm.as_ref())?;
            let weight = self.norm(&layer.mlp_norm, Some(at(n, Role::GateUp)))?;
            (normed, sum) = self
                .flavour
                .add_and_norm(self.g, &attended, &sum, &weight, d.epsilon);

            let down = self.mlp(n, layer, &normed)?;
            let down = self.post(down, layer.post_mlp_norm.as_ref())?;
            let weight = match d.layers.get(n + 1) {
                Some(next) => self.norm(&next.attention_norm, Some(at(n + 1, Role::Attention)))?,
                None => self.norm(&d.norm, None)?,
            };
            (normed, sum) = self
                .flavour
                .add_and_norm(self.g, &down, &sum, &weight, d.epsilon);
        }
        self.head(&normed)
    }

    fn head(&mut self, normed: &Value) -> Result<(), LowerError> {
        let d = self.lowering.description;
        let table = Weight::new(self.reading, &d.head);
        let logits = self.recipe.head(self.g, normed, &table)?;
        let logits = capped(self.g, logits, d.softcap);
        let named = self.g.named("logits");
        self.g.op_to("Identity", &[&logits], &[&named], &[]);
        let rows = self.flavour.rows();
        let shape = [Size::Named("B"), rows, Size::Is(d.vocabulary)];
        self.g.output(&named, Element::F32, &shape);
        Ok(())
    }

    fn attention(
        &mut self,
        n: usize,
        attention: &Attention,
        normed: &Value,
        last: bool,
    ) -> Result<Value, LowerError> {
        let d = self.lowering.description;
        let place = at(n, Role::Attention);
        let after = self.lowering.smoothing.get(&at(n, Role::Output));
        let divided = after.map(|factors| factors.iter().map(|f| f.recip()).collect::<Vec<_>>());
        let linears = [&attention.q, &attention.k, &attention.v];
        let joined = attention.q_norm.is_none() && attention.k_norm.is_none();
        let factors = [None, None, divided];
        let qkv = self.products(normed, &linears, place, &factors, joined)?;
        let mut norms = [None, None];
        for (norm, vector) in norms.iter_mut().zip([&attention.q_norm, &attention.k_norm]) {
            if let Some(vector) = vector {
                *norm = Some(self.norm(vector, None)?);
            }
        }
        let mut attended = self.flavour.attention(self.g, self.lowering, n, qkv, norms);
        if last {
            attended = self.flavour.wanted(self.g, &attended);
            self.recipe.other_tokens();
        }
        // One factor per value channel; several query heads share a value head.
        let shared = d.heads / d.kv_heads;
        let spread = after.map(|factors| {
            let heads = factors.chunks(d.head_dim);
            let spread = heads.flat_map(|head| std::iter::repeat_n(head, shared));
            spread.flatten().copied().collect::<Vec<_>>()
        });
        self.product(&attended, &attention.output, at(n, Role::Output), spread)
    }

    fn mlp(&mut self, n: usize, layer: &Layer, normed: &Value) -> Result<Value, LowerError> {
        let mlp = &layer.mlp;
        let after = self.lowering.smoothing.get(&at(n, Role::Down)).cloned();
        let divided = after
            .as_ref()
            .map(|factors| factors.iter().map(|f| f.recip()).collect::<Vec<_>>());
        let linears = [&mlp.gate, &mlp.up];
        let products = self.products(
            normed,
            &linears,
            at(n, Role::GateUp),
            &[None, divided],
            false,
        )?;
        let sizes = linears.map(|linear| linear.weight.rows.len());
        let products = products.apart(self.g, &sizes);
        let gate = self
            .flavour
            .activation(self.g, mlp.activation, &products[0]);
        let inner = self.g.op("Mul", &[&gate, &products[1]], &[]);
        self.product(&inner, &mlp.down, at(n, Role::Down), after)
    }

    /// One product whose input comes divided by `factors`.
    fn product(
        &mut self,
        input: &Value,
        linear: &Linear,
        place: Place,
        factors: Option<Vec<f32>>,
    ) -> Result<Value, LowerError> {
        let weight = Weight::new(self.reading, &linear.weight).with_column_factors(factors);
        let product = self.recipe.product(self.g, input, &[weight], place, true)?;
        let mut values = self
            .biased(product, &[linear], &[None])?
            .apart(self.g, &[linear.weight.rows.len()]);
        Ok(values.remove(0))
    }

    /// Products of one input that comes divided by the place's factors; rows are multiplied by `row_factors`.
    fn products(
        &mut self,
        input: &Value,
        linears: &[&Linear],
        place: Place,
        row_factors: &[Option<Vec<f32>>],
        joined: bool,
    ) -> Result<Product, LowerError> {
        let factors = self.lowering.smoothing.get(&place);
        let weights: Vec<Weight<'_>> = linears
            .iter()
            .zip(row_factors)
            .map(|(linear, rows)| {
                Weight::new(self.reading, &linear.weight)
                    .with_row_factors(rows.clone())
                    .with_column_factors(factors.cloned())
            })
            .collect();
        let product = self
            .recipe
            .product(self.g, input, &weights, place, joined)?;
        self.biased(product, linears, row_factors)
    }

    fn biased(
        &mut self,
        product: Product,
        linears: &[&Linear],
        row_factors: &[Option<Vec<f32>>],
    ) -> Result<Product, LowerError> {
        if linears.iter().all(|linear| linear.bias.is_none()) {
            return Ok(product);
        }
        let mut biases = Vec::with_capacity(linears.len());
        for (linear, factors) in linears.iter().zip(row_factors) {
            let mut bias = match &linear.bias {
                Some(bias) => self.reading.vector(bias)?,
                None => vec![0.0; linear.weight.rows.len()],
            };
            if let Some(factors) = factors {
                bias.iter_mut()
                    .zip(factors)
                    .for_each(|(b, factor)| *b *= factor);
            }
            biases.push(bias);
        }
        Ok(match product {
            Product::Joined(value) => Product::Joined(self.added(&value, &biases.concat())),
            Product::Apart(values) => {
                let added = values
                    .iter()
                    .zip(&biases)
                    .map(|(value, bias)| self.added(value, bias));
                Product::Apart(added.collect())
            }
        })
    }

    fn added(&mut self, value: &Value, bias: &[f32]) -> Value {
        let bias = self.g.floats(&[bias.len()], bias);
        self.g.op("Add", &[value, &bias], &[])
    }

    fn post(&mut self, value: Value, norm: Option<&Vector>) -> Result<Value, LowerError> {
        let Some(norm) = norm else { return Ok(value) };
        let weight = self.norm(norm, None)?;
        let epsilon = self.lowering.description.epsilon;
        Ok(self.flavour.norm(self.g, &value, &weight, epsilon))
    }

    /// The weight of a norm, divided by the factors of the product that it goes before.
    fn norm(&mut self, vector: &Vector, before: Option<Place>) -> Result<Value, LowerError> {
        let mut values = self.reading.vector(vector)?;
        if let Some(factors) = before.and_then(|place| self.lowering.smoothing.get(&place)) {
            values
                .iter_mut()
                .zip(factors)
                .for_each(|(v, factor)| *v /= factor);
        }
        Ok(self.g.floats(&[values.len()], &values))
    }
}

/// `cap · tanh(logits / cap)`, where there is a cap.
pub(super) fn capped(g: &mut Builder, logits: Value, cap: Option<f32>) -> Value {
    let Some(cap) = cap else { return logits };
    let (cap, inverse) = (g.scalar(cap), g.scalar(cap.recip()));
    let logits = g.op("Mul", &[&logits, &inverse], &[]);
    let logits = g.op("Tanh", &[&logits], &[]);
    g.op("Mul", &[&logits, &cap], &[])
}

fn at(layer: usize, role: Role) -> Place {
    Place { layer, role }
}
