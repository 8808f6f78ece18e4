//! Finds the real ONNX Runtime for tests that need it.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test's fixture")]

#[path = "../place/mod.rs"]
mod place;

use firstword_targets::{Library, Search};
use place::{set, store};

/// The library that `FIRSTWORD_TEST_ORT` or `ORT_DYLIB_PATH` names, or that of the store. `None`, with a
/// line that says so, where there is none.
pub fn library() -> Option<&'static Library> {
    let named = ["FIRSTWORD_TEST_ORT", "ORT_DYLIB_PATH"]
        .into_iter()
        .find_map(set);
    let folder = store().and_then(|root| {
        let entries = root.join("lib").read_dir().ok()?;
        entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .max()
    });
    if named.is_none() && folder.is_none() {
        println!("skipped: no ONNX Runtime (run `firstword model pull`, or set FIRSTWORD_HOME)");
        return None;
    }
    let search = Search {
        environment: named,
        cache: folder,
        ..Search::default()
    };
    Some(search.load().unwrap())
}
