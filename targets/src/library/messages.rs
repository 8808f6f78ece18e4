//! What ONNX Runtime says while it works, kept instead of printed.
//!
//! ONNX Runtime logs a failure and returns it as well, and warns about devices nobody asked for.
//! Printed, that would break the rule of one line per error; thrown away, an "ignored option"
//! warning would pass unseen. So warnings and worse are kept here until someone takes them.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ort::logging::{LogLevel, LoggerFunction};

/// How many messages wait at most; the oldest give way. A run of repeated warnings must not grow
/// the memory of a daemon.
const KEPT: usize = 256;

/// One message of ONNX Runtime, warning or worse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How bad ONNX Runtime thinks it is.
    pub level: LogLevel,
    /// The text, on one line, without ONNX Runtime's own source location.
    pub text: String,
}

/// The messages of the one environment of this process.
#[derive(Debug, Default)]
pub struct Messages {
    waiting: Mutex<VecDeque<Message>>,
    dropped: AtomicU64,
    show: AtomicBool,
}

impl Messages {
    /// Takes what has gathered, oldest first.
    pub fn take(&self) -> Vec<Message> {
        self.lock().drain(..).collect()
    }

    /// How many messages gave way to newer ones before anyone took them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether messages also go to stderr as they come (for a verbose run). Off at first.
    pub fn show(&self, on: bool) {
        self.show.store(on, Ordering::Relaxed);
    }

    fn note(&self, level: LogLevel, text: &str) {
        if level < LogLevel::Warning {
            return;
        }
        let message = Message {
            level,
            text: crate::one_line(text),
        };
        if self.show.load(Ordering::Relaxed) {
            // This runs inside ONNX Runtime: a closed stderr must not become a panic.
            let _ = writeln!(io::stderr(), "onnxruntime: {level:?}: {}", message.text);
        }
        let mut waiting = self.lock();
        if waiting.len() == KEPT {
            waiting.pop_front();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        waiting.push_back(message);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The function ONNX Runtime calls with every message.
pub(super) fn logger(messages: &Arc<Messages>) -> LoggerFunction {
    let messages = Arc::clone(messages);
    Arc::new(
        move |level, _category: &str, _id: &str, _location: &str, text: &str| {
            messages.note(level, text)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chatter_is_dropped_and_warnings_are_kept_on_one_line() {
        let messages = Messages::default();
        messages.note(LogLevel::Info, "loaded");
        messages.note(LogLevel::Warning, "unknown option\n  device_type");
        let kept = messages.take();
        assert_eq!(
            kept,
            [Message {
                level: LogLevel::Warning,
                text: "unknown option device_type".to_owned()
            }]
        );
        assert!(messages.take().is_empty(), "taken messages are gone");
    }

    #[test]
    fn a_flood_of_warnings_keeps_the_newest_and_counts_the_rest() {
        let messages = Messages::default();
        for number in 0..KEPT + 3 {
            messages.note(LogLevel::Error, &number.to_string());
        }
        assert_eq!(messages.dropped(), 3);
        let kept = messages.take();
        assert_eq!((kept.len(), kept[0].text.as_str()), (KEPT, "3"));
    }
}
