//! Writes the tiny golden models as GGUF files, as llama.cpp's converter would: names, fused tensors, and Gemma's norms
//! with their 1 added.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use firstword_models::gguf::{Kind, Writer};
use zip::ZipArchive;

/// The arrays of an `.npz` file: shape and values, as floats.
pub struct Arrays(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Arrays {
    pub fn read(path: &Path) -> Self {
        let mut archive = ZipArchive::new(File::open(path).unwrap()).unwrap();
        let mut arrays = BTreeMap::new();
        for n in 0..archive.len() {
            let mut member = archive.by_index(n).unwrap();
            let name = member.name().unwrap().trim_end_matches(".npy").to_owned();
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes).unwrap();
            arrays.insert(name, array(&bytes));
        }
        Self(arrays)
    }

    pub fn get(&self, name: &str) -> &(Vec<usize>, Vec<f32>) {
        &self.0[name]
    }
}

/// The `.npy` format, version 1, of little-endian f4 and i8 in C order.
fn array(bytes: &[u8]) -> (Vec<usize>, Vec<f32>) {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\0");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (header, data) = bytes[10..].split_at(length);
    let header = str::from_utf8(header).unwrap();
    assert!(header.contains("'fortran_order': False"), "{header}");
    let shape = header.split(['(', ')']).nth(1).unwrap();
    let shape = shape
        .split(',')
        .filter_map(|n| n.trim().parse().ok())
        .collect();
    let values = if header.contains("'<f4'") {
        let four = data.as_chunks::<4>().0;
        four.iter().map(|v| f32::from_le_bytes(*v)).collect()
    } else {
        assert!(header.contains("'<i8'"), "{header}");
        let eight = data.as_chunks::<8>().0;
        eight
            .iter()
            .map(|v| i64::from_le_bytes(*v) as f32)
            .collect()
    };
    (shape, values)
}

/// What GGUF calls the tensors of Hugging Face's Phi-3 and Gemma 2.
fn names(gemma: bool) -> Vec<(String, String)> {
    let mut names = vec![
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
    ]
    .into_iter()
    .filter(|(_, name)| !(gemma && *name == "output"))
    .map(|(from, to)| (format!("{from}.weight"), format!("{to}.weight")))
    .collect::<Vec<_>>();
    let parts: &[(&str, &str)] = if gemma {
        &[
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "post_attention_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm"),
        ]
    } else {
        &[
            ("self_attn.qkv_proj", "attn_qkv"),
            ("self_attn.o_proj", "attn_output"),
            ("mlp.gate_up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "ffn_norm"),
        ]
    };
    for layer in 0..2 {
        for (from, to) in parts {
            names.push((
                format!("model.layers.{layer}.{from}.weight"),
                format!("blk.{layer}.{to}.weight"),
            ));
        }
    }
    names
}

/// The sizes of `tools/tiny_goldens.py`, which made the goldens.
pub fn metadata(writer: &mut Writer, architecture: &str, kv_heads: u32, context: u32) {
    let mut set = |key: &str, value: u32| {
        writer
            .metadata
            .insert(format!("{architecture}.{key}"), value);
    };
    set("block_count", 2);
    set("embedding_length", 64);
    set("feed_forward_length", 128);
    set("attention.head_count", 4);
    set("attention.head_count_kv", kv_heads);
    set("context_length", context);
    writer.metadata.insert("general.architecture", architecture);
    let gemma = architecture == "gemma2";
    writer.metadata.insert(
        format!("{architecture}.attention.layer_norm_rms_epsilon"),
        if gemma { 1e-6_f32 } else { 1e-5 },
    );
}

/// Writes the file; `more` are tensors that the arrays lack.
pub fn write(
    path: &Path,
    mut writer: Writer,
    arrays: &Arrays,
    gemma: bool,
    more: &[(&str, &[f32])],
) {
    let mut values: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    for (from, to) in names(gemma) {
        let (shape, numbers) = arrays.get(&from).clone();
        let shape: Vec<u64> = shape.iter().rev().map(|&n| n as u64).collect();
        writer.tensor(&to, Kind::F32, &shape).unwrap();
        let norm = gemma && shape.len() == 1;
        values.insert(
            to,
            numbers
                .iter()
                .map(|v| if norm { v + 1.0 } else { *v })
                .collect(),
        );
    }
    for (name, numbers) in more {
        writer
            .tensor(name, Kind::F32, &[numbers.len() as u64])
            .unwrap();
        values.insert((*name).to_owned(), numbers.to_vec());
    }
    let mut file = File::create(path).unwrap();
    writer
        .write(&mut file, &mut |tensor, out| {
            let bytes: Vec<u8> = values[&tensor.name]
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect();
            out.write_all(&bytes)
        })
        .unwrap();
}
