//! Folders as Optimum and the scripts of transformers.js write them: `config.json` as the model's
//! authors published it, graphs here or in `onnx/`, in up to eight variants of precision.

use std::path::{Path, PathBuf};

use super::{Description, FolderError, Origin, Wanted, json, listed};

pub(super) const FILE: &str = "config.json";

/// Suffixes of transformers.js, in the order in which they are chosen; see [`super::LanguageFolder::open`].
const SUFFIXES: [&str; 8] = [
    "q4",
    "",
    "fp16",
    "q4f16",
    "int8",
    "quantized",
    "uint8",
    "bnb4",
];
/// Both branches in one graph; one graph for both; a graph that always wants a past.
const MERGED: &str = "decoder_model_merged";
const WHOLE: &str = "model";
const WITH_PAST: &str = "decoder_with_past_model";
const FIRST: &str = "decoder_model";

/// A decoder that was found.
struct Found {
    graph: PathBuf,
    first: Option<PathBuf>,
    variant: &'static str,
}

pub(super) fn read(folder: &Path, variant: Option<&str>) -> Result<Description, FolderError> {
    let found = choose(folder, variant)?;
    let file = folder.join(FILE);
    if !file.is_file() {
        return Err(FolderError::Missing {
            folder: folder.to_owned(),
            file: FILE.to_owned(),
            why:
                "the window, the end tokens and the heads are in it; fetch it from the model's page"
                    .to_owned(),
        });
    }
    let root = json::read(&file)?;
    if root["is_encoder_decoder"].as_bool() == Some(true) {
        return Err(json::said(
            &file,
            "is_encoder_decoder: this is no decoder-only language model".to_owned(),
        ));
    }
    // Models that also see or hear keep the language part apart.
    let config = match root["num_hidden_layers"].is_null() && root["text_config"].is_object() {
        true => &root["text_config"],
        false => &root,
    };
    let size = |keys: &[&str]| json::size(&file, config, keys);
    let heads = size(&["num_attention_heads", "n_head", "num_heads"])?;
    let width = size(&["hidden_size", "n_embd", "d_model"])?;
    let kv_heads = match config["multi_query"].as_bool() {
        Some(true) => Some(1),
        _ => size(&["num_key_value_heads"])?.or(heads),
    };
    let head_dim = match size(&["head_dim"])? {
        None => width.zip(heads).map(|(width, heads)| width / heads),
        given => given,
    };

    // The end of a turn is often in the generation settings only.
    let generation = folder.join("generation_config.json");
    let mut eos = json::tokens(&file, config, "eos_token_id")?;
    eos.extend(json::tokens(&file, &root, "eos_token_id")?);
    if generation.is_file() {
        eos.extend(json::tokens(
            &generation,
            &json::read(&generation)?,
            "eos_token_id",
        )?);
    }
    eos.sort_unstable();
    eos.dedup();
    let bos = json::tokens(&file, config, "bos_token_id")?
        .first()
        .copied();

    Ok(Description {
        origin: Origin::Optimum,
        graph: found.graph,
        first: found.first,
        names: None,
        layout: Wanted::Shared(false),
        layers: size(&["num_hidden_layers", "n_layer", "num_layers"])?,
        kv_heads,
        head_dim,
        vocabulary: size(&["vocab_size"])?,
        window: size(&[
            "max_position_embeddings",
            "n_positions",
            "n_ctx",
            "max_seq_len",
        ])?,
        local_window: None,
        original_window: json::original_window(&file, config)?,
        architecture: json::text(config, "model_type")
            .unwrap_or("unknown")
            .to_owned(),
        remark: None,
        precision: match found.variant {
            "" => "f32".to_owned(),
            suffix => suffix.to_owned(),
        },
        eos,
        bos,
        said_by: file,
    })
}

/// The graph to run: by variant first, then merged before whole before apart.
fn choose(folder: &Path, variant: Option<&str>) -> Result<Found, FolderError> {
    let mut all = Vec::new();
    for place in [folder.to_owned(), folder.join("onnx")] {
        if !place.is_dir() {
            continue;
        }
        let names = listed(&place)?;
        for suffix in SUFFIXES {
            let file = |stem: &str| match suffix {
                "" => format!("{stem}.onnx"),
                suffix => format!("{stem}_{suffix}.onnx"),
            };
            let there = |stem: &str| {
                let name = file(stem);
                names.contains(&name).then(|| place.join(name))
            };
            let found = |graph, first| Found {
                graph,
                first,
                variant: suffix,
            };
            if let Some(graph) = there(MERGED).or_else(|| there(WHOLE)) {
                all.push(found(graph, None));
            } else if let Some(graph) = there(WITH_PAST) {
                let Some(first) = there(FIRST) else {
                    return Err(FolderError::Missing {
                        folder: folder.to_owned(),
                        file: place
                            .join(file(FIRST))
                            .strip_prefix(folder)
                            .unwrap_or(&place)
                            .display()
                            .to_string(),
                        why: format!("{} can't begin a prompt", file(WITH_PAST)),
                    });
                };
                all.push(found(graph, Some(first)));
            } else if let Some(graph) = there(FIRST) {
                // Without a past: what the signature says of it is the error.
                all.push(found(graph, None));
            }
        }
    }
    all.sort_by_key(|found| SUFFIXES.iter().position(|suffix| *suffix == found.variant));
    let name = |found: &Found| match found.variant {
        "" => "f32",
        suffix => suffix,
    };
    let have = all.iter().map(name).collect::<Vec<_>>().join(", ");
    let wanted = match variant {
        None => all.into_iter().next(),
        Some(asked) => {
            let asked = match asked {
                "fp32" | "default" => "f32",
                other => other,
            };
            let found = all.into_iter().find(|found| name(found) == asked);
            if found.is_none() && !have.is_empty() {
                return Err(FolderError::Variant {
                    folder: folder.to_owned(),
                    asked: asked.to_owned(),
                    have,
                });
            }
            found
        }
    };
    wanted.ok_or_else(|| FolderError::Missing {
        folder: folder.to_owned(),
        file: "onnx/decoder_model_merged.onnx".to_owned(),
        why: format!("there is no decoder: looked for {MERGED}, {WHOLE} and {WITH_PAST} (.onnx, _q4.onnx …) here and in onnx/"),
    })
}
