//! How results reach the reader: one sink per format, every event written and flushed at once.

mod handed;
mod json;
mod subtitles;
mod terminal;
mod text;
mod whole;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use firstword_audio::clock::Stamp;
use rustix::fs::FileType;

pub use json::Json;
pub use subtitles::{Dialect, Subtitles};
pub use terminal::Terminal;
pub use text::Text;
pub use whole::{Part, replace};

use crate::cli::{Format, TranscribeArgs, is_stdin};
use crate::config::plain;
use crate::exit::{CommandError, Exit, drives_terminal, name};
use crate::speech::transcript::Event;

/// What a sink has to know of the stream that an event belongs to.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The file as it was named; `-` is standard input.
    pub name: String,
    /// The speech model that wrote the text.
    pub model: String,
    /// Where it ran.
    pub target: String,
    /// When the stream's first sample was captured, from which relative times count.
    pub first_captured: Option<Stamp>,
}

/// Takes the events of all streams of a command, in their order, and writes what they say.
///
/// A sink sets `handed_over` of every word of a final: the instant right after the flush that first showed the
/// word, be it in the committed part of a partial or in the final. (JSON, which writes this instant itself, takes
/// it right before.)
pub trait Sink: Send {
    /// A stream begins.
    ///
    /// # Errors
    /// When the result can't be written.
    fn begin(&mut self, _stream: &Stream) -> Result<(), OutputError> {
        Ok(())
    }

    /// Writes one event and flushes it.
    ///
    /// # Errors
    /// When the result can't be written. Nothing more should be sent then.
    fn event(&mut self, stream: &Stream, event: &mut Event) -> Result<(), OutputError>;

    /// All streams have ended, or the user wants to stop.
    ///
    /// # Errors
    /// When the result can't be written.
    fn finish(&mut self) -> Result<(), OutputError>;
}

/// The result could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The reader of a pipe went away.
    #[error("{to}: the reader went away")]
    Closed {
        /// What was written to.
        to: String,
    },
    /// Anything else: disk full, no such folder, no permission.
    #[error("{to}: can't be written: {reason}")]
    Failed {
        /// What was written to.
        to: String,
        /// Why, in words.
        reason: String,
    },
}

impl OutputError {
    /// Sorts an I/O error that came while writing to `to`.
    #[must_use]
    pub fn new(to: &str, error: io::Error) -> Self {
        let to = to.to_owned();
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed { to },
            _ => Self::Failed {
                to,
                reason: plain(&error),
            },
        }
    }

    /// The exit code that belongs to it.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Closed { .. } => Exit::PipeClosed,
            Self::Failed { .. } => Exit::Output,
        }
    }
}

impl From<OutputError> for CommandError {
    fn from(error: OutputError) -> Self {
        Self::new(error.exit(), "", error)
    }
}

/// Where a sink writes to, with a name for messages.
pub struct Writer {
    to: String,
    out: Box<dyn Write + Send>,
}

impl Writer {
    /// Writes to `out`, which messages call `to`.
    pub fn new(to: impl Into<String>, out: impl Write + Send + 'static) -> Self {
        Self {
            to: to.into(),
            out: Box::new(out),
        }
    }

    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::new("standard output", io::stdout())
    }

    /// A new file, or an old one emptied.
    ///
    /// # Errors
    /// When it can't be created.
    pub fn file(path: &Path) -> Result<Self, OutputError> {
        let to = name(path);
        match File::create(path) {
            Ok(file) => Ok(Self::new(to, file)),
            Err(error) => Err(OutputError::new(&to, error)),
        }
    }

    /// Writes all of `text` and flushes it.
    ///
    /// # Errors
    /// When either fails.
    pub fn put(&mut self, text: &str) -> Result<(), OutputError> {
        self.out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush())
            .map_err(|error| OutputError::new(&self.to, error))
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({})", self.to)
    }
}

/// The sink that the command line asks for.
///
/// # Errors
/// When the output file can't be created, or is one of the inputs.
pub fn open(args: &TranscribeArgs) -> Result<Box<dyn Sink>, CommandError> {
    let writer = match &args.output {
        Some(path) => {
            refuse_input_as_output(path, args)?;
            Writer::file(path)?
        }
        None => Writer::stdout(),
    };
    let announce = args.files.len() > 1 && io::stderr().is_terminal();
    Ok(match args.format {
        Format::Text if partials_in_place(args) => Box::new(Terminal::new(writer, announce)),
        Format::Text => Box::new(Text::new(writer, announce)),
        Format::Json => Box::new(Json::new(writer, args.partials)),
        Format::Srt => Box::new(Subtitles::new(writer, Dialect::Srt)),
        Format::Vtt => Box::new(Subtitles::new(writer, Dialect::Vtt)),
    })
}

/// Whether partial results are rewritten in place on the terminal; no progress bar may be drawn then.
#[must_use]
pub fn partials_in_place(args: &TranscribeArgs) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    args.partials
        && args.format == Format::Text
        && args.output.is_none()
        && !dumb
        && io::stdout().is_terminal()
}

/// Creating the output would empty the recording.
fn refuse_input_as_output(output: &Path, args: &TranscribeArgs) -> Result<(), CommandError> {
    let Ok(existing) = output.metadata() else {
        return Ok(());
    };
    let same = args.files.iter().any(|file| {
        // A recording may come through `<` as well.
        let input = if is_stdin(file) {
            rustix::fs::fstat(rustix::stdio::stdin()).ok()
        } else {
            rustix::fs::stat(file).ok()
        };
        input.is_some_and(|input| {
            FileType::from_raw_mode(input.st_mode) == FileType::RegularFile
                && (input.st_dev, input.st_ino) == (existing.dev(), existing.ino())
        })
    });
    if same {
        let reason = "is one of the recordings; expected another file to write the result into";
        return Err(CommandError::new(Exit::Usage, name(output), reason));
    }
    Ok(())
}

/// Text of a language model, fit for a terminal: without characters that would drive it; line breaks and tabs stay.
pub(crate) fn tame(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || c == '\t' || !drives_terminal(c))
        .collect()
}

/// Text of a model, fit for a line: control characters (a byte-fallback token can be one) become spaces.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod fixture;

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_of(out: impl Write + Send + 'static) -> Exit {
        Writer::new("out", out).put("text\n").unwrap_err().exit()
    }

    #[test]
    fn a_reader_that_went_away_and_a_full_disk_end_differently() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(exit_of(writer), Exit::PipeClosed);
        assert_eq!(
            exit_of(File::options().write(true).open("/dev/full").unwrap()),
            Exit::Output
        );
    }

    #[test]
    fn a_recording_is_not_overwritten_by_its_own_transcript() {
        use clap::Parser;

        let folder = tempfile::tempdir().unwrap();
        let clip = folder.path().join("talk.wav");
        std::fs::write(&clip, "sound").unwrap();
        // Another name of the same file.
        let link = folder.path().join("talk.txt");
        std::fs::hard_link(&clip, &link).unwrap();
        let line = ["firstword", "transcribe", "--output"].map(Into::into);
        let line = line
            .into_iter()
            .chain([link.into_os_string(), clip.clone().into_os_string()]);
        let crate::cli::Command::Transcribe(args) = crate::cli::Cli::parse_from(line).command
        else {
            panic!("not transcribe")
        };
        let refusal = open(&args).err().unwrap();
        assert_eq!(refusal.exit, Exit::Usage);
        assert_eq!(std::fs::read(&clip).unwrap(), b"sound");
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named() {
        let error = Writer::file(Path::new("/no/such/folder/talk.txt"))
            .err()
            .unwrap();
        assert_eq!(
            CommandError::from(error).to_string(),
            "/no/such/folder/talk.txt: can't be written: no such file or directory"
        );
    }
}
