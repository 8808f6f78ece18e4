//! A language model that the real program imported, once for each test binary.

// Each test binary that includes this module uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::heard;

/// Catalogue entry of the model.
pub const ENTRY: &str = "smollm2-135m-instruct";

/// Its weights as they came, or `None` with a line `skipped: …`.
pub fn weights() -> Option<PathBuf> {
    let folder = match heard::store().resolve(ENTRY) {
        Ok(folder) => folder.path,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let mut files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    files.find(|path| path.extension().is_some_and(|end| end == "gguf"))
}

/// The folder of the model with exact weights, or `None` with a line `skipped: …`.
pub fn smollm() -> Option<PathBuf> {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let weights = weights()?;
    let folder = MADE.get_or_init(|| {
        // Cargo's folder for tests: the next run replaces what this one leaves.
        let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("language");
        let output = Command::new(env!("CARGO_BIN_EXE_firstword"))
            .env_clear()
            .env("FIRSTWORD_HOME", &home)
            .args(["model", "import", "--quant", "exact", "--as", "smollm2"])
            .arg(weights)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        home.join("imported/smollm2")
    });
    Some(folder.clone())
}
