//! What does a model file mean: samples → words, prompt → tokens?

pub mod catalogue;
pub mod fetch;
pub mod gguf;
pub mod hub;
pub mod language;
pub mod onnx;
pub mod speech;
pub mod store;

pub use catalogue::Catalogue;
pub use store::{Store, StoreError};
