//! A model in several files is one model: any of them opens it, and a missing or wrong one is named.

use std::fs;
use std::path::{Path, PathBuf};

use firstword_models::gguf::{Gguf, Kind, Writer};

use crate::fixture::{self, noise};

/// Part `number` (from 0) of `count`, holding these tensors.
fn part(folder: &Path, number: u16, count: u16, tensors: &[&str], all: i32) -> PathBuf {
    let mut writer = Writer::default();
    if number == 0 {
        writer.metadata.insert("general.architecture", "llama");
    }
    writer.metadata.insert("split.no", number);
    writer.metadata.insert("split.count", count);
    writer.metadata.insert("split.tensors.count", all);
    for name in tensors {
        writer.tensor(name, Kind::F32, &[8]).unwrap();
    }
    let path = folder.join(format!("m-{:05}-of-{count:05}.gguf", number + 1));
    fs::write(&path, fixture::bytes(&writer)).unwrap();
    path
}

#[test]
fn any_part_of_a_split_model_opens_it_all() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [
        part(folder.path(), 0, 3, &[], 3),
        part(folder.path(), 1, 3, &["a", "b"], 3),
        part(folder.path(), 2, 3, &["c"], 3),
    ];
    for path in &parts {
        let model = Gguf::open(path).unwrap();
        assert_eq!(model.metadata().str("general.architecture"), Ok("llama"));
        assert!(
            model
                .parts()
                .map(|(path, _)| path.to_owned())
                .eq(parts.iter().cloned())
        );
        let names: Vec<_> = model
            .tensors()
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        let mut raw = Vec::new();
        model.tensor("c").unwrap().raw(0..1, &mut raw).unwrap();
        assert_eq!(raw, noise(32));

        let mut done = 0;
        let whole: Vec<u8> = parts
            .iter()
            .flat_map(|path| fs::read(path).unwrap())
            .collect();
        let together = folder.path().join("together");
        fs::write(&together, &whole).unwrap();
        let expected = sha256(&whole);
        assert_eq!(model.sha256(&mut |bytes| done = bytes).unwrap(), expected);
        assert_eq!(done, whole.len() as u64);
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn a_split_model_that_is_not_whole_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refusal = |path: &Path| {
        let error = Gguf::open(path).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let first = part(folder, 0, 3, &["a"], 2);
    let error = refusal(&first);
    assert!(
        error.contains("m-00002-of-00003.gguf is missing") && error.contains("2 of them absent"),
        "{error}"
    );

    let second = part(folder, 1, 3, &["b"], 2);
    let third = part(folder, 2, 3, &["b"], 2);
    let error = refusal(&second);
    assert!(
        error.contains("m-00003") && error.contains("found `b` in two"),
        "{error}"
    );

    part(folder, 2, 3, &["c"], 2);
    let error = refusal(&second);
    assert!(
        error.contains("number of tensors in all parts: expected 2, found 3"),
        "{error}"
    );

    fs::copy(&first, &third).unwrap();
    let error = refusal(&second);
    assert!(
        error.contains("m-00003") && error.contains("expected 2, found 0"),
        "{error}"
    );
    let error = refusal(&third);
    assert!(
        error.contains("part 1 of 3") && error.contains("-00001-of-00003.gguf"),
        "{error}"
    );

    let renamed = folder.join("mine.gguf");
    fs::copy(&second, &renamed).unwrap();
    let error = refusal(&renamed);
    assert!(
        error.contains("mine.gguf is part 2 of 3") && error.contains("-00002-of-00003.gguf"),
        "{error}"
    );

    fs::write(&third, b"GGUF").unwrap();
    assert!(refusal(&first).contains("m-00003-of-00003.gguf is damaged"));
}
