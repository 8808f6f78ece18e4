//! Which tokens may come next, where the answer must follow a JSON schema.
//!
//! The work is done by `llguidance`: a lexer and an Earley parser run over a trie of the vocabulary. What is ours: its
//! input from a model's own token bytes, errors of one line, and white space. Between the parts of a JSON text exactly
//! `, ` and `: ` are allowed, nothing else: a small model that may write white space at any place can write it without
//! end, and every token of indentation costs a step. A schema may say otherwise with llguidance's own `x-guidance`.

use std::sync::Arc;

use llguidance::api::{ParserLimits, StopReason, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{
    ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{Matcher, ParserFactory, panic_utils};
use serde_json::Value;

/// Longest token that the trie holds, in bytes; longer ones (runs of spaces, in some vocabularies) may not come next.
const LONGEST: usize = 1000;
/// Largest schema, in bytes.
const LARGEST_SCHEMA: usize = 1 << 20;
/// Most tokens of a vocabulary (the trie's own limit is 2²⁴ − 1).
const MOST_TOKENS: usize = 4 << 20;

/// Why an answer cannot be constrained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConstraintError {
    /// The vocabulary cannot be used.
    #[error("the vocabulary cannot be constrained: {reason}; use the model's own tokenizer")]
    Vocabulary {
        /// What is wrong.
        reason: String,
    },
    /// The schema is not JSON.
    #[error(
        "the schema is not JSON: {reason}; give a JSON schema such as {{\"type\": \"object\"}}"
    )]
    NotJson {
        /// What the parser says, with line and column.
        reason: String,
    },
    /// The schema is too large.
    #[error("the schema has {found} bytes, expected {LARGEST_SCHEMA} at most: make it smaller")]
    TooLarge {
        /// Its bytes.
        found: usize,
    },
    /// The schema is wrong, contradicts itself, or uses what is not supported.
    #[error("the schema cannot be followed: {reason}; change or remove that part")]
    Schema {
        /// What is wrong with it.
        reason: String,
    },
    /// A token was accepted that is not allowed.
    #[error("token {token} is not allowed by the schema here: choose among the allowed ones")]
    NotAllowed {
        /// The token.
        token: u32,
    },
    /// The parser gave up in the middle.
    #[error("the schema could not be followed any further: {reason}; make it simpler")]
    Failed {
        /// Why.
        reason: String,
    },
}

/// A set of token ids.
#[derive(Clone, Debug)]
pub struct TokenSet(SimpleVob);

impl TokenSet {
    /// The set of these tokens, of a vocabulary of so many.
    #[must_use]
    pub fn of(tokens: impl IntoIterator<Item = u32>, vocabulary: usize) -> Self {
        let mut set = SimpleVob::alloc(vocabulary);
        for token in tokens
            .into_iter()
            .filter(|&token| (token as usize) < vocabulary)
        {
            set.allow_token(token);
        }
        Self(set)
    }

    /// Whether the token is in it; one beyond the vocabulary is not.
    #[must_use]
    pub fn contains(&self, token: u32) -> bool {
        (token as usize) < self.0.len() && self.0.is_allowed(token)
    }

    /// How many tokens are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.num_set()
    }

    /// Whether no token is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_zero()
    }

    /// The tokens in it, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter()
    }

    /// Sets the logits of all other tokens to −∞.
    pub fn rule_out_others(&self, logits: &mut [f32]) {
        let words = self
            .0
            .as_slice()
            .iter()
            .copied()
            .chain(std::iter::repeat(0));
        for (word, logits) in words.zip(logits.chunks_mut(32)) {
            match word {
                0 => logits.fill(f32::NEG_INFINITY),
                u32::MAX => {}
                _ => {
                    for (bit, logit) in logits.iter_mut().enumerate() {
                        if word >> bit & 1 == 0 {
                            *logit = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
    }
}

/// A model's tokens, prepared once for all constraints on it.
#[derive(Clone)]
pub struct Vocabulary {
    factory: Arc<ParserFactory>,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tokens = self.factory.tok_env().tok_trie().vocab_size();
        f.debug_struct("Vocabulary")
            .field("tokens", &tokens)
            .finish()
    }
}

impl Vocabulary {
    /// Takes the bytes of every token, by id, for a model with `size` logits. Control tokens have none: an empty one
    /// never comes next. `eos`: the tokens that end an answer; they come next only where the answer may end.
    ///
    /// # Errors
    ///
    /// More tokens than logits, no `eos` or one beyond the vocabulary, or no token with bytes.
    pub fn new<T: AsRef<[u8]>>(
        tokens: impl IntoIterator<Item = T>,
        size: usize,
        eos: &[u32],
    ) -> Result<Self, ConstraintError> {
        let refuse = |reason: String| Err(ConstraintError::Vocabulary { reason });
        if size > MOST_TOKENS {
            return refuse(format!(
                "it has {size} tokens, expected {MOST_TOKENS} at most"
            ));
        }
        let mut words: Vec<Vec<u8>> = Vec::with_capacity(size);
        for token in tokens {
            if words.len() == size {
                return refuse(format!(
                    "it has more tokens than the model has logits ({size})"
                ));
            }
            let bytes = token.as_ref();
            // The trie keeps the byte 0xff for control tokens, which are not ours to give. It is no UTF-8 either.
            let usable =
                bytes.len() <= LONGEST && bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER);
            words.push(if usable { bytes.to_vec() } else { Vec::new() });
        }
        words.resize(size, Vec::new());
        if words.iter().all(Vec::is_empty) {
            return refuse("none of its tokens has bytes".into());
        }
        let Some(&first) = eos.first() else {
            return refuse("it has no token that ends an answer (eos)".into());
        };
        if let Some(bad) = eos.iter().find(|&&token| token as usize >= size) {
            return refuse(format!(
                "its token that ends an answer is {bad}, expected one below {size}"
            ));
        }
        for &token in eos {
            words[token as usize].clear();
        }
        let built = panic_utils::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let trie =
                TokTrie::from(&TokRxInfo::new(size as u32, first), &words).with_eos_tokens(eos);
            let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let slices = SlicedBiasComputer::json_slices();
            let mut factory =
                ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)?;
            factory.quiet();
            *factory.limits_mut() = ParserLimits {
                verbose_errors: false,
                ..ParserLimits::default()
            };
            Ok(factory)
        }));
        match built {
            Ok(factory) => Ok(Self {
                factory: Arc::new(factory),
            }),
            Err(error) => refuse(one_line(&error)),
        }
    }
}

/// Follows one answer, token by token.
pub struct Constraint {
    matcher: Matcher,
    allowed: TokenSet,
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Constraint")
            .field("finished", &self.finished())
            .finish_non_exhaustive()
    }
}

impl Constraint {
    /// A constraint to texts that are valid under a JSON schema.
    ///
    /// # Errors
    ///
    /// A schema that is no JSON, is no schema, cannot be satisfied, is too large, or uses a keyword that is not
    /// supported (the message names it).
    pub fn from_json_schema(
        vocabulary: &Vocabulary,
        schema: &str,
    ) -> Result<Self, ConstraintError> {
        if schema.len() > LARGEST_SCHEMA {
            return Err(ConstraintError::TooLarge {
                found: schema.len(),
            });
        }
        let mut schema: Value =
            serde_json::from_str(schema).map_err(|error| ConstraintError::NotJson {
                reason: error.to_string(),
            })?;
        match &mut schema {
            Value::Object(fields) => {
                fields.entry("x-guidance").or_insert_with(|| {
                    serde_json::json!({
                        "whitespace_flexible": false,
                        "item_separator": ", ",
                        "key_separator": ": ",
                    })
                });
            }
            Value::Bool(_) => {}
            other => {
                return Err(ConstraintError::Schema {
                    reason: format!("it is {}, expected an object", kind(other)),
                });
            }
        }
        if let Some(reference) = endless_reference(&schema) {
            return Err(ConstraintError::Schema {
                reason: format!(
                    "{{\"$ref\": \"{reference}\"}} leads back to itself and never says what to write"
                ),
            });
        }
        let grammar = TopLevelGrammar::from_json_schema(schema);
        let parser = panic_utils::catch_unwind(std::panic::AssertUnwindSafe(|| {
            vocabulary.factory.create_parser(grammar)
        }));
        let mut matcher = Matcher::new(Ok(parser.map_err(|error| ConstraintError::Schema {
            reason: one_line(&error),
        })?));
        match matcher.get_error() {
            Some(error) => Err(ConstraintError::Schema {
                reason: first_line(&error),
            }),
            None => {
                // What is contradictory may show only when the first token is asked for.
                let allowed =
                    matcher
                        .compute_mask_or_eos()
                        .map_err(|error| ConstraintError::Schema {
                            reason: one_line(&error),
                        })?;
                Ok(Self {
                    matcher,
                    allowed: TokenSet(allowed),
                })
            }
        }
    }

    /// The tokens that may come next; only those that end the answer, once it is complete.
    #[must_use]
    pub fn allowed(&self) -> &TokenSet {
        &self.allowed
    }

    /// Goes on by a token, and works out what may come after it.
    ///
    /// # Errors
    ///
    /// A token that is not allowed (the state is as before), or a parser that ran into its limits (nothing more can
    /// be accepted).
    pub fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        if !self.allowed.contains(token) {
            return Err(ConstraintError::NotAllowed { token });
        }

        if self.matcher.stop_reason() != StopReason::NotStopped {
            return Ok(());
        }
        self.matcher
            .consume_token(token)
            .map_err(|error| failed(&error))?;
        self.allowed = TokenSet(
            self.matcher
                .compute_mask_or_eos()
                .map_err(|error| failed(&error))?,
        );
        Ok(())
    }

    /// Whether the answer is complete and nothing but an end may follow.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.matcher.is_stopped()
    }
}

/// A `$ref` of this schema from which references lead to one another in a circle, with no schema that says what to
/// write. (A schema that contains itself, as a tree does, is no such thing.)
fn endless_reference(schema: &Value) -> Option<String> {
    let mut waiting = vec![schema];
    // Those that lead somewhere; by address, since the same schema is met on many ways.
    let mut sound = std::collections::HashSet::new();
    while let Some(value) = waiting.pop() {
        let mut way = std::collections::HashSet::new();
        let mut at = value;
        while let Some(reference) = at.get("$ref").and_then(Value::as_str) {
            let address = std::ptr::from_ref(at);
            if sound.contains(&address) {
                break;
            }
            if !way.insert(address) {
                return Some(reference.to_owned());
            }
            let Some(next) = reference
                .strip_prefix('#')
                .and_then(|pointer| schema.pointer(pointer))
            else {
                break;
            };
            at = next;
        }
        sound.extend(way);
        match value {
            Value::Object(fields) => waiting.extend(fields.values()),
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    None
}

fn failed(error: &dyn std::fmt::Display) -> ConstraintError {
    ConstraintError::Failed {
        reason: one_line(error),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn one_line(error: &dyn std::fmt::Display) -> String {
    first_line(&error.to_string())
}

/// The first line of a message: what follows may be a whole grammar, or a backtrace.
fn first_line(message: &str) -> String {
    let line = message
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no reason given");
    line.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
