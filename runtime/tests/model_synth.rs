//! `firstword model synth` through the program: what it says, what it refuses, what it leaves.

#![allow(clippy::unwrap_used)]

mod heard;
mod program;
mod score;

use std::ops::ControlFlow;
use std::time::Duration;

use firstword_models::language::synth::{self, REMARK, Sizes};
use program::{Home, complaints, text};
use rustix::process::{Pid, Signal, kill_process};

/// The names in the home, but for what every home has.
fn entries(home: &Home) -> Vec<String> {
    let entries = home.path("").read_dir().unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !["models", "lib", "log"].contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

#[test]
fn every_way_to_a_model_of_random_weights_says_what_it_is() {
    let Some(home) = Home::new() else { return };
    let help = home
        .firstword()
        .args(["model", "synth", "--help"])
        .output()
        .unwrap();
    let help = text(&help.stdout);
    assert!(help.contains("latency and memory only"), "{help}");
    // The full size takes minutes; the form is the same.
    let sizes = Sizes {
        name: "tiny-random",
        layers: 2,
        width: 64,
        inner: 128,
        heads: 4,
        vocabulary: 512,
        context: 1024,
        window: 511,
        tied: false,
    };
    let file = home.path("tiny-random.gguf");
    synth::save(&sizes, &file, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let mut import = home.firstword();
    let output = import
        .args(["model", "import", "tiny-random.gguf"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains(REMARK),
        "{}",
        text(&output.stdout)
    );

    let list = home.firstword().args(["model", "list"]).output().unwrap();
    let list = text(&list.stdout);
    let row = list
        .lines()
        .find(|row| row.starts_with("tiny-random"))
        .unwrap();
    assert!(row.contains("ready") && row.contains(REMARK), "{row}");

    let mut chat = home.firstword();
    chat.args([
        "chat",
        "--model",
        "tiny-random",
        "--max-tokens",
        "4",
        "Hello",
    ]);
    let output = chat.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("tiny-random: {REMARK}")), "{said}");
}

#[test]
fn what_means_nothing_or_is_in_the_way_is_refused_before_anything_is_written() {
    let Some(home) = Home::new() else { return };
    home.file("mine.gguf", "mine");
    let refused = |code: i32, arguments: &[&str]| {
        let mut command = home.firstword();
        command.args(["model", "synth"]).args(arguments);
        let output = command.output().unwrap();
        let said = text(&output.stderr).to_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(text(&output.stdout), "");
        said
    };
    let said = refused(2, &["gpt-5"]);
    assert!(said.contains("phi3-mini"), "{said}");
    let said = refused(2, &["phi3-mini", "--format", "gguf", "--quant", "exact"]);
    assert!(said.contains("--quant"), "{said}");
    refused(2, &["phi3-mini", "--as", "../a"]);
    refused(2, &["phi3-mini", "--as", "a", "--out", "b"]);
    let said = refused(6, &["phi3-mini", "--format", "gguf", "--out", "mine.gguf"]);
    assert!(said.contains("mine.gguf is already there"), "{said}");
    let said = refused(6, &["phi3-mini", "--out", "mine.gguf"]);
    assert!(said.contains("mine.gguf is already there"), "{said}");
    assert_eq!(entries(&home), ["mine.gguf"]);
}

#[test]
fn ctrl_c_in_the_middle_leaves_nothing() {
    let Some(home) = Home::new() else { return };
    let mut command = home.firstword();
    command.args(["model", "synth", "phi3-mini", "--format", "gguf"]);
    let child = command.spawn().unwrap();
    while entries(&home).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = complaints(&output, 130);
    assert!(said.iter().any(|line| line.contains("stopped")), "{said:?}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(entries(&home), Vec::<String>::new());
}
