//! What does a model file mean: samples to words?

pub mod speech;
