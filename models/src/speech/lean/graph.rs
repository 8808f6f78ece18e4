//! Writes an ONNX graph node by node.

use prost::Message;

use super::weights::Matrix;
use crate::onnx::messages::{
    Attribute, Dimension, Graph, Model, Node, OperatorSet, Shape, Tensor, TensorType, Type,
    ValueInfo, code,
};

/// onnxruntime's own operators.
const CONTRIB: &str = "com.microsoft";

/// A graph under construction. Values are known by their names.
#[derive(Default)]
pub struct Builder {
    graph: Graph,
    values: usize,
}

/// A size that is known, or the name of one that is not.
#[derive(Clone, Copy)]
pub enum Size {
    Is(usize),
    Named(&'static str),
}

impl Builder {
    /// A graph input.
    pub fn input(&mut self, name: &str, element: i32, shape: &[Size]) {
        self.graph.input.push(value(name, element, shape));
    }

    /// Makes the value `name` a graph output.
    pub fn output(&mut self, name: &str, shape: &[Size]) {
        self.graph.output.push(value(name, code::FLOAT, shape));
    }

    /// A standard operator with one output.
    pub fn op(&mut self, kind: &str, inputs: &[&str], attributes: Vec<Attribute>) -> String {
        let output = self.fresh();
        self.node("", kind, inputs, &[&output], attributes);
        output
    }

    /// One of onnxruntime's own operators with one output.
    pub fn contrib(&mut self, kind: &str, inputs: &[&str], attributes: Vec<Attribute>) -> String {
        let output = self.fresh();
        self.contrib_to(kind, inputs, &[&output], attributes);
        output
    }

    /// The same with named outputs; an empty name leaves an output out.
    pub fn contrib_to(
        &mut self,
        kind: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<Attribute>,
    ) {
        self.node(CONTRIB, kind, inputs, outputs, attributes);
    }

    /// Cuts the last axis (or `axis`) into pieces of these sizes.
    pub fn split(&mut self, from: &str, axis: i64, sizes: &[usize], outputs: &[&str]) {
        let sizes: Vec<i64> = sizes.iter().map(|&n| n as i64).collect();
        let sizes = self.integers(&sizes);
        self.node(
            "",
            "Split",
            &[from, &sizes],
            outputs,
            vec![int("axis", axis)],
        );
    }

    /// `from · [matrices side by side] + bias`, with `from` quantised per call as a whole; written
    /// to `to`, or to a new value.
    pub fn product(&mut self, from: &str, matrices: &[&Matrix], to: Option<&str>) -> String {
        let rows = matrices.first().map_or(0, |m| m.rows);
        let columns: usize = matrices.iter().map(|m| m.columns).sum();
        let mut bytes = Vec::with_capacity(rows * columns);
        for row in 0..rows {
            for m in matrices {
                bytes.extend_from_slice(&m.bytes[row * m.columns..][..m.columns]);
            }
        }
        let bytes = self.constant(code::UINT8, &[rows, columns], bytes);
        let (scale, zero) = match matrices {
            [one] => (
                self.constant(code::FLOAT, &[], one.scale.to_le_bytes().to_vec()),
                self.constant(code::UINT8, &[], vec![one.zero]),
            ),
            // One per column: the matrices keep their own.
            _ => {
                let each = |m: &&Matrix| std::iter::repeat_n(m.scale, m.columns);
                let scales: Vec<f32> = matrices.iter().flat_map(each).collect();
                let each = |m: &&Matrix| std::iter::repeat_n(m.zero, m.columns);
                let zeros: Vec<u8> = matrices.iter().flat_map(each).collect();
                (
                    self.floats(&[columns], &scales),
                    self.constant(code::UINT8, &[columns], zeros),
                )
            }
        };
        let bias: Vec<f32> = matrices.iter().flat_map(|m| &m.bias).copied().collect();
        let mut inputs = vec![from, &bytes, &scale, &zero];
        let bias = (!bias.is_empty()).then(|| self.floats(&[columns], &bias));
        inputs.extend(bias.as_deref());
        let to = to.map_or_else(|| self.fresh(), str::to_owned);
        self.contrib_to("DynamicQuantizeMatMul", &inputs, &[&to], Vec::new());
        to
    }

    /// A constant of floats.
    pub fn floats(&mut self, shape: &[usize], values: &[f32]) -> String {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(code::FLOAT, shape, bytes)
    }

    /// A constant list of integers.
    pub fn integers(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(code::INT64, &[values.len()], bytes)
    }

    /// A constant; `bytes` are its values, little-endian.
    pub fn constant(&mut self, data_type: i32, shape: &[usize], bytes: Vec<u8>) -> String {
        let dims: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
        // Small ones are often the same: scales apart, shapes and sizes are.
        if bytes.len() <= 64
            && let Some(same) = self
                .graph
                .initializer
                .iter()
                .find(|t| t.data_type == data_type && t.dims == dims && t.raw_data == bytes)
        {
            return same.name.clone();
        }
        let name = self.fresh();
        self.graph.initializer.push(Tensor {
            dims,
            data_type,
            name: name.clone(),
            raw_data: bytes,
            ..Tensor::default()
        });
        name
    }

    /// A new value's name.
    pub fn fresh(&mut self) -> String {
        self.values += 1;
        format!("v{}", self.values)
    }

    /// The number of nodes so far.
    #[cfg(test)]
    pub fn nodes(&self) -> usize {
        self.graph.node.len()
    }

    /// The file's contents.
    pub fn into_bytes(mut self, name: &str) -> Vec<u8> {
        name.clone_into(&mut self.graph.name);
        let opset = |domain: &str, version| OperatorSet {
            domain: domain.to_owned(),
            version,
        };
        Model {
            // The first IR version with opset 19; ONNX Runtime 1.18 reads it.
            ir_version: 9,
            producer_name: "firstword".to_owned(),
            graph: Some(self.graph),
            opset_import: vec![opset("", 18), opset(CONTRIB, 1)],
            ..Model::default()
        }
        .encode_to_vec()
    }

    fn node(
        &mut self,
        domain: &str,
        kind: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<Attribute>,
    ) {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
        self.graph.node.push(Node {
            input: owned(inputs),
            output: owned(outputs),
            name: format!("{kind}_{}", self.graph.node.len()),
            op_type: kind.to_owned(),
            attribute,
            domain: domain.to_owned(),
        });
    }
}

/// An integer attribute.
pub fn int(name: &str, value: i64) -> Attribute {
    Attribute {
        name: name.to_owned(),
        i: Some(value),
        kind: code::ATTRIBUTE_INT,
        ..Attribute::default()
    }
}

/// An attribute that is a list of integers.
pub fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute {
        name: name.to_owned(),
        ints: values.to_vec(),
        kind: code::ATTRIBUTE_INTS,
        ..Attribute::default()
    }
}

/// A float attribute.
pub fn float(name: &str, value: f32) -> Attribute {
    Attribute {
        name: name.to_owned(),
        f: Some(value),
        kind: code::ATTRIBUTE_FLOAT,
        ..Attribute::default()
    }
}

fn value(name: &str, element: i32, shape: &[Size]) -> ValueInfo {
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
                element,
                shape: Some(Shape { dim }),
            }),
        }),
    }
}
