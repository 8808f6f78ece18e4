//! Imported models say what a float32 reference says of the same file.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use firstword_models::language::import::Precision;
use language::compare;

fn assert_exact([kl, top1, perplexity]: [f64; 3]) {
    assert!(kl <= 0.006, "KL {kl}");
    assert!(
        (perplexity - 1.0).abs() <= 0.01,
        "perplexity ratio {perplexity}"
    );
    assert!(top1 >= 0.95, "top-1 {top1}");
}

#[test]
fn smollm2_exact_is_the_reference_within_six_thousandths_of_kl() {
    let measured = compare(
        "smollm2-135m-instruct",
        "smollm2-135m-instruct.json",
        Precision::Exact,
        None,
    );
    if let Some(measured) = measured {
        assert_exact(measured);
    }
}

#[test]
fn gemma_3_exact_is_the_reference_within_six_thousandths_of_kl() {
    let measured = compare("gemma-3-270m", "gemma-3-270m.json", Precision::Exact, None);
    if let Some(measured) = measured {
        assert_exact(measured);
    }
}
