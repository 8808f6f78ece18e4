//! The two graphs: what the sound gives once per utterance, and one step of the decoder.
//!
//! Inputs and outputs have the names of the shipped graph, so that one loop drives both.

use super::graph::{Builder, Size, float, int, ints};
use super::weights::{HEAD, HEADS, INNER, LAYERS, Matrix, VOCABULARY, WIDTH, Weights};
use crate::onnx::messages::code;

use Size::{Is, Named};

/// Numbers of each head that are turned by the position; the rest is not.
const ROTARY: usize = 32;
/// Positions for which sine and cosine are kept. The longest utterance (30 s) has 203 tokens.
const POSITIONS: usize = 4096;
const EPSILON: f32 = 1e-5;

/// Encoder output `[1, T, 288]` to keys `[1, 8, 36, T]` (turned and scaled for the product with the
/// query) and values `[1, 8, T, 36]` of every layer: `present.N.encoder.key` and `.value`.
pub fn cross(weights: &Weights) -> Builder {
    let mut b = Builder::default();
    b.input(
        "encoder_hidden_states",
        code::FLOAT,
        &[Is(1), Named("T"), Is(WIDTH)],
    );
    let scaled: Vec<Matrix> = weights.layers.iter().map(|l| scaled(&l.cross[1])).collect();
    let matrices: Vec<&Matrix> = scaled
        .iter()
        .chain(weights.layers.iter().map(|l| &l.cross[2]))
        .collect();
    let all = b.product("encoder_hidden_states", &matrices, None);
    let (keys, values) = (b.fresh(), b.fresh());
    let half = LAYERS * WIDTH;
    b.split(&all, -1, &[half, half], &[&keys, &values]);
    let heads = b.integers(&[0, 0, (LAYERS * HEADS) as i64, HEAD as i64]);
    for (from, part, order, shape) in [
        (keys, "key", [0, 2, 3, 1], KEY),
        (values, "value", [0, 2, 1, 3], VALUE),
    ] {
        let parted = b.op("Reshape", &[&from, &heads], Vec::new());
        let turned = b.op("Transpose", &[&parted], vec![ints("perm", &order)]);
        let names: Vec<String> = (0..LAYERS)
            .map(|layer| format!("present.{layer}.encoder.{part}"))
            .collect();
        let outputs: Vec<&str> = names.iter().map(String::as_str).collect();
        b.split(&turned, 1, &[HEADS; LAYERS], &outputs);
        for name in outputs {
            b.output(name, &shape);
        }
    }
    b
}

const KEY: [Size; 4] = [Is(1), Is(HEADS), Is(HEAD), Named("T")];
const VALUE: [Size; 4] = [Is(1), Is(HEADS), Named("T"), Is(HEAD)];

/// The factor 1/√36 of the attention, moved into the keys' matrix (which has no bias).
fn scaled(matrix: &Matrix) -> Matrix {
    Matrix {
        bytes: matrix.bytes.clone(),
        bias: matrix.bias.clone(),
        scale: matrix.scale / (HEAD as f32).sqrt(),
        ..*matrix
    }
}

/// Tokens `input_ids` i64 `[1, S]` after `P` others, with their keys and values
/// `past_key_values.N.decoder.*` `[1, 8, P, 36]` and those of the sound
/// `past_key_values.N.encoder.*` as [`cross`] gives them, to `logits` `[1, S, 32768]` and
/// `present.N.decoder.*` `[1, 8, P + S, 36]`.
pub fn step(weights: &Weights) -> Builder {
    let mut b = Builder::default();
    b.input("input_ids", code::INT64, &[Is(1), Named("S")]);
    for layer in 0..LAYERS {
        for part in ["key", "value"] {
            b.input(
                &format!("past_key_values.{layer}.decoder.{part}"),
                code::FLOAT,
                &[Is(1), Is(HEADS), Named("P"), Is(HEAD)],
            );
            b.input(
                &format!("past_key_values.{layer}.encoder.{part}"),
                code::FLOAT,
                if part == "key" { &KEY } else { &VALUE },
            );
        }
    }

    let mut sum = embedded(&mut b, &weights.embedding);
    let position = b.op(
        "Shape",
        &["past_key_values.0.decoder.key"],
        vec![int("start", 2), int("end", 3)],
    );
    let (cos, sin) = rotation();
    let cos = b.floats(&[POSITIONS, ROTARY / 2], &cos);
    let sin = b.floats(&[POSITIONS, ROTARY / 2], &sin);
    let gamma = b.floats(&[WIDTH], &weights.layers[0].before_own);
    let mut normed = b.op(
        "LayerNormalization",
        &[&sum, &gamma],
        vec![int("axis", -1), float("epsilon", EPSILON)],
    );
    for (n, layer) in weights.layers.iter().enumerate() {
        // Attention over the tokens: q, k and v of one product; q and k are turned as 16 heads.
        let [q, k, v, o] = &layer.own;
        let product = b.product(&normed, &[q, k, v], None);
        let (both, value) = (b.fresh(), b.fresh());
        b.split(&product, -1, &[2 * WIDTH, WIDTH], &[&both, &value]);
        let turned = b.contrib(
            "RotaryEmbedding",
            &[&both, &position, &cos, &sin],
            vec![
                int("interleaved", 1),
                int("num_heads", 2 * HEADS as i64),
                int("rotary_embedding_dim", ROTARY as i64),
            ],
        );
        let (query, key) = (b.fresh(), b.fresh());
        b.split(&turned, -1, &[WIDTH, WIDTH], &[&query, &key]);
        let [past_key, past_value, present_key, present_value] = [
            format!("past_key_values.{n}.decoder.key"),
            format!("past_key_values.{n}.decoder.value"),
            format!("present.{n}.decoder.key"),
            format!("present.{n}.decoder.value"),
        ];
        let attended = b.fresh();
        b.contrib_to(
            "MultiHeadAttention",
            &[&query, &key, &value, "", "", "", &past_key, &past_value],
            &[&attended, &present_key, &present_value],
            vec![int("num_heads", HEADS as i64), int("unidirectional", 1)],
        );
        let grown = [Is(1), Is(HEADS), Named("PS"), Is(HEAD)];
        b.output(&present_key, &grown);
        b.output(&present_value, &grown);
        let attended = b.product(&attended, &[o], None);
        (normed, sum) = add_and_norm(&mut b, &sum, &attended, &layer.before_cross);

        let attended = over_sound(&mut b, &normed, n, &layer.cross);
        (normed, sum) = add_and_norm(&mut b, &sum, &attended, &layer.before_mlp);

        let inner = b.product(&normed, &[&layer.fc1], None);
        let (value, gate) = (b.fresh(), b.fresh());
        b.split(&inner, -1, &[INNER, INNER], &[&value, &gate]);
        let gate = b.contrib("QuickGelu", &[&gate], vec![float("alpha", 1.0)]);
        let inner = b.op("Mul", &[&gate, &value], Vec::new());
        let outer = b.product(&inner, &[&layer.fc2], None);
        let next = weights
            .layers
            .get(n + 1)
            .map_or(&weights.last_norm, |layer| &layer.before_own);
        (normed, sum) = add_and_norm(&mut b, &sum, &outer, next);
    }
    b.product(&normed, &[&weights.output], Some("logits"));
    b.output("logits", &[Is(1), Named("S"), Is(VOCABULARY)]);
    b
}

/// The rows of the tokens, as floats.
fn embedded(b: &mut Builder, embedding: &Matrix) -> String {
    let rows = [embedding.rows, embedding.columns];
    let table = b.constant(code::UINT8, &rows, embedding.bytes.clone());
    let scale = b.constant(code::FLOAT, &[], embedding.scale.to_le_bytes().to_vec());
    let zero = b.constant(code::UINT8, &[], vec![embedding.zero]);
    let row = b.op("Gather", &[&table, "input_ids"], Vec::new());
    b.op("DequantizeLinear", &[&row, &scale, &zero], Vec::new())
}

/// `sum + more`, and that behind a norm: (normed, sum).
fn add_and_norm(b: &mut Builder, sum: &str, more: &str, factors: &[f32]) -> (String, String) {
    let gamma = b.floats(&[WIDTH], factors);
    let (normed, sum_after) = (b.fresh(), b.fresh());
    b.contrib_to(
        "SkipLayerNormalization",
        &[sum, more, &gamma],
        &[&normed, "", "", &sum_after],
        vec![float("epsilon", EPSILON)],
    );
    (normed, sum_after)
}

/// Attention over the sound. Plain products are quicker here than MultiHeadAttention, which turns
/// the keys at every token: 2.32 against 2.47 ms per token over 15 s of sound, the same over 2 s.
fn over_sound(b: &mut Builder, normed: &str, layer: usize, [q, _, _, o]: &[Matrix; 4]) -> String {
    let query = b.product(normed, &[q], None);
    let heads = b.integers(&[0, 0, HEADS as i64, HEAD as i64]);
    let query = b.op("Reshape", &[&query, &heads], Vec::new());
    let order = || vec![ints("perm", &[0, 2, 1, 3])];
    let query = b.op("Transpose", &[&query], order());
    let key = format!("past_key_values.{layer}.encoder.key");
    let value = format!("past_key_values.{layer}.encoder.value");
    let scores = b.op("MatMul", &[&query, &key], Vec::new());
    let shares = b.op("Softmax", &[&scores], vec![int("axis", -1)]);
    let attended = b.op("MatMul", &[&shares, &value], Vec::new());
    let attended = b.op("Transpose", &[&attended], order());
    let width = b.integers(&[0, 0, WIDTH as i64]);
    let attended = b.op("Reshape", &[&attended, &width], Vec::new());
    b.product(&attended, &[o], None)
}

/// Cosine and sine of position · 10000^(−2i/32), `[POSITIONS, 16]`, computed in f32 as the shipped
/// graph does.
fn rotation() -> (Vec<f32>, Vec<f32>) {
    let angles = (0..POSITIONS).flat_map(|position| {
        (0..ROTARY / 2).map(move |i| {
            let turn = 1.0 / 10_000_f32.powf(2.0 * i as f32 / ROTARY as f32);
            position as f32 * turn
        })
    });
    angles.map(|angle| (angle.cos(), angle.sin())).unzip()
}

#[cfg(test)]
mod tests {
    use super::super::weights::Layer;
    use super::*;

    fn matrix(rows: usize, columns: usize) -> Matrix {
        Matrix {
            rows,
            columns,
            bytes: vec![0; rows * columns],
            scale: 1.0,
            zero: 0,
            bias: Vec::new(),
        }
    }

    fn weights() -> Weights {
        let four = || [(); 4].map(|()| matrix(WIDTH, WIDTH));
        let norm = || vec![1.0; WIDTH];
        let layer = || Layer {
            own: four(),
            cross: four(),
            fc1: matrix(WIDTH, 2 * INNER),
            fc2: matrix(INNER, WIDTH),
            before_own: norm(),
            before_cross: norm(),
            before_mlp: norm(),
        };
        Weights {
            embedding: matrix(VOCABULARY, WIDTH),
            layers: (0..LAYERS).map(|_| layer()).collect(),
            last_norm: norm(),
            output: matrix(WIDTH, VOCABULARY),
        }
    }

    #[test]
    fn a_step_has_a_sixth_of_the_shipped_nodes() {
        // Shipped: 896 nodes in the branch with cache, counted with Python's onnx. Here: by hand,
        // 23 for each layer (8 products, 3 Split, 1 rotation, 1 + 7 attention, 3 norms, …), 5 besides.
        assert_eq!(step(&weights()).nodes(), 143);
        assert_eq!(cross(&weights()).nodes(), 8);
    }

    #[test]
    fn positions_turn_as_the_paper_says() {
        // RoFormer (Su et al. 2021), eq. 15: angle m·10000^(−2(i−1)/d), here d = 32.
        let (cos, sin) = rotation();
        assert_eq!((cos[0], sin[0]), (1.0, 0.0));
        // Position 1, i = 1: one radian. Position 100, i = 9: 100·10000^(−1/2) = one radian.
        for at in [16, 100 * 16 + 8] {
            assert!((cos[at] - 0.540_302_3).abs() < 1e-5, "{at}: {}", cos[at]);
            assert!((sin[at] - 0.841_471).abs() < 1e-5, "{at}: {}", sin[at]);
        }
    }
}
