//! Takes the weights of Moonshine's decoder out of the shipped graph.
//!
//! ONNX Runtime itself translates the `.ort` file: loaded with all optimisations off and told to
//! save what it has, it writes ONNX protobuf. Of that, the branch without cache (the `else` of the
//! one `If`) names every matrix product and norm after the module it came from, and so its weights
//! are found. The matrices are the uint8 ones of the file, with their scale and zero point.

use std::collections::HashMap;
use std::path::Path;

use firstword_targets::Library;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use prost::Message;

use super::LeanError;
use crate::onnx::messages::{Graph, Model, Node, Tensor, code};

/// Sizes of Moonshine tiny.
pub const LAYERS: usize = 6;
pub const HEADS: usize = 8;
pub const HEAD: usize = 36;
pub const WIDTH: usize = HEADS * HEAD;
pub const INNER: usize = 4 * WIDTH;
pub const VOCABULARY: usize = 32_768;

/// A quantised matrix: value = (byte − zero) · scale. A product with it is `x · matrix + bias`.
#[derive(Debug, PartialEq)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    /// Row after row.
    pub bytes: Vec<u8>,
    pub scale: f32,
    pub zero: u8,
    /// Empty where there is none.
    pub bias: Vec<f32>,
}

/// One layer. `[q, k, v, o]` of an attention; the norms' factors, `WIDTH` each.
#[derive(Debug)]
pub struct Layer {
    pub own: [Matrix; 4],
    pub cross: [Matrix; 4],
    /// To twice the inner width: the value's half, then the gate's.
    pub fc1: Matrix,
    pub fc2: Matrix,
    pub before_own: Vec<f32>,
    pub before_cross: Vec<f32>,
    pub before_mlp: Vec<f32>,
}

/// The whole decoder.
#[derive(Debug)]
pub struct Weights {
    /// A row per token.
    pub embedding: Matrix,
    pub layers: Vec<Layer>,
    pub last_norm: Vec<f32>,
    pub output: Matrix,
}

impl Weights {
    /// Reads them from the shipped decoder `file`.
    pub fn of_shipped(library: &Library, file: &Path) -> Result<Self, LeanError> {
        let model = as_onnx(library, file)?;
        let graph = model
            .graph
            .as_ref()
            .ok_or_else(|| unexpected("a graph", "none"))?;
        let branch = graph
            .node
            .iter()
            .filter(|node| node.op_type == "If")
            .flat_map(|node| &node.attribute)
            .find(|attribute| attribute.name == "else_branch")
            .and_then(|attribute| attribute.g.as_deref())
            .ok_or_else(|| unexpected("an If with an else branch", "none"))?;
        Source::new(graph, branch).weights()
    }
}

/// The graph as ONNX Runtime writes it.
fn as_onnx(library: &Library, file: &Path) -> Result<Model, LeanError> {
    let folder = tempfile::tempdir().map_err(LeanError::Temporary)?;
    let path = folder.path().join("decoder.onnx");
    let save = || -> ort::Result<()> {
        // No weight is used, so none is packed. The level is "error" because ONNX Runtime warns
        // that a saved graph may suit this machine only, which does not hold at level 0.
        Session::builder(library.environment())?
            .with_optimization_level(GraphOptimizationLevel::Disable)?
            .with_optimized_model_path(&path)?
            .with_config_entry("session.save_model_format", "ONNX")?
            .with_config_entry("session.disable_prepacking", "1")?
            .with_log_level(LogLevel::Error)?
            .commit_from_file(file)
            .map(drop)
    };
    save().map_err(|error| LeanError::Translation {
        said: firstword_targets::one_line(error.message()),
    })?;
    let bytes = std::fs::read(&path).map_err(LeanError::Temporary)?;
    Model::decode(&bytes[..]).map_err(|error| LeanError::Translation {
        said: format!("what it wrote is not protobuf: {error}"),
    })
}

fn unexpected(expected: impl Into<String>, found: impl Into<String>) -> LeanError {
    LeanError::Unexpected {
        expected: expected.into(),
        found: found.into(),
    }
}

/// The branch that is read, by names.
struct Source<'a> {
    nodes: HashMap<&'a str, &'a Node>,
    tensors: HashMap<&'a str, &'a Tensor>,
    branch: &'a Graph,
}

impl<'a> Source<'a> {
    fn new(graph: &'a Graph, branch: &'a Graph) -> Self {
        Self {
            nodes: branch.node.iter().map(|n| (n.name.as_str(), n)).collect(),
            tensors: graph
                .initializer
                .iter()
                .chain(&branch.initializer)
                .map(|t| (t.name.as_str(), t))
                .collect(),
            branch,
        }
    }

    fn weights(&self) -> Result<Weights, LeanError> {
        let seventh = format!("/model/decoder/layers.{LAYERS}/mlp/fc1/MatMul_quant");
        if self.nodes.contains_key(seventh.as_str()) {
            return Err(unexpected(format!("{LAYERS} layers"), "more"));
        }
        Ok(Weights {
            embedding: self.embedding()?,
            layers: (0..LAYERS)
                .map(|layer| self.layer(layer))
                .collect::<Result<_, _>>()?,
            last_norm: self.norm("/model/decoder/norm")?,
            output: self.matrix("/proj_out", WIDTH, VOCABULARY, false)?,
        })
    }

    fn layer(&self, layer: usize) -> Result<Layer, LeanError> {
        let at = format!("/model/decoder/layers.{layer}");
        let attention = |name: &str| -> Result<[Matrix; 4], LeanError> {
            let one = |part| {
                let module = format!("{at}/{name}/{part}_proj");
                self.matrix(&module, WIDTH, WIDTH, false)
            };
            Ok([one("q")?, one("k")?, one("v")?, one("o")?])
        };
        let gate = format!("{at}/mlp/activation_fn/Mul/QuickGeluFusion/");
        let alpha = self.node(&gate, &["QuickGelu"])?.attribute.iter();
        let alpha = alpha.filter(|a| a.name == "alpha").find_map(|a| a.f);
        if alpha != Some(1.0) {
            return Err(unexpected(
                format!("alpha 1 (SiLU) at {gate}"),
                format!("{alpha:?}"),
            ));
        }
        Ok(Layer {
            own: attention("self_attn")?,
            cross: attention("encoder_attn")?,
            fc1: self.matrix(&format!("{at}/mlp/fc1"), WIDTH, 2 * INNER, true)?,
            fc2: self.matrix(&format!("{at}/mlp/fc2"), INNER, WIDTH, true)?,
            before_own: self.norm(&format!("{at}/input_layernorm"))?,
            before_cross: self.norm(&format!("{at}/post_attention_layernorm"))?,
            before_mlp: self.norm(&format!("{at}/final_layernorm"))?,
        })
    }

    /// The matrix of a module, from either of the two products with quantised inputs.
    fn matrix(
        &self,
        module: &str,
        rows: usize,
        columns: usize,
        biased: bool,
    ) -> Result<Matrix, LeanError> {
        let name = format!("{module}/MatMul_quant");
        let node = self.node(&name, &["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])?;
        // Inputs as onnxruntime's ContribOperators.md lists them.
        let [scale, zero, bias] = match node.op_type.as_str() {
            "DynamicQuantizeMatMul" => [2, 3, 4],
            _ => [3, 5, 6],
        };
        let bias = match node.input.get(bias).filter(|name| !name.is_empty()) {
            Some(_) => self.floats(node, bias, columns)?,
            None => Vec::new(),
        };
        if bias.is_empty() == biased {
            let found = if biased { "none" } else { "one" };
            return Err(unexpected(
                format!("{} bias at {name}", if biased { "a" } else { "no" }),
                found,
            ));
        }
        Ok(Matrix {
            rows,
            columns,
            bytes: self
                .tensor(node, 1, code::UINT8, &[rows, columns])?
                .raw_data
                .clone(),
            scale: self.scale(node, scale)?,
            zero: self.zero(node, zero)?,
            bias,
        })
    }

    fn embedding(&self) -> Result<Matrix, LeanError> {
        let gather = self.node("/model/decoder/embed_tokens/Gather", &["Gather"])?;
        let rows = gather.output.first();
        let dequantize = self
            .branch
            .node
            .iter()
            .find(|node| node.op_type == "DequantizeLinear" && node.input.first() == rows)
            .ok_or_else(|| unexpected("a DequantizeLinear after the embedding's Gather", "none"))?;
        Ok(Matrix {
            rows: VOCABULARY,
            columns: WIDTH,
            bytes: self
                .tensor(gather, 0, code::UINT8, &[VOCABULARY, WIDTH])?
                .raw_data
                .clone(),
            scale: self.scale(dequantize, 1)?,
            zero: self.zero(dequantize, 2)?,
            bias: Vec::new(),
        })
    }

    /// The factors of a norm whose offsets are all zero.
    fn norm(&self, module: &str) -> Result<Vec<f32>, LeanError> {
        let name = format!("{module}/LayerNormalization");
        let node = self.node(&name, &["LayerNormalization"])?;
        if let Some(offset) = node.input.get(2).filter(|name| !name.is_empty())
            && self.floats(node, 2, WIDTH)?.iter().any(|&v| v != 0.0)
        {
            return Err(unexpected(format!("zeros in {offset}"), "other values"));
        }
        self.floats(node, 1, WIDTH)
    }

    fn node(&self, name: &str, kinds: &[&str]) -> Result<&'a Node, LeanError> {
        let expected = || format!("{} named {name}", kinds.join(" or "));
        match self.nodes.get(name) {
            Some(node) if kinds.contains(&node.op_type.as_str()) => Ok(node),
            Some(node) => Err(unexpected(expected(), node.op_type.clone())),
            None => Err(unexpected(expected(), "none")),
        }
    }

    /// The constant that is this input of a node, of this element type and shape.
    fn tensor(
        &self,
        node: &Node,
        input: usize,
        kind: i32,
        shape: &[usize],
    ) -> Result<&'a Tensor, LeanError> {
        let name = node.input.get(input).map_or("", String::as_str);
        let width = if kind == code::FLOAT { 4 } else { 1 };
        let bytes = shape.iter().product::<usize>() * width;
        let is = |tensor: &Tensor| {
            let dims = tensor.dims.iter().map(|&n| usize::try_from(n).ok());
            tensor.data_type == kind
                && dims.eq(shape.iter().map(|&n| Some(n)))
                && tensor.raw_data.len() == bytes
        };
        let expected = || {
            format!(
                "input {input} of {} of type {kind} and shape {shape:?}",
                node.name
            )
        };
        match self.tensors.get(name) {
            Some(tensor) if is(tensor) => Ok(tensor),
            Some(tensor) => Err(unexpected(
                expected(),
                format!(
                    "type {}, shape {:?}, {} bytes",
                    tensor.data_type,
                    tensor.dims,
                    tensor.raw_data.len()
                ),
            )),
            None => Err(unexpected(expected(), format!("no constant \"{name}\""))),
        }
    }

    fn floats(&self, node: &Node, input: usize, length: usize) -> Result<Vec<f32>, LeanError> {
        let tensor = self.tensor(node, input, code::FLOAT, &[length])?;
        Ok(as_floats(&tensor.raw_data))
    }

    fn scale(&self, node: &Node, input: usize) -> Result<f32, LeanError> {
        let tensor = self.tensor(node, input, code::FLOAT, &[])?;
        Ok(as_floats(&tensor.raw_data)[0])
    }

    fn zero(&self, node: &Node, input: usize) -> Result<u8, LeanError> {
        Ok(self.tensor(node, input, code::UINT8, &[])?.raw_data[0])
    }
}

fn as_floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|four| f32::from_le_bytes(*four))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T: std::fmt::Debug>(result: Result<T, LeanError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn another_graph_is_refused_with_what_was_looked_for() {
        let empty = Graph::default();
        assert_eq!(
            said(Source::new(&empty, &empty).weights()),
            "the shipped decoder is not Moonshine tiny's: expected Gather named \
             /model/decoder/embed_tokens/Gather, found none"
        );
    }

    #[test]
    fn a_matrix_of_another_size_is_refused() {
        let tensor = |name: &str, dims: &[i64], data_type, bytes: usize| Tensor {
            dims: dims.to_vec(),
            data_type,
            name: name.to_owned(),
            raw_data: vec![0; bytes],
            ..Tensor::default()
        };
        let inputs = ["x", "w", "s", "z", ""];
        let node = Node {
            input: inputs.map(str::to_owned).to_vec(),
            name: "/m/MatMul_quant".to_owned(),
            op_type: "DynamicQuantizeMatMul".to_owned(),
            ..Node::default()
        };
        let mut graph = Graph {
            node: vec![node],
            initializer: vec![
                tensor("w", &[2, 3], code::UINT8, 6),
                tensor("s", &[], code::FLOAT, 4),
                tensor("z", &[], code::UINT8, 1),
            ],
            ..Graph::default()
        };
        let read = |graph: &Graph, rows| {
            let outside = Graph::default();
            Source::new(&outside, graph).matrix("/m", rows, 3, false)
        };
        assert_eq!(read(&graph, 2).unwrap().bytes, [0; 6]);
        assert!(said(read(&graph, 4)).contains("shape [4, 3], found type 2, shape [2, 3]"));
        // The shape says six bytes, five are there.
        graph.initializer[0].raw_data.pop();
        assert!(said(read(&graph, 2)).contains("5 bytes"));
        graph.initializer[0] = tensor("w", &[2, 3], code::FLOAT, 24);
        assert!(said(read(&graph, 2)).contains("found type 1"));
        graph.initializer.clear();
        assert!(said(read(&graph, 2)).contains("no constant \"w\""));
    }
}
