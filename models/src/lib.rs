//! What does a model file mean: samples to words?

pub mod catalogue;
pub mod fetch;
pub mod speech;
pub mod store;

pub use catalogue::Catalogue;
pub use store::{Store, StoreError};
