//! Floats into blocks, for files that are written here: random full-size models, fixtures. The arithmetic is that of
//! ggml's reference (`quantize_row_q8_0_ref`, `quantize_row_q4_0_ref` in ggml-quants.c), so that files are the same.

use half::{bf16, f16};

use super::super::kind::Kind;

/// Appends `values` to `out` as whole blocks of `kind`. `false`, and nothing is appended, for a kind that is only
/// read, or when `values` are no whole number of blocks. Written are F32, F16, BF16, Q8_0 and Q4_0.
#[must_use]
pub fn quantise(kind: Kind, values: &[f32], out: &mut Vec<u8>) -> bool {
    if !values.len().is_multiple_of(kind.block()) {
        return false;
    }
    match kind {
        Kind::F32 => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Kind::F16 => out.extend(
            values
                .iter()
                .flat_map(|&value| f16::from_f32(value).to_le_bytes()),
        ),
        Kind::BF16 => out.extend(
            values
                .iter()
                .flat_map(|&value| bf16::from_f32(value).to_le_bytes()),
        ),
        Kind::Q8_0 => values.chunks_exact(32).for_each(|values| q8_0(values, out)),
        Kind::Q4_0 => values.chunks_exact(32).for_each(|values| q4_0(values, out)),
        _ => return false,
    }
    true
}

fn q8_0(values: &[f32], out: &mut Vec<u8>) {
    let largest = values
        .iter()
        .fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    let inverse = inverse(scale);
    out.extend(f16::from_f32(scale).to_le_bytes());
    out.extend(
        values
            .iter()
            .map(|value| (value * inverse).round() as i8 as u8),
    );
}

fn q4_0(values: &[f32], out: &mut Vec<u8>) {
    // The value farthest from 0, with its sign, gets code 0: one more step on that side.
    let farthest = values.iter().fold(0.0_f32, |farthest, &value| {
        if value.abs() > farthest.abs() {
            value
        } else {
            farthest
        }
    });
    let scale = farthest / -8.0;
    let inverse = inverse(scale);
    let code = |value: f32| ((value * inverse + 8.5) as u8).min(15);
    out.extend(f16::from_f32(scale).to_le_bytes());
    let (low, high) = values.split_at(16);
    out.extend(
        low.iter()
            .zip(high)
            .map(|(&low, &high)| code(low) | code(high) << 4),
    );
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
