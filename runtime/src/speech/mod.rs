//! From samples to final words: utterances, partial results, and what each step cost.

pub mod agreement;
pub mod endpoint;
pub mod feed;
pub mod listener;
pub mod recogniser;
pub mod seam;
pub mod stream;
pub mod timeline;
pub mod transcript;

pub use recogniser::Recogniser;
pub use stream::{Mode, Stream};
