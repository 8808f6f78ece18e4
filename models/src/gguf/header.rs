//! The head of one GGUF file: version, metadata, and what tensors lie where. Nothing of it is believed: every count,
//! length, shape, type and offset is held against the file's size before memory is taken for it.
//!
//! The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use super::cursor::Cursor;
use super::error::{GgufError, Shown};
use super::kind::{self, Kind};
use super::metadata::{Array, Metadata, Strings, Value};

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// Where tensors begin is a multiple of this, unless the metadata say otherwise.
pub const ALIGNMENT: u64 = 32;
/// The key that says otherwise.
pub const ALIGNMENT_KEY: &str = "general.alignment";

/// Numbers of the value types in a file.
pub mod code {
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// More keys or tensors than this are not believed. Real files have tens of keys; the largest models known have some
/// thousand tensors in all their parts.
const MOST_ENTRIES: u64 = 1 << 16;
/// `GGML_MAX_DIMS`.
const MOST_DIMENSIONS: u32 = 4;
/// Arrays within arrays are allowed by the format and used by no known model.
const DEEPEST: u32 = 4;
/// A key: length, one character, type, value of one byte.
const LEAST_KEY: u64 = 8 + 1 + 4 + 1;
/// A tensor: length, one character, number of dimensions, one of them, type, offset.
const LEAST_TENSOR: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// One tensor: what it is and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name, as `blk.0.attn_q.weight`.
    pub name: String,
    /// How its values are stored.
    pub kind: Kind,
    /// One to four sizes, none of them 0, in GGUF's order: the innermost (a row's length, K) first.
    pub shape: Vec<u64>,
    /// The part of a split file that holds it, from 0.
    pub part: usize,
    /// Where it begins in that file, in bytes from the start.
    pub offset: u64,
    /// Bytes it takes.
    pub bytes: u64,
}

impl TensorInfo {
    /// A row's length (K): the innermost size.
    pub fn columns(&self) -> usize {
        self.shape[0] as usize
    }

    /// How many rows (N): the product of the other sizes, 1 for a vector.
    pub fn rows(&self) -> usize {
        self.shape[1..].iter().product::<u64>() as usize
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.columns() / self.kind.block() * self.kind.block_bytes()
    }
}

/// What one file says of itself.
#[derive(Debug)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Keys and values.
    pub metadata: Metadata,
    /// Its tensors, in the file's order; `part` is 0.
    pub tensors: Vec<TensorInfo>,
}

impl Header {
    /// Reads and checks the head of `file`, which has `length` bytes.
    pub fn read(file: &File, path: &Path, length: u64) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(file, path, length);
        let version = version(&mut cursor)?;

        let tensors_at = cursor.at();
        let tensor_count = cursor.u64("number of tensors")?;
        let keys_at = cursor.at();
        let key_count = cursor.u64("number of metadata keys")?;
        count(
            &cursor,
            tensors_at,
            tensor_count,
            LEAST_TENSOR,
            "number of tensors",
        )?;
        count(
            &cursor,
            keys_at,
            key_count,
            LEAST_KEY,
            "number of metadata keys",
        )?;

        let mut metadata = Metadata::of(path);
        for _ in 0..key_count {
            let start = cursor.at();
            let key = cursor.name("metadata key")?;
            let what = format!("value of {}", Shown::new(&key));
            let value = value(&mut cursor, &what)?;
            if metadata.get(&key).is_some() {
                let found = format!("{} a second time", Shown::new(&key));
                return Err(cursor.damaged(start, "metadata key", "each key once", found));
            }
            metadata.insert(key, value);
        }
        let alignment = alignment(&cursor, &metadata)?;

        let mut names = HashSet::new();
        let mut tensors = Vec::new();
        let mut described_at = Vec::new();
        for _ in 0..tensor_count {
            let start = cursor.at();
            let tensor = tensor(&mut cursor, alignment)?;
            if !names.insert(tensor.name.clone()) {
                let found = format!("{} a second time", Shown::new(&tensor.name));
                return Err(cursor.damaged(start, "tensor name", "each tensor once", found));
            }
            tensors.push(tensor);
            described_at.push(start);
        }
        place(&cursor, alignment, &mut tensors, &described_at)?;
        Ok(Self {
            version,
            metadata,
            tensors,
        })
    }
}

fn version(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let mut start = vec![0; cursor.left().min(MAGIC.len() as u64) as usize];
    cursor.fill(&mut start, "first bytes")?;
    if start != MAGIC {
        return Err(GgufError::NotGguf {
            file: cursor.path(),
            found: looks_like(&start),
        });
    }
    let version = cursor.u32("version")?;
    match version {
        2 | 3 => Ok(version),
        // Small numbers have their low half zero when their bytes are the other way round.
        _ if version & 0xffff == 0 && version != 0 => Err(GgufError::BigEndian {
            file: cursor.path(),
        }),
        _ => Err(GgufError::Version {
            file: cursor.path(),
            version,
        }),
    }
}

/// What people have in place of a GGUF file, by its first bytes.
fn looks_like(start: &[u8]) -> String {
    match start {
        [] => "an empty file: fetch it again",
        b"vers" => {
            "a Git LFS pointer: fetch the file itself (`git lfs pull`, or its download link)"
        }
        b"<!do" | b"<!DO" | b"<htm" | b"<HTM" => {
            "a web page: fetch the file itself, not the page about it"
        }
        b"tjgg" | b"fmgg" | b"lmgg" | b"algg" => {
            "a GGML file from before GGUF: fetch a newer conversion of the model"
        }
        b"FUGG" => "GGUF with its bytes swapped: fetch the usual, little-endian build",
        [b'P', b'K', ..] => "a zip archive: unpack it first",
        [0x1f, 0x8b, ..] => "a gzip archive: unpack it first",
        _ => return format!("the bytes {start:02x?}: check the path, or fetch it again"),
    }
    .to_owned()
}

/// Refuses a count of entries that can't fit into the rest of the file.
fn count(
    cursor: &Cursor<'_>,
    at: u64,
    found: u64,
    least: u64,
    what: &str,
) -> Result<(), GgufError> {
    let most = MOST_ENTRIES.min(cursor.left() / least);
    if found > most {
        let expected = format!("at most {most} in a file of this size");
        return Err(cursor.damaged(at, what, expected, found.to_string()));
    }
    Ok(())
}

fn value(cursor: &mut Cursor<'_>, what: &str) -> Result<Value, GgufError> {
    let start = cursor.at();
    Ok(match cursor.u32(what)? {
        code::U8 => Value::U8(u8::from_le_bytes(cursor.bytes(what)?)),
        code::I8 => Value::I8(i8::from_le_bytes(cursor.bytes(what)?)),
        code::U16 => Value::U16(u16::from_le_bytes(cursor.bytes(what)?)),
        code::I16 => Value::I16(i16::from_le_bytes(cursor.bytes(what)?)),
        code::U32 => Value::U32(u32::from_le_bytes(cursor.bytes(what)?)),
        code::I32 => Value::I32(i32::from_le_bytes(cursor.bytes(what)?)),
        code::F32 => Value::F32(f32::from_le_bytes(cursor.bytes(what)?)),
        code::BOOL => {
            let at = cursor.at();
            let [byte] = cursor.bytes(what)?;
            Value::Bool(bool_of(cursor, at, byte, what)?)
        }
        code::STRING => {
            let longest = cursor.left();
            Value::String(cursor.string(longest, what)?)
        }
        code::ARRAY => Value::Array(array(cursor, what)?),
        code::U64 => Value::U64(u64::from_le_bytes(cursor.bytes(what)?)),
        code::I64 => Value::I64(i64::from_le_bytes(cursor.bytes(what)?)),
        code::F64 => Value::F64(f64::from_le_bytes(cursor.bytes(what)?)),
        unknown => return Err(unknown_type(cursor, start, unknown, what)),
    })
}

fn unknown_type(cursor: &Cursor<'_>, at: u64, found: u32, what: &str) -> GgufError {
    cursor.damaged(at, what, "a value type from 0 to 12", found.to_string())
}

fn bool_of(cursor: &Cursor<'_>, at: u64, byte: u8, what: &str) -> Result<bool, GgufError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.damaged(at, what, "a bool, 0 or 1", byte.to_string())),
    }
}

fn array(cursor: &mut Cursor<'_>, what: &str) -> Result<Array, GgufError> {
    let start = cursor.at();
    let (kind, length) = array_head(cursor, what)?;
    Ok(match kind {
        code::U8 => Array::U8(numbers(cursor, length, u8::from_le_bytes, what)?),
        code::I8 => Array::I8(numbers(cursor, length, i8::from_le_bytes, what)?),
        code::U16 => Array::U16(numbers(cursor, length, u16::from_le_bytes, what)?),
        code::I16 => Array::I16(numbers(cursor, length, i16::from_le_bytes, what)?),
        code::U32 => Array::U32(numbers(cursor, length, u32::from_le_bytes, what)?),
        code::I32 => Array::I32(numbers(cursor, length, i32::from_le_bytes, what)?),
        code::F32 => Array::F32(numbers(cursor, length, f32::from_le_bytes, what)?),
        code::BOOL => {
            let first = cursor.at();
            let bytes = numbers(cursor, length, u8::from_le_bytes, what)?;
            let bools = bytes.iter().zip(first..);
            Array::Bool(
                bools
                    .map(|(&byte, at)| bool_of(cursor, at, byte, what))
                    .collect::<Result<_, _>>()?,
            )
        }
        code::STRING => {
            let mut strings = Strings::default();
            for _ in 0..length {
                cursor.keep(size_of::<usize>() as u64, what)?;
                let longest = cursor.left();
                strings.push(&cursor.string(longest, what)?);
            }
            Array::Strings(strings)
        }
        code::ARRAY => {
            for _ in 0..length {
                skip_array(cursor, 2, what)?;
            }
            // At most the file's length, as seen with the array's head.
            Array::Nested {
                len: length as usize,
            }
        }
        code::U64 => Array::U64(numbers(cursor, length, u64::from_le_bytes, what)?),
        code::I64 => Array::I64(numbers(cursor, length, i64::from_le_bytes, what)?),
        code::F64 => Array::F64(numbers(cursor, length, f64::from_le_bytes, what)?),
        unknown => return Err(unknown_type(cursor, start, unknown, what)),
    })
}

/// The least bytes that a value of this type takes in an array.
fn least_bytes(kind: u32) -> Option<u64> {
    Some(match kind {
        code::U8 | code::I8 | code::BOOL => 1,
        code::U16 | code::I16 => 2,
        code::U32 | code::I32 | code::F32 => 4,
        code::U64 | code::I64 | code::F64 | code::STRING => 8,
        code::ARRAY => 12,
        _ => return None,
    })
}

/// An array's type and length; as many values of that type can be in the rest of the file.
fn array_head(cursor: &mut Cursor<'_>, what: &str) -> Result<(u32, u64), GgufError> {
    let start = cursor.at();
    let kind = cursor.u32(what)?;
    let Some(least) = least_bytes(kind) else {
        return Err(unknown_type(cursor, start, kind, what));
    };
    let at = cursor.at();
    let length = cursor.u64(what)?;
    let most = cursor.left() / least;
    if length > most {
        let expected =
            format!("an array of at most {most} values, which is what is left of the file");
        return Err(cursor.damaged(at, what, expected, length.to_string()));
    }
    Ok((kind, length))
}

/// Numbers of `N` bytes each; that many are known to be in the file.
fn numbers<T, const N: usize>(
    cursor: &mut Cursor<'_>,
    length: u64,
    number: fn([u8; N]) -> T,
    what: &str,
) -> Result<Vec<T>, GgufError> {
    cursor.keep(length.saturating_mul(N as u64), what)?;
    let mut numbers = Vec::with_capacity(length as usize);
    for _ in 0..length {
        numbers.push(number(cursor.bytes(what)?));
    }
    Ok(numbers)
}

/// Checks an array within an array and keeps nothing of it.
fn skip_array(cursor: &mut Cursor<'_>, depth: u32, what: &str) -> Result<(), GgufError> {
    let start = cursor.at();
    let (kind, length) = array_head(cursor, what)?;
    match kind {
        code::ARRAY if depth == DEEPEST => {
            let expected = format!("arrays within arrays at most {DEEPEST} deep");
            return Err(cursor.damaged(start, what, expected, "deeper ones"));
        }
        code::ARRAY => {
            for _ in 0..length {
                skip_array(cursor, depth + 1, what)?;
            }
        }
        code::STRING => {
            for _ in 0..length {
                let bytes = cursor.u64(what)?;
                cursor.skip(bytes, what)?;
            }
        }
        number => cursor.skip(length * least_bytes(number).unwrap_or(0), what)?,
    }
    Ok(())
}

fn alignment(cursor: &Cursor<'_>, metadata: &Metadata) -> Result<u64, GgufError> {
    match metadata.get(ALIGNMENT_KEY) {
        None => Ok(ALIGNMENT),
        Some(&Value::U32(alignment)) if alignment.is_power_of_two() => Ok(alignment.into()),
        Some(other) => Err(cursor.damaged(
            cursor.at(),
            format!("the key `{ALIGNMENT_KEY}` above"),
            "a u32 that is a power of two",
            other.description(),
        )),
    }
}

/// One tensor's description; `offset` is still counted from where the data begin.
fn tensor(cursor: &mut Cursor<'_>, alignment: u64) -> Result<TensorInfo, GgufError> {
    let start = cursor.at();
    let name = cursor.name("tensor name")?;
    let shown = Shown::new(&name);

    let what = format!("shape of tensor {shown}");
    let at = cursor.at();
    let dimensions = cursor.u32(&what)?;
    if dimensions == 0 || dimensions > MOST_DIMENSIONS {
        let expected = format!("1 to {MOST_DIMENSIONS} dimensions");
        return Err(cursor.damaged(at, what, expected, dimensions.to_string()));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(cursor.u64(&what)?);
    }
    if shape.contains(&0) {
        return Err(cursor.damaged(at, what, "no dimension of 0", format!("{shape:?}")));
    }

    let code = cursor.u32(&format!("type of tensor {shown}"))?;
    let Some(kind) = Kind::from_code(code) else {
        return Err(GgufError::Unsupported {
            file: cursor.path(),
            offset: start,
            tensor: shown,
            kind: kind::name_of(code).map_or_else(
                || format!("number {code}, which ggml doesn't list"),
                str::to_owned,
            ),
        });
    };

    let block = kind.block() as u64;
    if shape[0] % block != 0 {
        let expected = format!("rows of a multiple of {block} values for {kind}");
        return Err(cursor.damaged(at, what, expected, shape[0].to_string()));
    }
    let bytes = (shape.iter())
        .try_fold(1_u64, |all, &size| all.checked_mul(size))
        .and_then(|values| (values / block).checked_mul(kind.block_bytes() as u64))
        .filter(|&bytes| usize::try_from(bytes).is_ok());
    let Some(bytes) = bytes else {
        return Err(cursor.damaged(
            at,
            what,
            "a size that can be counted",
            format!("{shape:?} of {kind}"),
        ));
    };

    let what = format!("offset of tensor {shown}");
    let at = cursor.at();
    let offset = cursor.u64(&what)?;
    if offset % alignment != 0 {
        let expected = format!("a multiple of the alignment {alignment}");
        return Err(cursor.damaged(at, what, expected, offset.to_string()));
    }
    Ok(TensorInfo {
        name,
        kind,
        shape,
        part: 0,
        offset,
        bytes,
    })
}

/// Counts offsets from the file's start, and sees that every tensor lies in the file and no two on each other.
fn place(
    cursor: &Cursor<'_>,
    alignment: u64,
    tensors: &mut [TensorInfo],
    described_at: &[u64],
) -> Result<(), GgufError> {
    // Both are below 2^63: a file's length, and a u32.
    let data = cursor.at().next_multiple_of(alignment);
    let length = cursor.at() + cursor.left();
    for (tensor, &at) in tensors.iter_mut().zip(described_at) {
        let end =
            (data.checked_add(tensor.offset)).and_then(|start| start.checked_add(tensor.bytes));
        if end.is_none_or(|end| end > length) {
            let end = end.map_or_else(|| "over 2^64".to_owned(), |end| end.to_string());
            return Err(cursor.damaged(
                at,
                format!("data of tensor {}", Shown::new(&tensor.name)),
                format!("a file of at least {end} bytes"),
                format!("{length}, so that it was cut or the offset is wrong"),
            ));
        }
        tensor.offset += data;
    }

    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&index| tensors[index].offset);
    for pair in order.windows(2) {
        let (first, second) = (&tensors[pair[0]], &tensors[pair[1]]);
        let end = first.offset + first.bytes;
        if second.offset < end {
            return Err(cursor.damaged(
                described_at[pair[1]],
                format!("data of tensor {}", Shown::new(&second.name)),
                format!(
                    "it to begin after {}, at byte {end} or later",
                    Shown::new(&first.name)
                ),
                format!("byte {}", second.offset),
            ));
        }
    }
    Ok(())
}
