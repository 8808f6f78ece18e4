//! Reads sizes from metadata and checks tensors against them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use super::{ArchitectureError, Linear, Matrix, Order, Vector, Weights};
use crate::gguf::{FromValue, Metadata, Shown};

/// No size of a known model comes near this; products of two stay countable.
const LARGEST: u64 = 1 << 28;

/// The metadata and tensors of one model of a known family.
pub struct Reader<'a> {
    pub family: &'static str,
    metadata: &'a Metadata,
    weights: &'a dyn Weights,
    used: RefCell<HashSet<String>>,
}

impl<'a> Reader<'a> {
    pub fn new(family: &'static str, metadata: &'a Metadata, weights: &'a dyn Weights) -> Self {
        Self {
            family,
            metadata,
            weights,
            used: RefCell::default(),
        }
    }

    /// The full name of a key of this family.
    pub fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.family)
    }

    /// A key of this family that may be absent.
    pub fn find<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, ArchitectureError> {
        Ok(self.metadata.find(&self.key(key))?)
    }

    pub fn wrong(
        &self,
        key: &str,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> ArchitectureError {
        ArchitectureError::Value {
            key: self.key(key),
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    /// A size: at least 1.
    pub fn size(&self, key: &str) -> Result<usize, ArchitectureError> {
        let size = self.metadata.u64(&self.key(key))?;
        self.in_range(key, size)
    }

    /// A size that may be absent.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>, ArchitectureError> {
        let size = self.find::<u64>(key)?;
        size.map(|size| self.in_range(key, size)).transpose()
    }

    fn in_range(&self, key: &str, size: u64) -> Result<usize, ArchitectureError> {
        if (1..=LARGEST).contains(&size) {
            Ok(size as usize)
        } else {
            Err(self.wrong(key, format!("1 to {LARGEST}"), size))
        }
    }

    /// A size that may be given for each layer, and must be the same for all.
    pub fn same_for_all(
        &self,
        key: &str,
        layers: usize,
    ) -> Result<Option<usize>, ArchitectureError> {
        let full = self.key(key);
        if self.metadata.get(&full).is_none() {
            return Ok(None);
        }
        let sizes = self.metadata.u32_per_layer(&full, layers)?;
        let first = sizes.first().copied().unwrap_or(0);
        match sizes.iter().find(|&&size| size != first) {
            Some(other) => Err(self.wrong(
                key,
                "the same for all layers",
                format!("{first} and {other}"),
            )),
            None => self.in_range(key, first.into()).map(Some),
        }
    }

    /// A finite number above 0.
    pub fn positive(&self, key: &str) -> Result<Option<f32>, ArchitectureError> {
        match self.find::<f32>(key)? {
            Some(value) if !(value.is_finite() && value > 0.0) => {
                Err(self.wrong(key, "a number above 0", value))
            }
            value => Ok(value),
        }
    }

    pub fn has(&self, tensor: &str) -> bool {
        self.weights.find(tensor).is_some()
    }

    /// The rows of a tensor, whatever their number.
    pub fn table(&self, tensor: &str, columns: usize) -> Result<Matrix, ArchitectureError> {
        let rows = self
            .weights
            .find(tensor)
            .and_then(|(_, shape)| shape.get(1).copied());
        let rows = rows.filter(|&rows| rows <= LARGEST).unwrap_or(1) as usize;
        self.matrix(tensor, rows, columns, Order::AsWanted)
    }

    /// A tensor of this many rows.
    pub fn matrix(
        &self,
        tensor: &str,
        rows: usize,
        columns: usize,
        order: Order,
    ) -> Result<Matrix, ArchitectureError> {
        self.check(tensor, &[columns as u64, rows as u64])?;
        Ok(Matrix {
            tensor: tensor.to_owned(),
            rows: 0..rows,
            columns,
            order,
        })
    }

    /// A tensor of one row.
    pub fn vector(
        &self,
        tensor: &str,
        length: usize,
        order: Order,
    ) -> Result<Vector, ArchitectureError> {
        self.check(tensor, &[length as u64])?;
        Ok(Vector {
            tensor: tensor.to_owned(),
            values: 0..length,
            order,
        })
    }

    /// A matrix `NAME.weight` and, where it is there, `NAME.bias`.
    pub fn linear(
        &self,
        name: &str,
        rows: usize,
        columns: usize,
        order: Order,
    ) -> Result<Linear, ArchitectureError> {
        let bias = format!("{name}.bias");
        Ok(Linear {
            weight: self.matrix(&format!("{name}.weight"), rows, columns, order)?,
            bias: self
                .has(&bias)
                .then(|| self.vector(&bias, rows, order))
                .transpose()?,
        })
    }

    /// The values of a tensor of one row, all of them finite and above 0.
    pub fn factors(&self, tensor: &str, length: usize) -> Result<Vec<f32>, ArchitectureError> {
        self.check(tensor, &[length as u64])?;
        let mut values = vec![0.0; length];
        self.weights.floats(tensor, 0..1, &mut values)?;
        match values.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
            Some(value) => Err(ArchitectureError::Value {
                key: tensor.to_owned(),
                expected: "factors above 0".to_owned(),
                found: value.to_string(),
            }),
            None => Ok(values),
        }
    }

    fn check(&self, tensor: &str, expected: &[u64]) -> Result<(), ArchitectureError> {
        let Some((_, found)) = self.weights.find(tensor) else {
            return Err(ArchitectureError::Missing {
                name: tensor.to_owned(),
                shape: expected.to_vec(),
            });
        };
        // Sizes of 1 at the end say nothing.
        let spoken = found.iter().rposition(|&n| n != 1).map_or(0, |n| n + 1);
        let needed = expected.iter().rposition(|&n| n != 1).map_or(0, |n| n + 1);
        if found[..spoken] != expected[..needed] {
            return Err(ArchitectureError::Shape {
                name: tensor.to_owned(),
                expected: expected.to_vec(),
                found: found.to_vec(),
            });
        }
        self.used.borrow_mut().insert(tensor.to_owned());
        Ok(())
    }

    /// Refuses tensors that nobody asked for, unless they only repeat what the metadata say.
    pub fn all_used(&self) -> Result<(), ArchitectureError> {
        let used = self.used.borrow();
        let repeats = |name: &str| {
            name.ends_with(".attn_rot_embd") || name.ends_with(".attn_rot_embd.weight")
        };
        let unused = self
            .weights
            .names()
            .into_iter()
            .find(|name| !used.contains(*name) && !repeats(name));
        unused.map_or(Ok(()), |name| {
            Err(ArchitectureError::Unused {
                name: Shown::new(name),
                architecture: self.family,
            })
        })
    }
}

/// Some rows of a linear map.
pub fn rows_of(linear: &Linear, rows: Range<usize>) -> Linear {
    Linear {
        weight: Matrix {
            rows: rows.clone(),
            ..linear.weight.clone()
        },
        bias: linear.bias.clone().map(|bias| Vector {
            values: rows,
            ..bias
        }),
    }
}
