//! What a user meets at the door: paths that are not there, not readable, or not what their name says.
#![allow(clippy::unwrap_used)] // A test, helpers included.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use firstword_audio::{Error, open, stream};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn refusal(path: &Path) -> String {
    let message = open(path).err().unwrap().to_string();
    assert!(!message.contains('\n'));
    message
}

const WAV: &[u8] = b"RIFF\x2A\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1F\0\0\x80\x3E\0\0\x02\0\x10\0data\x06\0\0\0\0\x40\0\xC0\0\x40";

#[test]
fn a_wav_opens_whatever_its_name() {
    let folder = Folder::new();
    for name in ["a.wav", "a.mp3", "a", "a.txt"] {
        let mut source = open(&folder.file(name, WAV)).unwrap();
        assert_eq!(source.frames(), Some(3));
        let mut out = Vec::new();
        assert_eq!(source.read(&mut out, 100).unwrap(), 3);
        assert_eq!(out, [0.5, -0.5, 0.5]);
    }
}

#[test]
fn what_cannot_be_opened_is_told_apart() {
    let folder = Folder::new();
    assert_eq!(
        refusal(&folder.0.path().join("none.wav")),
        "no such file; check the path"
    );
    assert_eq!(
        refusal(folder.0.path()),
        "is a directory; name a sound file in it"
    );
    let empty = refusal(&folder.file("empty.wav", b""));
    assert_eq!(
        empty,
        "is empty (0 bytes); expected WAV, FLAC, MP3, Ogg/Vorbis or M4A"
    );
    assert_eq!(
        refusal(&folder.file("header.wav", &WAV[..44])),
        "holds no samples: there is not one whole frame of sound"
    );
}

#[test]
fn what_is_no_sound_is_refused_with_its_first_bytes() {
    let folder = Folder::new();
    let expected =
        "is no sound file: expected WAV, FLAC, MP3, Ogg/Vorbis or M4A; the file begins with";
    assert_eq!(
        refusal(&folder.file("a.wav", b"<!DOCTYPE html>")),
        format!("{expected} \"<!DOCTYPE ht\"")
    );
    assert_eq!(
        refusal(&folder.file("a.png", b"\x89PNG\r\n\x1a\n0123")),
        format!("{expected} the bytes 89 50 4e 47 0d 0a 1a 0a")
    );
    assert_eq!(
        refusal(&folder.file("a.txt", b"x")),
        format!("{expected} \"x\"")
    );
    assert_eq!(
        refusal(&folder.file("a.avi", b"RIFF\x24\0\0\0AVI LIST")),
        "holds AVI, which is not supported; convert it, for example: ffmpeg -i FILE out.wav"
    );
    // A text in UTF-16 begins like the frames of MPEG layer I.
    assert_eq!(
        refusal(&folder.file("b.txt", b"\xFF\xFEa\0")),
        format!("{expected} the bytes ff fe 61 00")
    );
}

#[test]
fn the_beginnings_of_every_container_alone_are_errors() {
    let folder = Folder::new();
    let starts: [&[u8]; 9] = [
        b"fLaC",
        b"OggS",
        b"ID3",
        b"ID3\x04\0\0\x7F\x7F\x7F\x7F",
        b"\xFF\xFB\x90\x64",
        b"\xFF\xF1\x50\x80",
        b"\0\0\0\x18ftypM4A ",
        b"\0\0\0\x08moov",
        b"RIFX\0\0\0\0WAVE",
    ];
    for start in starts {
        for padding in [0, 30, 5_000] {
            let bytes = [start, &vec![0; padding]].concat();
            refusal(&folder.file("a", &bytes));
            let piped = stream(Cursor::new(bytes)).err().unwrap().to_string();
            assert!(!piped.contains('\n'));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_named_pipe_is_read_as_a_stream() {
    let folder = Folder::new();
    let path = folder.0.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let writer = std::thread::spawn({
        let path = path.clone();
        move || {
            fs::OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .write_all(WAV)
                .unwrap()
        }
    });
    let mut source = open(&path).unwrap();
    let mut out = Vec::new();
    while source.read(&mut out, 100).unwrap() > 0 {}
    assert_eq!(out, [0.5, -0.5, 0.5]);
    writer.join().unwrap();
}

#[test]
fn a_pipe_that_holds_a_wav_is_a_wav() {
    let mut source = stream(Cursor::new(WAV)).unwrap();
    let mut out = Vec::new();
    while source.read(&mut out, 2).unwrap() > 0 {}
    assert_eq!(out, [0.5, -0.5, 0.5]);
    assert!(matches!(
        stream(Cursor::new(b"")).err().unwrap(),
        Error::Empty
    ));
}
