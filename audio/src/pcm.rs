//! Uncompressed samples: from bytes to f32 frames, for the WAV and the raw reader alike, with a
//! count of what had to be mended on the way.

use std::io::{self, Read};

use crate::source::Format;

/// How one sample lies in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    U8,
    S16Le,
    S16Be,
    S24Le,
    S32Le,
    F32Le,
    F64Le,
    ALaw,
    MuLaw,
}

impl Encoding {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::ALaw | Self::MuLaw => 1,
            Self::S16Le | Self::S16Be => 2,
            Self::S24Le => 3,
            Self::S32Le | Self::F32Le => 4,
            Self::F64Le => 8,
        }
    }

    const fn is_float(self) -> bool {
        matches!(self, Self::F32Le | Self::F64Le)
    }

    /// Appends the samples in `bytes`, whose length is a multiple of the sample size.
    fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Self::U8 => out.extend(bytes.iter().map(|&b| (f32::from(b) - 128.0) / 128.0)),
            Self::ALaw => out.extend(bytes.iter().map(|&b| f32::from(a_law(b)) / 32_768.0)),
            Self::MuLaw => out.extend(bytes.iter().map(|&b| f32::from(mu_law(b)) / 32_768.0)),
            Self::S16Le => each(bytes, out, |b| f32::from(i16::from_le_bytes(b)) / 32_768.0),
            Self::S16Be => each(bytes, out, |b| f32::from(i16::from_be_bytes(b)) / 32_768.0),
            // Shifted up by a byte, so that the sign is where i32 has it.
            Self::S24Le => each(bytes, out, |[a, b, c]| {
                i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0
            }),
            Self::S32Le => each(bytes, out, |b| {
                i32::from_le_bytes(b) as f32 / 2_147_483_648.0
            }),
            Self::F32Le => each(bytes, out, f32::from_le_bytes),
            Self::F64Le => each(bytes, out, |b| f64::from_le_bytes(b) as f32),
        }
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut Vec<f32>, f: impl Fn([u8; N]) -> f32) {
    let (samples, _) = bytes.as_chunks::<N>();
    out.extend(samples.iter().map(|&b| f(b)));
}

/// ITU-T G.711 A-law, to 16 bits.
fn a_law(byte: u8) -> i16 {
    let b = byte ^ 0x55;
    let exponent = (b >> 4) & 7;
    let mantissa = i16::from(b & 0x0F) << 4;
    let magnitude = if exponent == 0 {
        mantissa + 8
    } else {
        (mantissa + 0x108) << (exponent - 1)
    };
    if b & 0x80 == 0 { -magnitude } else { magnitude }
}

/// ITU-T G.711 mu-law, to 16 bits.
fn mu_law(byte: u8) -> i16 {
    let b = !byte;
    let magnitude = (((i16::from(b & 0x0F) << 3) + 0x84) << ((b >> 4) & 7)) - 0x84;
    if b & 0x80 == 0 { magnitude } else { -magnitude }
}

/// Replaces what is no sound by silence, and counts it.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    count: u64,
    first_frame: u64,
    beyond: bool,
}

/// No recording is a million times louder than full scale; later sums of such values would overflow.
const ABSURD: f32 = 1e6;

impl Sieve {
    /// Looks at samples whose first belongs to frame `first`.
    pub(crate) fn sift(&mut self, samples: &mut [f32], first: u64, channels: u16) {
        for (i, s) in samples.iter_mut().enumerate() {
            // Written so that NaN fails it.
            if s.abs() <= ABSURD {
                continue;
            }
            self.beyond |= s.is_finite();
            if self.count == 0 {
                self.first_frame = first + (i / usize::from(channels)) as u64;
            }
            self.count += 1;
            *s = 0.0;
        }
    }

    pub(crate) fn note(&self, format: Format) -> Option<String> {
        let what = if self.beyond {
            "NaN, infinite or absurdly large"
        } else {
            "NaN or infinite"
        };
        let at = format.seconds(self.first_frame);
        match self.count {
            0 => None,
            1 => Some(format!(
                "1 sample is {what}, at {at:.3} s; replaced by silence"
            )),
            n => Some(format!(
                "{n} samples are {what}, the first at {at:.3} s; replaced by silence"
            )),
        }
    }
}

/// Bytes taken from the reader at once: one read call, so that a live pipe is never waited for twice.
const BUFFER: usize = 64 * 1024;

/// Cuts a byte stream into frames, whatever pieces it arrives in.
pub(crate) struct Frames<R> {
    reader: R,
    encoding: Encoding,
    format: Format,
    /// Bytes that belong to the sound and have not been asked for; `None`: up to the end.
    left: Option<u64>,
    buffer: Box<[u8]>,
    /// Bytes of an unfinished frame at the front of `buffer`.
    carry: usize,
    delivered: u64,
    ended: bool,
    sieve: Sieve,
}

impl<R: Read> Frames<R> {
    pub(crate) fn new(reader: R, encoding: Encoding, format: Format, left: Option<u64>) -> Self {
        Self {
            reader,
            encoding,
            format,
            left,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            carry: 0,
            delivered: 0,
            ended: false,
            sieve: Sieve::default(),
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Bytes per frame.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.encoding.bytes() * usize::from(self.format.channels)
    }

    /// Frames handed out so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes that were promised and did not come.
    pub(crate) fn missing(&self) -> u64 {
        self.left.unwrap_or(0)
    }

    pub(crate) fn reader(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Appends at most `max_frames`; 0 is the end.
    pub(crate) fn read(&mut self, out: &mut Vec<f32>, max_frames: usize) -> io::Result<usize> {
        let frame = self.frame_bytes();
        let most = max_frames.min(self.buffer.len() / frame) * frame;
        if most == 0 {
            return Ok(0);
        }
        while !self.ended {
            let mut want = most - self.carry;
            if let Some(left) = self.left {
                want = want.min(usize::try_from(left).unwrap_or(usize::MAX));
            }
            let got = match self
                .reader
                .read(&mut self.buffer[self.carry..self.carry + want])
            {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if got == 0 {
                self.ended = true;
                break;
            }
            if let Some(left) = &mut self.left {
                *left -= got as u64;
            }
            let have = self.carry + got;
            let whole = have - have % frame;
            if whole > 0 {
                let start = out.len();
                self.encoding.decode(&self.buffer[..whole], out);
                if self.encoding.is_float() {
                    self.sieve
                        .sift(&mut out[start..], self.delivered, self.format.channels);
                }
                self.buffer.copy_within(whole..have, 0);
            }
            self.carry = have - whole;
            let frames = whole / frame;
            self.delivered += frames as u64;
            if frames > 0 {
                return Ok(frames);
            }
        }
        Ok(0)
    }

    /// What was mended, and whether the end cuts a frame.
    pub(crate) fn damage(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.sieve.note(self.format).into_iter().collect();
        if self.ended && self.carry > 0 {
            let n = self.carry;
            notes.push(format!(
                "ends within a frame: {n} odd byte{} left out",
                if n == 1 { "" } else { "s" }
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(encoding: Encoding, bytes: &[u8]) -> Vec<f32> {
        let mut out = Vec::new();
        encoding.decode(bytes, &mut out);
        out
    }

    #[test]
    fn full_scale_and_the_middle_are_where_they_belong() {
        assert_eq!(decode(Encoding::U8, &[0, 128, 192]), [-1.0, 0.0, 0.5]);
        assert_eq!(
            decode(Encoding::S16Le, &[0x00, 0x80, 0x00, 0x40]),
            [-1.0, 0.5]
        );
        assert_eq!(
            decode(Encoding::S16Be, &[0x80, 0x00, 0x40, 0x00]),
            [-1.0, 0.5]
        );
        assert_eq!(
            decode(Encoding::S24Le, &[0, 0, 0x80, 0, 0, 0x20]),
            [-1.0, 0.25]
        );
        assert_eq!(
            decode(Encoding::S32Le, &[0, 0, 0, 0x80, 0, 0, 0, 0x40]),
            [-1.0, 0.5]
        );
    }

    // The decoder output values of ITU-T G.711, tables 1a and 2a (positive side; value numbers 1, 128
    // and the ends of some segments), scaled from 13 and 14 to 16 bits (times 8 and times 4).
    #[test]
    fn telephone_samples_have_the_values_of_g711() {
        assert_eq!(a_law(0b1101_0101), 8); // 1 · 8
        assert_eq!(a_law(0b1010_1010), 4032 * 8);
        assert_eq!(a_law(0b0101_0101), -8);
        assert_eq!(a_law(0b1111_0101), 66 * 8); // value 33, first above 64: 66
        assert_eq!(mu_law(0b1111_1111), 0);
        assert_eq!(mu_law(0b1000_0000), 8031 * 4);
        assert_eq!(mu_law(0b0000_0000), -8031 * 4);
        assert_eq!(mu_law(0b1110_1111), 33 * 4); // value 16: 33
    }
}
