//! Flavour `plain`: standard operators only, and the model that `fused` is.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firstword_models::gguf::Writer;
use firstword_models::language::decoder::Wanted;
use firstword_models::language::import::{GraphFlavour, Precision, import};
use language::{Fused, tiny};
use prost::Message;
use tempfile::TempDir;

/// What of an ONNX file says which operators it wants, with the field numbers of `onnx.proto`.
#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    opsets: Vec<Opset>,
}

#[derive(Clone, PartialEq, Message)]
struct Opset {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "4")]
    kind: String,
    #[prost(string, tag = "7")]
    domain: String,
}

/// Gemma 2 has most of what there is: two kinds of layers, caps, norms after, an activation that is not SiLU.
fn source() -> Option<(TempDir, PathBuf)> {
    let arrays = tiny::Arrays::read(&language::golden("tiny_gemma2.npz")?);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let mut writer = Writer::default();
    tiny::metadata(&mut writer, "gemma2", 2, 256);
    let metadata = &mut writer.metadata;
    metadata.insert("gemma2.attention.key_length", 16_u32);
    metadata.insert("gemma2.attention.value_length", 16_u32);
    metadata.insert("gemma2.attention.sliding_window", 16_u32);
    metadata.insert("gemma2.attn_logit_softcapping", 5.0_f32);
    metadata.insert("gemma2.final_logit_softcapping", 3.0_f32);
    tiny::write(&path, writer, &arrays, true, &[]);
    Some((folder, path))
}

fn operators(goal: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(goal.join("model.onnx")).unwrap();
    let model = Model::decode(bytes.as_slice()).unwrap();
    let opsets: Vec<_> = model
        .opsets
        .iter()
        .map(|opset| (opset.domain.as_str(), opset.version))
        .collect();
    assert_eq!(opsets, [("", 21)]);
    let nodes = model.graph.unwrap().nodes;
    assert!(nodes.iter().all(|node| node.domain.is_empty()));
    nodes.into_iter().map(|node| node.kind).collect()
}

// The list is of operators that ONNX defines up to opset 21 (its `Operators.md`); `SimplifiedLayerNormalization` is in
// the standard domain too, but ONNX Runtime's own.
#[test]
fn only_standard_operators_up_to_opset_21_are_in_it() {
    let Some((folder, source)) = source() else {
        return;
    };
    let usual = "Add Cast Concat Div Gather Gelu Identity MatMul Mul Neg Pow ReduceMean Reshape Shape Slice Softmax \
                 Split Sqrt Tanh Transpose Unsqueeze";
    for (precision, more) in [
        (Precision::Float, None),
        (Precision::Exact, Some("DequantizeLinear")),
    ] {
        let goal = folder.path().join(precision.name());
        let mut request = language::request(&source, &goal, precision);
        request.flavour = GraphFlavour::Plain;
        language::import(&request);
        let mut expected: BTreeSet<String> = usual.split_whitespace().map(str::to_owned).collect();
        expected.extend(more.map(str::to_owned));
        if precision == Precision::Float {
            expected.remove("Cast");
        }
        assert_eq!(operators(&goal), expected, "{}", precision.name());
        // onnxruntime-genai could not run it.
        assert!(!goal.join("genai_config.json").exists());
    }
}

#[test]
fn precisions_that_round_activations_are_refused() {
    let Some((folder, source)) = source() else {
        return;
    };
    let goal = folder.path().join("model");
    let mut request = language::request(&source, &goal, Precision::Fast);
    request.flavour = GraphFlavour::Plain;
    let error = import(&request, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "flavour plain has no precision fast: expected exact; its providers round activations themselves, if told"
    );
    assert!(!goal.exists());
}

/// The best token, and by how much.
fn best(row: &[f32]) -> (u32, f32) {
    let mut best = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (token, &logit) in row.iter().enumerate() {
        if logit > best.1 {
            best = (token as u32, logit, best.1);
        } else if logit > best.2 {
            best.2 = logit;
        }
    }
    (best.0, best.1 - best.2)
}

/// Both are a few hundredths off the reference; a lead as small as this may go either way.
const CLOSE: f32 = 0.25;

// The reference is Hugging Face transformers in float32 (the golden), the bounds are those of `exact` in `fused`.
#[test]
fn smollm2_is_the_reference_within_six_thousandths_of_kl_and_says_what_fused_says() {
    let name = "smollm2-135m-instruct";
    let Some(golden) = language::golden(&format!("{name}.json")) else {
        return;
    };
    let (Some(source), Some(library)) = (language::gguf(name), language::library()) else {
        return;
    };
    let golden = language::json(&golden);
    let ids: Vec<u32> = serde_json::from_value(golden["ids"].clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let goal = folder.path().join("plain");
    let mut plain = language::plain(library, &source, &goal, Precision::Exact, 512);
    let slot = plain.open().unwrap();
    let all: Vec<usize> = (0..ids.len()).collect();
    let logits = plain
        .prefill(slot, &ids, ids.len(), Wanted::Rows(&all))
        .unwrap();
    let rows: Vec<&[f32]> = all.iter().map(|&row| logits.row(row)).collect();
    let [kl, top1, perplexity] = language::measure(&golden, &rows);
    println!("KL {kl}, top-1 {top1}, perplexity ratio {perplexity}");
    assert!(kl <= 0.006, "KL {kl}");
    assert!(top1 >= 0.95, "top-1 {top1}");
    assert!((perplexity - 1.0).abs() <= 0.01, "{perplexity}");

    let goal = folder.path().join("fused");
    let mut request = language::request(&source, &goal, Precision::Exact);
    request.window = Some(512);
    let manifest = language::import(&request);
    let shape = [manifest.layers, manifest.kv_heads, manifest.head_dim];
    let mut fused = Fused::new(library, &goal, shape, 512);
    let prompt = &ids[..32];
    plain.truncate(slot, 0);
    let first = plain.prefill(slot, prompt, 32, Wanted::Last).unwrap();
    let mut ours = best(first.row(0)).0;
    let prompt: Vec<i64> = prompt.iter().map(|&id| id.into()).collect();
    let mut theirs = best(&fused.run(&prompt, None));
    let mut same = 0;
    for _ in 0..24 {
        if theirs.1 < CLOSE {
            break;
        }
        assert_eq!(ours, theirs.0, "after {same} tokens, lead {}", theirs.1);
        same += 1;
        ours = best(plain.decode(&[(slot, ours)]).unwrap().row(0)).0;
        theirs = best(&fused.run(&[theirs.0.into()], None));
    }
    println!("{same} tokens are the same");
    assert!(same >= 4, "{same} tokens before a close call");
}
