//! From GGUF metadata back to `tokenizer.json` and `tokenizer_config.json`.
//!
//! GGUF keeps a tokenizer as lists: tokens, their types, and merges (`gpt2`: byte-level byte pair encoding) or scores
//! (`llama`: SentencePiece). What the lists leave out is rebuilt: how text is cut before merging, and SentencePiece's
//! merges, which are every way to make a token from two others, the best score first. The result loads in Hugging
//! Face's `tokenizers` and in onnxruntime-genai as well as here.

use std::collections::HashMap;
use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::gguf::Metadata;

use super::added::{Added, is_control_shape};
use super::decoding::byte_of_name;
use super::pre::{byte_level, pre};
use super::{
    COMPACT_FILE, CONFIG_FILE, JSON_FILE, Tokenizer, TokenizerError, replace_file, write_compact,
};

/// Types of `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Turn ends that llama.cpp takes for control tokens whatever their type says.
const TURN_MARKS: [&str; 4] = ["<start_of_turn>", "<end_of_turn>", "<EOT>", "</s>"];

/// The tokenizer's part of GGUF metadata, key by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufTokenizer {
    /// `general.architecture`: Phi-3's control tokens swallow the white space after them, which no key says.
    pub architecture: String,
    /// `tokenizer.ggml.model`: `gpt2` or `llama`.
    pub model: String,
    /// `tokenizer.ggml.pre`.
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`; empty: all normal.
    pub types: Vec<i32>,
    /// `tokenizer.ggml.scores` (`llama`).
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.merges` (`gpt2`).
    pub merges: Vec<String>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`: the end of a turn where it is not the end of the text.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub padding: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix` (`llama`; absent: yes).
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.ggml.remove_extra_whitespaces` (`llama`; absent: no).
    pub remove_extra_whitespaces: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

/// The two files of a rebuilt tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The bytes of `tokenizer.json`.
    pub json: Vec<u8>,
    /// The bytes of `tokenizer_config.json`.
    pub config: Vec<u8>,
}

impl Rebuilt {
    /// The tokenizer that these files describe.
    ///
    /// # Errors
    /// [`TokenizerError::Json`].
    pub fn tokenizer(&self) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::from_json(&self.json, &self.config)
    }

    /// Writes both and the compact form into `folder`, each whole or not at all.
    ///
    /// # Errors
    /// [`TokenizerError::Write`].
    pub fn save(&self, folder: &Path) -> Result<(), TokenizerError> {
        replace_file(&folder.join(JSON_FILE), &self.json)?;
        replace_file(&folder.join(CONFIG_FILE), &self.config)?;
        write_compact(folder)
            .map(|written| debug_assert!(written, "{COMPACT_FILE} is for every rebuilt file"))
    }
}

impl GgufTokenizer {
    /// Reads the keys from a file's metadata.
    ///
    /// # Errors
    /// [`TokenizerError::Metadata`] names a key that is missing or of another type.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, TokenizerError> {
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let text = |key: &str| {
            metadata
                .find::<&str>(key)
                .map(|text| text.map(str::to_owned))
        };
        Ok(Self {
            architecture: metadata.str("general.architecture")?.to_owned(),
            model: metadata.str("tokenizer.ggml.model")?.to_owned(),
            pre: text("tokenizer.ggml.pre")?,
            tokens: owned(metadata.strs("tokenizer.ggml.tokens")?),
            types: metadata
                .find("tokenizer.ggml.token_type")?
                .unwrap_or_default(),
            scores: metadata.find("tokenizer.ggml.scores")?.unwrap_or_default(),
            merges: owned(metadata.find("tokenizer.ggml.merges")?.unwrap_or_default()),
            bos: metadata.find("tokenizer.ggml.bos_token_id")?,
            eos: metadata.find("tokenizer.ggml.eos_token_id")?,
            eot: metadata.find("tokenizer.ggml.eot_token_id")?,
            unknown: metadata.find("tokenizer.ggml.unknown_token_id")?,
            padding: metadata.find("tokenizer.ggml.padding_token_id")?,
            add_bos: metadata.find("tokenizer.ggml.add_bos_token")?,
            add_space_prefix: metadata.find("tokenizer.ggml.add_space_prefix")?,
            remove_extra_whitespaces: metadata.find("tokenizer.ggml.remove_extra_whitespaces")?,
            chat_template: text("tokenizer.chat_template")?,
        })
    }

    /// Rebuilds the files.
    ///
    /// # Errors
    /// [`TokenizerError::Gguf`] says which key is missing, contradicts another or names something unknown.
    pub fn rebuild(&self) -> Result<Rebuilt, TokenizerError> {
        self.check()?;
        let tokens = self.distinct_tokens()?;
        let json = match self.model.as_str() {
            "gpt2" => self.byte_level(&tokens)?,
            "llama" => self.sentence_piece(&tokens)?,
            other => {
                return Err(wrong(format!(
                    "tokenizer.ggml.model: expected \"gpt2\" or \"llama\", found {other:?}; \
                     other tokenizers are not supported"
                )));
            }
        };
        let config = serde_json::to_vec_pretty(&self.config(&tokens)?)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Rebuilt { json, config })
    }

    fn check(&self) -> Result<(), TokenizerError> {
        let count = self.tokens.len();
        if count == 0 {
            return Err(wrong(
                "tokenizer.ggml.tokens: expected tokens, found none".to_owned(),
            ));
        }
        let lists = [
            ("token_type", self.types.len(), self.types.is_empty()),
            ("scores", self.scores.len(), self.model != "llama"),
        ];
        for (key, length, optional) in lists {
            if !optional && length != count {
                return Err(wrong(format!(
                    "tokenizer.ggml.{key}: expected {count} values, one for each token, found {length}"
                )));
            }
        }
        let ids = [
            ("bos", self.bos),
            ("eos", self.eos),
            ("eot", self.eot),
            ("unknown", self.unknown),
            ("padding", self.padding),
        ];
        for (key, id) in ids {
            if let Some(id) = id
                && id as usize >= count
            {
                return Err(wrong(format!(
                    "tokenizer.ggml.{key}_token_id: expected an id below {count}, found {id}"
                )));
            }
        }
        Ok(())
    }

    /// The tokens' texts; one that is empty gets a name, as in llama.cpp.
    fn distinct_tokens(&self) -> Result<Vec<String>, TokenizerError> {
        let mut seen = HashMap::with_capacity(self.tokens.len());
        let mut tokens = Vec::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            let token = match token.as_str() {
                "" => format!("[EMPTY_{id}]"),
                token => token.to_owned(),
            };
            if let Some(first) = seen.insert(token.clone(), id) {
                return Err(wrong(format!(
                    "tokenizer.ggml.tokens: expected every token once, found {token:?} as {first} and as {id}"
                )));
            }
            tokens.push(token);
        }
        Ok(tokens)
    }

    fn kind(&self, id: usize) -> i32 {
        self.types.get(id).copied().unwrap_or(NORMAL)
    }

    fn added(&self, tokens: &[String]) -> Vec<Added> {
        let strips = self.architecture == "phi3" && self.model == "llama";
        let added = tokens.iter().enumerate().filter_map(|(id, token)| {
            let kind = self.kind(id);
            let marks_turn = kind == USER_DEFINED && TURN_MARKS.contains(&token.as_str());
            let special =
                kind == CONTROL || kind == UNKNOWN || marks_turn || is_control_shape(token);
            let of_interest = matches!(kind, UNKNOWN | CONTROL | USER_DEFINED);
            of_interest.then(|| Added {
                id: id as u32,
                content: token.clone(),
                single_word: false,
                lstrip: false,
                // From Phi-3's own tokenizer.json, as llama.cpp has it.
                rstrip: strips
                    && special
                    && !["<unk>", "<s>", "<|endoftext|>"].contains(&token.as_str()),
                normalized: false,
                special,
            })
        });
        added.collect()
    }

    fn byte_level(&self, tokens: &[String]) -> Result<Vec<u8>, TokenizerError> {
        let name = self.pre.as_deref().unwrap_or("default");
        let cuts = pre(name).ok_or_else(|| {
            wrong(format!(
                "tokenizer.ggml.pre: {name:?} is not known here; the text would be cut wrongly, so it is refused"
            ))
        })?;
        let mut merges = Vec::with_capacity(self.merges.len());
        for merge in &self.merges {
            // The first character may itself be a space in files of old converters.
            let cut = merge
                .char_indices()
                .skip(1)
                .find(|&(_, character)| character == ' ');
            let (at, _) = cut.ok_or_else(|| {
                wrong(format!(
                    "tokenizer.ggml.merges: expected \"left right\", found {merge:?}"
                ))
            })?;
            merges.push((&merge[..at], &merge[at + 1..]));
        }
        self.file(
            tokens,
            &merges,
            Parts {
                normalizer: cuts.normalizer,
                pre_tokenizer: cuts.pre_tokenizer,
                decoder: byte_level(true),
                unknown: None,
                fuse_unk: false,
                byte_fallback: false,
                ignore_merges: cuts.ignore_merges,
            },
        )
    }

    fn sentence_piece(&self, tokens: &[String]) -> Result<Vec<u8>, TokenizerError> {
        let prefix = self.add_space_prefix.unwrap_or(true);
        let mut steps = Vec::new();
        if self.remove_extra_whitespaces.unwrap_or(false) {
            steps.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
            steps.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}));
        }
        if prefix {
            steps.push(json!({"type": "Prepend", "prepend": "▁"}));
        }
        steps.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}));
        let normalizer = match steps.len() {
            1 => steps.swap_remove(0),
            _ => json!({"type": "Sequence", "normalizers": steps}),
        };
        let mut decoders = vec![
            json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if prefix {
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        let byte_fallback =
            (0..tokens.len()).any(|id| self.kind(id) == 6 || byte_of_name(&tokens[id]).is_some());
        self.file(
            tokens,
            &self.merges_by_score(tokens),
            Parts {
                normalizer,
                pre_tokenizer: Value::Null,
                decoder: json!({"type": "Sequence", "decoders": decoders}),
                unknown: self.unknown.map(|id| tokens[id as usize].clone()),
                fuse_unk: true,
                byte_fallback,
                ignore_merges: false,
            },
        )
    }

    /// Every way to make a normal token of two tokens, the best score first; within a score by id, then by the parts'
    /// ids (the order of Hugging Face's converter).
    fn merges_by_score<'t>(&self, tokens: &'t [String]) -> Vec<(&'t str, &'t str)> {
        let ids: HashMap<&str, u32> = (0..)
            .zip(tokens)
            .map(|(id, token)| (token.as_str(), id))
            .collect();
        let mut merges = Vec::new();
        for (id, token) in tokens
            .iter()
            .enumerate()
            .filter(|&(id, _)| self.kind(id) == NORMAL)
        {
            for (at, _) in token.char_indices().skip(1) {
                let (left, right) = token.split_at(at);
                if let (Some(&first), Some(&second)) = (ids.get(left), ids.get(right)) {
                    merges.push((self.scores[id], id, first, second));
                }
            }
        }
        merges.sort_unstable_by(|one, other| {
            let best_first = other.0.total_cmp(&one.0);
            best_first.then_with(|| (one.1, one.2, one.3).cmp(&(other.1, other.2, other.3)))
        });
        let text = |id: u32| tokens[id as usize].as_str();
        merges
            .iter()
            .map(|&(_, _, left, right)| (text(left), text(right)))
            .collect()
    }

    fn adds_bos(&self) -> bool {
        let usual = match self.model.as_str() {
            "llama" => true,
            _ => self
                .pre
                .as_deref()
                .and_then(pre)
                .is_some_and(|pre| pre.adds_bos),
        };
        self.bos.is_some() && self.add_bos.unwrap_or(usual)
    }

    fn file(
        &self,
        tokens: &[String],
        merges: &[(&str, &str)],
        parts: Parts,
    ) -> Result<Vec<u8>, TokenizerError> {
        let bos = self.bos.filter(|_| self.adds_bos());
        let post_processor = bos.map(|id| begins_with(&tokens[id as usize], id));
        let file = File {
            version: "1.0",
            truncation: None,
            padding: None,
            added_tokens: self.added(tokens),
            normalizer: parts.normalizer,
            pre_tokenizer: parts.pre_tokenizer,
            post_processor,
            decoder: parts.decoder,
            model: Model {
                kind: "BPE",
                dropout: None,
                unk_token: parts.unknown,
                continuing_subword_prefix: None,
                end_of_word_suffix: None,
                fuse_unk: parts.fuse_unk,
                byte_fallback: parts.byte_fallback,
                ignore_merges: parts.ignore_merges,
                vocab: Vocabulary(tokens),
                merges,
            },
        };
        serde_json::to_vec(&file).map_err(|error| wrong(error.to_string()))
    }

    /// The keys that Hugging Face and onnxruntime-genai read.
    fn config(&self, tokens: &[String]) -> Result<Value, TokenizerError> {
        let text = |id: Option<u32>| id.map(|id| tokens[id as usize].as_str());
        let mut config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": self.adds_bos(),
            "add_eos_token": false,
            "bos_token": text(self.bos),
            "eos_token": text(self.eos),
            "unk_token": text(self.unknown),
            "pad_token": text(self.padding),
            "clean_up_tokenization_spaces": false,
        });
        // Not a key of Hugging Face's: which further token ends a reply.
        if let Some(eot) = text(self.eot).filter(|_| self.eot != self.eos) {
            config["eot_token"] = eot.into();
        }
        if let Some(template) = &self.chat_template {
            config["chat_template"] = template.as_str().into();
        }
        Ok(config)
    }
}

/// The post-processor that puts one token first.
fn begins_with(token: &str, id: u32) -> Value {
    let first = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |sequence: &str, kind: u32| json!({"Sequence": {"id": sequence, "type_id": kind}});
    json!({
        "type": "TemplateProcessing",
        "single": [first, text("A", 0)],
        "pair": [first, text("A", 0), {"SpecialToken": {"id": token, "type_id": 1}}, text("B", 1)],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    })
}

fn wrong(reason: String) -> TokenizerError {
    TokenizerError::Gguf { reason }
}

struct Parts {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    unknown: Option<String>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
}

#[derive(Serialize)]
struct File<'a> {
    version: &'static str,
    truncation: Option<()>,
    padding: Option<()>,
    added_tokens: Vec<Added>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Option<Value>,
    decoder: Value,
    model: Model<'a>,
}

#[derive(Serialize)]
struct Model<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    dropout: Option<()>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<()>,
    end_of_word_suffix: Option<()>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: Vocabulary<'a>,
    merges: &'a [(&'a str, &'a str)],
}

/// Written in the order of the ids, without a map in between.
struct Vocabulary<'a>(&'a [String]);

impl Serialize for Vocabulary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((0_u32..).zip(self.0).map(|(id, token)| (token, id)))
    }
}
