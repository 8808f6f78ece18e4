//! Everything that can be wrong with a library, each in one line with what to do about it.

use std::path::PathBuf;

use super::elf::Unfit;
use super::{OLDEST_MINOR, Origin};

/// Why there is no ONNX Runtime to work with.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// No place was named and none of the usual ones holds a library.
    #[error(
        "ONNX Runtime not found in {}: run `firstword model pull onnxruntime`, or set ORT_DYLIB_PATH to a libonnxruntime.so of version 1.{OLDEST_MINOR} or newer",
        if tried.is_empty() { "any place (none was given)" } else { tried }
    )]
    NotFound {
        /// The places looked at, for people.
        tried: String,
    },
    /// A place holds something that can't be used.
    #[error("ONNX Runtime at {} (from {origin}) {problem}: {}", path.display(), advice(*origin))]
    Unusable {
        /// How the place came to be looked at.
        origin: Origin,
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: Box<Problem>,
    },
    /// This process already runs another library, and there can be only one.
    #[error(
        "this process already uses the ONNX Runtime at {}, it can't also use {}: start another process for it",
        loaded.display(), asked.display()
    )]
    AlreadyLoaded {
        /// The library in use.
        loaded: PathBuf,
        /// The library asked for now.
        asked: PathBuf,
    },
}

impl LibraryError {
    pub(super) fn unusable(origin: Origin, path: PathBuf, problem: Problem) -> Self {
        Self::Unusable {
            origin,
            path,
            problem: Box::new(problem),
        }
    }
}

/// What is wrong with a file or folder. Reads as the end of "ONNX Runtime at PATH …".
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Nothing has that name.
    #[error("does not exist")]
    Missing,
    /// A folder without a library in it.
    #[error("is a folder without a libonnxruntime.so in it")]
    NoneInFolder,
    /// Not a library for this machine.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The dynamic linker refused it: a library it needs is missing, or its C library is newer.
    #[error("can't be opened, the dynamic linker says: {0}")]
    Linker(String),
    /// A library, but not ONNX Runtime.
    #[error("is a library but not ONNX Runtime (it has no working OrtGetApiBase)")]
    NoEntry,
    /// The version can't be read.
    #[error("gives {found} as its version, expected 1.{OLDEST_MINOR} or newer")]
    NoVersion {
        /// What it said.
        found: String,
    },
    /// Older than this program can use.
    #[error("is version {found}, too old: 1.{OLDEST_MINOR} or newer is needed")]
    TooOld {
        /// Its version.
        found: String,
    },
    /// New enough by its word, but without the functions.
    #[error("says it is version {found} but lacks the functions of 1.{OLDEST_MINOR}")]
    NoTable {
        /// Its version.
        found: String,
    },
    /// It opened, and would not start.
    #[error("did not start: {0}")]
    Refused(String),
}

fn advice(origin: Origin) -> &'static str {
    match origin {
        Origin::Flag => {
            "point the flag at a libonnxruntime.so, or leave it out and run `firstword model pull onnxruntime`"
        }
        Origin::Environment => {
            "set ORT_DYLIB_PATH to a libonnxruntime.so, or unset it and run `firstword model pull onnxruntime`"
        }
        Origin::Configuration => {
            "name a libonnxruntime.so in the configuration, or remove the entry and run `firstword model pull onnxruntime`"
        }
        Origin::BesideBinary => {
            "remove that file and run `firstword model pull onnxruntime`, or set ORT_DYLIB_PATH"
        }
        Origin::Cache => "run `firstword model pull onnxruntime`, or set ORT_DYLIB_PATH",
    }
}
