//! Full-size models with random weights, so that a device can be measured before the weights of a model are there.
//!
//! The sizes, the metadata and the layout of the tokenizer are those of the model they stand for, the numbers are not:
//! what such a model costs is what the real one costs, what it says means nothing. Every file says so: the GGUF file in
//! the key [`REMARK_KEY`], the folder that is made of it in its manifest.
//!
//! Weights are Q4_0, streamed as they are drawn: a code is uniform in −7…7, with 0 twice as likely (a 4-bit code of 0,
//! which would mean −8, is taken for 8, which means 0), so that the mean is 0 and the variance 2 · Σ k² / 16 = 17.5; the
//! scale 1 / (√17.5 · √K) keeps the variance of what goes through a matrix of `K` inputs. Norms are 1. Each tensor has a
//! seed of its own, made of its name: the same bytes each time, on every machine.

mod tokenizer;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use half::f16;
use tempfile::TempDir;

use crate::gguf::{Kind, TensorInfo, WriteError, Writer};
use crate::language::import::{REMARK_KEY, Room, check_room};
use crate::language::sampling::random::Random;

/// What every such model says of itself.
pub const REMARK: &str = "random weights, for latency and memory only: what it says means nothing";

/// Weights of a Q4_0 block, and its bytes: a scale and two codes to a byte.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 2 + BLOCK / 2;

/// Blocks that are drawn at once.
const PIECE: usize = 1 << 14;

/// The sizes of a model of the family `phi3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// What the model is called where nothing else is said.
    pub name: &'static str,
    /// Layers.
    pub layers: usize,
    /// Numbers that stand for one token between the layers: a multiple of 32.
    pub width: usize,
    /// Numbers within a layer's gated product: a multiple of 32.
    pub inner: usize,
    /// Query heads, and as many of keys and values.
    pub heads: usize,
    /// Tokens: at least [`Sizes::FEWEST_TOKENS`].
    pub vocabulary: usize,
    /// Tokens the model is made for.
    pub context: usize,
    /// How many tokens a layer sees.
    pub window: usize,
    /// Whether the head is the embedding's matrix.
    pub tied: bool,
}

impl Sizes {
    /// Special tokens and bytes.
    pub const FEWEST_TOKENS: usize = tokenizer::FEWEST;

    /// Phi-3-mini-4k-instruct: 3.8 billion weights.
    pub const PHI3_MINI: Self = Self {
        name: "phi3-mini-random",
        layers: 32,
        width: 3072,
        inner: 8192,
        heads: 32,
        vocabulary: 32_064,
        context: 4096,
        window: 2047,
        tied: false,
    };

    /// Metadata and tensors, ready to be written.
    ///
    /// # Errors
    ///
    /// [`WriteError::Tensor`] where a size is none that Q4_0 can have.
    pub fn writer(&self) -> Result<Writer, WriteError> {
        let mut writer = Writer::default();
        let m = &mut writer.metadata;
        m.insert("general.architecture", "phi3");
        m.insert("general.name", self.name);
        m.insert("general.description", REMARK);
        m.insert(REMARK_KEY, REMARK);
        // Q4_0, in llama.cpp's numbers.
        m.insert("general.file_type", 2_u32);
        let numbers = [
            ("context_length", self.context),
            ("rope.scaling.original_context_length", self.context),
            ("embedding_length", self.width),
            ("feed_forward_length", self.inner),
            ("block_count", self.layers),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.heads),
            ("rope.dimension_count", self.width / self.heads.max(1)),
            ("attention.sliding_window", self.window),
        ];
        for (key, number) in numbers {
            m.insert(format!("phi3.{key}"), number as u32);
        }
        m.insert("phi3.attention.layer_norm_rms_epsilon", 1e-5_f32);
        m.insert("phi3.rope.freq_base", 10_000_f32);
        tokenizer::describe(m, self.vocabulary);

        let (width, inner) = (self.width as u64, self.inner as u64);
        let vocabulary = self.vocabulary as u64;
        writer.tensor("token_embd.weight", Kind::Q4_0, &[width, vocabulary])?;
        for layer in 0..self.layers {
            let mut add = |part: &str, kind, shape: &[u64]| {
                writer.tensor(&format!("blk.{layer}.{part}.weight"), kind, shape)
            };
            add("attn_norm", Kind::F32, &[width])?;
            add("attn_qkv", Kind::Q4_0, &[width, 3 * width])?;
            add("attn_output", Kind::Q4_0, &[width, width])?;
            add("ffn_norm", Kind::F32, &[width])?;
            add("ffn_up", Kind::Q4_0, &[width, 2 * inner])?;
            add("ffn_down", Kind::Q4_0, &[inner, width])?;
        }
        writer.tensor("output_norm.weight", Kind::F32, &[width])?;
        if !self.tied {
            writer.tensor("output.weight", Kind::Q4_0, &[width, vocabulary])?;
        }
        Ok(writer)
    }

    /// Weights of all matrices.
    #[must_use]
    pub fn weights(&self) -> u64 {
        let (width, inner) = (self.width as u64, self.inner as u64);
        let layer = 4 * width * width + 3 * width * inner;
        let tables = if self.tied { 1 } else { 2 };
        layer * self.layers as u64 + tables * width * self.vocabulary as u64
    }
}

/// Why a model can't be made.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The goal is there.
    #[error("{} is already there; choose another name, or remove it first", goal.display())]
    Exists {
        /// The goal.
        goal: PathBuf,
    },
    /// The device has too little room.
    #[error(transparent)]
    Room(#[from] Room),
    /// The file can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The caller stopped it.
    #[error("cancelled; nothing is left of it")]
    Cancelled,
}

/// Writes a GGUF file at `path`, which must not exist; `progress` is told the bytes written and those there will be,
/// about every quarter of a megabyte, and stops it by breaking.
///
/// # Errors
///
/// [`SynthError`]; then nothing is left.
pub fn save(
    sizes: &Sizes,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), SynthError> {
    if path.symlink_metadata().is_ok() {
        return Err(SynthError::Exists {
            goal: path.to_owned(),
        });
    }
    let writer = sizes.writer()?;
    let total = writer.length()?;
    check_room(path, total)?;
    let (mut done, mut stopped) = (0, false);
    let mut told = |bytes: u64| {
        done += bytes;
        stopped = progress(done.min(total), total).is_break();
        match stopped {
            true => Err(io::Error::other("stopped")),
            false => Ok(()),
        }
    };
    let written = writer.save(path, &mut |tensor, out| fill(tensor, out, &mut told));
    match written {
        Err(_) if stopped => Err(SynthError::Cancelled),
        written => Ok(written?),
    }
}

/// A GGUF file that is gone when this is.
#[derive(Debug)]
pub struct Temporary {
    file: PathBuf,
    _folder: TempDir,
}

impl Temporary {
    /// The file, for as long as this is held.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file
    }
}

/// As [`save`], into a folder beside `goal`, to which the caller will write `more` bytes of what comes of it: there must
/// be room for both.
///
/// # Errors
///
/// As [`save`].
pub fn beside(
    sizes: &Sizes,
    goal: &Path,
    more: u64,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Temporary, SynthError> {
    let length = sizes.writer()?.length()?;
    check_room(goal, length.saturating_add(more))?;
    let parent = match goal.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let folder = tempfile::Builder::new()
        .prefix(".synth-")
        .tempdir_in(parent)
        .map_err(|source| WriteError::Io {
            file: parent.to_owned(),
            source,
        })?;
    let file = folder.path().join(format!("{}.gguf", sizes.name));
    save(sizes, &file, progress)?;
    Ok(Temporary {
        file,
        _folder: folder,
    })
}

/// Writes one tensor's bytes and tells of each piece how many.
///
/// # Errors
///
/// What `out` and `told` say.
pub fn fill(
    tensor: &TensorInfo,
    out: &mut dyn Write,
    told: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    if tensor.kind == Kind::F32 {
        let ones: Vec<u8> = (0..tensor.bytes / 4)
            .flat_map(|_| 1_f32.to_le_bytes())
            .collect();
        out.write_all(&ones)?;
        return told(tensor.bytes);
    }
    let columns = tensor.shape.first().map_or(1.0, |&n| n as f32);
    let scale = f16::from_f32(1.0 / (17.5 * columns).sqrt()).to_le_bytes();
    let mut random = Random::new(seed(&tensor.name));
    let mut left = tensor.bytes as usize / BLOCK_BYTES;
    let mut bytes = Vec::with_capacity(left.min(PIECE) * BLOCK_BYTES);
    while left > 0 {
        let blocks = left.min(PIECE);
        bytes.clear();
        for _ in 0..blocks {
            bytes.extend_from_slice(&scale);
            bytes.extend_from_slice(&codes(random.bits()).to_le_bytes());
            bytes.extend_from_slice(&codes(random.bits()).to_le_bytes());
        }
        out.write_all(&bytes)?;
        told(bytes.len() as u64)?;
        left -= blocks;
    }
    Ok(())
}

/// 16 codes of 4 bits, each 0 among them made an 8.
fn codes(bits: u64) -> u64 {
    const ONES: u64 = 0x1111_1111_1111_1111;
    let any = bits | bits >> 1 | bits >> 2 | bits >> 3;
    bits | (!any & ONES) << 3
}

/// FNV-1a in 64 bits (Fowler, Noll, Vo) of a tensor's name.
fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // By hand: no digit is 0 any more, and the others are what they were.
    #[test]
    fn a_code_of_0_becomes_the_one_that_means_0() {
        assert_eq!(codes(0), 0x8888_8888_8888_8888);
        assert_eq!(codes(0x0123_4567_89ab_cdef), 0x8123_4567_89ab_cdef);
        assert_eq!(codes(0x1000_0000_f000_0008), 0x1888_8888_f888_8888);
    }

    // Test vectors of the FNV authors (draft-eastlake-fnv): "", "a", "foobar".
    #[test]
    fn seeds_are_fnv_1a_of_the_name() {
        assert_eq!(seed(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(seed("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(seed("foobar"), 0x8594_4171_f739_67e8);
    }

    // Published: 3.8 billion (Abdin et al. 2024, "Phi-3 Technical Report"), 3 821 079 552 with its norms; by hand, those
    // are 65 · 3072.
    #[test]
    fn phi3_mini_has_as_many_weights_as_the_real_one() {
        assert_eq!(Sizes::PHI3_MINI.weights() + 65 * 3072, 3_821_079_552);
    }

    // What a matrix of K inputs makes of inputs of variance 1 has variance 1: K · (scale² · 17.5). Of 3 million drawn
    // codes the variance is off by a few thousandths at most.
    #[test]
    fn weights_are_centred_and_keep_the_variance_of_what_goes_through() {
        let mut random = Random::new(seed("blk.0.ffn_up.weight"));
        let (mut sum, mut squares, mut count) = (0_i64, 0_i64, 0_i64);
        for _ in 0..200_000 {
            let bits = codes(random.bits());
            for n in 0..16 {
                let code = (bits >> (4 * n) & 15) as i64 - 8;
                sum += code;
                squares += code * code;
                count += 1;
            }
        }
        let mean = sum as f64 / count as f64;
        let variance = squares as f64 / count as f64;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 17.5).abs() < 0.1, "{variance}");
    }
}
