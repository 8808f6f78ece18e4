//! Where the models are that tests read: the store, as the program finds it without a configuration.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;

/// The root of the store.
pub fn store() -> Option<PathBuf> {
    set("FIRSTWORD_HOME")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("firstword")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/firstword")))
}

/// The GGUF file of a catalogue entry, if it is here.
pub fn gguf(entry: &str) -> Option<PathBuf> {
    let files = store()?.join("models").join(entry).read_dir().ok()?;
    let mut paths = files.flatten().map(|file| file.path());
    paths.find(|path| path.extension().is_some_and(|end| end == "gguf"))
}

/// A path that a variable holds.
pub fn set(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}
