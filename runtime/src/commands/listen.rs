//! `firstword listen`: the voice turn: speech → words → prompt → reply, with one record for the whole of it.
//!
//! Speech is recognised on this thread, replies are made on another: while the model answers, the sound goes on being
//! heard. A turn that ends while the one before is still being answered waits, and its record says how long.

mod output;

use std::sync::mpsc::{self, Receiver, Sender};

use firstword_audio::Channels;

use super::Context;
use super::language::{cut_json, wish};
use super::transcribe::open_source;
use crate::cli::{ListenArgs, Pace, is_stdin};
use crate::exit::{CommandError, Exit, aside, name, report, say};
use crate::language::answerer::{Answerer, Talk, Wish};
use crate::language::request::Cancel;
use crate::log::{Heard, ModelId, Recorder, StreamId};
use crate::output::OutputError;
use crate::record::{Record, Turn};
use crate::speech::Mode;
use crate::speech::feed::{self, Feed};
use crate::speech::listener::{How, News, Stopped, listen};
use crate::speech::transcript::{Event, Word};
use output::{Said, Shared};

/// Turns that may wait for their answer; a person who says more than that without listening hears of it.
const WAITING: usize = 16;

/// Listens to one source and answers every utterance.
///
/// # Errors
/// A model, library or recording that can't be used; output that can't be written.
pub fn run(args: &ListenArgs, context: &Context) -> Result<Exit, CommandError> {
    let wish = wish(&args.language, context)?;
    let (log, recorder) = context.log();
    let mut recogniser = context.recogniser(&recorder)?;
    let answerer = context.answerer(&recorder)?;
    let out = Shared::new(args.format);
    let interrupt = &context.interrupt;
    let shown = name(&args.file);
    let pace = match args.pace {
        Pace::File => feed::Pace::Unbounded,
        Pace::Realtime => feed::Pace::RealTime,
    };
    let file = args.file.clone();
    let feed = match Feed::start(
        move || open_source(&file),
        pace,
        || interrupt.is_requested(),
    ) {
        Ok(feed) => feed,
        Err(Some(error)) => return Err(CommandError::new(Exit::Input, &shown, error)),
        Err(None) => return Ok(interrupt.requested().unwrap_or(Exit::Interrupted)),
    };
    let live = is_stdin(&args.file) || args.pace == Pace::Realtime;
    let named = args.file.to_string_lossy();
    let id = recorder.stream(&named);
    let how = How {
        name: &named,
        id,
        channels: Channels::Mix,
        // Somebody waits for the answer, however the sound comes.
        settings: context.stream_settings(true, false),
        mode: if live { Mode::Live } else { Mode::File },
    };
    let (ask, questions) = mpsc::sync_channel(WAITING);
    let (told, turns) = mpsc::channel();
    let talk = answerer.talk(Some(&args.system));
    let replies = Replies {
        answerer,
        talk,
        wish,
        out: out.clone(),
        cancel: Cancel::from(interrupt.flag()),
        recorder: recorder.clone(),
        stream: id,
        heard_by: recogniser.id,
        turns: told,
    };
    // Joined below, after its channel was closed.
    let thread = std::thread::spawn(move || replies.serve(&questions));
    let heard = listen(
        feed,
        &mut recogniser,
        how,
        || interrupt.is_requested(),
        |news| {
            let News::Event(Event::Final(last)) = news else {
                return Ok(());
            };
            let text = last.text.trim().to_owned();
            if text.is_empty() {
                return Ok(());
            }
            last.record.path.handed_over = out.words(last.utterance, &text)?;
            for word in &mut last.words {
                word.handed_over = Some(last.record.path.handed_over);
            }
            let question = Question {
                text,
                record: last.record.clone(),
                words: last.words.clone(),
            };
            // Closed only if the other side has failed, which is told by its end.
            let _ = ask.send(question);
            Ok::<_, OutputError>(())
        },
    );
    drop(ask);
    let ended = thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let Some(log) = log {
        log.finish();
    }
    if args.timings {
        aside(&output::table(&turns.try_iter().collect::<Vec<_>>()));
    }
    let replied = match ended? {
        true => Exit::Success,
        false => Exit::Incomplete,
    };
    match heard {
        Ok(outcome) => {
            let error = outcome.error.as_ref().map(ToString::to_string);
            let wrong: Vec<String> = outcome.damage.into_iter().chain(error).collect();
            if wrong.is_empty() {
                return Ok(replied.and(interrupt.requested().unwrap_or(Exit::Success)));
            }
            report(&CommandError::new(Exit::Input, &shown, wrong.join("; ")));
            Ok(Exit::Input)
        }
        Err(Stopped::Sound(error)) => Err(CommandError::new(Exit::Input, &shown, error)),
        Err(Stopped::Model(error)) => Err(CommandError::from(error)),
        Err(Stopped::Sink(error)) => Err(CommandError::from(error)),
        Err(Stopped::Interrupted) => Ok(interrupt.requested().unwrap_or(Exit::Interrupted)),
    }
}

/// What was said, and what hearing it has cost.
struct Question {
    text: String,
    record: Record,
    words: Vec<Word>,
}

/// The answering side.
struct Replies {
    answerer: Answerer,
    talk: Talk,
    wish: Wish,
    out: Shared,
    cancel: Cancel,
    recorder: Recorder,
    stream: StreamId,
    /// The speech model's number in the log.
    heard_by: ModelId,
    turns: Sender<Turn>,
}

impl Replies {
    /// Answers until nobody asks any more. `false`: JSON of some reply was cut, which was said.
    fn serve(mut self, questions: &Receiver<Question>) -> Result<bool, CommandError> {
        let mut whole = true;
        while let Ok(question) = questions.recv() {
            if self.cancel.is_cancelled() {
                return Ok(whole);
            }
            let said = Said {
                utterance: question.record.utterance,
                text: &question.text,
            };
            let out = self.out.clone();
            let mut reply = out.begin(said);
            let Self {
                answerer,
                talk,
                wish,
                cancel,
                ..
            } = &mut self;
            let mut show = |piece: &str| reply.piece(piece, cancel);
            let answer = if answerer.converses() {
                match answerer.answer(talk, &question.text, wish, cancel, &mut show) {
                    // Nobody is there to shorten it: what is said now matters more than what was said before.
                    Err(error) if error.is_too_long() && talk.messages().len() > 1 => {
                        say(&format!(
                            "the conversation no longer fits into the window of {} tokens and begins anew; \
                             language.window widens it",
                            answerer.window()
                        ));
                        talk.reset();
                        answerer.answer(talk, &question.text, wish, cancel, &mut show)
                    }
                    answer => answer,
                }
            } else {
                answerer.complete(&question.text, wish, cancel, &mut show)
            };
            reply.trouble()?;
            let answer = answer?;
            let turn = Turn::new(&question.record, self.answerer.names.clone(), answer.cost);
            reply.end(&answer.text, &turn)?;
            let heard = Heard {
                stream: self.stream,
                model: self.heard_by,
                record: &question.record,
                words: &question.words,
                text: &question.text,
            };
            self.recorder
                .turn(&heard, self.answerer.id, &answer.cost, &answer.text);
            whole &= !cut_json(&self.wish, answer.cost.finish, self.answerer.window());
            // Nobody may want to know.
            let _ = self.turns.send(turn);
        }
        Ok(whole)
    }
}
