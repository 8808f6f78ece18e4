//! A language model that is loaded with all that it needs to answer: decoder, tokenizer, chat template.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use firstword_models::language::constraint::{Constraint, ConstraintError, Vocabulary};
use firstword_models::language::decoder::{
    Capacity, Counts, Decoder, DecoderError, Logits, Slot, Wanted,
};
use firstword_models::language::folder::{FolderError, LanguageFolder};
use firstword_models::language::sampling::Sampling;
use firstword_models::language::template::{Message, Rendering, Role, Template, TemplateError};
use firstword_models::language::text::TextStream;
use firstword_models::language::tokenizer::{Prompt, Special, Tokenizer, TokenizerError};
use firstword_targets::{Cpu, Library, Target};

use super::conversation::Conversation;
use super::generator::{Generator, Options, RunError};
use super::request::{Cancel, Refused, Reply, Request, Stop, Text};
use super::steps::{Rows, Steps};
use crate::log::{ModelId, Recorder};
use crate::record;

/// How a model is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Sequences whose cache is kept.
    pub slots: usize,
    /// Tokens of each, prompt and reply together.
    pub window: usize,
    /// Tokens of a prompt that run in one step.
    pub chunk: usize,
}

/// What a caller wants of a reply.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Tokens at most.
    pub max_tokens: usize,
    /// How they are chosen.
    pub sampling: Sampling,
    /// Texts that end it.
    pub stops: Vec<String>,
    /// A JSON schema that it must follow.
    pub schema: Option<String>,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The folder is no model that can be run.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The model could not be loaded.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// The tokenizer can't be read, or refuses the text.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The chat template can't be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The schema can't be followed.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The request was refused, or failed on its way.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl AnswerError {
    /// Whether the conversation, or the text, leaves no room for a reply in the window.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        matches!(
            self,
            Self::Run(RunError::Refused(Refused::PromptTooLong { .. }))
        )
    }
}

/// A loaded language model.
pub struct Answerer {
    /// Its names, for records.
    pub names: record::Language,
    /// What whoever uses it should know of the model, if its folder says so.
    pub remark: Option<String>,
    /// Version of the ONNX Runtime library.
    pub onnxruntime: String,
    /// Its number in the log.
    pub id: ModelId,
    tokenizer: Arc<Tokenizer>,
    template: Option<Template>,
    generator: Generator<Model>,
    /// For constraints; made when the first is asked for.
    vocabulary: Option<Vocabulary>,
    /// What `strftime_now` in a template says: the same for all turns, or no prefix could be reused.
    now: SystemTime,
}

/// A conversation with a model. Kept apart from it: several may go on with the same one.
pub type Talk = Conversation<Message>;

/// A reply and what it cost.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// What it cost.
    pub cost: record::Reply,
}

impl Answerer {
    /// Loads the model of a folder.
    ///
    /// # Errors
    ///
    /// A folder, a tokenizer, a template or a graph that can't be used; too little memory.
    pub fn load(
        library: &Library,
        cpu: &Cpu,
        path: &Path,
        name: String,
        load: Load,
    ) -> Result<Self, AnswerError> {
        let folder = LanguageFolder::open(path)?;
        let template = Template::open(path)?;
        let capacity = Capacity {
            slots: load.slots,
            window: load.window,
        };
        // The tokenizer is read beside the weights: both take their time, and neither waits for the other.
        let (tokenizer, decoder) = std::thread::scope(|scope| {
            let tokenizer = scope.spawn(|| Tokenizer::open(path));
            let decoder = Decoder::load(library, cpu, &folder, capacity);
            let tokenizer = tokenizer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (tokenizer, decoder)
        });
        let (tokenizer, decoder) = (tokenizer?, decoder?);
        let mut eos = folder.eos.clone();
        eos.extend(tokenizer.eos());
        eos.sort_unstable();
        eos.dedup();
        let options = Options {
            chunk: load.chunk,
            eos,
            ..Options::default()
        };
        Ok(Self {
            names: record::Language {
                model: name,
                precision: folder.precision.clone(),
                target: Target::Cpu.to_string(),
                placement: Some(firstword_targets::cpu::PROVIDER.to_owned()),
            },
            id: ModelId::default(),
            remark: folder.remark,
            onnxruntime: library.version.clone(),
            tokenizer: Arc::new(tokenizer),
            template,
            generator: Generator::new(Model(decoder), options),
            vocabulary: None,
            now: SystemTime::now(),
        })
    }

    /// From now on its steps are told to the log, which knows it by this number.
    pub fn tell(&mut self, recorder: Recorder, id: ModelId) {
        self.id = id;
        self.generator.tell(recorder, id);
    }

    /// Whether it was trained to converse; otherwise it continues text.
    #[must_use]
    pub fn converses(&self) -> bool {
        self.template.is_some()
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Tokens that prompt and reply may have together.
    #[must_use]
    pub fn window(&self) -> usize {
        self.generator.model().window()
    }

    /// What the model did so far; for tests and measurements.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.generator.model().0.counts()
    }

    /// A conversation that begins with this instruction.
    #[must_use]
    pub fn talk(&self, system: Option<&str>) -> Talk {
        Conversation::new(
            system
                .map(|text| Message::new(Role::System, text))
                .into_iter()
                .collect(),
        )
    }

    /// Answers what is said in a conversation, and keeps both in it. A model without a template continues
    /// the conversation as plain text. Without a reply the question is taken back.
    ///
    /// # Errors
    ///
    /// A template that refuses, a prompt that does not fit, a step that failed.
    pub fn answer(
        &mut self,
        talk: &mut Talk,
        said: &str,
        wish: &Wish,
        cancel: &Cancel,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, AnswerError> {
        let accepted = firstword_audio::Stamp::now();
        let tokenizer = Arc::clone(&self.tokenizer);
        let mut failed = None;
        let encode = |prompt: &Prompt, beginning: bool| {
            let begins = beginning && self.template.is_none() && tokenizer.adds_bos();
            let mut tokens: Vec<u32> = begins
                .then(|| tokenizer.bos())
                .flatten()
                .into_iter()
                .collect();
            match tokenizer.encode_prompt(prompt) {
                Ok(more) => tokens.extend(more),
                Err(error) => failed = Some(error),
            }
            tokens
        };
        let (template, now) = (self.template.as_ref(), self.now);
        let render = |messages: &[Message]| match template {
            Some(template) => template.render(
                messages,
                &tokenizer,
                Rendering {
                    add_generation_prompt: true,
                    now,
                },
            ),
            None => Ok(Prompt::plain(
                messages
                    .iter()
                    .map(|message| message.content.as_str())
                    .collect::<String>(),
            )),
        };
        let prompt = talk.ask(Message::new(Role::User, said), render, encode)?;
        if let Some(error) = failed {
            talk.withdraw();
            return Err(error.into());
        }
        let continuing = self.template.is_none();
        match self.run(prompt, continuing, accepted, wish, cancel, on_text) {
            Ok(answer) => {
                // Behind a stop string the tokens hold more than the text: then the text is cut anew.
                let tokens = match answer.cost.finish {
                    record::Finish::StopString => &[],
                    _ => answer.tokens.as_slice(),
                };
                talk.answer(
                    Message::new(Role::Assistant, answer.text.clone()),
                    &answer.text,
                    tokens,
                );
                Ok(answer)
            }
            Err(error) => {
                talk.withdraw();
                Err(error)
            }
        }
    }

    /// Continues a text as it is, whatever the model was trained for.
    ///
    /// # Errors
    ///
    /// As [`Answerer::answer`].
    pub fn complete(
        &mut self,
        text: &str,
        wish: &Wish,
        cancel: &Cancel,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, AnswerError> {
        let accepted = firstword_audio::Stamp::now();
        let bos = self.tokenizer.bos().filter(|_| self.tokenizer.adds_bos());
        let mut prompt: Vec<u32> = bos.into_iter().collect();
        prompt.extend(self.tokenizer.encode(text, Special::Plain)?);
        self.run(prompt, true, accepted, wish, cancel, on_text)
    }

    fn run(
        &mut self,
        prompt: Vec<u32>,
        continuing: bool,
        accepted: firstword_audio::Stamp,
        wish: &Wish,
        cancel: &Cancel,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, AnswerError> {
        let constraint = match &wish.schema {
            Some(schema) => Some(Constraint::from_json_schema(self.vocabulary()?, schema)?),
            None => None,
        };
        let mut stream = TextStream::new(Arc::clone(&self.tokenizer), &wish.stops);
        if continuing {
            stream = stream.continuing();
        }
        let mut text = String::new();
        let prompted = firstword_audio::Stamp::now();
        let reply = self.generator.run_one(
            Request {
                max_tokens: wish.max_tokens,
                sampling: wish.sampling.clone(),
                constraint,
                text: Some(Box::new(stream)),
                cancel: cancel.clone(),
                ..Request::new(prompt, wish.max_tokens)
            },
            &mut |piece| {
                text.push_str(piece);
                on_text(piece);
            },
        )?;
        Ok(Answer {
            text,
            cost: cost(&reply, accepted, prompted),
            tokens: reply.tokens,
        })
    }

    fn vocabulary(&mut self) -> Result<&Vocabulary, ConstraintError> {
        if self.vocabulary.is_none() {
            let tokenizer = &self.tokenizer;
            let size = self.generator.model().vocabulary();
            let tokens = (0..tokenizer.vocabulary().min(size) as u32).map(|id| {
                if tokenizer.is_special(id) {
                    std::borrow::Cow::Borrowed(&[][..])
                } else {
                    tokenizer.token_bytes(id)
                }
            });
            let eos: Vec<u32> = self.generator.eos().to_vec();
            self.vocabulary = Some(Vocabulary::new(tokens, size, &eos)?);
        }
        self.vocabulary.as_ref().ok_or(ConstraintError::Vocabulary {
            reason: "it was not kept; this is a bug in firstword".to_owned(),
        })
    }
}

/// The generator's timing as a record.
fn cost(
    reply: &Reply,
    accepted: firstword_audio::Stamp,
    prompted: firstword_audio::Stamp,
) -> record::Reply {
    let timing = &reply.timing;
    let started = timing.started.unwrap_or(timing.accepted);
    let prefilled = timing
        .chunks
        .last()
        .map_or(started, |chunk| chunk.began + chunk.took);
    let first_token = timing.first_token.unwrap_or(prefilled);
    record::Reply {
        path: record::ReplyPath {
            accepted,
            prompted,
            started,
            // A cache that had to be filled again later is part of the reply, not of the prompt.
            prefilled: prefilled.min(first_token),
            first_token,
            last_token: timing.last_token.unwrap_or(first_token),
        },
        prompt_tokens: timing.prompt_tokens,
        cached_tokens: timing.cached_tokens,
        prefill_chunks: timing.chunks.len() as u32,
        tokens: timing.output_tokens,
        finish: match reply.stop {
            Stop::Eos(_) | Stop::Complete => record::Finish::Stop,
            Stop::StopString(_) => record::Finish::StopString,
            Stop::Length => record::Finish::Length,
            Stop::Window => record::Finish::Window,
            Stop::Cancelled => record::Finish::Cancelled,
        },
        context_tokens: timing.context_tokens,
        detokenise: timing.detokenise,
        steps: record::Steps::of(timing.steps.iter().map(|step| (step.micros, step.members))),
    }
}

/// The decoder as the generation loop drives it.
#[derive(Debug)]
pub struct Model(Decoder);

impl Rows for Logits<'_> {
    fn row(&self, index: usize) -> &[f32] {
        Logits::row(self, index)
    }
}

impl Steps for Model {
    type Slot = Slot;
    type Logits<'a> = Logits<'a>;
    type Error = DecoderError;

    fn vocabulary(&self) -> usize {
        self.0.shape().vocabulary
    }

    fn window(&self) -> usize {
        self.0.capacity().window
    }

    fn open(&mut self) -> Option<Slot> {
        self.0.open()
    }

    fn close(&mut self, slot: Slot) {
        self.0.close(slot);
    }

    fn length(&self, slot: Slot) -> usize {
        self.0.length(slot)
    }

    fn truncate(&mut self, slot: Slot, length: usize) {
        self.0.truncate(slot, length);
    }

    fn copy(&mut self, from: Slot, to: Slot, length: usize) -> Result<(), DecoderError> {
        self.0.copy(from, to, length)
    }

    fn prefill(
        &mut self,
        slot: Slot,
        tokens: &[u32],
        end: usize,
        wanted: bool,
    ) -> Result<Logits<'_>, DecoderError> {
        let wanted = if wanted { Wanted::Last } else { Wanted::None };
        self.0.prefill(slot, tokens, end, wanted)
    }

    fn decode(&mut self, steps: &[(Slot, u32)]) -> Result<Logits<'_>, DecoderError> {
        self.0.decode(steps)
    }

    fn must_refill(&self, slot: Slot, length: usize) -> bool {
        self.0.must_refill(slot, length)
    }

    fn must_be_whole(&self, end: usize) -> bool {
        self.0.must_be_whole(end)
    }
}

impl Text for TextStream {
    fn push(&mut self, token: u32) -> String {
        TextStream::push(self, token)
    }

    fn finish(&mut self) -> String {
        TextStream::finish(self)
    }

    fn stopped(&self) -> Option<&str> {
        TextStream::stopped(self)
    }
}
