//! A folder is read as what it is, and one that is almost right says what is missing.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod tiny;

use std::fs;
use std::path::Path;

use firstword_models::language::folder::{Element, FolderError, LanguageFolder, Layout, Origin};
use proptest::prelude::*;
use tempfile::TempDir;
use tiny::folders::{self, write};
use tiny::protobuf::{Kind, Model};
use tiny::{HEAD, KV_HEADS, LAYERS, Parts, Tiny, VOCABULARY, WINDOW};

const PLAIN: Parts = Parts {
    logit_rows: false,
    position_ids: false,
    rope_total: false,
    long: false,
    half: false,
    branch: None,
    rows: false,
    one_token: false,
    no_past: false,
};

/// What is said of a folder that can't be used, in one line.
fn refusal(folder: &Path) -> String {
    let said = LanguageFolder::open(folder).unwrap_err().to_string();
    assert!(!said.contains('\n'), "{said}");
    said
}

fn expect_said(folder: &TempDir, parts: &[&str]) {
    let said = refusal(folder.path());
    for part in parts {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

/// Changes a configuration file's text.
fn change(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn the_three_layouts_say_the_same_of_the_same_model() {
    let kinds = [
        (
            folders::ours(Parts {
                logit_rows: true,
                ..PLAIN
            }),
            Origin::Firstword,
        ),
        (folders::genai(PLAIN, true), Origin::GenAi),
        (
            folders::optimum(&[("onnx/model.onnx", PLAIN)]),
            Origin::Optimum,
        ),
    ];
    for (folder, origin) in kinds {
        let found = LanguageFolder::open(folder.path()).unwrap();
        assert_eq!(found.origin, origin);
        let shape = found.shape;
        assert_eq!(
            (shape.layers, shape.kv_heads, shape.head_dim),
            (LAYERS, KV_HEADS, HEAD)
        );
        assert_eq!((shape.vocabulary, shape.window), (VOCABULARY, WINDOW));
        assert_eq!((found.bos, found.eos), (Some(1), vec![2, 7]));
        assert_eq!(found.architecture, "llama");
    }
}

#[test]
fn ours_is_read_as_ours_though_it_can_be_read_by_genai() {
    let folder = folders::genai(PLAIN, false);
    let ours = folders::ours(PLAIN);
    fs::copy(
        ours.path().join("firstword.json"),
        folder.path().join("firstword.json"),
    )
    .unwrap();
    let found = LanguageFolder::open(folder.path()).unwrap();
    assert_eq!(
        (found.origin, found.layout),
        (Origin::Firstword, Layout::Fused)
    );
}

#[test]
fn of_several_variants_the_documented_first_is_taken_or_the_one_named() {
    let half = Parts {
        half: true,
        ..PLAIN
    };
    let folder = folders::optimum(&[
        ("onnx/model.onnx", PLAIN),
        ("onnx/model_fp16.onnx", half),
        ("onnx/model_int8.onnx", PLAIN),
    ]);
    let open = |variant| LanguageFolder::open_variant(folder.path(), variant);
    assert_eq!(open(None).unwrap().precision, "f32");
    let found = open(Some("fp16")).unwrap();
    assert_eq!(
        (found.precision.as_str(), found.signature.cache_element),
        ("fp16", Element::F16)
    );
    assert_eq!(open(Some("fp32")).unwrap().precision, "f32");
    let refused = open(Some("q8")).unwrap_err();
    assert!(
        matches!(&refused, FolderError::Variant { have, .. } if have == "f32, fp16, int8"),
        "{refused}"
    );

    write(
        folder.path(),
        "onnx/model_q4.onnx",
        Tiny::new().graph(PLAIN),
    );
    assert_eq!(LanguageFolder::open(folder.path()).unwrap().precision, "q4");
}

#[test]
fn a_merged_decoder_goes_before_one_in_two_files() {
    let folder = folders::optimum(&[
        (
            "decoder_model.onnx",
            Parts {
                no_past: true,
                ..PLAIN
            },
        ),
        ("decoder_with_past_model.onnx", PLAIN),
    ]);
    let first = LanguageFolder::open(folder.path()).unwrap().first;
    assert!(first.is_some_and(|(file, _)| file.ends_with("decoder_model.onnx")));
    let branch = Parts {
        branch: Some(false),
        ..PLAIN
    };
    write(
        folder.path(),
        "decoder_model_merged.onnx",
        Tiny::new().graph(branch),
    );
    let found = LanguageFolder::open(folder.path()).unwrap();
    assert!(found.first.is_none() && found.signature.use_cache_branch.is_some());
}

#[test]
fn names_of_older_exports_are_found() {
    let mut m = Model::default();
    m.input("input_ids", Kind::I64, &[-1, -1]);
    m.input("past.0.key", Kind::F32, &[-1, 2, -1, 16]);
    m.input("past.0.value", Kind::F32, &[-1, 2, -1, 16]);
    for name in ["present.0.key", "present.0.value", "logits"] {
        m.output(
            name,
            Kind::F32,
            &[-1, -1, 50, -1][..if name == "logits" { 3 } else { 4 }],
        );
    }
    let folder = folders::optimum(&[]);
    write(folder.path(), "model.onnx", m.bytes());
    change(
        &folder,
        "config.json",
        "\"num_hidden_layers\": 2",
        "\"n_layer\": 1",
    );
    let names = LanguageFolder::open(folder.path())
        .unwrap()
        .signature
        .layers;
    assert_eq!(names[0].past, ["past.0.key", "past.0.value"]);
}

#[test]
fn what_is_missing_is_named() {
    let empty = tempfile::tempdir().unwrap();
    expect_said(
        &empty,
        &[
            "firstword.json",
            "genai_config.json",
            "config.json",
            "found nothing",
        ],
    );
    write(empty.path(), "model.gguf", "GGUF");
    expect_said(&empty, &["found model.gguf"]);
    let said = refusal(&empty.path().join("elsewhere"));
    assert!(
        said.contains("elsewhere") && said.contains("can't be read"),
        "{said}"
    );

    for folder in [folders::ours(PLAIN), folders::genai(PLAIN, true)] {
        fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
        expect_said(&folder, &["tokenizer.json is missing", "tokens"]);
        write(folder.path(), "tokenizer.model", "sp");
        expect_said(&folder, &["tokenizer.model alone"]);
        write(folder.path(), "tokenizer.json", "{}");
        fs::remove_file(folder.path().join("model.onnx")).unwrap();
        expect_said(&folder, &["model.onnx is missing"]);
    }

    let folder = folders::optimum(&[("onnx/model.onnx", PLAIN)]);
    fs::remove_file(folder.path().join("config.json")).unwrap();
    expect_said(&folder, &["config.json is missing", "window"]);
    let folder = folders::optimum(&[]);
    expect_said(
        &folder,
        &["there is no decoder", "decoder_model_merged", "onnx/"],
    );
    let folder = folders::optimum(&[("onnx/decoder_with_past_model.onnx", PLAIN)]);
    expect_said(
        &folder,
        &["onnx/decoder_model.onnx is missing", "can't begin a prompt"],
    );
    let folder = folders::optimum(&[(
        "onnx/decoder_model.onnx",
        Parts {
            no_past: true,
            ..PLAIN
        },
    )]);
    expect_said(
        &folder,
        &["no input past_key_values.0.key", "export it with past"],
    );
}

#[test]
fn weights_beside_the_graph_must_be_there_and_whole() {
    let graph = |file: &str| {
        let mut m = Model::default();
        m.external("w", &[4], file, 4096, 16);
        m.bytes()
    };
    let folder = folders::ours(PLAIN);
    write(folder.path(), "model.onnx", graph("model.onnx.data"));
    expect_said(
        &folder,
        &["model.onnx.data is missing", "model.onnx refers to it"],
    );
    write(folder.path(), "model.onnx.data", vec![0; 4111]);
    expect_said(&folder, &["cut short", "4111", "4112"]);
    for outside in ["/etc/passwd", "../secrets", "a/../../b"] {
        write(folder.path(), "model.onnx", graph(outside));
        expect_said(&folder, &["outside of its folder", outside]);
    }
}

#[test]
fn contradictions_and_surprises_are_refused_with_both_sides() {
    let folder = folders::ours(PLAIN);
    change(&folder, "firstword.json", "\"layers\": 2", "\"layers\": 3");
    expect_said(
        &folder,
        &["firstword.json", "number of layers 3", "model.onnx has 2"],
    );

    let folder = folders::genai(PLAIN, true);
    change(
        &folder,
        "genai_config.json",
        "\"head_size\": 16",
        "\"head_size\": 32",
    );
    expect_said(&folder, &["head size 32", "has 16"]);
    let folder = folders::genai(PLAIN, true);
    change(
        &folder,
        "genai_config.json",
        "\"context_length\": 96",
        "\"context_length\": -1",
    );
    expect_said(&folder, &["context_length is -1"]);
    let folder = folders::genai(PLAIN, true);
    change(
        &folder,
        "genai_config.json",
        "present.%d.key",
        "present.key",
    );
    expect_said(&folder, &["present.key", "%d"]);
    let folder = folders::genai(PLAIN, true);
    change(
        &folder,
        "genai_config.json",
        "\"filename\": \"model.onnx\"",
        "\"filename\": \"../model.onnx\"",
    );
    expect_said(&folder, &["not a plain file name"]);
    // A cache said to be shared by a graph that can't.
    let folder = folders::genai(
        Parts {
            rows: true,
            ..PLAIN
        },
        true,
    );
    change(&folder, "genai_config.json", "present.%d", "new.%d");
    expect_said(&folder, &["0 of 2 layers use GroupQueryAttention"]);

    let folder = folders::ours(PLAIN);
    write(folder.path(), "firstword.json", "{\"flavour\": \"static\"}");
    expect_said(&folder, &["flavour is static", "fused or plain"]);
    write(folder.path(), "firstword.json", "[]");
    expect_said(&folder, &["expected an object"]);
    write(folder.path(), "firstword.json", "{");
    expect_said(&folder, &["firstword.json", "EOF"]);

    let mut m = Model::default();
    m.input("input_ids", Kind::I64, &[-1, -1]);
    m.input("pixel_values", Kind::F32, &[-1]);
    for part in ["key", "value"] {
        m.input(
            &format!("past_key_values.0.{part}"),
            Kind::F32,
            &[-1, 2, -1, 16],
        );
        m.output(&format!("present.0.{part}"), Kind::F32, &[-1, 2, -1, 16]);
    }
    m.output("logits", Kind::F32, &[-1, -1, 50]);
    let folder = folders::optimum(&[]);
    write(folder.path(), "model.onnx", m.bytes());
    expect_said(&folder, &["pixel_values", "does not know"]);
}

proptest! {
    #[test]
    fn a_damaged_graph_is_refused_or_read_but_never_a_panic(at in 0_usize..20_000, byte: u8, cut in 0_usize..20_000) {
        let folder = folders::ours(PLAIN);
        let mut graph = Tiny::new().graph(PLAIN);
        let (at, cut) = (at % graph.len(), cut % graph.len());
        graph[at] = byte;
        write(folder.path(), "model.onnx", &graph);
        let _ = LanguageFolder::open(folder.path());
        write(folder.path(), "model.onnx", &graph[..cut]);
        let _ = LanguageFolder::open(folder.path());
    }

    #[test]
    fn any_bytes_as_a_graph_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = folders::ours(PLAIN);
        write(folder.path(), "model.onnx", &bytes);
        let _ = LanguageFolder::open(folder.path());
    }
}
