//! Our contestant in `benches/peers/language.py`: one prompt in a process of its own, greedy, the end of text ignored.
//!
//! `language_cost FOLDER tokens N` prints a prompt of N tokens for it, as JSON: the importer's calibration text, over and
//! over. `language_cost FOLDER PROMPT.json NEW THREADS` prints one JSON object: seconds of loading, of the first token
//! (TTFT) and of each after it (TPOT), the tokens, and the bytes of weights in the folder. ONNX Runtime is looked for as
//! `firstword` does (ORT_DYLIB_PATH, then the store under FIRSTWORD_HOME or the cache folder).
#![allow(clippy::unwrap_used)] // A measurement: what fails ends it.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use firstword::place::{Environment, Place};
use firstword_models::Store;
use firstword_models::language::decoder::{Capacity, Decoder, Logits, Wanted};
use firstword_models::language::folder::LanguageFolder;
use firstword_models::language::import::calibrate::TEXT;
use firstword_models::language::tokenizer::{Special, Tokenizer};
use firstword_targets::{Cpu, Search};

/// Tokens of a prompt that go through the graph at once.
const CHUNK: usize = 128;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [folder, what, count] = arguments.as_slice()
        && what == "tokens"
    {
        let tokenizer = Tokenizer::open(Path::new(folder)).unwrap();
        let text = tokenizer.encode(TEXT, Special::Plain).unwrap();
        let begin = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        let tokens = begin.into_iter().chain(text.into_iter().cycle());
        let tokens: Vec<u32> = tokens.take(count.parse().unwrap()).collect();
        println!("{}", serde_json::json!(tokens));
        return;
    }
    let [folder, prompt, new, threads] = arguments.as_slice() else {
        eprintln!("usage: language_cost FOLDER PROMPT.json NEW THREADS | FOLDER tokens N");
        std::process::exit(2);
    };
    let prompt: Vec<u32> = serde_json::from_slice(&std::fs::read(prompt).unwrap()).unwrap();
    let new: usize = new.parse().unwrap();
    let threads: NonZeroUsize = threads.parse().unwrap();

    let store = Store::new(Place::new(&Environment::of_process()).store().unwrap());
    let library = Search {
        environment: std::env::var_os("ORT_DYLIB_PATH").map(Into::into),
        cache: store.library_folder(),
        ..Search::default()
    }
    .load()
    .unwrap();
    let begin = Instant::now();
    let folder = LanguageFolder::open(Path::new(folder)).unwrap();
    let capacity = Capacity {
        slots: 1,
        window: prompt.len() + new,
    };
    // The peers' threads spin, and here nobody else needs the cores: `onnxruntime.spinning` is for that.
    let cpu = Cpu {
        spinning: threads.get() > 1,
        ..Cpu::with_threads(threads)
    };
    let mut decoder = Decoder::load(library, &cpu, &folder, capacity).unwrap();
    let load = begin.elapsed().as_secs_f64();

    // Warm, with a prompt that shares nothing with the measured one.
    let warm: Vec<u32> = prompt.iter().rev().take(64).copied().collect();
    run(&mut decoder, &warm, 4);
    let (stamps, tokens) = run(&mut decoder, &prompt, new);
    let each = (stamps[new - 1] - stamps[0]) / (new - 1) as f64;
    println!(
        "{}",
        serde_json::json!({
            "load": load, "ttft": stamps[0], "tpot": each, "tokens": tokens, "bytes": folder.weight_bytes,
        })
    );
}

/// Seconds from the request to each token, and the tokens.
fn run(decoder: &mut Decoder, prompt: &[u32], new: usize) -> (Vec<f64>, Vec<u32>) {
    let slot = decoder.open().unwrap();
    let begin = Instant::now();
    let (mut stamps, mut tokens) = (Vec::new(), Vec::new());
    for chunk in prompt.chunks(CHUNK) {
        let last = decoder.length(slot) + chunk.len() == prompt.len();
        let wanted = if last { Wanted::Last } else { Wanted::None };
        let logits = decoder.prefill(slot, chunk, prompt.len(), wanted).unwrap();
        if last {
            tokens.push(best(&logits));
            stamps.push(begin.elapsed().as_secs_f64());
        }
    }
    while tokens.len() < new {
        let next = best(&decoder.decode(&[(slot, tokens[tokens.len() - 1])]).unwrap());
        tokens.push(next);
        stamps.push(begin.elapsed().as_secs_f64());
    }
    decoder.close(slot);
    (stamps, tokens)
}

/// The most likely token, the first of several.
fn best(logits: &Logits<'_>) -> u32 {
    let row = logits.row(0);
    let at = (0..row.len())
        .rev()
        .max_by(|&a, &b| row[a].total_cmp(&row[b]));
    at.unwrap() as u32
}
