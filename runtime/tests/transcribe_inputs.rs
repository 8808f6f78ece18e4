//! Inputs that are not what they should be: each is told in one line, and the others are transcribed.

#![allow(clippy::unwrap_used)]

mod heard;
mod program;
mod score;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use program::{
    FORWARD, Header, Home, WAR, assert_heard, bytes, complaints, shared_clip, shared_samples, text,
    wav,
};

/// Lets ffmpeg make a file; `false`, with a line `skipped: …`, where it can't.
fn ffmpeg(arguments: &str, to: &Path) -> bool {
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(arguments.split(' '))
        .arg(to)
        .status();
    let made = made.is_ok_and(|status| status.success());
    if !made {
        println!("skipped: ffmpeg can't make {}", to.display());
    }
    made
}

#[test]
fn what_is_no_recording_is_told_in_one_line_and_the_others_are_transcribed() {
    let (Some(home), Some(forward), Some(war)) = (
        Home::new(),
        shared_samples("goforward.wav"),
        shared_clip("speechbrain_spk2_snt1.wav"),
    ) else {
        return;
    };
    home.file("first.wav", wav(&forward));
    fs::create_dir(home.path("folder")).unwrap();
    home.file("empty.wav", "");
    home.file("header.wav", Header::s16(0).bytes());
    home.file("stub.wav", &Header::s16(0).bytes()[..30]);
    home.file("text.wav", "Dear diary,\n");
    let sound = bytes(&forward);
    let lie = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::s16(sound.len());
        change(&mut header);
        [header.bytes(), sound.clone()].concat()
    };
    home.file("no-channels.wav", lie(&|header| header.channels = 0));
    home.file("no-rate.wav", lie(&|header| header.rate = 0));
    home.file("huge-rate.wav", lie(&|header| header.rate = u32::MAX));
    home.file("channels.wav", lie(&|header| header.channels = u16::MAX));
    home.file("bits.wav", lie(&|header| header.bits = 0));
    symlink("loop.wav", home.path("loop.wav")).unwrap();
    // (what is named, what the complaint calls it, what it says)
    let mut bad: Vec<(OsString, &str, &str)> = vec![
        ("missing.wav".into(), "missing.wav", "no such file"),
        ("folder".into(), "folder", "is a directory"),
        ("empty.wav".into(), "empty.wav", "is empty"),
        ("header.wav".into(), "header.wav", "holds no samples"),
        ("stub.wav".into(), "stub.wav", "header"),
        ("text.wav".into(), "text.wav", "is no sound file"),
        ("no-channels.wav".into(), "no-channels.wav", "channel"),
        ("no-rate.wav".into(), "no-rate.wav", "rate"),
        ("huge-rate.wav".into(), "huge-rate.wav", "rate"),
        ("channels.wav".into(), "channels.wav", "channel"),
        ("bits.wav".into(), "bits.wav", ""),
        ("loop.wav".into(), "loop.wav", ""),
        (
            "new\nline\u{1b}[2J.wav".into(),
            "new\\nline\\u{1b}[2J.wav",
            "no such file",
        ),
        (
            OsString::from_vec(b"latin\xe9.wav".to_vec()),
            "latin\u{fffd}.wav",
            "no such file",
        ),
    ];
    if ffmpeg(
        "-f lavfi -i testsrc=d=1:s=64x64:r=5 -an -c:v mpeg4",
        &home.path("video.mp4"),
    ) {
        bad.push(("video.mp4".into(), "video.mp4", "no audio track"));
    }
    let files: Vec<&OsStr> = std::iter::once(OsStr::new("first.wav"))
        .chain(bad.iter().map(|(file, ..)| file.as_os_str()))
        .chain([war.as_os_str()])
        .collect();
    let output = home.transcribe(files);
    let said = complaints(&output, 1);
    for ((_, name, reason), line) in bad.iter().zip(&said) {
        let told = line
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(": ") && rest.contains(reason));
        assert!(told, "{name}, {reason}: {line}");
    }
    assert_eq!(said.len(), bad.len(), "{said:#?}");
    let heard = text(&output.stdout);
    let lines: Vec<&str> = heard.lines().collect();
    assert_eq!(lines.len(), 2, "{heard}");
    assert_heard(FORWARD, lines[0]);
    assert_heard(WAR, lines[1]);
}

#[test]
fn speech_in_a_damaged_recording_is_still_transcribed() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    let sound = bytes(&forward);
    let with = |riff: u32, data: u32, sound: &[u8]| {
        let header = Header {
            riff,
            data,
            ..Header::s16(0)
        };
        [header.bytes(), sound.to_vec()].concat()
    };
    let size = sound.len() as u32;
    // (name, content, whether the user is told that something is wrong). Sizes that say "not known" are what
    // programs write that stream into a pipe: 0, all ones, sox's 0x7ffff024. They are no damage.
    let files = [
        ("zero.wav", with(0, 0, &sound), false),
        ("ones.wav", with(u32::MAX, u32::MAX, &sound), false),
        ("sox.wav", with(0x7fff_f024, 0x7fff_f000, &sound), false),
        (
            "long.wav",
            with(size + 36 + 50_000, size + 50_000, &sound),
            true,
        ),
        (
            "odd.wav",
            with(size + 36, size, &sound[..sound.len() - 1]),
            true,
        ),
    ];
    for (name, content, _) in &files {
        home.file(name, content);
    }
    // Floats of which a tenth is no number: every tenth of a stretch before the speech, and one inside it.
    let mut floats: Vec<f32> = forward.iter().map(|&s| f32::from(s) / 32768.0).collect();
    for i in (0..4000).step_by(10) {
        floats[i] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][i / 10 % 3];
    }
    floats[20_000] = f32::NAN;
    let floats: Vec<u8> = floats.iter().flat_map(|s| s.to_le_bytes()).collect();
    let header = Header {
        code: 3,
        bits: 32,
        ..Header::s16(floats.len())
    };
    home.file("nan.wav", [header.bytes(), floats].concat());
    let mut told: Vec<&str> = files.iter().filter(|f| f.2).map(|f| f.0).collect();
    told.push("nan.wav");

    let names: Vec<&str> = files.iter().map(|f| f.0).chain(["nan.wav"]).collect();
    let output = home.transcribe(&names);
    let said = complaints(&output, 1);
    let about: Vec<&str> = said.iter().map(|l| l.split(':').next().unwrap()).collect();
    assert_eq!(about, told, "{said:#?}");
    let heard = text(&output.stdout);
    assert_eq!(heard.lines().count(), names.len(), "{heard}");
    for line in heard.lines() {
        assert_heard(FORWARD, line);
    }
    // Damage is an exit code of its own file: a stream of unknown length alone is none.
    assert!(complaints(&home.transcribe(["zero.wav", "ones.wav"]), 0).is_empty());
}

#[test]
fn a_size_that_is_too_small_hides_no_more_than_it_says() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    // The header says: one second. What lies behind it is another chunk to any reader of WAV.
    let sound = bytes(&forward);
    let header = Header {
        riff: 36 + 32_000,
        data: 32_000,
        ..Header::s16(0)
    };
    home.file("short.wav", [header.bytes(), sound].concat());
    let output = home.transcribe(["short.wav", "--format", "json"]);
    let said = text(&output.stderr);
    assert!(said.lines().count() <= 1, "{said}");
    for object in program::objects(&text(&output.stdout)) {
        assert!(object["end"].as_f64().unwrap() <= 1.0, "{object}");
    }
}

#[test]
fn the_content_decides_not_the_name() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    let source = home.file("forward.wav", wav(&forward));
    let ogg = home.path("ogg.wav");
    if !ffmpeg(
        &format!("-i {} -c:a libvorbis -f ogg", source.display()),
        &ogg,
    ) {
        return;
    }
    let output = home.transcribe(["ogg.wav"]);
    assert!(complaints(&output, 0).is_empty());
    assert_heard(FORWARD, &text(&output.stdout));
}

#[test]
fn a_file_that_may_not_be_read_and_a_log_that_may_not_be_written_are_told() {
    let (Some(home), Some(forward)) = (Home::copied(), shared_samples("goforward.wav")) else {
        return;
    };
    let secret = home.file("secret.wav", wav(&forward));
    let good = home.file("good.wav", wav(&forward));
    let program = home.path("firstword");
    fs::copy(env!("CARGO_BIN_EXE_firstword"), &program).unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&secret, 0o000);
    mode(&good, 0o644);
    mode(&program, 0o755);
    mode(&home.path(""), 0o555);
    let mut command = home.program(&program);
    command.args(["transcribe", "secret.wav", "good.wav"]);
    if rustix::process::geteuid().is_root() {
        // Root may read anything: somebody else has to try ("nobody" on Debian).
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    mode(&home.path(""), 0o755);
    let said = complaints(&output, 1);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(
        said[0].starts_with("secret.wav: permission denied"),
        "{said:?}"
    );
    assert!(said[1].contains("log: can't be written"), "{said:?}");
    assert_heard(FORWARD, &text(&output.stdout));
}

#[test]
fn each_channel_of_a_recording_can_be_heard_alone() {
    let (Some(home), Some(both)) = (Home::new(), shared_clip("stereo_left_right.wav")) else {
        return;
    };
    let clips = score::all_clips().unwrap();
    for channel in [1, 2] {
        let picked = channel.to_string();
        let output = home.transcribe([OsStr::new("--channel"), picked.as_ref(), both.as_ref()]);
        assert!(complaints(&output, 0).is_empty());
        let said = clips
            .iter()
            .find(|clip| clip.path.file_name() == both.file_name() && clip.channel == Some(channel))
            .unwrap();
        let (errors, words) = score::errors(&said.text, &text(&output.stdout));
        assert!(errors * 4 <= words, "{errors} of {words}");
    }
}

#[test]
fn a_channel_that_is_not_there_is_an_error_of_its_file() {
    let (Some(home), Some(both), Some(forward)) = (
        Home::new(),
        shared_clip("stereo_left_right.wav"),
        shared_samples("goforward.wav"),
    ) else {
        return;
    };
    home.file("mono.wav", wav(&forward));
    let output = home.transcribe([
        OsStr::new("--channel"),
        "2".as_ref(),
        "mono.wav".as_ref(),
        both.as_ref(),
    ]);
    let said = complaints(&output, 1);
    assert_eq!(
        said,
        ["mono.wav: channel 2 does not exist: the source has 1 (numbered from 1)"]
    );
    assert!(!text(&output.stdout).is_empty());
}

#[test]
fn names_that_look_like_flags_and_names_given_twice_are_files() {
    let (Some(home), Some(forward)) = (Home::new(), shared_samples("goforward.wav")) else {
        return;
    };
    home.file("-x.wav", wav(&forward));
    home.file(
        OsString::from_vec(b"\xff.wav".to_vec()).as_os_str(),
        wav(&forward),
    );
    let odd = OsString::from_vec(b"\xff.wav".to_vec());
    let output = home.transcribe([OsStr::new("--"), "-x.wav".as_ref(), "-x.wav".as_ref(), &odd]);
    assert!(complaints(&output, 0).is_empty());
    let heard = text(&output.stdout);
    let lines: Vec<&str> = heard.lines().collect();
    assert_eq!(lines.len(), 3, "{heard}");
    assert!(lines.iter().all(|line| *line == lines[0]), "{heard}");
    assert_heard(FORWARD, lines[0]);
}
