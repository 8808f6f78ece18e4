//! ONNX Runtime GenAI's folders: `genai_config.json` names the graph, its inputs and outputs.

use std::path::Path;

use super::signature::Names;
use super::{Description, FolderError, Origin, Wanted, json};

pub(super) const FILE: &str = "genai_config.json";
/// Beside it in most published folders; it alone has the LongRoPE lengths.
const CONFIG: &str = "config.json";

pub(super) fn read(folder: &Path) -> Result<Description, FolderError> {
    let file = folder.join(FILE);
    let root = json::read(&file)?;
    let (model, decoder) = (&root["model"], &root["model"]["decoder"]);
    let refused = |what: &str| Err(json::said(&file, what.to_owned()));
    if !decoder.is_object() {
        return refused("it has no model.decoder: this is no decoder-only language model");
    }
    if decoder["pipeline"].is_array() {
        return refused(
            "its decoder is a pipeline of several graphs, which is not supported; take the CPU or CUDA folder",
        );
    }
    if model["encoder"].is_object() {
        return refused("it has an encoder: this is no decoder-only language model");
    }
    let Some(graph) = json::text(decoder, "filename") else {
        return refused("model.decoder.filename is missing");
    };
    if super::name_of(Path::new(graph)) != graph {
        return refused("model.decoder.filename is not a plain file name");
    }

    let mut names = Names::default();
    let ([past_key, past_value], [present_key, present_value]) =
        (&mut names.past, &mut names.present);
    let (inputs, outputs) = (&decoder["inputs"], &decoder["outputs"]);
    for (name, place, key) in [
        (&mut names.input_ids, inputs, "input_ids"),
        (&mut names.attention_mask, inputs, "attention_mask"),
        (&mut names.position_ids, inputs, "position_ids"),
        (&mut names.logits, outputs, "logits"),
        (past_key, inputs, "past_key_names"),
        (past_value, inputs, "past_value_names"),
        (present_key, outputs, "present_key_names"),
        (present_value, outputs, "present_value_names"),
    ] {
        if let Some(given) = json::text(place, key) {
            given.clone_into(name);
        }
    }
    if let Some(pattern) = names
        .past
        .iter()
        .chain(&names.present)
        .find(|name| !name.contains("%d"))
    {
        return refused(&format!(
            "the cache's name '{pattern}' has no %d for the layer"
        ));
    }

    let architecture = json::text(model, "type").unwrap_or("unknown").to_owned();
    let window = json::size(&file, model, &["context_length"])?;
    let beside = folder.join(CONFIG);
    let original_window = match beside.is_file() {
        true => json::original_window(&beside, &json::read(&beside)?)?,
        // The same assumption as onnxruntime-genai's own: all Phi-3 with more than 4096 positions are LongRoPE.
        false if architecture.starts_with("phi3") && window.is_some_and(|n| n > 4096) => Some(4096),
        false => None,
    };
    let size = |key| json::size(&file, decoder, &[key]);
    let shared = root["search"]["past_present_share_buffer"]
        .as_bool()
        .unwrap_or(false);
    Ok(Description {
        origin: Origin::GenAi,
        graph: folder.join(graph),
        first: None,
        names: Some(names),
        layout: Wanted::Shared(shared),
        layers: size("num_hidden_layers")?,
        kv_heads: size("num_key_value_heads")?,
        head_dim: size("head_size")?,
        vocabulary: json::size(&file, model, &["vocab_size"])?,
        window,
        local_window: None,
        original_window,
        architecture,
        remark: None,
        precision: "as published".to_owned(),
        eos: json::tokens(&file, model, "eos_token_id")?,
        bos: json::tokens(&file, model, "bos_token_id")?.first().copied(),
        said_by: file,
    })
}
