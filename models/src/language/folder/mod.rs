//! What is in a model folder: ours, ONNX Runtime GenAI's, Optimum's and transformers.js's; and what is missing.
//!
//! | found | read as |
//! | --- | --- |
//! | `firstword.json` | a folder that `model import` wrote |
//! | `genai_config.json` | ONNX Runtime GenAI |
//! | `config.json` and a decoder, here or in `onnx/` | Optimum or transformers.js |
//!
//! in this order. The graph itself is asked for names, sizes and kinds of numbers (its weights are not
//! read); the configuration files give what a graph does not say. Where both say it, they must agree.

mod error;
mod genai;
mod json;
mod optimum;
mod ours;
mod outline;
mod signature;

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use memmap2::Mmap;

pub use error::FolderError;
pub use signature::{Element, LayerNames, Layout, Signature};

use outline::Outline;
use signature::{Names, Sizes};

/// Who wrote the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `firstword model import`.
    Firstword,
    /// ONNX Runtime GenAI's model builder.
    GenAi,
    /// Optimum, or the scripts of transformers.js.
    Optimum,
}

/// The sizes that matter to whoever runs the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// Layers with a cache.
    pub layers: usize,
    /// Heads of keys and values in each layer.
    pub kv_heads: usize,
    /// Numbers of one head.
    pub head_dim: usize,
    /// Tokens there are: each row of logits has this many numbers.
    pub vocabulary: usize,
    /// Positions the model was trained on: prompt and reply together, in tokens.
    pub window: usize,
    /// Positions that a layer with a sliding window looks back, itself included.
    pub local_window: Option<usize>,
    /// LongRoPE: past this length the rotation's factors are others.
    pub original_window: Option<usize>,
}

impl ModelShape {
    /// Bytes of keys and values for one token.
    #[must_use]
    pub fn cache_bytes(&self, element: Element) -> u64 {
        [
            2,
            self.layers,
            self.kv_heads,
            self.head_dim,
            element.bytes(),
        ]
        .into_iter()
        .fold(1_u64, |product, n| product.saturating_mul(n as u64))
    }
}

/// A folder whose files are all there and fit each other.
#[derive(Clone, Debug)]
pub struct LanguageFolder {
    /// The folder.
    pub path: PathBuf,
    /// Who wrote it.
    pub origin: Origin,
    /// The decoder's graph.
    pub graph: PathBuf,
    /// The graph for a prompt with nothing before it, where [`LanguageFolder::graph`] always wants a
    /// past (Optimum's `decoder_model.onnx` beside `decoder_with_past_model.onnx`).
    pub first: Option<(PathBuf, Signature)>,
    /// What the graph does with the cache.
    pub layout: Layout,
    /// How the graph is called.
    pub signature: Signature,
    /// Sizes.
    pub shape: ModelShape,
    /// The family, as the folder names it: `llama`, `phi3`, `gemma3_text` …
    pub architecture: String,
    /// The precision, as the folder names it: `exact`, `q4`, `fp16` …
    pub precision: String,
    /// What whoever uses it should know, if the folder says so.
    pub remark: Option<String>,
    /// The tokens that end a reply.
    pub eos: Vec<u32>,
    /// The token that begins a text.
    pub bos: Option<u32>,
    /// Bytes of all weights, in the graph and beside it.
    pub weight_bytes: u64,
}

/// What the configuration files of a layout say.
struct Description {
    origin: Origin,
    graph: PathBuf,
    first: Option<PathBuf>,
    /// `None`: names are looked for in the graph.
    names: Option<Names>,
    layout: Wanted,
    layers: Option<usize>,
    kv_heads: Option<usize>,
    head_dim: Option<usize>,
    vocabulary: Option<usize>,
    window: Option<usize>,
    local_window: Option<usize>,
    original_window: Option<usize>,
    architecture: String,
    precision: String,
    remark: Option<String>,
    eos: Vec<u32>,
    bos: Option<u32>,
    /// The file that said so.
    said_by: PathBuf,
}

/// What the configuration says of the cache.
enum Wanted {
    Exactly(Layout),
    /// One buffer is bound as past and present, or not.
    Shared(bool),
}

impl LanguageFolder {
    /// Reads what is in a folder; of several variants the first in this order: `q4`, no suffix (f32),
    /// `fp16`, `q4f16`, `int8`, `quantized`, `uint8`, `bnb4`. Quality at a speed fit for a small device
    /// first: 4-bit weights in blocks keep activations in f32; int8 variants quantise activations with
    /// one scale for all, which costs language models most; f16 has to be widened on most CPUs.
    ///
    /// # Errors
    ///
    /// [`FolderError`], which says what is missing or does not fit.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        Self::open_variant(path, None)
    }

    /// The same with the variant named: `q4`, `fp16` …, or `f32` for the one without a suffix.
    ///
    /// # Errors
    ///
    /// As [`LanguageFolder::open`], and [`FolderError::Variant`].
    pub fn open_variant(path: &Path, variant: Option<&str>) -> Result<Self, FolderError> {
        let names = listed(path)?;
        let there = |name: &str| names.iter().any(|found| found == name);
        let description = if there(ours::FILE) {
            ours::read(path)?
        } else if there(genai::FILE) {
            genai::read(path)?
        } else if there(optimum::FILE)
            || names
                .iter()
                .any(|name| name.ends_with(".onnx") || name == "onnx")
        {
            optimum::read(path, variant)?
        } else {
            let mut found = names.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
            match names.len() {
                0 => found.push_str("nothing"),
                n if n > 6 => found.push_str(&format!(" and {} more", n - 6)),
                _ => (),
            }
            let folder = path.to_owned();
            return Err(FolderError::Unknown { folder, found });
        };
        if let (Some(asked), true) = (variant, description.origin != Origin::Optimum)
            && asked != description.precision
        {
            return Err(FolderError::Variant {
                folder: path.to_owned(),
                asked: asked.to_owned(),
                have: format!("only {}", description.precision),
            });
        }
        if !there("tokenizer.json") {
            return Err(FolderError::Missing {
                folder: path.to_owned(),
                file: "tokenizer.json".to_owned(),
                why: match there("tokenizer.model") {
                    true => "tokenizer.model alone is not read; fetch the file from the model's page",
                    false => "text can't be turned into tokens without it; fetch it from the model's page",
                }
                .to_owned(),
            });
        }
        description.open(path)
    }
}

impl Description {
    fn open(self, path: &Path) -> Result<LanguageFolder, FolderError> {
        let (outline, mut weight_bytes) = outlined(path, &self.graph)?;
        let said = |said: String| FolderError::Graph {
            file: self.graph.clone(),
            said,
        };
        let names = self
            .names
            .clone()
            .unwrap_or_else(|| Names::found_in(&outline));
        let (signature, sizes) = Signature::of(&outline, &names).map_err(said)?;
        let layout = match self.layout {
            Wanted::Exactly(layout) => layout,
            Wanted::Shared(shared) => signature.layout(&outline, shared).map_err(said)?,
        };
        if layout == Layout::Rows
            && (signature.additive_mask.is_none() || signature.position_ids.is_none())
        {
            return Err(said(
                "a plain graph has inputs attn_mask and position_ids, this one lacks one"
                    .to_owned(),
            ));
        }
        let first = match &self.first {
            None => None,
            Some(file) => {
                let (outline, more) = outlined(path, file)?;
                weight_bytes = weight_bytes.saturating_add(more);
                Some((file.clone(), self.first_signature(&outline, &signature)?))
            }
        };
        let shape = self.shape(&signature, sizes)?;
        Ok(LanguageFolder {
            path: path.to_owned(),
            origin: self.origin,
            graph: self.graph,
            first,
            layout,
            signature,
            shape,
            architecture: self.architecture,
            precision: self.precision,
            remark: self.remark,
            eos: self.eos,
            bos: self.bos,
            weight_bytes,
        })
    }

    /// The first graph is called like the other, without a past.
    fn first_signature(
        &self,
        outline: &Outline,
        with_past: &Signature,
    ) -> Result<Signature, FolderError> {
        let file = self.first.clone().unwrap_or_default();
        let optional =
            |name: &Option<String>| name.clone().filter(|name| outline.input(name).is_some());
        let signature = Signature {
            attention_mask: optional(&with_past.attention_mask),
            position_ids: optional(&with_past.position_ids),
            one_token: false,
            ..with_past.clone()
        };
        let missing = std::iter::once(&signature.logits)
            .chain(signature.layers.iter().flat_map(|layer| &layer.present))
            .find(|name| outline.output(name).is_none());
        match missing {
            None => Ok(signature),
            Some(name) => Err(FolderError::Graph {
                file,
                said: format!("it has no output {name}"),
            }),
        }
    }

    /// What the graph says, completed by the configuration; where both speak they must agree.
    fn shape(&self, signature: &Signature, sizes: Sizes) -> Result<ModelShape, FolderError> {
        let agreed = |what: &str, graph: Option<usize>, said: Option<usize>| match (graph, said) {
            (Some(graph), Some(said)) if graph != said => Err(FolderError::Configuration {
                file: self.said_by.clone(),
                said: format!(
                    "it says {what} {said}, but the graph {} has {graph}",
                    name_of(&self.graph)
                ),
            }),
            (Some(n), _) | (None, Some(n)) if n > 0 => Ok(n),
            _ => Err(FolderError::Configuration {
                file: self.said_by.clone(),
                said: format!("neither it nor the graph says the {what}"),
            }),
        };
        // Embeddings are often padded: the graph's own figure is the number of logits.
        let vocabulary = sizes.vocabulary.or(self.vocabulary);
        Ok(ModelShape {
            layers: agreed(
                "number of layers",
                Some(signature.layers.len()),
                self.layers,
            )?,
            kv_heads: agreed("number of key/value heads", sizes.kv_heads, self.kv_heads)?,
            head_dim: agreed("head size", sizes.head_dim, self.head_dim)?,
            vocabulary: agreed("size of the vocabulary", vocabulary, None)?,
            window: agreed("window (context length)", self.window, None)?,
            local_window: self.local_window,
            original_window: self
                .original_window
                .filter(|&n| self.window.is_some_and(|window| n < window)),
        })
    }
}

/// The names in a folder, sorted.
fn listed(path: &Path) -> Result<Vec<String>, FolderError> {
    let unreadable = |source| FolderError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        names.push(
            entry
                .map_err(unreadable)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    Ok(names)
}

fn name_of(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The outline of a graph, and the bytes of the graph with the files of weights it refers to, which
/// are checked to be there and long enough.
fn outlined(folder: &Path, file: &Path) -> Result<(Outline, u64), FolderError> {
    let unreadable = |source| FolderError::Unreadable {
        path: file.to_owned(),
        source,
    };
    let opened = match File::open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(FolderError::Missing {
                folder: folder.to_owned(),
                file: file
                    .strip_prefix(folder)
                    .unwrap_or(file)
                    .display()
                    .to_string(),
                why: "it is the decoder's graph".to_owned(),
            });
        }
        other => other.map_err(unreadable)?,
    };
    let metadata = opened.metadata().map_err(unreadable)?;
    let said = |said: String| FolderError::Graph {
        file: file.to_owned(),
        said,
    };
    if !metadata.is_file() || metadata.len() == 0 {
        return Err(said("it is empty or no file".to_owned()));
    }
    // SAFETY: the mapping is read only and lives for this call. A model folder is not written to while
    // it is opened (the store renames whole folders into place); if another program cut the file short
    // meanwhile, reading would raise SIGBUS, as with every mapped file.
    let bytes = unsafe { Mmap::map(&opened) }.map_err(unreadable)?;
    let outline = Outline::of(&bytes).map_err(said)?;

    let mut total = metadata.len();
    for (name, &needed) in &outline.external {
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside {
            return Err(said(format!(
                "it refers to weights outside of its folder: {name}"
            )));
        }
        let weights = file.with_file_name("").join(name);
        let found = match fs::metadata(&weights) {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            _ => {
                return Err(FolderError::Missing {
                    folder: folder.to_owned(),
                    file: weights
                        .strip_prefix(folder)
                        .unwrap_or(&weights)
                        .display()
                        .to_string(),
                    why: format!("{} refers to it", name_of(file)),
                });
            }
        };
        if found < needed {
            return Err(FolderError::CutShort {
                file: weights,
                found,
                needed,
            });
        }
        total = total.saturating_add(found);
    }
    Ok((outline, total))
}
