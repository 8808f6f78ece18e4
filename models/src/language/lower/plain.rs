//! Flavour `plain`: standard operators only, for providers that take a graph whole or not at all (OpenVINO, TensorRT).
//!
//! Inputs: `input_ids` and `position_ids` i64 `[B, S]`; `attn_mask` f32 `[B, 1, S, P + S]`, added to the scores (0 for
//! what is seen, -10000 for what is not) and, where layers see a window, `attn_mask_local` for those; `logit_rows` i64
//! `[R]`, the rows of `S` whose logits are wanted; `past_key_values.N.key` and `.value` f32 `[B, kv_heads, P,
//! head_dim]`, only read; with a LongRoPE `rope_total` i64 `[1]`, the length the sequence will have: the long factors
//! are used if it is over the original window.
//!
//! Outputs: `logits` f32 `[B, R, vocabulary]`; `new.N.key` and `.value` f32 `[B, kv_heads, S, head_dim]`, which the
//! caller writes into its cache: nothing of the past is copied.
//!
//! Some choices are for the readers. TensorRT's parser wants the sizes of a `Split` beforehand, so what is cut at `P`
//! is cut by `Slice`. OpenVINO and ONNX Runtime know the norm and the rotation in just these forms and run each as
//! one operator. No input has a default: a provider may take it for a constant.

use super::{Flavour, LowerError, Lowering, Product};
use crate::language::architecture::{Activation, Rope};
use crate::onnx::{Builder, Element, Size, Value, int, ints, text};

use Size::{Is, Named};

/// See the module.
#[derive(Debug, Default)]
pub struct Plain {
    shared: Option<Shared>,
}

/// What all layers use.
#[derive(Debug)]
struct Shared {
    /// The mask under each other for the query heads of one key head: `[B, 1, group · S, P + S]`.
    mask: Value,
    /// The same of the layers with a window.
    local: Option<Value>,
    logit_rows: Value,
    /// Cosines and sines `[B, 1, S, dimensions]` of each rotation.
    angles: Vec<[Value; 2]>,
}

impl Plain {
    /// Set by [`Flavour::begin`], which comes first.
    fn shared(&self) -> &Shared {
        self.shared
            .as_ref()
            .expect("begin comes first: this is a bug")
    }
}

impl Flavour for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn opset(&self) -> i64 {
        // Scales for blocks are from 21 on; TensorRT 10.3 reads up to 20 and these.
        21
    }

    fn begin(&mut self, g: &mut Builder, lowering: &Lowering<'_>) -> Result<Value, LowerError> {
        let d = lowering.description;
        let mut windows: Vec<usize> = d.windows().into_iter().flatten().collect();
        windows.sort_unstable();
        windows.dedup();
        if windows.len() > 1 {
            return Err(LowerError::Unsupported {
                flavour: self.name(),
                expected: "one window for all layers that have one".to_owned(),
                found: format!("windows of {windows:?} tokens"),
            });
        }
        let ids = g.input("input_ids", Element::I64, &[Named("B"), Named("S")]);
        let positions = g.input("position_ids", Element::I64, &[Named("B"), Named("S")]);
        let shape = [Named("B"), Is(1), Named("S"), Named("T")];
        let group = d.heads / d.kv_heads;
        let mask = |g: &mut Builder, name: &str| {
            let mask = g.input(name, Element::F32, &shape);
            match group {
                1 => mask,
                _ => g.op("Concat", &vec![&mask; group], &[int("axis", 2)]),
            }
        };
        let all = mask(g, "attn_mask");
        let local = windows.first().is_some_and(|&w| w < lowering.window);
        let local = local.then(|| mask(g, "attn_mask_local"));
        let logit_rows = g.input("logit_rows", Element::I64, &[Named("R")]);
        let mut total = None;
        let angles = d
            .ropes
            .iter()
            .map(|rope| angles(g, rope, lowering.window, &positions, &mut total))
            .collect();
        self.shared = Some(Shared {
            mask: all,
            local,
            logit_rows,
            angles,
        });
        Ok(ids)
    }

    fn norm(&mut self, g: &mut Builder, x: &Value, weight: &Value, epsilon: f32) -> Value {
        let (two, epsilon, last) = (g.scalar(2.0), g.scalar(epsilon), g.integers(&[-1]));
        let squares = g.op("Pow", &[x, &two], &[]);
        let mean = g.op("ReduceMean", &[&squares, &last], &[int("keepdims", 1)]);
        let mean = g.op("Add", &[&mean, &epsilon], &[]);
        let root = g.op("Sqrt", &[&mean], &[]);
        let normed = g.op("Div", &[x, &root], &[]);
        g.op("Mul", &[&normed, weight], &[])
    }

    fn add_and_norm(
        &mut self,
        g: &mut Builder,
        x: &Value,
        sum: &Value,
        weight: &Value,
        epsilon: f32,
    ) -> (Value, Value) {
        let sum = g.op("Add", &[x, sum], &[]);
        (self.norm(g, &sum, weight, epsilon), sum)
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
        let (heads, kv_heads, size) = (d.heads as i64, d.kv_heads as i64, d.head_dim as i64);
        let kv = d.kv_heads * d.head_dim;
        let mut values = qkv.apart(g, &[d.heads * d.head_dim, kv, kv]).into_iter();
        let [q, k, v] = [(); 3].map(|()| values.next().unwrap_or_else(Value::none));
        let [q_norm, k_norm] = head_norms;
        let new = ["key", "value"].map(|part| {
            let new = g.named(&format!("new.{layer}.{part}"));
            g.output(&new, Element::F32, &cache(d.kv_heads, "S", d.head_dim));
            new
        });
        let past = ["key", "value"].map(|part| {
            let name = format!("past_key_values.{layer}.{part}");
            g.input(&name, Element::F32, &cache(d.kv_heads, "P", d.head_dim))
        });
        let turn = [int("axis", -1)];
        let rope = &d.ropes[attention.rope];
        let angles = self.shared().angles[attention.rope].clone();
        let [q, k] = [(q, q_norm, heads), (k, k_norm, kv_heads)].map(|(x, norm, heads)| {
            let mut x = g.reshape(&x, &[0, 0, heads, size]);
            if let Some(weight) = norm {
                x = self.norm(g, &x, &weight, d.epsilon);
            }
            let x = g.op("Transpose", &[&x], &[ints("perm", &[0, 2, 1, 3])]);
            let rest = d.head_dim - rope.dimensions;
            if rest == 0 {
                return rotated(g, &x, &angles);
            }
            let parts = g.split(&x, -1, &[rope.dimensions, rest]);
            let turned = rotated(g, &parts[0], &angles);
            g.op("Concat", &[&turned, &parts[1]], &turn)
        });
        g.op_to("Identity", &[&k], &[&new[0]], &[]);
        let v = g.reshape(&v, &[0, 0, kv_heads, size]);
        g.op_to(
            "Transpose",
            &[&v],
            &[&new[1]],
            &[ints("perm", &[0, 2, 1, 3])],
        );

        // Query heads that share a key head are rows of one product.
        let q = g.reshape(&q, &[0, kv_heads, -1, size]);
        let scale = g.scalar(attention.scale / attention.softcap.unwrap_or(1.0));
        let q = g.op("Mul", &[&q, &scale], &[]);
        let scores = [&past[0], &new[0]].map(|keys| {
            let turned = g.op("Transpose", &[keys], &[ints("perm", &[0, 1, 3, 2])]);
            g.op("MatMul", &[&q, &turned], &[])
        });
        let mut scores = g.op("Concat", &[&scores[0], &scores[1]], &turn);
        if let Some(cap) = attention.softcap {
            let cap = g.scalar(cap);
            scores = g.op("Tanh", &[&scores], &[]);
            scores = g.op("Mul", &[&scores, &cap], &[]);
        }
        let shared = self.shared();
        let mask = match (&shared.local, attention.window) {
            (Some(local), Some(_)) => local,
            _ => &shared.mask,
        };
        let scores = g.op("Add", &[&scores, mask], &[]);
        let shares = g.op("Softmax", &[&scores], &turn);
        let attended = cut(g, &past[0], &shares, [&past[1], &new[1]]);
        let attended = g.reshape(&attended, &[0, heads, -1, size]);
        let attended = g.op("Transpose", &[&attended], &[ints("perm", &[0, 2, 1, 3])]);
        g.reshape(&attended, &[0, 0, heads * size])
    }

    fn activation(&mut self, g: &mut Builder, kind: Activation, gate: &Value) -> Value {
        match kind {
            Activation::Silu => {
                let share = g.op("Sigmoid", &[gate], &[]);
                g.op("Mul", &[gate, &share], &[])
            }
            Activation::GeluTanh => g.op("Gelu", &[gate], &[text("approximate", "tanh")]),
        }
    }

    fn wanted(&mut self, g: &mut Builder, x: &Value) -> Value {
        g.op("Gather", &[x, &self.shared().logit_rows], &[int("axis", 1)])
    }

    fn rows(&self) -> Size {
        Named("R")
    }
}

fn cache(kv_heads: usize, positions: &'static str, head_dim: usize) -> [Size; 4] {
    [Named("B"), Is(kv_heads), Named(positions), Is(head_dim)]
}

/// Values weighed by `shares` `[…, P + S]`: those of the past and the new ones, which are never joined.
fn cut(g: &mut Builder, past_keys: &Value, shares: &Value, values: [&Value; 2]) -> Value {
    let (zero, end, last) = (g.integers(&[0]), g.integers(&[i64::MAX]), g.integers(&[-1]));
    let border = g.once("past", |g| {
        let shape = g.op("Shape", &[past_keys], &[]);
        let second = g.integers(&[2]);
        vec![g.op("Gather", &[&shape, &second], &[int("axis", 0)])]
    });
    let [old, new] = [
        (&zero, &border[0], values[0]),
        (&border[0], &end, values[1]),
    ]
    .map(|(start, end, values)| {
        let part = g.op("Slice", &[shares, start, end, &last], &[]);
        g.op("MatMul", &[&part, values], &[])
    });
    g.op("Add", &[&old, &new], &[])
}

/// `x` turned: `x · cos + (−second half, first half) · sin`.
fn rotated(g: &mut Builder, x: &Value, [cos, sin]: &[Value; 2]) -> Value {
    let halves = [g.fresh(), g.fresh()];
    g.op_to(
        "Split",
        &[x],
        &[&halves[0], &halves[1]],
        &[int("axis", -1), int("num_outputs", 2)],
    );
    let negative = g.op("Neg", &[&halves[1]], &[]);
    let crossed = g.op("Concat", &[&negative, &halves[0]], &[int("axis", -1)]);
    let straight = g.op("Mul", &[x, cos], &[]);
    let crossed = g.op("Mul", &[&crossed, sin], &[]);
    g.op("Add", &[&straight, &crossed], &[])
}

/// Cosines and sines of these positions. `total` is the input that says how long the sequence will be, once declared.
fn angles(
    g: &mut Builder,
    rope: &Rope,
    window: usize,
    positions: &Value,
    total: &mut Option<Value>,
) -> [Value; 2] {
    let pairs = rope.dimensions / 2;
    let mut table = rope.table(window);
    let mut rows = positions.clone();
    let long = rope.original_window().filter(|&original| original < window);
    if let (Some(original), Some(long)) = (long, rope.long_table(window)) {
        // Both in one table, the short factors' rows first.
        table.cos.truncate(original * pairs);
        table.sin.truncate(original * pairs);
        table.cos.extend(long.cos);
        table.sin.extend(long.sin);
        table.positions = original + window;
        let total = total.get_or_insert_with(|| g.input("rope_total", Element::I64, &[Is(1)]));
        let border = g.integers(&[original as i64]);
        let over = g.op("Greater", &[total, &border], &[]);
        let to = int("to", i64::from(Element::I64.code()));
        let over = g.op("Cast", &[&over], &[to]);
        let start = g.op("Mul", &[&over, &border], &[]);
        rows = g.op("Add", &[positions, &start], &[]);
    }
    [table.cos, table.sin].map(|values| {
        let values = g.floats(&[table.positions, pairs], &values);
        let values = g.op("Gather", &[&values, &rows], &[int("axis", 0)]);
        let both = g.op("Concat", &[&values, &values], &[int("axis", -1)]);
        let axis = g.integers(&[1]);
        g.op("Unsqueeze", &[&both, &axis], &[])
    })
}
