//! What a `tokenizer.json` says, read without building a string per token.
//!
//! The `tokenizers` crate reads the model into a generic JSON value first and then into hash maps. For byte pair
//! encoding, which all our language models use, the vocabulary and the merges are borrowed from the file's text and go
//! straight into [`Bpe`]'s tables. Anything else (Unigram, WordPiece, dropout, affixes) is left to the crate.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tokenizers::{DecoderWrapper, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use super::added::Added;
use super::bpe::{Bpe, Rules};

/// Everything but the model: small, and what the compact form keeps as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rest {
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
    #[serde(default)]
    pub(super) normalizer: Option<NormalizerWrapper>,
    #[serde(default)]
    pub(super) pre_tokenizer: Option<PreTokenizerWrapper>,
    #[serde(default)]
    pub(super) decoder: Option<DecoderWrapper>,
    #[serde(default)]
    pub(super) post_processor: Option<serde_json::Value>,
}

/// What turns a word into tokens.
#[derive(Debug)]
pub(super) enum Model {
    /// Our tables.
    Tables(Box<Bpe>),
    /// The crate's.
    Crate(Box<ModelWrapper>),
}

/// Reads a `tokenizer.json`.
///
/// # Errors
/// One line: what the JSON lacks.
pub(super) fn parse(json: &[u8]) -> Result<(Rest, Model), String> {
    #[derive(Deserialize)]
    struct File<'a> {
        #[serde(default)]
        added_tokens: Vec<Added>,
        #[serde(default)]
        normalizer: Option<NormalizerWrapper>,
        #[serde(default)]
        pre_tokenizer: Option<PreTokenizerWrapper>,
        #[serde(default)]
        decoder: Option<DecoderWrapper>,
        #[serde(default)]
        post_processor: Option<serde_json::Value>,
        #[serde(borrow)]
        model: ModelText<'a>,
    }
    let file: File<'_> = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let rest = Rest {
        added_tokens: file.added_tokens,
        normalizer: file.normalizer,
        pre_tokenizer: file.pre_tokenizer,
        decoder: file.decoder,
        post_processor: file.post_processor,
    };
    let model = match file.model.tables() {
        Ok(Some(tables)) => Model::Tables(Box::new(tables)),
        Ok(None) => Model::Crate(Box::new(crate_model(json)?)),
        // The crate may know a way with it; if not, its error would only hide ours.
        Err(reason) => Model::Crate(Box::new(crate_model(json).map_err(|_| reason)?)),
    };
    Ok((rest, model))
}

fn crate_model(json: &[u8]) -> Result<ModelWrapper, String> {
    let whole = tokenizers::Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
    Ok(whole.get_model().clone())
}

#[derive(Deserialize)]
struct ModelText<'a> {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: Option<bool>,
    #[serde(default)]
    byte_fallback: Option<bool>,
    #[serde(default)]
    ignore_merges: Option<bool>,
    #[serde(borrow, default)]
    vocab: Vocabulary<'a>,
    #[serde(borrow, default)]
    merges: Merges<'a>,
}

impl ModelText<'_> {
    /// `None`: no model for our tables.
    fn tables(&self) -> Result<Option<Bpe>, String> {
        let kind = self.kind.as_deref();
        let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let (Vocabulary::Map(vocabulary), Merges::Pairs(merges)) = (&self.vocab, &self.merges)
        else {
            return Ok(None);
        };
        if kind.is_some_and(|kind| kind != "BPE")
            || self.dropout.is_some_and(|chance| chance != 0.0)
            || filled(&self.continuing_subword_prefix)
            || filled(&self.end_of_word_suffix)
        {
            return Ok(None);
        }
        let vocabulary: Vec<(&str, u32)> = vocabulary
            .iter()
            .map(|(text, id)| (text.as_ref(), *id))
            .collect();
        let merges: Vec<(&str, &str)> = merges.iter().map(Pair::parts).collect::<Result<_, _>>()?;
        let rules = Rules {
            unknown: None,
            fuse_unknown: self.fuse_unk.unwrap_or(false),
            byte_fallback: self.byte_fallback.unwrap_or(false),
            ignore_merges: self.ignore_merges.unwrap_or(false),
        };
        Bpe::build(&vocabulary, &merges, self.unk_token.as_deref(), rules).map(Some)
    }
}

/// A JSON string, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default)]
enum Vocabulary<'a> {
    Map(Vec<(Cow<'a, str>, u32)>),
    #[default]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocabulary<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Vocabulary<'de>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a map from token to id")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tokens = Vec::new();
                while let Some(Text(token)) = map.next_key()? {
                    tokens.push((token, map.next_value()?));
                }
                Ok(Vocabulary::Map(tokens))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Vocabulary::Other)
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

#[derive(Default)]
enum Merges<'a> {
    Pairs(Vec<Pair<'a>>),
    #[default]
    Absent,
}

impl<'de: 'a, 'a> Deserialize<'de> for Merges<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Merges::Pairs(Vec::deserialize(deserializer)?))
    }
}

/// `"left right"`, as files were written until 2024, or `["left", "right"]`.
enum Pair<'a> {
    Joined(Cow<'a, str>),
    Parts(Cow<'a, str>, Cow<'a, str>),
}

impl Pair<'_> {
    fn parts(&self) -> Result<(&str, &str), String> {
        match self {
            Pair::Parts(left, right) => Ok((left, right)),
            Pair::Joined(both) => both
                .split_once(' ')
                .filter(|(_, right)| !right.contains(' '))
                .ok_or_else(|| format!("expected a merge of two parts, found {both:?}")),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pair<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Pair<'de>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a merge: \"left right\" or [left, right]")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Pair::Joined(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Pair::Joined(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let short = |found| serde::de::Error::invalid_length(found, &"two parts");
                let Text(left) = list.next_element()?.ok_or_else(|| short(0))?;
                let Text(right) = list.next_element()?.ok_or_else(|| short(1))?;
                if list.next_element::<IgnoredAny>()?.is_some() {
                    return Err(short(3));
                }
                Ok(Pair::Parts(left, right))
            }
        }
        deserializer.deserialize_any(Reads)
    }
}
