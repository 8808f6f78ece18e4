//! Standard input as it arrives, standard output that goes away, and signals.

#![allow(clippy::unwrap_used)]

mod heard;
mod program;
mod score;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use program::{
    FORWARD, Header, Home, WAR, assert_heard, bytes, complaints, objects, shared_clip,
    shared_samples, text, wav,
};
use rustix::process::{Pid, Signal, kill_process};

/// A program that is still listening. It is ended when a minute has passed: a test that waits for ever
/// must fail.
fn start(home: &Home, arguments: &[&str]) -> Child {
    let mut command = home.firstword();
    command
        .arg("transcribe")
        .args(arguments)
        .stdin(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = Pid::from_child(&child);
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(60));
        let _ = kill_process(id, Signal::KILL);
    });
    child
}

/// The program's output for these bytes on standard input.
fn fed(home: &Home, arguments: &[&str], content: &[u8]) -> std::process::Output {
    let mut child = start(home, arguments);
    // A program that refuses its input does not read it: the pipe breaks, which is no fault here.
    let _ = child.stdin.take().unwrap().write_all(content);
    child.wait_with_output().unwrap()
}

/// Samples in little pieces, as a sound card would give them.
fn drip(to: &mut impl Write, samples: &[i16]) {
    for piece in bytes(samples).chunks(3199) {
        to.write_all(piece).unwrap();
        to.flush().unwrap();
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn partials_come_while_the_stream_is_still_open() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    let mut child = start(&home, &["--partials", "--format", "json", "-"]);
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // A stream's header does not know the length.
    let header = Header {
        riff: u32::MAX,
        data: u32::MAX,
        ..Header::s16(0)
    };
    let header = header.bytes();
    input.write_all(&header[..7]).unwrap();
    input.flush().unwrap();
    thread::sleep(Duration::from_millis(20));
    input.write_all(&header[7..]).unwrap();
    drip(&mut input, &forward[..32_000]);
    // The input is open: had the program waited for its end, nothing would ever come.
    let first = lines.next().unwrap().unwrap();
    let first = &objects(&first)[0];
    assert_eq!(first["type"], "partial", "{first}");
    drip(&mut input, &forward[32_000..]);
    drop(input);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let last = objects(rest.last().unwrap());
    assert_eq!(last[0]["type"], "final");
    assert_eq!(last[0]["file"], "-");
    assert_heard(FORWARD, last[0]["text"].as_str().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn raw_samples_of_any_shape_are_heard() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    // Sound on the left, nothing on the right, 32 kHz by giving every sample twice.
    let wide: Vec<u8> = forward
        .iter()
        .flat_map(|&s| [f32::from(s) / 32768.0, 0.0].repeat(2))
        .flat_map(f32::to_le_bytes)
        .collect();
    let arguments = ["--raw", "f32le", "--rate", "32000", "--channels", "2"];
    let output = fed(
        &home,
        &[&arguments[..], &["--channel", "1", "-"]].concat(),
        &wide,
    );
    assert!(complaints(&output, 0).is_empty());
    assert_heard(FORWARD, &text(&output.stdout));

    let mut odd = bytes(&forward);
    odd.push(0);
    let output = fed(&home, &["--raw", "s16le", "-"], &odd);
    let said = complaints(&output, 1);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("-: ") && said[0].contains("odd byte"),
        "{said:?}"
    );
    assert_heard(FORWARD, &text(&output.stdout));
}

#[test]
fn an_empty_stream_is_an_error_and_a_flac_stream_is_none() {
    let (Some(home), Some(jfk)) = (Home::new(), shared_clip("jfk.flac")) else {
        return;
    };
    let output = fed(&home, &["-"], b"");
    let said = complaints(&output, 1);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("-: is empty"), "{said:?}");
    let output = fed(&home, &["-"], &fs::read(&jfk).unwrap());
    assert!(complaints(&output, 0).is_empty());
    let (errors, words) = score::errors(
        "And so my fellow Americans, ask not what your country can do for you, ask what you can do for \
         your country.",
        &text(&output.stdout),
    );
    // A live stream is cut at shorter pauses than a file.
    assert!(errors <= 2, "{errors} of {words}: {}", text(&output.stdout));
}

#[test]
fn a_stream_that_is_stopped_prints_what_is_final() {
    let (Some(home), Some(forward), Some(war)) = (
        Home::new(),
        shared_samples("goforward.wav"),
        shared_samples("speechbrain_spk2_snt1.wav"),
    ) else {
        return;
    };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = start(&home, &["--raw", "s16le", "-"]);
        let mut input = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        // A sentence, a second's pause, and the beginning of another one.
        drip(&mut input, &forward);
        drip(&mut input, &[0; 16_000]);
        drip(&mut input, &war[..12_000]);
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        assert_heard(FORWARD, &first);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        // The input is open until here: the program has not ended because of that.
        assert_eq!(child.wait().unwrap().code(), Some(code));
        drop(input);
        assert_eq!(rest, "", "the second sentence was not over");
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(said, "");
    }
}

#[test]
fn a_signal_while_the_header_is_awaited_ends_the_program() {
    let Some(home) = Home::new() else { return };
    let mut child = start(&home, &["-"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"RIFF").unwrap();
    // Models are loaded by then or not: the answer is the same, unless the handlers are not there yet.
    thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}

#[test]
fn a_reader_that_goes_away_ends_the_program_in_silence() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    for format in ["text", "json", "srt"] {
        let mut child = start(&home, &["--format", format, "-"]);
        drop(child.stdout.take());
        let _ = child.stdin.take().unwrap().write_all(&wav(&forward));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{format}");
        assert_eq!(text(&output.stderr), "", "{format}");
    }
}

#[test]
fn a_full_disk_under_the_result_is_told_once() {
    let (Some(home), Some(clip)) = (Home::new(), shared_clip("goforward.wav")) else {
        return;
    };
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = home.firstword();
    command.arg("transcribe").args([&clip, &clip]).stdout(full);
    let said = complaints(&command.output().unwrap(), 6);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("standard output") && said[0].contains("space"),
        "{said:?}"
    );

    let clip = clip.to_str().unwrap();
    let said = complaints(
        &home.transcribe(["--output", "no/such/folder/a.txt", clip]),
        6,
    );
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn nobody_has_to_read_standard_error() {
    let (Some(home), Some(clip), Some(_)) = (
        Home::new(),
        shared_clip("goforward.wav"),
        heard::demo_clip("beckett.wav"),
    ) else {
        return;
    };
    let missing = "missing.wav".into();
    for (arguments, code) in [
        (
            vec!["transcribe".into(), "--timings".into(), clip.clone()],
            0,
        ),
        (vec!["transcribe".into(), missing, clip], 1),
        (vec!["demo".into()], 0),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = home.firstword();
        let output = command.args(&arguments).stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_recording_is_never_overwritten_by_its_transcript() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    let clip = home.file("clip.wav", wav(&forward));
    symlink("clip.wav", home.path("link.txt")).unwrap();
    for (output, input) in [
        ("clip.wav", "clip.wav"),
        ("link.txt", "clip.wav"),
        ("clip.wav", "-"),
    ] {
        let mut command = home.firstword();
        command
            .args(["transcribe", "--output", output, input])
            .stdin(File::open(&clip).unwrap());
        let said = complaints(&command.output().unwrap(), 2);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(&format!("{output}: is one of the recordings")),
            "{said:?}"
        );
        assert_eq!(
            fs::read(&clip).unwrap(),
            wav(&forward),
            "the recording was emptied"
        );
    }
}

#[test]
fn a_log_that_cannot_be_written_costs_one_line_and_nothing_else() {
    let (Some(home), Some(clip), Some(war)) = (
        Home::new(),
        shared_clip("goforward.wav"),
        shared_clip("speechbrain_spk2_snt1.wav"),
    ) else {
        return;
    };
    home.file("file", "");
    // A disk that is full is tested in log_full_disk.rs.
    for folder in ["file/below", "/proc"] {
        let mut command = home.firstword();
        command.env("FIRSTWORD_LOG_FOLDER", folder);
        command.arg("transcribe").args([&clip, &war]);
        let output = command.output().unwrap();
        let said = complaints(&output, 0);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains(&format!("{folder}: can't be written")),
            "{said:?}"
        );
        // Two utterances, two loads (speech and voice activity) and the device's state.
        assert!(said[0].ends_with("5 records are lost"), "{said:?}");
        let heard = text(&output.stdout);
        let lines: Vec<&str> = heard.lines().collect();
        assert_eq!(lines.len(), 2, "{heard}");
        assert_heard(FORWARD, lines[0]);
        assert_heard(WAR, lines[1]);
    }
}
