//! What the steps of the generation loop come to, for whoever asked.

use super::request::{GenerateError, Refused, Reply, RequestId};
use super::timing::Timing;

/// What a step came to.
#[derive(Debug)]
pub enum Event<'a> {
    /// A token of a reply.
    Token {
        /// Whose.
        id: RequestId,
        /// The token.
        token: u32,
        /// Text that is certain now; may be empty.
        text: &'a str,
        /// The token's log-probability, where asked for.
        log_probability: Option<f32>,
        /// The most probable tokens here and their log-probabilities, where asked for.
        alternatives: &'a [(u32, f32)],
    },
    /// A reply came to its end.
    Done {
        /// Whose.
        id: RequestId,
        /// Text that was held back until now; may be empty.
        rest: String,
        /// All of it.
        reply: Reply,
    },
    /// A request failed on its way; its last event.
    Failed {
        /// Whose.
        id: RequestId,
        /// Why.
        error: GenerateError,
        /// What it had cost until then.
        timing: Timing,
    },
}

/// Why [`Generator::run_one`](super::Generator::run_one) gave no reply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// It was not accepted.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It failed on its way.
    #[error(transparent)]
    Failed(#[from] GenerateError),
}
