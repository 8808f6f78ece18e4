//! What the documentation for outside readers says is what the program does.
#![allow(clippy::unwrap_used)] // A test, helpers included.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use firstword::config::{SECTIONS, markdown_row};
use firstword::exit::EXITS;
use firstword::log::rare::{Drop, Move, Rare};
use firstword::log::{Heard, Load, Log, Model, Options, Role, Step};
use firstword::record::{Record, Reply, ReplyPath, Steps};
use firstword::speech::transcript::{Partial, Word};
use firstword_audio::Stamp;
use firstword_audio::clock::Samples;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_key_is_documented_with_its_default_range_and_variable() {
    let page = page("configuration.md");
    for section in SECTIONS {
        let heading = format!(
            "## `[{}]`: {}",
            section.name,
            section.meaning().to_lowercase().trim_end_matches('.')
        );
        assert!(
            page.lines().any(|line| line == heading),
            "docs/configuration.md lacks the line\n{heading}"
        );
        let rows: Vec<String> = section.settings.iter().map(markdown_row).collect();
        let block = rows.join("\n");
        assert!(
            page.contains(&block),
            "docs/configuration.md should have these rows:\n{block}"
        );
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    let keys: usize = SECTIONS.iter().map(|section| section.settings.len()).sum();
    assert_eq!(
        rows, keys,
        "docs/configuration.md documents a key that does not exist"
    );
}

#[test]
fn every_exit_code_is_documented() {
    let page = page("exit-codes.md");
    for (exit, meaning) in EXITS {
        let row = format!("| {} | {meaning} |", exit.code());
        assert!(
            page.contains(&row),
            "docs/exit-codes.md should have this row:\n{row}"
        );
    }
}

/// A log with a line of every kind, written by the program's own writer.
fn every_kind(folder: &Path) -> Vec<serde_json::Value> {
    let log = Log::start(Options {
        text: true,
        trace: true,
        trace_bytes: 3_000,
        ..Options::of(
            &firstword::config::Config::defaults().unwrap().settings,
            folder.to_owned(),
        )
    });
    let recorder = log.recorder();
    let model = recorder.load(
        Model::default(),
        Load {
            stages: ["verify", "library", "session"]
                .map(|stage| (stage, Duration::ZERO))
                .into(),
            ..Load::default()
        },
    );
    let stream = recorder.stream("mic");
    let now = Stamp::now();
    let word = Word {
        text: String::new(),
        covered: Samples(1),
        captured: now,
        committed: now,
        handed_over: None,
    };
    let partial = Partial {
        utterance: 0,
        start: Samples(0),
        covered: Samples(1),
        captured: now,
        committed: String::new(),
        tentative: String::new(),
    };
    let record = Record::default();
    let heard = Heard {
        stream,
        model,
        record: &record,
        words: &[word],
        text: "",
    };
    let fast = Reply {
        tokens: 3,
        steps: Steps::of([(1_000, 1), (1_000, 1)]),
        path: ReplyPath {
            accepted: now,
            prompted: now,
            started: now,
            prefilled: now,
            first_token: now,
            last_token: now,
        },
        ..Reply::default()
    };
    let mut slow = fast;
    slow.path.first_token = now + Duration::from_secs(1);
    slow.path.last_token = now + Duration::from_secs(1);
    recorder.partial(stream, &partial, now);
    recorder.utterance(&heard);
    for reply in std::iter::repeat_n(fast, 20).chain([slow]) {
        recorder.request(model, &reply, "", "");
    }
    recorder.partial(stream, &partial, now);
    recorder.turn(&heard, model, &fast, "");
    for _ in 0..30 {
        recorder.arrival(stream, 1, now, now);
        recorder.step(Step {
            role: Role::Decode,
            model,
            stream,
            batch: 1,
            due: now,
            start: now,
            end: now,
        });
    }
    recorder.rare(Rare::Move(Move::default()));
    recorder.rare(Rare::Drop(Drop::default()));
    log.finish();
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        lines.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
    }
    // What can't be had on every machine: a device with zones and rails, and a clock that is set.
    lines.push(serde_json::json!({"kind": "device",
        "zones": [{"name": "cpu", "temperature_c": 50.0}], "rails": [{"name": "VDD", "power_mw": 1.0}]}));
    lines.push(serde_json::json!({"kind": "mark", "what": "suspend", "ms": 1.0}));
    lines
}

#[test]
fn every_field_of_the_latency_log_is_documented() {
    fn fields(prefix: &str, value: &serde_json::Value, found: &mut BTreeSet<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let name = format!("{prefix}{key}");
            fields(&format!("{name}."), value, found);
            for member in value.as_array().into_iter().flatten() {
                fields(&format!("{name}."), member, found);
            }
            found.insert(name);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let lines = every_kind(folder.path());
    let kinds: BTreeSet<&str> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [
            "device",
            "drop",
            "load",
            "lost",
            "mark",
            "move",
            "request",
            "segment",
            "trace",
            "turn",
            "utterance"
        ]
    );
    let mut written = BTreeSet::new();
    for line in &lines {
        fields("", line, &mut written);
    }
    // What is in a turn's `reply` has the names that a request's fields have, and a sample in a record those of a device line.
    let page = page("latency-log.md");
    let documented: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in &written {
        let alone = name
            .strip_prefix("reply.")
            .or_else(|| name.strip_prefix("device."))
            .unwrap_or(name);
        assert!(
            documented.contains(name) || documented.contains(alone),
            "docs/latency-log.md lacks {name}"
        );
    }
    for name in &documented {
        assert!(
            written.contains(name) || written.contains(&format!("device.{name}")),
            "docs/latency-log.md has {name}, the log has not"
        );
    }
}
