//! The real program, from the outside: what a person sees who types something right or wrong.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use firstword::exit::EXITS;

/// The program in an environment of its own, whose home is `home`.
fn firstword(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstword"));
    command
        .env_clear()
        .env("FIRSTWORD_HOME", home)
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

/// The program must have ended by itself, with this code, and with one line on standard error.
fn assert_refused(output: &Output, code: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(
        said.starts_with("firstword: ") && said.ends_with('\n'),
        "{said:?}"
    );
    assert_eq!(said.lines().count(), 1, "{said:?}");
    said
}

#[test]
fn help_names_every_exit_code_and_every_command() {
    let home = tempfile::tempdir().unwrap();
    let output = firstword(home.path()).arg("--help").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for (exit, meaning) in EXITS {
        let line = format!("{:>3}  {meaning}", exit.code());
        assert!(help.contains(&line), "no line {line:?} in\n{help}");
    }
    for command in ["demo", "transcribe", "model", "config"] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let output = firstword(home.path())
            .args([command, "--help"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{command} --help");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn version_is_that_of_the_package() {
    let home = tempfile::tempdir().unwrap();
    let output = firstword(home.path()).arg("--version").output().unwrap();
    assert_eq!(
        text(&output.stdout),
        format!("firstword {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn config_tells_where_each_value_comes_from() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    fs::write(&file, "[voice_activity]\nmin_silence = \"0.4s\"\n").unwrap();
    let output = firstword(home.path())
        .env("FIRSTWORD_SPEECH_MODEL", "other")
        .args(["--threads", "3", "config"])
        .output()
        .unwrap();
    let printed = text(&output.stdout);
    let has = |start: &str, end: &str| {
        printed
            .lines()
            .any(|l| l.starts_with(start) && l.ends_with(end))
    };
    assert!(
        has(
            "min_silence = \"400ms\" ",
            &format!("# file {}:2", file.display())
        ),
        "{printed}"
    );
    assert!(
        has("model = \"other\" ", "# environment FIRSTWORD_SPEECH_MODEL"),
        "{printed}"
    );
    assert!(has("threads = 3 ", "# flag --threads"), "{printed}");
    assert!(has("threshold = 0.5 ", "# default"), "{printed}");
    assert!(
        has(
            "folder = \"\" ",
            &format!("# default: {}", home.path().display())
        ),
        "{printed}"
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn what_config_prints_can_be_read_back() {
    let home = tempfile::tempdir().unwrap();
    let first = firstword(home.path())
        .args(["--threads", "3", "config"])
        .output()
        .unwrap();
    fs::write(home.path().join("config.toml"), &first.stdout).unwrap();
    let json = |home: &Path, flags: &[&str]| -> serde_json::Value {
        let output = firstword(home)
            .args(flags)
            .args(["config", "--format", "json"])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let again = json(home.path(), &[]);
    let empty = tempfile::tempdir().unwrap();
    let expected = json(empty.path(), &["--threads", "3"]);
    for (section, keys) in expected.as_object().unwrap() {
        for (key, entry) in keys.as_object().unwrap() {
            assert_eq!(
                again[section][key]["value"], entry["value"],
                "{section}.{key}"
            );
            assert_eq!(
                again[section][key]["origin"]["kind"], "file",
                "{section}.{key}"
            );
        }
    }
}

#[test]
fn a_mistyped_key_is_refused_with_its_place_and_the_right_name() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    fs::write(&file, "[speech]\n\nmodle = \"x\"\n").unwrap();
    let output = firstword(home.path()).arg("config").output().unwrap();
    let said = assert_refused(&output, 2);
    assert_eq!(
        said,
        format!(
            "firstword: {}:3:1: unknown key \"modle\" in [speech]; did you mean \"model\"?\n",
            file.display()
        )
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_value_out_of_range_is_refused_with_the_flag_that_brought_it() {
    let home = tempfile::tempdir().unwrap();
    let output = firstword(home.path())
        .args(["config", "--threads", "many"])
        .output()
        .unwrap();
    assert_eq!(
        assert_refused(&output, 2),
        "firstword: --threads: expected a whole number of threads from 0 to 1024, found \"many\"\n"
    );
}

#[test]
fn a_configuration_that_cannot_be_read_is_named_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let refused = |file: &Path| {
        let output = firstword(home.path())
            .arg("--config")
            .arg(file)
            .arg("config")
            .output()
            .unwrap();
        assert_refused(&output, 2)
    };
    assert!(refused(home.path()).contains("found a folder"));
    assert!(refused(&home.path().join("none")).contains("no such file (named by flag --config)"));
    assert!(refused(Path::new("/dev/zero")).contains("1 MiB"));
    let locked = home.path().join("locked.toml");
    fs::write(&locked, "").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads everything; the refusal can only be seen by others.
    if File::open(&locked).is_err() {
        assert!(refused(&locked).contains("permission denied"));
    }
    let binary = home.path().join("binary.toml");
    fs::write(&binary, b"[speech]\nmodel = \"\xff\"\n").unwrap();
    assert!(refused(&binary).contains(":2:10: expected UTF-8"));
}

#[test]
fn escape_sequences_in_a_file_name_are_not_passed_to_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"evil\x1b[2J\n\xff.toml");
    let output = firstword(home.path())
        .arg("--config")
        .arg(name)
        .arg("config")
        .output()
        .unwrap();
    let said = assert_refused(&output, 2);
    assert!(said.contains("evil\\u{1b}[2J\\n\u{fffd}.toml"), "{said:?}");
}

#[test]
fn odd_arguments_end_in_a_message_and_never_in_a_panic() {
    let home = tempfile::tempdir().unwrap();
    let raw = OsStr::from_bytes(b"\xff\xfe\x1b[31m");
    let long = "x".repeat(100_000);
    let lines: Vec<Vec<&OsStr>> = vec![
        vec![],
        vec![raw],
        vec!["transcribe".as_ref()],
        vec![
            "transcribe".as_ref(),
            "--format".as_ref(),
            raw,
            "a.wav".as_ref(),
        ],
        vec![
            "transcribe".as_ref(),
            "--channel".as_ref(),
            "0".as_ref(),
            "a.wav".as_ref(),
        ],
        vec![
            "transcribe".as_ref(),
            "--rate".as_ref(),
            "8000".as_ref(),
            "-".as_ref(),
        ],
        vec!["transcribe".as_ref(), "-".as_ref(), "-".as_ref()],
        vec![
            "transcribe".as_ref(),
            "--format".as_ref(),
            "srt".as_ref(),
            "a".as_ref(),
            "b".as_ref(),
        ],
        vec!["config".as_ref(), "--threads".as_ref(), raw],
        vec!["config".as_ref(), "--threads".as_ref(), "-1".as_ref()],
        vec!["config".as_ref(), "--config".as_ref(), "".as_ref()],
        vec!["config".as_ref(), "--format".as_ref(), long.as_ref()],
        vec![
            "model".as_ref(),
            "pull".as_ref(),
            "--all".as_ref(),
            "x".as_ref(),
        ],
        vec!["".as_ref()],
        vec!["--".as_ref()],
    ];
    for line in lines {
        let output = firstword(home.path()).args(&line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(!output.stderr.contains(&0x1b), "{line:?}");
        assert!(
            !String::from_utf8_lossy(&output.stderr).contains("panicked"),
            "{line:?}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error_message() {
    let home = tempfile::tempdir().unwrap();
    for line in [&["config"][..], &["--help"], &["config", "--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = firstword(home.path())
            .args(line)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(141), "{line:?}");
        assert_eq!(text(&output.stderr), "", "{line:?}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let home = tempfile::tempdir().unwrap();
    for line in [&["config"][..], &["--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = firstword(home.path())
            .args(line)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = assert_refused(&output, 6);
        assert!(
            said.contains("standard output: can't be written: no space left on device"),
            "{said}"
        );
    }
}

#[test]
fn without_a_home_the_defaults_still_work() {
    let output = Command::new(env!("CARGO_BIN_EXE_firstword"))
        .env_clear()
        .arg("config")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("model = \"moonshine-tiny-en\""));
}

#[test]
fn a_pipe_may_be_the_configuration() {
    // As with `--config <(…)` of a shell.
    let home = tempfile::tempdir().unwrap();
    let mut child = firstword(home.path())
        .args(["--config", "/dev/stdin", "config"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write;
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"[speech]\nmodel = \"piped\"\n")
        .unwrap();
    let mut printed = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert!(printed.contains("model = \"piped\""), "{printed}");
}
