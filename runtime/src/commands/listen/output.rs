//! What `listen` writes: words and replies, whole lines of either, though two threads write.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstword_audio::clock::Stamp;
use serde::Serialize;

use crate::cli::ListenFormat;
use crate::language::request::Cancel;
use crate::output::{OutputError, Writer, tame};
use crate::record::Turn;

/// Standard output, shared.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<State>>);

struct State {
    out: Writer,
    format: ListenFormat,
    careful: bool,
    /// A reply is being written: words wait until its end.
    replying: bool,
    held: Vec<String>,
}

impl State {
    fn words_line(&self, utterance: u32, text: &str) -> Result<String, OutputError> {
        match self.format {
            ListenFormat::Text => Ok(format!("> {}\n", tame(text).replace('\n', " "))),
            ListenFormat::Json => line(&WordsLine {
                r#type: "words",
                utterance,
                text,
            }),
        }
    }
}

/// Words that are answered.
pub struct Said<'a> {
    /// Which utterance.
    pub utterance: u32,
    /// What was said.
    pub text: &'a str,
}

impl Shared {
    /// Writes to standard output.
    pub fn new(format: ListenFormat) -> Self {
        Self(Arc::new(Mutex::new(State {
            out: Writer::stdout(),
            format,
            careful: io::stdout().is_terminal(),
            replying: false,
            held: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The words of an utterance, as soon as no reply is in the way. Returns when they were handed over, or put aside.
    pub fn words(&self, utterance: u32, text: &str) -> Result<Stamp, OutputError> {
        let mut state = self.lock();
        let line = state.words_line(utterance, text)?;
        if state.replying {
            state.held.push(line);
        } else {
            state.out.put(&line)?;
        }
        Ok(Stamp::now())
    }

    /// A reply to these words begins. Words that came since are written after it.
    pub fn begin(&self, said: Said<'_>) -> Writing<'_> {
        self.lock().replying = true;
        Writing {
            shared: self,
            utterance: said.utterance,
            asked: said.text.to_owned(),
            trouble: None,
            ended: true,
        }
    }
}

/// A reply that is being written.
pub struct Writing<'a> {
    shared: &'a Shared,
    utterance: u32,
    asked: String,
    trouble: Option<OutputError>,
    ended: bool,
}

impl Writing<'_> {
    /// A piece of it. Output that can't be written cancels the reply.
    pub fn piece(&mut self, piece: &str, cancel: &Cancel) {
        if self.trouble.is_some() {
            return;
        }
        let mut state = self.shared.lock();
        let written = match state.format {
            ListenFormat::Json => Ok(()),
            ListenFormat::Text if state.careful => state.out.put(&tame(piece)),
            ListenFormat::Text => state.out.put(piece),
        };
        self.ended = piece.ends_with('\n');
        if let Err(error) = written {
            cancel.cancel();
            self.trouble = Some(error);
        }
    }

    /// What went wrong.
    pub fn trouble(&mut self) -> Result<(), OutputError> {
        self.trouble.take().map_or(Ok(()), Err)
    }

    /// The reply is complete.
    pub fn end(self, text: &str, turn: &Turn) -> Result<(), OutputError> {
        let mut state = self.shared.lock();
        match state.format {
            ListenFormat::Text if self.ended => {}
            ListenFormat::Text => state.out.put("\n")?,
            ListenFormat::Json => {
                let text = line(&TurnLine {
                    r#type: "turn",
                    utterance: self.utterance,
                    words: &self.asked,
                    reply: text,
                    latencies: turn,
                })?;
                state.out.put(&text)?;
            }
        }
        state.replying = false;
        for held in std::mem::take(&mut state.held) {
            state.out.put(&held)?;
        }
        Ok(())
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.shared.lock().replying = false;
    }
}

#[derive(Serialize)]
struct WordsLine<'a> {
    r#type: &'static str,
    utterance: u32,
    text: &'a str,
}

#[derive(Serialize)]
struct TurnLine<'a> {
    r#type: &'static str,
    utterance: u32,
    words: &'a str,
    reply: &'a str,
    latencies: &'a Turn,
}

fn line(object: &impl Serialize) -> Result<String, OutputError> {
    let mut text = serde_json::to_string(object)
        .map_err(|error| OutputError::new("JSON", io::Error::other(error)))?;
    text.push('\n');
    Ok(text)
}

/// Where the time of each turn went: one row for each stage, one column for each turn.
pub fn table(turns: &[Turn]) -> String {
    let mut out = String::new();
    for turn in turns {
        let total = turn.e2e.as_secs_f64() * 1e3;
        let _ = writeln!(
            out,
            "turn {}: voice TTFT {:.1} ms, {} tokens in {:.1} ms ({}, {})",
            turn.utterance + 1,
            turn.voice_ttft.as_secs_f64() * 1e3,
            turn.reply.tokens,
            total,
            turn.language.model,
            turn.language.precision,
        );
        let mut since = 0.0;
        let _ = writeln!(out, "  from the last sample of the speech      ms    since");
        for (stage, spent) in &turn.stages_ms.0 {
            let spent = spent.as_secs_f64() * 1e3;
            since += spent;
            let bar = "#".repeat(((spent / total.max(1e-9)) * 40.0).round() as usize);
            let note = match *stage {
                "first_token" => "  <- first token",
                "reply" => "  <- last token",
                _ => "",
            };
            let _ = writeln!(
                out,
                "  {:34}{spent:>9.1}{since:>9.1}  {bar}{note}",
                stage.replace('_', " ")
            );
        }
    }
    out
}
