//! A conversation → the prompt its model was trained on (chat templates in Jinja).
//!
//! Templates run as Hugging Face runs them (`trim_blocks`, `lstrip_blocks`, Python's string methods,
//! `raise_exception`, `strftime_now`, their `tojson`), with bounds on steps and text, since they come with the weights
//! from anywhere. What a template refuses is repaired where its authors say how: Gemma has no system role, the
//! instruction goes before the first user message; and turns of the same role that follow one another become one.
//!
//! Messages are not trusted either. Inside whatever reads like a control token in a message, a mark is set that is no
//! character; after rendering the marks come out, and their places are kept in the [`Prompt`], so that the tokenizer
//! reads no control token there. Messages without such text, that is nearly all, reach the template unchanged: it may
//! trim, split or search them as its authors meant.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, context};
use serde::{Deserialize, Serialize};

use super::tokenizer::{Prompt, Tokenizer};

mod functions;
mod source;

use functions::RAISED;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
        }
    }
}

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A file that should hold the template cannot be read.
    #[error("cannot read the chat template {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The template is no Jinja that we know.
    #[error("the model's chat template cannot be used: {reason}")]
    Source {
        /// The engine's words, with the line.
        reason: String,
    },
    /// The template refuses this conversation.
    #[error("the model's chat template refuses this conversation: {reason}")]
    Raised {
        /// The template's own words.
        reason: String,
    },
    /// It runs into an error, or into a bound.
    #[error("the model's chat template fails: {reason}")]
    Render {
        /// What went wrong.
        reason: String,
    },
    /// A conversation needs a message.
    #[error("expected at least one message, found none")]
    NoMessages,
}

/// The longest template, in bytes; published ones stay below 32 KiB.
const MOST_SOURCE: usize = 1 << 20;
/// Steps of the engine for one rendering; a message takes about a hundred.
const MOST_STEPS: u64 = 5_000_000;
/// Bytes of one prompt.
const MOST_TEXT: usize = 16 << 20;

/// How to render.
#[derive(Debug, Clone, Copy)]
pub struct Rendering {
    /// End with what begins the model's turn.
    pub add_generation_prompt: bool,
    /// What `strftime_now` tells, in UTC. Keep it for a whole conversation: a prompt whose date changes shares no
    /// prefix with the one before.
    pub now: SystemTime,
}

/// A model's chat template.
#[derive(Debug)]
pub struct Template {
    source: String,
    environment: Environment<'static>,
}

const NAME: &str = "chat";

impl Template {
    /// The template of a model's folder: `chat_template.jinja`, `chat_template.json`, or `chat_template` in
    /// `tokenizer_config.json` (a text, or a list of named ones: `default`, else the first). `None`: a base model,
    /// which has none.
    ///
    /// # Errors
    /// [`TemplateError::Read`], [`TemplateError::Source`].
    pub fn open(folder: &Path) -> Result<Option<Self>, TemplateError> {
        let source = match read(&folder.join("chat_template.jinja"))? {
            Some(source) => Some(source),
            None => match named(&folder.join("chat_template.json"))? {
                Some(source) => Some(source),
                None => named(&folder.join("tokenizer_config.json"))?,
            },
        };
        match source {
            Some(source) if !source.trim().is_empty() => Self::from_source(&source).map(Some),
            _ => Ok(None),
        }
    }

    /// A template from its text.
    ///
    /// # Errors
    /// [`TemplateError::Source`].
    pub fn from_source(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MOST_SOURCE {
            return Err(TemplateError::Source {
                reason: format!(
                    "expected at most {MOST_SOURCE} bytes, found {}",
                    source.len()
                ),
            });
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_recursion_limit(100);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        functions::add(&mut environment);
        environment
            .add_template_owned(NAME, source::prepare(source))
            .map_err(|error| TemplateError::Source {
                reason: one_line(&error),
            })?;
        Ok(Self {
            source: source.to_owned(),
            environment,
        })
    }

    /// The template as its authors wrote it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation. The tokenizer gives the names of BOS and EOS and knows the control tokens that messages
    /// must not contain.
    ///
    /// # Errors
    /// [`TemplateError::Raised`] with the template's words if it refuses the conversation also after the repairs
    /// (see the module), [`TemplateError::Render`], [`TemplateError::NoMessages`].
    pub fn render(
        &self,
        messages: &[Message],
        tokenizer: &Tokenizer,
        rendering: Rendering,
    ) -> Result<Prompt, TemplateError> {
        if messages.is_empty() {
            return Err(TemplateError::NoMessages);
        }
        let mark = free_mark(messages);
        let mut guarded: Vec<Message> = messages.to_vec();
        for message in &mut guarded {
            // A text with all the marks in it is not meant for reading: it loses one of them.
            if message.content.contains(mark) {
                message.content = message.content.replace(mark, "\u{FFFD}");
            }
            if let Cow::Owned(content) = tokenizer.guard(&message.content, mark) {
                message.content = content;
            }
        }
        let text = self.render_repaired(guarded, tokenizer, rendering)?;
        Ok(without_marks(&text, mark))
    }

    /// Renders; what the template refuses is tried again with the repairs.
    fn render_repaired(
        &self,
        messages: Vec<Message>,
        tokenizer: &Tokenizer,
        rendering: Rendering,
    ) -> Result<String, TemplateError> {
        let system = instruction(&messages);
        let refusal = match self.render_text(&messages, tokenizer, rendering) {
            // Some templates leave out a system message without a word.
            Ok(text) if system.is_none_or(|system| text.contains(system)) => return Ok(text),
            Ok(_) => None,
            Err(TemplateError::Raised { reason }) => Some(reason),
            Err(other) => return Err(other),
        };
        let joined = joined(&messages);
        let repairs = [joined.clone(), without_system(joined)];
        for repaired in repairs.iter().filter(|repaired| **repaired != messages) {
            let system = instruction(repaired);
            match self.render_text(repaired, tokenizer, rendering) {
                Ok(text) if system.is_none_or(|system| text.contains(system)) => return Ok(text),
                Ok(_) | Err(TemplateError::Raised { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Err(TemplateError::Raised {
            reason: refusal.unwrap_or_else(|| "it has no place for the system message".to_owned()),
        })
    }

    fn render_text(
        &self,
        messages: &[Message],
        tokenizer: &Tokenizer,
        rendering: Rendering,
    ) -> Result<String, TemplateError> {
        let name = |id: Option<u32>| id.and_then(|id| tokenizer.name(id)).unwrap_or_default();
        let now = rendering.now;
        let strftime_now =
            Value::from_function(move |format: String| functions::strftime(&format, now));
        let context = context! {
            messages,
            add_generation_prompt => rendering.add_generation_prompt,
            bos_token => name(tokenizer.bos()),
            eos_token => name(tokenizer.eos().first().copied()),
            tools => Value::from(()),
            documents => Value::from(()),
            strftime_now,
        };
        let mut out = Bounded(Vec::new());
        let template = self.environment.get_template(NAME).map_err(failed)?;
        template
            .render_captured_to(context, &mut out)
            .map_err(failed)?;
        String::from_utf8(out.0).map_err(|error| TemplateError::Render {
            reason: error.to_string(),
        })
    }
}

/// A mark that is in none of the messages: one of the 32 code points that Unicode keeps for such use.
fn free_mark(messages: &[Message]) -> char {
    let used = |mark: char| {
        messages
            .iter()
            .any(|message| message.content.contains(mark))
    };
    // The last of them begins the messages of raised errors.
    ('\u{FDD0}'..RAISED)
        .find(|&mark| !used(mark))
        .unwrap_or('\u{FDD0}')
}

/// Takes the marks out and notes where they were.
fn without_marks(text: &str, mark: char) -> Prompt {
    let mut prompt = Prompt::default();
    for (at, piece) in text.split(mark).enumerate() {
        if at > 0 {
            prompt.breaks.push(prompt.text.len());
        }
        prompt.text.push_str(piece);
    }
    prompt
}

/// The system message at the front, if it says anything.
fn instruction(messages: &[Message]) -> Option<&str> {
    let first = messages
        .first()
        .filter(|message| message.role == Role::System)?;
    Some(first.content.trim()).filter(|content| !content.is_empty())
}

/// Messages of the same role that follow one another become one, an empty line between.
fn joined(messages: &[Message]) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match all.last_mut() {
            Some(last) if last.role == message.role => {
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => all.push(message.clone()),
        }
    }
    all
}

/// The system message goes before the first user message, an empty line between: as in Gemma 3's own template.
fn without_system(mut messages: Vec<Message>) -> Vec<Message> {
    if messages.len() < 2 || messages[0].role != Role::System || messages[1].role != Role::User {
        return messages;
    }
    let system = messages.remove(0);
    messages[0].content = format!("{}\n\n{}", system.content, messages[0].content);
    messages
}

fn read(path: &Path) -> Result<Option<String>, TemplateError> {
    let wrong = |reason: String| TemplateError::Read {
        path: path.to_owned(),
        reason,
    };
    match fs::metadata(path) {
        Ok(found) if found.len() > 64 << 20 => {
            return Err(wrong(format!("{} bytes are too many", found.len())));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    }
    fs::read_to_string(path)
        .map(Some)
        .map_err(|error| wrong(error.to_string()))
}

/// The `chat_template` of a JSON file.
fn named(path: &Path) -> Result<Option<String>, TemplateError> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Templates {
        One(String),
        Several(Vec<Named>),
        Other(serde::de::IgnoredAny),
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        template: String,
    }
    #[derive(Deserialize)]
    struct File {
        chat_template: Option<Templates>,
    }
    let Some(json) = read(path)? else {
        return Ok(None);
    };
    let file: File = serde_json::from_str(&json).map_err(|error| TemplateError::Read {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(match file.chat_template {
        Some(Templates::One(template)) => Some(template),
        Some(Templates::Several(all)) => {
            let at = all
                .iter()
                .position(|named| named.name == "default")
                .unwrap_or(0);
            all.into_iter().nth(at).map(|named| named.template)
        }
        Some(Templates::Other(_)) | None => None,
    })
}

fn failed(error: minijinja::Error) -> TemplateError {
    let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = inner {
        if let Some(raised) = cause
            .downcast_ref::<minijinja::Error>()
            .and_then(minijinja::Error::detail)
            && let Some(reason) = raised.strip_prefix(RAISED)
        {
            return TemplateError::Raised {
                reason: reason.split_whitespace().collect::<Vec<_>>().join(" "),
            };
        }
        inner = cause.source();
    }
    let reason = match error.kind() {
        ErrorKind::OutOfFuel => format!("it takes more than {MOST_STEPS} steps: it loops"),
        ErrorKind::WriteFailure => format!("its text grows beyond {} MiB", MOST_TEXT >> 20),
        _ => one_line(&error),
    };
    TemplateError::Render { reason }
}

fn one_line(error: &minijinja::Error) -> String {
    let line = error
        .line()
        .map(|line| format!(" (line {line})"))
        .unwrap_or_default();
    let reason = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    format!(
        "{}{line}",
        reason.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

/// Takes text up to a bound.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_TEXT {
            return Err(io::Error::other("too much text"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
