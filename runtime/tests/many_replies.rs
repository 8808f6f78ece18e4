//! Many replies, one after the other: memory and the work of each stay what they were.
//!
//! Alone in its binary: it reads what the whole process holds.
#![allow(clippy::unwrap_used)]

mod heard;
mod imported;

use std::path::Path;

use firstword::commands::Context;
use firstword::config::{Config, Override, Source};
use firstword::interrupt::Interrupt;
use firstword::language::answerer::{Answerer, Wish};
use firstword::language::request::Cancel;
use firstword::place::{Environment, Place};

/// Different for each, the same in each run.
fn length(n: usize, least: usize, most: usize) -> usize {
    least + (n * 7919 + 13) % (most - least + 1)
}

/// What this process holds in memory, in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib * 1024.0
}

/// The model as `firstword chat` loads it, with room for 256 tokens and chunks of 32.
fn answerer(folder: &Path) -> Answerer {
    let environment = Environment::of_process();
    let place = Place::new(&environment);
    let flags = [
        ("model", folder.to_str().unwrap()),
        ("window", "256"),
        ("prefill_chunk", "32"),
    ]
    .map(|(key, value)| Override {
        section: "language",
        key,
        flag: "a test",
        value: value.into(),
    });
    let source = Source::choose(None, &environment, &place);
    let context = Context {
        config: Config::load(&source, &environment, &place, &flags).unwrap(),
        place,
        interrupt: Interrupt::install().unwrap(),
        verbose: 0,
    };
    context.answerer(&firstword::log::Recorder::off()).unwrap()
}

#[test]
fn two_hundred_replies_cost_no_more_memory_and_no_more_steps() {
    let Some(folder) = imported::smollm() else {
        return;
    };
    let mut answerer = answerer(&folder);
    let cancel = Cancel::default();
    let (mut after_20, mut binds_after_20) = (0.0, 0);
    for n in 0..200 {
        let before = answerer.counts();
        let words: Vec<String> = (0..length(n, 3, 40))
            .map(|w| format!("w{}", w * n))
            .collect();
        let text = words.join(" ");
        let prompt: String = text.chars().take(length(n, 8, 60)).collect();
        let wish = Wish {
            max_tokens: length(n, 1, 12),
            ..Wish::default()
        };
        let answer = answerer
            .complete(&prompt, &wish, &cancel, &mut |_| {})
            .unwrap();
        let (cost, now) = (answer.cost, answerer.counts());
        // By hand: chunks of 32 tokens, of what was not cached; the last token of the prompt always runs.
        let fresh = cost.prompt_tokens - cost.cached_tokens;
        assert!(fresh >= 1);
        assert_eq!(cost.prefill_chunks, fresh.div_ceil(32), "reply {n}");
        // The first token comes of the prompt; a reply that the model ended has one more step than tokens after it.
        assert!(cost.steps.count + 1 >= cost.tokens && cost.steps.count <= cost.tokens);
        assert_eq!(
            now.runs - before.runs,
            u64::from(cost.prefill_chunks + cost.steps.count),
            "reply {n} ran the model more often than its chunks and steps"
        );
        if n + 1 == 20 {
            after_20 = resident();
            binds_after_20 = now.cache_binds;
        }
    }
    assert_eq!(
        answerer.counts().cache_binds,
        binds_after_20,
        "the cache was bound anew"
    );
    let change = (resident() - after_20) / after_20;
    println!(
        "{:.1} MiB after 20, change {:.2} %",
        after_20 / 1048576.0,
        change * 100.0
    );
    assert!(
        change.abs() < 0.02,
        "memory changed by {:.2} %",
        change * 100.0
    );
}
