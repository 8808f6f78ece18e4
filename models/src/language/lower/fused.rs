//! Flavour `fused`: ONNX Runtime's own operators, for its CPU and CUDA providers.
//!
//! Inputs: `input_ids` i64 `[B, S]`; `attention_mask` i64 `[B, T]`, whose row sums are the rows' whole lengths and `T`
//! the longest of them; `past_key_values.N.key` and `.value` f32 `[B, kv_heads, P, head_dim]`, the same memory as
//! `present.N.*`: keys and values are written in place, and nothing beyond a row's length is read. Need not be given:
//! `logit_rows` i64 `[R]`, the rows of `S` whose logits are wanted (the last one); with a LongRoPE `rope_total` i64
//! `[1]`, the length the sequence will have: the long factors are used if it or `T` is over the original window.
//!
//! Outputs: `logits` f32 `[B, R, vocabulary]`, `present.N.key` and `.value`.
//!
//! ONNX Runtime's CPU provider takes either one sequence (any `S`, any past) or several with `S` = 1.

use super::{Flavour, LowerError, Lowering, Product};
use crate::language::architecture::{Activation, Rope};
use crate::onnx::{Attribute, Builder, Element, Size, Value, float, int, text};

use Size::{Is, Named};

/// See the module.
#[derive(Debug, Default)]
pub struct Fused {
    shared: Option<Shared>,
}

/// What all layers use.
#[derive(Debug)]
struct Shared {
    /// Lengths less one, i32 `[B]`.
    lengths: Value,
    /// The longest length, an i32.
    longest: Value,
    logit_rows: Value,
    /// Cosines and sines of each rotation.
    tables: Vec<[Value; 2]>,
}

impl Fused {
    /// Set by [`Flavour::begin`], which comes first.
    fn shared(&self) -> &Shared {
        self.shared
            .as_ref()
            .expect("begin comes first: this is a bug")
    }
}

impl Flavour for Fused {
    fn name(&self) -> &'static str {
        "fused"
    }

    fn opset(&self) -> i64 {
        // GELU is an operator from 20 on.
        21
    }

    fn begin(&mut self, g: &mut Builder, lowering: &Lowering<'_>) -> Result<Value, LowerError> {
        let d = lowering.description;
        // As GroupQueryAttention checks it on the CPU.
        if !d.head_dim.is_multiple_of(8)
            || d.ropes
                .iter()
                .any(|r| r.dimensions / 2 > d.head_dim / 16 * 8)
        {
            return Err(LowerError::Unsupported {
                flavour: self.name(),
                expected: "heads of a multiple of 16 numbers".to_owned(),
                found: format!("heads of {}", d.head_dim),
            });
        }
        let ids = g.input("input_ids", Element::I64, &[Named("B"), Named("S")]);
        let mask = g.input("attention_mask", Element::I64, &[Named("B"), Named("T")]);
        let last = g.integers(&[1]);
        let sums = g.op("ReduceSum", &[&mask, &last], &[int("keepdims", 0)]);
        let lengths = g.op("Sub", &[&sums, &last], &[]);
        let lengths = g.op("Cast", &[&lengths], &[to_i32()]);
        let longest = g.op("Shape", &[&mask], &[int("start", 1), int("end", 2)]);
        let scalar = g.integers(&[]);
        let scalar = g.op("Reshape", &[&longest, &scalar], &[]);
        let total = g.op("Cast", &[&scalar], &[to_i32()]);
        let logit_rows = g.optional_input("logit_rows", Named("R"), &[-1]);
        let tables = d
            .ropes
            .iter()
            .map(|rope| tables(g, rope, lowering.window, &longest))
            .collect();
        self.shared = Some(Shared {
            lengths,
            longest: total,
            logit_rows,
            tables,
        });
        Ok(ids)
    }

    fn norm(&mut self, g: &mut Builder, x: &Value, weight: &Value, epsilon: f32) -> Value {
        let attributes = [
            int("axis", -1),
            float("epsilon", epsilon),
            int("stash_type", 1),
        ];
        g.op("SimplifiedLayerNormalization", &[x, weight], &attributes)
    }

    fn add_and_norm(
        &mut self,
        g: &mut Builder,
        x: &Value,
        sum: &Value,
        weight: &Value,
        epsilon: f32,
    ) -> (Value, Value) {
        let (normed, sums, none) = (g.fresh(), g.fresh(), Value::none());
        g.contrib_to(
            "SkipSimplifiedLayerNormalization",
            &[x, sum, weight],
            &[&normed, &none, &none, &sums],
            &[float("epsilon", epsilon)],
        );
        (normed, sums)
    }

    fn attention(
        &mut self,
        g: &mut Builder,
        lowering: &Lowering<'_>,
        layer: usize,
        qkv: Product,
        head_norms: [Option<Value>; 2],
    ) -> Value {
        let d = lowering.description;
        let attention = &d.layers[layer].attention;
        let [q, k, v] = match qkv {
            Product::Joined(all) if head_norms.iter().all(Option::is_none) => {
                [all, Value::none(), Value::none()]
            }
            qkv => {
                let kv = d.kv_heads * d.head_dim;
                let mut values = qkv.apart(g, &[d.heads * d.head_dim, kv, kv]).into_iter();
                [(); 3].map(|()| values.next().unwrap_or_else(Value::none))
            }
        };
        let [q_norm, k_norm] = head_norms;
        // The operator's own inputs for these norms fail on the CPU when they run.
        let q = self.head_norm(g, q, q_norm.as_ref(), d.heads, d.head_dim, d.epsilon);
        let k = self.head_norm(g, k, k_norm.as_ref(), d.kv_heads, d.head_dim, d.epsilon);
        let [past, present] = ["past_key_values", "present"]
            .map(|prefix| ["key", "value"].map(|part| format!("{prefix}.{layer}.{part}")));
        let cache = |positions| [Named("B"), Is(d.kv_heads), Named(positions), Is(d.head_dim)];
        let past = past.map(|name| g.input(&name, Element::F32, &cache("P")));
        let present = present.map(|name| {
            let value = g.named(&name);
            g.output(&value, Element::F32, &cache("C"));
            value
        });
        let window = attention.window.filter(|&w| w < lowering.window);
        let mut attributes = vec![
            int("num_heads", d.heads as i64),
            int("kv_num_heads", d.kv_heads as i64),
            int("do_rotary", 1),
            int("rotary_interleaved", 0),
            float("scale", attention.scale),
            int("local_window_size", window.map_or(-1, |w| w as i64)),
        ];
        attributes.extend(attention.softcap.map(|cap| float("softcap", cap)));
        let attended = g.fresh();
        let shared = self.shared();
        let [cos, sin] = &shared.tables[attention.rope];
        g.contrib_to(
            "GroupQueryAttention",
            &[
                &q,
                &k,
                &v,
                &past[0],
                &past[1],
                &shared.lengths,
                &shared.longest,
                cos,
                sin,
            ],
            &[&attended, &present[0], &present[1]],
            &attributes,
        );
        attended
    }

    fn activation(&mut self, g: &mut Builder, kind: Activation, gate: &Value) -> Value {
        match kind {
            Activation::Silu => g.contrib("QuickGelu", &[gate], &[float("alpha", 1.0)]),
            Activation::GeluTanh => g.op("Gelu", &[gate], &[text("approximate", "tanh")]),
        }
    }

    fn wanted(&mut self, g: &mut Builder, x: &Value) -> Value {
        g.op("Gather", &[x, &self.shared().logit_rows], &[int("axis", 1)])
    }

    fn rows(&self) -> Size {
        // One row is what onnxruntime-genai has to read here to expect no more of a whole prompt. ONNX Runtime gives as
        // many as were asked for; where that is not 1 and they are fetched, it warns.
        Is(1)
    }
}

impl Fused {
    fn head_norm(
        &mut self,
        g: &mut Builder,
        x: Value,
        weight: Option<&Value>,
        heads: usize,
        head_dim: usize,
        epsilon: f32,
    ) -> Value {
        let Some(weight) = weight else { return x };
        let parted = g.reshape(&x, &[0, 0, heads as i64, head_dim as i64]);
        let normed = self.norm(g, &parted, weight, epsilon);
        g.reshape(&normed, &[0, 0, (heads * head_dim) as i64])
    }
}

/// Cosines and sines `[≥ T, dimensions / 2]`.
fn tables(g: &mut Builder, rope: &Rope, window: usize, longest: &Value) -> [Value; 2] {
    let pairs = rope.dimensions / 2;
    let short = rope.table(window);
    let long = rope.original_window().filter(|&original| original < window);
    let (Some(original), Some(mut long)) = (long, rope.long_table(window)) else {
        let shape = [short.positions, pairs];
        return [g.floats(&shape, &short.cos), g.floats(&shape, &short.sin)];
    };
    // Both in one table, the short factors' rows first: a slice of as many rows as the sequence has is all that is
    // copied at run time.
    let given = g.optional_input("rope_total", Is(1), &[0]);
    let total = g.op("Max", &[&given, longest], &[]);
    let border = g.integers(&[original as i64]);
    let over = g.op("Greater", &[&total, &border], &[]);
    let over = g.op(
        "Cast",
        &[&over],
        &[int("to", i64::from(Element::I64.code()))],
    );
    let start = g.op("Mul", &[&over, &border], &[]);
    let end = g.op("Add", &[&start, longest], &[]);
    let axis = g.integers(&[0]);
    let mut cos = short.cos[..original * pairs].to_vec();
    let mut sin = short.sin[..original * pairs].to_vec();
    cos.append(&mut long.cos);
    sin.append(&mut long.sin);
    [cos, sin].map(|table| {
        let table = g.floats(&[original + window, pairs], &table);
        g.op("Slice", &[&table, &start, &end, &axis], &[])
    })
}

fn to_i32() -> Attribute {
    int("to", i64::from(Element::I32.code()))
}
