//! One layer as a graph of its own, so that a model can be run layer by layer in the memory of one.
//!
//! Beside the inputs of [`Fused`]: `hidden` f32 `[B, S, width]`, what came out of the layer before (the first layer
//! has the embedding instead). `past_key_values.0.*` may be any memory that holds `S` positions.

use super::{
    Flavour, Fused, LowerError, Lowering, Place, Product, Reading, Recipe, Role, Smoothing, Weight,
    decoder,
};
use crate::gguf::Kind;
use crate::language::architecture::{Activation, Description};
use crate::onnx::{Builder, Element, Size, Value};

/// A layer's graph.
#[derive(Debug)]
pub struct Stage {
    /// The model, with its weights.
    pub model: Vec<u8>,
    /// The output `[B, R, width]` that the next layer takes.
    pub sum: String,
    /// Outputs `[B, S, channels]`: what goes into each product of the layer.
    pub inputs: Vec<(Role, String)>,
}

/// Writes layer `layer` of a model; the last one with the head, whose output is `logits`.
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
    let (first, last) = (layer == 0, layer + 1 == whole.layers.len());
    let description = Description {
        layers: whole.layers.get(layer).cloned().into_iter().collect(),
        embedding_scale: whole.embedding_scale.filter(|_| first),
        softcap: whole.softcap.filter(|_| last),
        // Where there is no head, its input is shown in its place.
        vocabulary: if last { whole.vocabulary } else { whole.width },
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
        first,
        last,
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
        model: g.finish("layer")?,
        inputs,
    })
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
    first: bool,
    last: bool,
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
        ids: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        if self.first {
            return self.recipe.embedding(g, ids, table);
        }
        let shape = [Size::Named("B"), Size::Named("S"), Size::Is(self.width)];
        Ok(g.input("hidden", Element::F32, &shape))
    }

    fn head(
        &mut self,
        g: &mut Builder,
        input: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        if self.last {
            return self.recipe.head(g, input, table);
        }
        Ok(input.clone())
    }
}
