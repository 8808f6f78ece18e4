//! `firstword model import`: from the file that people have to the folder that runs.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firstword_models::Store;
use firstword_models::gguf::Gguf;
use firstword_models::language::import::{
    Calibration, GraphFlavour, ImportError, ImportRequest, Manifest, Precision, calibrate, import,
};
use firstword_models::language::lower::Smoothing;
use firstword_models::language::tokenizer::{GgufTokenizer, Special, TokenizerError};

use super::Context;
use crate::cli::{FlavourArg, ModelImportArgs, Quant};
use crate::exit::{CommandError, Exit, name, printable, say};
use crate::output::Writer;
use crate::progress::Progress;

/// The GGUF file in a folder, if that is what it holds: of a split one the first part.
pub(super) fn weights_in(folder: &Path) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> = folder
        .read_dir()
        .ok()?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "gguf"))
        .collect();
    files.sort();
    files.into_iter().next()
}

/// What is said where a signal stopped an import.
const STOPPED: &str = "the import was stopped; nothing of it is left";

/// Imports a file under a name with the defaults. A signal that stops it is an error here: whoever asked needs the model.
pub(super) fn by_default(
    context: &Context,
    store: &Store,
    gguf: &Path,
    model: &str,
) -> Result<(), CommandError> {
    let job = Job {
        file: gguf,
        model,
        quant: None,
        flavour: FlavourArg::Fused,
        into: None,
        calibrated: true,
    };
    match job.run(context, store)? {
        Some(_) => Ok(()),
        None => Err(CommandError::new(stopped_by(context), "", STOPPED)),
    }
}

/// How the program ends after a signal.
pub(super) fn stopped_by(context: &Context) -> Exit {
    context.interrupt.requested().unwrap_or(Exit::Interrupted)
}

/// Runs `model import`.
///
/// # Errors
/// [`Exit::Input`] for a file that can't be imported, [`Exit::Output`] for a folder that can't be written.
pub fn run(args: &ModelImportArgs, context: &Context, store: &Store) -> Result<Exit, CommandError> {
    let (file, default) = source(args, store)?;
    let model = args.name.clone().unwrap_or(default);
    check_name(&model)?;
    let job = Job {
        file: &file,
        model: &model,
        quant: args.quant,
        flavour: args.flavour,
        into: args.into.as_deref(),
        calibrated: true,
    };
    match job.run(context, store)? {
        Some((manifest, goal)) => {
            let how = job.called();
            Writer::stdout().put(&summary(&manifest, &goal, &how))?;
            Ok(Exit::Success)
        }
        None => {
            say(STOPPED);
            Ok(stopped_by(context))
        }
    }
}

/// The file, and what the model is called if nothing else is said.
fn source(args: &ModelImportArgs, store: &Store) -> Result<(PathBuf, String), CommandError> {
    let file = &args.file;
    let named = file.to_string_lossy();
    if !file.exists()
        && !named.contains('/')
        && !named.ends_with(".gguf")
        && let Ok(folder) = store.resolve(&named)
        && let Some(gguf) = weights_in(&folder.path)
    {
        return Ok((gguf, named.into_owned()));
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    // `NAME-00001-of-00003` is the first part of NAME.
    let stem = match stem.rsplit_once("-of-") {
        Some((front, count)) if count.chars().all(|c| c.is_ascii_digit()) => front
            .rsplit_once('-')
            .map_or(front, |(name, _)| name)
            .to_owned(),
        _ => stem.into_owned(),
    };
    Ok((file.clone(), stem))
}

/// A name that stays in the store.
pub(super) fn check_name(model: &str) -> Result<(), CommandError> {
    if model.is_empty() || model.starts_with('.') || model.contains(['/', '\0']) {
        let reason = "expected a name without / that does not begin with a dot";
        return Err(CommandError::new(
            Exit::Usage,
            format!("--as {model}"),
            reason,
        ));
    }
    Ok(())
}

/// One import.
pub(super) struct Job<'a> {
    /// The GGUF file.
    pub(super) file: &'a Path,
    /// What the model is called.
    pub(super) model: &'a str,
    /// By default what suits the flavour.
    pub(super) quant: Option<Quant>,
    pub(super) flavour: FlavourArg,
    /// The folder to be made; by default the store's.
    pub(super) into: Option<&'a Path>,
    /// Whether the model is run on a text, where its precision gains by that.
    pub(super) calibrated: bool,
}

impl Job<'_> {
    pub(super) fn precision(&self) -> Precision {
        // `plain` leaves the rounding of activations to its providers.
        let by_flavour = match self.flavour {
            FlavourArg::Fused => Quant::Fast,
            FlavourArg::Plain => Quant::Exact,
        };
        match self.quant.unwrap_or(by_flavour) {
            Quant::Exact => Precision::Exact,
            Quant::Balanced => Precision::Balanced,
            Quant::Fast => Precision::Fast,
        }
    }

    /// How `chat --model` is told of it.
    pub(super) fn called(&self) -> String {
        match self.into {
            // A name without a / is looked for in the store.
            Some(folder) if !folder.as_os_str().as_encoded_bytes().contains(&b'/') => {
                format!("./{}", folder.display())
            }
            Some(folder) => folder.display().to_string(),
            None => self.model.to_owned(),
        }
    }

    /// Imports; `None` if a signal stopped it.
    pub(super) fn run(
        &self,
        context: &Context,
        store: &Store,
    ) -> Result<Option<(Manifest, PathBuf)>, CommandError> {
        let Self { file, model, .. } = *self;
        let precision = self.precision();
        let goal = self
            .into
            .map_or_else(|| store.imported(model), Path::to_owned);
        make_parent(&goal)?;
        let cpu = context.cpu();
        let text = match self.calibrated && precision.is_smoothed() {
            true => Some((context.library(store)?, text_of(file)?)),
            false => None,
        };
        let calibration = text.as_ref().map(|(library, tokens)| Calibration {
            library,
            cpu: &cpu,
            tokens,
        });
        let tokenizer = |metadata: &firstword_models::gguf::Metadata, folder: &Path| {
            GgufTokenizer::from_metadata(metadata)
                .and_then(|parts| parts.rebuild())
                .and_then(|rebuilt| rebuilt.save(folder))
                .map_err(|error: TokenizerError| error.to_string())
        };
        let request = ImportRequest {
            source: file.to_owned(),
            goal: goal.clone(),
            name: Some(model.to_owned()),
            precision,
            flavour: match self.flavour {
                FlavourArg::Fused => GraphFlavour::Fused,
                FlavourArg::Plain => GraphFlavour::Plain,
            },
            window: None,
            // What the user names is not overwritten; in the store, an import takes the place of the one before.
            replace: self.into.is_none(),
            smoothing: Smoothing::default(),
            calibration,
            tokenizer: &tokenizer,
        };
        let mut bar: Option<Progress> = None;
        let result = import(&request, &mut |step| {
            bar.get_or_insert_with(|| Progress::download(model, Some(step.total)))
                .arrived(step.done);
            match context.interrupt.is_requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        drop(bar);
        match result {
            Ok(manifest) => Ok(Some((manifest, goal))),
            Err(ImportError::Cancelled) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes the folder that something is to be written in.
pub(super) fn make_parent(goal: &Path) -> Result<(), CommandError> {
    match goal.parent() {
        Some(parent) => std::fs::create_dir_all(parent).map_err(|error| {
            CommandError::new(Exit::Output, name(parent), crate::config::plain(&error))
        }),
        None => Ok(()),
    }
}

/// The calibration text in the tokens of a file's model.
fn text_of(file: &Path) -> Result<Vec<u32>, CommandError> {
    let gguf = Gguf::open(file).map_err(ImportError::from)?;
    let refused = |error: TokenizerError| CommandError::new(Exit::Input, name(file), error);
    let tokenizer = GgufTokenizer::from_metadata(gguf.metadata())
        .and_then(|parts| parts.rebuild())
        .and_then(|rebuilt| rebuilt.tokenizer())
        .map_err(refused)?;
    let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
    let mut tokens: Vec<u32> = bos.into_iter().collect();
    tokens.extend(
        tokenizer
            .encode(calibrate::TEXT, Special::Plain)
            .map_err(refused)?,
    );
    Ok(tokens)
}

pub(super) fn summary(manifest: &Manifest, goal: &Path, how: &str) -> String {
    let mut text = format!(
        "{}: {} {}, {} layers, window {}, in {}\n",
        manifest.name,
        manifest.architecture,
        manifest.precision,
        manifest.layers,
        manifest.window,
        name(goal)
    );
    if let Some(quality) = &manifest.quality {
        text.push_str(&format!(
            "against {}: KL {:.4}, the same first choice in {:.1} %, perplexity × {:.3}\n",
            quality.against,
            quality.kl,
            quality.top1 * 100.0,
            quality.perplexity_ratio
        ));
    }
    if let Some(remark) = &manifest.remark {
        text.push_str(&format!("{}\n", printable(remark)));
    }
    text.push_str(&format!("try it: firstword chat --model {how} \"Hello\"\n"));
    text
}

impl From<ImportError> for CommandError {
    fn from(error: ImportError) -> Self {
        let exit = match error {
            ImportError::Write { .. } => Exit::Output,
            _ => Exit::Input,
        };
        Self::new(exit, "", error)
    }
}
