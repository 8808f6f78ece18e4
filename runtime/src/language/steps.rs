//! What a model must be able to do for the generation loop: chunks of prompts and batches of single tokens on slots of
//! a key/value cache.

/// Logits of some tokens, one row for each.
pub trait Rows {
    /// The logits of a row: one for each token of the vocabulary.
    fn row(&self, index: usize) -> &[f32];
}

/// A model with slots, each of which holds the cache of one sequence.
pub trait Steps {
    /// A slot.
    type Slot: Copy + PartialEq + std::fmt::Debug;
    /// Logits that a step gives.
    type Logits<'a>: Rows
    where
        Self: 'a;
    /// Why a step failed: one line.
    type Error: std::fmt::Display;

    /// Tokens that the model knows: the length of a row of logits.
    fn vocabulary(&self) -> usize;
    /// Tokens that a slot can hold.
    fn window(&self) -> usize;
    /// An empty slot, if one is left.
    fn open(&mut self) -> Option<Self::Slot>;
    /// Gives a slot back.
    fn close(&mut self, slot: Self::Slot);
    /// How many tokens a slot holds.
    fn length(&self, slot: Self::Slot) -> usize;
    /// Forgets all tokens of a slot but the first `length`.
    fn truncate(&mut self, slot: Self::Slot, length: usize);
    /// Makes the first `length` tokens of `from` the content of `to`.
    ///
    /// # Errors
    ///
    /// It could not be copied; what `to` holds is not to be used.
    fn copy(&mut self, from: Self::Slot, to: Self::Slot, length: usize) -> Result<(), Self::Error>;
    /// Appends a chunk of a prompt whose whole length is `end`. One row of logits, of the chunk's last token, if
    /// `wanted`; otherwise there may be none.
    ///
    /// # Errors
    ///
    /// The step failed: what the slot holds is not to be used any more.
    fn prefill(
        &mut self,
        slot: Self::Slot,
        tokens: &[u32],
        end: usize,
        wanted: bool,
    ) -> Result<Self::Logits<'_>, Self::Error>;
    /// Appends one token to each of these slots, in one batch. One row of logits for each, in their order.
    ///
    /// # Errors
    ///
    /// The step failed: what these slots hold is not to be used any more.
    fn decode(&mut self, steps: &[(Self::Slot, u32)]) -> Result<Self::Logits<'_>, Self::Error>;
    /// Whether what a slot holds cannot be part of a sequence of this length: it must be emptied and filled again
    /// (LongRoPE, whose rotation changes once a sequence outgrows the original window).
    fn must_refill(&self, slot: Self::Slot, length: usize) -> bool;
    /// Whether a prompt of this length must be given as one chunk, if nothing of it is cached.
    fn must_be_whole(&self, _length: usize) -> bool {
        false
    }
}
