//! Where sound comes from: one trait for everything that yields frames, and the two doors
//! (`open` for a path, `stream` for a pipe). What a file is, its content decides, never its name:
//! an Ogg file named `.wav` opens.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use crate::decoded::Decoded;
use crate::error::Error;
use crate::wav::Wav;

/// The rate and the channel count of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// Frames per second, in hertz: 1000 … 768000.
    pub sample_rate: u32,
    /// Samples per frame: 1 … 64.
    pub channels: u16,
}

impl Format {
    /// A format within the limits that every part of this crate can handle.
    ///
    /// # Errors
    /// [`Error::Rate`] outside 1 kHz … 768 kHz, [`Error::ChannelCount`] outside 1 … 64.
    pub fn new(sample_rate: u32, channels: u32) -> Result<Self, Error> {
        if !(1_000..=768_000).contains(&sample_rate) {
            return Err(Error::Rate(sample_rate));
        }
        match u16::try_from(channels) {
            Ok(channels @ 1..=64) => Ok(Self {
                sample_rate,
                channels,
            }),
            _ => Err(Error::ChannelCount(channels)),
        }
    }

    /// How long so many frames last, in seconds.
    #[must_use]
    pub fn seconds(self, frames: u64) -> f64 {
        frames as f64 / f64::from(self.sample_rate)
    }
}

/// Something that yields sound until it ends.
pub trait Source: Send {
    /// Rate and channel count of what `read` appends.
    fn format(&self) -> Format;

    /// Frames in total, where the container says so believably (for progress bars).
    fn frames(&self) -> Option<u64>;

    /// Appends at most `max_frames` interleaved frames (f32, −1…1) to `out` and returns how many;
    /// 0 is the end. Returns as soon as some are there: a live pipe does not wait for a full block.
    ///
    /// # Errors
    /// [`Error::Io`] where the system refuses to read on, [`Error::NoSamples`] where the end comes
    /// before the first whole frame.
    fn read(&mut self, out: &mut Vec<f32>, max_frames: usize) -> Result<usize, Error>;

    /// What was wrong with the source and survived, one line each. Complete once `read` returned 0.
    fn damage(&self) -> Vec<String>;
}

/// Opens a sound file: WAV (also RF64, BW64), FLAC, MP3, Ogg/Vorbis, M4A (AAC, ALAC).
///
/// A path that is not a regular file (a named pipe, `/dev/stdin`) is read as a [`stream`].
///
/// # Errors
/// [`Error::NotFound`], [`Error::Directory`], [`Error::Permission`], [`Error::Empty`],
/// [`Error::Unknown`], and what the container's reader finds wrong.
pub fn open(path: &Path) -> Result<Box<dyn Source>, Error> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(Error::Directory);
    }
    if !meta.is_file() {
        return stream(file);
    }
    let head = read_head(&mut file)?;
    match recognise(&head)? {
        Container::Wav => {
            let whole = Cursor::new(head).chain(file);
            Ok(Box::new(Wav::with_length(whole, Some(meta.len()))?))
        }
        Container::Decoded(name) => {
            io::Seek::rewind(&mut file)?;
            Ok(Box::new(Decoded::from_file(file, name, &head)?))
        }
    }
}

/// Reads sound from a pipe as it arrives. WAV yields each frame as soon as it is there; the other
/// containers need what their decoder needs, and M4A needs its index in front of the sound.
///
/// # Errors
/// As [`open`]; also [`Error::NeedsFile`] where the container cannot be read without seeking.
pub fn stream(reader: impl Read + Send + 'static) -> Result<Box<dyn Source>, Error> {
    let mut reader = reader;
    let head = read_head(&mut reader)?;
    match recognise(&head)? {
        Container::Wav => Ok(Box::new(Wav::new(Cursor::new(head).chain(reader))?)),
        Container::Decoded(name) => {
            let whole = Cursor::new(head.clone()).chain(reader);
            Ok(Box::new(Decoded::from_pipe(whole, name, &head)?))
        }
    }
}

/// As many bytes as the recognition looks at. No WAV stream that holds sound is shorter, so that
/// waiting for them does not hold a live pipe up.
const HEAD: usize = 40;

fn read_head(reader: &mut impl Read) -> Result<Vec<u8>, Error> {
    let mut head = Vec::with_capacity(HEAD);
    reader.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    if head.is_empty() {
        Err(Error::Empty)
    } else {
        Ok(head)
    }
}

enum Container {
    Wav,
    Decoded(&'static str),
}

fn recognise(head: &[u8]) -> Result<Container, Error> {
    Ok(match head {
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'A',
            b'V',
            b'I',
            b' ',
            ..,
        ] => {
            return Err(Error::Unsupported {
                what: "AVI".to_owned(),
            });
        }
        [b'R', b'I', b'F', b'F', ..]
        | [b'R', b'F', b'6', b'4', ..]
        | [b'B', b'W', b'6', b'4', ..] => Container::Wav,
        [b'f', b'L', b'a', b'C', ..] => Container::Decoded("FLAC"),
        [b'O', b'g', b'g', b'S', ..] => Container::Decoded("Ogg"),
        [b'I', b'D', b'3', ..] => Container::Decoded("MP3"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..]
        | [_, _, _, _, b'm', b'o', b'o', b'v', ..]
        | [_, _, _, _, b'm', b'd', b'a', b't', ..] => Container::Decoded("M4A"),
        // After eleven sync bits: version (01 is reserved), layer (01 is layer III; 00 is AAC's own
        // framing, ADTS). Other layers are refused, for FF FE also begins a UTF-16 text.
        [0xFF, second, ..] if second & 0xF6 == 0xF0 => Container::Decoded("AAC (ADTS)"),
        [0xFF, second, ..] if second & 0xE6 == 0xE2 && second & 0x18 != 0x08 => {
            Container::Decoded("MP3")
        }
        _ => {
            return Err(
                match KNOWN.iter().find(|(magic, _)| head.starts_with(magic)) {
                    Some((_, name)) => Error::Unsupported {
                        what: (*name).to_owned(),
                    },
                    None => Error::Unknown {
                        begins: begins(head),
                    },
                },
            );
        }
    })
}

/// Containers of sound that are known and not read, so that the message can name them.
const KNOWN: [(&[u8], &str); 11] = [
    (b"RIFX", "big-endian WAV (RIFX)"),
    (b"FORM", "AIFF"),
    (b"caff", "Core Audio (CAF)"),
    (b".snd", "Sun audio (AU)"),
    (b"#!AMR", "AMR"),
    (b"wvpk", "WavPack"),
    (b"MAC ", "Monkey's Audio"),
    (b"\x1A\x45\xDF\xA3", "Matroska/WebM"),
    (b"\x30\x26\xB2\x75\x8E\x66\xCF\x11", "Windows Media (ASF)"),
    (b"\xFF\xFC", "MPEG layer II"),
    (b"\xFF\xFD", "MPEG layer II"),
];

/// The first bytes for a person: quoted where they are text, else in hexadecimal.
fn begins(head: &[u8]) -> String {
    let first = &head[..head.len().min(12)];
    if first.iter().all(|b| (0x20..0x7F).contains(b)) {
        return format!("\"{}\"", String::from_utf8_lossy(first));
    }
    let hex: Vec<String> = first.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("the bytes {}", hex.join(" "))
}
