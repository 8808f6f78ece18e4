//! `firstword model` from the outside. Nothing here touches the network: Python is absent, or a stand-in.

use std::fs;
use std::io::{BufRead, BufReader, Write};
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
fn a_model_under_terms_shows_them_and_is_not_fetched_before_they_are_accepted() {
    let home = tempfile::tempdir().unwrap();
    for flags in [&["pull", "gemma-3-270m"][..], &["pull", "--all"]] {
        let output = model(home.path()).args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(7), "{said}");
        for part in [
            "Gemma Terms of Use",
            "https://ai.google.dev/gemma/terms",
            "firstword model pull gemma-3-270m --accept-licence",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(
            said.lines()
                .last()
                .unwrap()
                .starts_with("firstword: gemma-3-270m")
        );
    }
    assert!(
        fs::read_dir(home.path()).unwrap().next().is_none(),
        "refusing must not write anything"
    );
    // Accepted, it goes on to fetch: here, without Python, it gets no further.
    let output = model(home.path())
        .args(["pull", "gemma-3-270m", "--accept-licence"])
        .output()
        .unwrap();
    assert!(refused(&output, 5).contains("python3 not found"));
    assert_eq!(
        fs::read_dir(home.path().join("accepted")).unwrap().count(),
        1
    );
}

#[test]
fn flags_and_addresses_that_mean_nothing_are_refused_before_anything_is_asked() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (&["--as", "x", "silero-vad"][..], "--as"),
        (
            &["--as", "x", "https://a.invalid/a", "https://a.invalid/b"],
            "found 2",
        ),
        (&["hf:nobody"], "hf:OWNER/REPOSITORY"),
        (&["https://me:pw@a.invalid/x.gguf"], "--token-file"),
        (&["http://a.invalid/x.gguf"], "plain http"),
        (
            &["https://a.invalid/x", "--token-file", "/no/such/file"],
            "/no/such/file",
        ),
        (&["https://a.invalid/x", "--as", "../x"], "'../x'"),
        (&["https://a.invalid/x", "--as", "silero-vad"], "catalogue"),
    ] {
        let output = model(home.path())
            .arg("pull")
            .args(arguments)
            .output()
            .unwrap();
        let said = refused(&output, 2);
        assert!(said.contains(part) && !said.contains(":pw@"), "{said}");
    }
    let output = model(home.path())
        .args(["pull", "--offline", "https://a.invalid/x.gguf"])
        .output()
        .unwrap();
    assert!(refused(&output, 3).contains("--offline"));
    assert!(!home.path().join("downloads").exists());
}

/// A server that gives these bytes for every address, and then ends.
fn give(times: usize, bytes: &'static [u8]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("this machine answers itself");
    let port = listener
        .local_addr()
        .expect("this machine answers itself")
        .port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(times) {
            let mut stream = stream.expect("this machine answers itself");
            let mut lines =
                BufReader::new(stream.try_clone().expect("this machine answers itself")).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                bytes.len()
            );
            stream
                .write_all(head.as_bytes())
                .expect("this machine answers itself");
            stream
                .write_all(bytes)
                .expect("this machine answers itself");
        }
    });
    port
}

#[test]
fn what_an_address_gives_is_listed_verified_and_said_how_to_use() {
    let home = tempfile::tempdir().unwrap();
    let address = format!("http://127.0.0.1:{}/tiny.gguf", give(1, b"GGUF and more"));
    let output = model(home.path())
        .args(["pull", &address, "--as", "mine"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("mine: fetched\n"), "{told}");
    let file = home.path().join("downloads/mine/tiny.gguf");
    assert!(
        told.contains(&format!("firstword model import {}", file.display())),
        "{told}"
    );

    let output = model(home.path())
        .args(["list", "--format", "json"])
        .output()
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let last: serde_json::Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    assert_eq!(
        (last["name"].as_str(), last["state"].as_str()),
        (Some("mine"), Some("ready"))
    );
    assert_eq!(
        (last["bytes"].as_u64(), last["from"].as_str()),
        (Some(13), Some(address.as_str()))
    );
    let output = model(home.path()).arg("verify").output().unwrap();
    assert_eq!(output.stdout, b"mine: whole\n");
    fs::write(&file, "GGUF and mare").unwrap();
    let output = model(home.path())
        .args(["verify", "mine"])
        .output()
        .unwrap();
    assert!(refused(&output, 3).contains("damaged"));
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

#[test]
fn remove_takes_all_that_a_name_stands_for_and_says_the_bytes() {
    let home = tempfile::tempdir().unwrap();
    for (file, bytes) in [
        ("models/gemma-3-270m/weights.gguf", 1000),
        ("imported/gemma-3-270m/model.onnx", 23),
        ("imported/mine/model.onnx", 5),
    ] {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; bytes]).unwrap();
    }
    let remove = |arguments: &[&str]| {
        let mut command = model(home.path());
        command.arg("remove").args(arguments).output().unwrap()
    };
    // Nobody can be asked, and one of two names is wrong: nothing goes.
    let said = refused(&remove(&["mine"]), 2);
    assert!(said.contains("--yes"), "{said}");
    let said = refused(&remove(&["--yes", "mine", "gemma"]), 3);
    assert!(said.contains("the store has: gemma-3-270m, mine"), "{said}");
    for outside in ["../models", "..", "imported/mine", ""] {
        refused(&remove(&["--yes", outside]), 3);
    }
    assert!(home.path().join("imported/mine/model.onnx").exists());

    let output = remove(&["--yes", "gemma-3-270m"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "gemma-3-270m: removed, 1023 bytes freed\n"
    );
    assert!(!home.path().join("models/gemma-3-270m").exists());
    assert!(!home.path().join("imported/gemma-3-270m").exists());
    assert!(home.path().join("imported/mine/model.onnx").exists());
    let said = refused(&remove(&["--yes", "gemma-3-270m"]), 3);
    assert!(said.contains("the store has: mine"), "{said}");
}
