//! The few messages and fields of ONNX's protobuf format that are read and written here, with the
//! field numbers of `onnx.proto` (IR version 9). Unknown fields are skipped, as protobuf asks.

use prost::Message;

/// `AttributeProto.AttributeType`, `TensorProto.DataType` and `TensorProto.DataLocation`, as far as used.
pub mod code {
    pub const ATTRIBUTE_FLOAT: i32 = 1;
    pub const ATTRIBUTE_INT: i32 = 2;
    pub const ATTRIBUTE_STRING: i32 = 3;
    pub const ATTRIBUTE_INTS: i32 = 7;
    pub const FLOAT: i32 = 1;
    pub const UINT8: i32 = 2;
    pub const INT8: i32 = 3;
    pub const INT32: i32 = 6;
    pub const INT64: i32 = 7;
    pub const BOOL: i32 = 9;
    pub const FLOAT16: i32 = 10;
    pub const BFLOAT16: i32 = 16;
    pub const UINT4: i32 = 21;
    pub const INT4: i32 = 22;
    /// The values are in another file.
    pub const EXTERNAL: i32 = 1;
}

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<Entry>,
}

/// `StringStringEntryProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct OperatorSet {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
    /// Types of values inside the graph.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A string's bytes.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<Graph>>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    /// The values, little-endian, where they are not in the typed fields (which ONNX Runtime
    /// does not write for numbers).
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    /// Where [`code::EXTERNAL`]: `location` (a file beside the model's), `offset` and `length` in bytes.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<Entry>,
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub kind: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub element: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// One of both is set.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub parameter: Option<String>,
}
