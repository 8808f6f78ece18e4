//! `genai_config.json`: what onnxruntime-genai wants to know, so that the folder runs there as it is.

use serde_json::json;

use super::{GRAPH, Manifest};
use crate::language::architecture::Description;

/// The longest sequence it allots memory for when nobody says how long, in tokens.
const LONGEST_UNASKED: usize = 4096;

/// The file's contents.
pub fn config(description: &Description, manifest: &Manifest) -> Vec<u8> {
    let kind = match description.architecture {
        "gemma3" => "gemma3_text",
        other => other,
    };
    let end = manifest.eos.first().copied().unwrap_or(0);
    let config = json!({
        "model": {
            "type": kind,
            "bos_token_id": manifest.bos.unwrap_or(end),
            "eos_token_id": manifest.eos,
            "pad_token_id": end,
            "vocab_size": description.vocabulary,
            "context_length": manifest.window,
            "decoder": {
                "session_options": { "log_id": "onnxruntime-genai", "provider_options": [] },
                "filename": GRAPH,
                "head_size": description.head_dim,
                "hidden_size": description.width,
                "num_attention_heads": description.heads,
                "num_key_value_heads": description.kv_heads,
                "num_hidden_layers": description.layers.len(),
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {
            "do_sample": false,
            "max_length": manifest.window.min(LONGEST_UNASKED),
            "min_length": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": true,
            "repetition_penalty": 1.0,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
        },
    });
    let mut bytes = serde_json::to_vec_pretty(&config).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
