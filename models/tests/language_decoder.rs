//! Chunks, batches, rewinding and sharing give the logits that a fresh run gives, and that arithmetic
//! written out in f64 gives, for every kind of graph; and the cache is bound once and written in place.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod library;
mod tiny;

use firstword_models::language::decoder::{Capacity, Decoder, DecoderError, Logits, Slot, Wanted};
use firstword_models::language::folder::{LanguageFolder, Layout};
use firstword_targets::Cpu;
use library::library;
use tempfile::TempDir;
use tiny::{LAYERS, ORIGINAL, Parts, Tiny, VOCABULARY, WINDOW, folders};

/// f32 against f64 over two layers; logits are a few units. Measured: 2e-6.
const CLOSE: f64 = 1e-4;
/// f16 keys, values and logits: 11 bits. Measured: 0.005.
const CLOSE_HALF: f64 = 0.03;

const FUSED: Parts = Parts {
    logit_rows: true,
    position_ids: false,
    rope_total: false,
    long: false,
    half: false,
    branch: None,
    rows: false,
    one_token: false,
    no_past: false,
};

fn capacity(slots: usize) -> Capacity {
    Capacity { slots, window: 64 }
}

fn decoder(folder: &TempDir, slots: usize) -> Option<Decoder> {
    let library = library()?;
    let folder = LanguageFolder::open(folder.path()).unwrap();
    Some(Decoder::load(library, &Cpu::default(), &folder, capacity(slots)).unwrap())
}

/// Every layout that keeps sequences apart by itself, with the bound that its numbers allow.
fn all(slots: usize) -> Vec<(&'static str, Decoder, f64)> {
    let whole = Parts {
        logit_rows: false,
        ..FUSED
    };
    let kinds = [
        ("ours", folders::ours(FUSED), CLOSE),
        (
            "ours, plain",
            folders::ours(Parts {
                rows: true,
                ..FUSED
            }),
            CLOSE,
        ),
        ("genai, shared", folders::genai(whole, true), CLOSE),
        (
            "genai, shared, positions",
            folders::genai(
                Parts {
                    position_ids: true,
                    ..whole
                },
                true,
            ),
            CLOSE,
        ),
        (
            "genai, shared, f16",
            folders::genai(
                Parts {
                    half: true,
                    ..whole
                },
                true,
            ),
            CLOSE_HALF,
        ),
        ("genai, growing", folders::genai(whole, false), CLOSE),
        (
            "Optimum",
            folders::optimum(&[("onnx/model.onnx", whole)]),
            CLOSE,
        ),
        (
            "Optimum, merged",
            folders::optimum(&[(
                "onnx/decoder_model_merged.onnx",
                Parts {
                    branch: Some(false),
                    ..whole
                },
            )]),
            CLOSE,
        ),
        (
            "Optimum, merged, one token with a past",
            folders::optimum(&[(
                "decoder_model_merged.onnx",
                Parts {
                    branch: Some(true),
                    ..whole
                },
            )]),
            CLOSE,
        ),
        (
            "Optimum, apart",
            folders::optimum(&[
                (
                    "decoder_model.onnx",
                    Parts {
                        no_past: true,
                        ..whole
                    },
                ),
                (
                    "decoder_with_past_model.onnx",
                    Parts {
                        one_token: true,
                        ..whole
                    },
                ),
            ]),
            CLOSE,
        ),
        (
            "transformers.js, f16",
            folders::optimum(&[(
                "onnx/model_fp16.onnx",
                Parts {
                    half: true,
                    ..whole
                },
            )]),
            CLOSE_HALF,
        ),
    ];
    kinds
        .into_iter()
        .filter_map(|(name, folder, close)| Some((name, decoder(&folder, slots)?, close)))
        .collect()
}

/// Tokens with no pattern.
fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32)
        .map(|at| (at * 31 + seed * 17 + at * at * 7) % VOCABULARY as u32)
        .collect()
}

fn expect(what: &str, logits: Logits<'_>, row: usize, expected: &[f64], close: f64) {
    let row = logits.row(row);
    assert_eq!(row.len(), expected.len());
    let worst = row
        .iter()
        .zip(expected)
        .map(|(a, b)| (f64::from(*a) - b).abs())
        .fold(0.0, f64::max);
    assert!(worst <= close, "{what}: off by {worst}");
}

fn prefill(decoder: &mut Decoder, slot: Slot, tokens: &[u32], chunk: usize) {
    let end = decoder.length(slot) + tokens.len();
    for part in tokens.chunks(chunk) {
        decoder.prefill(slot, part, end, Wanted::None).unwrap();
    }
}

#[test]
fn a_prompt_in_chunks_of_any_size_gives_the_logits_of_the_paper() {
    let prompt = tokens(23, 1);
    let expected = Tiny::new().logits(&prompt, false);
    for (name, mut decoder, close) in all(2) {
        for chunk in [1, 4, 7, 23] {
            let slot = decoder.open().unwrap();
            for (n, part) in prompt.chunks(chunk).enumerate() {
                // From the last to the first: the order is the caller's.
                let rows: Vec<usize> = (0..part.len()).rev().collect();
                let logits = decoder
                    .prefill(slot, part, 23, Wanted::Rows(&rows))
                    .unwrap();
                assert_eq!(logits.rows(), part.len());
                for (at, row) in rows.into_iter().enumerate() {
                    let token = n * chunk + row;
                    expect(
                        &format!("{name}, chunk {chunk}, token {token}"),
                        logits,
                        at,
                        &expected[token],
                        close,
                    );
                }
            }
            assert_eq!(decoder.length(slot), 23);
            decoder.close(slot);
        }
    }
}

#[test]
fn only_the_logits_asked_for_are_given() {
    let prompt = tokens(9, 2);
    let expected = Tiny::new().logits(&prompt, false);
    for (name, mut decoder, close) in all(1) {
        let slot = decoder.open().unwrap();
        let logits = decoder
            .prefill(slot, &prompt[..5], 9, Wanted::None)
            .unwrap();
        assert_eq!(logits.rows(), 0, "{name}");
        let logits = decoder
            .prefill(slot, &prompt[5..], 9, Wanted::Last)
            .unwrap();
        assert_eq!(logits.rows(), 1, "{name}");
        expect(name, logits, 0, &expected[8], close);
    }
}

#[test]
fn eight_sequences_joining_and_leaving_a_batch_are_as_each_alone() {
    let tiny = Tiny::new();
    let texts: Vec<Vec<u32>> = (0..8).map(|n| tokens(30, n)).collect();
    let expected: Vec<_> = texts.iter().map(|text| tiny.logits(text, false)).collect();
    for (name, mut decoder, close) in all(8) {
        // Each sequence has its own prompt length, joins at its own step and leaves at another.
        let mut slots = [None; 8];
        for step in 0..22 {
            for n in 0..8 {
                if step == n * 2 {
                    let slot = decoder.open().unwrap();
                    prefill(&mut decoder, slot, &texts[n][..1 + (n * 5) % 11], 4);
                    slots[n] = Some(slot);
                }
                if step == 12 + n && n % 3 != 0 {
                    decoder.close(slots[n].take().unwrap());
                }
            }
            // Now and then only some of them, and in another order.
            let mut running: Vec<usize> = (0..8).filter(|&n| slots[n].is_some()).collect();
            if step % 4 == 3 {
                running.retain(|n| n % 2 == step / 4 % 2);
                running.reverse();
            }
            let steps: Vec<(Slot, u32)> = running
                .iter()
                .map(|&n| {
                    (
                        slots[n].unwrap(),
                        texts[n][decoder.length(slots[n].unwrap())],
                    )
                })
                .collect();
            if steps.is_empty() {
                continue;
            }
            let lengths: Vec<usize> = steps
                .iter()
                .map(|(slot, _)| decoder.length(*slot))
                .collect();
            let logits = decoder.decode(&steps).unwrap();
            assert_eq!(logits.rows(), steps.len());
            for (at, &n) in running.iter().enumerate() {
                let what = format!("{name}, step {step}, sequence {n}");
                expect(&what, logits, at, &expected[n][lengths[at]], close);
            }
        }
        let moves = decoder.counts().moves;
        println!("{name}: {moves} exchanges");
    }
}

#[test]
fn a_rewound_sequence_goes_on_as_if_what_was_beyond_had_never_been() {
    let (kept, other) = (tokens(10, 3), tokens(12, 4));
    let text: Vec<u32> = kept.iter().chain(&other[..4]).copied().collect();
    let expected = Tiny::new().logits(&text, false);
    for (name, mut decoder, close) in all(2) {
        let slot = decoder.open().unwrap();
        prefill(&mut decoder, slot, &kept, 8);
        prefill(&mut decoder, slot, &tokens(20, 9), 8);
        decoder.truncate(slot, 99);
        assert_eq!(decoder.length(slot), 30);
        decoder.truncate(slot, 10);
        let logits = decoder.decode(&[(slot, other[0])]).unwrap();
        expect(name, logits, 0, &expected[10], close);
        let logits = decoder
            .prefill(slot, &other[1..4], 14, Wanted::Last)
            .unwrap();
        expect(name, logits, 0, &expected[13], close);
    }
}

#[test]
fn a_shared_prefix_is_as_good_as_a_fresh_prompt() {
    let (system, a, b) = (tokens(14, 5), tokens(6, 6), tokens(6, 7));
    let tiny = Tiny::new();
    let text = |tail: &[u32]| system.iter().chain(tail).copied().collect::<Vec<_>>();
    let (of_a, of_b) = (tiny.logits(&text(&a), false), tiny.logits(&text(&b), false));
    for (name, mut decoder, close) in all(3) {
        let (first, second) = (decoder.open().unwrap(), decoder.open().unwrap());
        prefill(&mut decoder, first, &text(&a), 8);
        prefill(&mut decoder, second, &tokens(30, 8), 8);
        decoder.copy(first, second, 14).unwrap();
        assert_eq!(decoder.length(second), 14);
        let logits = decoder.prefill(second, &b, 20, Wanted::Last).unwrap();
        expect(name, logits, 0, &of_b[19], close);
        // The one it was copied from has lost nothing.
        decoder.truncate(first, 19);
        let logits = decoder.decode(&[(first, a[5])]).unwrap();
        expect(name, logits, 0, &of_a[19], close);
    }
}

#[test]
fn the_cache_is_bound_once_and_a_step_rebinds_its_mask_only() {
    let Some(mut decoder) = decoder(&folders::ours(FUSED), 4) else {
        return;
    };
    let slots: Vec<Slot> = (0..3).map(|_| decoder.open().unwrap()).collect();
    for (n, &slot) in slots.iter().enumerate() {
        prefill(&mut decoder, slot, &tokens(5 + n, n as u32), 4);
    }
    let step = |decoder: &mut Decoder| {
        let steps: Vec<_> = slots.iter().map(|&slot| (slot, 7)).collect();
        decoder.decode(&steps).unwrap();
    };
    step(&mut decoder);
    let before = decoder.counts();
    // Three single rows, and the three as one: 2 tensors a layer each.
    assert_eq!(before.cache_binds, 4 * 2 * LAYERS as u64);
    for _ in 0..20 {
        step(&mut decoder);
    }
    let after = decoder.counts();
    assert_eq!(after.cache_binds, before.cache_binds);
    assert_eq!(after.small_binds - before.small_binds, 20);
    assert_eq!(after.runs - before.runs, 20);
    assert_eq!(after.moves, 0);
}

#[test]
fn long_rope_turns_by_the_whole_prompt_and_says_when_to_begin_anew() {
    let folder = folders::ours(Parts {
        rope_total: true,
        ..FUSED
    });
    let Some(mut decoder) = decoder(&folder, 3) else {
        return;
    };
    let tiny = Tiny::new();
    let (long, short) = (tokens(20, 1), tokens(ORIGINAL, 2));
    let expected = tiny.logits(&long, true);
    let slot = decoder.open().unwrap();
    for (n, part) in long[..18].chunks(5).enumerate() {
        // The first chunks are shorter than the original window, the prompt is not.
        let logits = decoder.prefill(slot, part, 18, Wanted::Last).unwrap();
        expect("long", logits, 0, &expected[n * 5 + part.len() - 1], CLOSE);
    }
    // A short one beside it in one batch keeps its own factors.
    let other = decoder.open().unwrap();
    prefill(&mut decoder, other, &short[..ORIGINAL - 1], 4);
    let logits = decoder
        .decode(&[(slot, long[18]), (other, short[ORIGINAL - 1])])
        .unwrap();
    expect("long in a batch", logits, 0, &expected[18], CLOSE);
    expect(
        "short in a batch",
        logits,
        1,
        &tiny.logits(&short, false)[ORIGINAL - 1],
        CLOSE,
    );

    assert!(!decoder.must_refill(slot, 20));
    assert!(decoder.must_refill(other, ORIGINAL + 1));
    let refused = decoder.decode(&[(other, 3)]).unwrap_err();
    assert!(matches!(refused, DecoderError::Refill { length } if length == ORIGINAL + 1));
    assert_eq!(decoder.length(other), ORIGINAL);
    decoder.truncate(other, 0);
    let mut text = short;
    text.push(3);
    let end = text.len();
    let logits = decoder.prefill(other, &text, end, Wanted::Last).unwrap();
    expect(
        "refilled",
        logits,
        0,
        &tiny.logits(&text, true)[ORIGINAL],
        CLOSE,
    );
}

#[test]
fn a_long_rope_graph_that_can_not_be_told_the_length_wants_the_prompt_whole() {
    let folder = folders::ours(Parts {
        long: true,
        ..FUSED
    });
    let Some(mut decoder) = decoder(&folder, 1) else {
        return;
    };
    let prompt = tokens(18, 1);
    assert!(decoder.must_be_whole(18) && !decoder.must_be_whole(ORIGINAL));
    let slot = decoder.open().unwrap();
    let refused = decoder
        .prefill(slot, &prompt[..5], 18, Wanted::None)
        .unwrap_err();
    assert!(matches!(refused, DecoderError::WholePrompt { length: 18 }));
    let logits = decoder.prefill(slot, &prompt, 18, Wanted::Last).unwrap();
    expect(
        "whole",
        logits,
        0,
        &Tiny::new().logits(&prompt, true)[17],
        CLOSE,
    );
}

#[test]
fn what_can_not_be_is_refused_and_changes_nothing() {
    let prompt = tokens(10, 1);
    for (name, mut decoder, close) in all(2) {
        let slot = decoder.open().unwrap();
        prefill(&mut decoder, slot, &prompt[..9], 4);
        let too_long = vec![0; 56];
        let refusals = [
            decoder.prefill(slot, &[], 9, Wanted::None).map(drop),
            decoder.prefill(slot, &too_long, 0, Wanted::None).map(drop),
            decoder.prefill(slot, &[1], 65, Wanted::None).map(drop),
            decoder
                .prefill(slot, &[1, VOCABULARY as u32], 0, Wanted::None)
                .map(drop),
            decoder
                .prefill(slot, &[1, 2], 0, Wanted::Rows(&[2]))
                .map(drop),
            decoder.decode(&[]).map(drop),
            decoder.decode(&[(slot, 1), (slot, 2)]).map(drop),
            decoder.decode(&[(slot, u32::MAX)]).map(drop),
        ];
        for (n, refused) in refusals.into_iter().enumerate() {
            let said = refused
                .expect_err(&format!("{name}, refusal {n}"))
                .to_string();
            assert!(!said.contains('\n'), "{said}");
        }
        assert_eq!(decoder.length(slot), 9);
        let logits = decoder.decode(&[(slot, prompt[9])]).unwrap();
        expect(
            name,
            logits,
            0,
            &Tiny::new().logits(&prompt, false)[9],
            close,
        );
    }
}

#[test]
fn a_full_window_takes_its_last_token_and_no_more() {
    for (name, mut decoder, _) in all(1) {
        assert_eq!(decoder.capacity().window, 64, "{name}");
        let slot = decoder.open().unwrap();
        prefill(&mut decoder, slot, &tokens(63, 1), 16);
        decoder.decode(&[(slot, 1)]).unwrap();
        let refused = decoder.decode(&[(slot, 1)]).unwrap_err();
        let full = matches!(
            refused,
            DecoderError::Window {
                wanted: 65,
                window: 64
            }
        );
        assert!(full, "{name}: {refused}");
    }
}

#[test]
fn more_than_the_models_window_is_not_given() {
    let Some(library) = library() else { return };
    let folder = folders::ours(FUSED);
    let folder = LanguageFolder::open(folder.path()).unwrap();
    let capacity = Capacity {
        slots: 1,
        window: 100_000,
    };
    let decoder = Decoder::load(library, &Cpu::default(), &folder, capacity).unwrap();
    assert_eq!(decoder.capacity().window, WINDOW);
}

#[test]
fn a_closed_sequence_is_refused_even_when_its_slot_is_used_again() {
    let Some(mut decoder) = decoder(&folders::ours(FUSED), 1) else {
        return;
    };
    let old = decoder.open().unwrap();
    assert!(decoder.open().is_none());
    decoder.close(old);
    let new = decoder.open().unwrap();
    prefill(&mut decoder, new, &[1, 2, 3], 3);
    decoder.close(old);
    decoder.truncate(old, 0);
    assert_eq!((decoder.length(old), decoder.length(new)), (0, 3));
    assert!(matches!(
        decoder.decode(&[(old, 1)]),
        Err(DecoderError::Closed)
    ));
    assert!(matches!(
        decoder.copy(old, new, 1),
        Err(DecoderError::Closed)
    ));
}

#[test]
fn too_little_memory_is_refused_before_anything_is_loaded() {
    let Some(library) = library() else { return };
    let folder = folders::ours(FUSED);
    let folder = LanguageFolder::open(folder.path()).unwrap();
    let refused = Decoder::load_within(library, &Cpu::default(), &folder, capacity(8), Some(1000))
        .unwrap_err();
    assert!(
        matches!(
            refused,
            DecoderError::Memory {
                slots: 8,
                window: 64,
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn each_layout_is_driven_as_its_graph_wants() {
    let layout = |folder: TempDir| LanguageFolder::open(folder.path()).unwrap().layout;
    assert_eq!(layout(folders::ours(FUSED)), Layout::Fused);
    assert_eq!(
        layout(folders::ours(Parts {
            rows: true,
            ..FUSED
        })),
        Layout::Rows
    );
    assert_eq!(
        layout(folders::genai(Parts::default(), true)),
        Layout::Fused
    );
    assert_eq!(
        layout(folders::genai(Parts::default(), false)),
        Layout::Growing
    );
    let optimum = folders::optimum(&[("model.onnx", Parts::default())]);
    assert_eq!(layout(optimum), Layout::Growing);
}
