//! The formats with blocks of 32 values: a 16-bit float scale, perhaps a minimum, and 32 codes.
//!
//! Codes of 4 bits, and the lower four of those of 5, lie in 16 bytes: the first 16 values in the lower halves, the
//! other 16 in the upper ones. The fifth bits are one 32-bit number.

use super::half;

/// Scale, 16 bytes of codes.
pub fn q4_0(raw: &[u8], codes: &mut [u8], scales: &mut [f32]) {
    scales[0] = half(raw, 0);
    nibbles(&raw[2..18], codes);
}

/// Scale, minimum, 16 bytes of codes.
pub fn q4_1(raw: &[u8], codes: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
    scales[0] = half(raw, 0);
    minima[0] = half(raw, 2);
    nibbles(&raw[4..20], codes);
}

/// Scale, fifth bits, 16 bytes of lower bits.
pub fn q5_0(raw: &[u8], codes: &mut [u8], scales: &mut [f32]) {
    scales[0] = half(raw, 0);
    nibbles(&raw[6..22], codes);
    fifth_bits(&raw[2..6], codes);
}

/// Scale, minimum, fifth bits, 16 bytes of lower bits.
pub fn q5_1(raw: &[u8], codes: &mut [u8], scales: &mut [f32], minima: &mut [f32]) {
    scales[0] = half(raw, 0);
    minima[0] = half(raw, 2);
    nibbles(&raw[8..24], codes);
    fifth_bits(&raw[4..8], codes);
}

/// Scale, 32 signed bytes: as codes, 128 is added to each.
pub fn q8_0(raw: &[u8], codes: &mut [u8], scales: &mut [f32]) {
    scales[0] = half(raw, 0);
    for (code, &byte) in codes.iter_mut().zip(&raw[2..34]) {
        *code = byte ^ 0x80;
    }
}

fn nibbles(raw: &[u8], codes: &mut [u8]) {
    let (low, high) = codes.split_at_mut(16);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(raw) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

fn fifth_bits(raw: &[u8], codes: &mut [u8]) {
    let bits = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    for (place, code) in codes.iter_mut().enumerate() {
        *code |= ((bits >> place) as u8 & 1) << 4;
    }
}
