//! GGUF files as a user of the crate meets them: read, split, damaged, written.
#![allow(clippy::unwrap_used)] // A test ends with what it did not expect.

mod blocks;
#[path = "../../../audio/tests/counting/mod.rs"]
mod counting;
mod damage;
mod fixture;
#[path = "../place/mod.rs"]
mod place;
mod read;
mod split;
mod write;
