//! WAV from a file or a pipe, as it arrives. Our own reader, because the headers that are found in
//! the field lie: recorders that write to a pipe cannot know the length, editors miscount, and a
//! transcript of what is there is worth more than a complaint. The reports that each rule answers
//! are named beside the tests.

mod header;
mod pushback;

use std::io::Read;

use crate::error::Error;
use crate::pcm::Frames;
use crate::source::{Format, Source};
use header::{Extent, Header};
use pushback::Pushback;

/// A WAV source: RIFF, RF64 or BW64 holding PCM, float, A-law or mu-law.
pub struct Wav<R> {
    frames: Frames<Pushback<R>>,
    header: Header,
    total: Option<u64>,
    /// Bytes of the whole file, where it is one.
    length: Option<u64>,
    trailing: Option<String>,
}

impl<R: Read> Wav<R> {
    /// Reads the header, up to the first sample.
    ///
    /// # Errors
    /// [`Error::Header`] where the header is unusable, [`Error::Unsupported`] for a compressed WAV,
    /// [`Error::Rate`], [`Error::ChannelCount`], [`Error::NoSamples`], [`Error::Io`].
    pub fn new(reader: R) -> Result<Self, Error> {
        Self::with_length(reader, None)
    }

    /// As [`Wav::new`], for a file of so many bytes: then [`Source::frames`] is known even where the
    /// header does not say it, and bytes after the promised end are noticed.
    ///
    /// # Errors
    /// As [`Wav::new`].
    pub fn with_length(reader: R, length: Option<u64>) -> Result<Self, Error> {
        let mut reader = Pushback::new(reader);
        let header = header::read(&mut reader)?;
        let there = length.map(|l| l.saturating_sub(reader.position()));
        let promised = match header.extent {
            Extent::Bytes(n) => Some(n),
            Extent::ToEnd => None,
        };
        let frames = Frames::new(reader, header.encoding, header.format, promised);
        let bytes = match (promised, there) {
            (Some(p), Some(t)) => Some(p.min(t)),
            (p, t) => p.or(t),
        };
        let total = bytes.map(|b| b / frames.frame_bytes() as u64);
        if total == Some(0) {
            return Err(Error::NoSamples);
        }
        Ok(Self {
            frames,
            header,
            total,
            length,
            trailing: None,
        })
    }

    /// Looks at what follows the promised end, in a file (a pipe would have to be waited for).
    fn look_behind_the_end(&mut self) {
        let Extent::Bytes(promised) = self.header.extent else {
            return;
        };
        if self.length.is_none() || self.frames.missing() > 0 {
            return;
        }
        let mut next = [0; 9];
        let pushback = self.frames.reader();
        let Ok(n) = pushback.fill(&mut next) else {
            return;
        };
        // The pad byte of an odd chunk may be there or not.
        let is_chunk =
            |b: &[u8]| b.len() >= 4 && b[..4].iter().all(|c| c.is_ascii_graphic() || *c == b' ');
        if n < 9 || is_chunk(&next) || is_chunk(&next[1..]) || next.iter().all(|b| *b == 0) {
            return;
        }
        let seconds = self
            .header
            .format
            .seconds(promised / self.frames.frame_bytes() as u64);
        self.trailing = Some(format!(
            "the header promises {seconds:.3} s, but more bytes follow; what follows is left out"
        ));
    }
}

impl<R: Read + Send> Source for Wav<R> {
    fn format(&self) -> Format {
        self.header.format
    }

    fn frames(&self) -> Option<u64> {
        self.total
    }

    fn read(&mut self, out: &mut Vec<f32>, max_frames: usize) -> Result<usize, Error> {
        let had_ended = self.frames.ended();
        let n = self.frames.read(out, max_frames)?;
        if n == 0 && self.frames.ended() {
            if self.frames.delivered() == 0 {
                return Err(Error::NoSamples);
            }
            if !had_ended {
                self.look_behind_the_end();
            }
        }
        Ok(n)
    }

    fn damage(&self) -> Vec<String> {
        let mut notes = self.header.notes.clone();
        if let Extent::Bytes(promised) = self.header.extent
            && self.frames.ended()
            && self.frames.missing() > 0
        {
            let format = self.header.format;
            notes.push(format!(
                "the header promises {:.3} s, the file ends after {:.3} s",
                format.seconds(promised / self.frames.frame_bytes() as u64),
                format.seconds(self.frames.delivered()),
            ));
        }
        notes.extend(self.trailing.clone());
        notes.extend(self.frames.damage());
        notes
    }
}
