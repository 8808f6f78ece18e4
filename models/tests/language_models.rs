//! Imported models: a prompt in chunks and sequences in a batch give what a whole prompt and a sequence
//! alone give, and the tokens are the same up to the first that was a close call.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod library;

use firstword_models::language::decoder::{Capacity, Decoder, Slot, Wanted};
use firstword_models::language::folder::{LanguageFolder, Layout};
use firstword_targets::Cpu;
use library::{imported_models, library};

/// Each row is quantised and multiplied by itself, so that its sums have the same order in any company:
/// measured 0 on AVX2 with ONNX Runtime 1.31.1. Other kernels may round otherwise.
const BOUND: f32 = 0.25;
const PROMPT: usize = 96;
const STEPS: usize = 6;

fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32)
        .map(|at| 300 + (at * 131 + seed * 977 + at * at * 17) % 9000)
        .collect()
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

/// The best token, and by how much.
fn best(row: &[f32]) -> (u32, f32) {
    let mut best = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (token, &logit) in row.iter().enumerate() {
        if logit > best.1 {
            best = (token as u32, logit, best.1);
        } else if logit > best.2 {
            best.2 = logit;
        }
    }
    (best.0, best.1 - best.2)
}

/// The last logits of a prompt, and those of some steps with tokens given beforehand.
fn alone(decoder: &mut Decoder, text: &[u32], prompt: usize, chunk: usize) -> Vec<Vec<f32>> {
    let slot = decoder.open().unwrap();
    let mut rows = Vec::new();
    for part in text[..prompt].chunks(chunk) {
        let logits = decoder.prefill(slot, part, prompt, Wanted::Last).unwrap();
        rows = vec![logits.row(0).to_vec()];
    }
    for &token in &text[prompt..] {
        rows.push(decoder.decode(&[(slot, token)]).unwrap().row(0).to_vec());
    }
    decoder.close(slot);
    rows
}

fn expect_close(what: &str, ours: &[f32], theirs: &[f32]) {
    let worst = worst(ours, theirs);
    println!("{what}: off by {worst}");
    assert!(worst <= BOUND, "{what}: off by {worst}");
    let ((token, margin), (other, _)) = (best(ours), best(theirs));
    assert!(
        token == other || margin <= 2.0 * worst,
        "{what}: {token} or {other}, margin {margin}"
    );
}

#[test]
fn chunks_and_batches_are_as_the_whole_prompt_alone() {
    let Some(library) = library() else { return };
    for path in imported_models() {
        let folder = LanguageFolder::open(&path).unwrap();
        if folder.layout != Layout::Fused {
            continue;
        }
        let name = path.file_name().unwrap().display().to_string();
        let capacity = Capacity {
            slots: 3,
            window: 128,
        };
        let mut decoder = Decoder::load(library, &Cpu::default(), &folder, capacity).unwrap();
        let texts: Vec<_> = (0..3)
            .map(|n| tokens(PROMPT - 20 * n + STEPS, n as u32))
            .collect();
        let whole: Vec<_> = texts
            .iter()
            .map(|text| alone(&mut decoder, text, text.len() - STEPS, PROMPT))
            .collect();
        // The texts are different enough for a mix-up to show.
        assert!(worst(&whole[0][0], &whole[1][0]) > 8.0 * BOUND, "{name}");
        let chunked = alone(&mut decoder, &texts[0], PROMPT, 32);
        for (step, (a, b)) in chunked.iter().zip(&whole[0]).enumerate() {
            expect_close(&format!("{name}, chunks of 32, step {step}"), a, b);
        }
        let slots: Vec<Slot> = texts
            .iter()
            .map(|text| {
                let slot = decoder.open().unwrap();
                let prompt = text.len() - STEPS;
                decoder
                    .prefill(slot, &text[..prompt], prompt, Wanted::None)
                    .unwrap();
                slot
            })
            .collect();
        for step in 0..STEPS {
            let steps: Vec<_> = slots
                .iter()
                .zip(&texts)
                .map(|(&slot, text)| (slot, text[decoder.length(slot)]))
                .collect();
            let logits = decoder.decode(&steps).unwrap();
            for (n, whole) in whole.iter().enumerate() {
                expect_close(
                    &format!("{name}, batch, step {step}, sequence {n}"),
                    logits.row(n),
                    &whole[step + 1],
                );
            }
        }
    }
}
