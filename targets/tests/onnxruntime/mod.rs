//! Finds the real ONNX Runtime for tests that need one, and a tiny model to run on it.

use std::path::PathBuf;

use firstword_targets::Search;

/// Where the tests look: `FIRSTWORD_TEST_ORT`, `ORT_DYLIB_PATH`, or the cache that
/// `firstword model pull onnxruntime` fills. `None`, with a line that says so, where there is none.
pub fn search() -> Option<Search> {
    for name in ["FIRSTWORD_TEST_ORT", "ORT_DYLIB_PATH"] {
        if let Some(path) = std::env::var_os(name).filter(|path| !path.is_empty()) {
            return Some(Search {
                environment: Some(path.into()),
                ..Search::default()
            });
        }
    }
    let folder = cache()
        .and_then(|root| root.join("lib").read_dir().ok())
        .and_then(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.is_dir())
                .max()
        });
    if folder.is_none() {
        println!(
            "skipped: no ONNX Runtime (set FIRSTWORD_TEST_ORT or run `firstword model pull onnxruntime`)"
        );
    }
    Some(Search {
        cache: Some(folder?),
        ..Search::default()
    })
}

fn cache() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    set("FIRSTWORD_HOME")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("firstword")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/firstword")))
}

/// An ONNX model `y = operator(x, x)` over f32 vectors of any length, written field by field
/// (onnx.proto, IR version 8, opset 13).
#[allow(dead_code, reason = "not every test file builds sessions")]
pub fn model(operator: &str) -> Vec<u8> {
    let dimension = bytes(2, b"n"); // Dimension.dim_param
    let shape = bytes(1, &dimension); // TensorShapeProto.dim
    let tensor = [number(1, 1), bytes(2, &shape)].concat(); // Tensor.elem_type = FLOAT, .shape
    let kind = bytes(1, &tensor); // TypeProto.tensor_type
    let value = |name: &[u8]| [bytes(1, name), bytes(2, &kind)].concat(); // ValueInfoProto
    let node = [
        bytes(1, b"x"),
        bytes(1, b"x"),
        bytes(2, b"y"),
        bytes(4, operator.as_bytes()),
    ]
    .concat();
    let graph = [
        bytes(1, &node),
        bytes(2, b"g"),
        bytes(11, &value(b"x")),
        bytes(12, &value(b"y")),
    ]
    .concat();
    let opset = number(2, 13); // OperatorSetIdProto.version
    [number(1, 8), bytes(7, &graph), bytes(8, &opset)].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn bytes(field: u8, contents: &[u8]) -> Vec<u8> {
    let length = u8::try_from(contents.len()).expect("the test model is small");
    // Lengths over 127 take two bytes.
    let length = if length < 128 {
        vec![length]
    } else {
        vec![length, 1]
    };
    [vec![field << 3 | 2], length, contents.to_vec()].concat()
}
