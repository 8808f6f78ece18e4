//! What sound comes in, and when was it captured?
//!
//! Every source, whatever its rate, sample type and channel count, ends up as 16 kHz mono
//! `f32` samples in −1…1, each with the instant at which it was captured.

pub mod clock;
