//! `firstword model import` through the program: what it refuses, what it leaves, what it replaces.

#![allow(clippy::unwrap_used)]

mod heard;
mod imported;
mod program;
mod score;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use program::{Home, complaints, text};
use rustix::process::{Pid, Signal, kill_process};

fn import<A: AsRef<OsStr>>(home: &Home, arguments: impl IntoIterator<Item = A>) -> Output {
    let mut command = home.firstword();
    command.args(["model", "import", "--quant", "exact"]);
    command.args(arguments).output().unwrap()
}

/// The only complaint, of a run that printed nothing and left nothing.
fn refusal<A: AsRef<OsStr>>(
    home: &Home,
    code: i32,
    arguments: impl IntoIterator<Item = A>,
) -> String {
    let output = import(home, arguments);
    let said = complaints(&output, code);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(entries(&home.path("imported")), Vec::<String>::new());
    said[0].clone()
}

/// The names in a folder; none where there is no folder.
fn entries(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_that_are_no_models_are_refused_and_leave_nothing() {
    let (Some(home), Some(weights)) = (Home::new(), imported::weights()) else {
        return;
    };
    let said = refusal(&home, 1, ["nowhere.gguf"]);
    assert!(said.contains("nowhere.gguf"), "{said}");
    home.file(
        "text.gguf",
        "this is no model at all, whatever its name says",
    );
    let said = refusal(&home, 1, ["text.gguf"]);
    assert!(said.contains("text.gguf"), "{said}");
    home.file("empty.gguf", "");
    refusal(&home, 1, ["empty.gguf"]);
    // A download that was broken off: in the list of tensors, and in the weights.
    let whole = fs::read(weights).unwrap();
    for length in [20_000, whole.len() / 2, whole.len() - 1] {
        home.file("cut.gguf", &whole[..length]);
        let said = refusal(&home, 1, ["cut.gguf"]);
        assert!(said.contains("cut.gguf"), "{said}");
    }
}

#[test]
fn names_that_leave_the_store_are_refused() {
    let (Some(home), Some(weights)) = (Home::new(), imported::weights()) else {
        return;
    };
    for name in ["a/b", "../a", "/tmp/a", "", ".hidden"] {
        let arguments = [OsStr::new("--as"), OsStr::new(name), weights.as_os_str()];
        let said = refusal(&home, 2, arguments);
        assert!(said.contains("--as"), "{said}");
    }
}

#[test]
fn ctrl_c_in_the_middle_leaves_nothing() {
    let (Some(home), Some(weights)) = (Home::new(), imported::weights()) else {
        return;
    };
    let mut command = home.firstword();
    command.args(["model", "import", "--quant", "exact", "--as", "half"]);
    let child = command.arg(weights).spawn().unwrap();
    let folder = home.path("imported");
    while entries(&folder).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = complaints(&output, 130);
    assert!(said[0].contains("stopped"), "{said:?}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(entries(&folder), Vec::<String>::new());
}

#[test]
fn ctrl_c_while_a_model_is_imported_for_its_first_use_ends_the_program() {
    let (Some(home), Some(_)) = (Home::new(), imported::weights()) else {
        return;
    };
    let child = home.firstword().args(["chat", "Hello"]).spawn().unwrap();
    let folder = home.path("imported");
    while entries(&folder).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = complaints(&output, 130);
    assert!(said.len() == 1 && said[0].contains("stopped"), "{said:?}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(entries(&folder), Vec::<String>::new());
}

#[test]
fn an_import_is_used_and_replaced_by_the_next_one() {
    let (Some(home), Some(weights)) = (Home::new(), imported::weights()) else {
        return;
    };
    let arguments = [OsStr::new("--as"), OsStr::new("mine"), weights.as_os_str()];
    let output = import(&home, arguments);
    assert_eq!(complaints(&output, 0), Vec::<String>::new());
    let said = text(&output.stdout);
    assert!(said.contains("mine") && said.contains("exact"), "{said}");
    let folder = home.path("imported/mine");
    let files = entries(&folder);
    for file in [
        "model.onnx",
        "firstword.json",
        "genai_config.json",
        "tokenizer.json",
    ] {
        assert!(files.iter().any(|f| f == file), "{file}: {files:?}");
    }
    let chat = || {
        let mut command = home.firstword();
        command.args(["chat", "--model", "mine", "--max-tokens", "4", "Hello"]);
        let output = command.output().unwrap();
        assert_eq!(complaints(&output, 0), Vec::<String>::new());
        text(&output.stdout)
    };
    let reply = chat();
    fs::write(folder.join("model.onnx"), "damaged").unwrap();
    fs::write(folder.join("left"), "over").unwrap();
    let output = import(&home, arguments);
    assert_eq!(complaints(&output, 0), Vec::<String>::new());
    assert_eq!(entries(&folder), files);
    assert_eq!(entries(&home.path("imported")), ["mine"]);
    assert_eq!(chat(), reply);
}

#[test]
fn a_folder_that_the_user_named_is_not_overwritten() {
    let (Some(home), Some(weights)) = (Home::new(), imported::weights()) else {
        return;
    };
    let goal = home.path("goal");
    fs::create_dir(&goal).unwrap();
    fs::write(goal.join("mine"), "precious").unwrap();
    let into = [OsStr::new("--into"), goal.as_os_str(), weights.as_os_str()];
    let said = refusal(&home, 1, into);
    assert!(said.contains("goal"), "{said}");
    assert_eq!(entries(&goal), ["mine"]);
}
