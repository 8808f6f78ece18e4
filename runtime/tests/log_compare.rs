//! `firstword log compare`: what an update changed, and what is noise.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use firstword::log::read::planted::{self, Plan, Plant};
use serde_json::Value;

fn compare(arguments: &[&str], places: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firstword"))
        .env_clear()
        .env(
            "FIRSTWORD_HOME",
            std::env::temp_dir().join("firstword-no-home"),
        )
        .stdin(Stdio::null())
        .args(["log", "compare"])
        .args(arguments)
        .args(places)
        .output()
        .expect("the program starts")
}

fn json(arguments: &[&str], places: &[&Path]) -> Value {
    let output = compare(&[arguments, &["--json"]].concat(), places);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).expect("the comparison is JSON")
}

fn planted(plan: &Plan) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    planted::write(folder.path(), plan).expect("the folder can be written");
    folder
}

fn turns(comparison: &Value) -> &Value {
    let groups = comparison["groups"].as_array().expect("a list");
    groups
        .iter()
        .find(|group| group["kind"] == "turn")
        .expect("turns")
}

fn row<'v>(pair: &'v Value, name: &str) -> &'v Value {
    let rows = pair["rows"].as_array().expect("a list");
    rows.iter()
        .find(|row| row["name"] == name && row["percentile"] == 50)
        .expect("a row of this name")
}

#[test]
fn two_runs_of_the_same_are_called_noise() {
    let (a, b) = (
        planted(&Plan::default()),
        planted(&Plan {
            seed: 2,
            ..Plan::default()
        }),
    );
    let comparison = json(&[], &[a.path(), b.path()]);
    assert_eq!(
        comparison["verdict"],
        "Noise: the medians differ by no more than chance does."
    );
    for group in comparison["groups"].as_array().unwrap() {
        for row in group["rows"].as_array().unwrap() {
            assert_eq!(row["real"], false, "{row}");
        }
    }
    let said = turns(&comparison)["findings"].to_string();
    assert!(
        said.contains("NOISE: The median of voice TTFT") && said.contains("No stage changed"),
        "{said}"
    );
}

#[test]
fn a_device_that_became_slower_is_found_stage_by_stage() {
    let a = planted(&Plan::default());
    let b = planted(&Plan {
        seed: 2,
        pace: 1.1,
        ..Plan::default()
    });
    let comparison = json(&[], &[a.path(), b.path()]);
    let turns = turns(&comparison);
    // Every stage takes 1.1 of its time: the median of encoding, 24 ms, grows by 2.4.
    let encode = row(turns, "encode");
    assert_eq!(encode["real"], true);
    let (low, high) = (
        encode["low_ms"].as_f64().unwrap(),
        encode["high_ms"].as_f64().unwrap(),
    );
    assert!(low < 2.4 && 2.4 < high && low > 1.0, "{encode}");
    let said = turns["findings"].to_string();
    assert!(
        said.contains("SLOWER: The median of voice TTFT went "),
        "{said}"
    );
    assert!(
        said.contains("Stages that changed most: P95 of silence +1"),
        "{said}"
    );
    // The other way round it is faster, by as much.
    let back = json(&[], &[b.path(), a.path()]);
    assert!(
        back["verdict"].as_str().unwrap().starts_with("Faster"),
        "{back}"
    );
    // The same question has the same answer.
    assert_eq!(comparison, json(&[], &[a.path(), b.path()]));
}

#[test]
fn two_times_of_one_log_are_compared() {
    let folder = planted(&Plan {
        plant: Plant::Encode,
        ..Plan::default()
    });
    // The first slow stretch begins after 30 of 100 records, the log at 08:00 with some 365 records an hour.
    let comparison = json(
        &[
            "--before",
            "..2026-11-24T09:30",
            "--after",
            "2026-11-24T09:42..2026-11-24T10:05",
        ],
        &[folder.path()],
    );
    let encode = row(turns(&comparison), "encode");
    assert!(
        encode["real"] == true && encode["difference_ms"].as_f64().unwrap() > 100.0,
        "{encode}"
    );
    let silence = row(turns(&comparison), "silence");
    assert_eq!(silence["real"], false, "{silence}");
    let split = json(&["--split", "2026-11-24T09:30"], &[folder.path()]);
    let count = |side: &str| turns(&split)[side].as_u64().unwrap();
    assert!(count("a_count") > 100 && count("b_count") > 100);
}

#[test]
fn the_table_has_a_row_for_each_stage_with_its_interval() {
    let (a, b) = (
        planted(&Plan::default()),
        planted(&Plan {
            pace: 1.3,
            seed: 5,
            ..Plan::default()
        }),
    );
    let output = compare(&[], &[a.path(), b.path()]);
    let said = String::from_utf8(output.stdout).unwrap();
    for words in [
        "A: ",
        "Slower: ",
        "voice TTFT P50",
        "voice TTFT P95",
        "· encode",
        "interval",
        " to +",
    ] {
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let (a, few) = (
        planted(&Plan::default()),
        planted(&Plan {
            records: 12,
            ..Plan::default()
        }),
    );
    let output = compare(&[], &[a.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is one log; name a second one"));
    let output = compare(&["--split", "noon"], &[a.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--split: expected a time in UTC"));
    let comparison = json(&[], &[a.path(), few.path()]);
    assert!(
        comparison["verdict"]
            .as_str()
            .unwrap()
            .starts_with("Too few records"),
        "{comparison}"
    );
    let other = tempfile::tempdir().unwrap();
    let line = r#"{"schema":1,"kind":"utterance","model":"another","target":"cpu","final_latency_ms":2.0,"stages_ms":{"encode":2.0}}"#;
    std::fs::write(other.path().join("latency.jsonl"), format!("{line}\n")).unwrap();
    let comparison = json(&[], &[a.path(), other.path()]);
    assert!(
        comparison["verdict"]
            .as_str()
            .unwrap()
            .starts_with("Nothing to compare"),
        "{comparison}"
    );
    assert_eq!(comparison["alone"].as_array().unwrap().len(), 4);
}
