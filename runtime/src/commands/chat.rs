//! `firstword chat`: a language model, streamed, with what it cost.

mod lines;
mod stats;

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Read};

use super::Context;
use super::language::{cut_json, wish};
use crate::cli::ChatArgs;
use crate::exit::{CommandError, Exit, aside, say};
use crate::language::answerer::{Answer, Answerer, Talk, Wish};
use crate::language::request::Cancel;
use crate::log::Recorder;
use crate::output::{OutputError, Writer, tame};
use crate::record::{Finish, Request};
use lines::{Line, Lines};

/// The longest prompt that is read, in bytes: no model here has a window for more.
const MOST: u64 = 16 << 20;

/// Answers one prompt, or holds a conversation.
///
/// # Errors
/// A model, library or prompt that can't be used; output that can't be written.
pub fn run(args: &ChatArgs, context: &Context) -> Result<Exit, CommandError> {
    let prompt = args.prompt.as_deref().map(read_prompt).transpose()?;
    let wish = wish(&args.language, context)?;
    let (log, recorder) = context.log();
    let answerer = context.answerer(&recorder)?;
    let mut chat = Chat {
        talk: answerer.talk(args.system.as_deref()),
        completes: args.raw || !answerer.converses(),
        answerer,
        wish,
        context,
        cancel: Cancel::from(context.interrupt.flag()),
        out: Writer::stdout(),
        careful: io::stdout().is_terminal(),
        recorder,
        last: None,
    };
    if chat.completes && !args.raw {
        let name = &chat.answerer.names.model;
        say(&format!(
            "{name} has no chat template: it was not trained to converse, so it continues the text"
        ));
    }
    let exit = match prompt {
        Some(prompt) => chat.once(&prompt, args.stats)?,
        None => chat.converse(args.stats)?,
    };
    if let Some(log) = log {
        log.finish();
    }
    Ok(exit)
}

/// One chat and everything it needs.
struct Chat<'a> {
    answerer: Answerer,
    talk: Talk,
    /// Text is continued instead of answered.
    completes: bool,
    wish: Wish,
    context: &'a Context,
    cancel: Cancel,
    out: Writer,
    /// Somebody looks at the output on a terminal, which must not be driven by a model.
    careful: bool,
    recorder: Recorder,
    last: Option<Request>,
}

impl Chat<'_> {
    fn once(&mut self, prompt: &str, stats: bool) -> Result<Exit, CommandError> {
        let whole = self.reply(prompt)?;
        if stats {
            self.show_stats();
        }
        let exit = match whole {
            true => Exit::Success,
            false => Exit::Incomplete,
        };
        Ok(exit.and(self.context.interrupt.requested().unwrap_or(Exit::Success)))
    }

    fn converse(&mut self, stats: bool) -> Result<Exit, CommandError> {
        let mut lines = Lines::new();
        if lines.is_edited() {
            say(&format!(
                "{}, {}; /help for commands, Ctrl-D to end",
                self.answerer.names.model, self.answerer.names.precision
            ));
        }
        loop {
            let line = match lines.next(&self.context.interrupt) {
                Line::Said(line) => line,
                Line::Interrupted => {
                    say("Ctrl-D or /quit ends the conversation");
                    self.context.interrupt.forget();
                    continue;
                }
                Line::End => return Ok(Exit::Success),
                Line::Stopped(exit) => return Ok(exit),
                Line::Failed(reason) => {
                    return Err(CommandError::new(Exit::Input, "standard input", reason));
                }
            };
            match line.trim() {
                "" => continue,
                "/quit" | "/exit" => return Ok(Exit::Success),
                "/help" => {
                    say(
                        "/reset forgets the conversation, /stats tells what the last reply cost, /quit ends",
                    );
                }
                "/reset" => {
                    self.talk.reset();
                    say("the conversation is forgotten");
                }
                "/stats" => self.show_stats(),
                command if command.starts_with('/') && lines.is_edited() => {
                    say(&format!("{command}: no such command; /help lists them"));
                }
                said => {
                    match self.reply(said) {
                        // What is wrong with this question may be right with the next.
                        Err(error) if error.exit == Exit::Input && lines.is_edited() => {
                            crate::exit::report(&error);
                        }
                        Err(error) => return Err(error),
                        Ok(_) => {}
                    }
                    match self.context.interrupt.requested() {
                        // Ctrl-C stops the reply and keeps the conversation, if somebody is there to go on with it.
                        Some(Exit::Interrupted) if lines.is_edited() => {
                            self.context.interrupt.forget();
                        }
                        Some(exit) => return Ok(exit),
                        None => {}
                    }
                    if stats {
                        self.show_stats();
                    }
                }
            }
        }
    }

    /// Streams one reply to standard output. `false`: JSON that was cut, which was said.
    fn reply(&mut self, said: &str) -> Result<bool, CommandError> {
        let Self {
            answerer,
            talk,
            completes,
            wish,
            cancel,
            out,
            careful,
            ..
        } = self;
        let mut trouble: Option<OutputError> = None;
        let mut ended = true;
        let mut show = |piece: &str| {
            if trouble.is_some() {
                return;
            }
            ended = piece.ends_with('\n');
            let shown = if *careful {
                tame(piece)
            } else {
                piece.to_owned()
            };
            if let Err(error) = out.put(&shown) {
                cancel.cancel();
                trouble = Some(error);
            }
        };
        let answer = if *completes {
            answerer.complete(said, wish, cancel, &mut show)
        } else {
            answerer.answer(talk, said, wish, cancel, &mut show)
        };
        if let Some(error) = trouble {
            return Err(error.into());
        }
        if !ended {
            self.out.put("\n")?;
        }
        let answer = answer?;
        Ok(self.keep(said, &answer))
    }

    fn keep(&mut self, said: &str, answer: &Answer) -> bool {
        let request = Request::new(
            self.answerer.names.clone(),
            self.answerer.onnxruntime.clone(),
            answer.cost,
        );
        self.recorder
            .request(self.answerer.id, &answer.cost, said, &answer.text);
        let cut = cut_json(&self.wish, answer.cost.finish, self.answerer.window());
        if !cut && answer.cost.finish == Finish::Window {
            say(&format!(
                "the reply was cut: the window of {} tokens is full; /reset begins anew, language.window widens it",
                self.answerer.window()
            ));
        }
        self.last = Some(request);
        !cut
    }

    fn show_stats(&self) {
        match &self.last {
            Some(request) => aside(&stats::table(request)),
            None => say("there was no reply yet"),
        }
    }
}

/// The prompt as text; `-` reads standard input to its end.
fn read_prompt(prompt: &OsStr) -> Result<String, CommandError> {
    let (subject, bytes) = if prompt == "-" {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes);
        read.map_err(|error| {
            CommandError::new(Exit::Input, "standard input", crate::config::plain(&error))
        })?;
        ("standard input", bytes)
    } else {
        ("the prompt", prompt.as_encoded_bytes().to_vec())
    };
    if bytes.len() as u64 > MOST {
        let reason = format!("expected a prompt of at most {MOST} bytes, found more; shorten it");
        return Err(CommandError::new(Exit::Input, subject, reason));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let reason = format!(
            "expected UTF-8, found another byte at {at}; convert it, for instance with iconv"
        );
        CommandError::new(Exit::Input, subject, reason)
    })?;
    if text.trim().is_empty() {
        return Err(CommandError::new(
            Exit::Input,
            subject,
            "expected some text, found none",
        ));
    }
    Ok(text)
}
