//! The latency record: one line for each utterance, the only place where its shape is defined.

use firstword_audio::clock::{Samples, Stamp};
use serde::Serialize;

/// What one utterance cost. Written as one JSON object per line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// Version of this shape; it grows when a field changes its meaning.
    pub schema: u32,
}

/// Keeps the imports honest until the record has its fields.
#[allow(dead_code)]
type Fields = (Samples, Stamp);
