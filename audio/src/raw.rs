//! Raw PCM: samples without a header, whose meaning the caller knows (`arecord -t raw`, a socket).

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::error::Error;
use crate::pcm::{Encoding, Frames};
use crate::source::{Format, Source};

/// How one raw sample lies in the bytes. Spelled as ffmpeg spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sample {
    /// Unsigned 8 bits, the middle at 128.
    U8,
    /// Signed 16 bits, little endian.
    S16Le,
    /// Signed 16 bits, big endian (network order, RTP's L16).
    S16Be,
    /// Signed 24 bits in three bytes, little endian.
    S24Le,
    /// Signed 32 bits, little endian.
    S32Le,
    /// 32-bit float, little endian.
    F32Le,
}

impl Sample {
    /// All of them, for help texts.
    pub const ALL: [Self; 6] = [
        Self::S16Le,
        Self::S16Be,
        Self::S24Le,
        Self::S32Le,
        Self::F32Le,
        Self::U8,
    ];

    /// The name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::S16Le => "s16le",
            Self::S16Be => "s16be",
            Self::S24Le => "s24le",
            Self::S32Le => "s32le",
            Self::F32Le => "f32le",
        }
    }

    const fn encoding(self) -> Encoding {
        match self {
            Self::U8 => Encoding::U8,
            Self::S16Le => Encoding::S16Le,
            Self::S16Be => Encoding::S16Be,
            Self::S24Le => Encoding::S24Le,
            Self::S32Le => Encoding::S32Le,
            Self::F32Le => Encoding::F32Le,
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Sample {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let known = Self::ALL
            .into_iter()
            .find(|sample| sample.name().eq_ignore_ascii_case(s));
        known.ok_or_else(|| Error::RawFormat(s.to_owned()))
    }
}

/// Opens a file (or a named pipe) of raw samples.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Directory`], [`Error::Permission`], [`Error::Empty`], and those of
/// [`Raw::new`].
pub fn open(path: &Path, sample: Sample, format: Format) -> Result<Box<dyn Source>, Error> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(Error::Directory);
    }
    let length = meta.is_file().then_some(meta.len());
    if length == Some(0) {
        return Err(Error::Empty);
    }
    Ok(Box::new(Raw::with_length(file, sample, format, length)?))
}

/// A source of raw PCM.
pub struct Raw<R> {
    frames: Frames<R>,
    total: Option<u64>,
}

impl<R: Read> Raw<R> {
    /// Reads samples of this type until the reader ends. Nothing is read yet.
    ///
    /// # Errors
    /// [`Error::Rate`], [`Error::ChannelCount`].
    pub fn new(reader: R, sample: Sample, format: Format) -> Result<Self, Error> {
        Self::with_length(reader, sample, format, None)
    }

    /// As [`Raw::new`], where the number of bytes is known (for [`Source::frames`]).
    ///
    /// # Errors
    /// [`Error::Rate`], [`Error::ChannelCount`].
    pub fn with_length(
        reader: R,
        sample: Sample,
        format: Format,
        bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let format = Format::new(format.sample_rate, u32::from(format.channels))?;
        let frames = Frames::new(reader, sample.encoding(), format, None);
        let total = bytes.map(|b| b / frames.frame_bytes() as u64);
        Ok(Self { frames, total })
    }
}

impl<R: Read + Send> Source for Raw<R> {
    fn format(&self) -> Format {
        self.frames.format()
    }

    fn frames(&self) -> Option<u64> {
        self.total
    }

    fn read(&mut self, out: &mut Vec<f32>, max_frames: usize) -> Result<usize, Error> {
        let n = self.frames.read(out, max_frames)?;
        if n == 0 && self.frames.ended() && self.frames.delivered() == 0 {
            return Err(Error::NoSamples);
        }
        Ok(n)
    }

    fn damage(&self) -> Vec<String> {
        self.frames.damage()
    }
}
