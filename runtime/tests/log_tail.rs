//! `firstword log tail`: what somebody sees who stands beside the device.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use firstword::log::read::planted::{self, Plan, Plant};

/// Nothing is judged by this time; it only ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn firstword(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstword"));
    command
        .env_clear()
        .env("FIRSTWORD_HOME", home)
        .stdin(Stdio::null());
    command
}

fn tail(place: &Path, flags: &[&str]) -> (Option<i32>, String, String) {
    let output = firstword(&std::env::temp_dir().join("firstword-no-home"))
        .args(["log", "tail"])
        .args(flags)
        .arg(place)
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The program while it follows, and its lines.
struct Following {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Following {
    fn begin(place: &Path) -> Self {
        let mut child = firstword(&std::env::temp_dir().join("firstword-no-home"))
            .args(["log", "tail", "-f", "-n", "1"])
            .arg(place)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn append(path: &Path, text: &str) {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .expect("the log opens");
    file.write_all(text.as_bytes()).expect("the log is written");
}

fn request(at_ns: u64, model: &str) -> String {
    format!(
        "{{\"schema\":2,\"kind\":\"request\",\"at_ns\":{at_ns},\"model\":\"{model}\",\"target\":\"cpu\",\"ttft_ms\":104.0,\"e2e_ms\":304.0,\"stages_ms\":{{\"prompt\":1.0,\"prefill\":103.0,\"reply\":200.0}}}}\n"
    )
}

/// 2026-11-24 08:00 UTC.
const HEADER: &str = "{\"schema\":2,\"kind\":\"segment\",\"at_ns\":0,\"pid\":7,\"number\":0,\"version\":\"0.1.0\",\"wall_offset_ns\":1795507200000000000}\n";

#[test]
fn a_request_shows_while_the_log_is_followed_through_new_segments_and_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("latency-20261124T080000Z-7-0000.jsonl");
    append(&first, HEADER);
    append(&first, &request(1_000_000_000, "before"));
    let following = Following::begin(folder.path());
    assert!(following.next().contains("before"));
    append(&first, &request(2_000_000_000, "one"));
    let line = following.next();
    assert!(line.starts_with("08:00:02.000  request   one "), "{line}");
    assert!(
        line.contains("TTFT    104 ms") && line.contains("most: prefill 103 ms"),
        "{line}"
    );
    assert!(!line.contains('\x1b'), "{line:?}");
    // A new segment, then one of another process, while the first is deleted.
    let second = folder.path().join("latency-20261124T080003Z-7-0001.jsonl");
    append(&second, &HEADER.replace("\"number\":0", "\"number\":1"));
    append(&second, &request(3_000_000_000, "two"));
    assert!(
        following
            .next()
            .contains("process 7, firstword 0.1.0: log goes on in file 2")
    );
    assert!(following.next().contains("two"));
    fs::remove_file(&first).unwrap();
    let other = folder.path().join("latency-20261124T080004Z-8-0000.jsonl");
    append(&other, &HEADER.replace("\"pid\":7", "\"pid\":8"));
    append(&other, &request(4_000_000_000, "three"));
    assert!(following.next().contains("process 8"));
    assert!(following.next().contains("three"));
}

#[test]
fn a_log_that_does_not_exist_yet_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut following = Following::begin(folder.path());
    let mut said = String::new();
    let mut err = BufReader::new(following.child.stderr.take().unwrap());
    err.read_line(&mut said).unwrap();
    assert!(said.ends_with("no record yet; waiting for one\n"), "{said}");
    append(
        &folder.path().join("latency-x.jsonl"),
        &format!("{HEADER}{}", request(5, "soon")),
    );
    let first = following.next();
    assert!(first.contains("process 7"), "{first}");
    assert!(following.next().contains("soon"));
}

#[test]
fn the_last_turns_are_shown_with_their_latency_and_where_the_time_went() {
    let folder = tempfile::tempdir().unwrap();
    planted::write(
        folder.path(),
        &Plan {
            plant: Plant::Encode,
            trace: true,
            ..Plan::default()
        },
    )
    .unwrap();
    let (code, out, err) = tail(folder.path(), &["-n", "5"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out.lines().count(), 5, "{out}");
    assert!(
        out.lines()
            .any(|line| line.contains("voice TTFT") && line.contains('░') && line.contains('█')),
        "{out}"
    );
    assert!(!out.contains('\x1b'));
    let (_, coloured, _) = tail(folder.path(), &["-n", "5", "--color", "always"]);
    assert!(coloured.contains('\x1b'));
}

#[test]
fn a_place_without_a_log_is_refused_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = tail(folder.path(), &[]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("expected a folder with a latency log") && err.contains("an empty folder"),
        "{err}"
    );
    let (code, _, err) = tail(&folder.path().join("none"), &["-f"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("no such file or directory"), "{err}");
}
