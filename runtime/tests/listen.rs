//! `firstword listen` through the program: speech → words → reply, and one record for each turn.

#![allow(clippy::unwrap_used)]

mod heard;
mod imported;
mod program;
mod score;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use heard::demo_clip;
use program::{FORWARD, Home, assert_heard, complaints, objects, shared_clip, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn command(home: &Home, model: &Path) -> Command {
    let mut command = home.firstword();
    command.arg("listen").arg("--model").arg(model);
    command.args(["--max-tokens", "8"]);
    command
}

fn listen<A: AsRef<OsStr>>(
    home: &Home,
    model: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Output {
    command(home, model).args(arguments).output().unwrap()
}

/// `None`, with a line `skipped: …`, where something is absent.
fn found() -> Option<(Home, PathBuf)> {
    Some((Home::new()?, imported::smollm()?))
}

/// Panics unless this record's stages are all of its time, in milliseconds.
fn assert_adds_up(record: &Value) {
    let stages = record["stages_ms"].as_object().unwrap();
    let parts = stages.values().map(|part| part.as_f64().unwrap());
    assert!(parts.clone().all(|part| part >= 0.0), "{stages:?}");
    let (sum, whole) = (parts.sum::<f64>(), record["e2e_ms"].as_f64().unwrap());
    assert!((sum - whole).abs() < 1.0, "{sum} of {whole}: {stages:?}");
    let first = record["voice_ttft_ms"].as_f64().unwrap();
    assert!(0.0 < first && first <= whole, "{record}");
    let until: f64 = stages
        .iter()
        .filter(|(stage, _)| *stage != "reply")
        .map(|(_, part)| part.as_f64().unwrap())
        .sum();
    assert!(
        (until - first).abs() < 1.0,
        "{until} until {first}: {stages:?}"
    );
}

#[test]
fn a_recording_is_heard_and_answered() {
    let (Some((home, model)), Some(clip)) = (found(), demo_clip("beckett.wav")) else {
        return;
    };
    let output = listen(&home, &model, [&clip]);
    assert_eq!(complaints(&output, 0), Vec::<String>::new());
    let said = text(&output.stdout);
    let (words, replies): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.starts_with("> "));
    assert!(words.iter().any(|line| line.len() > 10), "{said}");
    assert!(replies.iter().any(|line| line.trim().len() > 2), "{said}");
    let turns = home.records();
    assert_eq!(
        turns.iter().filter(|turn| turn["kind"] == "turn").count(),
        words.len()
    );
}

#[test]
fn as_json_every_turn_has_its_record_whose_stages_add_up() {
    let (Some((home, model)), Some(clip)) = (found(), demo_clip("beckett.wav")) else {
        return;
    };
    let output = listen(
        &home,
        &model,
        [OsStr::new("--format=json"), clip.as_os_str()],
    );
    assert_eq!(complaints(&output, 0), Vec::<String>::new());
    let lines = objects(&text(&output.stdout));
    let of =
        |kind: &str| -> Vec<&Value> { lines.iter().filter(|line| line["type"] == kind).collect() };
    let (words, turns) = (of("words"), of("turn"));
    assert_eq!(words.len() + turns.len(), lines.len());
    assert!(!turns.is_empty());
    for (words, turn) in words.iter().zip(&turns) {
        assert_eq!(words["text"], turn["words"]);
        assert_eq!(words["utterance"], turn["utterance"]);
        assert!(!turn["reply"].as_str().unwrap().is_empty());
        assert_adds_up(&turn["latencies"]);
    }
    assert_eq!(words.len(), turns.len());
    let last = home.records().pop().unwrap();
    // The log knows more: objective, device, and so on.
    for (field, value) in turns[turns.len() - 1]["latencies"].as_object().unwrap() {
        assert_eq!(&last[field], value, "{field}");
    }
    assert_eq!(last["objective"]["metric"], "voice_ttft_ms");
    assert_eq!(last["objective"]["value_ms"], last["voice_ttft_ms"]);
    assert_eq!(last["kind"], "turn");
    assert_eq!(last["language"]["precision"], "exact");
}

#[test]
fn at_the_pace_of_speech_a_turn_is_as_long_as_its_stages() {
    let (Some((home, model)), Some(clip)) = (found(), shared_clip("goforward.wav")) else {
        return;
    };
    let arguments = [
        "--pace=realtime",
        "--format=json",
        "--timings",
        clip.to_str().unwrap(),
    ];
    let output = listen(&home, &model, arguments);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let lines = objects(&text(&output.stdout));
    let turn = lines.iter().find(|line| line["type"] == "turn").unwrap();
    assert_heard(FORWARD, turn["words"].as_str().unwrap());
    assert_adds_up(&turn["latencies"]);
    assert!(
        told.contains("turn 1: voice TTFT") && told.contains("<- first token"),
        "{told}"
    );
}

#[test]
fn sound_from_standard_input_is_answered() {
    let (Some((home, model)), Some(clip)) = (found(), shared_clip("goforward.wav")) else {
        return;
    };
    let mut command = command(&home, &model);
    let sound = std::fs::File::open(clip).unwrap();
    let output = command.arg("-").stdin(Stdio::from(sound)).output().unwrap();
    assert_eq!(complaints(&output, 0), Vec::<String>::new());
    let said = text(&output.stdout);
    let words = said.lines().next().unwrap().strip_prefix("> ").unwrap();
    assert_heard(FORWARD, words);
    assert!(said.lines().count() >= 2, "{said}");
}

#[test]
fn a_conversation_that_outgrows_the_window_begins_anew_and_goes_on() {
    let (Some((home, model)), Some(clip)) = (found(), demo_clip("two_cities.wav")) else {
        return;
    };
    let mut command = command(&home, &model);
    command.arg("--format=json").arg(clip);
    // Room for about two of its sentences with their replies.
    let output = command
        .env("FIRSTWORD_LANGUAGE_WINDOW", "130")
        .output()
        .unwrap();
    let said = complaints(&output, 0);
    assert!(
        !said.is_empty() && said.iter().all(|line| line.contains("begins anew")),
        "{said:?}"
    );
    let lines = objects(&text(&output.stdout));
    let turns = lines.iter().filter(|line| line["type"] == "turn").count();
    assert!(turns > 3 && turns * 2 == lines.len(), "{lines:#?}");
}

#[test]
fn ctrl_c_and_a_reader_who_goes_away_end_it() {
    let (Some((home, model)), Some(clip)) = (found(), demo_clip("beckett.wav")) else {
        return;
    };
    for (signal, code) in [
        (Some(Signal::INT), 130),
        (Some(Signal::TERM), 143),
        (None, 141),
    ] {
        let mut command = command(&home, &model);
        let mut child = command
            .args(["--pace", "realtime"])
            .arg(&clip)
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut words = String::new();
        out.read_line(&mut words).unwrap();
        assert!(words.starts_with("> "), "{words:?}");
        if let Some(signal) = signal {
            kill_process(Pid::from_child(&child), signal).unwrap();
            out.read_to_string(&mut words).unwrap();
            assert!(words.ends_with('\n'), "{words:?}");
        } else {
            drop(out);
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(complaints(&output, code), Vec::<String>::new());
    }
}

#[test]
fn sound_that_cannot_be_read_is_told() {
    let Some((home, model)) = found() else { return };
    let output = listen(&home, &model, ["missing.wav"]);
    let said = complaints(&output, 1);
    assert!(
        said.len() == 1 && said[0].contains("missing.wav"),
        "{said:?}"
    );
}

#[test]
fn a_full_disk_is_told() {
    let (Some((home, model)), Some(clip)) = (found(), shared_clip("goforward.wav")) else {
        return;
    };
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = command(&home, &model)
        .arg(clip)
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(complaints(&output, 6).len(), 1);
}
