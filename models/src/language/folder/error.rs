//! Why a folder is no language model that can be run, in one line that says what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder or one of its files can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// None of the known layouts is there.
    #[error(
        "{} holds no language model: expected firstword.json, genai_config.json, or config.json with a decoder in .onnx; \
         found {found}",
        folder.display()
    )]
    Unknown {
        /// The folder.
        folder: PathBuf,
        /// The first few names in it.
        found: String,
    },
    /// A file that the layout needs is not there.
    #[error("{file} is missing in {}: {why}", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The file, relative to the folder.
        file: String,
        /// Who needs it.
        why: String,
    },
    /// A file of weights is shorter than the graph says.
    #[error("{} is cut short: {found} bytes, {needed} are referred to; fetch it again", file.display())]
    CutShort {
        /// The file.
        file: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The end of the last tensor in it, in bytes.
        needed: u64,
    },
    /// A configuration file that is not what it should be.
    #[error("{}: {said}", file.display())]
    Configuration {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        said: String,
    },
    /// The graph is no decoder that this program can drive.
    #[error("{} can't be driven: {said}", file.display())]
    Graph {
        /// The file.
        file: PathBuf,
        /// What is missing or not understood.
        said: String,
    },
    /// The variant asked for is not there.
    #[error("there is no variant '{asked}' in {}: it has {have}", folder.display())]
    Variant {
        /// The folder.
        folder: PathBuf,
        /// What was asked for.
        asked: String,
        /// The variants there are.
        have: String,
    },
}
