//! Graphs that return the keys and values of the new tokens only: who calls keeps the cache.

use firstword_targets::{Cpu, Library};

use super::error::DecoderError;
use super::logits::Output;
use super::{Capacity, Chunk, Counts, Group};
use crate::language::folder::LanguageFolder;

/// The engine.
#[derive(Debug)]
pub(super) struct Rows;

impl Rows {
    pub fn load(
        _: &Library,
        _: &Cpu,
        _: &LanguageFolder,
        _: Capacity,
    ) -> Result<Self, DecoderError> {
        Ok(Self)
    }
    pub fn prefill(
        &mut self,
        _: &Chunk<'_>,
        _: &mut Output,
        _: &mut Counts,
    ) -> Result<(), DecoderError> {
        Err(DecoderError::Empty)
    }
    pub fn decode(
        &mut self,
        _: &Group<'_>,
        _: usize,
        _: &mut Output,
        _: &mut Counts,
    ) -> Result<(), DecoderError> {
        Err(DecoderError::Empty)
    }
    pub fn copy(&mut self, _: usize, _: usize, _: usize) -> Result<(), DecoderError> {
        Err(DecoderError::Empty)
    }
}
