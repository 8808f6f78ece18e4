//! `firstword model synth`: a model of full size with random weights, to measure a device before the weights are there.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firstword_models::Store;
use firstword_models::gguf::Kind;
use firstword_models::language::synth::{self, REMARK, Sizes, SynthError};

use super::Context;
use super::import::{Job, check_name, make_parent, stopped_by, summary};
use crate::cli::{FlavourArg, ModelSynthArgs, SynthFormat, SynthModel};
use crate::exit::{CommandError, Exit, name, say};
use crate::output::Writer;
use crate::progress::Progress;

/// What is said where a signal stopped it.
const STOPPED: &str = "stopped; nothing of the model is left";

/// Runs `model synth`.
///
/// # Errors
/// [`Exit::Usage`] for flags that mean nothing together, [`Exit::Output`] where there is no room or something is there
/// already.
pub fn run(args: &ModelSynthArgs, context: &Context, store: &Store) -> Result<Exit, CommandError> {
    let sizes = match args.model {
        SynthModel::Phi3Mini => Sizes::PHI3_MINI,
    };
    let model = args.name.as_deref().unwrap_or(sizes.name);
    check_name(model)?;
    let made = match args.format {
        SynthFormat::Gguf if args.quant.is_some() => {
            let reason = "is for a folder: a GGUF file of random weights is Q4_0; leave it out";
            return Err(CommandError::new(Exit::Usage, "--quant", reason));
        }
        SynthFormat::Gguf => {
            let path = args.out.clone();
            file(
                &sizes,
                path.unwrap_or_else(|| PathBuf::from(format!("{model}.gguf"))),
                context,
            )?
        }
        SynthFormat::Onnx => folder(&sizes, model, args, context, store)?,
    };
    match made {
        Some(text) => {
            Writer::stdout().put(&text)?;
            Ok(Exit::Success)
        }
        None => {
            say(STOPPED);
            Ok(stopped_by(context))
        }
    }
}

/// Writes the GGUF file; what is to be said of it, or `None` if a signal stopped it.
fn file(sizes: &Sizes, path: PathBuf, context: &Context) -> Result<Option<String>, CommandError> {
    make_parent(&path)?;
    say(&format!("{}: {REMARK}", name(&path)));
    let mut bar = Bar::new(&name(&path), context);
    match synth::save(sizes, &path, &mut |done, total| bar.show(done, total)) {
        Ok(()) => Ok(Some(format!(
            "{}: {:.1} billion weights in Q4_0\n{REMARK}\nnext: firstword model import {}\n",
            name(&path),
            sizes.weights() as f64 / 1e9,
            name(&path),
        ))),
        Err(SynthError::Cancelled) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes the folder; what is to be said of it, or `None` if a signal stopped it.
fn folder(
    sizes: &Sizes,
    model: &str,
    args: &ModelSynthArgs,
    context: &Context,
    store: &Store,
) -> Result<Option<String>, CommandError> {
    let mut job = Job {
        file: Path::new(""),
        model,
        quant: args.quant,
        flavour: FlavourArg::Fused,
        into: args.out.as_deref(),
        // Factors that suit random weights, and how far these are from themselves, mean as little as their words.
        calibrated: false,
    };
    let goal = match &args.out {
        Some(out) if out.symlink_metadata().is_ok() => {
            return Err(SynthError::Exists { goal: out.clone() }.into());
        }
        Some(out) => out.clone(),
        None => store.imported(model),
    };
    make_parent(&goal)?;
    say(&format!("{model}: {REMARK}"));
    let more = sizes.weights() as f64 * job.precision().bytes_per_weight(Kind::Q4_0);
    let drawn = {
        let mut bar = Bar::new("drawing weights", context);
        synth::beside(sizes, &goal, more as u64, &mut |done, total| {
            bar.show(done, total)
        })
    };
    let drawn = match drawn {
        Ok(drawn) => drawn,
        Err(SynthError::Cancelled) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    job.file = drawn.path();
    let made = job.run(context, store)?;
    Ok(made.map(|(manifest, goal)| summary(&manifest, &goal, &job.called())))
}

/// A bar that looks for a signal.
struct Bar<'a> {
    what: String,
    context: &'a Context,
    shown: Option<Progress>,
}

impl<'a> Bar<'a> {
    fn new(what: &str, context: &'a Context) -> Self {
        Self {
            what: what.to_owned(),
            context,
            shown: None,
        }
    }

    fn show(&mut self, done: u64, total: u64) -> ControlFlow<()> {
        self.shown
            .get_or_insert_with(|| Progress::download(&self.what, Some(total)))
            .arrived(done);
        match self.context.interrupt.is_requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl From<SynthError> for CommandError {
    fn from(error: SynthError) -> Self {
        Self::new(Exit::Output, "", error)
    }
}
