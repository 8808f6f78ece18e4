//! The block formats of weights: floats, or integer codes with a scale (and a minimum) for each group of them.
//!
//! Codes are unpacked by one function for each format; dequantising multiplies what it unpacked. Values are those of
//! the `gguf` Python package's `quants.dequantize`, bit for bit.

mod floats;
mod quantise;
mod small;
mod super_blocks;

use super::kind::Kind;
pub use quantise::quantise;

/// Integer codes with their scales, unpacked: one byte for each code, one scale for each group of [`Blocks::group`]
/// codes, in the order of the values.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks {
    /// Codes that share a scale: 16 or 32.
    pub group: usize,
    /// Bits of a code: each is below `2^bits`.
    pub bits: u32,
    /// The codes.
    pub codes: Vec<u8>,
    /// One scale for each group.
    pub scales: Vec<f32>,
    /// What a code means.
    pub offset: Offset,
}

/// What a code means beside its scale.
#[derive(Debug, Clone, PartialEq)]
pub enum Offset {
    /// Symmetric: the value is `scale * (code - zero)`.
    Zero(u8),
    /// Affine: the value is `scale * code + minimum`, with one minimum for each group (mostly below 0).
    Minima(Vec<f32>),
}

impl Default for Blocks {
    /// Nothing: to be filled.
    fn default() -> Self {
        Self {
            group: 32,
            bits: 8,
            codes: Vec::new(),
            scales: Vec::new(),
            offset: Offset::Zero(0),
        }
    }
}

impl Blocks {
    /// Unpacks whole blocks of `kind`, in place of what was here; the memory is used again. `false`, and nothing is
    /// changed, for floats, which have no codes. Bytes after the last whole block are ignored.
    pub fn unpack(&mut self, kind: Kind, raw: &[u8]) -> bool {
        let Some(bits) = kind.bits() else {
            return false;
        };
        let blocks = raw.len() / kind.block_bytes();
        let groups = kind.block() / kind.group();
        self.bits = bits;
        self.group = kind.group();
        self.codes.resize(blocks * kind.block(), 0);
        self.scales.resize(blocks * groups, 0.0);
        let mut minima = match std::mem::replace(&mut self.offset, Offset::Zero(0)) {
            Offset::Minima(minima) => minima,
            Offset::Zero(_) => Vec::new(),
        };
        minima.resize(blocks * groups, 0.0);

        let codes = self.codes.chunks_exact_mut(kind.block());
        let scales = self.scales.chunks_exact_mut(groups);
        let minima_of_blocks = minima.chunks_exact_mut(groups);
        let raw = raw.chunks_exact(kind.block_bytes());
        for (((raw, codes), scales), minima) in raw.zip(codes).zip(scales).zip(minima_of_blocks) {
            unpack_block(kind, raw, codes, scales, minima);
        }
        self.offset = kind.zero().map_or(Offset::Minima(minima), Offset::Zero);
        true
    }

    /// The values these codes stand for.
    pub fn values(&self) -> impl Iterator<Item = f32> {
        self.codes.iter().enumerate().map(|(place, &code)| {
            let group = place / self.group;
            match &self.offset {
                Offset::Zero(zero) => symmetric(self.scales[group], code, *zero),
                Offset::Minima(minima) => affine(self.scales[group], code, minima[group]),
            }
        })
    }
}

fn symmetric(scale: f32, code: u8, zero: u8) -> f32 {
    scale * f32::from(i16::from(code) - i16::from(zero))
}

// A product and a sum, each rounded, as the reference does it: no fused operation here.
fn affine(scale: f32, code: u8, minimum: f32) -> f32 {
    scale * f32::from(code) + minimum
}

/// The values of whole blocks of `kind`: as many as fit both `raw` and `out`.
pub fn dequantise(kind: Kind, raw: &[u8], out: &mut [f32]) {
    let read: fn(&[u8], &mut [f32]) = match kind {
        Kind::F32 => floats::f32s,
        Kind::F16 => floats::f16s,
        Kind::BF16 => floats::bf16s,
        _ => return dequantise_codes(kind, raw, out),
    };
    read(raw, out);
}

fn dequantise_codes(kind: Kind, raw: &[u8], out: &mut [f32]) {
    // The largest block has 256 codes in groups of 16.
    let (mut codes, mut scales, mut minima) = ([0; 256], [0.0; 16], [0.0; 16]);
    let codes = &mut codes[..kind.block()];
    let groups = kind.block() / kind.group();
    let (scales, minima) = (&mut scales[..groups], &mut minima[..groups]);
    let blocks = raw.chunks_exact(kind.block_bytes());
    for (raw, out) in blocks.zip(out.chunks_exact_mut(kind.block())) {
        unpack_block(kind, raw, codes, scales, minima);
        let groups = out
            .chunks_exact_mut(kind.group())
            .zip(codes.chunks_exact(kind.group()));
        for (((out, codes), &scale), &minimum) in groups.zip(&*scales).zip(&*minima) {
            match kind.zero() {
                Some(zero) => {
                    for (value, &code) in out.iter_mut().zip(codes) {
                        *value = symmetric(scale, code, zero);
                    }
                }
                None => {
                    for (value, &code) in out.iter_mut().zip(codes) {
                        *value = affine(scale, code, minimum);
                    }
                }
            }
        }
    }
}

/// One block; `minima` are left alone by symmetric formats.
fn unpack_block(kind: Kind, raw: &[u8], codes: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
    match kind {
        Kind::Q4_0 => small::q4_0(raw, codes, scales),
        Kind::Q4_1 => small::q4_1(raw, codes, scales, minima),
        Kind::Q5_0 => small::q5_0(raw, codes, scales),
        Kind::Q5_1 => small::q5_1(raw, codes, scales, minima),
        Kind::Q8_0 => small::q8_0(raw, codes, scales),
        Kind::Q2K => super_blocks::q2_k(raw, codes, scales, minima),
        Kind::Q3K => super_blocks::q3_k(raw, codes, scales),
        Kind::Q4K => super_blocks::q4_k(raw, codes, scales, minima),
        Kind::Q5K => super_blocks::q5_k(raw, codes, scales, minima),
        Kind::Q6K => super_blocks::q6_k(raw, codes, scales),
        // They have no codes, and are not asked for here.
        Kind::F32 | Kind::F16 | Kind::BF16 => {}
    }
}

/// The 16-bit float at a place in a block.
fn half(raw: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([raw[at], raw[at + 1]]).to_f32()
}
