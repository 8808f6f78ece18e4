//! Writes an ONNX file field by field, so that what is tested does not also write its own input.

/// `TensorProto.DataType`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    F32 = 1,
    I64 = 7,
    Bool = 9,
    F16 = 10,
}

/// A model under construction; each list is the graph's, encoded.
#[derive(Default)]
pub struct Model {
    nodes: Vec<u8>,
    constants: Vec<u8>,
    inputs: Vec<u8>,
    outputs: Vec<u8>,
    values: usize,
}

pub fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

pub fn bytes(field: u64, contents: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(contents.len() as u64),
        contents.to_vec(),
    ]
    .concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// ValueInfoProto; −1 is a size that is not fixed.
fn port(name: &str, kind: Kind, shape: &[i64]) -> Vec<u8> {
    let sizes = shape.iter().map(|&size| match size {
        -1 => bytes(1, &[]),
        size => bytes(1, &number(1, size)),
    });
    let tensor = [
        number(1, kind as i64),
        bytes(2, &sizes.collect::<Vec<_>>().concat()),
    ]
    .concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

impl Model {
    pub fn input(&mut self, name: &str, kind: Kind, shape: &[i64]) {
        self.inputs.extend(bytes(11, &port(name, kind, shape)));
    }

    pub fn output(&mut self, name: &str, kind: Kind, shape: &[i64]) {
        self.outputs.extend(bytes(12, &port(name, kind, shape)));
    }

    pub fn fresh(&mut self) -> String {
        self.values += 1;
        format!("v{}", self.values)
    }

    fn constant(&mut self, name: &str, kind: Kind, shape: &[usize], data: &[u8]) {
        let mut tensor: Vec<u8> = shape
            .iter()
            .flat_map(|&size| number(1, size as i64))
            .collect();
        tensor.extend(number(2, kind as i64));
        tensor.extend(bytes(8, name.as_bytes()));
        tensor.extend(bytes(9, data));
        self.constants.extend(bytes(5, &tensor));
    }

    pub fn floats(&mut self, shape: &[usize], values: &[f32]) -> String {
        let name = self.fresh();
        let data: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.constant(&name, Kind::F32, shape, &data);
        name
    }

    pub fn integers(&mut self, values: &[i64]) -> String {
        let name = self.fresh();
        self.named_integers(&name, values);
        name
    }

    pub fn integer(&mut self, value: i64) -> String {
        let name = self.fresh();
        self.constant(&name, Kind::I64, &[], &value.to_le_bytes());
        name
    }

    pub fn named_integers(&mut self, name: &str, values: &[i64]) {
        let data: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.constant(name, Kind::I64, &[values.len()], &data);
    }

    /// A constant whose values lie in another file.
    pub fn external(
        &mut self,
        name: &str,
        shape: &[usize],
        file: &str,
        offset: usize,
        length: usize,
    ) {
        let mut tensor: Vec<u8> = shape
            .iter()
            .flat_map(|&size| number(1, size as i64))
            .collect();
        tensor.extend(number(2, Kind::F32 as i64));
        tensor.extend(bytes(8, name.as_bytes()));
        for (key, value) in [
            ("location", file),
            ("offset", &offset.to_string()),
            ("length", &length.to_string()),
        ] {
            tensor.extend(bytes(
                13,
                &[bytes(1, key.as_bytes()), bytes(2, value.as_bytes())].concat(),
            ));
        }
        tensor.extend(number(14, 1));
        self.constants.extend(bytes(5, &tensor));
    }

    fn node(
        &mut self,
        kind: &str,
        domain: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Vec<u8>],
    ) {
        let mut node: Vec<u8> = inputs
            .iter()
            .flat_map(|name| bytes(1, name.as_bytes()))
            .collect();
        node.extend(outputs.iter().flat_map(|name| bytes(2, name.as_bytes())));
        node.extend(bytes(4, kind.as_bytes()));
        node.extend(bytes(7, domain.as_bytes()));
        node.extend(attributes.iter().flat_map(|attribute| bytes(5, attribute)));
        self.nodes.extend(bytes(1, &node));
    }

    /// A standard operator with integer attributes.
    pub fn op(&mut self, kind: &str, inputs: &[&str], attributes: &[(&str, i64)]) -> String {
        let output = self.fresh();
        self.node(
            kind,
            "",
            inputs,
            &[&output],
            &attributes.iter().map(integer).collect::<Vec<_>>(),
        );
        output
    }

    /// One of onnxruntime's own.
    pub fn contrib(
        &mut self,
        kind: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, i64)],
    ) {
        let attributes: Vec<_> = attributes.iter().map(integer).collect();
        self.node(kind, "com.microsoft", inputs, outputs, &attributes);
    }

    pub fn product(&mut self, from: &str, matrix: &[f32], outputs: usize) -> String {
        let matrix = self.floats(&[matrix.len() / outputs, outputs], matrix);
        self.op("MatMul", &[from, &matrix], &[])
    }

    pub fn transpose(&mut self, from: &str, order: &[i64]) -> String {
        let output = self.fresh();
        let mut attribute = bytes(1, b"perm");
        attribute.extend(order.iter().flat_map(|&axis| number(8, axis)));
        attribute.extend(number(20, 7));
        self.node("Transpose", "", &[from], &[&output], &[attribute]);
        output
    }

    pub fn norm(&mut self, from: &str, factors: &[f32], epsilon: f32) -> String {
        let factors = self.floats(&[factors.len()], factors);
        let output = self.fresh();
        let axis = integer(&("axis", -1));
        let epsilon = [
            bytes(1, b"epsilon"),
            varint(2 << 3 | 5),
            epsilon.to_le_bytes().to_vec(),
            number(20, 1),
        ]
        .concat();
        self.node(
            "SimplifiedLayerNormalization",
            "",
            &[from, &factors],
            &[&output],
            &[axis, epsilon],
        );
        output
    }

    /// Gives a value another name and kind.
    pub fn result(&mut self, value: &str, name: &str, kind: Kind) {
        self.node(
            "Cast",
            "",
            &[value],
            &[name],
            &[integer(&("to", kind as i64))],
        );
    }

    /// The file's contents: IR version 8, opset 17.
    pub fn bytes(&self) -> Vec<u8> {
        let graph = [
            &self.nodes[..],
            &bytes(2, b"tiny"),
            &self.constants,
            &self.inputs,
            &self.outputs,
        ]
        .concat();
        let contrib = [bytes(1, b"com.microsoft"), number(2, 1)].concat();
        [
            number(1, 8),
            bytes(7, &graph),
            bytes(8, &number(2, 17)),
            bytes(8, &contrib),
        ]
        .concat()
    }
}

fn integer((name, value): &(&str, i64)) -> Vec<u8> {
    [bytes(1, name.as_bytes()), number(3, *value), number(20, 2)].concat()
}
