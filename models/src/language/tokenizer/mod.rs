//! Text ↔ tokens: `tokenizer.json`, and how it is rebuilt from GGUF metadata.
//!
//! | route | when | Gemma's 262 144 tokens |
//! | --- | --- | --- |
//! | `tokenizer.firstword` | it lies beside `tokenizer.json` and stands for it (length and checksum) | 0.03–0.07 s, 31 MB |
//! | `tokenizer.json`, our tables | any byte pair model without it: published folders, a stale or torn compact form | 1.1–1.8 s, 113 MB |
//! | `tokenizer.json`, the crate's model | what our tables do not hold: Unigram, WordPiece, affixes, dropout | 1.2–3.0 s, 458 MB |
//!
//! (Load time and peak memory, measured on two busy cores of an AVX2 machine, dependencies at `opt-level` 2.)
//! Import writes the compact form; [`Tokenizer::open`] takes the first route that it can, and [`Tokenizer::route`] says
//! which, with the reason if there is a compact form that could not be used.
//!
//! Normalisers and pre-tokenisers are the `tokenizers` crate's on every route, so that a published file means here what
//! it means there.
//!
//! **Control tokens.** The text of a message must not be able to end its own turn. [`Tokenizer::encode`] with
//! [`Special::Plain`] reads `<|im_end|>` as eight harmless tokens; a whole conversation is rendered by
//! [`Template::render`](super::template::Template::render) into a [`Prompt`] that knows which places came from messages,
//! and [`Tokenizer::encode_prompt`] takes control tokens only from the template.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tokenizers::Normalizer as _;
use tokenizers::{
    Model as _, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString,
    PreTokenizer as _, PreTokenizerWrapper,
};

mod added;
mod bpe;
mod compact;
mod decoding;
mod definition;
mod gguf;
mod pre;

pub use compact::COMPACT_FILE;
pub use gguf::{GgufTokenizer, Rebuilt};

use added::{AddedTokens, Allow};
use compact::Identity;
use decoding::Decoding;
use definition::{Model, Rest};

const JSON_FILE: &str = "tokenizer.json";
const CONFIG_FILE: &str = "tokenizer_config.json";

/// No tokenizer is larger; a file that is would only fill the memory.
const MOST_BYTES: u64 = 512 << 20;

/// Special tokens that end a reply, where the files name only the end of the text (llama.cpp's list).
const TURN_ENDS: [&str; 8] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "<|end_of_text|>",
];

/// Why there is no tokenizer, or no tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A file of the folder cannot be read.
    #[error("cannot read {}: {source}; a language model's folder needs its tokenizer.json", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {reason}; fetch or import the model again", file.display())]
    Json {
        /// The file; its bare name, where it was never in a folder.
        file: PathBuf,
        /// What was expected and found.
        reason: String,
    },
    /// GGUF metadata that makes no tokenizer.
    #[error("{reason}")]
    Gguf {
        /// The key, what was expected and found.
        reason: String,
    },
    /// GGUF metadata lacks a key, or has it with another type.
    #[error(transparent)]
    Metadata(#[from] crate::gguf::MetadataError),
    /// The model cannot express this text.
    #[error("cannot turn the text into tokens: {reason}")]
    Encode {
        /// The crate's words.
        reason: String,
    },
}

/// What happens to control tokens (`<|im_end|>`, `<end_of_turn>`…) that stand in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// They become the tokens they name: for text of our own.
    Parse,
    /// They are text like any other: for text of someone else's.
    Plain,
}

/// How the tables came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// From the compact form.
    Compact,
    /// From `tokenizer.json`; with the reason if there is a compact form that could not be used.
    Json {
        /// Why not the compact form.
        because: Option<String>,
    },
}

/// A rendered conversation: its text, and where message contents might be mistaken for control tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    pub(super) text: String,
    /// Bytes of `text`, in order: no control token may reach across one.
    pub(super) breaks: Vec<usize>,
}

impl Prompt {
    /// A text that is not rendered: no control token is taken from it.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        // A control token would have to reach across every border of a character.
        let breaks = text.char_indices().map(|(at, _)| at).collect();
        Self { text, breaks }
    }

    /// The same without its first bytes, which end at a border of characters.
    pub fn after(&self, bytes: usize) -> Self {
        Self {
            text: self.text.get(bytes..).unwrap_or_default().to_owned(),
            breaks: self
                .breaks
                .iter()
                .filter_map(|at| at.checked_sub(bytes))
                .collect(),
        }
    }

    /// The text that the model will see.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A model's tokenizer. Cheap to share (`Arc`), expensive to copy.
#[derive(Debug)]
pub struct Tokenizer {
    added: AddedTokens,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    model: Model,
    decoding: Decoding,
    vocabulary: usize,
    bos: Option<u32>,
    eos: Vec<u32>,
    adds_bos: bool,
    route: Route,
}

/// The keys of `tokenizer_config.json` that are used here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    bos_token: Option<TokenName>,
    eos_token: Option<TokenName>,
    eot_token: Option<TokenName>,
    add_bos_token: Option<bool>,
}

/// `"<s>"` or `{"content": "<s>", …}`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TokenName {
    Plain(String),
    Described { content: String },
    Other(serde::de::IgnoredAny),
}

impl TokenName {
    fn text(&self) -> Option<&str> {
        match self {
            TokenName::Plain(text) | TokenName::Described { content: text } => Some(text),
            TokenName::Other(_) => None,
        }
    }
}

impl Tokenizer {
    /// Opens the tokenizer of a model's folder: `tokenizer.json`, and `tokenizer_config.json` if there is one.
    ///
    /// # Errors
    /// [`TokenizerError::Read`], [`TokenizerError::Json`].
    pub fn open(folder: &Path) -> Result<Self, TokenizerError> {
        let config_path = folder.join(CONFIG_FILE);
        let config = match read(&config_path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => b"{}".to_vec(),
            Err(source) => {
                let path = config_path;
                return Err(TokenizerError::Read { path, source });
            }
        };
        let json_path = folder.join(JSON_FILE);
        let because = match open_compact(folder, &json_path) {
            Ok((rest, tables)) => {
                let model = Model::Tables(Box::new(tables));
                return Self::assemble(rest, model, &config, Route::Compact, folder);
            }
            Err(because) => because,
        };
        let json = read(&json_path).map_err(|source| TokenizerError::Read {
            path: json_path,
            source,
        })?;
        Self::from_bytes(&json, &config, Route::Json { because }, folder)
    }

    /// The tokenizer that the bytes of a `tokenizer.json` and a `tokenizer_config.json` describe.
    ///
    /// # Errors
    /// [`TokenizerError::Json`].
    pub fn from_json(json: &[u8], config: &[u8]) -> Result<Self, TokenizerError> {
        Self::from_bytes(json, config, Route::Json { because: None }, Path::new(""))
    }

    /// `folder` is where the files lie, for errors.
    fn from_bytes(
        json: &[u8],
        config: &[u8],
        route: Route,
        folder: &Path,
    ) -> Result<Self, TokenizerError> {
        let (rest, model) = definition::parse(json).map_err(|reason| TokenizerError::Json {
            file: folder.join(JSON_FILE),
            reason,
        })?;
        Self::assemble(rest, model, config, route, folder)
    }

    fn assemble(
        rest: Rest,
        model: Model,
        config: &[u8],
        route: Route,
        folder: &Path,
    ) -> Result<Self, TokenizerError> {
        let config: Config =
            serde_json::from_slice(config).map_err(|error| TokenizerError::Json {
                file: folder.join(CONFIG_FILE),
                reason: error.to_string(),
            })?;
        let wrong = |reason: String| TokenizerError::Json {
            file: folder.join(JSON_FILE),
            reason,
        };
        let decoding = match &rest.decoder {
            Some(decoder) => {
                let decoder =
                    serde_json::to_value(decoder).map_err(|error| wrong(error.to_string()))?;
                Decoding::from_json(&decoder)
            }
            None => Decoding::default(),
        };
        let mut added_tokens = rest.added_tokens;
        for token in &mut added_tokens {
            // The model's own id counts, as in the crate.
            if let Some(id) = model.id(&token.content) {
                token.id = id;
            }
        }
        let added = AddedTokens::new(added_tokens, rest.normalizer.as_ref()).map_err(wrong)?;
        let highest = added.iter().map(|token| token.id as usize + 1).max();
        let mut tokenizer = Self {
            vocabulary: model.size().max(highest.unwrap_or(0)),
            added,
            normalizer: rest.normalizer,
            pre_tokenizer: rest.pre_tokenizer,
            model,
            decoding,
            bos: None,
            eos: Vec::new(),
            adds_bos: false,
            route,
        };
        let find =
            |name: &Option<TokenName>| name.as_ref()?.text().and_then(|text| tokenizer.id(text));
        let bos = find(&config.bos_token);
        let mut eos: Vec<u32> = [find(&config.eos_token), find(&config.eot_token)]
            .into_iter()
            .flatten()
            .collect();
        let ends = tokenizer.added.iter().filter(|token| token.is_control());
        eos.extend(
            ends.filter(|token| TURN_ENDS.contains(&token.content.as_str()))
                .map(|token| token.id),
        );
        let mut seen = Vec::new();
        eos.retain(|id| {
            !seen.contains(id) && {
                seen.push(*id);
                true
            }
        });
        let by_post_processor = rest.post_processor.as_ref().and_then(first_token);
        let by_post_processor = by_post_processor.and_then(|text| tokenizer.id(text));
        tokenizer.bos = bos.or(by_post_processor);
        tokenizer.adds_bos =
            tokenizer.bos.is_some() && config.add_bos_token.unwrap_or(by_post_processor.is_some());
        tokenizer.eos = eos;
        Ok(tokenizer)
    }

    /// The tokens of a text. No BOS is added.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`]: only models of the crate's (no byte pair model) refuse texts.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        let allow = match special {
            Special::Parse => Allow::Every,
            Special::Plain => Allow::None,
        };
        self.tokens(text, allow)
    }

    /// The tokens of a rendered conversation: control tokens are taken from its template, never from its messages.
    /// No BOS is added (a template writes it where its model wants it).
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, TokenizerError> {
        self.tokens(&prompt.text, Allow::Unbroken(&prompt.breaks))
    }

    fn tokens(&self, text: &str, allow: Allow<'_>) -> Result<Vec<u32>, TokenizerError> {
        let wrong = |error: tokenizers::Error| TokenizerError::Encode {
            reason: error.to_string(),
        };
        let mut pieces = PreTokenizedString::from(text);
        pieces
            .split(|_, piece| Ok(self.added.cut_raw(piece, allow)))
            .map_err(wrong)?;
        pieces
            .split(|_, mut piece| {
                if let Some(normalizer) = &self.normalizer {
                    normalizer.normalize(&mut piece)?;
                }
                Ok(self.added.cut_normalized(piece, allow))
            })
            .map_err(wrong)?;
        if let Some(cuts) = &self.pre_tokenizer {
            cuts.pre_tokenize(&mut pieces).map_err(wrong)?;
        }
        let mut ids = Vec::new();
        for (word, _, tokens) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::Byte)
        {
            match (tokens, &self.model) {
                (Some(tokens), _) => ids.extend(tokens.iter().map(|token| token.id)),
                (None, Model::Tables(tables)) => tables.tokenize(word, &mut ids),
                (None, Model::Crate(model)) => {
                    ids.extend(
                        model
                            .tokenize(word)
                            .map_err(wrong)?
                            .iter()
                            .map(|token| token.id),
                    );
                }
            }
        }
        Ok(ids)
    }

    /// The bytes that a token adds to the text (a character may be split across tokens); empty for an unknown id.
    /// A special token's bytes are its name's: whether it is shown is for the caller to decide.
    pub fn token_bytes(&self, id: u32) -> Cow<'_, [u8]> {
        match (self.added.get(id), &self.model) {
            (Some(token), _) if self.decoding.is_byte_level() => {
                Cow::Borrowed(token.content.as_bytes())
            }
            (Some(token), _) => Cow::Owned(self.decoding.bytes(&token.content)),
            (None, Model::Tables(tables)) => Cow::Owned(self.decoding.bytes(tables.token(id))),
            (None, Model::Crate(model)) => {
                let text = model.id_to_token(id).unwrap_or_default();
                Cow::Owned(self.decoding.bytes(&text))
            }
        }
    }

    /// The text of these tokens, special ones left out; bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        for &id in ids.iter().filter(|&&id| !self.is_special(id)) {
            bytes.extend_from_slice(&self.token_bytes(id));
        }
        let text = match bytes.split_first() {
            Some((b' ', rest)) if self.drops_first_space() => rest,
            _ => &bytes,
        };
        String::from_utf8_lossy(text).into_owned()
    }

    /// Whether a text's first space is not part of it (SentencePiece's `▁` before the first word).
    pub(super) fn drops_first_space(&self) -> bool {
        self.decoding.drops_first_space
    }

    /// The token with exactly this name, added or in the model's vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        let added = self.added.iter().find(|added| added.content == token);
        added.map(|added| added.id).or_else(|| self.model.id(token))
    }

    /// The name of a token as the files write it (`<|im_end|>`, `Ġthe`); `None` for an unknown id.
    pub fn name(&self, id: u32) -> Option<String> {
        let name = match (self.added.get(id), &self.model) {
            (Some(token), _) => Some(token.content.clone()),
            (None, Model::Tables(tables)) => Some(tables.token(id).to_owned()),
            (None, Model::Crate(model)) => model.id_to_token(id),
        };
        name.filter(|name| !name.is_empty())
    }

    /// How many ids there are: one more than the highest. A model may have more rows of logits than that.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Whether a token speaks about the conversation (begin, end, role) instead of being text.
    pub fn is_special(&self, id: u32) -> bool {
        self.added.get(id).is_some_and(added::Added::is_control)
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The tokens that end a reply: the end of the text first, then ends of a turn.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// Whether a text that is completed as it is (no template) begins with BOS.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// How it was loaded.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// A message's text with `mark` inside everything that reads like a control token.
    pub(super) fn guard<'t>(&self, text: &'t str, mark: char) -> Cow<'t, str> {
        self.added.guard(text, mark)
    }
}

impl Model {
    fn id(&self, token: &str) -> Option<u32> {
        match self {
            Model::Tables(tables) => tables.id(token),
            Model::Crate(model) => model.token_to_id(token),
        }
    }

    fn size(&self) -> usize {
        match self {
            Model::Tables(tables) => tables.len(),
            Model::Crate(model) => {
                let highest = model.get_vocab().into_values().max();
                highest.map_or(0, |id| id as usize + 1)
            }
        }
    }
}

/// Writes the compact form of a folder's `tokenizer.json` beside it; `false` if its model is none for our tables.
///
/// # Errors
/// [`TokenizerError::Read`], [`TokenizerError::Json`], [`TokenizerError::Write`].
pub fn write_compact(folder: &Path) -> Result<bool, TokenizerError> {
    let path = folder.join(JSON_FILE);
    let json = read(&path).map_err(|source| TokenizerError::Read { path, source })?;
    let wrong = |reason: String| TokenizerError::Json {
        file: folder.join(JSON_FILE),
        reason,
    };
    let (rest, model) = definition::parse(&json).map_err(wrong)?;
    let Model::Tables(tables) = model else {
        return Ok(false);
    };
    let rest = serde_json::to_vec(&rest).map_err(|error| wrong(error.to_string()))?;
    replace_file(
        &folder.join(COMPACT_FILE),
        &compact::to_bytes(Identity::of(&json), &rest, &tables),
    )?;
    Ok(true)
}

/// The compact form, if it stands for this `tokenizer.json`; else why not (`None`: there is none).
fn open_compact(folder: &Path, json: &Path) -> Result<(Rest, bpe::Bpe), Option<String>> {
    let bytes = read(&folder.join(COMPACT_FILE)).map_err(|error| {
        (error.kind() != io::ErrorKind::NotFound).then(|| format!("{COMPACT_FILE}: {error}"))
    })?;
    let unusable = |reason: String| Some(format!("{COMPACT_FILE}: {reason}"));
    let (identity, rest, tables) = compact::from_bytes(&bytes).map_err(unusable)?;
    let found = Identity::of_file(json).map_err(|error| unusable(error.to_string()))?;
    if found != identity {
        return Err(unusable(format!("it stands for another {JSON_FILE}")));
    }
    let rest = serde_json::from_slice(rest).map_err(|error| unusable(error.to_string()))?;
    Ok((rest, tables))
}

/// The special token that a post-processor puts before a single text.
fn first_token(post_processor: &Value) -> Option<&str> {
    if let Some(steps) = post_processor.get("processors").and_then(Value::as_array) {
        return steps.iter().find_map(first_token);
    }
    let first = post_processor.get("single")?.as_array()?.first()?;
    first.get("SpecialToken")?.get("id")?.as_str()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(MOST_BYTES)).unwrap_or(0));
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!(
            "expected at most {} MiB",
            MOST_BYTES >> 20
        )));
    }
    Ok(bytes)
}

/// Writes a file whole or not at all.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), TokenizerError> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        // Readable like any file of a model; the default would keep it to the owner.
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| TokenizerError::Write {
        path: path.to_owned(),
        source,
    })
}
