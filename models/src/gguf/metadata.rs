//! The keys and values at the head of a GGUF file, and getters that say what was expected when a key is not there or
//! is of another type.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::error::{MetadataError, Shown};

/// One value. Text is kept as bytes: the format asks for UTF-8, files in the wild don't always keep to it, and one odd
/// author's name must not make a model unreadable. The getters check it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(Vec<u8>),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// Many values of one type.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Strings(Strings),
    /// An array of arrays: checked, its values not kept (no model is known to need them). `len` arrays.
    Nested {
        len: usize,
    },
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// Many strings in one piece of memory: a vocabulary has 262144 of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    /// Adds one at the end.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, in order, as they are in the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = &self.bytes[start..end];
            start = end;
            string
        })
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Self::default();
        for string in strings {
            all.push(string.as_ref());
        }
        all
    }
}

impl Value {
    /// What it is, for an error: its type, its value if that is short.
    pub fn description(&self) -> String {
        match self {
            Self::U8(value) => format!("u8 {value}"),
            Self::I8(value) => format!("i8 {value}"),
            Self::U16(value) => format!("u16 {value}"),
            Self::I16(value) => format!("i16 {value}"),
            Self::U32(value) => format!("u32 {value}"),
            Self::I32(value) => format!("i32 {value}"),
            Self::F32(value) => format!("f32 {value}"),
            Self::Bool(value) => format!("bool {value}"),
            Self::String(text) => format!("string {}", Shown::new(text)),
            Self::Array(array) => array.description(),
            Self::U64(value) => format!("u64 {value}"),
            Self::I64(value) => format!("i64 {value}"),
            Self::F64(value) => format!("f64 {value}"),
        }
    }

    /// Any integer.
    fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(value) => value.into(),
            Self::I8(value) => value.into(),
            Self::U16(value) => value.into(),
            Self::I16(value) => value.into(),
            Self::U32(value) => value.into(),
            Self::I32(value) => value.into(),
            Self::U64(value) => value.into(),
            Self::I64(value) => value.into(),
            _ => return None,
        })
    }
}

impl Array {
    /// How many values it has.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::I8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Strings(values) => values.len(),
            Self::Nested { len } => *len,
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn description(&self) -> String {
        let name = match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::F32(_) => "f32",
            Self::Bool(_) => "bool",
            Self::Strings(_) => "string",
            Self::Nested { .. } => "array",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F64(_) => "f64",
        };
        format!("an array of {} {name}", self.len())
    }

    /// Integers of any type, each of which must fit.
    fn integers<T: TryFrom<i128>>(&self) -> Option<Vec<T>> {
        fn all<S: Copy + Into<i128>, T: TryFrom<i128>>(values: &[S]) -> Option<Vec<T>> {
            values
                .iter()
                .map(|&value| T::try_from(value.into()).ok())
                .collect()
        }
        match self {
            Self::U8(values) => all(values),
            Self::I8(values) => all(values),
            Self::U16(values) => all(values),
            Self::I16(values) => all(values),
            Self::U32(values) => all(values),
            Self::I32(values) => all(values),
            Self::U64(values) => all(values),
            Self::I64(values) => all(values),
            _ => None,
        }
    }
}

/// What a value of the metadata can be read as.
pub trait FromValue<'a>: Sized {
    /// What is expected, for the error.
    const EXPECTED: &'static str;

    /// Reads it; `None` when it is of another type or does not fit.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! from_value {
    ($type:ty, $expected:literal, $value:ident => $read:expr) => {
        impl<'a> FromValue<'a> for $type {
            const EXPECTED: &'static str = $expected;

            fn from_value($value: &'a Value) -> Option<Self> {
                $read
            }
        }
    };
}

from_value!(u64, "an unsigned integer", value => value.integer()?.try_into().ok());
from_value!(u32, "an unsigned integer below 2^32", value => value.integer()?.try_into().ok());
from_value!(i64, "an integer", value => value.integer()?.try_into().ok());
from_value!(usize, "an unsigned integer", value => value.integer()?.try_into().ok());
from_value!(f32, "a float", value => match *value {
    Value::F32(value) => Some(value),
    Value::F64(value) => Some(value as f32),
    _ => None,
});
from_value!(bool, "a bool", value => match *value {
    Value::Bool(value) => Some(value),
    _ => None,
});
from_value!(&'a str, "a string in UTF-8", value => match value {
    Value::String(bytes) => std::str::from_utf8(bytes).ok(),
    _ => None,
});
from_value!(Vec<u32>, "an array of unsigned integers below 2^32", value => match value {
    Value::Array(array) => array.integers(),
    _ => None,
});
from_value!(Vec<i32>, "an array of integers of 32 bits", value => match value {
    Value::Array(array) => array.integers(),
    _ => None,
});
from_value!(Vec<f32>, "an array of floats", value => match value {
    Value::Array(Array::F32(values)) => Some(values.clone()),
    Value::Array(Array::F64(values)) => Some(values.iter().map(|&value| value as f32).collect()),
    _ => None,
});
from_value!(Vec<bool>, "an array of bools", value => match value {
    Value::Array(Array::Bool(values)) => Some(values.clone()),
    _ => None,
});
from_value!(Vec<&'a str>, "an array of strings in UTF-8", value => match value {
    Value::Array(Array::Strings(strings)) => strings.iter().map(|one| std::str::from_utf8(one).ok()).collect(),
    _ => None,
});

macro_rules! value_from {
    ($($type:ty => $value:ident => $made:expr;)*) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $made
            }
        })*
    };
}

value_from! {
    u8 => value => Self::U8(value);
    i8 => value => Self::I8(value);
    u16 => value => Self::U16(value);
    i16 => value => Self::I16(value);
    u32 => value => Self::U32(value);
    i32 => value => Self::I32(value);
    f32 => value => Self::F32(value);
    bool => value => Self::Bool(value);
    &str => value => Self::String(value.into());
    String => value => Self::String(value.into());
    u64 => value => Self::U64(value);
    i64 => value => Self::I64(value);
    f64 => value => Self::F64(value);
    Vec<u8> => value => Self::Array(Array::U8(value));
    Vec<i8> => value => Self::Array(Array::I8(value));
    Vec<u16> => value => Self::Array(Array::U16(value));
    Vec<i16> => value => Self::Array(Array::I16(value));
    Vec<u32> => value => Self::Array(Array::U32(value));
    Vec<i32> => value => Self::Array(Array::I32(value));
    Vec<f32> => value => Self::Array(Array::F32(value));
    Vec<bool> => value => Self::Array(Array::Bool(value));
    Vec<&str> => value => Self::Array(Array::Strings(value.into_iter().collect()));
    Vec<String> => value => Self::Array(Array::Strings(value.into_iter().collect()));
    Vec<u64> => value => Self::Array(Array::U64(value));
    Vec<i64> => value => Self::Array(Array::I64(value));
    Vec<f64> => value => Self::Array(Array::F64(value));
}

/// All keys of a file with their values, in the file's order.
///
/// ```
/// use firstword_models::gguf::{Metadata, Value};
///
/// let mut metadata = Metadata::default();
/// metadata.insert("llama.block_count", 30_u32);
/// assert_eq!(metadata.u64("llama.block_count"), Ok(30));
/// assert_eq!(metadata.find::<f32>("llama.rope.freq_base"), Ok(None));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    file: PathBuf,
    entries: Vec<(String, Value)>,
    places: HashMap<String, usize>,
}

impl Metadata {
    /// No keys yet; `file` is named in errors.
    pub fn of(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a key, or replaces its value. The value it had is returned.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        if let Some(&place) = self.places.get(&key) {
            return Some(std::mem::replace(&mut self.entries[place].1, value));
        }
        self.places.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        None
    }

    /// All keys and values, in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// The value as it is.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.places.get(key).map(|&place| &self.entries[place].1)
    }

    /// The value of a key that may be absent.
    ///
    /// # Errors
    ///
    /// [`MetadataError::Type`] if it is there and not a `T`.
    pub fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>, MetadataError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match T::from_value(value) {
            Some(value) => Ok(Some(value)),
            None => Err(MetadataError::Type {
                file: self.file.clone(),
                key: Shown::new(key),
                expected: T::EXPECTED,
                found: value.description(),
            }),
        }
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    ///
    /// [`MetadataError`], which names the key, what was expected, and what was found.
    pub fn need<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T, MetadataError> {
        self.find(key)?.ok_or_else(|| MetadataError::Missing {
            file: self.file.clone(),
            key: Shown::new(key),
            expected: T::EXPECTED,
        })
    }

    /// An unsigned integer, stored as any integer type. Errors as [`Metadata::need`].
    pub fn u64(&self, key: &str) -> Result<u64, MetadataError> {
        self.need(key)
    }

    /// A float. Errors as [`Metadata::need`].
    pub fn f32(&self, key: &str) -> Result<f32, MetadataError> {
        self.need(key)
    }

    /// A bool. Errors as [`Metadata::need`].
    pub fn bool(&self, key: &str) -> Result<bool, MetadataError> {
        self.need(key)
    }

    /// A string. Errors as [`Metadata::need`].
    pub fn str(&self, key: &str) -> Result<&str, MetadataError> {
        self.need(key)
    }

    /// Unsigned integers, stored as any integer type. Errors as [`Metadata::need`].
    pub fn u32s(&self, key: &str) -> Result<Vec<u32>, MetadataError> {
        self.need(key)
    }

    /// One number for each of `layers`: a single number in the file is that of all.
    ///
    /// # Errors
    ///
    /// As [`Metadata::need`], and when an array has another length.
    pub fn u32_per_layer(&self, key: &str, layers: usize) -> Result<Vec<u32>, MetadataError> {
        let numbers = match self.get(key) {
            Some(Value::Array(_)) => self.u32s(key)?,
            _ => return Ok(vec![self.need::<u32>(key)?; layers]),
        };
        if numbers.len() == layers {
            return Ok(numbers);
        }
        Err(MetadataError::Type {
            file: self.file.clone(),
            key: Shown::new(key),
            expected: "one number for each layer",
            found: format!("{} for {layers} layers", numbers.len()),
        })
    }

    /// Integers, stored as any integer type. Errors as [`Metadata::need`].
    pub fn i32s(&self, key: &str) -> Result<Vec<i32>, MetadataError> {
        self.need(key)
    }

    /// Floats. Errors as [`Metadata::need`].
    pub fn f32s(&self, key: &str) -> Result<Vec<f32>, MetadataError> {
        self.need(key)
    }

    /// Strings. Errors as [`Metadata::need`].
    pub fn strs(&self, key: &str) -> Result<Vec<&str>, MetadataError> {
        self.need(key)
    }
}
