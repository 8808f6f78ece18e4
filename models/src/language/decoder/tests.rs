//! What only shows from inside: memory beyond a sequence's length is never read, the graph writes
//! where the cache lies, and bad numbers are an error.

#[path = "../../../tests/library/mod.rs"]
mod library;
#[path = "../../../tests/tiny/mod.rs"]
mod tiny;

use super::*;
use tiny::{Parts, Tiny, folders};

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

fn decoder(slots: usize) -> Option<Decoder> {
    let library = library::library()?;
    let folder = folders::ours(FUSED);
    let folder = LanguageFolder::open(folder.path()).unwrap();
    let capacity = Capacity { slots, window: 32 };
    Some(Decoder::load(library, &Cpu::default(), &folder, capacity).unwrap())
}

fn fused(decoder: &mut Decoder) -> &mut Fused<f32> {
    match &mut decoder.engine {
        Engine::Fused(engine) => engine,
        _ => panic!("the folder is of flavour fused"),
    }
}

#[test]
fn nothing_beyond_a_sequences_length_is_read() {
    let Some(mut decoder) = decoder(3) else {
        return;
    };
    let text: Vec<u32> = (0..12).map(|n| n * 5 % 50).collect();
    let expected = Tiny::new().logits(&text, false);
    let slots: Vec<Slot> = (0..3).map(|_| decoder.open().unwrap()).collect();
    for (slot, length) in slots.iter().zip([4, 7, 10]) {
        decoder
            .prefill(*slot, &text[..length], length, Wanted::None)
            .unwrap();
        fused(&mut decoder).spoil(slot.index, length, f32::NAN);
    }
    // The second chunk of a prompt, a ragged batch, and a part of the batch with a hole in it.
    decoder
        .prefill(slots[0], &text[4..8], 8, Wanted::Last)
        .unwrap();
    for members in [&slots[..], &[slots[2], slots[0]]] {
        let steps: Vec<_> = members
            .iter()
            .map(|&slot| (slot, text[decoder.length(slot)]))
            .collect();
        let lengths: Vec<_> = members.iter().map(|&slot| decoder.length(slot)).collect();
        let logits = decoder.decode(&steps).unwrap();
        for (at, length) in lengths.into_iter().enumerate() {
            for (a, b) in logits.row(at).iter().zip(&expected[length]) {
                assert!((f64::from(*a) - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }
}

#[test]
fn keys_and_values_are_written_in_place() {
    let Some(mut decoder) = decoder(2) else {
        return;
    };
    let slot = decoder.open().unwrap();
    let first = decoder.open().unwrap();
    decoder.prefill(first, &[1, 2, 3], 3, Wanted::None).unwrap();
    fused(&mut decoder).spoil(slot.index, 0, 9.5);
    decoder.prefill(slot, &[1, 2, 3], 3, Wanted::None).unwrap();
    // What the graph wrote stands in front of what was there: not a copy, not more than 3 tokens.
    let written = |decoder: &mut Decoder, index| {
        let row = fused(decoder).row_numbers(index);
        row.iter()
            .filter(|&&number| number != 9.5 && number != 0.0)
            .count()
    };
    let of_three = 3 * tiny::KV_HEADS * tiny::HEAD;
    assert_eq!(written(&mut decoder, first.index), of_three);
    assert_eq!(written(&mut decoder, slot.index), of_three);
}

#[test]
fn bad_numbers_are_an_error_and_the_sequence_is_as_before() {
    let Some(mut decoder) = decoder(1) else {
        return;
    };
    let slot = decoder.open().unwrap();
    decoder.prefill(slot, &[1, 2, 3], 3, Wanted::None).unwrap();
    fused(&mut decoder).spoil(slot.index, 2, f32::NAN);
    assert!(matches!(
        decoder.decode(&[(slot, 4)]),
        Err(DecoderError::NotNumbers)
    ));
    assert_eq!(decoder.length(slot), 3);
    decoder.truncate(slot, 2);
    decoder.decode(&[(slot, 3)]).unwrap();
}

#[test]
fn a_chunk_inside_a_prompt_is_one_run() {
    let Some(mut decoder) = decoder(1) else {
        return;
    };
    let slot = decoder.open().unwrap();
    decoder.prefill(slot, &[1, 2, 3], 6, Wanted::None).unwrap();
    // Which of both a library wants is found out while loading: never a run twice.
    assert_eq!(decoder.counts().runs, 1);
    decoder.prefill(slot, &[1, 2, 3], 6, Wanted::None).unwrap();
    assert_eq!(decoder.counts().runs, 2);
}
