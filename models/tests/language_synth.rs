//! Models with random weights: the same bytes each time, and models like any other.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use firstword_models::gguf::{Gguf, Kind};
use firstword_models::language::architecture::Description;
use firstword_models::language::import::{Calibration, MANIFEST, Precision, calibrate};
use firstword_models::language::synth::{self, REMARK, Sizes, SynthError};
use firstword_models::language::tokenizer::{GgufTokenizer, Special};
use firstword_targets::Cpu;
use language::Fused;
use sha2::{Digest, Sha256};

/// The form of the full-size one, small.
const TINY: Sizes = Sizes {
    name: "tiny-random",
    layers: 2,
    width: 64,
    inner: 128,
    heads: 4,
    vocabulary: 512,
    context: 256,
    window: 47,
    tied: false,
};

fn save(path: &Path) {
    synth::save(&TINY, path, &mut |_, _| ControlFlow::Continue(())).unwrap();
}

// Both sums come from the same model written in numpy: SplitMix64 from the FNV-1a of each tensor's name, codes of 0 made
// 8, scales 1 / √(17.5 K) in f16.
#[test]
fn the_same_weights_each_time_as_another_program_draws_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    save(&path);
    let gguf = Gguf::open(&path).unwrap();
    let sum = |tensor: &str| {
        let tensor = gguf.tensor(tensor).unwrap();
        let mut bytes = Vec::new();
        tensor.raw(0..tensor.rows(), &mut bytes).unwrap();
        let sum = Sha256::digest(&bytes);
        sum.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        sum("blk.1.ffn_down.weight"),
        "984ced8196023cb647c2a558889a5c9c7abb2d5824f2e368fde5b566c93d5268"
    );
    assert_eq!(
        sum("output.weight"),
        "6497477e8f0e0666530feda72038ab2dcaed29737655d881448df8d51ca27a77"
    );
}

#[test]
fn it_reads_back_as_what_it_stands_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    save(&path);
    let gguf = Gguf::open(&path).unwrap();
    let described = Description::read(gguf.metadata(), &gguf).unwrap();
    assert_eq!(
        (described.architecture, described.layers.len()),
        ("phi3", 2)
    );
    assert_eq!((described.head_dim, described.kv_heads), (16, 4));
    assert_eq!(described.windows(), [Some(47); 2]);
    let norm = gguf.tensor("output_norm.weight").unwrap();
    let mut ones = vec![0.0; 64];
    norm.dequantise(0..1, &mut ones).unwrap();
    assert_eq!(ones, [1.0; 64]);
    let matrix = gguf.tensor("blk.0.attn_qkv.weight").unwrap();
    assert_eq!(matrix.info().kind, Kind::Q4_0);
    let mut weights = vec![0.0; 192 * 64];
    matrix.dequantise(0..192, &mut weights).unwrap();
    let variance = weights.iter().map(|w| w * w).sum::<f32>() / weights.len() as f32;
    // What goes through 64 inputs keeps its variance.
    assert!((variance * 64.0 - 1.0).abs() < 0.05, "{variance}");
}

#[test]
fn it_imports_by_the_default_path_says_what_it_is_and_gives_numbers() {
    let Some(library) = language::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    save(&path);
    let gguf = Gguf::open(&path).unwrap();
    let parts = GgufTokenizer::from_metadata(gguf.metadata()).unwrap();
    let tokenizer = parts.rebuild().unwrap().tokenizer().unwrap();
    // As long as the model's window lets it be.
    let mut tokens = tokenizer.encode(calibrate::TEXT, Special::Plain).unwrap();
    tokens.truncate(TINY.context);
    let cpu = Cpu::default();
    for precision in [Precision::Exact, Precision::Balanced, Precision::Fast] {
        let goal = folder.path().join(precision.name());
        let mut request = language::request(&path, &goal, precision);
        request.calibration = Some(Calibration {
            library,
            cpu: &cpu,
            tokens: &tokens,
        });
        let manifest = language::import(&request);
        assert_eq!(manifest.remark.as_deref(), Some(REMARK));
        let written = fs::read_to_string(goal.join(MANIFEST)).unwrap();
        assert!(written.contains(REMARK), "{written}");
        let quality = manifest.quality.unwrap();
        assert!(quality.kl.is_finite() && quality.kl < 0.5, "{quality:?}");
        if precision == Precision::Exact {
            // The same graph against itself.
            assert!(
                quality.kl.abs() < 1e-9 && quality.top1 == 1.0,
                "{quality:?}"
            );
        }
        let mut model = Fused::new(library, &goal, [2, 4, 16], 64);
        for ids in [&[1, 300, 301, 302][..], &[303], &[7]] {
            let logits = model.run(ids, None);
            assert_eq!(logits.len(), TINY.vocabulary);
            assert!(logits.iter().all(|v| v.is_finite()));
            // Random, not all alike.
            assert!(logits.iter().any(|v| v.abs() > 0.1));
        }
    }
}

#[test]
fn stopped_or_in_the_way_it_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let mut steps = 0;
    let stopped = synth::save(&TINY, &path, &mut |done, total| {
        assert!(done <= total);
        steps += 1;
        match steps {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(matches!(stopped, Err(SynthError::Cancelled)), "{stopped:?}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    fs::write(&path, "mine").unwrap();
    let refused = synth::save(&TINY, &path, &mut |_, _| ControlFlow::Continue(()));
    assert!(
        matches!(refused, Err(SynthError::Exists { .. })),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_temporary_file_goes_with_its_handle_and_room_for_what_comes_of_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let goal = folder.path().join("model");
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let file = synth::beside(&TINY, &goal, 1000, go_on).unwrap();
    Gguf::open(file.path()).unwrap();
    drop(file);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let refused = synth::beside(&TINY, &goal, u64::MAX, go_on).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("not enough room") && said.contains("MB free"),
        "{said}"
    );
    assert!(said.contains(&*folder.path().to_string_lossy()), "{said}");
}
