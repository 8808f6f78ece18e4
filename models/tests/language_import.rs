//! An import leaves a whole folder, or nothing.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firstword_models::gguf::Writer;
use firstword_models::language::import::{ImportError, Manifest, Precision, import};
use language::tiny;
use tempfile::TempDir;

/// A folder with `tiny.gguf`.
fn source() -> Option<(TempDir, PathBuf)> {
    let arrays = tiny::Arrays::read(&language::golden("tiny_phi3.npz")?);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let mut writer = Writer::default();
    tiny::metadata(&mut writer, "phi3", 4, 256);
    writer.metadata.insert("general.license", "mit");
    writer.metadata.insert("tokenizer.ggml.eos_token_id", 2_u32);
    writer
        .metadata
        .insert("tokenizer.ggml.bos_token_id", u32::MAX);
    tiny::write(&path, writer, &arrays, false, &[]);
    Some((folder, path))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_folder_holds_graph_weights_and_where_they_came_from() {
    let Some((folder, source)) = source() else {
        return;
    };
    let goal = folder.path().join("model");
    let (mut last, mut steps) = ((0, 0), 0);
    let manifest = import(
        &language::request(&source, &goal, Precision::Exact),
        &mut |progress| {
            assert!(progress.done >= last.0 && progress.done <= progress.total);
            last = (progress.done, progress.total);
            steps += 1;
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    assert_eq!(last.0, last.1);
    assert!(steps > 10, "{steps}");
    assert_eq!(
        names(&goal),
        [
            "firstword.json",
            "genai_config.json",
            "model.onnx",
            "model.onnx.data"
        ]
    );
    let written: Manifest =
        serde_json::from_slice(&fs::read(goal.join("firstword.json")).unwrap()).unwrap();
    assert_eq!(written, manifest);
    assert_eq!(manifest.source.bytes, fs::metadata(&source).unwrap().len());
    assert_eq!(
        (manifest.licence.as_deref(), manifest.eos, manifest.bos),
        (Some("mit"), vec![2], None)
    );
    assert_eq!(
        (
            manifest.layers,
            manifest.kv_heads,
            manifest.head_dim,
            manifest.window
        ),
        (2, 4, 16, 256)
    );
}

#[test]
fn stopped_at_any_step_an_import_leaves_nothing() {
    let Some((folder, source)) = source() else {
        return;
    };
    let goal = folder.path().join("model");
    let request = language::request(&source, &goal, Precision::Exact);
    let mut all = 0;
    import(&request, &mut |_| {
        all += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    fs::remove_dir_all(&goal).unwrap();
    for stop in 1..=all {
        let mut steps = 0;
        let stopped = import(&request, &mut |_| {
            steps += 1;
            if steps == stop {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(
            matches!(stopped, Err(ImportError::Cancelled)),
            "step {stop}: {stopped:?}"
        );
        assert_eq!(names(folder.path()), ["tiny.gguf"], "step {stop}");
    }
}

#[test]
fn a_tokenizer_that_cannot_be_made_leaves_nothing() {
    let Some((folder, source)) = source() else {
        return;
    };
    let goal = folder.path().join("model");
    let mut request = language::request(&source, &goal, Precision::Exact);
    request.tokenizer = &|_, _| Err("no tokens".to_owned());
    let error = import(&request, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "no tokenizer: no tokens");
    assert_eq!(names(folder.path()), ["tiny.gguf"]);
}

#[test]
fn a_folder_that_is_there_is_replaced_only_when_asked() {
    let Some((folder, source)) = source() else {
        return;
    };
    let goal = folder.path().join("model");
    fs::create_dir(&goal).unwrap();
    fs::write(goal.join("mine"), "precious").unwrap();
    let mut request = language::request(&source, &goal, Precision::Exact);
    let refused = import(&request, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(ImportError::Exists { .. })));
    assert_eq!(names(&goal), ["mine"]);
    request.replace = true;
    language::import(&request);
    assert!(goal.join("model.onnx").is_file() && !goal.join("mine").exists());
    assert_eq!(names(folder.path()), ["model", "tiny.gguf"]);
}

#[test]
fn a_window_over_the_models_context_is_refused() {
    let Some((folder, source)) = source() else {
        return;
    };
    let mut request = language::request(&source, &folder.path().join("model"), Precision::Exact);
    request.window = Some(257);
    let error = import(&request, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "window: expected 1 to 256 tokens, what the model was made for, found 257"
    );
}
