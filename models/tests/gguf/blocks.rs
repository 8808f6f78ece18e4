//! The values of every block format are those of the `gguf` Python package, bit for bit.

use std::iter;

use firstword_models::gguf::blocks::{self, Blocks, Offset};
use firstword_models::gguf::{Gguf, Kind};

use crate::fixture::{bits, digest, digest_of, noise};
use crate::place;

/// From `tests/gguf/blocks.py` (gguf 0.19.0): for 16 blocks of noise, the first four values' bits and the digest of
/// all values.
const DEQUANTISED: [(Kind, [u32; 4], u64); 13] = [
    (
        Kind::F32,
        [0xb4815e3c, 0x8ec65e0c, 0x2c40a304, 0xbb3cd697],
        0xf403babe7f47f93e,
    ),
    (
        Kind::F16,
        [0x3bc78000, 0xbe902000, 0x3bc18000, 0xb9d8c000],
        0x1a4d4d937ed28dbd,
    ),
    (
        Kind::BF16,
        [0x1e3c0000, 0xb4810000, 0x1e0c0000, 0x8ec60000],
        0x37e45bf4fd5628c4,
    ),
    (
        Kind::Q4_0,
        [0xbd2e9000, 0xbcc78000, 0x3cc78000, 0x3d15a000],
        0x85ecd91c23e7b3fd,
    ),
    (
        Kind::Q4_1,
        [0xbe557000, 0xbe48f800, 0xbe7ad800, 0xbe48f800],
        0x47b6db13442d952d,
    ),
    (
        Kind::Q5_0,
        [0x3d15a000, 0xbc478000, 0xbd95a000, 0xbda21800],
        0x48b79b9aad479eff,
    ),
    (
        Kind::Q5_1,
        [0xbe83a800, 0xbe86c600, 0xbe3c8000, 0xbde36000],
        0x2a088a4ee6955eff,
    ),
    (
        Kind::Q8_0,
        [0xbf45f100, 0xbeece800, 0x3d95a000, 0x3f128200],
        0x208469c3381bfe64,
    ),
    (
        Kind::Q2K,
        [0xba84d800, 0xbd2aeec0, 0xbce6ad80, 0xba84d800],
        0x91308c4b3dd25539,
    ),
    (
        Kind::Q3K,
        [0xbadc2c00, 0xba12c800, 0x3adc2c00, 0xbb12c800],
        0x83f953bdaae42637,
    ),
    (
        Kind::Q4K,
        [0x40002c00, 0x3fac2e00, 0x40098600, 0x3fdaf000],
        0x0406a301a2829498,
    ),
    (
        Kind::Q5K,
        [0x3fd19600, 0x40590300, 0x3fb58800, 0x3fb58800],
        0x3b7c31c4bd38c416,
    ),
    (
        Kind::Q6K,
        [0xc5030720, 0x4315bf00, 0x45111108, 0x44609e80],
        0xa7b5942ac1133b1d,
    ),
];

/// From `tests/gguf/blocks.py`: the digest of the bytes that the package makes of 288 floats.
const QUANTISED: [(Kind, u64); 4] = [
    (Kind::F16, 0x42e1f71a0bf99fbf),
    (Kind::BF16, 0xdec04a53f5c438a0),
    (Kind::Q8_0, 0x9359ca2d23f8e8f0),
    (Kind::Q4_0, 0xd3f553413592160a),
];

/// Where the upper byte of a 16-bit float (of a 32-bit one, for F32) lies in a block, as in `blocks.py`.
fn floats(kind: Kind) -> &'static [usize] {
    match kind {
        Kind::F32 => &[3],
        Kind::F16 | Kind::BF16 | Kind::Q4_0 | Kind::Q5_0 | Kind::Q8_0 => &[1],
        Kind::Q4_1 | Kind::Q5_1 | Kind::Q4K | Kind::Q5K => &[1, 3],
        Kind::Q2K => &[81, 83],
        Kind::Q3K => &[109],
        Kind::Q6K => &[209],
    }
}

/// Blocks of noise in which all floats are finite.
fn finite(kind: Kind, blocks: usize) -> Vec<u8> {
    let mut raw = noise(blocks * kind.block_bytes());
    for block in raw.chunks_exact_mut(kind.block_bytes()) {
        for &place in floats(kind) {
            block[place] &= 0xbf;
        }
    }
    raw
}

#[test]
fn every_type_has_the_values_of_the_python_package() {
    for (kind, first, all) in DEQUANTISED {
        let raw = finite(kind, 16);
        let mut values = vec![0.0; 16 * kind.block()];
        blocks::dequantise(kind, &raw, &mut values);
        assert_eq!(bits(&values[..4]), first, "{kind}");
        assert_eq!(digest_of(&values), all, "{kind}");
    }
}

#[test]
fn codes_and_scales_are_the_same_values_again() {
    let mut unpacked = Blocks::default();
    for (kind, _, all) in DEQUANTISED {
        let raw = finite(kind, 16);
        let has_codes = unpacked.unpack(kind, &raw);
        assert_eq!(has_codes, kind.bits().is_some(), "{kind}");
        if !has_codes {
            continue;
        }
        let values: Vec<f32> = unpacked.values().collect();
        assert_eq!(digest_of(&values), all, "{kind}");
        assert_eq!(
            unpacked.codes.len() / unpacked.group,
            unpacked.scales.len(),
            "{kind}"
        );
        let limit = 1_u32 << unpacked.bits;
        assert!(
            unpacked.codes.iter().all(|&code| u32::from(code) < limit),
            "{kind}"
        );
        // Which formats have minima: ggml-common.h, blocks with `m` or `dmin`.
        let affine = matches!(
            kind,
            Kind::Q4_1 | Kind::Q5_1 | Kind::Q2K | Kind::Q4K | Kind::Q5K
        );
        assert_eq!(
            matches!(unpacked.offset, Offset::Minima(_)),
            affine,
            "{kind}"
        );
    }
}

#[test]
fn floats_are_packed_as_the_python_package_packs_them() {
    let mut values: Vec<f32> = noise(256)
        .iter()
        .map(|&byte| (f32::from(byte) - 128.0) / 40.0)
        .collect();
    values.extend([0.0; 32]);
    for (kind, expected) in QUANTISED {
        let mut raw = Vec::new();
        assert!(blocks::quantise(kind, &values, &mut raw));
        assert_eq!(raw.len(), values.len() / kind.block() * kind.block_bytes());
        assert_eq!(digest(raw), expected, "{kind}");
    }
    let mut raw = Vec::new();
    assert!(
        !blocks::quantise(Kind::Q6K, &values[..256], &mut raw),
        "not written"
    );
    assert!(
        !blocks::quantise(Kind::Q8_0, &values[..33], &mut raw),
        "no whole blocks"
    );
    assert!(raw.is_empty());
}

/// A tensor's name, how many of its rows, and their digest.
type Rows = (&'static str, usize, u64);

/// Entries of the catalogue: name, the file's bytes, and from `tests/gguf/blocks.py FILE` the digest of a
/// tensor's first rows.
const KNOWN: [(&str, u64, &[Rows]); 2] = [
    (
        "smollm2-135m-instruct",
        98_362_432, // SmolLM2-135M-Instruct.Q4_1.gguf
        &[
            ("token_embd.weight", 5, 0x47769ef0667fe783), // Q8_0
            ("blk.0.attn_norm.weight", 1, 0x2fd19cd884448866), // F32
            ("blk.0.ffn_down.weight", 5, 0xd559462bef1b0501), // Q4_1
        ],
    ),
    (
        "gemma-3-270m",
        253_113_024, // gemma-3-270m Q4_K_M
        &[
            ("output_norm.weight", 1, 0x11c22e7acf60d9d7),  // F32
            ("token_embd.weight", 5, 0xc4b224e92a18362d),   // Q8_0
            ("blk.0.attn_k.weight", 5, 0x356d79bd2ad51842), // Q5_0
            ("blk.0.attn_output.weight", 5, 0x8bae911617c4afce), // Q4_K
            ("blk.0.ffn_down.weight", 5, 0xda29369917c77994), // Q6_K
        ],
    ),
];

#[test]
fn real_files_have_the_values_of_the_python_package() {
    for &(entry, bytes, tensors) in &KNOWN {
        let Some(path) = place::gguf(entry) else {
            println!(
                "skipped: no {entry} (run `firstword model pull {entry}`, or set FIRSTWORD_HOME)"
            );
            continue;
        };
        assert_eq!(path.metadata().unwrap().len(), bytes, "{}", path.display());
        let model = Gguf::open(&path).unwrap();
        for &(name, rows, expected) in tensors {
            let tensor = model.tensor(name).unwrap();
            let mut values: Vec<f32> = iter::repeat_n(0.0, rows * tensor.columns()).collect();
            tensor.dequantise(0..rows, &mut values).unwrap();
            assert_eq!(digest_of(&values), expected, "{entry} {name}");
        }
    }
}
