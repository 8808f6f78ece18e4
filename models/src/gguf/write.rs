//! Writes GGUF files (version 3), in one pass: the head from what was declared, then each tensor's bytes as they come
//! from the caller. A model of any size passes through without being held.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::Shown;
use super::header::{ALIGNMENT, ALIGNMENT_KEY, MAGIC, TensorInfo, code};
use super::kind::Kind;
use super::metadata::{Array, Metadata, Value};

/// The version that is written.
const VERSION: u32 = 3;

/// Why a file can't be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A tensor that no reader would take.
    #[error("tensor {tensor} can't be written: expected {expected}, found {found}")]
    Tensor {
        /// The tensor.
        tensor: Shown,
        /// What the format asks for.
        expected: String,
        /// What was declared.
        found: String,
    },
    /// A value that is not written.
    #[error("metadata key {key} can't be written: expected {expected}, found {found}")]
    Value {
        /// The key.
        key: Shown,
        /// What is written.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// The system refused.
    #[error("{} can't be written: {source}; free some space or choose another folder", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system, or the receiver, refused.
    #[error("the GGUF file can't be written: {0}")]
    Out(#[from] io::Error),
}

/// Gives a tensor's bytes, of which there must be exactly [`TensorInfo::bytes`].
pub type Fill<'a> = dyn FnMut(&TensorInfo, &mut dyn Write) -> io::Result<()> + 'a;

/// A file to be written: its keys and tensors.
///
/// ```
/// use firstword_models::gguf::{Kind, Writer};
///
/// let mut writer = Writer::default();
/// writer.metadata.insert("general.architecture", "llama");
/// writer.tensor("output_norm.weight", Kind::F32, &[2])?;
/// let mut file = Vec::new();
/// writer.write(&mut file, &mut |_, out| out.write_all(&[0; 8]))?;
/// assert_eq!(file.len() as u64, writer.length()?);
/// # Ok::<(), firstword_models::gguf::WriteError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Writer {
    /// Keys and values. `general.alignment`, if there, is kept to.
    pub metadata: Metadata,
    /// `offset` is counted from where the data begin.
    tensors: Vec<TensorInfo>,
}

impl Writer {
    /// Declares the next tensor: its data come in the order of these calls. `shape` has the innermost size first.
    ///
    /// # Errors
    ///
    /// [`WriteError::Tensor`] for an empty or known name, no or over four dimensions, one of size 0, a row that is no
    /// whole number of blocks, or a size that can't be counted.
    pub fn tensor(&mut self, name: &str, kind: Kind, shape: &[u64]) -> Result<(), WriteError> {
        let fail = |expected: &str, found: String| WriteError::Tensor {
            tensor: Shown::new(name),
            expected: expected.to_owned(),
            found,
        };
        if name.is_empty() || self.tensors.iter().any(|tensor| tensor.name == name) {
            return Err(fail("a name of its own", Shown::new(name).to_string()));
        }
        if shape.is_empty() || shape.len() > 4 || shape.contains(&0) {
            return Err(fail(
                "1 to 4 dimensions, none of them 0",
                format!("{shape:?}"),
            ));
        }
        let block = kind.block() as u64;
        if !shape[0].is_multiple_of(block) {
            return Err(fail(
                &format!("rows of a multiple of {block} values for {kind}"),
                shape[0].to_string(),
            ));
        }
        let bytes = (shape.iter())
            .try_fold(1_u64, |all, &size| all.checked_mul(size))
            .and_then(|values| (values / block).checked_mul(kind.block_bytes() as u64));
        // What a file can hold, with room for the head.
        let Some(bytes) = bytes.filter(|&bytes| bytes < 1 << 62) else {
            return Err(fail(
                "a size that can be counted",
                format!("{shape:?} of {kind}"),
            ));
        };
        self.tensors.push(TensorInfo {
            name: name.to_owned(),
            kind,
            shape: shape.to_vec(),
            part: 0,
            offset: 0,
            bytes,
        });
        Ok(())
    }

    /// Bytes of the finished file, to be compared with the free space beforehand.
    ///
    /// # Errors
    ///
    /// [`WriteError::Value`] for metadata that can't be written.
    pub fn length(&self) -> Result<u64, WriteError> {
        let (head, tensors) = self.head()?;
        Ok(tensors
            .last()
            .map_or(head.len() as u64, |last| last.offset + last.bytes))
    }

    /// Writes the file to `out`; `fill` is called once for each tensor, in order.
    ///
    /// # Errors
    ///
    /// [`WriteError::Value`] for metadata that can't be written; [`WriteError::Tensor`] when `fill` gives too few or
    /// too many bytes; [`WriteError::Out`] when `out` or `fill` fails.
    pub fn write(&self, out: &mut dyn Write, fill: &mut Fill<'_>) -> Result<(), WriteError> {
        let (head, tensors) = self.head()?;
        out.write_all(&head)?;
        let mut at = head.len() as u64;
        drop(head);
        for tensor in &tensors {
            io::copy(&mut io::Read::take(io::repeat(0), tensor.offset - at), out)?;
            let mut data = Data {
                out: &mut *out,
                left: tensor.bytes,
                over: false,
            };
            let filled = fill(tensor, &mut data);
            let (left, over) = (data.left, data.over);
            let fail = |found: String| WriteError::Tensor {
                tensor: Shown::new(&tensor.name),
                expected: format!("{} bytes", tensor.bytes),
                found,
            };
            if over {
                return Err(fail("more".to_owned()));
            }
            filled?;
            if left > 0 {
                return Err(fail((tensor.bytes - left).to_string()));
            }
            at = tensor.offset + tensor.bytes;
        }
        Ok(out.flush()?)
    }

    /// Writes the file at `path`: beside it first, under its name when it is whole and on the disk.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`], and [`WriteError::Io`]. Nothing is left of a file that could not be finished.
    pub fn save(&self, path: &Path, fill: &mut Fill<'_>) -> Result<(), WriteError> {
        let fail = |source| WriteError::Io {
            file: path.to_owned(),
            source,
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(".gguf-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(fail)?;
        self.write(&mut BufWriter::with_capacity(1 << 18, &mut file), fill)
            .map_err(|error| match error {
                WriteError::Out(source) => fail(source),
                error => error,
            })?;
        file.as_file().sync_all().map_err(fail)?;
        file.persist(path).map_err(|error| fail(error.error))?;
        Ok(())
    }

    /// The head's bytes, and the tensors with offsets from the file's start.
    fn head(&self) -> Result<(Vec<u8>, Vec<TensorInfo>), WriteError> {
        let alignment = match self.metadata.get(ALIGNMENT_KEY) {
            None => ALIGNMENT,
            Some(&Value::U32(alignment)) if alignment.is_power_of_two() => alignment.into(),
            Some(other) => {
                return Err(refused(
                    ALIGNMENT_KEY,
                    "a u32 that is a power of two",
                    other.description(),
                ));
            }
        };
        let mut head = Vec::new();
        head.extend(MAGIC);
        head.extend(VERSION.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.iter().len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            if key.is_empty() || key.len() > usize::from(u16::MAX) {
                return Err(refused(
                    key,
                    "a key of 1 to 65535 bytes",
                    format!("one of {}", key.len()),
                ));
            }
            put_string(&mut head, key.as_bytes());
            put_value(&mut head, key, value)?;
        }
        let mut tensors = self.tensors.clone();
        let mut offset = 0_u64;
        for tensor in &mut tensors {
            put_string(&mut head, tensor.name.as_bytes());
            head.extend((tensor.shape.len() as u32).to_le_bytes());
            head.extend(tensor.shape.iter().flat_map(|size| size.to_le_bytes()));
            head.extend(tensor.kind.code().to_le_bytes());
            head.extend(offset.to_le_bytes());
            tensor.offset = offset;
            offset = offset
                .saturating_add(tensor.bytes)
                .checked_next_multiple_of(alignment)
                .unwrap_or(u64::MAX);
        }
        if offset > i64::MAX as u64 {
            return Err(WriteError::Tensor {
                tensor: Shown::new("(all)"),
                expected: "fewer than 2^63 bytes in all".to_owned(),
                found: "more".to_owned(),
            });
        }
        let data = (head.len() as u64).next_multiple_of(alignment);
        for tensor in &mut tensors {
            tensor.offset += data;
        }
        Ok((head, tensors))
    }
}

/// Takes no more than a tensor's bytes.
struct Data<'a> {
    out: &'a mut dyn Write,
    left: u64,
    over: bool,
}

impl Write for Data<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.over = true;
            return Err(io::Error::other("more bytes than the tensor has"));
        }
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn refused(key: &str, expected: &'static str, found: String) -> WriteError {
    WriteError::Value {
        key: Shown::new(key),
        expected,
        found,
    }
}

fn put_string(head: &mut Vec<u8>, string: &[u8]) {
    head.extend((string.len() as u64).to_le_bytes());
    head.extend_from_slice(string);
}

fn put_value(head: &mut Vec<u8>, key: &str, value: &Value) -> Result<(), WriteError> {
    let mut put = |kind: u32, bytes: &[u8]| {
        head.extend(kind.to_le_bytes());
        head.extend_from_slice(bytes);
    };
    match value {
        Value::U8(value) => put(code::U8, &value.to_le_bytes()),
        Value::I8(value) => put(code::I8, &value.to_le_bytes()),
        Value::U16(value) => put(code::U16, &value.to_le_bytes()),
        Value::I16(value) => put(code::I16, &value.to_le_bytes()),
        Value::U32(value) => put(code::U32, &value.to_le_bytes()),
        Value::I32(value) => put(code::I32, &value.to_le_bytes()),
        Value::F32(value) => put(code::F32, &value.to_le_bytes()),
        Value::Bool(value) => put(code::BOOL, &[u8::from(*value)]),
        Value::String(text) => {
            put(code::STRING, &(text.len() as u64).to_le_bytes());
            head.extend_from_slice(text);
        }
        Value::Array(array) => {
            head.extend(code::ARRAY.to_le_bytes());
            put_array(head, key, array)?;
        }
        Value::U64(value) => put(code::U64, &value.to_le_bytes()),
        Value::I64(value) => put(code::I64, &value.to_le_bytes()),
        Value::F64(value) => put(code::F64, &value.to_le_bytes()),
    }
    Ok(())
}

fn put_array(head: &mut Vec<u8>, key: &str, array: &Array) -> Result<(), WriteError> {
    let mut start = |kind: u32| {
        head.extend(kind.to_le_bytes());
        head.extend((array.len() as u64).to_le_bytes());
    };
    macro_rules! numbers {
        ($kind:expr, $values:expr) => {{
            start($kind);
            head.extend($values.iter().flat_map(|value| value.to_le_bytes()));
        }};
    }
    match array {
        Array::U8(values) => numbers!(code::U8, values),
        Array::I8(values) => numbers!(code::I8, values),
        Array::U16(values) => numbers!(code::U16, values),
        Array::I16(values) => numbers!(code::I16, values),
        Array::U32(values) => numbers!(code::U32, values),
        Array::I32(values) => numbers!(code::I32, values),
        Array::F32(values) => numbers!(code::F32, values),
        Array::Bool(values) => {
            start(code::BOOL);
            head.extend(values.iter().map(|&value| u8::from(value)));
        }
        Array::Strings(strings) => {
            start(code::STRING);
            strings.iter().for_each(|string| put_string(head, string));
        }
        Array::Nested { .. } => {
            return Err(refused(key, "no arrays within arrays", array.description()));
        }
        Array::U64(values) => numbers!(code::U64, values),
        Array::I64(values) => numbers!(code::I64, values),
        Array::F64(values) => numbers!(code::F64, values),
    }
    Ok(())
}
