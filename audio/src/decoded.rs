//! FLAC, MP3, Ogg/Vorbis, M4A and bare AAC, through symphonia.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Mutex;

use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions, well_known as codecs};
use symphonia::core::errors::Error as Fault;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;

use crate::error::Error;
use crate::pcm::Sieve;
use crate::source::{Format, Source};

/// A compressed source.
pub struct Decoded {
    reader: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    format: Format,
    total: Option<u64>,
    /// Decoded and not yet handed out, interleaved, from `from` on.
    pending: Vec<f32>,
    from: usize,
    decoded: u64,
    ended: bool,
    bad_packets: u64,
    first_bad: u64,
    notes: Vec<String>,
    sieve: Sieve,
}

impl Decoded {
    /// Decodes a file. `container` names what its first bytes (`head`) look like.
    ///
    /// # Errors
    /// [`Error::Header`], [`Error::Unsupported`], [`Error::NoAudioTrack`], [`Error::NoSamples`].
    pub fn from_file(file: File, container: &'static str, head: &[u8]) -> Result<Self, Error> {
        Self::new(Box::new(file), container, head, true)
    }

    /// Decodes what comes through a pipe.
    ///
    /// # Errors
    /// As [`Decoded::from_file`]; [`Error::NeedsFile`] where the container must be sought in.
    pub fn from_pipe(
        reader: impl Read + Send + 'static,
        container: &'static str,
        head: &[u8],
    ) -> Result<Self, Error> {
        Self::new(Box::new(Pipe(Mutex::new(reader))), container, head, false)
    }

    fn new(
        source: Box<dyn MediaSource>,
        container: &'static str,
        head: &[u8],
        is_seekable: bool,
    ) -> Result<Self, Error> {
        if container == "Ogg"
            && let Some(codec) = ogg_codec(head)
        {
            return Err(Error::Unsupported {
                what: format!("Ogg with {codec}"),
            });
        }
        let stream = MediaSourceStream::new(source, Default::default());
        let options = FormatOptions::default();
        let reader = symphonia::default::get_probe()
            .probe(&Hint::new(), stream, options, MetadataOptions::default())
            .map_err(|e| match e {
                Fault::IoError(e) if e.kind() != io::ErrorKind::UnexpectedEof && is_seekable => {
                    Error::from(e)
                }
                e if is_seekable => Error::Header {
                    container,
                    reason: e.to_string(),
                },
                e => Error::NeedsFile {
                    container,
                    reason: e.to_string(),
                },
            })?;
        let track = reader
            .default_track(TrackType::Audio)
            .or_else(|| reader.first_track(TrackType::Audio));
        let track = track.ok_or(Error::NoAudioTrack)?;
        let id = track.id;
        let total = track.num_frames.filter(|n| *n > 0);
        let Some(params) = track.codec_params.as_ref().and_then(|p| p.audio()) else {
            return Err(Error::NoAudioTrack);
        };
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(params, &AudioDecoderOptions::default())
            .map_err(|e| match e {
                Fault::Unsupported(_) => Error::Unsupported {
                    what: format!("{container} with {}", codec(params.codec)),
                },
                e => Error::Header {
                    container,
                    reason: e.to_string(),
                },
            })?;
        let mut this = Self {
            reader,
            decoder,
            track: id,
            format: Format {
                sample_rate: 0,
                channels: 0,
            },
            total,
            pending: Vec::new(),
            from: 0,
            decoded: 0,
            ended: false,
            bad_packets: 0,
            first_bad: 0,
            notes: Vec::new(),
            sieve: Sieve::default(),
        };
        // The first decoded packet knows rate and channels for certain; a header may not (AAC).
        while this.pending.is_empty() && !this.ended {
            this.decode_packet()?;
        }
        if this.pending.is_empty() {
            return Err(match this.notes.first() {
                Some(note) => Error::Header {
                    container,
                    reason: note.clone(),
                },
                None => Error::NoSamples,
            });
        }
        Ok(this)
    }

    /// Decodes one packet of the track into `pending`, or finds the end.
    fn decode_packet(&mut self) -> Result<(), Error> {
        let packet = match self.reader.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => {
                self.end(None);
                return Ok(());
            }
            Err(Fault::IoError(e)) if e.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(Error::from(e));
            }
            Err(Fault::IoError(_)) => {
                self.end(Some("ends within a packet".to_owned()));
                return Ok(());
            }
            // A second stream behind the first (chained Ogg) has its own decoder.
            Err(Fault::ResetRequired) => return self.restart(),
            Err(e) => {
                let at = self.format.seconds_or_zero(self.decoded);
                self.end(Some(format!(
                    "is damaged at {at:.3} s ({e}); the rest is left out"
                )));
                return Ok(());
            }
        };
        if packet.track_id != self.track {
            return Ok(());
        }
        let start = self.pending.len();
        match self.decoder.decode(&packet) {
            Ok(buffer) => {
                let spec = buffer.spec();
                let format = Format::new(spec.rate(), spec.channels().count() as u32)?;
                if self.format.channels == 0 {
                    self.format = format;
                } else if self.format != format && buffer.frames() > 0 {
                    let at = self.format.seconds_or_zero(self.decoded);
                    let note = format!(
                        "changes to {} Hz with {} channels at {at:.3} s; the rest is left out",
                        format.sample_rate, format.channels
                    );
                    self.end(Some(note));
                    return Ok(());
                }
                self.pending
                    .resize(start + buffer.samples_interleaved(), 0.0);
                buffer.copy_to_slice_interleaved(&mut self.pending[start..]);
                self.sieve.sift(
                    &mut self.pending[start..],
                    self.decoded,
                    self.format.channels,
                );
            }
            Err(Fault::DecodeError(_) | Fault::IoError(_)) => {
                if self.bad_packets == 0 {
                    self.first_bad = self.decoded;
                }
                self.bad_packets += 1;
                // Silence of the same length keeps the times of what follows. No codec here has
                // packets longer than a second.
                let frames = packet.dur.get().min(u64::from(self.format.sample_rate));
                self.pending.resize(
                    start + frames as usize * usize::from(self.format.channels),
                    0.0,
                );
            }
            Err(Fault::ResetRequired) => return self.restart(),
            Err(e) => {
                let at = self.format.seconds_or_zero(self.decoded);
                self.end(Some(format!(
                    "cannot be decoded beyond {at:.3} s ({e}); the rest is left out"
                )));
                return Ok(());
            }
        }
        let samples = (self.pending.len() - start) as u64;
        self.decoded += samples / u64::from(self.format.channels.max(1));
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Error> {
        let track = self.reader.default_track(TrackType::Audio);
        let decoder = track.and_then(|t| {
            let params = t.codec_params.as_ref()?.audio()?;
            let options = AudioDecoderOptions::default();
            Some((
                t.id,
                symphonia::default::get_codecs()
                    .make_audio_decoder(params, &options)
                    .ok()?,
            ))
        });
        match decoder {
            Some((id, decoder)) => {
                self.track = id;
                self.decoder = decoder;
                self.total = None;
            }
            None => {
                let at = self.format.seconds_or_zero(self.decoded);
                self.end(Some(format!(
                    "changes its codec at {at:.3} s; the rest is left out"
                )));
            }
        }
        Ok(())
    }

    fn end(&mut self, note: Option<String>) {
        self.ended = true;
        self.notes.extend(note);
        // A tenth of a second of slack: encoders count their own delay or do not.
        let slack = u64::from(self.format.sample_rate / 10);
        if let Some(total) = self.total
            && self.decoded + slack < total
        {
            self.notes.push(format!(
                "the header promises {:.3} s, the file ends after {:.3} s",
                self.format.seconds_or_zero(total),
                self.format.seconds_or_zero(self.decoded),
            ));
        }
    }
}

impl Format {
    /// Before the first packet there is no rate.
    fn seconds_or_zero(self, frames: u64) -> f64 {
        if self.sample_rate == 0 {
            0.0
        } else {
            self.seconds(frames)
        }
    }
}

impl Source for Decoded {
    fn format(&self) -> Format {
        self.format
    }

    fn frames(&self) -> Option<u64> {
        self.total
    }

    fn read(&mut self, out: &mut Vec<f32>, max_frames: usize) -> Result<usize, Error> {
        if max_frames == 0 {
            return Ok(0);
        }
        while self.from == self.pending.len() {
            if self.ended {
                return Ok(0);
            }
            self.pending.clear();
            self.from = 0;
            self.decode_packet()?;
        }
        let channels = usize::from(self.format.channels);
        let ready = &self.pending[self.from..];
        let samples = ready.len().min(max_frames.saturating_mul(channels));
        out.extend_from_slice(&ready[..samples]);
        self.from += samples;
        Ok(samples / channels)
    }

    fn damage(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.bad_packets > 0 {
            notes.push(format!(
                "{} packet{} could not be decoded, the first at {:.3} s; replaced by silence",
                self.bad_packets,
                if self.bad_packets == 1 { "" } else { "s" },
                self.format.seconds_or_zero(self.first_bad),
            ));
        }
        notes.extend(self.sieve.note(self.format));
        notes.extend(self.notes.iter().cloned());
        notes
    }
}

/// The codecs in Ogg that are not decoded here, by the first packet of the first page.
fn ogg_codec(head: &[u8]) -> Option<&'static str> {
    // A page header of 27 bytes and one for the length of the one packet in it.
    let packet = head.get(28..)?;
    if packet.starts_with(b"OpusHead") {
        Some("Opus")
    } else if packet.starts_with(b"Speex   ") {
        Some("Speex")
    } else {
        None
    }
}

fn codec(id: symphonia::core::codecs::audio::AudioCodecId) -> String {
    match id {
        codecs::CODEC_ID_OPUS => "Opus".to_owned(),
        codecs::CODEC_ID_AC3 => "AC-3".to_owned(),
        codecs::CODEC_ID_EAC3 => "E-AC-3".to_owned(),
        codecs::CODEC_ID_MP1 => "MPEG layer I".to_owned(),
        codecs::CODEC_ID_MP2 => "MPEG layer II".to_owned(),
        codecs::CODEC_ID_SPEEX => "Speex".to_owned(),
        id => format!("an unknown audio codec ({id})"),
    }
}

/// What symphonia reads from where it cannot seek. It asks for `Sync`, which a pipe need not be; the
/// mutex is only ever reached through `&mut`, so it is never locked.
struct Pipe<R>(Mutex<R>);

impl<R: Read> Read for Pipe<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.get_mut() {
            Ok(reader) => reader.read(buffer),
            Err(poisoned) => poisoned.into_inner().read(buffer),
        }
    }
}

impl<R> Seek for Pipe<R> {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Err(io::Error::from(io::ErrorKind::NotSeekable))
    }
}

impl<R: Read + Send> MediaSource for Pipe<R> {
    fn is_seekable(&self) -> bool {
        false
    }

    fn byte_len(&self) -> Option<u64> {
        None
    }
}
