//! `firstword model` from the outside. Nothing here touches the network: Python is absent, or a stand-in.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program with its home in `home` and no program to be found but those in `home/bin`.
fn model(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstword"));
    command
        .env_clear()
        .env("FIRSTWORD_HOME", home)
        .env("PATH", home.join("bin"));
    command.arg("model").stdin(Stdio::null());
    command
}

fn refused(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(
        said.lines().all(|line| line.starts_with("firstword: ")),
        "{said}"
    );
    said
}

#[test]
fn list_shows_what_can_be_had_with_its_licence() {
    let home = tempfile::tempdir().unwrap();
    let output = model(home.path()).arg("list").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let table = String::from_utf8(output.stdout).unwrap();
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "STATE", "SIZE", "LICENCE", "FOR"]);
    for name in ["onnxruntime", "moonshine-tiny-en", "silero-vad"] {
        let row = table.lines().find(|row| row.starts_with(name)).unwrap();
        assert!(row.contains("absent") && row.contains("MIT"), "{row}");
    }
    let output = model(home.path())
        .args(["list", "--format", "json"])
        .output()
        .unwrap();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(entry["state"], "absent");
        assert!(entry["bytes"].as_u64().unwrap() > 0, "{entry}");
    }
    assert!(
        fs::read_dir(home.path()).unwrap().next().is_none(),
        "listing must not write anything"
    );
}

#[test]
fn a_replaced_model_is_shown_and_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("models/silero-vad");
    fs::create_dir_all(&folder).unwrap();
    for file in ["silero_vad.onnx", "silero_vad_openvino_16k.onnx", "LICENSE"] {
        fs::write(folder.join(file), "not a model").unwrap();
    }
    let output = model(home.path()).arg("list").output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table
            .lines()
            .any(|row| row.starts_with("silero-vad") && row.contains("damaged")),
        "{table}"
    );
    let said = refused(&model(home.path()).arg("verify").output().unwrap(), 3);
    assert!(said.contains("model pull silero-vad"), "{said}");
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_one() {
    let home = tempfile::tempdir().unwrap();
    for action in ["pull", "verify"] {
        let said = refused(
            &model(home.path())
                .args([action, "silro-vad"])
                .output()
                .unwrap(),
            3,
        );
        assert!(said.contains("did you mean 'silero-vad'?"), "{said}");
    }
}

#[test]
fn without_network_or_python_the_message_says_how_to_go_on() {
    let home = tempfile::tempdir().unwrap();
    let said = refused(
        &model(home.path())
            .args(["pull", "silero-vad", "--offline"])
            .output()
            .unwrap(),
        3,
    );
    assert!(said.contains("--from"), "{said}");
    let said = refused(
        &model(home.path())
            .args(["pull", "silero-vad"])
            .output()
            .unwrap(),
        5,
    );
    assert!(
        said.contains("python3 not found") && said.contains("--from"),
        "{said}"
    );
    assert!(!home.path().join("models").exists());
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let home = tempfile::tempdir().unwrap();
    let output = model(home.path())
        .args(["pull", "silero-vad", "--from", "/no/such/stick"])
        .output()
        .unwrap();
    assert!(refused(&output, 3).contains("/no/such/stick"));
}

#[test]
fn ctrl_c_ends_a_pull_and_leaves_no_model_behind() {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    // A download that never ends.
    let python = bin.join("python3");
    fs::write(&python, "#!/bin/sh\nexec /bin/sleep 600\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = model(home.path())
        .args(["pull", "silero-vad"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("firstword: fetching silero_vad"), "{line}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!home.path().join("models").exists());
}
