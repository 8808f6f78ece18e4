//! What the recogniser hands over: partial and final transcripts.

use firstword_audio::clock::{Samples, Stamp};

use crate::record::Record;

/// A word that will not be retracted.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The word with its punctuation, without surrounding space.
    pub text: String,
    /// The last sample that the hypothesis which committed the word had heard.
    pub covered: Samples,
    /// When that sample was captured.
    pub captured: Stamp,
    /// When the word was committed.
    pub committed: Stamp,
    /// When the word was handed to the sink (set by whoever writes it out).
    pub handed_over: Option<Stamp>,
}

/// What is known of an utterance that is still being spoken.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// The utterance's number in its stream, from 0.
    pub utterance: u32,
    /// Where the utterance starts.
    pub start: Samples,
    /// The last sample that this partial has heard.
    pub covered: Samples,
    /// When that sample was captured.
    pub captured: Stamp,
    /// The prefix that is never retracted: two successive hypotheses agree on it.
    pub committed: String,
    /// The rest, which may still change. `committed + tentative` is the text so far
    /// (the separating space belongs to `tentative`).
    pub tentative: String,
}

/// A finished utterance.
#[derive(Clone, Debug)]
pub struct Final {
    /// The utterance's number in its stream, from 0.
    pub utterance: u32,
    /// The whole text of the utterance.
    pub text: String,
    /// First sample of the speech, pre-roll included.
    pub start: Samples,
    /// One past the last sample of the speech.
    pub end: Samples,
    /// The words of `text`, in order; joined by single spaces they give `text`.
    pub words: Vec<Word>,
    /// What it cost.
    pub record: Record,
}

/// One thing to show, in the order of the stream.
#[derive(Clone, Debug)]
pub enum Event {
    /// Replaces the previous partial of the same utterance.
    Partial(Partial),
    /// Ends its utterance.
    Final(Box<Final>),
}
