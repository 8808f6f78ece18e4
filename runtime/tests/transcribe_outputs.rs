//! What the program prints: for people, for programs, for players, and for whoever asks where the time went.

#![allow(clippy::unwrap_used)]

mod heard;
mod program;
mod score;

use firstword::record::STAGES;
use program::{
    FORWARD, Home, WAR, assert_heard, complaints, objects, shared_clip, shared_samples, text, wav,
};
use serde_json::Value;

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is no number in {object}"))
}

/// The keys of an object, sorted.
fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

/// Panics unless the latency record is whole and its stages add up.
fn check_record(record: &Value) {
    assert_eq!(record["schema"], 2);
    assert_eq!(record["kind"], "utterance");
    for key in ["stream", "model", "target", "onnxruntime"] {
        assert!(!record[key].as_str().unwrap().is_empty(), "{key}: {record}");
    }
    let stages: Vec<f64> = STAGES
        .iter()
        .map(|s| number(&record["stages_ms"], s))
        .collect();
    assert!(stages.iter().all(|ms| *ms >= 0.0), "{stages:?}");
    // Every figure is rounded to the microsecond.
    let sum: f64 = stages.iter().sum();
    assert!(
        (sum - number(record, "final_latency_ms")).abs() < 0.01,
        "{record}"
    );
    assert!(
        number(record, "start_s") < number(record, "end_s"),
        "{record}"
    );
    assert!(
        number(record, "first_captured_ns") <= number(record, "last_captured_ns"),
        "{record}"
    );
    for key in [
        "read",
        "resample",
        "voice_activity",
        "encode",
        "decode",
        "slowest_step",
    ] {
        assert!(
            number(&record["work"], &format!("{key}_ms")) >= 0.0,
            "{record}"
        );
    }
    for key in ["passes", "decoder_steps", "tokens"] {
        assert!(number(&record["counts"], key) >= 1.0, "{record}");
    }
}

/// Panics unless a final has every field that the documentation promises, and its stamps are in order.
fn check_final(object: &Value) {
    assert_eq!(
        keys(object),
        [
            "end",
            "file",
            "latencies",
            "model",
            "start",
            "target",
            "text",
            "type",
            "utterance",
            "words"
        ]
    );
    assert!(number(object, "start") < number(object, "end"));
    check_record(&object["latencies"]);
    let words = object["words"].as_array().unwrap();
    let joined: Vec<&str> = words
        .iter()
        .map(|word| word["text"].as_str().unwrap())
        .collect();
    assert_eq!(joined.join(" "), object["text"].as_str().unwrap());
    let (mut covered, mut committed, mut handed) = (0.0, 0, 0);
    for word in words {
        assert_eq!(
            keys(word),
            [
                "captured_ms",
                "captured_ns",
                "committed_ms",
                "committed_ns",
                "covered",
                "handed_over_ms",
                "handed_over_ns",
                "text"
            ]
        );
        let ns = |key: &str| word[key].as_u64().unwrap();
        assert!(ns("captured_ns") <= ns("committed_ns"), "{word}");
        assert!(ns("committed_ns") <= ns("handed_over_ns"), "{word}");
        let ms = |key: &str| number(word, key);
        assert!(ms("captured_ms") <= ms("committed_ms"), "{word}");
        assert!(ms("committed_ms") <= ms("handed_over_ms"), "{word}");
        // The two ways of telling an instant have one origin.
        let apart = (ns("handed_over_ns") - ns("committed_ns")) as f64 / 1e6;
        assert!(
            (ms("handed_over_ms") - ms("committed_ms") - apart).abs() < 0.01,
            "{word}"
        );
        assert!(number(word, "covered") <= number(object, "end"), "{word}");
        // Milliseconds count from the stream's first sample, which is not younger than the utterance's.
        let origin = ns("captured_ns") as f64 - ms("captured_ms") * 1e6;
        let first = number(&object["latencies"], "first_captured_ns");
        assert!(origin <= first + 1e3, "{origin}: {object}");
        // Later words are committed later and have heard more.
        assert!(number(word, "covered") >= covered, "{object}");
        assert!(
            ns("committed_ns") >= committed && ns("handed_over_ns") >= handed,
            "{object}"
        );
        covered = number(word, "covered");
        (committed, handed) = (ns("committed_ns"), ns("handed_over_ns"));
    }
}

#[test]
fn json_has_a_history_for_every_word() {
    let (Some(home), Some(forward), Some(war)) = (
        Home::new(),
        shared_clip("goforward.wav"),
        shared_clip("speechbrain_spk2_snt1.wav"),
    ) else {
        return;
    };
    let (forward, war) = (forward.to_str().unwrap(), war.to_str().unwrap());
    let output = home.transcribe(["--format", "json", "--partials", forward, war]);
    assert!(complaints(&output, 0).is_empty());
    let objects = objects(&text(&output.stdout));
    let mut said = Vec::new();
    let mut committed = String::new();
    let mut partials = 0;
    for object in &objects {
        if object["type"] == "partial" {
            partials += 1;
            assert_eq!(
                keys(object),
                [
                    "captured_ms",
                    "captured_ns",
                    "committed",
                    "covered",
                    "file",
                    "handed_over_ms",
                    "handed_over_ns",
                    "start",
                    "tentative",
                    "type",
                    "utterance"
                ]
            );
            let now = object["committed"].as_str().unwrap();
            assert!(now.starts_with(&committed), "{committed:?} became {now:?}");
            assert!(number(object, "captured_ms") <= number(object, "handed_over_ms"));
            assert!(number(object, "start") < number(object, "covered"));
            committed = now.to_owned();
        } else {
            check_final(object);
            let whole = object["text"].as_str().unwrap();
            assert!(
                whole.starts_with(&committed),
                "{committed:?} became {whole:?}"
            );
            said.push((object["file"].as_str().unwrap(), whole));
            committed.clear();
        }
    }
    // Two sentences of two seconds; partials come every 300 ms.
    assert!(partials > 4, "{partials}");
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!((said[0].0, said[1].0), (forward, war));
    assert_heard(FORWARD, said[0].1);
    assert_heard(WAR, said[1].1);
}

#[test]
fn without_partials_json_holds_finals_only() {
    let (Some(home), Some(forward)) = (Home::new(), shared_clip("goforward.wav")) else {
        return;
    };
    // Whoever reads JSON wants the very name that was given.
    let named = "new\nline \u{1b}[2J.wav";
    std::os::unix::fs::symlink(forward, home.path(named)).unwrap();
    let output = home.transcribe(["--format", "json", named]);
    let written = text(&output.stdout);
    assert!(!written.contains('\u{1b}'), "{written:?}");
    let objects = objects(&written);
    assert_eq!(objects.len(), 1);
    check_final(&objects[0]);
    assert_eq!(objects[0]["file"], named);
    assert_eq!(home.records()[0]["stream"], named);
}

/// Seconds of `HH:MM:SS,mmm` (SubRip) or `HH:MM:SS.mmm` (WebVTT).
fn seconds(stamp: &str, point: char) -> f64 {
    let (whole, fraction) = stamp.split_once(point).unwrap_or_else(|| panic!("{stamp}"));
    assert_eq!(fraction.len(), 3, "{stamp}");
    let parts: Vec<f64> = whole.split(':').map(|part| part.parse().unwrap()).collect();
    assert_eq!(parts.len(), 3, "{stamp}");
    parts[0] * 3600.0 + parts[1] * 60.0 + parts[2] + fraction.parse::<f64>().unwrap() / 1000.0
}

#[test]
fn subtitles_can_be_read_back() {
    let (Some(home), Some(forward), Some(war)) = (
        Home::new(),
        shared_samples("goforward.wav"),
        shared_samples("speechbrain_spk2_snt1.wav"),
    ) else {
        return;
    };
    // Two sentences with two seconds between them.
    let sound = [forward, vec![0; 32_000], war].concat();
    let length = sound.len() as f64 / 16_000.0;
    home.file("two.wav", wav(&sound));
    for (format, point) in [("srt", ','), ("vtt", '.')] {
        let output = home.transcribe(["--format", format, "two.wav"]);
        assert!(complaints(&output, 0).is_empty());
        let written = text(&output.stdout);
        let cues = match format {
            "vtt" => written
                .strip_prefix("WEBVTT\n\n")
                .unwrap_or_else(|| panic!("{written}")),
            _ => &written,
        };
        let mut last = 0.0;
        let mut said = Vec::new();
        for (i, cue) in cues.trim_end().split("\n\n").enumerate() {
            let mut lines: Vec<&str> = cue.lines().collect();
            assert_eq!(lines.remove(0), (i + 1).to_string(), "{cue}");
            let (start, end) = lines.remove(0).split_once(" --> ").unwrap();
            let (start, end) = (seconds(start, point), seconds(end, point));
            assert!(
                last <= start && start < end && end <= length + 0.001,
                "{cue}"
            );
            last = end;
            said.push(lines.join(" "));
        }
        assert_heard(&format!("{FORWARD} {WAR}"), &said.join(" "));
        assert!(said.len() >= 2, "{written}");
    }
    let output = home.transcribe(["two.wav", "--output", "two.txt"]);
    assert!(complaints(&output, 0).is_empty() && output.stdout.is_empty());
    let written = std::fs::read_to_string(home.path("two.txt")).unwrap();
    assert_heard(&format!("{FORWARD} {WAR}"), &written);
}

#[test]
fn the_log_has_one_record_for_each_utterance_and_no_word_of_what_was_said() {
    let (Some(home), Some(forward), Some(war)) = (
        Home::new(),
        shared_clip("goforward.wav"),
        shared_clip("speechbrain_spk2_snt1.wav"),
    ) else {
        return;
    };
    home.file("a.wav", std::fs::read(forward).unwrap());
    home.file("b.wav", std::fs::read(war).unwrap());
    let output = home.transcribe(["--timings", "a.wav", "b.wav"]);
    assert_eq!(output.status.code(), Some(0));
    let table = text(&output.stderr);
    for stage in STAGES {
        assert!(table.contains(&stage.replace('_', " ")), "{stage}: {table}");
    }
    for file in ["a.wav", "b.wav"] {
        assert!(table.lines().any(|line| line == file), "{table}");
    }
    let records = home.records();
    let streams: Vec<&str> = records
        .iter()
        .map(|r| r["stream"].as_str().unwrap())
        .collect();
    assert_eq!(streams, ["a.wav", "b.wav"]);
    records.iter().for_each(check_record);
    let log = home.log().to_lowercase();
    for word in score::normalise(&format!("{FORWARD} {WAR}")) {
        // Short ones are parts of the record's own words.
        assert!(word.len() < 5 || !log.contains(&word), "{word} is in {log}");
    }
    let mut command = home.firstword();
    command
        .env("FIRSTWORD_LOG_LATENCY", "false")
        .args(["transcribe", "a.wav"]);
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    assert_eq!(home.records().len(), 2, "a log that is off was written");
}

#[test]
fn in_real_time_latencies_count_from_the_capture() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    // The sentence ends long before the sound: the program has to wait for its pause.
    let sound = [&forward[..], &[0; 12_000]].concat();
    home.file("pause.wav", wav(&sound));
    let output = home.transcribe([
        "--pace",
        "realtime",
        "--partials",
        "--format",
        "json",
        "pause.wav",
    ]);
    assert!(complaints(&output, 0).is_empty());
    let objects = objects(&text(&output.stdout));
    let last = objects.last().unwrap();
    check_final(last);
    assert_heard(FORWARD, last["text"].as_str().unwrap());
    assert!(objects.len() > 3, "{objects:#?}");
    let record = &last["latencies"];
    assert_eq!(record["ending"], "pause");
    // The pause that ends an utterance of a stream is 500 ms by default, in frames of 32 ms.
    assert!(number(&record["stages_ms"], "silence") >= 468.0, "{record}");
    // What was captured lies as far apart in time as in the sound: the first sample of the utterance and
    // the last of its speech, which is 200 ms before its end.
    let apart = (number(record, "last_captured_ns") - number(record, "first_captured_ns")) / 1e9;
    let length = number(record, "end_s") - number(record, "start_s");
    assert!(
        apart <= length && apart > length - 0.3,
        "{apart} s, {length} s: {record}"
    );
}

#[test]
fn the_demo_prints_both_readings_with_their_latencies() {
    let (Some(home), Some(_)) = (Home::new(), heard::demo_clip("beckett.wav")) else {
        return;
    };
    let output = home.firstword().arg("demo").output().unwrap();
    let table = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{table}");
    let (errors, words) = score::errors(
        &format!("{} {}", score::BECKETT, score::TWO_CITIES),
        &text(&output.stdout),
    );
    // The bounds of the project's acceptance for the two: 1 and 7.
    assert!(errors <= 8, "{errors} of {words}");
    for file in ["beckett.wav", "two_cities.wav"] {
        assert!(table.contains(file), "{table}");
    }
    for stage in STAGES {
        let named = table
            .matches(&format!(" {}", stage.replace('_', " ")))
            .count();
        assert!(named >= 2, "{stage}: {table}");
    }
}
