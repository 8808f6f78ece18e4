//! Weights that are floats.

/// 32-bit floats.
pub fn f32s(raw: &[u8], out: &mut [f32]) {
    for (value, raw) in out.iter_mut().zip(raw.chunks_exact(4)) {
        *value = f32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    }
}

/// 16-bit IEEE floats.
pub fn f16s(raw: &[u8], out: &mut [f32]) {
    for (value, raw) in out.iter_mut().zip(raw.chunks_exact(2)) {
        *value = super::half(raw, 0);
    }
}

/// The upper halves of 32-bit floats.
pub fn bf16s(raw: &[u8], out: &mut [f32]) {
    for (value, raw) in out.iter_mut().zip(raw.chunks_exact(2)) {
        *value = f32::from_bits(u32::from(u16::from_le_bytes([raw[0], raw[1]])) << 16);
    }
}
