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
use symphonia::core::packet::Packet;
use symphonia::core::units::{Duration, TimeBase};

use crate::error::Error;
use crate::pcm::Sieve;
use crate::source::{Format, Source};

/// More than any packet of these codecs holds (FLAC: 65535 frames).
const LONGEST_PACKET: u64 = 65_536;

/// What to think of the length that symphonia states.
#[derive(Clone, Copy, PartialEq)]
enum StatedEnd {
    /// The container counts its frames.
    Believed,
    /// An MP3 says so in its first frame: after this frame, padding included, it was wrong.
    AtFrame(i64),
    /// An MP3 does not say; symphonia guesses.
    Guessed,
}

/// A compressed source.
pub struct Decoded {
    reader: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    time_base: Option<TimeBase>,
    stated_end: StatedEnd,
    /// The presentation time of the first frame, in frames.
    start: Option<i64>,
    format: Format,
    total: Option<u64>,
    /// Decoded and not yet handed out, interleaved, from `from` on.
    pending: Vec<f32>,
    from: usize,
    decoded: u64,
    ended: bool,
    bad_packets: u64,
    first_bad: u64,
    /// Frames that the container's own times say are missing, and where the first are.
    missing: u64,
    first_missing: u64,
    notes: Vec<String>,
    sieve: Sieve,
}

impl Decoded {
    /// Decodes a file. `container` names what its first bytes (`head`) look like.
    ///
    /// # Errors
    /// [`Error::Header`], [`Error::Unsupported`], [`Error::NoAudioTrack`], [`Error::NoSamples`].
    pub fn from_file(file: File, container: &'static str, head: &[u8]) -> Result<Self, Error> {
        let mut again = file.try_clone()?;
        let first = Self::new(Box::new(file), container, head, true);
        let Err(Error::Header { .. }) = first else {
            return first;
        };
        // With a file that it can seek in, symphonia looks at the end first, and gives up where that is
        // cut off. Read from the front as a pipe, what is there is heard.
        again.rewind()?;
        Self::from_pipe(again, container, head).or(first)
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
                // The first stream is a picture, and no stream with sound was found behind it.
                _ if container == "Ogg" && is_theora(head) => Error::NoAudioTrack,
                e if container == "M4A" && !is_seekable => Error::NeedsFile {
                    container,
                    reason: e.to_string(),
                },
                e => Error::Header {
                    container,
                    reason: e.to_string(),
                },
            })?;
        let track = reader
            .default_track(TrackType::Audio)
            .or_else(|| reader.first_track(TrackType::Audio));
        let track = track.ok_or(Error::NoAudioTrack)?;
        let id = track.id;
        let time_base = track.time_base;
        let stated_end = match (container, track.num_frames, track.padding) {
            ("MP3", Some(n), Some(padding)) => StatedEnd::AtFrame(
                i64::try_from(n.saturating_add(padding.into())).unwrap_or(i64::MAX),
            ),
            ("MP3", ..) => StatedEnd::Guessed,
            _ => StatedEnd::Believed,
        };
        let total = track
            .num_frames
            .filter(|n| *n > 0 && stated_end != StatedEnd::Guessed);
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
            time_base,
            stated_end,
            start: None,
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
            missing: 0,
            first_missing: 0,
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
        let packet = self.untrim(packet);
        self.bridge_gap(&packet);
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
            Err(Fault::ResetRequired) => return self.restart(),
            // Whatever the decoder calls it (damaged AAC often looks like an unsupported feature).
            Err(_) => {
                if self.bad_packets == 0 {
                    self.first_bad = self.decoded;
                }
                self.bad_packets += 1;
                // Silence of the same length keeps the times of what follows.
                let frames = self
                    .to_frames(i64::try_from(packet.dur.get()).unwrap_or(0))
                    .max(0) as u64;
                self.silence(frames.min(LONGEST_PACKET));
            }
        }
        let samples = (self.pending.len() - start) as u64;
        let frames = samples / u64::from(self.format.channels.max(1));
        if frames > 0 && self.start.is_none() {
            self.start = Some(self.presented(&packet) - self.decoded as i64);
        }
        self.decoded += frames;
        Ok(())
    }

    /// symphonia cuts an MP3 off at the length that its first frame states, or that it guessed from the
    /// bit rate: the end of a VBR file without a Xing frame, and all but the first of several files
    /// joined together. Only the stated padding is cut here; beyond it there is sound.
    fn untrim(&mut self, mut packet: Packet) -> Packet {
        let is_sound = match self.stated_end {
            StatedEnd::Believed => false,
            StatedEnd::Guessed => true,
            StatedEnd::AtFrame(end) => packet.pts.get() >= end,
        };
        if is_sound && packet.trim_end > Duration::ZERO {
            packet.dur = packet.dur.saturating_add(packet.trim_end);
            packet.trim_end = Duration::ZERO;
            self.total = None;
        }
        packet
    }

    /// Where the container says that frames are missing before this packet (it skipped what it could
    /// not read), puts silence in, so that the times of what follows stay right.
    fn bridge_gap(&mut self, packet: &Packet) {
        let Some(start) = self.start else { return };
        let gap = self.presented(packet) - start - self.decoded as i64;
        let rate = i64::from(self.format.sample_rate);
        // Below 20 ms it is rounding; above a minute it is the time that is damaged.
        if gap < rate / 50 || gap > rate * 60 {
            return;
        }
        if self.missing == 0 {
            self.first_missing = self.decoded;
        }
        self.missing += gap as u64;
        self.decoded += gap as u64;
        self.silence(gap as u64);
    }

    fn silence(&mut self, frames: u64) {
        let samples = frames as usize * usize::from(self.format.channels);
        self.pending.resize(self.pending.len() + samples, 0.0);
    }

    /// When the packet's first frame is to be heard, in frames.
    fn presented(&self, packet: &Packet) -> i64 {
        let trimmed = i64::try_from(packet.trim_start.get()).unwrap_or(0);
        self.to_frames(packet.pts.get().saturating_add(trimmed))
    }

    /// From the track's units of time to frames.
    fn to_frames(&self, units: i64) -> i64 {
        let Some(base) = self.time_base else {
            return units;
        };
        let rate = i128::from(self.format.sample_rate);
        let frames =
            i128::from(units) * i128::from(base.numer.get()) * rate / i128::from(base.denom.get());
        i64::try_from(frames)
            .unwrap_or(i64::MAX / 4)
            .clamp(i64::MIN / 4, i64::MAX / 4)
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
                self.start = None;
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
        if self.missing > 0 {
            notes.push(format!(
                "{:.3} s are missing, the first at {:.3} s; replaced by silence",
                self.format.seconds_or_zero(self.missing),
                self.format.seconds_or_zero(self.first_missing),
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

fn is_theora(head: &[u8]) -> bool {
    head.get(28..)
        .is_some_and(|packet| packet.starts_with(b"\x80theora"))
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
