//! ONNX files as this program reads and writes them: the protobuf messages, and what is built of them.

pub(crate) mod messages;
