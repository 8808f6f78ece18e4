//! From prompts to replies: which request's step runs when, what it may reuse, and what it cost.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`steps`] | what must a model be able to do? |
//! | [`request`] | what is asked, and how can it end? |
//! | [`generator`] | many requests on one model, step by step |
//! | [`schedule`] | which step is next? |
//! | [`slots`] | whose cache holds the beginning of this prompt already? |
//! | [`timing`] | what did a reply cost? |
//! | [`answerer`] | a model with its tokenizer and template: what is said → what is answered |
//! | [`conversation`] | messages of several turns → the next prompt |

mod active;
pub mod answerer;
pub mod conversation;
mod event;
pub mod generator;
pub mod request;
pub mod schedule;
pub mod slots;
pub mod steps;
pub mod timing;

pub use conversation::{Conversation, Rendered};
pub use generator::{Event, Generator, Options, RunError};
pub use request::{Cancel, GenerateError, Refused, Reply, Request, RequestId, Stop, Text};
pub use steps::{Rows, Steps};
pub use timing::Timing;
