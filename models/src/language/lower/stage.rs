//! Parts of a model as graphs of their own, so that it can be run in the memory of one of them: each layer, and the
//! head in pieces. The embedding is no part: its rows are read where they are wanted.
//!
//! A layer has, beside the inputs of [`Fused`]: `hidden` f32 `[B, S, width]`, what came out of the layer before, or the
//! embeddings. `past_key_values.0.*` may be any memory that holds `S` positions.

use std::ops::Range;

use super::{
    Flavour, Fused, LowerError, Lowering, Place, Product, Reading, Recipe, Role, Smoothing, Weight,
    capped, decoder,
};
use crate::gguf::Kind;
use crate::language::architecture::{Activation, Description, Matrix};
use crate::onnx::{Builder, Element, Size, Value};

/// A layer's graph.
#[derive(Debug)]
pub struct Stage {
    /// The model, with its weights.
    pub model: Vec<u8>,
    /// The output `[B, R, width]` that the next layer takes.
    pub sum: String,
    /// The output `[B, R, width]` that the head takes after the last layer; of no use before.
    pub normed: String,
    /// Outputs `[B, S, channels]`: what goes into each product of the layer.
    pub inputs: Vec<(Role, String)>,
}

/// Writes layer `layer` of a model.
///
/// # Errors
///
/// [`LowerError`].
pub fn stage(
    lowering: &Lowering<'_>,
    reading: &Reading<'_>,
    layer: usize,
    recipe: &mut dyn Recipe,
) -> Result<Stage, LowerError> {
    let whole = lowering.description;
    let description = Description {
        layers: whole.layers.get(layer).cloned().into_iter().collect(),
        embedding_scale: None,
        softcap: None,
        // There is no head: its input is shown in its place.
        vocabulary: whole.width,
        ..whole.clone()
    };
    let smoothing: Smoothing = lowering
        .smoothing
        .iter()
        .filter(|(place, _)| place.layer == layer)
        .map(|(place, factors)| {
            let role = place.role;
            (Place { layer: 0, role }, factors.clone())
        })
        .collect();
    let lowering = Lowering {
        description: &description,
        smoothing: &smoothing,
        ..*lowering
    };
    let mut flavour = Summed::default();
    let mut shown = Shown {
        recipe,
        layer,
        width: whole.width,
        inputs: Vec::new(),
    };
    let mut g = Builder::new(flavour.opset());
    decoder(&mut g, &lowering, reading, &mut flavour, &mut shown)?;
    let inputs = shown.inputs;
    let any = [Size::Named("B"), Size::Named("S")];
    for (_, value, channels) in &inputs {
        g.output(value, Element::F32, &[any[0], any[1], Size::Is(*channels)]);
    }
    let sum = flavour.sum.ok_or_else(|| {
        let said = format!("no layer {layer} of {}; this is a bug", whole.layers.len());
        std::io::Error::other(said)
    })?;
    let rows = [any[0], Size::Named("R"), Size::Is(whole.width)];
    g.output(&sum, Element::F32, &rows);
    let inputs = inputs
        .into_iter()
        .map(|(role, value, _)| (role, value.name().to_owned()))
        .collect();
    Ok(Stage {
        sum: sum.name().to_owned(),
        normed: "logits".to_owned(),
        model: g.finish("layer")?,
        inputs,
    })
}

/// Writes the head for the words `words` alone: from `normed` f32 `[R, width]` to `logits` f32 `[R, words]`.
///
/// # Errors
///
/// [`LowerError`].
pub fn head(
    description: &Description,
    reading: &Reading<'_>,
    words: Range<usize>,
    recipe: &mut dyn Recipe,
) -> Result<Vec<u8>, LowerError> {
    let whole = &description.head;
    let start = whole.rows.start;
    let some = Matrix {
        rows: start + words.start..start + words.end,
        ..whole.clone()
    };
    let mut g = Builder::new(Fused::default().opset());
    let rows = Size::Named("R");
    let normed = g.input("normed", Element::F32, &[rows, Size::Is(description.width)]);
    let logits = recipe.head(&mut g, &normed, &Weight::new(reading, &some))?;
    let logits = capped(&mut g, logits, description.softcap);
    let named = g.named("logits");
    g.op_to("Identity", &[&logits], &[&named], &[]);
    g.output(&named, Element::F32, &[rows, Size::Is(words.len())]);
    Ok(g.finish("head")?)
}

/// Fused, with the last sum kept.
#[derive(Default)]
struct Summed {
    fused: Fused,
    sum: Option<Value>,
}

impl Flavour for Summed {
    fn name(&self) -> &'static str {
        self.fused.name()
    }

    fn opset(&self) -> i64 {
        self.fused.opset()
    }

    fn begin(&mut self, g: &mut Builder, lowering: &Lowering<'_>) -> Result<Value, LowerError> {
        self.fused.begin(g, lowering)
    }

    fn norm(&mut self, g: &mut Builder, x: &Value, weight: &Value, epsilon: f32) -> Value {
        self.fused.norm(g, x, weight, epsilon)
    }

    fn add_and_norm(
        &mut self,
        g: &mut Builder,
        x: &Value,
        sum: &Value,
        weight: &Value,
        epsilon: f32,
    ) -> (Value, Value) {
        let (normed, sum) = self.fused.add_and_norm(g, x, sum, weight, epsilon);
        self.sum = Some(sum.clone());
        (normed, sum)
    }

    fn attention(
        &mut self,
        g: &mut Builder,
        lowering: &Lowering<'_>,
        layer: usize,
        qkv: Product,
        head_norms: [Option<Value>; 2],
    ) -> Value {
        self.fused.attention(g, lowering, layer, qkv, head_norms)
    }

    fn activation(&mut self, g: &mut Builder, kind: Activation, gate: &Value) -> Value {
        self.fused.activation(g, kind, gate)
    }

    fn wanted(&mut self, g: &mut Builder, x: &Value) -> Value {
        self.fused.wanted(g, x)
    }

    fn rows(&self) -> Size {
        self.fused.rows()
    }
}

/// A recipe whose products' inputs are remembered.
struct Shown<'r> {
    recipe: &'r mut dyn Recipe,
    /// Of the whole model.
    layer: usize,
    width: usize,
    inputs: Vec<(Role, Value, usize)>,
}

impl Recipe for Shown<'_> {
    fn name(&self) -> &'static str {
        self.recipe.name()
    }

    fn bytes_per_weight(&self, kind: Kind) -> f64 {
        self.recipe.bytes_per_weight(kind)
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
        self.inputs.push((place.role, input.clone(), channels));
        let role = place.role;
        let place = Place {
            layer: self.layer,
            role,
        };
        self.recipe.product(g, input, weights, place, joined)
    }

    fn embedding(
        &mut self,
        g: &mut Builder,
        _: &Value,
        _: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        let shape = [Size::Named("B"), Size::Named("S"), Size::Is(self.width)];
        Ok(g.input("hidden", Element::F32, &shape))
    }

    fn head(
        &mut self,
        _: &mut Builder,
        input: &Value,
        _: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        Ok(input.clone())
    }

    fn other_tokens(&mut self) {
        self.recipe.other_tokens();
    }
}
