//! From the configuration to a loaded language model, and from flags to what a reply shall be.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use firstword_models::Store;
use firstword_models::catalogue::Kind;
use firstword_models::language::sampling::{Sampling, SamplingError};
use firstword_targets::{Cpu, Target};

use super::Context;
use super::engine::{LoadWatch, model_name};
use super::import;
use crate::cli::LanguageArgs;
use crate::exit::{CommandError, Exit, say};
use crate::language::answerer::{AnswerError, Answerer, Load, Wish};
use crate::language::generator::RunError;
use crate::language::request::{GenerateError, Refused};
use crate::log::{Log, Model, Options, Purpose, Recorder};
use crate::record::Finish;

/// Sequences whose cache is kept: the conversation at hand, and the beginnings of others.
const SLOTS: usize = 2;
/// The largest schema file, in bytes.
const LARGEST_SCHEMA: u64 = 1 << 20;

impl Context {
    /// Loads the library and the language model that the configuration names; imports the model first where only its
    /// weights are here.
    ///
    /// # Errors
    /// With the exit code that belongs to what is missing.
    pub fn answerer(&self, recorder: &Recorder) -> Result<Answerer, CommandError> {
        let watch = LoadWatch::begin();
        let settings = &self.config.settings;
        let target = &settings.language.target;
        let _: Target = target
            .parse()
            .map_err(|error| CommandError::new(Exit::Usage, "language.target", error))?;
        let store = self.store()?;
        let folder = self.language_folder(&store, &settings.language.model)?;
        let watch = watch.lap("verify");
        let library = self.library(&store)?;
        let watch = watch.lap("library");
        let cpu = self.cpu();
        if self.verbose > 0 {
            say(&library.to_string());
            say(&format!("language model in {}", folder.display()));
        }
        library.messages().show(self.verbose > 1);
        let load = Load {
            slots: SLOTS,
            window: settings.language.window,
            chunk: settings.language.prefill_chunk,
        };
        let name = model_name(&settings.language.model);
        let mut answerer = Answerer::load(library, &cpu, &folder, name, load)?;
        let model = Model {
            model: answerer.names.model.clone(),
            precision: Some(answerer.names.precision.clone()),
            decoder: None,
            target: answerer.names.target.clone(),
            placement: answerer.names.placement.clone(),
            onnxruntime: answerer.onnxruntime.clone(),
        };
        let load = watch.lap("session").end(Purpose::Language, &folder);
        answerer.tell(recorder.clone(), recorder.load(model, load));
        if let Some(remark) = &answerer.remark {
            say(&format!("{}: {remark}", answerer.names.model));
        }
        Ok(answerer)
    }

    /// The folder of a language model: a path, an import, or an entry of the catalogue, imported now if need be.
    pub(super) fn language_folder(
        &self,
        store: &Store,
        name: &str,
    ) -> Result<PathBuf, CommandError> {
        if name.contains('/') {
            return Ok(store.resolve(name)?.path);
        }
        let imported = store.imported(name);
        if imported.is_dir() {
            return Ok(imported);
        }
        let folder = store.resolve(name)?;
        if let Some(entry) = folder.entry
            && entry.kind != Kind::Language
        {
            let reason = format!(
                "is a {} model, expected a language model; `firstword model list` shows them",
                entry.kind
            );
            return Err(CommandError::new(Exit::Model, name, reason));
        }
        match import::weights_in(&folder.path) {
            // Weights as they came: made into a model once.
            Some(gguf) => {
                import::by_default(self, store, &gguf, name)?;
                Ok(imported)
            }
            None => Ok(folder.path),
        }
    }

    /// The CPU as the configuration wants it used.
    pub(super) fn cpu(&self) -> Cpu {
        let settings = &self.config.settings.onnxruntime;
        Cpu {
            spinning: settings.spinning,
            ..NonZeroUsize::new(settings.threads).map_or_else(Cpu::default, Cpu::with_threads)
        }
    }

    /// The latency log, where it is wanted and has a folder, and what stages tell it with.
    pub(super) fn log(&self) -> (Option<Log>, Recorder) {
        if !self.config.settings.log.latency {
            return (None, Recorder::off());
        }
        match self.log_folder() {
            Ok(folder) => {
                let log = Log::start(Options::of(&self.config.settings, folder));
                let recorder = log.recorder();
                (Some(log), recorder)
            }
            Err(error) => {
                say(&format!("no latency log: {error}"));
                (None, Recorder::off())
            }
        }
    }
}

/// What a reply shall be, from flags and configuration. Looked at before anything is loaded.
///
/// # Errors
/// [`Exit::Usage`] for a flag that makes no sense, by its name; a schema that can't be read.
pub(super) fn wish(args: &LanguageArgs, context: &Context) -> Result<Wish, CommandError> {
    let defaults = Sampling::default();
    let schema = args.json_schema.as_deref().map(read_schema).transpose()?;
    let wish = Wish {
        max_tokens: context.config.settings.language.max_tokens,
        sampling: Sampling {
            temperature: args.temperature.unwrap_or(defaults.temperature),
            top_k: args.top_k.unwrap_or(defaults.top_k),
            top_p: args.top_p.unwrap_or(defaults.top_p),
            min_p: args.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: args
                .repetition_penalty
                .unwrap_or(defaults.repetition_penalty),
            presence_penalty: args.presence_penalty.unwrap_or(defaults.presence_penalty),
            frequency_penalty: args.frequency_penalty.unwrap_or(defaults.frequency_penalty),
            seed: args.seed.unwrap_or_else(any_seed),
            ..defaults
        },
        stops: args.stop.clone(),
        schema,
    };
    // No token is named by a flag, so that no vocabulary is needed.
    match wish.sampling.check(usize::MAX) {
        Ok(()) => Ok(wish),
        Err(error) => Err(by_flag(&error)),
    }
}

/// The error of a sampling parameter, with the flag that set it.
fn by_flag(error: &SamplingError) -> CommandError {
    match error {
        SamplingError::Parameter {
            name,
            expected,
            found,
        } => CommandError::new(
            Exit::Usage,
            format!("--{}", name.replace('_', "-")),
            format!("expected {expected}, found {found}"),
        ),
        other => CommandError::new(Exit::Usage, "", other),
    }
}

/// Says that a reply in JSON ended before it was complete; whether it did.
pub(super) fn cut_json(wish: &Wish, finish: Finish, window: usize) -> bool {
    if wish.schema.is_none() {
        return false;
    }
    match finish {
        Finish::Length => say(&format!(
            "the JSON is incomplete: the reply was cut after {} tokens; a higher --max-tokens lets it end",
            wish.max_tokens
        )),
        Finish::Window => say(&format!(
            "the JSON is incomplete: the window of {window} tokens is full; language.window widens it"
        )),
        Finish::StopString => say(
            "the JSON is incomplete: a text of --stop came up in it; leave --stop out, the schema ends the reply",
        ),
        Finish::Stop | Finish::Cancelled => return false,
    }
    true
}

fn read_schema(path: &Path) -> Result<String, CommandError> {
    let refuse = |reason: String| CommandError::new(Exit::Input, crate::exit::name(path), reason);
    let length = path
        .metadata()
        .map_err(|error| refuse(crate::config::plain(&error)))?
        .len();
    if length > LARGEST_SCHEMA {
        return Err(refuse(format!(
            "expected a JSON schema of at most {LARGEST_SCHEMA} bytes, found {length}"
        )));
    }
    std::fs::read_to_string(path).map_err(|error| refuse(crate::config::plain(&error)))
}

/// Another one each time; not a secret.
fn any_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

impl From<AnswerError> for CommandError {
    fn from(error: AnswerError) -> Self {
        let exit = match &error {
            AnswerError::Folder(_) | AnswerError::Decoder(_) | AnswerError::Tokenizer(_) => {
                Exit::Model
            }
            // The conversation does not suit the model, or the model's window.
            AnswerError::Template(_) | AnswerError::Constraint(_) => Exit::Input,
            AnswerError::Run(RunError::Refused(Refused::Sampling(_))) => Exit::Usage,
            AnswerError::Run(RunError::Refused(_)) => Exit::Input,
            AnswerError::Run(RunError::Failed(GenerateError::Constraint(_))) => Exit::Input,
            AnswerError::Run(RunError::Failed(_)) => Exit::OnnxRuntime,
        };
        Self::new(exit, "", error)
    }
}
