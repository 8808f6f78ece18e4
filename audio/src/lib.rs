//! What sound comes in, and when was it captured?
//!
//! Every source, whatever its rate, sample type and channel count, ends up as 16 kHz mono
//! `f32` samples in −1…1, each with the instant at which it was captured:
//!
//! ```text
//! open / stream / raw  →  ring  →  Conditioner  →  16 kHz mono
//! (a Source, native)      (lock-free)  (channels, resampling)
//! ```

pub mod clock;
pub mod decoded;
mod error;
mod pcm;
pub mod raw;
pub mod resample;
pub mod ring;
pub mod source;
pub mod wav;

pub use clock::{SAMPLE_RATE, Samples, Stamp};
pub use error::Error;
pub use resample::{Channels, Conditioner};
pub use source::{Format, Source, open, stream};
