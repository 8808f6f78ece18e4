//! The chunks in front of the samples: what the samples are, and how many are claimed.
//!
//! Sources: Microsoft/IBM "Multimedia Programming Interface and Data Specifications 1.0" (RIFF),
//! Microsoft "Multiple Channel Audio Data and WAVE Files" (EXTENSIBLE), EBU Tech 3306 (RF64),
//! ITU-R BS.2088 (BW64).

use std::io::{self, Read};

use super::pushback::Pushback;
use crate::error::Error;
use crate::pcm::Encoding;
use crate::source::Format;

/// How much of what follows the header is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The header claims so many bytes.
    Bytes(u64),
    /// The writer could not know; everything up to the end.
    ToEnd,
}

/// What the chunks in front of the samples say.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) encoding: Encoding,
    pub(super) format: Format,
    pub(super) extent: Extent,
    /// What was wrong and could be read around.
    pub(super) notes: Vec<String>,
}

fn bad(reason: impl Into<String>) -> Error {
    Error::Header {
        container: "WAV",
        reason: reason.into(),
    }
}

/// Reads up to the first byte of sound.
pub(super) fn read<R: Read>(reader: &mut Pushback<R>) -> Result<Header, Error> {
    let mut head = [0; 12];
    let n = reader.fill(&mut head)?;
    if n == 0 {
        return Err(Error::Empty);
    }
    if n < 12 {
        return Err(bad(format!("expected 12 bytes of RIFF header, found {n}")));
    }
    // The size in bytes 4..8 is not looked at: it is wrong too often to mean anything.
    if !matches!(&head[..4], b"RIFF" | b"RF64" | b"BW64") {
        return Err(bad(format!("expected RIFF, found {}", name(&head[..4]))));
    }
    if &head[8..] != b"WAVE" {
        return Err(bad(format!(
            "expected a RIFF of kind WAVE, found kind {}",
            name(&head[8..])
        )));
    }
    let mut fmt = None;
    let mut long_size = None;
    loop {
        let mut chunk = [0; 8];
        if reader.fill(&mut chunk)? < 8 {
            return Err(match fmt {
                Some(_) => Error::NoSamples,
                None => bad("it ends before a fmt chunk"),
            });
        }
        let id = [chunk[0], chunk[1], chunk[2], chunk[3]];
        let size = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
        match &id {
            b"data" => {
                let fmt = fmt.ok_or_else(|| bad("the data chunk comes before any fmt chunk"))?;
                let (encoding, format, notes) = fmt;
                let extent = extent(size, long_size, reader)?;
                return Ok(Header {
                    encoding,
                    format,
                    extent,
                    notes,
                });
            }
            b"fmt " if fmt.is_none() => {
                let mut body = [0; 40];
                let n = front(reader, &mut body, size)?;
                fmt = Some(understand(&body[..n])?);
            }
            b"ds64" => {
                let mut body = [0; 16];
                if front(reader, &mut body, size)? == 16 {
                    let [.., a, b, c, d, e, f, g, h] = body;
                    long_size = Some(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
                }
            }
            _ => {
                reader.skip(u64::from(size))?;
            }
        }
        if size % 2 == 1 {
            skip_pad(reader)?;
        }
    }
}

/// Reads the front of a chunk and skips the rest; returns how many bytes were there.
fn front<R: Read>(reader: &mut Pushback<R>, body: &mut [u8], size: u32) -> io::Result<usize> {
    let want = body.len().min(size as usize);
    let n = reader.fill(&mut body[..want])?;
    reader.skip(u64::from(size) - want as u64)?;
    Ok(n)
}

/// A chunk of odd size is followed by a pad byte, unless its writer forgot it (FFmpeg#13). Tells the
/// two apart by where the next chunk's name is.
fn skip_pad<R: Read>(reader: &mut Pushback<R>) -> io::Result<()> {
    let mut next = [0; 5];
    let n = reader.fill(&mut next)?;
    let is_padded = match &next[..n] {
        [] => return Ok(()),
        [0, ..] => true,
        b if b.len() >= 4 && is_known(&b[..4]) => false,
        b if b.len() == 5 && is_known(&b[1..]) => true,
        b => !b.iter().take(4).all(|c| c.is_ascii_graphic() || *c == b' '),
    };
    reader.put_back(&next[usize::from(is_padded)..n]);
    Ok(())
}

/// The chunks that writers of WAV put beside the sound.
fn is_known(id: &[u8]) -> bool {
    const KNOWN: [&[u8]; 22] = [
        b"data", b"fmt ", b"LIST", b"fact", b"bext", b"cue ", b"smpl", b"inst", b"JUNK", b"junk",
        b"PAD ", b"FLLR", b"id3 ", b"ID3 ", b"iXML", b"axml", b"chna", b"PEAK", b"cart", b"ds64",
        b"plst", b"acid",
    ];
    KNOWN.contains(&id)
}

/// How many bytes are sound. Writers that cannot go back to fill the size in leave 0, all ones
/// (ffmpeg), 0x7ffff000 or 0x7ffff024 (sox, kaldi#1567) or 2³¹ (arecord) behind (hound#39); so do
/// all values near these, less a header or rounded to frames.
fn extent<R: Read>(
    size: u32,
    long_size: Option<u64>,
    reader: &mut Pushback<R>,
) -> io::Result<Extent> {
    Ok(match (size, long_size) {
        (0, _) => {
            // Zero may also be true: then the next chunk or the end follows.
            let mut next = [0; 4];
            let n = reader.fill(&mut next)?;
            reader.put_back(&next[..n]);
            if n == 4 && is_known(&next) {
                Extent::Bytes(0)
            } else {
                Extent::ToEnd
            }
        }
        (u32::MAX, Some(long @ 1..=0x7FFF_FFFF_FFFF_FFFF)) => Extent::Bytes(long),
        (0xFFFF_F000.. | 0x7FFF_F000..=0x8000_0000, _) => Extent::ToEnd,
        (n, _) => Extent::Bytes(u64::from(n)),
    })
}

const PCM: u16 = 1;
const FLOAT: u16 = 3;
const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;
const EXTENSIBLE: u16 = 0xFFFE;

type Meaning = (Encoding, Format, Vec<String>);

fn understand(fmt: &[u8]) -> Result<Meaning, Error> {
    let u16_at = |i: usize| u16::from_le_bytes([fmt[i], fmt[i + 1]]);
    if fmt.len() < 16 {
        return Err(bad(format!(
            "the fmt chunk has {} bytes, expected 16 or more",
            fmt.len()
        )));
    }
    let mut tag = u16_at(0);
    let channels = u16_at(2);
    let rate = u32::from_le_bytes([fmt[4], fmt[5], fmt[6], fmt[7]]);
    let align = u16_at(12);
    let bits = u16_at(14);
    if tag == EXTENSIBLE {
        // The size of the chunk decides, not cbSize: there are writers that leave it 0 (Symphonia#247).
        if fmt.len() < 40 {
            return Err(bad("an EXTENSIBLE fmt chunk without its sub-format"));
        }
        // The sub-format's identifier is the plain tag and a constant.
        tag = u16_at(24);
        if u16_at(26) != 0 {
            return Err(Error::Unsupported {
                what: "WAV with an unknown EXTENSIBLE sub-format".to_owned(),
            });
        }
    }
    let format = Format::new(rate, u32::from(channels))?;
    if !matches!(tag, PCM | FLOAT | A_LAW | MU_LAW) {
        return Err(Error::Unsupported {
            what: format!("WAV with {}", codec(tag)),
        });
    }
    let mut notes = Vec::new();
    let stated = if align % channels == 0 {
        usize::from(align / channels)
    } else {
        0
    };
    let byte_rate = u32::from_le_bytes([fmt[8], fmt[9], fmt[10], fmt[11]]);
    let is_packed =
        u64::from(byte_rate) == u64::from(rate) * u64::from(channels) * u64::from(bits.div_ceil(8));
    let bytes = container(tag, bits, stated, is_packed);
    let encoding = match (tag, bytes) {
        (PCM, 1) => Encoding::U8,
        (PCM, 2) => Encoding::S16Le,
        (PCM, 3) => Encoding::S24Le,
        (PCM, 4) => Encoding::S32Le,
        (FLOAT, 4) => Encoding::F32Le,
        (FLOAT, 8) => Encoding::F64Le,
        (A_LAW, _) => Encoding::ALaw,
        (MU_LAW, _) => Encoding::MuLaw,
        (FLOAT, _) => {
            return Err(Error::Unsupported {
                what: format!("WAV with {bits}-bit float samples"),
            });
        }
        _ => {
            return Err(Error::Unsupported {
                what: format!("WAV with {bits}-bit integer samples"),
            });
        }
    };
    if encoding.bytes() * usize::from(channels) != usize::from(align) {
        notes.push(format!(
            "the header says {align} bytes per frame, which contradicts {channels} channel{} of {bits} bits; read by the bits",
            if channels == 1 { "" } else { "s" },
        ));
    }
    Ok((encoding, format, notes))
}

/// Bytes per sample. Bits fewer than the container's are left-justified in it, so that the container
/// alone decides: 24 bits in 32 (wavefile#11) read as 32. The frame size is believed against the bits
/// in that one case, and where there are no bits; everywhere else it is the frame size that is wrong.
fn container(tag: u16, bits: u16, stated: usize, is_packed: bool) -> usize {
    let by_bits = usize::from(bits.div_ceil(8));
    match (tag, by_bits, stated) {
        (PCM, 3, 4) if !is_packed => 4,
        (PCM, 0, 1..=4) | (FLOAT, 0, 4 | 8) => stated,
        _ => by_bits,
    }
}

/// The names of the compressed formats that are met in WAV (mmreg.h).
fn codec(tag: u16) -> String {
    let name = match tag {
        0x0002 => "Microsoft ADPCM",
        0x0011 => "IMA ADPCM",
        0x0022 => "TrueSpeech",
        0x0031 => "GSM 6.10",
        0x0040..=0x0045 | 0x0064 | 0x0065 => "G.72x",
        0x0050 => "MPEG layer I/II",
        0x0055 => "MP3",
        0x00FF | 0x1610 | 0x706D => "AAC",
        0x0160..=0x0163 => "Windows Media Audio",
        0x2000 => "AC-3",
        0x674F..=0x6771 => "Vorbis",
        0x704F => "Opus",
        0xF1AC => "FLAC",
        _ => return format!("codec 0x{tag:04x}"),
    };
    format!("{name} (codec 0x{tag:04x})")
}

/// Four bytes as a person can read them.
fn name(id: &[u8]) -> String {
    format!("\"{}\"", id.escape_ascii())
}
