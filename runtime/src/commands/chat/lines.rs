//! What a person types, line by line: edited and called back on a terminal, read plainly elsewhere.
//!
//! Reading blocks, and no signal wakes it; so it has a thread of its own, and the conversation looks for SIGTERM while
//! it waits. The lines are kept in memory only: what people say to a model is not written to any disk here.

use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rustix::termios::{self, OptionalActions, Termios};
use rustyline::error::ReadlineError;

use crate::exit::Exit;
use crate::interrupt::{Interrupt, keeping_sigint};

/// The longest line, in bytes.
const LONGEST: usize = 1 << 20;
/// How often a waiting conversation looks for SIGTERM.
const LOOK: Duration = Duration::from_millis(50);

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line.
    Said(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
    /// A signal ends the program.
    Stopped(Exit),
    /// It can't be read.
    Failed(String),
}

/// The lines of standard input.
pub struct Lines {
    ask: Sender<()>,
    come: Receiver<Line>,
    /// How the terminal was, where there is one: a prompt that is left waiting leaves it otherwise.
    terminal: Option<Termios>,
}

impl Lines {
    /// Reads standard input; with an editor if it and standard error are a terminal.
    pub fn new() -> Self {
        let edited = io::stdin().is_terminal() && io::stdout().is_terminal();
        let terminal = edited
            .then(|| termios::tcgetattr(rustix::stdio::stdin()).ok())
            .flatten();
        let (ask, asked) = mpsc::channel();
        let (give, come) = mpsc::channel();
        // Not joined: it may wait for ever.
        thread::spawn(move || {
            if edited {
                edit(&asked, &give);
            } else {
                read(io::stdin().lock(), &asked, &give);
            }
        });
        Self {
            ask,
            come,
            terminal,
        }
    }

    /// Whether a person edits the lines on a terminal.
    pub const fn is_edited(&self) -> bool {
        self.terminal.is_some()
    }

    /// The next line.
    pub fn next(&mut self, interrupt: &Interrupt) -> Line {
        if self.ask.send(()).is_err() {
            return Line::End;
        }
        loop {
            match self.come.recv_timeout(LOOK) {
                Ok(line) => return line,
                Err(RecvTimeoutError::Disconnected) => return Line::End,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(exit) = interrupt.requested() {
                if let Some(terminal) = &self.terminal {
                    let _ =
                        termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, terminal);
                }
                return Line::Stopped(exit);
            }
        }
    }
}

fn edit(asked: &Receiver<()>, give: &Sender<Line>) {
    let mut editor = match keeping_sigint(rustyline::DefaultEditor::new) {
        Ok(editor) => editor,
        Err(error) => {
            let _ = give.send(Line::Failed(error.to_string()));
            return;
        }
    };
    while asked.recv().is_ok() {
        let line = match editor.readline("> ") {
            Ok(line) => {
                let _ = editor.add_history_entry(&line);
                Line::Said(line)
            }
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(ReadlineError::Eof) => Line::End,
            Err(error) => Line::Failed(error.to_string()),
        };
        if give.send(line).is_err() {
            return;
        }
    }
}

fn read(mut input: impl BufRead, asked: &Receiver<()>, give: &Sender<Line>) {
    while asked.recv().is_ok() {
        if give.send(line(&mut input)).is_err() {
            return;
        }
    }
}

fn line(input: &mut impl BufRead) -> Line {
    let mut bytes = Vec::new();
    let limited = io::Read::take(&mut *input, LONGEST as u64 + 1).read_until(b'\n', &mut bytes);
    match limited {
        Err(error) => Line::Failed(crate::config::plain(&error)),
        Ok(0) => Line::End,
        Ok(_) if bytes.len() > LONGEST => Line::Failed(format!(
            "expected lines of at most {LONGEST} bytes, found a longer one"
        )),
        Ok(_) => match String::from_utf8(bytes) {
            Ok(text) => Line::Said(text),
            Err(error) => Line::Failed(format!(
                "expected UTF-8, found another byte at {} of a line",
                error.utf8_error().valid_up_to()
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_the_last_needs_no_end() {
        let mut input = "one\n\ntwo".as_bytes();
        assert_eq!(line(&mut input), Line::Said("one\n".into()));
        assert_eq!(line(&mut input), Line::Said("\n".into()));
        assert_eq!(line(&mut input), Line::Said("two".into()));
        assert_eq!(line(&mut input), Line::End);
    }

    #[test]
    fn bytes_that_are_no_text_and_endless_lines_are_refused() {
        assert!(
            matches!(line(&mut &b"ab\xff\n"[..]), Line::Failed(reason) if reason.contains("at 2"))
        );
        let endless = vec![b'a'; LONGEST + 2];
        assert!(matches!(line(&mut endless.as_slice()), Line::Failed(_)));
    }
}
