//! Exit codes and the one-line error messages: decided here and nowhere else.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::io::Write;

/// How the program ends. The numbers are stable: scripts may rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Success = 0,
    /// An input could not be read or was damaged; the others were processed.
    Input = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// A model is missing, damaged or unknown.
    Model = 3,
    /// ONNX Runtime was not found, did not load, or a session failed.
    OnnxRuntime = 4,
    /// The network or the package index failed.
    Network = 5,
    /// The result itself could not be written.
    Output = 6,
    /// The terms of a model were not accepted; nothing of it was fetched.
    Terms = 7,
    /// JSON was asked for, and the reply was cut before it was complete; what there was of it has been printed.
    Incomplete = 8,
    /// Stopped by Ctrl-C (SIGINT); what was final by then has been printed.
    Interrupted = 130,
    /// The reader of standard output went away (broken pipe). Nothing is said about it.
    PipeClosed = 141,
    /// Stopped by SIGTERM; what was final by then has been printed.
    Terminated = 143,
}

/// Every exit code with its meaning, in the order of the numbers. Help and documentation come from here.
pub const EXITS: &[(Exit, &str)] = &[
    (Exit::Success, "everything asked for was done"),
    (
        Exit::Input,
        "an input could not be read or was damaged; the others were processed",
    ),
    (
        Exit::Usage,
        "the command line or the configuration is wrong",
    ),
    (Exit::Model, "a model is missing, damaged or unknown"),
    (
        Exit::OnnxRuntime,
        "ONNX Runtime was not found, did not load, or a session failed",
    ),
    (Exit::Network, "the network or the package index failed"),
    (
        Exit::Output,
        "the result could not be written (disk full, output folder missing)",
    ),
    (
        Exit::Terms,
        "the terms of a model have to be accepted first; nothing of it was fetched",
    ),
    (
        Exit::Incomplete,
        "a reply in JSON was cut before it was complete; what there was of it has been printed",
    ),
    (
        Exit::Interrupted,
        "interrupted by Ctrl-C (SIGINT); what was final by then has been printed",
    ),
    (
        Exit::PipeClosed,
        "the reader of standard output went away (broken pipe)",
    ),
    (
        Exit::Terminated,
        "stopped by SIGTERM; what was final by then has been printed",
    ),
];

impl Exit {
    /// The number given to the operating system.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The exit of a command that did two things: the one that asks for more attention.
    ///
    /// An end that was forced (signal, broken pipe) or that spoils every input (output, library, model,
    /// network, usage) weighs more than one damaged input, and that more than success.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        if other.weight() > self.weight() {
            other
        } else {
            self
        }
    }

    const fn weight(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Incomplete => 1,
            Self::Input => 2,
            Self::Network => 3,
            Self::Model => 4,
            Self::OnnxRuntime => 5,
            Self::Usage => 6,
            Self::Terms => 7,
            Self::Output => 8,
            Self::Interrupted => 9,
            Self::Terminated => 10,
            Self::PipeClosed => 11,
        }
    }
}

/// The table of exit codes as help text.
#[must_use]
pub fn exit_code_help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (exit, meaning) in EXITS {
        text.push_str(&format!("  {:>3}  {meaning}\n", exit.code()));
    }
    text.pop();
    text
}

/// Why a command ended, and with which exit code: one line for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// The exit code that belongs to it.
    pub exit: Exit,
    subject: String,
    reason: String,
}

impl CommandError {
    /// An error about `subject` (a file, a model, a flag; may be empty). `reason` says what was
    /// expected, what was found, and what to do.
    pub fn new(exit: Exit, subject: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self {
            exit,
            subject: subject.to_string(),
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", printable(&self.subject))?;
        }
        f.write_str(&printable(&self.reason))
    }
}

impl std::error::Error for CommandError {}

/// Writes `firstword: <thing>: <reason>` to standard error; silent for a broken pipe.
pub fn report(error: &CommandError) {
    if error.exit != Exit::PipeClosed {
        say(&error.to_string());
    }
}

/// Writes one line `firstword: <text>` to standard error. Nobody is left to tell if that fails.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "firstword: {}", printable(text));
}

/// Writes text of several lines to standard error as it is; like [`say`], whether or not somebody reads it
/// (`eprint!` would panic on a full disk or a closed pipe).
pub fn aside(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A file name for a message: what is not UTF-8 is shown as U+FFFD, control characters are escaped,
/// and one that is empty is shown as `""`.
#[must_use]
pub fn name(path: impl AsRef<OsStr>) -> String {
    let path = path.as_ref();
    if path.is_empty() {
        return "\"\"".to_owned();
    }
    printable(&path.to_string_lossy()).into_owned()
}

/// `text` on one line, without characters that could drive a terminal: control characters and the
/// bidirectional overrides (Unicode Standard Annex #9) are written as Rust escapes.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(drives_terminal) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if drives_terminal(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Whether a character moves the cursor or reorders text instead of showing something.
#[must_use]
pub fn drives_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_in_a_file_name_do_not_reach_the_terminal() {
        let error = CommandError::new(Exit::Input, "a\u{1b}[2J\nb\u{202e}.wav", "no such file");
        assert_eq!(
            error.to_string(),
            "a\\u{1b}[2J\\nb\\u{202e}.wav: no such file"
        );
    }

    #[test]
    fn the_more_serious_exit_wins_whatever_the_order() {
        assert_eq!(Exit::Success.and(Exit::Input), Exit::Input);
        assert_eq!(Exit::Input.and(Exit::Success), Exit::Input);
        assert_eq!(Exit::Input.and(Exit::Interrupted), Exit::Interrupted);
        assert_eq!(Exit::PipeClosed.and(Exit::Interrupted), Exit::PipeClosed);
    }

    #[test]
    fn the_table_is_sorted_and_names_every_code_once() {
        let codes: Vec<u8> = EXITS.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 130, 141, 143]);
    }
}
