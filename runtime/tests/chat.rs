//! `firstword chat` as a person or a script runs it, with a real model.

#![allow(clippy::unwrap_used)]

mod heard;
mod imported;
mod program;
mod score;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use program::{Home, complaints, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const QUESTION: &str = "What is the capital of France?";

/// A home, and the model in it.
struct Chat {
    home: Home,
    model: PathBuf,
}

impl Chat {
    /// `None`, with a line `skipped: …`, where model or library are absent.
    fn new() -> Option<Self> {
        let (home, model) = (Home::new()?, imported::smollm()?);
        Some(Self { home, model })
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.home.firstword();
        command.arg("chat").arg("--model").arg(&self.model);
        command.args(arguments);
        command
    }

    fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it says where all goes well.
    fn says<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        let output = self.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said, "");
        text(&output.stdout)
    }

    /// The only complaint, of a run that printed nothing.
    fn refusal<A: AsRef<OsStr>>(
        &self,
        code: i32,
        arguments: impl IntoIterator<Item = A>,
    ) -> String {
        let output = self.run(arguments);
        let said = complaints(&output, code);
        assert_eq!(said.len(), 1, "{said:#?}");
        assert_eq!(text(&output.stdout), "");
        said[0].clone()
    }

    /// The same with something on standard input.
    fn hears(&self, input: &[u8], arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    fn last_record(&self) -> Value {
        self.home.records().pop().unwrap()
    }
}

#[test]
fn a_question_on_the_command_line_is_answered_as_llama_cpp_answers_it() {
    let Some(chat) = Chat::new() else { return };
    let said = chat.says(["--max-tokens", "12", QUESTION]);
    // llama.cpp 0.3.36 (its Python package) on the same file, greedy, the file's own chat template.
    let expected = "L'Étoile, la Marseillaise, la femme";
    assert!(expected.starts_with(said.trim_end()), "{said:?}");
    assert!(
        said.chars().count() > 20 && said.ends_with('\n'),
        "{said:?}"
    );
    let record = chat.last_record();
    assert_eq!(record["kind"], "request");
    assert_eq!(record["precision"], "exact");
    assert_eq!(record["tokens"], 12);
    assert_eq!(record["finish"], "length");
}

#[test]
fn a_prompt_from_standard_input_gives_the_same_reply() {
    let Some(chat) = Chat::new() else { return };
    let output = chat.hears(QUESTION.as_bytes(), &["--max-tokens", "8", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        chat.says(["--max-tokens", "8", QUESTION])
    );
}

#[test]
fn prompts_that_are_no_text_are_refused() {
    let Some(chat) = Chat::new() else { return };
    let said = chat.refusal(1, [OsStr::from_bytes(b"ab\xffc")]);
    assert!(said.contains("UTF-8") && said.contains("at 2"), "{said}");
    for empty in ["", " \n"] {
        let said = chat.refusal(1, [empty]);
        assert!(said.contains("expected some text"), "{said}");
    }
    let output = chat.hears(b"\xfe", &["-"]);
    let said = complaints(&output, 1);
    assert!(said[0].contains("standard input"), "{said:?}");
    let output = chat.hears(b"", &["-"]);
    assert_eq!(complaints(&output, 1).len(), 1);
}

#[test]
fn a_prompt_longer_than_the_window_is_refused_with_both_numbers() {
    let Some(chat) = Chat::new() else { return };
    let mut command = chat.command(["--raw", &"one two ".repeat(200)]);
    let output = command
        .env("FIRSTWORD_LANGUAGE_WINDOW", "64")
        .output()
        .unwrap();
    let said = complaints(&output, 1);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("64") && said[0].contains("40"), "{said:?}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_reply_that_fills_the_window_is_kept_and_says_so() {
    let Some(chat) = Chat::new() else { return };
    let mut command = chat.command([QUESTION]);
    let output = command
        .env("FIRSTWORD_LANGUAGE_WINDOW", "48")
        .output()
        .unwrap();
    let said = complaints(&output, 0);
    assert!(said[0].contains("window of 48 tokens"), "{said:?}");
    assert!(!output.stdout.is_empty());
    assert_eq!(chat.last_record()["finish"], "window");
}

#[test]
fn models_that_are_not_there_are_named() {
    let Some(mut chat) = Chat::new() else { return };
    chat.model = "smolm2-135m-instruct".into();
    let said = chat.refusal(3, ["Hi"]);
    assert!(said.contains("smollm2-135m-instruct"), "{said}");
    fs::create_dir(chat.home.path("empty")).unwrap();
    chat.model = "./empty".into();
    let said = chat.refusal(3, ["Hi"]);
    assert!(said.contains("empty"), "{said}");
    chat.model = "./nowhere".into();
    let said = chat.refusal(3, ["Hi"]);
    assert!(said.contains("nowhere"), "{said}");
    chat.model = "silero-vad".into();
    let said = chat.refusal(3, ["Hi"]);
    assert!(said.contains("expected a language model"), "{said}");
}

#[test]
fn flags_out_of_range_are_refused() {
    let Some(chat) = Chat::new() else { return };
    for (flag, value) in [
        ("--temperature", "-1"),
        ("--temperature", "nan"),
        ("--top-p", "0"),
        ("--top-p", "1.5"),
        ("--min-p", "2"),
        ("--repetition-penalty", "0"),
        ("--max-tokens", "0"),
    ] {
        let output = chat.run([flag, value, "Hi"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}: {said}");
        assert_eq!(said.lines().count(), 1, "{flag} {value}: {said}");
        assert!(output.stdout.is_empty(), "{flag} {value}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let Some(chat) = Chat::new() else { return };
    let say = |seed: &str| {
        let flags = ["--max-tokens", "16", "--temperature", "1.5", "--seed", seed];
        chat.says(flags.into_iter().chain(["Tell me a story."]))
    };
    let first = say("7");
    assert_eq!(say("7"), first);
    assert!(say("8") != first || say("9") != first);
}

#[test]
fn a_stop_string_ends_the_reply_and_is_not_shown() {
    let Some(chat) = Chat::new() else { return };
    // See above: the reply is "L'Étoile, la Marseillaise, …"
    let said = chat.says(["--stop", "Mars", "--stop", "xyz", QUESTION]);
    assert_eq!(said, "L'Étoile, la \n");
    assert_eq!(chat.last_record()["finish"], "stop_string");
}

#[test]
fn a_schema_is_followed() {
    let Some(chat) = Chat::new() else { return };
    let schema = r#"{"type":"object","properties":{"city":{"type":"string","maxLength":12},
        "people":{"type":"integer","minimum":0,"maximum":100000000}},
        "required":["city","people"],"additionalProperties":false}"#;
    let schema = chat.home.file("schema.json", schema);
    let flag = schema.to_str().unwrap();
    for seed in ["1", "2"] {
        let said = chat.says([
            "--json-schema",
            flag,
            "--temperature",
            "1",
            "--seed",
            seed,
            QUESTION,
        ]);
        let found: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        let object = found.as_object().unwrap();
        assert_eq!(object.len(), 2, "{said}");
        assert!(
            object["city"].as_str().unwrap().chars().count() <= 12,
            "{said}"
        );
        assert!(
            object["people"].is_i64() || object["people"].is_u64(),
            "{said}"
        );
    }
}

#[test]
fn schemas_that_are_none_are_refused() {
    let Some(chat) = Chat::new() else { return };
    for broken in ["{\"type\": ", r#"{"type": "nonsense"}"#] {
        let file = chat.home.file("broken.json", broken);
        chat.refusal(1, ["--json-schema", file.to_str().unwrap(), "Hi"]);
    }
    let said = chat.refusal(1, ["--json-schema", "missing.json", "Hi"]);
    assert!(said.contains("missing.json"), "{said}");
}

#[test]
fn ctrl_c_keeps_what_was_said() {
    let Some(chat) = Chat::new() else { return };
    // Schemas, stops and ends do not come in the way: it counts for long.
    let arguments = ["--raw", "--max-tokens", "2000", "1, 2, 3, 4, 5, 6, 7, 8,"];
    let mut child = chat.command(arguments).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 1];
    out.read_exact(&mut first).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let said = text(&[&first[..], &rest].concat());
    assert!(said.ends_with('\n'), "{said:?}");
    assert_eq!(chat.last_record()["finish"], "cancelled");
}

#[test]
fn a_conversation_over_a_pipe_goes_on_from_its_cache() {
    let Some(chat) = Chat::new() else { return };
    let talk =
        format!("/stats\n{QUESTION}\n\nAnd of Spain?\n/stats\n/reset\n{QUESTION}\n/quit\nno\n");
    let output = chat.hears(talk.as_bytes(), &["--max-tokens", "12"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let said = text(&output.stdout);
    let records = chat.home.records();
    assert_eq!(records.len(), 3, "{records:#?}");
    let tokens = |n: usize, key: &str| records[n][key].as_u64().unwrap();
    // All of the first turn but its last token is there: that one was chosen and never run.
    let first = tokens(0, "prompt_tokens") + tokens(0, "tokens");
    assert_eq!(tokens(0, "cached_tokens"), 0);
    assert_eq!(tokens(1, "cached_tokens"), first - 1);
    assert!(tokens(1, "prompt_tokens") > first);
    // Forgotten: the same prompt and the same reply as at first.
    assert_eq!(tokens(2, "prompt_tokens"), tokens(0, "prompt_tokens"));
    let replies: Vec<&str> = said.lines().collect();
    assert_eq!(replies.first(), replies.last(), "{said}");
    assert!(told.contains("there was no reply yet"), "{told}");
    assert!(
        told.contains("of them cached") && told.contains("TTFT"),
        "{told}"
    );
}

#[test]
fn a_reply_is_there_before_the_next_question_is_asked() {
    let Some(chat) = Chat::new() else { return };
    let mut command = chat.command(["--max-tokens", "5"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for question in ["Hello\n", "Who are you?\n"] {
        input.write_all(question.as_bytes()).unwrap();
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.len() > 1, "{line:?}");
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_base_model_continues_the_text_and_says_so() {
    let Some(mut chat) = Chat::new() else { return };
    let raw = chat.says(["--raw", "--max-tokens", "8", "The sun is"]);
    let base = chat.home.path("base");
    fs::create_dir(&base).unwrap();
    for entry in chat.model.read_dir().unwrap() {
        let entry = entry.unwrap();
        symlink(entry.path(), base.join(entry.file_name())).unwrap();
    }
    let file = base.join("tokenizer_config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(
        config
            .as_object_mut()
            .unwrap()
            .remove("chat_template")
            .is_some()
    );
    fs::remove_file(&file).unwrap();
    fs::write(&file, config.to_string()).unwrap();
    chat.model = base;
    let output = chat.run(["--max-tokens", "8", "The sun is"]);
    let said = complaints(&output, 0);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("no chat template"), "{said:?}");
    assert_eq!(text(&output.stdout), raw);
}

#[test]
fn a_reader_who_goes_away_ends_it_without_a_word() {
    let Some(chat) = Chat::new() else { return };
    let arguments = ["--raw", "--max-tokens", "2000", "1, 2, 3, 4, 5, 6, 7, 8,"];
    let mut child = chat.command(arguments).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_full_disk_is_told() {
    let Some(chat) = Chat::new() else { return };
    let mut command = chat.command([QUESTION]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    let said = complaints(&output, 6);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn the_model_is_found_by_its_folder_whatever_the_store_holds() {
    let Some(chat) = Chat::new() else { return };
    let beside: &Path = chat.model.parent().unwrap();
    let mut command = chat.home.firstword();
    command.current_dir(beside);
    command.args(["chat", "--max-tokens", "3", "--model", "./smollm2", "Hi"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(chat.last_record()["model"], "smollm2");
}

#[test]
fn flags_that_make_no_sense_are_refused_by_their_names_before_anything_is_loaded() {
    // There is no model in this home, and no library: neither is looked for.
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("q.wav"), b"").unwrap();
    for (flag, value) in [
        ("--temperature", "-1"),
        ("--top-p", "0"),
        ("--min-p", "1.5"),
        ("--repetition-penalty", "0"),
        ("--presence-penalty", "inf"),
    ] {
        for command in [["chat", "hello"], ["listen", "q.wav"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_firstword"))
                .env_clear()
                .env("FIRSTWORD_HOME", home.path())
                .current_dir(home.path())
                .args(command)
                .args([flag, value])
                .output()
                .unwrap();
            let said = complaints(&output, 2);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(&format!("{flag}: expected ")), "{said:?}");
        }
    }
}

#[test]
fn json_that_is_cut_is_said_and_ends_with_a_code_of_its_own() {
    let Some(chat) = Chat::new() else { return };
    let schema = r#"{"type": "object", "properties": {"names": {"type": "array", "minItems": 40,
        "items": {"type": "string", "minLength": 5}}}, "required": ["names"], "additionalProperties": false}"#;
    let schema = chat.home.file("schema.json", schema);
    let output = chat.run([
        "--max-tokens".as_ref(),
        "9".as_ref(),
        "--json-schema".as_ref(),
        schema.as_os_str(),
        "Forty names".as_ref(),
    ]);
    let said = complaints(&output, 8);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("incomplete") && said[0].contains("9 tokens"),
        "{said:?}"
    );
    assert!(text(&output.stdout).starts_with("{\"names\""));
    assert_eq!(chat.last_record()["finish"], "length");
}
