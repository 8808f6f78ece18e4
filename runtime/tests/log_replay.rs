//! `firstword log replay`: what another rule would have made of the same load.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use firstword::log::read::planted::{self, Plan};
use serde_json::Value;

fn replay(arguments: &[&str], place: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firstword"))
        .env_clear()
        .env(
            "FIRSTWORD_HOME",
            std::env::temp_dir().join("firstword-no-home"),
        )
        .stdin(Stdio::null())
        .args(["log", "replay"])
        .args(arguments)
        .arg(place)
        .output()
        .expect("the program starts")
}

#[test]
fn each_rule_has_its_waits_and_batches_beside_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        trace: true,
        records: 600,
        ..Plan::default()
    };
    planted::write(folder.path(), &plan).unwrap();
    let output = replay(&["--json"], folder.path());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let replay_of: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcomes = replay_of["outcomes"].as_array().unwrap();
    let names: Vec<&str> = outcomes
        .iter()
        .map(|o| o["policy"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["recorded", "none", "fixed"]);
    let steps = replay_of["steps"].as_u64().unwrap();
    assert!(steps > 600 && steps.is_multiple_of(2), "{steps}");
    for outcome in outcomes {
        assert_eq!(outcome["wait"]["count"], steps);
    }
    // Turns come eight seconds apart, and a prefill step is due when its encode step is long over: nobody meets company, so the
    // fixed rule makes nearly every step wait its 80 ms, and no rule makes none wait.
    assert_eq!(outcomes[1]["wait"]["p50_ms"], 0.0);
    assert_eq!(outcomes[2]["wait"]["p50_ms"], 80.0);
    let text = String::from_utf8(replay(&[], folder.path()).stdout).unwrap();
    for words in [
        "encode, prefill",
        "wait, ms",
        "due to over, ms",
        "calls by size",
        "recorded",
        "fixed",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let one: Value =
        serde_json::from_slice(&replay(&["--policy", "none", "--json"], folder.path()).stdout)
            .unwrap();
    assert_eq!(one["outcomes"].as_array().unwrap().len(), 2);
}

#[test]
fn a_log_without_a_trace_says_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    planted::write(
        folder.path(),
        &Plan {
            records: 20,
            ..Plan::default()
        },
    )
    .unwrap();
    let output = replay(&[], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no trace in it") && said.contains("trace = true"),
        "{said}"
    );
}
