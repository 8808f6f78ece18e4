//! Why a decoder could not be loaded or a step not be run.

use firstword_targets::SessionError;

/// Why a decoder gives nothing. After any of these, every sequence has the length it had before.
#[derive(Debug, thiserror::Error)]
pub enum DecoderError {
    /// ONNX Runtime would not build the session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The memory that would be needed is not there; nothing was loaded.
    #[error(
        "not enough memory: {needed_mb} MB are needed ({weights_mb} for the weights, {cache_mb} for {slots} \
         sequences of {window} tokens), {available_mb} MB are available; ask for fewer sequences or a smaller window"
    )]
    Memory {
        /// All together, in MB (10⁶ bytes).
        needed_mb: u64,
        /// The weights as ONNX Runtime holds them.
        weights_mb: u64,
        /// Keys and values of all slots, and the logits.
        cache_mb: u64,
        /// Slots asked for.
        slots: usize,
        /// Tokens of each.
        window: usize,
        /// What the system or the control group leaves.
        available_mb: u64,
    },
    /// The capacity asked for makes no sense.
    #[error(
        "a capacity of {slots} sequences of {window} tokens: expected 1 to {most} sequences, and at least 1 token"
    )]
    Capacity {
        /// Slots asked for.
        slots: usize,
        /// Tokens of each.
        window: usize,
        /// The most slots there may be.
        most: usize,
    },
    /// More tokens than the slot or the model has positions.
    #[error(
        "{wanted} tokens are too many: the window is {window} (prompt and reply together); shorten the prompt"
    )]
    Window {
        /// Tokens there would be.
        wanted: usize,
        /// Tokens there may be.
        window: usize,
    },
    /// A token the model does not have.
    #[error(
        "token {token} is not one of the model's {vocabulary}: the tokenizer belongs to another model"
    )]
    Token {
        /// The token.
        token: u32,
        /// The number of tokens there are.
        vocabulary: usize,
    },
    /// Nothing to do: an empty chunk, or no sequence.
    #[error("there are no tokens to run; give at least one")]
    Empty,
    /// The slot was closed, or belongs to another decoder.
    #[error("the sequence is closed: open a slot first")]
    Closed,
    /// The same slot twice in one batch.
    #[error("a sequence is in the batch twice; each may take one token a step")]
    Twice,
    /// A row of logits was asked for that the chunk does not have.
    #[error("logits of row {row} are wanted, the chunk has {rows}")]
    Row {
        /// The row.
        row: usize,
        /// Tokens of the chunk.
        rows: usize,
    },
    /// LongRoPE turns by other factors at this length: keys in the cache do not fit.
    #[error(
        "at {length} tokens the rotation's factors change: truncate the sequence to 0 and prefill it again"
    )]
    Refill {
        /// The length that was asked for.
        length: usize,
    },
    /// LongRoPE in a graph that can't be told the prompt's whole length.
    #[error(
        "a prompt of {length} tokens must be one chunk for this graph: it chooses LongRoPE's factors by what it sees"
    )]
    WholePrompt {
        /// The prompt's length.
        length: usize,
    },
    /// NaN or infinity among the logits.
    #[error(
        "the model gave no numbers (NaN or infinity) as logits; the file is damaged or its precision too low for this target"
    )]
    NotNumbers,
    /// ONNX Runtime failed in a step.
    #[error("a step of the model failed: {0}")]
    Step(String),
    /// The graph gave something else than it announced.
    #[error("the model gave {found}, expected {expected}")]
    Unexpected {
        /// What came.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The system gives no memory for the cache.
    #[error("no memory for the cache: {0}")]
    NoMemory(std::io::Error),
}

impl DecoderError {
    pub(super) fn step(error: ort::Error) -> Self {
        Self::Step(firstword_targets::one_line(error.message()))
    }
}
