//! The real program with real models in a home of its own, and recordings to give it.

// Each test binary that includes this module uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::{heard, score};

/// What is said in `goforward.wav` of the shared clips.
pub const FORWARD: &str = "go forward ten meters";
/// What is said in `speechbrain_spk2_snt1.wav` of the shared clips.
pub const WAR: &str = "we are sure that one war is enough";

/// A `FIRSTWORD_HOME` of a test, with this machine's models and library in it.
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// `None`, with a line `skipped: …`, where models or library are absent.
    pub fn new() -> Option<Self> {
        let home = Self::empty();
        let (models, library) = Self::found()?;
        symlink(models, home.path("models")).unwrap();
        symlink(library, home.path("lib")).unwrap();
        Some(home)
    }

    /// The same with copies that a test may damage and that any user may read.
    pub fn copied() -> Option<Self> {
        let home = Self::empty();
        let (models, library) = Self::found()?;
        for model in ["moonshine-tiny-en", "silero-vad"] {
            copy(&models.join(model), &home.path("models").join(model));
        }
        copy(&library, &home.path("lib"));
        Some(home)
    }

    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    /// The folders `models` and `lib` of this machine's store.
    fn found() -> Option<(PathBuf, PathBuf)> {
        let store = heard::store();
        let models = ["moonshine-tiny-en", "silero-vad"].map(|name| store.resolve(name));
        for model in &models {
            if let Err(error) = model {
                println!("skipped: {error}");
                return None;
            }
        }
        let Some(library) = store.library_folder() else {
            println!("skipped: no ONNX Runtime in the store");
            return None;
        };
        let above = |folder: &Path| fs::canonicalize(folder.parent().unwrap()).unwrap();
        Some((above(&models[0].as_ref().unwrap().path), above(&library)))
    }

    /// A path in this home.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into this home.
    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The program, working in this home with nothing on standard input.
    pub fn firstword(&self) -> Command {
        self.program(Path::new(env!("CARGO_BIN_EXE_firstword")))
    }

    /// Another copy of the program.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("FIRSTWORD_HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `firstword transcribe ARGUMENTS`, run to its end.
    pub fn transcribe<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        let mut command = self.firstword();
        command.arg("transcribe").args(arguments);
        command.output().unwrap()
    }

    /// Everything in the log, segment after segment.
    pub fn log(&self) -> String {
        let entries = fs::read_dir(self.path("log")).into_iter().flatten();
        let mut segments: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        // Processes ran one after the other; names of the same second are told apart by their age.
        segments.sort_by_key(|path| (path.metadata().unwrap().modified().unwrap(), path.clone()));
        segments
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    }

    /// The utterances, requests and turns in the log.
    pub fn records(&self) -> Vec<serde_json::Value> {
        let lines = objects(&self.log());
        let works = ["utterance", "request", "turn"];
        lines
            .into_iter()
            .filter(|line| works.contains(&line["kind"].as_str().unwrap()))
            .collect()
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// A recording of the shared clips, or `None` with a line `skipped: …`.
pub fn shared_clip(name: &str) -> Option<PathBuf> {
    let path = score::shared_folder().join("speech").join(name);
    if path.exists() {
        return fs::canonicalize(path).ok();
    }
    println!("skipped: no {}; set FIRSTWORD_SHARED", path.display());
    None
}

/// The samples of a shared clip as s16, 16 kHz mono, or `None` with a line `skipped: …`.
pub fn shared_samples(name: &str) -> Option<Vec<i16>> {
    let sound = heard::load_clip(&shared_clip(name)?, None);
    Some(sound.iter().map(|s| (s * 32768.0) as i16).collect())
}

/// The fields of a WAV header that tests lie about.
#[derive(Clone, Copy)]
pub struct Header {
    /// 1: integers, 3: IEEE floats.
    pub code: u16,
    pub channels: u16,
    pub rate: u32,
    pub bits: u16,
    /// The `RIFF` chunk's size.
    pub riff: u32,
    /// The `data` chunk's size.
    pub data: u32,
}

impl Header {
    /// A true header of `bytes` bytes of s16, 16 kHz mono.
    pub fn s16(bytes: usize) -> Self {
        Self {
            code: 1,
            channels: 1,
            rate: 16_000,
            bits: 16,
            riff: 36 + bytes as u32,
            data: bytes as u32,
        }
    }

    /// The 44 bytes of "Multimedia Programming Interface and Data Specifications 1.0" (IBM, Microsoft 1991).
    pub fn bytes(self) -> Vec<u8> {
        let frame = u32::from(self.channels) * u32::from(self.bits / 8);
        let mut out = Vec::new();
        out.extend(b"RIFF");
        out.extend(self.riff.to_le_bytes());
        out.extend(b"WAVEfmt ");
        out.extend(16_u32.to_le_bytes());
        out.extend(self.code.to_le_bytes());
        out.extend(self.channels.to_le_bytes());
        out.extend(self.rate.to_le_bytes());
        out.extend(self.rate.wrapping_mul(frame).to_le_bytes());
        out.extend((frame as u16).to_le_bytes());
        out.extend(self.bits.to_le_bytes());
        out.extend(b"data");
        out.extend(self.data.to_le_bytes());
        out
    }
}

/// s16 samples as bytes.
pub fn bytes(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|s| s.to_le_bytes()).collect()
}

/// A WAV file of s16 samples, 16 kHz mono.
pub fn wav(samples: &[i16]) -> Vec<u8> {
    let sound = bytes(samples);
    [Header::s16(sound.len()).bytes(), sound].concat()
}

/// Text that must be UTF-8.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

/// JSON Lines.
pub fn objects(lines: &str) -> Vec<serde_json::Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

/// Panics unless `heard` says what was `said`, save for one word.
pub fn assert_heard(said: &str, heard: &str) {
    let (errors, words) = score::errors(said, heard);
    assert!(errors <= 1, "{errors} of {words} words wrong: {heard:?}");
}

/// Panics unless the program ended with this code; gives the lines of standard error, each of which
/// must be one of the program's own.
pub fn complaints(output: &Output, code: i32) -> Vec<String> {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said.lines()
        .map(|line| {
            let line = line.strip_prefix("firstword: ");
            line.unwrap_or_else(|| panic!("{said}")).to_owned()
        })
        .collect()
}
