//! ONNX files as this program reads and writes them: the protobuf messages, and what is built of them.

pub mod builder;
pub mod data;
#[allow(
    dead_code,
    missing_docs,
    reason = "the format's own fields and codes, read here and there"
)]
pub(crate) mod messages;

pub use builder::{Attribute, Builder, Element, Size, Value, float, int, ints, text};
pub use data::DataFile;
