//! A small tokenizer for tests of templates.

use firstword_models::language::tokenizer::{GgufTokenizer, Tokenizer};

/// Bytes, BOS and EOS, and control tokens of several models.
pub fn tokenizer() -> Tokenizer {
    let mut tokens: Vec<String> = [
        "<unk>", "<s>", "</s>", "<|end|>", "<|user|>", "<start>", "<end>",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut types = vec![2, 3, 3, 3, 3, 3, 3];
    for byte in 0..256 {
        tokens.push(format!("<0x{byte:02X}>"));
        types.push(6);
    }
    tokens.push("▁".to_owned());
    types.push(1);
    let parts = GgufTokenizer {
        architecture: "llama".to_owned(),
        model: "llama".to_owned(),
        scores: vec![0.0; tokens.len()],
        types,
        tokens,
        bos: Some(1),
        eos: Some(2),
        unknown: Some(0),
        add_space_prefix: Some(false),
        ..GgufTokenizer::default()
    };
    parts
        .rebuild()
        .expect("consistent")
        .tokenizer()
        .expect("readable")
}
