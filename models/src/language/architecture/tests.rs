//! Descriptions from metadata and shapes alone, and what is said where they don't fit each other.

use std::collections::BTreeMap;

use super::*;

/// Shapes without values; factors of rotations are 2.
#[derive(Default)]
struct Shapes(BTreeMap<String, Vec<u64>>);

impl Weights for Shapes {
    fn find(&self, name: &str) -> Option<(Kind, &[u64])> {
        self.0.get(name).map(|shape| (Kind::F32, shape.as_slice()))
    }

    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    fn floats(&self, _: &str, _: Range<usize>, out: &mut [f32]) -> Result<(), GgufError> {
        out.fill(2.0);
        Ok(())
    }

    fn codes(&self, _: &str, _: Range<usize>, _: &mut Blocks) -> Result<bool, GgufError> {
        Ok(false)
    }
}

/// A model of this family: width 64, 4 heads of 16 over 2, inner width 128, 96 tokens, 7 layers.
fn model(family: &str) -> (Metadata, Shapes) {
    let mut metadata = Metadata::default();
    metadata.insert("general.architecture", family);
    for (key, value) in [
        ("block_count", 7_u32),
        ("embedding_length", 64),
        ("feed_forward_length", 128),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("context_length", 2048),
    ] {
        metadata.insert(format!("{family}.{key}"), value);
    }
    metadata.insert(
        format!("{family}.attention.layer_norm_rms_epsilon"),
        1e-5_f32,
    );
    let mut shapes = Shapes::default();
    let mut add = |name: String, shape: &[u64]| shapes.0.insert(name, shape.to_vec());
    add("token_embd.weight".into(), &[64, 96]);
    add("output_norm.weight".into(), &[64]);
    for layer in 0..7 {
        let mut part = |name: &str, shape: &[u64]| add(format!("blk.{layer}.{name}.weight"), shape);
        part("attn_norm", &[64]);
        part("attn_q", &[64, 64]);
        part("attn_k", &[64, 32]);
        part("attn_v", &[64, 32]);
        part("attn_output", &[64, 64]);
        part("ffn_norm", &[64]);
        part("ffn_gate", &[64, 128]);
        part("ffn_up", &[64, 128]);
        part("ffn_down", &[128, 64]);
        if family.ends_with('3') {
            part("attn_q_norm", &[16]);
            part("attn_k_norm", &[16]);
        }
        if family == "gemma3" {
            part("post_attention_norm", &[64]);
            part("post_ffw_norm", &[64]);
        }
    }
    (metadata, shapes)
}

fn described((metadata, shapes): &(Metadata, Shapes)) -> Description {
    Description::read(metadata, shapes).unwrap()
}

fn said((metadata, shapes): &(Metadata, Shapes)) -> String {
    let said = Description::read(metadata, shapes).unwrap_err().to_string();
    assert!(!said.contains('\n'), "{said}");
    said
}

#[test]
fn llama_rows_of_q_and_k_are_put_in_order_and_those_of_v_are_not() {
    let description = described(&model("llama"));
    let attention = &description.layers[3].attention;
    assert_eq!(attention.q.weight.order, Order::Paired { head: 16 });
    assert_eq!(attention.v.weight.order, Order::AsWanted);
    // transformers' rows 0 1 … 8 9 … of a head are llama.cpp's 0 2 … 1 3 …
    let order = Order::Paired { head: 4 };
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(|row| order.place(row)),
        [0, 2, 1, 3, 4, 6]
    );
    assert_eq!(description.head, description.embedding);
    assert_eq!(description.windows(), [None; 7]);
}

#[test]
fn gemma_3_sees_a_window_in_five_layers_of_six_and_turns_slower_there() {
    let mut model = model("gemma3");
    model.0.insert("gemma3.attention.sliding_window", 512_u32);
    model.0.insert("gemma3.rope.freq_base", 1e6_f32);
    let description = described(&model);
    let windows = [
        Some(512),
        Some(512),
        Some(512),
        Some(512),
        Some(512),
        None,
        Some(512),
    ];
    assert_eq!(description.windows(), windows);
    let base = |layer: usize| description.ropes[description.layers[layer].attention.rope].base;
    assert_eq!([base(0), base(5), base(6)], [1e4, 1e6, 1e4]);
    assert_eq!(description.embedding_scale, Some(8.0));
    assert!(description.layers[0].attention.q_norm.is_some());
}

#[test]
fn qwen_2_has_biases_where_the_file_has_them() {
    let mut model = model("qwen2");
    model.1.0.insert("blk.0.attn_q.bias".into(), vec![64]);
    let description = described(&model);
    assert!(description.layers[0].attention.q.bias.is_some());
    assert!(description.layers[0].attention.k.bias.is_none());
}

#[test]
fn factors_of_the_file_and_linear_ones_are_told_apart_and_others_refused() {
    let mut model = model("llama");
    model.0.insert("llama.rope.scaling.type", "linear");
    model.0.insert("llama.rope.scaling.factor", 4.0_f32);
    assert_eq!(described(&model).ropes[0].scaling, Scaling::Linear(4.0));
    model.0.insert("llama.rope.scaling.type", "yarn");
    assert!(said(&model).contains("llama.rope.scaling.type: expected none, linear"));
    model.1.0.insert("rope_freqs.weight".into(), vec![8]);
    let factors = Scaling::PerFrequency(vec![2.0; 8]);
    assert_eq!(described(&model).ropes[0].scaling, factors);
}

#[test]
fn a_position_turns_each_pair_by_its_own_frequency() {
    // By hand: 10000^(-0/2) = 1 and 10000^(-1/2) = 0.01 per position, halved by the factor.
    let rope = Rope {
        base: 10_000.0,
        dimensions: 4,
        scaling: Scaling::Linear(2.0),
    };
    let table = rope.table(4);
    let expected = [
        1.5_f32.cos(),
        0.015_f32.cos(),
        1.5_f32.sin(),
        0.015_f32.sin(),
    ];
    let found = [table.cos[6], table.cos[7], table.sin[6], table.sin[7]];
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn an_unknown_architecture_is_named_with_the_known_ones() {
    let said = said(&model("mamba"));
    assert!(
        said.contains("mamba") && said.contains("llama, phi3, gemma, gemma2, gemma3, qwen2, qwen3"),
        "{said}"
    );
}

#[test]
fn tensors_that_contradict_the_metadata_are_named() {
    let mut absent = model("llama");
    absent.1.0.remove("blk.6.ffn_down.weight");
    assert!(said(&absent).contains("blk.6.ffn_down.weight is missing: expected [128, 64]"));
    let mut other = model("llama");
    other.1.0.insert("blk.2.attn_k.weight".into(), vec![64, 48]);
    assert!(said(&other).contains("blk.2.attn_k.weight: expected the shape [64, 32]"));
    let mut more = model("llama");
    more.1.0.insert("blk.0.attn_q_norm.weight".into(), vec![16]);
    assert!(
        said(&more).contains("attn_q_norm.weight` is not part of architecture llama"),
        "{}",
        said(&more)
    );
}

#[test]
fn metadata_that_cannot_be_are_refused() {
    for (key, value, part) in [
        ("block_count", 0_u32, "block_count: expected 1 to"),
        ("attention.head_count_kv", 3, "a divisor of the 4 heads"),
        ("attention.key_length", 15, "an even number"),
        ("rope.dimension_count", 18, "up to the head's 16"),
        ("expert_count", 8, "no mixture of experts"),
        (
            "embedding_length",
            u32::MAX,
            "embedding_length: expected 1 to",
        ),
    ] {
        let mut model = model("llama");
        model.0.insert(format!("llama.{key}"), value);
        if key == "attention.key_length" {
            model.0.insert("llama.attention.value_length", value);
        }
        let said = said(&model);
        assert!(said.contains(part), "{key}: {said}");
    }
}
