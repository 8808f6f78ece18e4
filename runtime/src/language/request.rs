//! What is asked, and how can it end?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firstword_models::language::constraint::{Constraint, ConstraintError};
use firstword_models::language::sampling::{Sampling, SamplingError};

use super::timing::Timing;

/// Turns tokens into text to show, token by token.
pub trait Text: Send {
    /// Takes a token; returns the text that is certain now, which may be empty.
    fn push(&mut self, token: u32) -> String;
    /// The reply ends: returns what was held back.
    fn finish(&mut self) -> String;
    /// The stop string that ended the text, if one did. Nothing of it, nor of what follows, is ever returned.
    fn stopped(&self) -> Option<&str>;
}

/// Ends a request from anywhere: between two steps, or two chunks of its prompt.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl From<Arc<AtomicBool>> for Cancel {
    /// A flag that somebody else raises, too.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

impl Cancel {
    /// Asks for the end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A prompt and how to go on with it.
pub struct Request {
    /// The tokens of the prompt, BOS included where the model wants one.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most; 0 only fills the cache.
    pub max_tokens: usize,
    /// How to choose them.
    pub sampling: Sampling,
    /// What the reply must follow.
    pub constraint: Option<Constraint>,
    /// Tokens to text; without it, events carry tokens only and no stop string is looked for.
    pub text: Option<Box<dyn Text>>,
    /// Go on after a token that ends a reply (for measurements with a fixed length).
    pub ignore_eos: bool,
    /// Ends it early.
    pub cancel: Cancel,
}

impl Request {
    /// Greedy continuation of a prompt, as tokens.
    #[must_use]
    pub fn new(prompt: Vec<u32>, max_tokens: usize) -> Self {
        Self {
            prompt,
            max_tokens,
            sampling: Sampling::default(),
            constraint: None,
            text: None,
            ignore_eos: false,
            cancel: Cancel::default(),
        }
    }
}

/// A request's number, unique within its generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model ended it with this token, which is not part of it.
    Eos(u32),
    /// This stop string came; it is not part of the text.
    StopString(String),
    /// It is complete under its schema.
    Complete,
    /// `max_tokens` were generated.
    Length,
    /// The model's window is full.
    Window,
    /// It was cancelled.
    Cancelled,
}

/// A reply that came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Its tokens, as handed over.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub stop: Stop,
    /// What it cost.
    pub timing: Timing,
}

/// Why a request was not accepted. Nothing ran.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// There is nothing to go on with.
    #[error(
        "the prompt is empty, expected one token at least: give some text, or a model whose prompts begin with BOS"
    )]
    EmptyPrompt,
    /// The prompt leaves no room for a reply.
    #[error(
        "the prompt has {prompt} tokens, the model's window is {window} and a reply needs room for one at least: \
         shorten the prompt by {over} or more", over = prompt + 1 - window
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the window.
        window: usize,
    },
    /// Prompt and reply together would not fit, and the reply may not be shortened.
    #[error(
        "the prompt has {prompt} tokens and max_tokens is {max_tokens}, together more than the model's window of \
         {window}: ask for {room} tokens at most", room = window - prompt
    )]
    ReplyTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        max_tokens: usize,
        /// Tokens of the window.
        window: usize,
    },
    /// The sampling parameters make no sense for this model.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// Too many requests wait.
    #[error("{waiting} requests wait already, the most that may: try again later")]
    Busy {
        /// How many wait.
        waiting: usize,
    },
}

/// Why a request failed on its way.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// A step of the model failed. What its slots held is given up.
    #[error("{what} of {tokens} tokens failed: {reason}")]
    Step {
        /// Which step.
        what: &'static str,
        /// Its tokens.
        tokens: usize,
        /// What the model says.
        reason: String,
    },
    /// No token could be chosen.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The schema could not be followed.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The model has no slot at all.
    #[error("the model has no slot for a sequence: load it with room for one at least")]
    NoSlot,
}
