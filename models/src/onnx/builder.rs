//! Writes an ONNX graph node by node, its large constants straight into a [`DataFile`].

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use prost::Message;

use super::data::{self, DataFile};
use super::messages::{
    Attribute as AttributeMessage, Dimension, Entry, Graph, Model, Node, OperatorSet, Shape,
    Tensor, TensorType, Type, ValueInfo, code,
};

/// The domain of ONNX Runtime's own operators.
const CONTRIB: &str = "com.microsoft";

/// Constants up to this size are compared, and the same one is not written twice, in bytes.
const SHARED: usize = 256;

/// A value of a graph, known by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Value(Arc<str>);

impl Value {
    /// Stands for an optional input that is not given, or an output that is not wanted.
    #[must_use]
    pub fn none() -> Self {
        Self("".into())
    }

    /// Its name in the graph; empty for [`Value::none`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// What the elements of a tensor are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Bytes.
    U8,
    /// Signed bytes.
    I8,
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
    /// Truth values, a byte each.
    Bool,
    /// Unsigned 4-bit integers, two a byte, the first in the low half.
    U4,
    /// Signed 4-bit integers, two a byte, the first in the low half.
    I4,
}

impl Element {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::F32 => code::FLOAT,
            Self::F16 => code::FLOAT16,
            Self::U8 => code::UINT8,
            Self::I8 => code::INT8,
            Self::I32 => code::INT32,
            Self::I64 => code::INT64,
            Self::Bool => code::BOOL,
            Self::U4 => code::UINT4,
            Self::I4 => code::INT4,
        }
    }

    /// Bytes of so many elements.
    fn bytes(self, elements: u64) -> u64 {
        match self {
            Self::F32 | Self::I32 => elements * 4,
            Self::I64 => elements * 8,
            Self::F16 => elements * 2,
            Self::U8 | Self::I8 | Self::Bool => elements,
            Self::U4 | Self::I4 => elements.div_ceil(2),
        }
    }
}

/// A size that is known, or the name of one that is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// So many.
    Is(usize),
    /// As many as every other size of this name.
    Named(&'static str),
}

/// A node's attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute(AttributeMessage);

/// An integer attribute.
#[must_use]
pub fn int(name: &str, value: i64) -> Attribute {
    Attribute(AttributeMessage {
        name: name.to_owned(),
        i: Some(value),
        kind: code::ATTRIBUTE_INT,
        ..AttributeMessage::default()
    })
}

/// An attribute that is a list of integers.
#[must_use]
pub fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute(AttributeMessage {
        name: name.to_owned(),
        ints: values.to_vec(),
        kind: code::ATTRIBUTE_INTS,
        ..AttributeMessage::default()
    })
}

/// A float attribute.
#[must_use]
pub fn float(name: &str, value: f32) -> Attribute {
    Attribute(AttributeMessage {
        name: name.to_owned(),
        f: Some(value),
        kind: code::ATTRIBUTE_FLOAT,
        ..AttributeMessage::default()
    })
}

/// An attribute that is a text.
#[must_use]
pub fn text(name: &str, value: &str) -> Attribute {
    Attribute(AttributeMessage {
        name: name.to_owned(),
        s: Some(value.as_bytes().to_vec()),
        kind: code::ATTRIBUTE_STRING,
        ..AttributeMessage::default()
    })
}

/// A graph under construction. Constants of [`data::SMALLEST`] bytes and more go to the data file, where there is one.
#[derive(Debug)]
pub struct Builder {
    graph: Graph,
    /// Of the standard operators.
    opset: i64,
    values: usize,
    /// Small constants already written: element, shape, bytes.
    known: HashMap<(Element, Vec<usize>, Vec<u8>), Value>,
    /// What was computed once and is shared, by the caller's key.
    kept: HashMap<String, Vec<Value>>,
    data: Option<DataFile>,
    properties: Vec<Entry>,
}

impl Builder {
    /// An empty graph whose constants are all kept in it.
    #[must_use]
    pub fn new(opset: i64) -> Self {
        Self {
            graph: Graph::default(),
            opset,
            values: 0,
            known: HashMap::new(),
            kept: HashMap::new(),
            data: None,
            properties: Vec::new(),
        }
    }

    /// An empty graph whose large constants go to `data`.
    #[must_use]
    pub fn with_data(opset: i64, data: DataFile) -> Self {
        Self {
            data: Some(data),
            ..Self::new(opset)
        }
    }

    /// A property of the model: `metadata_props`.
    pub fn property(&mut self, key: &str, value: impl Into<String>) {
        self.properties.push(Entry {
            key: key.to_owned(),
            value: value.into(),
        });
    }

    /// A graph input.
    pub fn input(&mut self, name: &str, element: Element, shape: &[Size]) -> Value {
        self.graph.input.push(described(name, element, shape));
        Value(name.into())
    }

    /// A graph input that need not be given: then it is the list `default`.
    pub fn optional_input(&mut self, name: &str, size: Size, default: &[i64]) -> Value {
        let value = self.input(name, Element::I64, &[size]);
        self.graph.initializer.push(Tensor {
            dims: vec![default.len() as i64],
            data_type: code::INT64,
            name: name.to_owned(),
            raw_data: default.iter().flat_map(|n| n.to_le_bytes()).collect(),
            ..Tensor::default()
        });
        value
    }

    /// Makes `value` a graph output.
    pub fn output(&mut self, value: &Value, element: Element, shape: &[Size]) {
        let output = described(value.name(), element, shape);
        self.graph.output.push(output);
    }

    /// The value of this name, for a node to write.
    #[must_use]
    pub fn named(&self, name: &str) -> Value {
        Value(name.into())
    }

    /// A value of a new name, for a node to write.
    pub fn fresh(&mut self) -> Value {
        self.values += 1;
        Value(format!("v{}", self.values).into())
    }

    /// A standard operator with one output.
    pub fn op(&mut self, kind: &str, inputs: &[&Value], attributes: &[Attribute]) -> Value {
        let output = self.fresh();
        self.op_to(kind, inputs, &[&output], attributes);
        output
    }

    /// A standard operator that writes these values; [`Value::none`] leaves an output out.
    pub fn op_to(
        &mut self,
        kind: &str,
        inputs: &[&Value],
        outputs: &[&Value],
        attributes: &[Attribute],
    ) {
        self.node("", kind, inputs, outputs, attributes);
    }

    /// One of ONNX Runtime's own operators with one output.
    pub fn contrib(&mut self, kind: &str, inputs: &[&Value], attributes: &[Attribute]) -> Value {
        let output = self.fresh();
        self.contrib_to(kind, inputs, &[&output], attributes);
        output
    }

    /// One of ONNX Runtime's own operators that writes these values; [`Value::none`] leaves an output out.
    pub fn contrib_to(
        &mut self,
        kind: &str,
        inputs: &[&Value],
        outputs: &[&Value],
        attributes: &[Attribute],
    ) {
        self.node(CONTRIB, kind, inputs, outputs, attributes);
    }

    /// Cuts an axis (-1 is the last) into pieces of these sizes.
    pub fn split(&mut self, from: &Value, axis: i64, sizes: &[usize]) -> Vec<Value> {
        let outputs: Vec<Value> = sizes.iter().map(|_| self.fresh()).collect();
        self.split_to(from, axis, sizes, &outputs.iter().collect::<Vec<_>>());
        outputs
    }

    /// The same, writing these values.
    pub fn split_to(&mut self, from: &Value, axis: i64, sizes: &[usize], outputs: &[&Value]) {
        let sizes: Vec<i64> = sizes.iter().map(|&n| n as i64).collect();
        let sizes = self.integers(&sizes);
        self.op_to("Split", &[from, &sizes], outputs, &[int("axis", axis)]);
    }

    /// `from` in another shape, as `Reshape` reads it (0 keeps a size, -1 is what is left).
    pub fn reshape(&mut self, from: &Value, shape: &[i64]) -> Value {
        let shape = self.integers(shape);
        self.op("Reshape", &[from, &shape], &[])
    }

    /// A constant of floats.
    pub fn floats(&mut self, shape: &[usize], values: &[f32]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(Element::F32, shape, bytes)
    }

    /// A single float.
    pub fn scalar(&mut self, value: f32) -> Value {
        self.floats(&[], &[value])
    }

    /// A constant list of integers.
    pub fn integers(&mut self, values: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(Element::I64, &[values.len()], bytes)
    }

    /// A constant; `bytes` are its values, little-endian. A failure to write it shows in [`Builder::finish`].
    pub fn constant(&mut self, element: Element, shape: &[usize], bytes: Vec<u8>) -> Value {
        let key = (bytes.len() <= SHARED).then(|| (element, shape.to_vec(), bytes.clone()));
        if let Some(same) = key.as_ref().and_then(|key| self.known.get(key)) {
            return same.clone();
        }
        let name = self.fresh();
        if let Err(error) = self.stream(name.name(), element, shape, |out| out.write_all(&bytes))
            && let Some(data) = &mut self.data
        {
            data.fail(error);
        }
        if let Some(key) = key {
            self.known.insert(key, name.clone());
        }
        name
    }

    /// A constant of this (unique) name whose values, little-endian, `write` gives piece by piece, so that they are
    /// never all in memory where there is a data file.
    ///
    /// # Errors
    ///
    /// What `write` returns; an [`io::Error`] where the file can't be written, or where `write` gave another number of
    /// bytes than element and shape ask for.
    pub fn stream<E: From<io::Error>>(
        &mut self,
        name: &str,
        element: Element,
        shape: &[usize],
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Value, E> {
        let elements = shape
            .iter()
            .try_fold(1u64, |all, &n| all.checked_mul(n as u64));
        let length =
            element.bytes(elements.ok_or_else(|| io::Error::other(format!("{name}: too large")))?);
        let mut tensor = Tensor {
            dims: shape.iter().map(|&n| n as i64).collect(),
            data_type: element.code(),
            name: name.to_owned(),
            ..Tensor::default()
        };
        let written = match &mut self.data {
            Some(data) if length >= data::SMALLEST => {
                let offset = data.begin()?;
                write(data)?;
                tensor.data_location = Some(code::EXTERNAL);
                let entries = [
                    ("location", data.name().to_owned()),
                    ("offset", offset.to_string()),
                    ("length", length.to_string()),
                ];
                tensor.external_data = entries
                    .map(|(key, value)| Entry {
                        key: key.to_owned(),
                        value,
                    })
                    .to_vec();
                data.length() - offset
            }
            _ => {
                write(&mut tensor.raw_data)?;
                tensor.raw_data.len() as u64
            }
        };
        if written != length {
            let said = format!("{name}: expected {length} bytes, found {written}; this is a bug");
            return Err(io::Error::other(said).into());
        }
        self.graph.initializer.push(tensor);
        Ok(Value(name.into()))
    }

    /// The constant `of` again under another shape with as many elements; in a data file its bytes are there once.
    ///
    /// # Errors
    ///
    /// `of` is no constant of this graph: a bug.
    pub fn alias(&mut self, of: &Value, shape: &[usize]) -> io::Result<Value> {
        let name = self.fresh();
        let same = self.graph.initializer.iter().find(|t| t.name == of.name());
        let same = same
            .ok_or_else(|| io::Error::other(format!("no constant {}; this is a bug", of.name())))?;
        let tensor = Tensor {
            dims: shape.iter().map(|&n| n as i64).collect(),
            name: name.name().to_owned(),
            ..same.clone()
        };
        self.graph.initializer.push(tensor);
        Ok(name)
    }

    /// Some rows (along the first axis) of the constant `of`, as another constant; in a data file, the same bytes.
    ///
    /// # Errors
    ///
    /// `of` is no constant of this graph, or has not so many rows: a bug.
    pub fn rows(&mut self, of: &Value, rows: Range<usize>) -> io::Result<Value> {
        let name = self.fresh();
        let bug = || io::Error::other(format!("no rows {rows:?} of {}; this is a bug", of.name()));
        let whole = self.graph.initializer.iter().find(|t| t.name == of.name());
        let whole = whole.ok_or_else(bug)?;
        let all = whole.dims.first().map_or(0, |&rows| rows as usize);
        if rows.start >= rows.end || rows.end > all {
            return Err(bug());
        }
        let mut tensor = Tensor {
            dims: whole.dims.clone(),
            data_type: whole.data_type,
            name: name.name().to_owned(),
            raw_data: Vec::new(),
            external_data: whole.external_data.clone(),
            data_location: whole.data_location,
        };
        tensor.dims[0] = rows.len() as i64;
        if whole.data_location.is_none() {
            let row = whole.raw_data.len() / all;
            tensor.raw_data = whole.raw_data[rows.start * row..rows.end * row].to_vec();
        } else {
            let number = |key: &str| -> Option<u64> {
                let entry = whole.external_data.iter().find(|entry| entry.key == key)?;
                entry.value.parse().ok()
            };
            let offset = number("offset").ok_or_else(bug)?;
            let row = number("length").ok_or_else(bug)? / all as u64;
            for entry in &mut tensor.external_data {
                match entry.key.as_str() {
                    "offset" => entry.value = (offset + rows.start as u64 * row).to_string(),
                    "length" => entry.value = (rows.len() as u64 * row).to_string(),
                    _ => {}
                }
            }
        }
        self.graph.initializer.push(tensor);
        Ok(name)
    }

    /// Takes a constant out that no node uses.
    pub fn forget_unused(&mut self, constant: &Value) {
        let name = constant.name();
        let used = |node: &Node| node.input.iter().any(|input| input == name);
        if !self.graph.node.iter().any(used) {
            self.graph.initializer.retain(|tensor| tensor.name != name);
        }
    }

    /// What `make` makes, made once for each `key`.
    pub fn once(&mut self, key: &str, make: impl FnOnce(&mut Self) -> Vec<Value>) -> Vec<Value> {
        if let Some(values) = self.kept.get(key) {
            return values.clone();
        }
        let values = make(self);
        self.kept.insert(key.to_owned(), values.clone());
        values
    }

    /// The number of nodes so far.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.graph.node.len()
    }

    /// The graph file's contents; the data file is complete and on its device.
    ///
    /// # Errors
    ///
    /// The first failure to write the data file.
    pub fn finish(mut self, name: &str) -> io::Result<Vec<u8>> {
        if let Some(data) = self.data.take() {
            data.finish()?;
        }
        name.clone_into(&mut self.graph.name);
        let opset = |domain: &str, version| OperatorSet {
            domain: domain.to_owned(),
            version,
        };
        let mut opsets = vec![opset("", self.opset)];
        // Readers that know standard operators only may refuse a graph that names others.
        if self.graph.node.iter().any(|node| node.domain == CONTRIB) {
            opsets.push(opset(CONTRIB, 1));
        }
        Ok(Model {
            // The first IR versions with opsets 19 and 21; ONNX Runtime 1.18 reads both.
            ir_version: if self.opset < 21 { 9 } else { 10 },
            producer_name: "firstword".to_owned(),
            graph: Some(self.graph),
            opset_import: opsets,
            metadata_props: self.properties,
        }
        .encode_to_vec())
    }

    fn node(
        &mut self,
        domain: &str,
        kind: &str,
        inputs: &[&Value],
        outputs: &[&Value],
        attributes: &[Attribute],
    ) {
        // Optional inputs at the end are left out altogether.
        let given = inputs
            .iter()
            .rposition(|v| !v.name().is_empty())
            .map_or(0, |n| n + 1);
        let names = |values: &[&Value]| values.iter().map(|v| v.name().to_owned()).collect();
        self.graph.node.push(Node {
            input: names(&inputs[..given]),
            output: names(outputs),
            name: format!("{kind}_{}", self.graph.node.len()),
            op_type: kind.to_owned(),
            attribute: attributes.iter().map(|a| a.0.clone()).collect(),
            domain: domain.to_owned(),
        });
    }
}

fn described(name: &str, element: Element, shape: &[Size]) -> ValueInfo {
    let dim = shape
        .iter()
        .map(|size| match *size {
            Size::Is(n) => Dimension {
                value: Some(n as i64),
                parameter: None,
            },
            Size::Named(name) => Dimension {
                value: None,
                parameter: Some(name.to_owned()),
            },
        })
        .collect();
    ValueInfo {
        name: name.to_owned(),
        kind: Some(Type {
            tensor: Some(TensorType {
                element: element.code(),
                shape: Some(Shape { dim }),
            }),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initialisers(bytes: &[u8]) -> Vec<Tensor> {
        Model::decode(bytes).unwrap().graph.unwrap().initializer
    }

    #[test]
    fn small_constants_are_written_once() {
        let mut g = Builder::new(21);
        let one = g.integers(&[0, -1]);
        assert_eq!(g.integers(&[0, -1]), one);
        assert_ne!(g.integers(&[0, -1, 1]), one);
        // The same bytes in another shape are another constant.
        assert_ne!(
            g.constant(
                Element::I64,
                &[1, 2],
                [0i64, -1].map(i64::to_le_bytes).concat()
            ),
            one
        );
        assert_eq!(initialisers(&g.finish("g").unwrap()).len(), 3);
    }

    #[test]
    fn large_constants_lie_in_the_data_file_on_page_borders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx.data");
        let mut g = Builder::with_data(21, DataFile::create(&path).unwrap());
        g.floats(&[255], &[1.0; 255]);
        let large = g.floats(&[256], &[2.0; 256]);
        g.alias(&large, &[16, 16]).unwrap();
        g.stream::<io::Error>("bytes", Element::U8, &[3, 1000], |out| {
            (0..3).try_for_each(|row| out.write_all(&[row; 1000]))
        })
        .unwrap();
        let tensors = initialisers(&g.finish("g").unwrap());
        let file = std::fs::read(&path).unwrap();
        let offset = |t: &Tensor| -> usize { t.external_data[1].value.parse().unwrap() };
        assert_eq!(tensors[0].raw_data.len(), 1020);
        assert_eq!(tensors[1].external_data, tensors[2].external_data);
        assert_eq!(tensors[2].dims, [16, 16]);
        assert_eq!((offset(&tensors[1]), offset(&tensors[3])), (0, 4096));
        assert_eq!(tensors[3].external_data[0].value, "model.onnx.data");
        assert_eq!(tensors[3].external_data[2].value, "3000");
        assert_eq!(file.len(), 4096 + 3000);
        assert_eq!(&file[..4], &2.0f32.to_le_bytes());
        assert_eq!(file[4096..], [[0; 1000], [1; 1000], [2; 1000]].concat());
    }

    #[test]
    fn rows_of_a_large_constant_are_the_same_bytes_of_the_data_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx.data");
        let mut g = Builder::with_data(21, DataFile::create(&path).unwrap());
        g.floats(&[1024], &[1.0; 1024]);
        let large = g.floats(&[64, 16], &[2.0; 1024]);
        let small = g.floats(&[4, 1], &[1.0, 2.0, 3.0, 4.0]);
        g.rows(&large, 16..48).unwrap();
        g.rows(&small, 1..3).unwrap();
        assert!(g.rows(&small, 3..5).is_err());
        g.forget_unused(&large);
        let tensors = initialisers(&g.finish("g").unwrap());
        assert_eq!(tensors.len(), 4);
        // 4 bytes for each of 16 numbers of a row, after the first constant's page.
        let [_, offset, length] = [0, 1, 2].map(|at| tensors[2].external_data[at].value.as_str());
        assert_eq!((offset, length), ("5120", "2048"));
        assert_eq!(tensors[2].dims, [32, 16]);
        assert_eq!(tensors[3].dims, [2, 1]);
        assert_eq!(
            tensors[3].raw_data,
            [2.0_f32, 3.0].map(f32::to_le_bytes).concat()
        );
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192);
    }

    #[test]
    fn a_constant_of_another_length_than_its_shape_is_refused() {
        let mut g = Builder::new(21);
        let short = g.stream::<io::Error>("w", Element::F32, &[2], |out| out.write_all(&[0; 7]));
        assert_eq!(
            short.unwrap_err().to_string(),
            "w: expected 8 bytes, found 7; this is a bug"
        );
    }
}
