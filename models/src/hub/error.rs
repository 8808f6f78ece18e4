//! What can go wrong with a download, each in one line with what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a download did not come. Addresses in it have no query: that is where keys are kept.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// What was typed is no address.
    #[error(
        "'{address}' can't be fetched: {reason}; expected https://HOST/…/FILE or hf:OWNER/REPOSITORY[@REVISION][/PATTERN]"
    )]
    Address {
        /// What was typed.
        address: String,
        /// Why not.
        reason: &'static str,
    },
    /// Plain HTTP, which anybody on the way can change.
    #[error(
        "{url} is plain http, where anybody on the way can change the file: use https, or say what it must be with --sha256"
    )]
    Plain {
        /// The address.
        url: String,
    },
    /// A token was given for a connection that others can read.
    #[error("a token is not sent over plain http ({url}): use https, or leave --token-file out")]
    TokenInTheOpen {
        /// The address.
        url: String,
    },
    /// The token can't be used.
    #[error("the token in {source_of} can't be used: {reason}")]
    Token {
        /// The file or variable.
        source_of: String,
        /// Why not.
        reason: String,
    },
    /// A name for the download that can't be one.
    #[error("'{name}' can't be the name of a download: {reason}; choose another with --as NAME")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// Something else has that name.
    #[error("{name} is here already, from {from}: choose another name with --as NAME")]
    Taken {
        /// The name.
        name: String,
        /// Where what is here came from.
        from: String,
    },
    /// The SHA-256 that was given is none.
    #[error("'{found}' is no SHA-256: expected 64 hexadecimal digits")]
    NoSum {
        /// What was given.
        found: String,
    },
    /// A single sum was given for several files.
    #[error("--sha256 is the sum of one file, and {address} gives {files}: name one file")]
    OneSum {
        /// What was asked for.
        address: String,
        /// How many files.
        files: usize,
    },
    /// The network was ruled out.
    #[error(
        "{address} is not on this machine and the network is not to be used: leave --offline out, or bring the file and name its path"
    )]
    Offline {
        /// What was asked for.
        address: String,
    },
    /// The server can't be reached.
    #[error(
        "{host} can't be reached: {reason}; check the network and the proxy (HTTPS_PROXY), then run the command again"
    )]
    Unreachable {
        /// The server.
        host: String,
        /// What the system says.
        reason: String,
    },
    /// The server's certificate is not trusted.
    #[error(
        "{host} can't prove who it is: {reason}; if a proxy of yours stands in between, name its certificates with SSL_CERT_FILE"
    )]
    Certificate {
        /// The server.
        host: String,
        /// What the verifier says.
        reason: String,
    },
    /// The transfer ended early, or stood still, too often.
    #[error(
        "{url} was cut off at {done} bytes: {reason}; run the command again to go on from there"
    )]
    Cut {
        /// The address.
        url: String,
        /// Bytes that are kept for the next try.
        done: u64,
        /// What happened last.
        reason: String,
    },
    /// The server is busy or broken.
    #[error("{url} answered {status} (it is busy or broken) {tries} times: try again later")]
    Busy {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// How often it was asked.
        tries: u32,
    },
    /// The repository's authors want something first.
    #[error(
        "{repository} is gated: open {page} in a browser, sign in and accept its conditions, then give a token that may read it (HF_TOKEN or --token-file FILE)"
    )]
    Gated {
        /// The repository.
        repository: String,
        /// Its page.
        page: String,
    },
    /// The server wants to know who asks, or does not let them.
    #[error("{url} answered {status}: {}", if *with_token { "the token was not accepted; does it have the right to read this?" } else { "it wants a token (HF_TOKEN or --token-file FILE), or does not exist" })]
    Denied {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// There is nothing of that name.
    #[error(
        "{url}: there is no such {what} (the server answered {status}); check how it is written"
    )]
    NotFound {
        /// The address.
        url: String,
        /// File, revision or repository.
        what: &'static str,
        /// The HTTP status.
        status: u16,
    },
    /// Another answer than a file.
    #[error("{url} answered {status}: expected the file")]
    Status {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The server sends in circles, or out of https.
    #[error("{url} sends on {reason}")]
    Redirect {
        /// Where it began.
        url: String,
        /// What was wrong.
        reason: String,
    },
    /// A web page came where a file was expected.
    #[error("{url} is a web page: expected a file; name the address of the file itself")]
    WebPage {
        /// The address.
        url: String,
    },
    /// An answer that makes no sense.
    #[error("{url} gave an answer that makes no sense: {reason}")]
    Nonsense {
        /// The address.
        url: String,
        /// What was wrong.
        reason: String,
    },
    /// The server does not say how long the file is.
    #[error(
        "{url} does not say how long the file is, so a part could pass for the whole: give its sum with --sha256"
    )]
    NoLength {
        /// The address.
        url: String,
    },
    /// The file is longer or shorter than it must be.
    #[error(
        "{url} is not the file: expected {expected} bytes, found {found}; nothing of it was kept"
    )]
    WrongLength {
        /// The address.
        url: String,
        /// Bytes it must have.
        expected: u64,
        /// What was found.
        found: String,
    },
    /// The file has other contents than it must have.
    #[error(
        "{url} is not the file (SHA-256 expected {expected}, found {found}): nothing of it was kept"
    )]
    WrongHash {
        /// The address.
        url: String,
        /// The hash it must have.
        expected: String,
        /// The hash it has.
        found: String,
    },
    /// A repository offers a path that is none.
    #[error("{repository} holds a file named '{path}', which is no safe path: nothing was fetched")]
    UnsafePath {
        /// The repository.
        repository: String,
        /// The path.
        path: String,
    },
    /// Nothing in the repository is asked for.
    #[error("{repository} has no file that matches '{pattern}'; it has: {files}")]
    NothingMatches {
        /// The repository.
        repository: String,
        /// The pattern.
        pattern: String,
        /// Some of its files.
        files: String,
    },
    /// The repository holds several models.
    #[error("{repository} holds several models; choose one: {choices}")]
    Choose {
        /// The repository.
        repository: String,
        /// Addresses to choose from.
        choices: String,
    },
    /// The repository holds no model that we can use.
    #[error(
        "{repository} holds neither GGUF nor ONNX files; to fetch others all the same, name them with a pattern (hf:{repository}/PATTERN)"
    )]
    NoModel {
        /// The repository.
        repository: String,
    },
    /// The disk is too small.
    #[error("not enough space on the disk that holds {}: {needed} bytes are needed, {available} are free", path.display())]
    NoRoom {
        /// Where it was to be written.
        path: PathBuf,
        /// Bytes still to come.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// The disk filled up.
    #[error("no space left on the disk that holds {}: free some and run the command again", path.display())]
    DiskFull {
        /// Where it was written.
        path: PathBuf,
    },
    /// The user stopped it.
    #[error("stopped; what has come is kept, run the command again to go on")]
    Stopped,
    /// No download has that name.
    #[error("there is no download named {name}: `firstword model list` shows what is here")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A file of a download is missing or changed.
    #[error("{} is damaged ({reason}): remove {} and pull it again from {from}", file.display(), folder.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What was expected and found.
        reason: String,
        /// The download's folder.
        folder: PathBuf,
        /// Where it came from.
        from: String,
    },
    /// The system refused something else.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl HubError {
    /// An error of the system while something was written.
    pub(super) fn writing(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: path.to_owned(),
            },
            _ => Self::Io {
                action,
                path: path.to_owned(),
                source,
            },
        }
    }
}
