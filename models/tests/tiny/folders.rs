//! Model folders of each layout around the tiny graph.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{HEAD, HEADS, KV_HEADS, LAYERS, ORIGINAL, Parts, Tiny, VOCABULARY, WIDTH, WINDOW};

pub fn write(folder: &Path, file: &str, contents: impl AsRef<[u8]>) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

/// A folder as `model import` writes it.
pub fn ours(parts: Parts) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "model.onnx", Tiny::new().graph(parts));
    write(folder.path(), "tokenizer.json", "{}");
    let flavour = if parts.rows { "plain" } else { "fused" };
    let rope = match parts.rope_total || parts.long {
        true => format!(r#"{{"original_window": {ORIGINAL}}}"#),
        false => "{}".to_owned(),
    };
    let manifest = format!(
        r#"{{"schema": 1, "name": "tiny", "architecture": "llama", "flavour": "{flavour}", "precision": "exact",
            "layers": {LAYERS}, "kv_heads": {KV_HEADS}, "head_dim": {HEAD}, "vocabulary": {VOCABULARY},
            "window": {WINDOW}, "bos": 1, "eos": [2, 7], "rope": {rope}}}"#
    );
    write(folder.path(), "firstword.json", manifest);
    folder
}

/// As ONNX Runtime GenAI's model builder writes it.
pub fn genai(parts: Parts, shared: bool) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "model.onnx", Tiny::new().graph(parts));
    write(folder.path(), "tokenizer.json", "{}");
    let config = format!(
        r#"{{"model": {{"bos_token_id": 1, "context_length": {WINDOW}, "eos_token_id": [2, 7], "type": "llama",
              "vocab_size": {VOCABULARY}, "decoder": {{"filename": "model.onnx", "head_size": {HEAD},
              "hidden_size": {WIDTH}, "num_attention_heads": {HEADS}, "num_hidden_layers": {LAYERS},
              "num_key_value_heads": {KV_HEADS},
              "inputs": {{"input_ids": "input_ids", "attention_mask": "attention_mask",
                "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}},
              "outputs": {{"logits": "logits", "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value"}}}}}},
            "search": {{"past_present_share_buffer": {shared}}}}}"#
    );
    write(folder.path(), "genai_config.json", config);
    folder
}

/// As Optimum or transformers.js write it, with these graphs.
pub fn optimum(graphs: &[(&str, Parts)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, parts) in graphs {
        write(folder.path(), name, Tiny::new().graph(*parts));
    }
    write(folder.path(), "tokenizer.json", "{}");
    let config = format!(
        r#"{{"model_type": "llama", "num_hidden_layers": {LAYERS}, "num_attention_heads": {HEADS},
            "num_key_value_heads": {KV_HEADS}, "hidden_size": {WIDTH}, "vocab_size": {VOCABULARY},
            "max_position_embeddings": {WINDOW}, "bos_token_id": 1, "eos_token_id": 2}}"#
    );
    write(folder.path(), "config.json", config);
    write(
        folder.path(),
        "generation_config.json",
        r#"{"eos_token_id": [2, 7]}"#,
    );
    folder
}
