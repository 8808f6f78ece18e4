//! What is written can be read, and nothing is left of a file that could not be finished.

use firstword_models::gguf::{Array, Kind, Value, WriteError, Writer};

#[test]
fn a_writer_refuses_what_no_reader_takes() {
    let mut writer = Writer::default();
    writer.tensor("w", Kind::Q8_0, &[32, 2]).unwrap();
    for (name, kind, shape) in [
        ("w", Kind::F32, &[1][..]),
        ("", Kind::F32, &[1]),
        ("a", Kind::F32, &[]),
        ("a", Kind::F32, &[1, 1, 1, 1, 1]),
        ("a", Kind::F32, &[4, 0]),
        ("a", Kind::Q4K, &[32, 8]),
        ("a", Kind::F32, &[1 << 40, 1 << 40]),
    ] {
        let refusal = writer.tensor(name, kind, shape);
        assert!(
            matches!(refusal, Err(WriteError::Tensor { .. })),
            "{name} {kind} {shape:?}"
        );
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for (bytes, expected) in [
        (67, "expected 68 bytes, found 67"),
        (69, "expected 68 bytes, found more"),
    ] {
        let written = writer.save(&path, &mut |_, out| out.write_all(&vec![1; bytes]));
        let error = written.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(
            folder.path().read_dir().unwrap().count(),
            0,
            "nothing half-written is left"
        );
    }
    writer
        .save(&path, &mut |_, out| out.write_all(&[1; 68]))
        .unwrap();
    assert_eq!(path.metadata().unwrap().len(), writer.length().unwrap());
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);

    writer
        .metadata
        .insert("deep", Value::Array(Array::Nested { len: 1 }));
    assert!(matches!(writer.length(), Err(WriteError::Value { .. })));
}
