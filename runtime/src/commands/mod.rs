//! One module per command, and what all of them are given.

pub mod chat;
pub mod config;
pub mod demo;
mod engine;
mod import;
mod language;
pub mod listen;
pub mod log;
pub mod model;
mod synth;
pub mod transcribe;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use firstword_models::Store;
use firstword_targets::Search;

use crate::cli::{Cli, Command};
use crate::config::{Config, ConfigError, Origin, Source, plain};
use crate::exit::{CommandError, Exit, drives_terminal, report};
use crate::interrupt::Interrupt;
use crate::output::OutputError;
use crate::place::{Environment, Place, PlaceError};

/// What every command is given.
#[derive(Debug)]
pub struct Context {
    /// The effective configuration.
    pub config: Config,
    /// The user's folders.
    pub place: Place,
    /// Ctrl-C and SIGTERM.
    pub interrupt: Interrupt,
    /// How often `-v` was given.
    pub verbose: u8,
}

impl Context {
    /// The root of the store: `models.folder` of the configuration, else the cache folder.
    ///
    /// # Errors
    /// When no folder can be worked out.
    pub fn store_root(&self) -> Result<PathBuf, PlaceError> {
        match &self.config.settings.models.folder {
            Some(folder) => Ok(folder.clone()),
            None => self.place.store(),
        }
    }

    /// The store of models and libraries.
    ///
    /// # Errors
    /// When no folder can be worked out.
    pub fn store(&self) -> Result<Store, PlaceError> {
        self.store_root().map(Store::new)
    }

    /// Where to look for ONNX Runtime: the configured path under the name of its origin, else beside the
    /// program, else in the store.
    #[must_use]
    pub fn library_search(&self) -> Search {
        let configured = self.config.settings.onnxruntime.library.clone();
        let mut search = Search {
            beside: std::env::current_exe()
                .ok()
                .and_then(|program| program.parent().map(Path::to_owned)),
            cache: self.store().ok().and_then(|store| store.library_folder()),
            ..Search::default()
        };
        match self.config.origin("onnxruntime", "library") {
            Some(Origin::Flag(_)) => search.flag = configured,
            Some(Origin::Environment(_)) => search.environment = configured,
            _ => search.configuration = configured,
        }
        search
    }

    /// The folder of the log: `log.folder` of the configuration, else the state folder.
    ///
    /// # Errors
    /// When no folder can be worked out.
    pub fn log_folder(&self) -> Result<PathBuf, PlaceError> {
        match &self.config.settings.log.folder {
            Some(folder) => Ok(folder.clone()),
            None => self.place.log(),
        }
    }
}

/// Runs the program with these arguments (the first is its name) and says how it ended.
/// Errors have been printed by then.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::read(arguments) {
        Ok(cli) => cli,
        Err(error) => return answer(&error),
    };
    match dispatch(&cli) {
        Ok(exit) => exit,
        Err(error) => {
            report(&error);
            error.exit
        }
    }
}

fn dispatch(cli: &Cli) -> Result<Exit, CommandError> {
    if let Command::Transcribe(args) = &cli.command {
        args.check()?;
    }
    let environment = Environment::of_process();
    let place = Place::new(&environment);
    let source = Source::choose(cli.global.config.as_deref(), &environment, &place);
    let context = Context {
        config: Config::load(&source, &environment, &place, &cli.overrides())?,
        place,
        interrupt: Interrupt::install()
            .map_err(|error| CommandError::new(Exit::Usage, "signal handlers", plain(&error)))?,
        verbose: cli.global.verbose,
    };
    match &cli.command {
        Command::Demo(args) => demo::run(args, &context),
        Command::Transcribe(args) => transcribe::run(args, &context),
        Command::Chat(args) => chat::run(args, &context),
        Command::Listen(args) => listen::run(args, &context),
        Command::Model(args) => model::run(args, &context),
        Command::Log(args) => log::run(args, &context),
        Command::Config(args) => config::run(args, &context),
    }
}

/// Prints what clap has to say: help and version on standard output, errors on standard error.
fn answer(error: &clap::Error) -> Exit {
    if error.use_stderr() {
        // clap repeats arguments as they were typed; only its own line breaks may pass.
        let text: String = error
            .render()
            .to_string()
            .chars()
            .filter(|&c| c == '\n' || !drives_terminal(c))
            .collect();
        use io::Write;
        let _ = io::stderr().write_all(text.as_bytes());
        return Exit::Usage;
    }
    match error.print() {
        Ok(()) => Exit::Success,
        Err(error) => {
            let error = CommandError::from(OutputError::new("standard output", error));
            report(&error);
            error.exit
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Usage, "", error)
    }
}

impl From<PlaceError> for CommandError {
    fn from(error: PlaceError) -> Self {
        Self::new(Exit::Usage, "", error)
    }
}
