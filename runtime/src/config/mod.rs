//! The configuration: defaults, file, environment and flags, merged in this order, each value with its origin.

mod file;
mod settings;
mod show;
mod suggest;
mod value;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

pub use file::{FileError, plain};
pub use settings::{
    Language, Latency, Log, Models, OnnxRuntime, SECTIONS, Section, Setting, Settings, Speech,
    VoiceActivity, settings,
};
pub use show::{markdown_row, settings_help};
pub use suggest::nearest;
pub use value::{Kind, Mismatch, Value, time_text};

use crate::exit::name;
use crate::place::{Environment, Place};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody has set it.
    Default,
    /// A line of a configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "file {}:{line}", name(path)),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A value given on the command line.
#[derive(Clone, Debug)]
pub struct Override {
    /// The section that it sets.
    pub section: &'static str,
    /// The key that it sets.
    pub key: &'static str,
    /// The flag as it is typed, `--threads`.
    pub flag: &'static str,
    /// What was typed.
    pub value: OsString,
}

/// Why there is no valid configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file was refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file named by a flag or a variable does not exist.
    #[error("{}: no such file (named by {origin})", name(path))]
    Missing {
        /// The file.
        path: PathBuf,
        /// Who named it.
        origin: Origin,
    },
    /// A value from the environment or a flag was refused.
    #[error("{source_name}: {mismatch}")]
    Value {
        /// The variable or the flag.
        source_name: String,
        /// What was expected and found.
        mismatch: Mismatch,
    },
    /// A variable looks like a setting but is none.
    #[error("{variable}: no such setting{hint}")]
    UnknownVariable {
        /// The variable.
        variable: String,
        /// The nearest one that exists.
        hint: String,
    },
    /// A row of the table does not fit its own type.
    #[error("the table of settings contradicts itself at {0}; this is a bug in firstword")]
    Table(String),
}

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The values as the program uses them.
    pub settings: Settings,
    values: Vec<(&'static Setting, Value, Origin)>,
}

/// Which file to read, and whether it must exist.
#[derive(Clone, Debug)]
pub enum Source {
    /// The user's own file; its absence is normal.
    Usual(PathBuf),
    /// A file that somebody named.
    Named(PathBuf, Origin),
    /// No file at all (no home folder).
    None,
}

impl Source {
    /// `--config FILE`, else `FIRSTWORD_CONFIG`, else the usual file.
    #[must_use]
    pub fn choose(flag: Option<&Path>, environment: &Environment, place: &Place) -> Self {
        if let Some(path) = flag {
            return Self::Named(path.to_owned(), Origin::Flag("--config"));
        }
        if let Some(path) = environment.get("FIRSTWORD_CONFIG") {
            return Self::Named(
                path.into(),
                Origin::Environment("FIRSTWORD_CONFIG".to_owned()),
            );
        }
        place.config_file().map_or(Self::None, Self::Usual)
    }

    /// The file, if there is one to read.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Usual(path) | Self::Named(path, _) => Some(path),
            Self::None => None,
        }
    }
}

impl Config {
    /// Merges defaults, file, environment and flags; the later wins.
    ///
    /// Relative paths count from the file's folder when they stand in the file, else from the working folder;
    /// `~/` is the home folder.
    ///
    /// # Errors
    /// For the first value that is not accepted, with the place where it was written.
    pub fn load(
        source: &Source,
        environment: &Environment,
        place: &Place,
        flags: &[Override],
    ) -> Result<Self, ConfigError> {
        let mut values = Vec::new();
        for setting in settings() {
            let value = setting.default_value().map_err(|_| table_error(setting))?;
            values.push((setting, value, Origin::Default));
        }
        let mut config = Merge {
            values,
            place,
            here: std::env::current_dir().unwrap_or_default(),
        };
        config.file(source)?;
        config.environment(environment)?;
        for flag in flags {
            config.flag(flag)?;
        }
        Self::of(config.values)
    }

    /// The defaults alone.
    ///
    /// # Errors
    /// When the table contradicts itself, which a test rules out.
    pub fn defaults() -> Result<Self, ConfigError> {
        let environment = Environment::default();
        let place = Place::new(&environment);
        Self::load(&Source::None, &environment, &place, &[])
    }

    fn of(values: Vec<(&'static Setting, Value, Origin)>) -> Result<Self, ConfigError> {
        let find = |section: &str, key: &str| {
            values
                .iter()
                .find(|(setting, ..)| setting.section == section && setting.key == key)
                .map(|(_, value, _)| value)
        };
        let settings = Settings::read(find)
            .ok_or_else(|| ConfigError::Table("the typed fields".to_owned()))?;
        Ok(Self { settings, values })
    }

    /// Every key with its value and origin, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &Value, &Origin)> {
        self.values
            .iter()
            .map(|(setting, value, origin)| (*setting, value, origin))
    }

    /// Where a value comes from; `None` for a key that does not exist.
    #[must_use]
    pub fn origin(&self, section: &str, key: &str) -> Option<&Origin> {
        self.iter()
            .find(|(setting, ..)| setting.section == section && setting.key == key)
            .map(|(_, _, origin)| origin)
    }
}

fn table_error(setting: &Setting) -> ConfigError {
    ConfigError::Table(format!("{}.{}", setting.section, setting.key))
}

/// The values while they are being overridden.
struct Merge<'a> {
    values: Vec<(&'static Setting, Value, Origin)>,
    place: &'a Place,
    here: PathBuf,
}

impl Merge<'_> {
    fn file(&mut self, source: &Source) -> Result<(), ConfigError> {
        let Some(path) = source.path() else {
            return Ok(());
        };
        let Some(bytes) = file::read(path)? else {
            return match source {
                Source::Named(path, origin) => Err(ConfigError::Missing {
                    path: path.clone(),
                    origin: origin.clone(),
                }),
                _ => Ok(()),
            };
        };
        let folder = self.here.join(path.parent().unwrap_or(Path::new("")));
        for found in file::parse(path, &bytes)? {
            let origin = Origin::File {
                path: path.to_owned(),
                line: found.line,
            };
            let value = found.value.anchored(&folder, self.place.home());
            self.set(found.setting, value, origin);
        }
        Ok(())
    }

    fn environment(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        for (variable, _) in environment.iter() {
            // Only what begins like one of our sections can be a mistyped setting; other programs (and our
            // own tests) may use FIRSTWORD_ variables for other ends.
            let Some(variable) = variable.to_str() else {
                continue;
            };
            let looks_like_ours = SECTIONS.iter().any(|section| {
                variable
                    .strip_prefix("FIRSTWORD_")
                    .and_then(|rest| rest.strip_prefix(section.name.to_ascii_uppercase().as_str()))
                    .is_some_and(|rest| rest.starts_with('_'))
            });
            if looks_like_ours && !settings().any(|setting| setting.variable() == variable) {
                let known: Vec<String> = settings().map(Setting::variable).collect();
                let hint = nearest(variable, known.iter().map(String::as_str))
                    .map_or_else(String::new, |close| format!("; did you mean {close}?"));
                return Err(ConfigError::UnknownVariable {
                    variable: variable.to_owned(),
                    hint,
                });
            }
        }
        for setting in settings() {
            let own = setting.variable();
            let variables = std::iter::once(own.as_str()).chain(setting.also.iter().copied());
            let mut given = variables
                .filter_map(|variable| environment.get(variable).map(|value| (variable, value)));
            if let Some((variable, text)) = given.next() {
                let value = self.read(setting, variable, text.to_owned())?;
                self.set(setting, value, Origin::Environment(variable.to_owned()));
            }
        }
        Ok(())
    }

    fn flag(&mut self, flag: &Override) -> Result<(), ConfigError> {
        let setting = settings()
            .find(|setting| setting.section == flag.section && setting.key == flag.key)
            .ok_or_else(|| {
                ConfigError::Table(format!("{}.{} ({})", flag.section, flag.key, flag.flag))
            })?;
        let value = self.read(setting, flag.flag, flag.value.clone())?;
        self.set(setting, value, Origin::Flag(flag.flag));
        Ok(())
    }

    fn read(
        &self,
        setting: &Setting,
        source_name: &str,
        text: OsString,
    ) -> Result<Value, ConfigError> {
        let value = match (setting.kind, text.into_string()) {
            (_, Ok(text)) => setting.kind.read_text(&text),
            // A path may be anything that the operating system accepts.
            (Kind::Path, Err(raw)) => Ok(Value::Path(raw.into())),
            (kind, Err(raw)) => Err(Mismatch {
                expected: kind.to_string(),
                found: format!("\"{}\", which is not UTF-8", raw.to_string_lossy()),
            }),
        };
        value
            .map(|value| value.anchored(&self.here, self.place.home()))
            .map_err(|mismatch| ConfigError::Value {
                source_name: source_name.to_owned(),
                mismatch,
            })
    }

    fn set(&mut self, setting: &'static Setting, value: Value, origin: Origin) {
        for entry in &mut self.values {
            if (entry.0.section, entry.0.key) == (setting.section, setting.key) {
                entry.1 = value.clone();
                entry.2 = origin.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests;
