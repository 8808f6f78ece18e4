//! Reading a tensor, some rows at a time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::blocks::{self, Blocks};
use super::error::{GgufError, Shown};
use super::header::TensorInfo;
use super::kind::Kind;

/// Bytes that are read at once when values are unpacked: small enough to stay in the processor's caches.
const PIECE: usize = 1 << 18;

/// One tensor of an opened file.
///
/// It is read with `pread` into memory of the caller's choice, not mapped: a file that is cut while it is in use gives
/// an error and no SIGBUS, and the memory in use is what the caller holds, however large the tensor.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    info: &'a TensorInfo,
    path: &'a Path,
    file: &'a File,
}

impl<'a> Tensor<'a> {
    /// The tensor that `info` describes, in `file`.
    pub(super) fn new(info: &'a TensorInfo, path: &'a Path, file: &'a File) -> Self {
        Self { info, path, file }
    }

    /// Name, shape, type and place.
    pub fn info(&self) -> &'a TensorInfo {
        self.info
    }

    /// How its values are stored.
    pub fn kind(&self) -> Kind {
        self.info.kind
    }

    /// How many rows (N).
    pub fn rows(&self) -> usize {
        self.info.rows()
    }

    /// A row's length in values (K).
    pub fn columns(&self) -> usize {
        self.info.columns()
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.info.row_bytes()
    }

    /// Reads rows as they are stored: `into` is made `rows.len() * row_bytes()` long. It can be used again.
    ///
    /// # Errors
    ///
    /// [`GgufError::Request`] for rows that are not there; [`GgufError::Io`] and [`GgufError::Damaged`] when the file
    /// can't be read, or was cut since it was opened.
    pub fn raw(&self, rows: Range<usize>, into: &mut Vec<u8>) -> Result<(), GgufError> {
        let bytes = self.span(&rows)?;
        into.resize(bytes.len(), 0);
        self.read(bytes.start, into)
    }

    /// Reads rows as floats: `out` has `rows.len() * columns()` of them.
    ///
    /// # Errors
    ///
    /// As [`Tensor::raw`], and [`GgufError::Request`] when `out` has another length.
    pub fn dequantise(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), GgufError> {
        let bytes = self.span(&rows)?;
        let values = rows.len() * self.columns();
        if out.len() != values {
            return Err(self.request("floats for these rows", values, out.len()));
        }
        let (block, block_bytes) = (self.kind().block(), self.kind().block_bytes());
        let piece = (PIECE / block_bytes).min(values / block);
        let mut raw = vec![0; piece * block_bytes];
        let mut at = bytes.start;
        for out in out.chunks_mut((piece * block).max(1)) {
            let raw = &mut raw[..out.len() / block * block_bytes];
            self.read(at, raw)?;
            blocks::dequantise(self.kind(), raw, out);
            at += raw.len();
        }
        Ok(())
    }

    /// Reads rows as integer codes with their scales, for packing them anew; `into` can be used again. `false`, and
    /// `into` untouched, for floats, which have no codes.
    ///
    /// # Errors
    ///
    /// As [`Tensor::raw`].
    pub fn codes(&self, rows: Range<usize>, into: &mut Blocks) -> Result<bool, GgufError> {
        if self.kind().bits().is_none() {
            return Ok(false);
        }
        let mut raw = Vec::new();
        self.raw(rows, &mut raw)?;
        Ok(into.unpack(self.kind(), &raw))
    }

    /// Where these rows lie, in bytes from the tensor's start.
    fn span(&self, rows: &Range<usize>) -> Result<Range<usize>, GgufError> {
        if rows.start > rows.end || rows.end > self.rows() {
            return Err(self.request(
                "rows",
                format!("within 0..{}", self.rows()),
                format!("{rows:?}"),
            ));
        }
        // Neither overflows: the whole tensor's bytes were counted in a usize when the file was opened.
        Ok(rows.start * self.row_bytes()..rows.end * self.row_bytes())
    }

    fn request(
        &self,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> GgufError {
        GgufError::Request {
            tensor: Shown::new(&self.info.name),
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    fn read(&self, start: usize, into: &mut [u8]) -> Result<(), GgufError> {
        let at = self.info.offset + start as u64;
        self.file.read_exact_at(into, at).map_err(|source| {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                GgufError::Damaged {
                    file: self.path.to_owned(),
                    offset: at,
                    what: format!("data of tensor {}", Shown::new(&self.info.name)),
                    expected: format!("{} bytes", into.len()),
                    found: "fewer: the file was cut after it was opened".to_owned(),
                }
            } else {
                GgufError::Io {
                    file: self.path.to_owned(),
                    source,
                }
            }
        })
    }
}
