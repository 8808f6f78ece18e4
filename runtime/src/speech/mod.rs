//! From samples to final words: utterances, partial results, and what each step cost.

pub mod transcript;
