//! What is in a GGUF file is what is read: metadata, and the rows of tensors.

use std::fs;
use std::path::{Path, PathBuf};

use firstword_models::gguf::blocks::{self, Blocks};
use firstword_models::gguf::{Array, Gguf, GgufError, Kind, Metadata, Value, Writer};

use crate::fixture::{self, bits, noise};

fn saved(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn what_was_written_is_read_again() {
    let (_folder, path) = saved(&fixture::file());
    let model = Gguf::open(&path).unwrap();
    let mut declared = Writer::default();
    fixture::describe(&mut declared);
    assert_eq!(model.version(), 3);
    assert!(model.metadata().iter().eq(declared.metadata.iter()));

    assert_eq!(model.tensors().len(), Kind::ALL.len() + 2);
    for tensor in model.iter() {
        let info = tensor.info();
        let expected = noise(info.bytes as usize);
        assert_eq!(info.offset % 32, 0);
        let mut raw = Vec::new();
        tensor.raw(0..tensor.rows(), &mut raw).unwrap();
        assert_eq!(raw, expected, "{}", info.name);
        // Rows alone are the same as all.
        for row in 0..tensor.rows() {
            tensor.raw(row..row + 1, &mut raw).unwrap();
            let start = row * tensor.row_bytes();
            assert_eq!(
                raw,
                expected[start..start + tensor.row_bytes()],
                "{} {row}",
                info.name
            );
        }
    }
    let experts = model.tensor("experts.weight").unwrap();
    assert_eq!(
        (experts.rows(), experts.columns(), experts.kind()),
        (4, 32, Kind::Q8_0)
    );
    assert_eq!(experts.info().shape, [32, 2, 2]);
    assert_eq!(model.tensor("norm.weight").unwrap().rows(), 1);
    assert!(model.tensor("no.weight").is_none());
}

#[test]
fn a_matrix_larger_than_a_piece_is_dequantised_whole() {
    // 3000 rows of 1024 values in Q4_0 are 1.7 MB: several reads.
    let mut writer = Writer::default();
    writer.tensor("w", Kind::Q4_0, &[1024, 3000]).unwrap();
    let (_folder, path) = saved(&fixture::bytes(&writer));
    let model = Gguf::open(&path).unwrap();
    let tensor = model.tensor("w").unwrap();
    let mut values = vec![0.0; 1024 * 3000];
    tensor.dequantise(0..3000, &mut values).unwrap();
    let mut expected = vec![0.0; 1024 * 3000];
    blocks::dequantise(Kind::Q4_0, &noise(32 * 18 * 3000), &mut expected);
    assert!(bits(&values) == bits(&expected));
    let mut row = vec![0.0; 1024];
    tensor.dequantise(2999..3000, &mut row).unwrap();
    assert_eq!(bits(&row), bits(&expected[1024 * 2999..]));
    let mut codes = Blocks::default();
    assert!(tensor.codes(2999..3000, &mut codes).unwrap());
    assert_eq!(bits(&codes.values().collect::<Vec<_>>()), bits(&row));
}

#[test]
fn rows_that_are_not_there_are_refused() {
    let (_folder, path) = saved(&fixture::file());
    let model = Gguf::open(&path).unwrap();
    let tensor = model.tensor("Q8_0.weight").unwrap();
    let mut raw = Vec::new();
    for rows in [0..4, 3..4, usize::MAX - 1..usize::MAX] {
        let error = tensor.raw(rows, &mut raw).unwrap_err();
        assert!(matches!(error, GgufError::Request { .. }), "{error}");
    }
    let error = tensor
        .dequantise(0..1, &mut [0.0; 255])
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected 256, found 255"), "{error}");
    tensor.dequantise(3..3, &mut []).unwrap();
}

#[test]
fn a_file_that_is_cut_while_it_is_open_gives_an_error() {
    let (_folder, path) = saved(&fixture::file());
    let model = Gguf::open(&path).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let tensor = model.tensor("Q6_K.weight").unwrap();
    let error = tensor
        .dequantise(0..3, &mut [0.0; 768])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("was cut") && error.contains("model.gguf"),
        "{error}"
    );
}

#[test]
fn version_2_is_read_as_version_3_is() {
    let mut bytes = fixture::file();
    bytes[4] = 2;
    let (_folder, path) = saved(&bytes);
    let model = Gguf::open(&path).unwrap();
    assert_eq!(model.version(), 2);
    assert_eq!(model.metadata().str("general.architecture"), Ok("llama"));
}

#[test]
fn another_alignment_is_kept_to() {
    let mut writer = Writer::default();
    writer.metadata.insert("general.alignment", 4096_u32);
    fixture::declare(&mut writer);
    let bytes = fixture::bytes(&writer);
    assert_eq!(bytes.len() as u64, writer.length().unwrap());
    let (_folder, path) = saved(&bytes);
    let model = Gguf::open(&path).unwrap();
    assert!(
        model
            .tensors()
            .iter()
            .all(|tensor| tensor.offset % 4096 == 0)
    );
    let mut raw = Vec::new();
    model
        .tensor("experts.weight")
        .unwrap()
        .raw(0..4, &mut raw)
        .unwrap();
    assert_eq!(raw, noise(4 * 34));
}

#[test]
fn the_hash_is_that_of_the_file() {
    let (_folder, path) = saved(b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let model = Gguf::open(&path).unwrap();
    let mut done = 0;
    // printf 'GGUF\3\0\0\0\0…' (24 bytes) | sha256sum
    let expected = "a4e5e156ddec27e286f75328784d7106b60a4eb1d246e950a001a3f944fbda99";
    assert_eq!(model.sha256(&mut |bytes| done = bytes).unwrap(), expected);
    assert_eq!(done, 24);
    assert_eq!(model.parts().collect::<Vec<_>>(), [(path.as_path(), 24)]);
}

#[test]
fn getters_say_what_they_expected() {
    let mut metadata = Metadata::of(Path::new("some/model.gguf"));
    metadata.insert("n", 5_i32);
    metadata.insert("negative", -5_i32);
    metadata.insert("x", 0.5_f64);
    metadata.insert("text", "hello");
    metadata.insert("odd", Value::String(vec![0xff]));
    metadata.insert("numbers", vec![1_u8, 2]);
    metadata.insert("nested", Value::Array(Array::Nested { len: 3 }));
    assert_eq!(metadata.u64("n"), Ok(5));
    assert_eq!(metadata.f32("x"), Ok(0.5));
    assert_eq!(metadata.find::<usize>("n"), Ok(Some(5)));
    assert_eq!(metadata.find::<usize>("none"), Ok(None));
    assert_eq!(metadata.i32s("numbers"), Ok(vec![1, 2]));
    assert_eq!(metadata.u32_per_layer("numbers", 2), Ok(vec![1, 2]));
    assert_eq!(metadata.u32_per_layer("n", 3), Ok(vec![5, 5, 5]));
    let errors = [
        (
            metadata.u64("llama.block_count").unwrap_err(),
            "no metadata key `llama.block_count` (expected an unsigned",
        ),
        (
            metadata.u64("negative").unwrap_err(),
            "expected an unsigned integer, found i32 -5",
        ),
        (
            metadata.u64("x").unwrap_err(),
            "expected an unsigned integer, found f64 0.5",
        ),
        (
            metadata.f32("n").unwrap_err(),
            "expected a float, found i32 5",
        ),
        (
            metadata.bool("text").unwrap_err(),
            "expected a bool, found string `hello`",
        ),
        (
            metadata.str("odd").unwrap_err(),
            "expected a string in UTF-8, found string `\u{fffd}`",
        ),
        (
            metadata.strs("numbers").unwrap_err(),
            "expected an array of strings in UTF-8, found an array of 2 u8",
        ),
        (
            metadata.f32s("nested").unwrap_err(),
            "expected an array of floats, found an array of 3 array",
        ),
        (
            metadata.u32_per_layer("numbers", 3).unwrap_err(),
            "expected one number for each layer, found 2 for 3 layers",
        ),
    ];
    for (error, expected) in errors {
        let error = error.to_string();
        assert!(
            error.contains(expected) && error.contains("some/model.gguf"),
            "{error}"
        );
    }
}
