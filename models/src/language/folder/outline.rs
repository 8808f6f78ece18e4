//! What an ONNX file says of itself without its weights: inputs, outputs, operators, and which other
//! files it refers to. The protobuf is walked in place, so that gigabytes of weights inside the file
//! are stepped over and never copied; every length is checked.

use std::collections::{BTreeMap, BTreeSet};

/// Subgraphs within subgraphs that are followed; real files have two levels.
const DEEPEST: usize = 16;

/// A graph without its weights.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// The inputs, those with a default value included.
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    /// The names of the constants of the outermost graph: an input among them has a default.
    pub constants: BTreeSet<String>,
    /// How often each operator occurs, `domain:name` or just the name, subgraphs included.
    pub operators: BTreeMap<String, usize>,
    /// Each file of weights beside this one, with the end (in bytes) of the last tensor in it.
    pub external: BTreeMap<String, u64>,
}

/// An input or output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Port {
    pub name: String,
    /// `TensorProto.DataType`; 0 if it is no tensor.
    pub element: i32,
    /// The sizes; `None` for one that is not fixed.
    pub shape: Vec<Option<u64>>,
}

type Parsed<T> = Result<T, String>;

impl Outline {
    /// Reads a whole file's contents.
    pub fn of(file: &[u8]) -> Parsed<Self> {
        let mut outline = Self::default();
        let mut found = false;
        for field in Fields(file) {
            if let (7, Content::Bytes(graph)) = field? {
                found = true;
                outline.graph(graph, 0)?;
            }
        }
        if !found {
            return Err("there is no graph in it".to_owned());
        }
        Ok(outline)
    }

    pub fn input(&self, name: &str) -> Option<&Port> {
        self.inputs.iter().find(|port| port.name == name)
    }

    pub fn output(&self, name: &str) -> Option<&Port> {
        self.outputs.iter().find(|port| port.name == name)
    }

    fn graph(&mut self, bytes: &[u8], depth: usize) -> Parsed<()> {
        if depth > DEEPEST {
            return Err("its subgraphs are nested too deep".to_owned());
        }
        for field in Fields(bytes) {
            match field? {
                (1, Content::Bytes(node)) => self.node(node, depth)?,
                (5, Content::Bytes(tensor)) => self.tensor(tensor, depth)?,
                (11, Content::Bytes(input)) if depth == 0 => self.inputs.push(port(input)?),
                (12, Content::Bytes(output)) if depth == 0 => self.outputs.push(port(output)?),
                _ => (),
            }
        }
        Ok(())
    }

    fn node(&mut self, bytes: &[u8], depth: usize) -> Parsed<()> {
        let (mut kind, mut domain) = ("", "");
        for field in Fields(bytes) {
            match field? {
                (4, Content::Bytes(name)) => kind = text(name)?,
                (7, Content::Bytes(name)) => domain = text(name)?,
                (5, Content::Bytes(attribute)) => {
                    for field in Fields(attribute) {
                        match field? {
                            (6 | 11, Content::Bytes(graph)) => self.graph(graph, depth + 1)?,
                            (5 | 10, Content::Bytes(tensor)) => self.tensor(tensor, depth + 1)?,
                            _ => (),
                        }
                    }
                }
                _ => (),
            }
        }
        let name = match domain {
            "" | "ai.onnx" => kind.to_owned(),
            domain => format!("{domain}:{kind}"),
        };
        *self.operators.entry(name).or_default() += 1;
        Ok(())
    }

    fn tensor(&mut self, bytes: &[u8], depth: usize) -> Parsed<()> {
        let (mut location, mut offset, mut length) = (None, 0_u64, 0_u64);
        for field in Fields(bytes) {
            match field? {
                (8, Content::Bytes(name)) if depth == 0 => {
                    self.constants.insert(text(name)?.to_owned());
                }
                (13, Content::Bytes(entry)) => {
                    let (mut key, mut value) = ("", "");
                    for field in Fields(entry) {
                        match field? {
                            (1, Content::Bytes(bytes)) => key = text(bytes)?,
                            (2, Content::Bytes(bytes)) => value = text(bytes)?,
                            _ => (),
                        }
                    }
                    let number = || {
                        value
                            .parse()
                            .map_err(|_| format!("{key} '{value}' of a tensor"))
                    };
                    match key {
                        "location" => location = Some(value),
                        "offset" => offset = number()?,
                        "length" => length = number()?,
                        _ => (),
                    }
                }
                _ => (),
            }
        }
        if let Some(location) = location {
            let end = offset
                .checked_add(length)
                .ok_or_else(|| format!("a tensor in {location} ends beyond any file"))?;
            let last = self.external.entry(location.to_owned()).or_default();
            *last = end.max(*last);
        }
        Ok(())
    }
}

fn port(bytes: &[u8]) -> Parsed<Port> {
    let mut port = Port::default();
    for field in Fields(bytes) {
        match field? {
            (1, Content::Bytes(name)) => text(name)?.clone_into(&mut port.name),
            (2, Content::Bytes(kind)) => {
                for field in Fields(kind) {
                    if let (1, Content::Bytes(tensor)) = field? {
                        tensor_type(tensor, &mut port)?;
                    }
                }
            }
            _ => (),
        }
    }
    Ok(port)
}

fn tensor_type(bytes: &[u8], port: &mut Port) -> Parsed<()> {
    for field in Fields(bytes) {
        match field? {
            (1, Content::Number(element)) => port.element = i32::try_from(element).unwrap_or(0),
            (2, Content::Bytes(shape)) => {
                for field in Fields(shape) {
                    let (1, Content::Bytes(dimension)) = field? else {
                        continue;
                    };
                    let mut size = None;
                    for field in Fields(dimension) {
                        if let (1, Content::Number(value)) = field? {
                            // Some exporters write −1 or 0 for "not fixed".
                            size = i64::try_from(value)
                                .ok()
                                .filter(|&n| n > 0)
                                .map(|n| n as u64);
                        }
                    }
                    port.shape.push(size);
                }
            }
            _ => (),
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Parsed<&str> {
    std::str::from_utf8(bytes).map_err(|_| "a name in it is no UTF-8".to_owned())
}

enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes, which nothing here needs.
    Fixed,
}

/// The fields of one message, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Parsed<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(cut)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("it is damaged: a number of more than 64 bits".to_owned())
    }

    fn take(&mut self, length: u64) -> Parsed<&'a [u8]> {
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length))
            .ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Parsed<(u64, Content<'a>)> {
        let tag = self.varint()?;
        let content = match tag & 7 {
            0 => Content::Number(self.varint()?),
            1 => self.take(8).map(|_| Content::Fixed)?,
            2 => {
                let length = self.varint()?;
                Content::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Content::Fixed)?,
            kind => {
                return Err(format!(
                    "it is no ONNX model, or damaged: field of kind {kind}"
                ));
            }
        };
        Ok((tag >> 3, content))
    }
}

fn cut() -> String {
    "it is cut short or no ONNX model".to_owned()
}

impl<'a> Iterator for Fields<'a> {
    type Item = Parsed<(u64, Content<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}
