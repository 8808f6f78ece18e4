//! The promise of a decode loop: after the first few tokens, choosing one allocates nothing.
#![allow(clippy::unwrap_used)] // A test, helpers included.

#[path = "../../audio/tests/counting/mod.rs"]
mod counting;

use firstword_models::language::constraint::TokenSet;
use firstword_models::language::sampling::{Sampler, Sampling, Workspace};

const VOCABULARY: usize = 5000;

/// Logits that are others for each token.
fn logits(step: u32, out: &mut [f32]) {
    for (i, logit) in (0u32..).zip(out) {
        let hash = (i ^ step.wrapping_mul(0x9e37_79b9))
            .wrapping_mul(0x85eb_ca6b)
            .rotate_left(13)
            .wrapping_mul(0xc2b2_ae35);
        *logit = (hash >> 8) as f32 / (1 << 20) as f32;
    }
}

#[test]
fn choosing_a_token_allocates_nothing_after_the_first_ones() {
    let drawn = Sampling {
        temperature: 0.9,
        seed: 4,
        ..Sampling::default()
    };
    let every = Sampling {
        top_k: 50,
        top_p: 0.9,
        min_p: 0.02,
        repetition_penalty: 1.1,
        frequency_penalty: 0.1,
        logit_bias: vec![(3, 1.0)],
        log_probabilities: Some(20),
        ..drawn.clone()
    };
    let top_p = Sampling {
        top_p: 0.95,
        ..drawn.clone()
    };
    let allowed = TokenSet::of((0..VOCABULARY as u32).filter(|t| t % 3 != 0), VOCABULARY);
    let mut values = vec![0.0; VOCABULARY];
    for sampling in [Sampling::default(), drawn, top_p, every] {
        let mut sampler = Sampler::new(sampling, VOCABULARY, &[1, 2, 3], 200).unwrap();
        let mut work = Workspace::default();
        let mut before = 0;
        for step in 0..200 {
            // The first ones make room; nothing is given back before the last.
            if step == 20 {
                before = counting::calls();
            }
            logits(step, &mut values);
            let set = (step % 2 == 0).then_some(&allowed);
            sampler.choose(&values, set, &mut work).unwrap();
        }
        assert_eq!(counting::calls(), before);
    }
    // That the counter counts.
    let before = counting::calls();
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(counting::calls(), before + 2);
}
