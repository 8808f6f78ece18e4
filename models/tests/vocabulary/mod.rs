//! The vocabularies of the catalogue's language models, from the GGUF files in the store.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../place/mod.rs"]
mod place;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use firstword_models::gguf::Gguf;
use firstword_models::language::tokenizer::{GgufTokenizer, Rebuilt, Tokenizer};
use serde_json::Value;

/// One model's tokenizer, as it comes out of its GGUF file.
pub struct Vocabulary {
    pub parts: GgufTokenizer,
    pub rebuilt: Rebuilt,
    pub tokenizer: Arc<Tokenizer>,
}

/// SmolLM2's: byte-level, 49 152 tokens. `None` (and a line that says so): it is not on this machine.
pub fn smollm2() -> Option<&'static Vocabulary> {
    static ONCE: OnceLock<Option<Vocabulary>> = OnceLock::new();
    ONCE.get_or_init(|| open("smollm2-135m-instruct")).as_ref()
}

/// Gemma 3's: SentencePiece with scores, 262 144 tokens.
pub fn gemma3() -> Option<&'static Vocabulary> {
    static ONCE: OnceLock<Option<Vocabulary>> = OnceLock::new();
    ONCE.get_or_init(|| open("gemma-3-270m")).as_ref()
}

/// Those of the two that are here.
pub fn all() -> impl Iterator<Item = &'static Vocabulary> {
    [smollm2(), gemma3()].into_iter().flatten()
}

fn open(name: &str) -> Option<Vocabulary> {
    let Some(path) = place::gguf(name) else {
        println!(
            "skipped: no GGUF file of {name} in the store; run `firstword model pull {name}` or set FIRSTWORD_HOME"
        );
        return None;
    };
    let gguf = Gguf::open(&path).expect("a whole file");
    let parts = GgufTokenizer::from_metadata(gguf.metadata()).expect("a tokenizer");
    let rebuilt = parts.rebuild().expect("a tokenizer that we know");
    let tokenizer = Arc::new(rebuilt.tokenizer().expect("readable again"));
    Some(Vocabulary {
        parts,
        rebuilt,
        tokenizer,
    })
}

/// A golden of the shared folder; `None` (and a line) if it is not here.
pub fn golden(name: &str) -> Option<Value> {
    let shared = std::env::var_os("FIRSTWORD_SHARED").map(PathBuf::from);
    let shared =
        shared.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let path = shared.join("goldens").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no {}; set FIRSTWORD_SHARED", path.display());
        return None;
    };
    Some(serde_json::from_str(&text).expect("JSON"))
}
