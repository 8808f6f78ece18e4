//! Tiny models of random weights, imported with float weights, give the logits that Hugging Face transformers gave
//! (goldens; `tools/tiny_goldens.py` beside them made them) in both flavours: windows, caps, both lists of a LongRoPE.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use firstword_models::gguf::Writer;
use firstword_models::language::decoder::{Decoder, Wanted};
use firstword_models::language::import::Precision;
use language::{Fused, tiny};

/// The same arithmetic in another order; a window off by one differs by about 1.
const LARGEST: f32 = 1e-4;

struct Tiny {
    arrays: tiny::Arrays,
    model: Fused,
    plain: Decoder,
    _folder: tempfile::TempDir,
}

fn import(
    golden: &str,
    architecture: &str,
    kv_heads: u32,
    context: u32,
    more: &[(&str, &[f32])],
    set: impl FnOnce(&mut Writer),
) -> Option<Tiny> {
    let arrays = tiny::Arrays::read(&language::golden(golden)?);
    let library = language::library()?;
    let folder = tempfile::tempdir().unwrap();
    let (source, goal) = (folder.path().join("tiny.gguf"), folder.path().join("model"));
    let mut writer = Writer::default();
    tiny::metadata(&mut writer, architecture, kv_heads, context);
    set(&mut writer);
    tiny::write(&source, writer, &arrays, architecture == "gemma2", more);
    let manifest = language::import(&language::request(&source, &goal, Precision::Float));
    let shape = [manifest.layers, manifest.kv_heads, manifest.head_dim];
    let plain = folder.path().join("plain");
    let window = context as usize;
    Some(Tiny {
        arrays,
        plain: language::plain(library, &source, &plain, Precision::Float, window),
        model: Fused::new(library, &goal, shape, window),
        _folder: folder,
    })
}

impl Tiny {
    /// Runs the golden's tokens in pieces of these lengths (the last piece is what is left) and compares all logits.
    fn check(&mut self, pieces: &[usize]) {
        let ids: Vec<i64> = self.arrays.get("ids").1.iter().map(|&v| v as i64).collect();
        let expected = &self.arrays.get("logits").1;
        let whole = ids.len();
        let (mut at, mut found, mut plain) = (0, Vec::new(), Vec::new());
        let slot = self.plain.open().unwrap();
        self.model.length = 0;
        for &piece in pieces.iter().chain([&whole]) {
            let piece = &ids[at..(at + piece).min(whole)];
            if piece.is_empty() {
                break;
            }
            let rows: Vec<i64> = (0..piece.len() as i64).collect();
            found.extend(self.model.run(piece, Some(&rows)));
            let tokens: Vec<u32> = piece.iter().map(|&id| id as u32).collect();
            let rows: Vec<usize> = (0..piece.len()).collect();
            let wanted = Wanted::Rows(&rows);
            let logits = self.plain.prefill(slot, &tokens, whole, wanted).unwrap();
            (0..logits.rows()).for_each(|row| plain.extend_from_slice(logits.row(row)));
            at += piece.len();
        }
        self.plain.close(slot);
        for (flavour, found) in [("fused", found), ("plain", plain)] {
            assert_eq!(found.len(), expected.len(), "{flavour}");
            let pairs = found.iter().zip(expected);
            let largest = pairs.fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
            println!("{flavour}: largest difference {largest}");
            assert!(largest <= LARGEST, "{flavour}: {largest}");
        }
    }
}

#[test]
fn phi_3_sees_exactly_its_window() {
    let tiny = import("tiny_phi3.npz", "phi3", 4, 256, &[], |writer| {
        writer
            .metadata
            .insert("phi3.attention.sliding_window", 16_u32);
    });
    let Some(mut tiny) = tiny else { return };
    tiny.check(&[]);
    tiny.check(&[20, 1, 1, 7]);
}

fn longrope(golden: &str) -> Option<Tiny> {
    let short: Vec<f32> = (0..8).map(|i| 1.0 + 0.05 * i as f32).collect();
    let long: Vec<f32> = (0..8).map(|i| 1.5 + 0.2 * i as f32).collect();
    let more: [(&str, &[f32]); 2] = [
        ("rope_factors_short.weight", &short),
        ("rope_factors_long.weight", &long),
    ];
    import(golden, "phi3", 2, 512, &more, |writer| {
        let key = "phi3.rope.scaling.original_context_length";
        writer.metadata.insert(key, 32_u32);
    })
}

#[test]
fn longrope_uses_the_short_factors_up_to_the_original_window() {
    let Some(mut tiny) = longrope("tiny_phi3_longrope_short24.npz") else {
        return;
    };
    tiny.check(&[]);
    tiny.check(&[10, 1]);
}

#[test]
fn longrope_uses_the_long_factors_beyond_and_can_be_told_beforehand() {
    let Some(mut tiny) = longrope("tiny_phi3_longrope_long48.npz") else {
        return;
    };
    tiny.check(&[]);
    // In pieces the first ones are short: the whole length has to be said.
    tiny.model.more = vec![("rope_total", 48)];
    tiny.check(&[10, 1, 20]);
}

#[test]
fn gemma_2_caps_scores_and_logits_and_sees_a_window_in_every_second_layer() {
    let tiny = import("tiny_gemma2.npz", "gemma2", 2, 256, &[], |writer| {
        let metadata = &mut writer.metadata;
        metadata.insert("gemma2.attention.key_length", 16_u32);
        metadata.insert("gemma2.attention.value_length", 16_u32);
        metadata.insert("gemma2.attention.sliding_window", 16_u32);
        metadata.insert("gemma2.attn_logit_softcapping", 5.0_f32);
        metadata.insert("gemma2.final_logit_softcapping", 3.0_f32);
        // query_pre_attn_scalar 24: the file format has the factor itself.
        metadata.insert("gemma2.attention.scale", 24_f32.sqrt().recip());
    });
    let Some(mut tiny) = tiny else { return };
    tiny.check(&[]);
    tiny.check(&[20, 1, 1, 7]);
}

#[test]
fn only_the_rows_asked_for_come_out_and_none_if_none_is() {
    let Some(mut tiny) = import("tiny_phi3.npz", "phi3", 4, 256, &[], |_| ()) else {
        return;
    };
    let all = tiny.model.run(&[5, 6, 7], Some(&[0, 1, 2]));
    tiny.model.length = 0;
    assert_eq!(tiny.model.run(&[5, 6, 7], None), all[2 * 512..]);
    tiny.model.length = 0;
    assert_eq!(tiny.model.run(&[5, 6, 7], Some(&[1])), all[512..2 * 512]);
    tiny.model.length = 0;
    assert_eq!(tiny.model.run(&[5, 6, 7], Some(&[])), [0.0; 0]);
}
