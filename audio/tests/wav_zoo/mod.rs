//! WAV files laid down byte by byte from the specifications, and an ear that hears each of them as a
//! file, as a pipe and as a pipe that drips.
#![allow(clippy::unwrap_used, dead_code)] // Tests; each binary uses its part.

use std::io::{self, Read};

use firstword_audio::wav::Wav;
use firstword_audio::{Error, Format, Source};

// ── Laying down bytes ────────────────────────────────────────────────────────────────────────────

pub fn chunk(id: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut out = chunk_claiming(id, body.len() as u32, body);
    if body.len() % 2 == 1 {
        out.push(0);
    }
    out
}

pub fn chunk_claiming(id: &[u8; 4], size: u32, body: &[u8]) -> Vec<u8> {
    [&id[..], &size.to_le_bytes(), body].concat()
}

pub fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    let body = chunks.concat();
    [
        b"RIFF",
        &(body.len() as u32 + 4).to_le_bytes()[..],
        b"WAVE",
        &body,
    ]
    .concat()
}

pub fn fmt_body(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let align = channels.wrapping_mul(bits.div_ceil(8));
    fmt_aligned(tag, channels, rate, align, bits)
}

pub fn fmt_aligned(tag: u16, channels: u16, rate: u32, align: u16, bits: u16) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(tag.to_le_bytes());
    out.extend(channels.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend(rate.wrapping_mul(u32::from(align)).to_le_bytes());
    out.extend(align.to_le_bytes());
    out.extend(bits.to_le_bytes());
    out
}

/// The tail of every standard sub-format identifier: xxxxxxxx-0000-0010-8000-00aa00389b71.
pub const GUID_TAIL: [u8; 12] = [
    0x00, 0x00, 0x10, 0x00, 0x80, 0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71,
];

pub fn extensible(
    tag: u16,
    channels: u16,
    rate: u32,
    container_bits: u16,
    valid_bits: u16,
    cb_size: u16,
) -> Vec<u8> {
    let mut out = fmt_body(0xFFFE, channels, rate, container_bits);
    out.extend(cb_size.to_le_bytes());
    out.extend(valid_bits.to_le_bytes());
    out.extend(3_u32.to_le_bytes());
    out.extend(u32::from(tag).to_le_bytes());
    out.extend(GUID_TAIL);
    assert_eq!(out.len(), 40);
    out
}

pub fn wav(fmt: &[u8], data: &[u8]) -> Vec<u8> {
    riff(&[chunk(b"fmt ", fmt), chunk(b"data", data)])
}

pub fn s16(values: &[i16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// 16-bit mono at 8 kHz.
pub fn plain() -> Vec<u8> {
    fmt_body(1, 1, 8_000, 16)
}

// ── Reading ──────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug)]
pub struct Heard {
    pub format: Format,
    pub samples: Vec<f32>,
    pub damage: Vec<String>,
}

pub fn drain(mut source: Wav<impl Read + Send>) -> Result<Heard, Error> {
    let mut samples = Vec::new();
    while source.read(&mut samples, 1_000)? > 0 {}
    Ok(Heard {
        format: source.format(),
        samples,
        damage: source.damage(),
    })
}

/// A pipe that hands out one byte at a time.
pub struct Dripping<'a>(&'a [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(1);
        self.0.read(&mut buffer[..n])
    }
}

/// Reads as a file, as a pipe, and as a pipe that drips; all must hear the same.
pub fn hear(bytes: &[u8]) -> Result<Heard, Error> {
    let file = Wav::with_length(bytes, Some(bytes.len() as u64)).and_then(|w| {
        let frames = w.frames();
        let heard = drain(w)?;
        let there = heard.samples.len() as u64 / u64::from(heard.format.channels);
        assert_eq!(
            frames,
            Some(there),
            "the number of frames a progress bar would show"
        );
        Ok(heard)
    });
    let pipe = Wav::new(bytes).and_then(drain);
    let drip = Wav::new(Dripping(bytes)).and_then(drain);
    match (&file, &pipe, &drip) {
        (Ok(f), Ok(p), Ok(d)) => {
            assert_eq!((&f.samples, f.format), (&p.samples, p.format));
            assert_eq!(
                (&p.samples, p.format, &p.damage),
                (&d.samples, d.format, &d.damage)
            );
        }
        (Err(f), Err(p), Err(d)) => {
            assert_eq!(f.to_string(), p.to_string());
            assert_eq!(f.to_string(), d.to_string());
        }
        _ => panic!("file {file:?}, pipe {pipe:?}, dripping pipe {drip:?}"),
    }
    file
}

pub fn hear_well(bytes: &[u8]) -> Heard {
    let heard = hear(bytes).unwrap();
    assert_eq!(heard.damage, Vec::<String>::new());
    heard
}

pub fn refusal(bytes: &[u8]) -> String {
    let message = hear(bytes).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}
