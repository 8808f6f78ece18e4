//! Compressed sound. The inputs are made here by ffmpeg from tones and a chirp known by arithmetic, and what is
//! decoded must be those: as long, at the same time, at the same level. Where ffmpeg is absent the
//! tests say that they were skipped.
#![allow(clippy::unwrap_used)] // A test, helpers included.

use std::f64::consts::TAU;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use firstword_audio::{Channels, Conditioner, Format, Source, open, stream};

const RATE: u32 = 44_100;
const SECONDS: f64 = 3.0;

/// A chirp from 200 Hz to 3.2 kHz under a slow swell: no part of it looks like another, so that a
/// match tells the time to the sample.
fn chirp(rate: u32) -> Vec<f32> {
    let n = (SECONDS * f64::from(rate)) as usize;
    (0..n)
        .map(|i| {
            let t = i as f64 / f64::from(rate);
            let swell = 0.35 + 0.15 * (TAU * 1.7 * t).sin();
            ((TAU * (200.0 * t + 500.0 * t * t)).sin() * swell) as f32
        })
        .collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    /// `None`, and a line that says so, where ffmpeg is absent.
    fn new() -> Option<Self> {
        let found = Command::new("ffmpeg")
            .arg("-version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !found.is_ok_and(|s| s.success()) {
            println!("skipped: ffmpeg is not installed");
            return None;
        }
        let folder = Self(tempfile::tempdir().unwrap());
        let raw: Vec<u8> = chirp(RATE).iter().flat_map(|s| s.to_le_bytes()).collect();
        fs::write(folder.path("chirp.f32"), raw).unwrap();
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs ffmpeg; false where this ffmpeg lacks an encoder.
    fn ffmpeg(&self, arguments: &str, output: &str) -> bool {
        let mut command = Command::new("ffmpeg");
        command
            .args(["-nostdin", "-v", "error", "-y"])
            .args(arguments.split(' '))
            .arg(output);
        let ran = command.current_dir(self.0.path()).output().unwrap();
        if !ran.status.success() {
            println!(
                "skipped: ffmpeg {arguments}: {}",
                String::from_utf8_lossy(&ran.stderr).trim()
            );
        }
        ran.status.success()
    }

    /// Encodes the chirp.
    fn encode(&self, options: &str, output: &str) -> Option<PathBuf> {
        let input = format!("-f f32le -ar {RATE} -ac 1 -i chirp.f32");
        self.ffmpeg(&format!("{input} {options}"), output)
            .then(|| self.path(output))
    }
}

fn drain(source: &mut dyn Source) -> Vec<f32> {
    let channels = usize::from(source.format().channels);
    let mut out = Vec::new();
    loop {
        let before = out.len();
        let frames = source.read(&mut out, 1_000).unwrap();
        assert!(frames <= 1_000);
        assert_eq!(out.len(), before + frames * channels);
        if frames == 0 {
            return out;
        }
    }
}

/// How well `heard`, taken from frame `lag` on, matches.
fn correlation(heard: &[f32], expected: &[f32], lag: usize) -> f64 {
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (h, e) in heard[lag..].iter().zip(expected) {
        let (h, e) = (f64::from(*h), f64::from(*e));
        xy += h * e;
        xx += h * h;
        yy += e * e;
    }
    xy / (xx * yy).sqrt()
}

/// The last second of `heard` is that of `expected`, `late` frames later and not one more or less.
fn assert_in_time(heard: &[f32], expected: &[f32], late: usize, likeness: f64, what: &str) {
    let from = 2 * RATE as usize;
    let at = |lag| correlation(&heard[from..], &expected[from..], lag);
    let there = at(late);
    assert!(there > likeness, "{what}: correlation {there}");
    for other in [late.wrapping_sub(1), late + 1]
        .into_iter()
        .filter(|l| *l < heard.len() - from)
    {
        assert!(
            at(other) < there,
            "{what}: a better match at {other} than at {late}"
        );
    }
}

/// What is encoded how; frames that the decoder adds at the front (AAC's priming, which symphonia does
/// not take out: 1024 frames by ffmpeg's encoder); how alike it must be.
const ENCODINGS: [(&str, &str, usize, f64); 9] = [
    ("-c:a flac", "a.flac", 0, 0.999_999),
    ("-c:a flac", "flac.ogg", 0, 0.999_999),
    ("-c:a alac", "alac.m4a", 0, 0.999_999),
    ("-c:a libmp3lame -b:a 128k", "cbr.mp3", 0, 0.999),
    ("-c:a libmp3lame -q:a 2", "vbr.mp3", 0, 0.999),
    ("-c:a libvorbis -q:a 5", "a.ogg", 0, 0.999),
    ("-c:a aac -b:a 128k", "a.m4a", 1_024, 0.999),
    (
        "-c:a aac -b:a 128k -movflags +faststart",
        "fast.m4a",
        1_024,
        0.999,
    ),
    ("-c:a aac -b:a 128k", "a.aac", 1_024, 0.999),
];

#[test]
fn each_format_gives_back_what_was_encoded_whatever_the_files_name() {
    let Some(folder) = Folder::new() else { return };
    let expected = chirp(RATE);
    for (options, name, late, likeness) in ENCODINGS {
        let Some(path) = folder.encode(options, name) else {
            continue;
        };
        // Ogg named .wav opens (koboldcpp#1289).
        let disguised = folder.path(&format!("{name}.wav"));
        fs::rename(&path, &disguised).unwrap();
        let mut source = open(&disguised).unwrap();
        assert_eq!(
            source.format(),
            Format {
                sample_rate: RATE,
                channels: 1
            },
            "{name}"
        );
        let total = source.frames().unwrap() as usize;
        let heard = drain(&mut *source);
        assert_eq!(source.damage(), Vec::<String>::new(), "{name}");
        if late == 0 {
            assert_eq!(
                (heard.len(), total),
                (expected.len(), expected.len()),
                "{name}"
            );
        } else {
            // Priming in front, and the last packet of 1024 filled up.
            let most = (expected.len() + late).next_multiple_of(1_024);
            assert!(
                (expected.len() + late..=most).contains(&heard.len()),
                "{name}: {}",
                heard.len()
            );
            assert!(total.abs_diff(heard.len()) <= 1_024, "{name}: {total}");
        }
        assert_in_time(&heard, &expected, late, likeness, name);
    }
}

#[test]
fn an_mp3_whose_length_is_not_stated_or_misstated_is_heard_to_its_end() {
    let Some(folder) = Folder::new() else { return };
    let expected = chirp(RATE);
    // Loud at first, silent after: by the rate of its first frames a third of its real length.
    let fading = format!("-f f32le -ar {RATE} -ac 1 -i chirp.f32 -af apad=pad_dur=27");
    if folder.ffmpeg(
        &format!("{fading} -c:a libmp3lame -q:a 4 -write_xing 0"),
        "untold.mp3",
    ) {
        let mut source = open(&folder.path("untold.mp3")).unwrap();
        let heard = drain(&mut *source);
        // 30 s, and at most three frames of the encoder's delay and padding.
        let whole = 30 * RATE as usize;
        assert!(
            (whole..whole + 3 * 1_152 + 1).contains(&heard.len()),
            "{}",
            heard.len()
        );
        assert_eq!(source.damage(), Vec::<String>::new());
    }
    if let Some(path) = folder.encode("-c:a libmp3lame -b:a 128k", "one.mp3") {
        let one = fs::read(path).unwrap();
        fs::write(folder.path("two.mp3"), [&one[..], &one].concat()).unwrap();
        let mut source = open(&folder.path("two.mp3")).unwrap();
        let heard = drain(&mut *source);
        assert_eq!(source.damage(), Vec::<String>::new());
        // The first file's delay and padding are cut; the second's delay (576 by the encoder, 529 by
        // the decoder) is not.
        assert!(correlation(&heard, &expected, 0) > 0.999);
        assert!(correlation(&heard, &expected, expected.len() + 576 + 529) > 0.999);
    }
}

#[test]
fn a_pipe_is_heard_like_a_file_where_the_container_allows_it() {
    let Some(folder) = Folder::new() else { return };
    for (options, name, ..) in ENCODINGS {
        let Some(path) = folder.encode(options, name) else {
            continue;
        };
        let from_file = drain(&mut *open(&path).unwrap());
        match stream(Cursor::new(fs::read(&path).unwrap())) {
            Ok(mut source) => {
                // The end of the last Ogg page can only be known in advance by seeking.
                assert_eq!(drain(&mut *source), from_file, "{name}");
            }
            Err(_) if name == "fast.m4a" => panic!("an index in front needs no seeking"),
            Err(e) => {
                assert!(name.ends_with(".m4a"), "{name}: {e}");
                let message = e.to_string();
                assert!(
                    message.starts_with("M4A cannot be read from a pipe"),
                    "{message}"
                );
                assert!(
                    message.ends_with("give the file's path instead"),
                    "{message}"
                );
            }
        }
    }
}

#[test]
fn a_truncated_file_is_heard_up_to_there_and_noted() {
    let Some(folder) = Folder::new() else { return };
    for (options, name, late, likeness) in ENCODINGS {
        // An index at the end is lost with the end: an error. (Vorbis: all of the clip is in a few pages.)
        if name.ends_with("c.m4a") || name == "a.m4a" || name == "a.ogg" {
            continue;
        }
        let Some(path) = folder.encode(options, name) else {
            continue;
        };
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() * 9 / 10]).unwrap();
        let mut source = open(&path).unwrap();
        let heard = drain(&mut *source);
        assert!(
            heard.len() > chirp(RATE).len() * 6 / 10,
            "{name}: {}",
            heard.len()
        );
        assert!(correlation(&heard, &chirp(RATE), late) > likeness, "{name}");
        assert!(!source.damage().is_empty(), "{name}");
    }
}

#[test]
fn what_follows_a_damaged_place_keeps_its_time() {
    let Some(folder) = Folder::new() else { return };
    for (options, name, late, likeness) in ENCODINGS {
        // These containers carry times; an MP3 or an AAC stream without a container does not.
        if !["a.flac", "a.m4a", "fast.m4a"].contains(&name) {
            continue;
        }
        let Some(path) = folder.encode(options, name) else {
            continue;
        };
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 1_500].fill(0x55);
        fs::write(&path, bytes).unwrap();
        let mut source = open(&path).unwrap();
        let heard = drain(&mut *source);
        assert_in_time(&heard, &chirp(RATE), late, likeness, name);
        let damage = source.damage();
        assert_eq!(damage.len(), 1, "{name}: {damage:?}");
        assert!(
            damage[0].ends_with("replaced by silence"),
            "{name}: {damage:?}"
        );
    }
}

#[test]
fn stereo_keeps_its_sides() {
    let Some(folder) = Folder::new() else { return };
    let input = format!("-f f32le -ar {RATE} -ac 1 -i chirp.f32 -af pan=stereo|c0=c0|c1=0*c0");
    for (codec, name) in [
        ("-c:a flac", "s.flac"),
        ("-c:a libvorbis -q:a 5", "s.ogg"),
        ("-c:a alac", "s.m4a"),
    ] {
        if !folder.ffmpeg(&format!("{input} {codec}"), name) {
            continue;
        }
        let mut source = open(&folder.path(name)).unwrap();
        assert_eq!(source.format().channels, 2);
        let heard = drain(&mut *source);
        let left: Vec<f32> = heard.iter().step_by(2).copied().collect();
        assert!(correlation(&left, &chirp(RATE), 0) > 0.999, "{name}");
        assert!(
            heard.iter().skip(1).step_by(2).all(|s| s.abs() < 0.01),
            "{name}"
        );
    }
}

#[test]
fn a_video_is_heard_if_it_has_sound_and_refused_if_not() {
    let Some(folder) = Folder::new() else { return };
    let picture = "-f lavfi -i testsrc=d=3";
    let sound = format!("-f f32le -ar {RATE} -ac 1 -i chirp.f32");
    if folder.ffmpeg(
        &format!("{picture} {sound} -c:v mpeg4 -c:a aac -b:a 128k"),
        "both.mp4",
    ) {
        let heard = drain(&mut *open(&folder.path("both.mp4")).unwrap());
        assert_in_time(&heard, &chirp(RATE), 1_024, 0.999, "both.mp4");
    }
    for (codec, name) in [
        ("-c:v mpeg4", "silent.mp4"),
        ("-c:v mpeg4", "silent.mov"),
        ("-c:v libtheora", "silent.ogg"),
    ] {
        if folder.ffmpeg(&format!("{picture} {codec}"), name) {
            assert_eq!(
                open(&folder.path(name)).err().unwrap().to_string(),
                "has no audio track",
                "{name}"
            );
        }
    }
}

#[test]
fn codecs_that_are_not_decoded_are_named() {
    let Some(folder) = Folder::new() else { return };
    for (codec, output, expected) in [
        ("-c:a libopus", "o.ogg", "Ogg with Opus"),
        ("-c:a libopus", "o.mp4", "M4A with Opus"),
        ("-c:a ac3", "a.mp4", "M4A with AC-3"),
        ("-ar 16000 -c:a libspeex", "s.ogg", "Ogg with Speex"),
        ("-c:a mp2", "a.mp2", "MPEG layer II"),
        ("-c:a libopus", "o.webm", "Matroska/WebM"),
        ("-c:a pcm_s16be", "a.aiff", "AIFF"),
    ] {
        let Some(path) = folder.encode(codec, output) else {
            continue;
        };
        let message = open(&path).err().unwrap().to_string();
        assert!(
            message.starts_with(&format!("holds {expected}, which is not supported")),
            "{message}"
        );
    }
}

/// A cheap sequence of numbers, the same in every run.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    }
}

#[test]
fn damage_anywhere_ends_quietly() {
    let Some(folder) = Folder::new() else { return };
    let rounds: u64 = std::env::var("FIRSTWORD_FUZZ_ROUNDS").map_or(40, |n| n.parse().unwrap());
    for (options, name, ..) in ENCODINGS {
        let Some(path) = folder.encode(&format!("-t 0.4 {options}"), name) else {
            continue;
        };
        let whole = fs::read(&path).unwrap();
        for seed in 0..rounds {
            let mut bytes = whole.clone();
            let mut number = numbers(seed);
            // Most of what is fragile is in the first and in the last kilobyte.
            for _ in 0..=number(12) {
                let at = match number(3) {
                    0 => number(bytes.len().min(1_024)),
                    1 => bytes.len() - 1 - number(bytes.len().min(1_024)),
                    _ => number(bytes.len()),
                };
                bytes[at] = number(256) as u8;
            }
            if number(2) == 0 {
                bytes.truncate(number(whole.len()));
            }
            fs::write(&path, &bytes).unwrap();
            for source in [open(&path), stream(Cursor::new(bytes))] {
                let Ok(mut source) = source else { continue };
                let (mut out, mut frames) = (Vec::new(), 0_u64);
                while let Ok(n @ 1..) = source.read(&mut out, 4_096) {
                    frames += n as u64;
                    out.clear();
                    assert!(frames < 400_000_000, "{name}, seed {seed}: no end");
                }
                source.damage();
            }
        }
    }
}

/// The folder of clips that all projects share.
fn shared(file: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared");
    let folder =
        std::env::var_os("FIRSTWORD_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join(file);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is absent", path.display());
    None
}

#[test]
fn a_wav_that_ffmpeg_writes_into_a_pipe_is_the_chirp() {
    let Some(folder) = Folder::new() else { return };
    for (options, slack) in [
        ("-c:a pcm_s16le -f wav", 1.0 / 32_768.0),
        ("-c:a pcm_s24le -f wav", 1.0 / 8_388_608.0),
        ("-c:a pcm_f32le -f wav", 0.0),
        ("-c:a pcm_f64le -rf64 always -f wav", 0.0),
    ] {
        let arguments =
            format!("-nostdin -v error -f f32le -ar {RATE} -ac 1 -i chirp.f32 {options} -");
        let mut ffmpeg = Command::new("ffmpeg")
            .args(arguments.split(' '))
            .current_dir(folder.0.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut source = stream(ffmpeg.stdout.take().unwrap()).unwrap();
        let heard = drain(&mut *source);
        ffmpeg.wait().unwrap();
        assert_eq!(source.damage(), Vec::<String>::new(), "{options}");
        let expected = chirp(RATE);
        assert_eq!(heard.len(), expected.len(), "{options}");
        assert!(
            heard
                .iter()
                .zip(&expected)
                .all(|(h, e)| (h - e).abs() <= slack),
            "{options}"
        );
    }
}

#[test]
fn every_shared_clip_is_heard_without_complaint() {
    let Some(manifest) = shared("speech/manifest.tsv") else {
        return;
    };
    let clips: Vec<_> = fs::read_dir(manifest.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    let is_sound = |p: &&PathBuf| p.extension().is_some_and(|e| e == "wav" || e == "flac");
    for clip in clips.iter().filter(is_sound) {
        let mut source = open(clip).unwrap();
        let total = source.frames();
        let channels = usize::from(source.format().channels);
        let heard = drain(&mut *source);
        assert_eq!(source.damage(), Vec::<String>::new(), "{}", clip.display());
        assert_eq!(
            total,
            Some((heard.len() / channels) as u64),
            "{}",
            clip.display()
        );
    }
}

#[test]
fn a_speech_in_flac_becomes_eleven_seconds_of_16_khz_mono() {
    let Some(path) = shared("speech/jfk.flac") else {
        return;
    };
    let mut source = open(&path).unwrap();
    // ffprobe: 44100 Hz, 2 channels, 485100 frames.
    let format = source.format();
    assert_eq!(
        format,
        Format {
            sample_rate: 44_100,
            channels: 2
        }
    );
    assert_eq!(source.frames(), Some(485_100));
    let heard = drain(&mut *source);
    assert_eq!(heard.len(), 2 * 485_100);
    let mut conditioner = Conditioner::new(format, Channels::Mix).unwrap();
    let mut speech = conditioner.push(&heard).unwrap().to_vec();
    speech.extend_from_slice(conditioner.finish().unwrap());
    // 485100 / 44100 = 11 s.
    assert_eq!(speech.len(), 176_000);
    assert!(speech.iter().all(|s| s.abs() <= 1.0));
}
