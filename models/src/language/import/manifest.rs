//! `firstword.json`: what a folder was made from, how, and what running it needs to know.

use serde::{Deserialize, Serialize};

use super::{ImportError, ImportRequest};
use crate::gguf::Metadata;
use crate::language::architecture::Description;

/// Raised when a reader of the old form would misunderstand the new one.
pub const SCHEMA: u32 = 1;

/// The key of a GGUF file whose text is passed on to the manifest, for whoever uses the model.
pub const REMARK_KEY: &str = "firstword.remark";

/// The manifest of an imported model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of this file: 1.
    pub schema: u32,
    /// The model's name.
    pub name: String,
    /// What it was made from.
    pub source: Source,
    /// The family, as GGUF names it.
    pub architecture: String,
    /// In which operators the graph is written.
    pub flavour: String,
    /// How weights are laid down.
    pub precision: String,
    /// The version of the program that made it.
    pub importer: String,
    /// What whoever uses the model should know of it, if the source says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// What the source says of its licence.
    pub licence: Option<String>,
    /// Layers.
    pub layers: usize,
    /// Key and value heads of each layer.
    pub kv_heads: usize,
    /// Numbers of one head.
    pub head_dim: usize,
    /// Logits of one token.
    pub vocabulary: usize,
    /// The longest sequence, in tokens.
    pub window: usize,
    /// How many tokens each layer sees, in order; `null` for all.
    pub attention_windows: Vec<Option<usize>>,
    /// The token that begins a text.
    pub bos: Option<u32>,
    /// Whether the model was made for texts that begin with it.
    pub add_bos: bool,
    /// The tokens that end a text.
    pub eos: Vec<u32>,
    /// The token that ends a turn.
    pub eot: Option<u32>,
    /// What is special about the rotation.
    pub rope: Rope,
    /// How far it is from `exact`, where that was measured.
    pub quality: Option<Quality>,
}

/// The file a model was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name, without folders.
    pub file: String,
    /// Of all parts one after another, in hexadecimal.
    pub sha256: String,
    /// Bytes of all parts.
    pub bytes: u64,
}

/// What is special about the rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rope {
    /// With a LongRoPE: the length over which the long factors are used, in tokens.
    pub original_window: Option<usize>,
}

/// How far a model is from another precision of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The mean Kullback-Leibler divergence of the next token's distribution, in nats.
    pub kl: f64,
    /// How often the most likely token is the same, 0 to 1.
    pub top1: f64,
    /// Perplexity divided by the other's.
    pub perplexity_ratio: f64,
    /// The other precision.
    pub against: String,
    /// The text both were measured on.
    pub text: String,
}

impl Manifest {
    pub(super) fn of(
        request: &ImportRequest<'_>,
        metadata: &Metadata,
        description: &Description,
        source: Source,
        window: usize,
    ) -> Result<Self, ImportError> {
        let token = |key: &str| -> Result<Option<u32>, ImportError> {
            let id = metadata.find::<u32>(&format!("tokenizer.ggml.{key}_token_id"))?;
            // Some converters write the largest number for "none".
            Ok(id.filter(|&id| (id as usize) < description.vocabulary))
        };
        let eot = token("eot")?;
        let mut eos: Vec<u32> = token("eos")?.into_iter().collect();
        eos.extend(eot.filter(|id| !eos.contains(id)));
        let stem = request
            .source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        Ok(Self {
            schema: SCHEMA,
            name: request.name.clone().unwrap_or_else(|| stem.into_owned()),
            source,
            architecture: description.architecture.to_owned(),
            flavour: request.flavour.name().to_owned(),
            precision: request.precision.name().to_owned(),
            importer: env!("CARGO_PKG_VERSION").to_owned(),
            remark: metadata.find::<&str>(REMARK_KEY)?.map(str::to_owned),
            licence: metadata.find::<&str>("general.license")?.map(str::to_owned),
            layers: description.layers.len(),
            kv_heads: description.kv_heads,
            head_dim: description.head_dim,
            vocabulary: description.vocabulary,
            window,
            attention_windows: description.windows(),
            bos: token("bos")?,
            add_bos: metadata
                .find::<bool>("tokenizer.ggml.add_bos_token")?
                .unwrap_or(false),
            eos,
            eot,
            rope: Rope {
                original_window: description
                    .original_window()
                    .filter(|&original| original < window),
            },
            quality: None,
        })
    }

    /// The file's contents.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}
