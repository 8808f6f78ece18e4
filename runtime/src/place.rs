//! Where the program keeps things: one answer for configuration, store and log, from the environment alone.
//!
//! The XDG base directory specification (version 0.8) names the folders; `FIRSTWORD_HOME` overrides all of
//! them, so that an installation can live in one folder that is copied to a device.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A snapshot of the environment variables, so that everything behind it can be tested without touching the
/// process's own.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of a variable; one that is set but empty counts as not set, as in the XDG specification.
    #[must_use]
    pub fn get(&self, variable: &str) -> Option<&OsStr> {
        self.0
            .get(OsStr::new(variable))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// Every variable with its value, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str()))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
        )
    }
}

/// No folder could be worked out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no folder for {what}: neither FIRSTWORD_HOME, {variable} nor HOME is set to an absolute path; set one of them"
)]
pub struct PlaceError {
    what: &'static str,
    variable: &'static str,
}

/// The folders of this user. Nothing is created here; missing folders are an error only for whoever needs one.
#[derive(Clone, Debug)]
pub struct Place {
    own: Option<PathBuf>,
    home: Option<PathBuf>,
    config: Option<PathBuf>,
    cache: Option<PathBuf>,
    state: Option<PathBuf>,
}

impl Place {
    /// Reads `FIRSTWORD_HOME`, `XDG_CONFIG_HOME`, `XDG_CACHE_HOME`, `XDG_STATE_HOME` and `HOME`.
    ///
    /// A relative `FIRSTWORD_HOME` counts from the working folder. Relative XDG folders are ignored, as the
    /// specification asks.
    #[must_use]
    pub fn new(environment: &Environment) -> Self {
        let absolute = |variable| {
            environment
                .get(variable)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let own = environment
            .get("FIRSTWORD_HOME")
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)));
        Self {
            own,
            home: absolute("HOME"),
            config: absolute("XDG_CONFIG_HOME"),
            cache: absolute("XDG_CACHE_HOME"),
            state: absolute("XDG_STATE_HOME"),
        }
    }

    /// The user's home folder, for `~/` in the configuration.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The configuration file: `$FIRSTWORD_HOME/config.toml` or `$XDG_CONFIG_HOME/firstword/config.toml`.
    ///
    /// # Errors
    /// When no variable gives a folder.
    pub fn config_file(&self) -> Result<PathBuf, PlaceError> {
        self.folder(
            &self.config,
            ".config",
            "the configuration",
            "XDG_CONFIG_HOME",
        )
        .map(|folder| folder.join("config.toml"))
    }

    /// The root of the store (`models/`, `lib/` and `tmp/` lie in it): `$FIRSTWORD_HOME` or
    /// `$XDG_CACHE_HOME/firstword`.
    ///
    /// # Errors
    /// When no variable gives a folder.
    pub fn store(&self) -> Result<PathBuf, PlaceError> {
        self.folder(&self.cache, ".cache", "models", "XDG_CACHE_HOME")
    }

    /// The folder of the latency log: `$FIRSTWORD_HOME/log` or `$XDG_STATE_HOME/firstword/log`.
    ///
    /// # Errors
    /// When no variable gives a folder.
    pub fn log(&self) -> Result<PathBuf, PlaceError> {
        self.folder(&self.state, ".local/state", "the log", "XDG_STATE_HOME")
            .map(|folder| folder.join("log"))
    }

    fn folder(
        &self,
        xdg: &Option<PathBuf>,
        below_home: &str,
        what: &'static str,
        variable: &'static str,
    ) -> Result<PathBuf, PlaceError> {
        if let Some(own) = &self.own {
            return Ok(own.clone());
        }
        xdg.clone()
            .or_else(|| self.home.as_ref().map(|home| home.join(below_home)))
            .map(|base| base.join("firstword"))
            .ok_or(PlaceError { what, variable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Place {
        Place::new(&pairs.iter().copied().collect())
    }

    // The default folders below HOME are those of the XDG base directory specification 0.8, section 3.
    #[test]
    fn only_home_gives_the_xdg_defaults() {
        let place = place(&[("HOME", "/home/ada")]);
        assert_eq!(
            place.config_file(),
            Ok("/home/ada/.config/firstword/config.toml".into())
        );
        assert_eq!(place.store(), Ok("/home/ada/.cache/firstword".into()));
        assert_eq!(
            place.log(),
            Ok("/home/ada/.local/state/firstword/log".into())
        );
    }

    #[test]
    fn firstword_home_holds_everything() {
        let place = place(&[
            ("HOME", "/home/ada"),
            ("XDG_CACHE_HOME", "/c"),
            ("FIRSTWORD_HOME", "/opt/fw"),
        ]);
        assert_eq!(place.config_file(), Ok("/opt/fw/config.toml".into()));
        assert_eq!(place.store(), Ok("/opt/fw".into()));
        assert_eq!(place.log(), Ok("/opt/fw/log".into()));
    }

    #[test]
    fn a_relative_xdg_folder_is_ignored() {
        let place = place(&[
            ("HOME", "/home/ada"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_STATE_HOME", ""),
        ]);
        assert_eq!(place.store(), Ok("/home/ada/.cache/firstword".into()));
        assert_eq!(
            place.log(),
            Ok("/home/ada/.local/state/firstword/log".into())
        );
    }

    #[test]
    fn without_any_home_the_error_names_the_variables() {
        let error = place(&[]).store().unwrap_err().to_string();
        assert!(
            error.contains("FIRSTWORD_HOME") && error.contains("XDG_CACHE_HOME"),
            "{error}"
        );
    }
}
