//! Small GGUF files, and the arithmetic that `blocks.py` has too.

use std::io::Write;

use firstword_models::gguf::{Kind, Writer};

/// FNV-1a of 64 bits.
pub fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The digest of floats as `blocks.py` takes it.
pub fn digest_of(values: &[f32]) -> u64 {
    digest(values.iter().flat_map(|value| value.to_le_bytes()))
}

/// The bytes that `blocks.py` calls noise.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

/// Declares one matrix of three rows for each type, and some vectors.
pub fn declare(writer: &mut Writer) {
    for kind in Kind::ALL {
        writer
            .tensor(&format!("{kind}.weight"), kind, &[256, 3])
            .unwrap();
    }
    writer.tensor("norm.weight", Kind::F32, &[7]).unwrap();
    writer
        .tensor("experts.weight", Kind::Q8_0, &[32, 2, 2])
        .unwrap();
}

/// Keys of every type.
pub fn describe(writer: &mut Writer) {
    let metadata = &mut writer.metadata;
    metadata.insert("general.architecture", "llama");
    metadata.insert("t.u8", 200_u8);
    metadata.insert("t.i8", -100_i8);
    metadata.insert("t.u16", 60_000_u16);
    metadata.insert("t.i16", -30_000_i16);
    metadata.insert("t.u32", 4_000_000_000_u32);
    metadata.insert("t.i32", -2_000_000_000_i32);
    metadata.insert("t.f32", 1.5_f32);
    metadata.insert("t.bool", true);
    metadata.insert("t.u64", u64::MAX);
    metadata.insert("t.i64", i64::MIN);
    metadata.insert("t.f64", -0.25_f64);
    metadata.insert("t.u8s", vec![1_u8, 2]);
    metadata.insert("t.i8s", vec![-1_i8]);
    metadata.insert("t.u16s", vec![1_u16, 65_535]);
    metadata.insert("t.i16s", vec![-1_i16, 5]);
    metadata.insert("t.u32s", vec![1_u32, 2, 3]);
    metadata.insert("t.i32s", vec![3_i32, 1, 6]);
    metadata.insert("t.f32s", vec![0.5_f32, -2.0]);
    metadata.insert("t.bools", vec![true, false]);
    metadata.insert("t.strings", vec!["a", "", "Ġthe", "名"]);
    metadata.insert("t.u64s", vec![u64::MAX]);
    metadata.insert("t.i64s", vec![i64::MIN]);
    metadata.insert("t.f64s", vec![2.5_f64]);
    metadata.insert("t.none", Vec::<u32>::new());
}

/// A file with all of the above; the tensors' bytes are noise.
pub fn file() -> Vec<u8> {
    let mut writer = Writer::default();
    describe(&mut writer);
    declare(&mut writer);
    bytes(&writer)
}

/// What a writer writes when each tensor's bytes are noise.
pub fn bytes(writer: &Writer) -> Vec<u8> {
    let mut file = Vec::new();
    writer
        .write(&mut file, &mut |tensor, out| {
            out.write_all(&noise(tensor.bytes as usize))
        })
        .unwrap();
    file
}

/// The bytes of a file, piece by piece, right or wrong.
#[derive(Clone, Default)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    pub fn new(version: u32, tensors: u64, keys: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(version).u64(tensors).u64(keys)
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.write_all(bytes).unwrap();
        self
    }

    pub fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub fn string(self, string: &[u8]) -> Self {
        self.u64(string.len() as u64).bytes(string)
    }

    /// A tensor's description; `kind` is ggml's number.
    pub fn tensor(self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        let mut raw = self.string(name.as_bytes()).u32(shape.len() as u32);
        for &size in shape {
            raw = raw.u64(size);
        }
        raw.u32(kind).u64(offset)
    }

    /// Zeros up to a multiple of 32, and then so many.
    pub fn data(mut self, bytes: usize) -> Self {
        let start = self.0.len().next_multiple_of(32);
        self.0.resize(start + bytes, 0);
        self
    }
}

/// Floats by their bits: NaN is NaN, -0 is not 0.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
