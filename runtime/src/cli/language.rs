//! What can be typed for language models: `chat`, `listen`, `model import`, `model synth`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Pace;

/// Arguments of `firstword chat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without PROMPT: a conversation, line by line. What was said before stays in the
cache: only what is new goes through the model. On a terminal, lines can be edited
and called back; Ctrl-C stops a reply and keeps the conversation, Ctrl-D ends it.
  /reset   forget the conversation
  /stats   what the last reply cost
  /help    these commands
With PROMPT, or with `-` for standard input: one reply, and nothing else on
standard output. A model without a chat template continues the text instead, and
says so. A PROMPT of several words may begin with a hyphen; a single word that does
(and is no number) goes after `--`. JSON that was cut (--max-tokens) is said on
standard error, with exit code 8.

Examples:
  firstword chat \"Why is the sky blue?\"
  firstword chat --system \"Answer in one sentence.\" --stats
  firstword chat --json-schema person.json \"Invent a person.\"
  git diff | firstword chat -")]
pub struct ChatArgs {
    /// What to answer; `-` is standard input [default: a conversation]
    #[arg(value_name = "PROMPT", allow_negative_numbers = true)]
    pub prompt: Option<OsString>,
    /// What the model shall be and do, ahead of the conversation [default: what its template says]
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Continue the text as it is, without the chat template
    #[arg(long, conflicts_with = "system")]
    pub raw: bool,
    /// Print what the reply cost on standard error
    #[arg(long)]
    pub stats: bool,
    /// Which model, and how it chooses its words.
    #[command(flatten)]
    pub language: LanguageArgs,
}

/// Arguments of `firstword listen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each utterance is a turn: its words are printed after `> `, the reply below it as
it comes. Every turn is one record in the latency log, from the last sample of the
speech to the last token of the reply.

Examples:
  firstword listen question.wav
  firstword listen --pace realtime --timings question.wav
  arecord -q -f S16_LE -r 16000 -t wav | firstword listen -")]
pub struct ListenArgs {
    /// A recording; `-` is standard input (a WAV stream)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Read as fast as possible (file), or one second of sound per second (realtime)
    #[arg(long, value_name = "PACE", default_value = "file")]
    pub pace: Pace,
    /// Words and replies as text, or one JSON object per line for each utterance and each turn
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: ListenFormat,
    /// What the model shall be and do, ahead of the conversation
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Answer in one short sentence."
    )]
    pub system: String,
    /// Print a table of where the time of each turn went, on standard error
    #[arg(long)]
    pub timings: bool,
    /// Which model, and how it chooses its words.
    #[command(flatten)]
    pub language: LanguageArgs,
}

/// How turns are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListenFormat {
    /// The words, and the reply below them
    Text,
    /// One object per line
    Json,
}

/// Which language model answers, and how it chooses its words.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The reply")]
pub struct LanguageArgs {
    /// Language model: a name from `firstword model list`, or a folder with a / in its path [default: language.model of the configuration]
    #[arg(long, value_name = "NAME|DIR")]
    pub model: Option<OsString>,
    /// Where the model runs [default: language.target of the configuration, cpu]
    #[arg(long, value_name = "TARGET")]
    pub target: Option<OsString>,
    /// Longest reply, in tokens [default: language.max_tokens of the configuration]
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<OsString>,
    /// Chance in the choice of words: 0 always takes the most likely one [default: 0]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Choose among the K most likely tokens only; 0: all [default: 0]
    #[arg(long, value_name = "K")]
    pub top_k: Option<u32>,
    /// Choose among the most likely tokens that together have this probability [default: 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Leave out tokens less likely than this share of the most likely one [default: 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Make tokens that occurred less likely: 1 does nothing [default: 1]
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f32>,
    /// Subtract this from the logits of tokens that occurred in the reply [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub presence_penalty: Option<f32>,
    /// Subtract this once for each time a token occurred in the reply [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub frequency_penalty: Option<f32>,
    /// The same seed gives the same text [default: a new one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// End the reply before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Answer with JSON that follows the schema in this file
    #[arg(long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,
}

/// Arguments of `firstword model import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Writes a folder that onnxruntime-genai reads as well: model.onnx with its weights in
one file beside it, tokenizer.json, genai_config.json, and firstword.json, which says
where it came from and how well it was measured to agree with the exact weights. (In
the form plain there is no genai_config.json: onnxruntime-genai does not run that.)

Precisions:
  exact     the file's own numbers, or as near as ONNX Runtime's operators allow
  balanced  8-bit weights, 14-bit inputs; exact where it matters most
  fast      8-bit weights, 8-bit inputs but where more is measured to matter;
            the default

The form plain has exact only.

Examples:
  firstword model import Llama-3.2-1B-Instruct-Q4_K_M.gguf
  firstword model import --as phi3 --quant exact Phi-3-mini-4k-instruct-q4.gguf
  firstword chat --model phi3 \"Hello\"")]
pub struct ModelImportArgs {
    /// The GGUF file, or any part of a split one; also the name of a catalogue entry that is here
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The model's name from then on [default: the file's name without its ending]
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Precision of the weights [default: fast; exact in the form plain, which has no other]
    #[arg(long, value_name = "PRECISION")]
    pub quant: Option<Quant>,
    /// Form of the graph: fused for the CPU and CUDA, plain for OpenVINO and TensorRT
    #[arg(long, value_name = "FLAVOUR", default_value = "fused")]
    pub flavour: FlavourArg,
    /// Write the folder here, not into the store
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
}

/// Precision of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Quant {
    /// The file's own numbers
    Exact,
    /// 8 bits, 16 for the most sensitive inputs
    Balanced,
    /// 8 bits for weights and their inputs
    Fast,
}

/// Form of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlavourArg {
    /// ONNX Runtime's own operators
    Fused,
    /// Standard operators
    Plain,
}

/// Arguments of `firstword model synth`.
#[derive(Debug, Args)]
#[command(after_help = "\
For latency and memory only: the graph is the real one in full size, the weights are
random, and what the model says means nothing. The folder says so, `model list` and
`chat` say so. The same bytes each time, on every machine.

phi3-mini is Phi-3-mini-4k: 3.8 billion weights. The folder takes 2.6 GB with
--quant exact and 3.9 GB otherwise, and 2.2 GB more while it is made. A GGUF file is
Q4_0 and takes 2.2 GB; `model import` reads it like any other.

Examples:
  firstword model synth phi3-mini
  firstword chat --model phi3-mini-random --stats --max-tokens 64 \"Hello\"
  firstword model synth phi3-mini --format gguf --out phi3-mini-random.gguf")]
pub struct ModelSynthArgs {
    /// Whose sizes
    #[arg(value_name = "MODEL")]
    pub model: SynthModel,
    /// A folder that runs, or a GGUF file to be imported
    #[arg(long, value_name = "FORMAT", default_value = "onnx")]
    pub format: SynthFormat,
    /// The model's name, or the file's without its ending [default: MODEL-random]
    #[arg(long = "as", value_name = "NAME", conflicts_with = "out")]
    pub name: Option<String>,
    /// Write the folder or the file here [default: the folder into the store, the file into this folder]
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Precision of the folder's weights [default: fast]
    #[arg(long, value_name = "PRECISION")]
    pub quant: Option<Quant>,
}

/// Whose sizes a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SynthModel {
    /// Phi-3-mini-4k: 32 layers, 3072 wide, 32064 tokens
    Phi3Mini,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SynthFormat {
    /// A folder that runs
    Onnx,
    /// A GGUF file in Q4_0
    Gguf,
}
