//! The choice of a token held against formulas and published random numbers; bad logits and parameters are errors, no panics.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// 40 logits for each of several sets of parameters, and what numpy makes of them (tests/sampling/reference.py).
const REFERENCE: &str = include_str!("../../../tests/sampling/reference.json");

struct Case {
    sampling: Sampling,
    prompt: Vec<u32>,
    answer: Vec<u32>,
    allowed: Option<TokenSet>,
    logits: Vec<f32>,
    left: Vec<(u32, f64)>,
    greedy: u32,
    log: Vec<f32>,
}

fn cases() -> Vec<Case> {
    let all: Vec<Value> = serde_json::from_str(REFERENCE).unwrap();
    let number = |v: &Value| v.as_f64().unwrap() as f32;
    let tokens = |v: &Value| -> Vec<u32> { serde_json::from_value(v.clone()).unwrap() };
    all.iter()
        .map(|case| Case {
            sampling: Sampling {
                temperature: number(&case["temperature"]),
                top_k: number(&case["top_k"]) as u32,
                top_p: number(&case["top_p"]),
                min_p: number(&case["min_p"]),
                repetition_penalty: number(&case["repetition"]),
                presence_penalty: number(&case["presence"]),
                frequency_penalty: number(&case["frequency"]),
                logit_bias: serde_json::from_value(case["bias"].clone()).unwrap(),
                seed: 7,
                log_probabilities: Some(5),
            },
            prompt: tokens(&case["prompt"]),
            answer: tokens(&case["answer"]),
            allowed: (!case["allowed"].is_null())
                .then(|| TokenSet::of(tokens(&case["allowed"]), 40)),
            logits: serde_json::from_value(case["logits"].clone()).unwrap(),
            left: serde_json::from_value(case["left"].clone()).unwrap(),
            greedy: number(&case["greedy"]) as u32,
            log: serde_json::from_value(case["log"].clone()).unwrap(),
        })
        .collect()
}

/// A sampler that has chosen `answer` already.
fn after(case: &Case) -> Sampler {
    let mut sampler = Sampler::new(case.sampling.clone(), 40, &case.prompt, 8).unwrap();
    for &token in &case.answer {
        sampler.remember(token);
    }
    sampler
}

#[test]
fn what_is_left_and_its_probabilities_are_those_of_the_reference() {
    let cases = cases();
    assert_eq!(cases.len(), 17);
    for (index, case) in cases.iter().enumerate() {
        let mut work = Workspace::default();
        let choice = after(case)
            .choose(&case.logits, case.allowed.as_ref(), &mut work)
            .unwrap();
        let left: Vec<(u32, f64)> = work.drawn_from().collect();
        let tokens = |list: &[(u32, f64)]| list.iter().map(|x| x.0).collect::<Vec<_>>();
        assert_eq!(tokens(&left), tokens(&case.left), "case {index}");
        for (found, expected) in left.iter().zip(&case.left) {
            assert!(
                (found.1 - expected.1).abs() < 1e-6,
                "case {index}: {found:?}, {expected:?}"
            );
        }
        assert!(tokens(&left).contains(&choice.token));
    }
}

#[test]
fn greedy_takes_the_reference_s_highest() {
    for case in cases() {
        let greedy = Case {
            sampling: Sampling {
                temperature: 0.0,
                ..case.sampling.clone()
            },
            ..case
        };
        let mut work = Workspace::default();
        let found = after(&greedy).choose(&greedy.logits, greedy.allowed.as_ref(), &mut work);
        assert_eq!(found.unwrap().token, greedy.greedy);
    }
}

#[test]
fn log_probabilities_are_the_models_own_whatever_the_sampling() {
    for case in cases() {
        let mut work = Workspace::default();
        let choice = after(&case)
            .choose(&case.logits, case.allowed.as_ref(), &mut work)
            .unwrap();
        let expected = case.log[choice.token as usize];
        assert!((choice.log_probability.unwrap() - expected).abs() < 1e-5);
        let mut order: Vec<u32> = (0..40).collect();
        order.sort_by(|&a, &b| case.log[b as usize].total_cmp(&case.log[a as usize]));
        assert_eq!(work.alternatives().len(), 5);
        for (&(token, log), &expected) in work.alternatives().iter().zip(&order) {
            assert_eq!(token, expected);
            assert!((log - case.log[expected as usize]).abs() < 1e-5);
        }
    }
}

// 20 000 draws from 0.5, 0.3, 0.2: the standard deviation of a share is below 0.0036.
#[test]
fn draws_follow_the_probabilities() {
    let logits = [0.5f32.ln(), 0.3f32.ln(), f32::NEG_INFINITY, 0.2f32.ln()];
    let mut sampler = Sampler::new(
        Sampling {
            temperature: 1.0,
            seed: 3,
            ..Sampling::default()
        },
        4,
        &[],
        0,
    )
    .unwrap();
    let mut counts = [0u32; 4];
    let mut work = Workspace::default();
    for _ in 0..20_000 {
        counts[sampler.choose(&logits, None, &mut work).unwrap().token as usize] += 1;
    }
    for (count, expected) in counts.iter().zip([0.5, 0.3, 0.0, 0.2]) {
        assert!(
            (f64::from(*count) / 20_000.0 - expected).abs() < 0.015,
            "{counts:?}"
        );
    }
    assert_eq!(counts[2], 0);
}

// 60 000 draws at temperature 0.7 of 20 tokens, spread over three blocks, held against exp(logit / 0.7) over its sum,
// in double precision. Pearson's chi-square with 19 degrees of freedom exceeds 43.8 once in 1000 times (tables of
// the distribution); the seeds are fixed.
#[test]
fn draws_of_the_whole_vocabulary_follow_the_exact_probabilities() {
    const DRAWS: u32 = 60_000;
    let mut logits = vec![f32::NEG_INFINITY; 600];
    let places: Vec<usize> = (0..20).map(|i| i * 31).collect();
    for (i, &at) in places.iter().enumerate() {
        logits[at] = (i * 7 % 20) as f32 / 8.0 - 5.0;
    }
    let exact: Vec<f64> = places
        .iter()
        .map(|&at| (f64::from(logits[at]) / 0.7).exp())
        .collect();
    let total: f64 = exact.iter().sum();
    for seed in [1, 2, 3] {
        let sampling = Sampling {
            temperature: 0.7,
            seed,
            ..Sampling::default()
        };
        let mut sampler = Sampler::new(sampling, 600, &[], 0).unwrap();
        let mut counts = vec![0_u32; 600];
        let mut work = Workspace::default();
        for _ in 0..DRAWS {
            counts[sampler.choose(&logits, None, &mut work).unwrap().token as usize] += 1;
        }
        let square: f64 = places
            .iter()
            .zip(&exact)
            .map(|(&at, &weight)| {
                let expected = f64::from(DRAWS) * weight / total;
                (f64::from(counts[at]) - expected).powi(2) / expected
            })
            .sum();
        assert!(square < 43.8, "seed {seed}: {square}");
        let inside: u32 = places.iter().map(|&at| counts[at]).sum();
        assert_eq!(inside, DRAWS);
    }
}

#[test]
fn the_same_seed_gives_the_same_tokens_whatever_another_sequence_draws() {
    let sampling = |seed| Sampling {
        temperature: 1.3,
        top_p: 0.95,
        seed,
        ..Sampling::default()
    };
    let logits: Vec<f32> = (0..500).map(|i| ((i * 37) % 101) as f32 / 25.0).collect();
    let run = |others: u32| {
        let mut work = Workspace::default();
        let mut mine = Sampler::new(sampling(42), 500, &[], 0).unwrap();
        let mut theirs = Sampler::new(sampling(43), 500, &[], 0).unwrap();
        (0..50)
            .map(|_| {
                for _ in 0..others {
                    theirs.choose(&logits, None, &mut work).unwrap();
                }
                mine.choose(&logits, None, &mut work).unwrap().token
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(0), run(3));
    let mut other = Sampler::new(sampling(41), 500, &[], 0).unwrap();
    let mut work = Workspace::default();
    let different: Vec<u32> = (0..50)
        .map(|_| other.choose(&logits, None, &mut work).unwrap().token)
        .collect();
    assert_ne!(run(0), different);
}

#[test]
fn logits_that_are_no_numbers_are_an_error_and_no_panic() {
    let sampling = Sampling {
        temperature: 1.0,
        top_k: 2,
        ..Sampling::default()
    };
    let mut work = Workspace::default();
    let mut choose = |logits: &[f32]| {
        let mut sampler = Sampler::new(sampling.clone(), 4, &[], 0).unwrap();
        sampler
            .choose(logits, None, &mut work)
            .map(|choice| choice.token)
    };
    let error = choose(&[0.0, 1.0, f32::NAN, 0.0]).unwrap_err();
    assert!(matches!(error, SamplingError::NotANumber { token: 2, .. }));
    assert!(
        error
            .to_string()
            .starts_with("the logit of token 2 is NaN, expected a number")
    );
    assert!(choose(&[0.0, f32::INFINITY, 0.0, 0.0]).is_err());
    assert_eq!(
        choose(&[f32::NEG_INFINITY; 4]),
        Err(SamplingError::NothingAllowed)
    );
    assert_eq!(
        choose(&[0.0; 3]),
        Err(SamplingError::Vocabulary {
            expected: 4,
            found: 3
        })
    );
}

#[test]
fn ruling_everything_out_is_an_error() {
    let sampling = Sampling {
        logit_bias: vec![(1, f32::NEG_INFINITY)],
        ..Sampling::default()
    };
    let mut sampler = Sampler::new(sampling, 3, &[], 0).unwrap();
    let only = TokenSet::of([1], 3);
    let found = sampler.choose(&[0.0; 3], Some(&only), &mut Workspace::default());
    assert_eq!(found, Err(SamplingError::NothingAllowed));
}

#[test]
fn a_temperature_close_to_zero_is_greedy_and_no_nan() {
    let sampling = Sampling {
        temperature: f32::MIN_POSITIVE,
        ..Sampling::default()
    };
    let mut sampler = Sampler::new(sampling, 3, &[], 0).unwrap();
    for _ in 0..20 {
        let found = sampler.choose(&[-1.0, 2.0, 1.999], None, &mut Workspace::default());
        assert_eq!(found.unwrap().token, 1);
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused_with_what_they_may_be() {
    type Change = fn(&mut Sampling);
    let wrong: [(&str, Change); 12] = [
        ("temperature is -0.5: expected 0 ", |s| s.temperature = -0.5),
        ("temperature is NaN: ", |s| s.temperature = f32::NAN),
        ("temperature is inf: ", |s| s.temperature = f32::INFINITY),
        ("top_p is 0: expected a number above 0, up to 1", |s| {
            s.top_p = 0.0
        }),
        ("top_p is 1.1: ", |s| s.top_p = 1.1),
        ("top_p is NaN: ", |s| s.top_p = f32::NAN),
        ("min_p is -0.1: ", |s| s.min_p = -0.1),
        ("repetition_penalty is 0: ", |s| s.repetition_penalty = 0.0),
        ("presence_penalty is NaN: ", |s| {
            s.presence_penalty = f32::NAN
        }),
        ("frequency_penalty is inf: ", |s| {
            s.frequency_penalty = f32::INFINITY
        }),
        ("logit_bias is NaN: ", |s| {
            s.logit_bias = vec![(0, f32::NAN)]
        }),
        (
            "logit_bias names token 9: the model has tokens 0 to 8",
            |s| s.logit_bias = vec![(9, 1.0)],
        ),
    ];
    for (expected, change) in wrong {
        let mut sampling = Sampling::default();
        change(&mut sampling);
        let found = sampling.check(9).unwrap_err().to_string();
        assert!(found.starts_with(expected), "{found}");
        assert!(!found.contains('\n'));
    }
    assert_eq!(Sampling::default().check(9), Ok(()));
    let prompt = Sampler::new(Sampling::default(), 9, &[3, 12], 0)
        .unwrap_err()
        .to_string();
    assert!(
        prompt.starts_with("the prompt names token 12: "),
        "{prompt}"
    );
}

proptest! {
    #[test]
    fn no_logits_and_parameters_panic(
        logits in proptest::collection::vec(proptest::num::f32::ANY, 1..300),
        temperature in 0.0f32..3.0, top_k in 0u32..400, top_p in 0.001f32..=1.0, min_p in 0.0f32..=1.0,
        repetition in 0.1f32..5.0, log in proptest::option::of(0u32..400),
        history in proptest::collection::vec(0u32..300, 0..20),
    ) {
        let vocabulary = logits.len();
        let sampling = Sampling {
            temperature, top_k, top_p, min_p, repetition_penalty: repetition, log_probabilities: log,
            ..Sampling::default()
        };
        let prompt: Vec<u32> = history.into_iter().filter(|&t| (t as usize) < vocabulary).collect();
        let mut sampler = Sampler::new(sampling, vocabulary, &prompt, 4).unwrap();
        let mut work = Workspace::default();
        for _ in 0..3 {
            if let Ok(choice) = sampler.choose(&logits, None, &mut work) {
                prop_assert!((choice.token as usize) < vocabulary);
                prop_assert!(logits[choice.token as usize] > f32::NEG_INFINITY);
            }
        }
    }
}
