//! What choosing a token costs beside computing it, in processor time: sampling on vocabularies of two sizes, and
//! following a JSON schema.
//!
//! `cargo run --release -p firstword-benches --bin token_choice [TOKENIZER.json]`, pinned to one core (`taskset -c 1`)
//! where others work too. The file is that of a model whose tokens are bytes in GPT-2's alphabet, such as SmolLM2;
//! without it, only sampling is measured.
#![allow(clippy::unwrap_used)] // A measurement: what fails ends it.

use std::collections::HashMap;
use std::time::Duration;

use firstword_models::language::constraint::{Constraint, Vocabulary};
use firstword_models::language::sampling::random::Random;
use firstword_models::language::sampling::{Sampler, Sampling, Workspace};
use rustix::time::{ClockId, clock_gettime};

const SCHEMAS: [(&str, &str); 3] = [
    (
        "flat object",
        r#"{"type": "object", "additionalProperties": false, "required": ["name", "age", "city"], "properties": {
            "name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}}}"#,
    ),
    (
        "nested, with enum, pattern and number",
        r#"{"type": "object", "additionalProperties": false, "required": ["action", "when", "items"], "properties": {
            "action": {"enum": ["switch_on", "switch_off", "dim", "report"]},
            "when": {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"},
            "items": {"type": "array", "maxItems": 8, "items": {"type": "object", "required": ["room", "level"],
                "properties": {"room": {"type": "string", "maxLength": 30}, "level": {"type": "number"}}}}}}"#,
    ),
    ("any object", r#"{"type": "object"}"#),
];

fn main() {
    println!("sampling, µs per token");
    println!("{:<34} {:>9} {:>9} {:>9}", "", "p50", "p99", "max");
    for vocabulary in [49_152, 262_144] {
        sampling(vocabulary);
    }
    if let Some(path) = std::env::args().nth(1) {
        constraints(&tokens(&std::fs::read_to_string(path).unwrap()));
    }
}

/// This thread's processor time: other work on the machine disturbs it less than the clock on the wall.
fn now() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn row(name: &str, mut micros: Vec<f64>) {
    micros.sort_by(f64::total_cmp);
    let at = |share: f64| micros[((micros.len() - 1) as f64 * share).round() as usize];
    println!(
        "{name:<34} {:>9.1} {:>9.1} {:>9.1}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn sampling(vocabulary: usize) {
    let mut random = Random::new(5);
    // Sums of four numbers: a few high ones, most in the middle, as logits have it.
    let mut value = || (0..4).map(|_| random.unit()).sum::<f64>() as f32 * 9.0;
    let logits: Vec<f32> = (0..vocabulary).map(|_| value()).collect();
    let drawn = Sampling {
        temperature: 0.8,
        ..Sampling::default()
    };
    let cases = [
        ("greedy", Sampling::default()),
        ("temperature", drawn.clone()),
        (
            "top-k 40",
            Sampling {
                top_k: 40,
                ..drawn.clone()
            },
        ),
        (
            "top-p 0.95",
            Sampling {
                top_p: 0.95,
                ..drawn.clone()
            },
        ),
        (
            "top-k 40, top-p 0.95, penalties",
            Sampling {
                top_k: 40,
                top_p: 0.95,
                repetition_penalty: 1.1,
                ..drawn.clone()
            },
        ),
        (
            "greedy, 5 log-probabilities",
            Sampling {
                log_probabilities: Some(5),
                ..Sampling::default()
            },
        ),
    ];
    for (name, sampling) in cases {
        let mut sampler = Sampler::new(sampling, vocabulary, &[1, 2, 3], 500).unwrap();
        let mut work = Workspace::default();
        let micros = (0..300).map(|_| {
            let start = now();
            std::hint::black_box(sampler.choose(&logits, None, &mut work).unwrap());
            (now() - start).as_secs_f64() * 1e6
        });
        row(&format!("{vocabulary} {name}"), micros.skip(20).collect());
    }
}

/// The bytes of every token, from a `tokenizer.json` of the GPT-2 family.
fn tokens(json: &str) -> Vec<Vec<u8>> {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    // GPT-2's alphabet: printable bytes stand for themselves, the others are moved to U+0100 and up, in order.
    let plain = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let moved = (0..=255u8).filter(|byte| !plain(byte)).zip(0x100u32..);
    let alphabet: HashMap<char, u8> = (0..=255u8)
        .filter(plain)
        .map(|byte| (char::from(byte), byte))
        .chain(moved.map(|(byte, code)| (char::from_u32(code).unwrap(), byte)))
        .collect();
    let mut tokens = Vec::new();
    for (text, id) in json["model"]["vocab"].as_object().unwrap() {
        let id = id.as_u64().unwrap() as usize;
        tokens.resize(tokens.len().max(id + 1), Vec::new());
        tokens[id] = text
            .chars()
            .filter_map(|c| alphabet.get(&c).copied())
            .collect();
    }
    for added in json["added_tokens"].as_array().unwrap() {
        let id = added["id"].as_u64().unwrap() as usize;
        tokens.resize(tokens.len().max(id + 1), Vec::new());
        tokens[id].clear();
    }
    tokens
}

fn constraints(tokens: &[Vec<u8>]) {
    // <|im_end|> of SmolLM2; which token ends an answer costs the same.
    let eos = 2;
    let start = now();
    let vocabulary = Vocabulary::new(tokens, tokens.len(), &[eos]).unwrap();
    let built = (now() - start).as_secs_f64() * 1e3;
    println!(
        "\nJSON schemas, {} tokens: prepared in {built:.0} ms; µs per token",
        tokens.len()
    );
    println!("{:<34} {:>9} {:>9} {:>9}", "", "p50", "p99", "max");
    for (name, schema) in SCHEMAS {
        let mut compile = Vec::new();
        let mut micros = Vec::new();
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let start = now();
            let mut constraint = Constraint::from_json_schema(&vocabulary, schema).unwrap();
            compile.push((now() - start).as_secs_f64() * 1e6);
            for _ in 0..60 {
                // A model prefers words to odd bytes: the longest of a few that may come.
                let allowed: Vec<u32> = constraint.allowed().iter().collect();
                let draw = |_| allowed[(random.unit() * allowed.len() as f64) as usize];
                let token = (0..4)
                    .map(draw)
                    .max_by_key(|&t: &u32| tokens[t as usize].len())
                    .unwrap();
                let start = now();
                constraint.accept(token).unwrap();
                micros.push((now() - start).as_secs_f64() * 1e6);
                if constraint.finished() {
                    break;
                }
            }
        }
        row(&format!("{name} ({} tokens)", micros.len()), micros);
        row("  first mask, schema compiled", compile);
    }
}
