//! The "K" formats: blocks of 256 values in groups of 16 or 32, whose scales (and minima) are small integers times a
//! 16-bit float of the whole block. Layouts: `block_q2_K` … `block_q6_K` in ggml-common.h.
//!
//! Products are rounded where the reference rounds them: first the block's float times the group's integer, then that
//! times the code.

use super::half;

/// 16 bytes of scales (low four bits) and minima (high four), 64 of codes, the scales' float, the minima's float.
pub fn q2_k(raw: &[u8], codes: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
    let (d, dmin) = (half(raw, 80), half(raw, 82));
    for ((scale, minimum), &byte) in scales.iter_mut().zip(minima).zip(&raw[..16]) {
        *scale = d * f32::from(byte & 15);
        *minimum = -(dmin * f32::from(byte >> 4));
    }
    two_bits(&raw[16..80], codes);
}

/// 32 bytes of third bits, 64 of lower bits, 12 of scales, the scales' float.
pub fn q3_k(raw: &[u8], codes: &mut [u8], scales: &mut [f32]) {
    let d = half(raw, 108);
    let packed = &raw[96..108];
    for (group, scale) in scales.iter_mut().enumerate() {
        // Four bits of each scale lie in 8 bytes, the upper two in 4 more.
        let low = packed[group % 8] >> (4 * (group / 8)) & 15;
        let high = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
        *scale = d * f32::from(i16::from(low | high << 4) - 32);
    }
    two_bits(&raw[32..96], codes);
    one_bit(&raw[..32], 2, codes);
}

/// The scales' float, the minima's float, 12 bytes of both, 128 of codes.
pub fn q4_k(raw: &[u8], codes: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
    scales_and_minima(raw, scales, minima);
    four_bits(&raw[16..144], 32, codes);
}

/// The scales' float, the minima's float, 12 bytes of both, 32 of fifth bits, 128 of lower bits.
pub fn q5_k(raw: &[u8], codes: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
    scales_and_minima(raw, scales, minima);
    four_bits(&raw[48..176], 32, codes);
    one_bit(&raw[16..48], 4, codes);
}

/// 128 bytes of lower bits, 64 of the upper two, 16 signed scales, their float.
pub fn q6_k(raw: &[u8], codes: &mut [u8], scales: &mut [f32]) {
    let d = half(raw, 208);
    for (scale, &byte) in scales.iter_mut().zip(&raw[192..208]) {
        *scale = d * f32::from(byte as i8);
    }
    four_bits(&raw[..128], 64, codes);
    for (codes, raw) in codes
        .chunks_exact_mut(128)
        .zip(raw[128..192].chunks_exact(32))
    {
        for (place, code) in codes.iter_mut().enumerate() {
            *code |= (raw[place % 32] >> (2 * (place / 32)) & 3) << 4;
        }
    }
}

/// Eight scales and eight minima of 6 bits each in 12 bytes: of the first four, whole bytes' low six bits; of the
/// other four, four bits in the last 4 bytes and two in the upper ends of the first 8.
fn scales_and_minima(raw: &[u8], scales: &mut [f32], minima: &mut [f32]) {
    let (d, dmin) = (half(raw, 0), half(raw, 2));
    let packed = &raw[4..16];
    for (group, (scale, minimum)) in scales.iter_mut().zip(minima).enumerate() {
        let (six, six_of_minimum) = if group < 4 {
            (packed[group] & 63, packed[group + 4] & 63)
        } else {
            (
                packed[group + 4] & 15 | packed[group - 4] >> 6 << 4,
                packed[group + 4] >> 4 | packed[group] >> 6 << 4,
            )
        };
        *scale = d * f32::from(six);
        *minimum = -(dmin * f32::from(six_of_minimum));
    }
}

/// 128 values in 32 bytes: the first 32 in the lowest two bits of each, and so on.
fn two_bits(raw: &[u8], codes: &mut [u8]) {
    for (codes, raw) in codes.chunks_exact_mut(128).zip(raw.chunks_exact(32)) {
        for (shift, codes) in codes.chunks_exact_mut(32).enumerate() {
            for (code, &byte) in codes.iter_mut().zip(raw) {
                *code = byte >> (2 * shift) & 3;
            }
        }
    }
}

/// `2 * run` values in `run` bytes: the first half in the lower four bits of each.
fn four_bits(raw: &[u8], run: usize, codes: &mut [u8]) {
    for (codes, raw) in codes.chunks_exact_mut(2 * run).zip(raw.chunks_exact(run)) {
        let (low, high) = codes.split_at_mut(run);
        for ((low, high), &byte) in low.iter_mut().zip(high).zip(raw) {
            *low = byte & 15;
            *high = byte >> 4;
        }
    }
}

/// 256 values in 32 bytes: the first 32 in the lowest bit of each, and so on; each is put at `place` in its code.
fn one_bit(raw: &[u8], place: u32, codes: &mut [u8]) {
    for (shift, codes) in codes.chunks_exact_mut(32).enumerate() {
        for (code, &byte) in codes.iter_mut().zip(raw) {
            *code |= (byte >> shift & 1) << place;
        }
    }
}
