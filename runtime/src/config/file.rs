//! The configuration file: read with a bound, parsed, and every key placed against the table of settings.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::settings::{SECTIONS, Section, Setting, settings};
use super::suggest::nearest;
use super::value::{Mismatch, Value, describe};
use crate::exit::name;

/// A configuration larger than this is some other file.
const MOST_BYTES: u64 = 1 << 20;

/// Why a configuration file was refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It could not be read.
    #[error("{}: {reason}", name(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why, in words.
        reason: String,
    },
    /// Its content is not accepted.
    #[error("{}:{line}:{column}: {reason}", name(path))]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
        /// What was expected, what was found, what to do.
        reason: String,
    },
}

/// One key found in the file.
#[derive(Debug)]
pub struct Found {
    /// Which key.
    pub setting: &'static Setting,
    /// Its value.
    pub value: Value,
    /// Its line, from 1.
    pub line: usize,
}

/// Reads the file; `None` where it does not exist.
///
/// # Errors
/// When it is a folder, unreadable, or larger than 1 MiB.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let refuse = |reason: String| FileError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refuse(plain(&error))),
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => {
                refuse("expected a configuration file, found a folder".to_owned())
            }
            _ => refuse(plain(&error)),
        })?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refuse(
            "expected a configuration file, found more than 1 MiB; is this another file?"
                .to_owned(),
        ));
    }
    Ok(Some(bytes))
}

/// The message of an I/O error without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// Finds every key of a file's content.
///
/// # Errors
/// With line and column, for the first thing in the file that is not accepted.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Found>, FileError> {
    let refuse = |offset: usize, reason: String| {
        let (line, column) = position(bytes, offset);
        FileError::Content {
            path: path.to_owned(),
            line,
            column,
            reason,
        }
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refuse(
            error.valid_up_to(),
            "expected UTF-8 text, found a byte that is not".to_owned(),
        )
    })?;
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        refuse(
            at,
            format!("not TOML: {}", error.message().replace('\n', ", ")),
        )
    })?;
    let mut found = Vec::new();
    for (key, value) in document.get_ref() {
        let Some(section) = SECTIONS
            .iter()
            .find(|section| section.name == key.get_ref().as_ref())
        else {
            return Err(refuse(
                key.span().start,
                unknown_section(key.get_ref(), value.get_ref()),
            ));
        };
        let DeValue::Table(table) = value.get_ref() else {
            let reason = format!(
                "expected a table [{}] with keys, found {}",
                section.name,
                describe(value.get_ref())
            );
            return Err(refuse(key.span().start, reason));
        };
        for (key, value) in table {
            let Some(setting) = section
                .settings
                .iter()
                .find(|s| s.key == key.get_ref().as_ref())
            else {
                return Err(refuse(
                    key.span().start,
                    unknown_key(section, key.get_ref()),
                ));
            };
            let read = setting
                .kind
                .read_toml(value.get_ref())
                .map_err(|mismatch: Mismatch| {
                    refuse(
                        value.span().start,
                        format!("{}.{}: {mismatch}", section.name, setting.key),
                    )
                })?;
            let (line, _) = position(bytes, key.span().start);
            found.push(Found {
                setting,
                value: read,
                line,
            });
        }
    }
    Ok(found)
}

fn unknown_section(written: &str, value: &DeValue<'_>) -> String {
    let names = SECTIONS.iter().map(|section| section.name);
    if !matches!(value, DeValue::Table(_)) {
        let owner = settings().find(|setting| setting.key == written);
        return match owner {
            Some(setting) => format!(
                "key \"{written}\" stands outside of a section; it belongs in [{}]",
                setting.section
            ),
            None => format!(
                "unknown key \"{written}\" outside of a section; `firstword config` lists what there is"
            ),
        };
    }
    match nearest(written, names) {
        Some(close) => format!("unknown section [{written}]; did you mean [{close}]?"),
        None => {
            let all: Vec<String> = SECTIONS
                .iter()
                .map(|section| format!("[{}]", section.name))
                .collect();
            format!("unknown section [{written}]; there are {}", all.join(", "))
        }
    }
}

fn unknown_key(section: &Section, written: &str) -> String {
    let keys = section.settings.iter().map(|setting| setting.key);
    if let Some(owner) = settings().find(|setting| setting.key == written) {
        return format!(
            "unknown key \"{written}\" in [{}]; it belongs in [{}]",
            section.name, owner.section
        );
    }
    match nearest(written, keys.clone()) {
        Some(close) => format!(
            "unknown key \"{written}\" in [{}]; did you mean \"{close}\"?",
            section.name
        ),
        None => {
            let all: Vec<&str> = keys.collect();
            format!(
                "unknown key \"{written}\" in [{}]; there are {}",
                section.name,
                all.join(", ")
            )
        }
    }
}

/// Line and character, both from 1, of a byte offset.
fn position(bytes: &[u8], offset: usize) -> (usize, usize) {
    let before = &bytes[..offset.min(bytes.len())];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let start = before
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    (line, column)
}
