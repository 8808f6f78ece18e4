//! Sessions on the CPU of the real library: what runs, and what is said when a model won't load.

mod onnxruntime;

use std::num::NonZeroUsize;

use firstword_targets::{Cpu, Library, SessionError};
use ort::value::Tensor;

fn library() -> Option<&'static Library> {
    onnxruntime::search().map(|search| search.load().expect("a real library"))
}

fn run(session: &mut ort::session::Session, input: &[f32]) -> Vec<f32> {
    let tensor =
        Tensor::from_array(([input.len()], input.to_vec())).expect("the model doubles its input");
    let outputs = session
        .run(ort::inputs!["x" => tensor])
        .expect("the model doubles its input");
    outputs["y"]
        .try_extract_tensor::<f32>()
        .expect("the model doubles its input")
        .1
        .to_vec()
}

#[test]
fn a_model_runs_on_the_cpu_with_every_setting() {
    let Some(library) = library() else { return };
    let settings = [
        Cpu::default(),
        Cpu::with_threads(NonZeroUsize::MIN.saturating_add(1)).for_changing_shapes(),
        Cpu {
            spinning: true,
            arena: false,
            ..Cpu::default()
        },
    ];
    for cpu in settings {
        let mut session = cpu
            .session_from_bytes(library, "doubling", &onnxruntime::model("Add"))
            .unwrap();
        assert_eq!(run(&mut session, &[1.0, -2.5]), [2.0, -5.0], "{cpu:?}");
        assert_eq!(
            run(&mut session, &[4.0]),
            [8.0],
            "shapes may change: {cpu:?}"
        );
    }
    assert_eq!(
        library.messages().take(),
        [],
        "nothing in this is worth a warning"
    );
}

#[test]
fn a_model_file_runs_and_its_file_is_named_when_it_does_not() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("doubling.onnx");
    let model = onnxruntime::model("Add");
    std::fs::write(&path, &model).unwrap();
    let mut session = Cpu::default().session(library, &path).unwrap();
    assert_eq!(run(&mut session, &[0.5]), [1.0]);

    let cases: [(&str, &[u8]); 4] = [
        ("empty.onnx", b""),
        ("cut.onnx", &model[..model.len() / 2]),
        ("text.onnx", b"not a model"),
        ("cut.ort", b"    ORTM"),
    ];
    for (name, contents) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, contents).unwrap();
        let error = Cpu::default().session(library, &path).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, SessionError::NotAModel { .. }),
            "{name}: {error:?}"
        );
        assert!(text.contains(name) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn a_missing_model_file_and_a_folder_are_named() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("absent.onnx"), folder.path().to_owned()] {
        let error = Cpu::default().session(library, &path).unwrap_err();
        assert!(
            matches!(error, SessionError::Unreadable { .. }),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
}

#[test]
fn an_operator_the_library_lacks_is_named() {
    let Some(library) = library() else { return };
    let error = Cpu::default()
        .session_from_bytes(library, "odd.onnx", &onnxruntime::model("NoSuchThing"))
        .unwrap_err();
    assert!(
        matches!(error, SessionError::MissingOperator { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("NoSuchThing"), "{error}");
}
