//! The types a tensor's values can have in a GGUF file: which are read here, and the names of all others, so that a
//! refusal can say which one it met.

use std::fmt;

/// How the values of a tensor are stored. Types that are not here are refused by name when a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 32-bit floats.
    F32,
    /// 16-bit IEEE floats.
    F16,
    /// The upper half of 32-bit floats.
    BF16,
    /// 4-bit codes, a scale for 32 of them; zero is 8.
    Q4_0,
    /// 4-bit codes, a scale and a minimum for 32 of them.
    Q4_1,
    /// 5-bit codes, a scale for 32 of them; zero is 16.
    Q5_0,
    /// 5-bit codes, a scale and a minimum for 32 of them.
    Q5_1,
    /// 8-bit codes, a scale for 32 of them.
    Q8_0,
    /// 2-bit codes; a 4-bit scale and minimum for 16 of them, within blocks of 256.
    Q2K,
    /// 3-bit codes; a 6-bit scale for 16 of them, within blocks of 256.
    Q3K,
    /// 4-bit codes; a 6-bit scale and minimum for 32 of them, within blocks of 256.
    Q4K,
    /// 5-bit codes; a 6-bit scale and minimum for 32 of them, within blocks of 256.
    Q5K,
    /// 6-bit codes; an 8-bit scale for 16 of them, within blocks of 256.
    Q6K,
}

impl Kind {
    /// Every type that is read here.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// The type with this number in ggml's table (`enum ggml_type`), if it is read here.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Its number in ggml's table.
    pub fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::Q2K => 10,
            Self::Q3K => 11,
            Self::Q4K => 12,
            Self::Q5K => 13,
            Self::Q6K => 14,
            Self::BF16 => 30,
        }
    }

    /// Its name in ggml.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q2K => "Q2_K",
            Self::Q3K => "Q3_K",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Values that are stored together: 1, 32 or 256. A row is a whole number of blocks.
    pub fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 => 2 + 16,
            Self::Q4_1 => 2 + 2 + 16,
            Self::Q5_0 => 2 + 4 + 16,
            Self::Q5_1 => 2 + 2 + 4 + 16,
            Self::Q8_0 => 2 + 32,
            Self::Q2K => 16 + 64 + 2 + 2,
            Self::Q3K => 32 + 64 + 12 + 2,
            Self::Q4K => 2 + 2 + 12 + 128,
            Self::Q5K => 2 + 2 + 12 + 32 + 128,
            Self::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// Bits of one code; `None` for floats.
    pub fn bits(self) -> Option<u32> {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => None,
            Self::Q2K => Some(2),
            Self::Q3K => Some(3),
            Self::Q4_0 | Self::Q4_1 | Self::Q4K => Some(4),
            Self::Q5_0 | Self::Q5_1 | Self::Q5K => Some(5),
            Self::Q6K => Some(6),
            Self::Q8_0 => Some(8),
        }
    }

    /// Codes that share a scale: 16 or 32; 1 for floats.
    pub fn group(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q2K | Self::Q3K | Self::Q6K => 16,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K => 32,
        }
    }

    /// The code that means 0, where it is the same for all; `None` for floats and where each group has a minimum.
    pub fn zero(self) -> Option<u8> {
        match self {
            Self::Q3K => Some(4),
            Self::Q4_0 => Some(8),
            Self::Q5_0 => Some(16),
            Self::Q6K => Some(32),
            Self::Q8_0 => Some(128),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// What ggml calls the type with this number, for a refusal. The numbers are those of `enum ggml_type` in ggml.h; the
/// ones that ggml itself took out again are among them, because files with them are still about.
pub fn name_of(code: u32) -> Option<&'static str> {
    if let Some(kind) = Kind::from_code(code) {
        return Some(kind.name());
    }
    Some(match code {
        4 => "Q4_2",
        5 => "Q4_3",
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        34 => "TQ1_0",
        35 => "TQ2_0",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        39 => "MXFP4",
        40 => "NVFP4",
        41 => "Q1_0",
        _ => return None,
    })
}
