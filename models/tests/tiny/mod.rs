//! A tiny decoder with random weights, as graphs of each kind (written field by field, `onnx.proto`),
//! as folders of each layout, and as plain arithmetic in f64 to compare with.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test's fixture")]

pub mod folders;
pub mod protobuf;

use protobuf::{Kind, Model};

pub const VOCABULARY: usize = 50;
pub const LAYERS: usize = 2;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const HEAD: usize = 16;
pub const WIDTH: usize = HEADS * HEAD;
pub const INNER: usize = 24;
pub const WINDOW: usize = 96;
const BASE: f64 = 1e4;
const EPSILON: f32 = 1e-5;
/// For the graphs with LongRoPE: the length past which the long factors hold, and those.
pub const ORIGINAL: usize = 12;
const LONG: f64 = 3.0;

struct Layer {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    o: Vec<f32>,
    up: Vec<f32>,
    down: Vec<f32>,
    norms: [Vec<f32>; 2],
}

/// The weights; matrices are `[inputs, outputs]`.
pub struct Tiny {
    embedding: Vec<f32>,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    head: Vec<f32>,
}

/// What the graph has besides the common.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    pub logit_rows: bool,
    pub position_ids: bool,
    /// LongRoPE, with the input `rope_total`.
    pub rope_total: bool,
    /// LongRoPE that sees the mask's length only.
    pub long: bool,
    /// A cache and logits in f16.
    pub half: bool,
    /// An input `use_cache_branch`; if true, all tokens of a chunk are taken for its last one.
    pub branch: Option<bool>,
    /// New keys and values only, plain operators.
    pub rows: bool,
    /// The tokens must be one a call.
    pub one_token: bool,
    /// No cache at all.
    pub no_past: bool,
}

impl Tiny {
    /// The same weights every time.
    pub fn new() -> Self {
        // Knuth's MMIX generator; the high bits.
        let mut state = 7_u64;
        let mut random = |count: usize, size: f32| -> Vec<f32> {
            (0..count)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * size
                })
                .collect()
        };
        let layers = (0..LAYERS)
            .map(|_| Layer {
                q: random(WIDTH * WIDTH, 0.3),
                k: random(WIDTH * KV_HEADS * HEAD, 0.3),
                v: random(WIDTH * KV_HEADS * HEAD, 0.25),
                o: random(WIDTH * WIDTH, 0.25),
                up: random(WIDTH * INNER, 0.25),
                down: random(INNER * WIDTH, 0.25),
                norms: [random(WIDTH, 1.0), random(WIDTH, 1.0)],
            })
            .collect();
        Self {
            embedding: random(VOCABULARY * WIDTH, 1.0),
            layers,
            norm: random(WIDTH, 1.0),
            head: random(WIDTH * VOCABULARY, 0.4),
        }
    }

    /// The logits after each of these tokens, computed as the papers say: RMSNorm, rotary attention
    /// with grouped heads, a gated layer (here ReLU). `long`: with LongRoPE's long factors.
    pub fn logits(&self, tokens: &[u32], long: bool) -> Vec<Vec<f64>> {
        let mut x: Vec<Vec<f64>> = tokens
            .iter()
            .map(|&token| wide(&self.embedding[token as usize * WIDTH..][..WIDTH]))
            .collect();
        for layer in &self.layers {
            let normed: Vec<_> = x.iter().map(|x| norm(x, &layer.norms[0])).collect();
            let turned = |matrix: &[f32], outputs: usize| -> Vec<Vec<f64>> {
                let rows = normed.iter().map(|x| product(x, matrix, outputs));
                rows.enumerate()
                    .map(|(at, row)| turn(row, at, long))
                    .collect()
            };
            let (q, k) = (turned(&layer.q, WIDTH), turned(&layer.k, KV_HEADS * HEAD));
            let v: Vec<_> = normed
                .iter()
                .map(|x| product(x, &layer.v, KV_HEADS * HEAD))
                .collect();
            for at in 0..tokens.len() {
                let mut attended = vec![0.0; WIDTH];
                for head in 0..HEADS {
                    let kv = head / (HEADS / KV_HEADS) * HEAD;
                    let query = &q[at][head * HEAD..][..HEAD];
                    let scores: Vec<f64> = k[..=at]
                        .iter()
                        .map(|key| dot(query, &key[kv..][..HEAD]) / (HEAD as f64).sqrt())
                        .map(f64::exp)
                        .collect();
                    let sum: f64 = scores.iter().sum();
                    for (score, value) in scores.iter().zip(&v) {
                        for i in 0..HEAD {
                            attended[head * HEAD + i] += score / sum * value[kv + i];
                        }
                    }
                }
                add(&mut x[at], &product(&attended, &layer.o, WIDTH));
            }
            for x in &mut x {
                let mut inner = product(&norm(x, &layer.norms[1]), &layer.up, INNER);
                inner.iter_mut().for_each(|value| *value = value.max(0.0));
                add(x, &product(&inner, &layer.down, WIDTH));
            }
        }
        x.iter()
            .map(|x| product(&norm(x, &self.norm), &self.head, VOCABULARY))
            .collect()
    }

    /// The graph, as a file's contents.
    pub fn graph(&self, parts: Parts) -> Vec<u8> {
        let mut m = Model::default();
        let cache = if parts.half { Kind::F16 } else { Kind::F32 };
        let tokens = if parts.one_token { 1 } else { -1 };
        m.input("input_ids", Kind::I64, &[-1, tokens]);
        if !parts.rows {
            m.input("attention_mask", Kind::I64, &[-1, -1]);
        }
        if parts.position_ids || parts.rows {
            m.input("position_ids", Kind::I64, &[-1, -1]);
        }
        if parts.rows {
            m.input("attn_mask", Kind::F32, &[-1, 1, -1, -1]);
        }
        for layer in 0..if parts.no_past { 0 } else { LAYERS } {
            for part in ["key", "value"] {
                let name = format!("past_key_values.{layer}.{part}");
                m.input(&name, cache, &[-1, KV_HEADS as i64, -1, HEAD as i64]);
            }
        }
        if parts.logit_rows {
            m.input("logit_rows", Kind::I64, &[-1]);
            m.named_integers("logit_rows", &[-1]);
        }
        if parts.rope_total {
            m.input("rope_total", Kind::I64, &[1]);
            m.named_integers("rope_total", &[0]);
        }
        if parts.branch.is_some() {
            m.input("use_cache_branch", Kind::Bool, &[1]);
        }

        let embedding = m.floats(&[VOCABULARY, WIDTH], &self.embedding);
        let mut x = m.op("Gather", &[&embedding, "input_ids"], &[("axis", 0)]);
        if parts.branch == Some(true) {
            let last = m.integers(&[-1]);
            let last = m.op("Gather", &[&x, &last], &[("axis", 1)]);
            x = m.op("Where", &["use_cache_branch", &last, &x], &[]);
        }
        let attention = if parts.rows {
            Attention::Plain(Plain::new(&mut m))
        } else {
            Attention::Grouped(Grouped::new(&mut m, parts))
        };
        for (n, layer) in self.layers.iter().enumerate() {
            let normed = m.norm(&x, &layer.norms[0], EPSILON);
            let [q, k, v] = [
                (&layer.q, WIDTH),
                (&layer.k, KV_HEADS * HEAD),
                (&layer.v, KV_HEADS * HEAD),
            ]
            .map(|(matrix, outputs)| m.product(&normed, matrix, outputs));
            let attended = match &attention {
                Attention::Grouped(grouped) => grouped.attend(&mut m, n, [&q, &k, &v], parts),
                Attention::Plain(plain) => plain.attend(&mut m, n, [&q, &k, &v]),
            };
            let attended = m.product(&attended, &layer.o, WIDTH);
            x = m.op("Add", &[&x, &attended], &[]);
            let normed = m.norm(&x, &layer.norms[1], EPSILON);
            let inner = m.product(&normed, &layer.up, INNER);
            let inner = m.op("Relu", &[&inner], &[]);
            let inner = m.product(&inner, &layer.down, WIDTH);
            x = m.op("Add", &[&x, &inner], &[]);
        }
        if parts.logit_rows {
            x = m.op("Gather", &[&x, "logit_rows"], &[("axis", 1)]);
        }
        let normed = m.norm(&x, &self.norm, EPSILON);
        let logits = m.product(&normed, &self.head, VOCABULARY);
        m.result(&logits, "logits", cache);
        m.output("logits", cache, &[-1, -1, VOCABULARY as i64]);
        m.bytes()
    }
}

enum Attention {
    Grouped(Grouped),
    Plain(Plain),
}

/// GroupQueryAttention with the lengths from the mask.
struct Grouped {
    lengths: String,
    total: String,
    cos: String,
    sin: String,
}

impl Grouped {
    fn new(m: &mut Model, parts: Parts) -> Self {
        let (one, zero) = (m.integers(&[1]), m.integer(0));
        let sums = m.op("ReduceSum", &["attention_mask", &one], &[("keepdims", 0)]);
        let lengths = m.op("Sub", &[&sums, &one], &[]);
        let lengths = m.op("Cast", &[&lengths], &[("to", 6)]);
        let shape = m.op("Shape", &["attention_mask"], &[]);
        let column = m.integer(1);
        let total64 = m.op("Gather", &[&shape, &column], &[("axis", 0)]);
        let total = m.op("Cast", &[&total64], &[("to", 6)]);
        let [short, long] = [false, true].map(|long| {
            let angles = (0..WINDOW).flat_map(|at| (0..HEAD / 2).map(move |i| angle(at, i, long)));
            let (cos, sin): (Vec<f32>, Vec<f32>) =
                angles.map(|a| (a.cos() as f32, a.sin() as f32)).unzip();
            [cos, sin].map(|table| m.floats(&[WINDOW, HEAD / 2], &table))
        });
        let [cos, sin] = if parts.rope_total || parts.long {
            let seen = match parts.rope_total {
                true => {
                    let told = m.op("Gather", &["rope_total", &zero], &[("axis", 0)]);
                    m.op("Max", &[&told, &total64], &[])
                }
                false => total64.clone(),
            };
            let original = m.integer(ORIGINAL as i64);
            let beyond = m.op("Greater", &[&seen, &original], &[]);
            [0, 1].map(|i| m.op("Where", &[&beyond, &long[i], &short[i]], &[]))
        } else {
            short
        };
        let [cos, sin] = match parts.half {
            true => [cos, sin].map(|table| m.op("Cast", &[&table], &[("to", 10)])),
            false => [cos, sin],
        };
        Self {
            lengths,
            total,
            cos,
            sin,
        }
    }

    fn attend(&self, m: &mut Model, layer: usize, qkv: [&str; 3], parts: Parts) -> String {
        let kind = if parts.half { Kind::F16 } else { Kind::F32 };
        let [q, k, v] = match parts.half {
            true => qkv.map(|from| m.op("Cast", &[from], &[("to", 10)])),
            false => qkv.map(str::to_owned),
        };
        let names = ["key", "value"].map(|part| format!("past_key_values.{layer}.{part}"));
        let [past_key, past_value] = match parts.no_past {
            true => [const { String::new() }; 2],
            false => names,
        };
        let presents = ["key", "value"].map(|part| format!("present.{layer}.{part}"));
        for name in &presents {
            m.output(name, kind, &[-1, KV_HEADS as i64, -1, HEAD as i64]);
        }
        let attended = m.fresh();
        m.contrib(
            "GroupQueryAttention",
            &[
                &q,
                &k,
                &v,
                &past_key,
                &past_value,
                &self.lengths,
                &self.total,
                &self.cos,
                &self.sin,
            ],
            &[&attended, &presents[0], &presents[1]],
            &[
                ("num_heads", HEADS as i64),
                ("kv_num_heads", KV_HEADS as i64),
                ("do_rotary", 1),
            ],
        );
        match parts.half {
            true => m.op("Cast", &[&attended], &[("to", 1)]),
            false => attended,
        }
    }
}

/// Attention of plain operators, with an additive mask and the new keys and values as outputs.
struct Plain {
    cos: String,
    sin: String,
}

impl Plain {
    fn new(m: &mut Model) -> Self {
        let angles: Vec<f64> = (0..WINDOW)
            .flat_map(|at| (0..HEAD).map(move |i| angle(at, i % (HEAD / 2), false)))
            .collect();
        let [cos, sin] = [f64::cos as fn(f64) -> f64, f64::sin].map(|table| {
            let values: Vec<f32> = angles.iter().map(|&a| table(a) as f32).collect();
            let table = m.floats(&[WINDOW, HEAD], &values);
            let rows = m.op("Gather", &[&table, "position_ids"], &[("axis", 0)]);
            let axis = m.integers(&[1]);
            m.op("Unsqueeze", &[&rows, &axis], &[])
        });
        Self { cos, sin }
    }

    fn heads(m: &mut Model, from: &str, heads: usize) -> String {
        let shape = m.integers(&[0, 0, heads as i64, HEAD as i64]);
        let parted = m.op("Reshape", &[from, &shape], &[]);
        m.transpose(&parted, &[0, 2, 1, 3])
    }

    fn turned(&self, m: &mut Model, from: &str) -> String {
        let half = HEAD as i64 / 2;
        let (axis, zero, middle, end) = (
            m.integers(&[3]),
            m.integers(&[0]),
            m.integers(&[half]),
            m.integers(&[2 * half]),
        );
        let a = m.op("Slice", &[from, &zero, &middle, &axis], &[]);
        let b = m.op("Slice", &[from, &middle, &end, &axis], &[]);
        let b = m.op("Neg", &[&b], &[]);
        let other = m.op("Concat", &[&b, &a], &[("axis", 3)]);
        let straight = m.op("Mul", &[from, &self.cos], &[]);
        let across = m.op("Mul", &[&other, &self.sin], &[]);
        m.op("Add", &[&straight, &across], &[])
    }

    fn attend(&self, m: &mut Model, layer: usize, [q, k, v]: [&str; 3]) -> String {
        let [q, k, v] = [(q, HEADS), (k, KV_HEADS), (v, KV_HEADS)]
            .map(|(from, heads)| Self::heads(m, from, heads));
        let (q, k) = (self.turned(m, &q), self.turned(m, &k));
        let mut both = Vec::new();
        for (new, part) in [(&k, "key"), (&v, "value")] {
            let name = format!("new.{layer}.{part}");
            m.result(new, &name, Kind::F32);
            m.output(&name, Kind::F32, &[-1, KV_HEADS as i64, -1, HEAD as i64]);
            let past = format!("past_key_values.{layer}.{part}");
            let all = m.op("Concat", &[&past, new], &[("axis", 2)]);
            // Each key head for its group of query heads.
            let index: Vec<i64> = (0..HEADS)
                .map(|head| (head / (HEADS / KV_HEADS)) as i64)
                .collect();
            let index = m.integers(&index);
            both.push(m.op("Gather", &[&all, &index], &[("axis", 1)]));
        }
        let keys = m.transpose(&both[0], &[0, 1, 3, 2]);
        let scores = m.op("MatMul", &[&q, &keys], &[]);
        let scale = m.floats(&[], &[1.0 / (HEAD as f32).sqrt()]);
        let scores = m.op("Mul", &[&scores, &scale], &[]);
        let scores = m.op("Add", &[&scores, "attn_mask"], &[]);
        let shares = m.op("Softmax", &[&scores], &[("axis", -1)]);
        let attended = m.op("MatMul", &[&shares, &both[1]], &[]);
        let attended = m.transpose(&attended, &[0, 2, 1, 3]);
        let shape = m.integers(&[0, 0, WIDTH as i64]);
        m.op("Reshape", &[&attended, &shape], &[])
    }
}

/// RoFormer (Su et al. 2021), eq. 15, halves apart as in Llama.
fn angle(position: usize, i: usize, long: bool) -> f64 {
    let factor = if long { LONG } else { 1.0 };
    position as f64 / (BASE.powf(2.0 * i as f64 / HEAD as f64) * factor)
}

fn turn(mut row: Vec<f64>, position: usize, long: bool) -> Vec<f64> {
    for head in row.chunks_exact_mut(HEAD) {
        for i in 0..HEAD / 2 {
            let (a, b) = (head[i], head[i + HEAD / 2]);
            let (sin, cos) = angle(position, i, long).sin_cos();
            (head[i], head[i + HEAD / 2]) = (a * cos - b * sin, b * cos + a * sin);
        }
    }
    row
}

fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|&value| f64::from(value)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], more: &[f64]) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to += more);
}

fn product(x: &[f64], matrix: &[f32], outputs: usize) -> Vec<f64> {
    let mut sums = vec![0.0; outputs];
    for (x, row) in x.iter().zip(matrix.chunks_exact(outputs)) {
        sums.iter_mut()
            .zip(row)
            .for_each(|(sum, weight)| *sum += x * f64::from(*weight));
    }
    sums
}

/// Root mean square norm (Zhang and Sennrich 2019).
fn norm(x: &[f64], factors: &[f32]) -> Vec<f64> {
    let scale = 1.0 / (dot(x, x) / x.len() as f64 + f64::from(EPSILON)).sqrt();
    x.iter()
        .zip(factors)
        .map(|(x, factor)| x * scale * f64::from(*factor))
        .collect()
}
