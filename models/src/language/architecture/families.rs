//! The families: in what each differs from the others, and how a model of it is read.
//!
//! Sources: the converters and graphs of llama.cpp (which write and read these files), and the model code of Hugging
//! Face transformers (which the tests' golden values come from).

use super::reader::{Reader, rows_of};
use super::{
    Activation, ArchitectureError, Attention, Description, Layer, Mlp, Order, Rope, Scaling,
    Weights,
};
use crate::gguf::{Metadata, Shown};

/// In what a family differs.
struct Family {
    name: &'static str,
    /// Rows of q and k lie as pairs.
    paired: bool,
    /// q, k and v are one tensor, gate and up another.
    fused: bool,
    /// Norms after attention and gated product.
    post_norms: bool,
    /// Norms of query and key heads.
    head_norms: bool,
    activation: Activation,
    /// Embeddings are multiplied by √width.
    scaled_embedding: bool,
    /// Which layers see a window only.
    windowed: Windowed,
    /// The base of the rotation in layers that see a window, where it is one of its own.
    local_base: Option<f32>,
    /// Caps of scores and logits where the metadata have none.
    softcaps: Option<(f32, f32)>,
    /// The largest model of the family, known by its layers, scales scores by the width of a head as the width would
    /// have it instead of the head's own.
    scaled_by_width: Option<usize>,
}

/// Which layers see a window only, if the metadata have one.
enum Windowed {
    None,
    All,
    /// All but the last of each so many.
    AllButEach(usize),
}

const PLAIN: Family = Family {
    name: "",
    paired: false,
    fused: false,
    post_norms: false,
    head_norms: false,
    activation: Activation::Silu,
    scaled_embedding: false,
    windowed: Windowed::None,
    local_base: None,
    softcaps: None,
    scaled_by_width: None,
};

const GEMMA: Family = Family {
    name: "gemma",
    activation: Activation::GeluTanh,
    scaled_embedding: true,
    ..PLAIN
};

const FAMILIES: &[Family] = &[
    Family {
        name: "llama",
        paired: true,
        windowed: Windowed::All,
        ..PLAIN
    },
    Family {
        name: "phi3",
        fused: true,
        windowed: Windowed::All,
        ..PLAIN
    },
    GEMMA,
    Family {
        name: "gemma2",
        post_norms: true,
        windowed: Windowed::AllButEach(2),
        softcaps: Some((50.0, 30.0)),
        scaled_by_width: Some(46),
        ..GEMMA
    },
    Family {
        name: "gemma3",
        post_norms: true,
        head_norms: true,
        windowed: Windowed::AllButEach(6),
        local_base: Some(10_000.0),
        scaled_by_width: Some(62),
        ..GEMMA
    },
    Family {
        name: "qwen2",
        ..PLAIN
    },
    Family {
        name: "qwen3",
        head_norms: true,
        ..PLAIN
    },
];

/// The architectures that are read, as GGUF names them.
pub fn known() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.name)
}

pub fn read(metadata: &Metadata, weights: &dyn Weights) -> Result<Description, ArchitectureError> {
    let name = metadata.str("general.architecture")?;
    let family = FAMILIES.iter().find(|family| family.name == name);
    let family = family.ok_or_else(|| ArchitectureError::Unknown {
        found: Shown::new(name),
        known: known().collect::<Vec<_>>().join(", "),
    })?;
    let reader = Reader::new(family.name, metadata, weights);
    let description = family.describe(&reader)?;
    reader.all_used()?;
    Ok(description)
}

/// The sizes that the tensors' shapes follow from.
struct Sizes {
    layers: usize,
    width: usize,
    inner: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    context: usize,
}

impl Sizes {
    fn read(r: &Reader<'_>) -> Result<Self, ArchitectureError> {
        if let Some(experts) = r.find::<u64>("expert_count")?.filter(|&n| n > 0) {
            return Err(r.wrong("expert_count", "0 (no mixture of experts)", experts));
        }
        let layers = r.size("block_count")?;
        let width = r.size("embedding_length")?;
        let missing = |key: &str| r.wrong(key, "a number", "none");
        let heads = r
            .same_for_all("attention.head_count", layers)?
            .ok_or_else(|| missing("attention.head_count"))?;
        let kv_heads = r
            .same_for_all("attention.head_count_kv", layers)?
            .unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} heads");
            return Err(r.wrong("attention.head_count_kv", expected, kv_heads));
        }
        let head_dim = match r.optional_size("attention.key_length")? {
            Some(length) => length,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                let expected = format!("a divisor of the width {width}");
                return Err(r.wrong("attention.head_count", expected, heads));
            }
        };
        if let Some(value) = r
            .optional_size("attention.value_length")?
            .filter(|&n| n != head_dim)
        {
            return Err(r.wrong("attention.value_length", head_dim.to_string(), value));
        }
        if !head_dim.is_multiple_of(2) {
            return Err(r.wrong("attention.key_length", "an even number", head_dim));
        }
        Ok(Self {
            layers,
            width,
            inner: r
                .same_for_all("feed_forward_length", layers)?
                .ok_or_else(|| missing("feed_forward_length"))?,
            heads,
            kv_heads,
            head_dim,
            context: r.size("context_length")?,
        })
    }
}

impl Family {
    fn describe(&self, r: &Reader<'_>) -> Result<Description, ArchitectureError> {
        let sizes = Sizes::read(r)?;
        let epsilon = "attention.layer_norm_rms_epsilon";
        let epsilon = r
            .positive(epsilon)?
            .ok_or_else(|| r.wrong(epsilon, "a number", "none"))?;
        let window = r
            .find::<u64>("attention.sliding_window")?
            .filter(|&n| n > 0);
        let window = window
            .and_then(|n| usize::try_from(n).ok())
            .filter(|&n| n < sizes.context);
        let softcap =
            |key: &str, default: fn((f32, f32)) -> f32| -> Result<Option<f32>, ArchitectureError> {
                // A cap of 0 means none.
                match r.find::<f32>(key)? {
                    Some(0.0) => Ok(None),
                    Some(_) => r.positive(key),
                    None => Ok(self.softcaps.map(default)),
                }
            };
        let attention_softcap = softcap("attn_logit_softcapping", |caps| caps.0)?;
        let scale = match r.positive("attention.scale")? {
            Some(scale) => scale,
            None if self.scaled_by_width == Some(sizes.layers) => {
                (sizes.width as f32 / sizes.heads as f32).sqrt().recip()
            }
            None => (sizes.head_dim as f32).sqrt().recip(),
        };
        let rope = self.rope(r, &sizes)?;
        let local = match (self.local_base, window) {
            (Some(base), Some(_)) => Some(Rope {
                base: r.positive("rope.freq_base_swa")?.unwrap_or(base),
                dimensions: rope.dimensions,
                scaling: Scaling::None,
            }),
            _ => None,
        };
        let layers = (0..sizes.layers)
            .map(|layer| {
                let windowed = match self.windowed {
                    Windowed::None => false,
                    Windowed::All => true,
                    Windowed::AllButEach(n) => layer % n < n - 1,
                };
                let attention = Attended {
                    scale,
                    softcap: attention_softcap,
                    window: window.filter(|_| windowed),
                    rope: usize::from(windowed && local.is_some()),
                };
                self.layer(r, &sizes, layer, &attention)
            })
            .collect::<Result<_, _>>()?;
        let embedding = r.table("token_embd.weight", sizes.width)?;
        let vocabulary = embedding.rows.len();
        Ok(Description {
            architecture: self.name,
            width: sizes.width,
            vocabulary,
            context: sizes.context,
            epsilon,
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            head: if r.has("output.weight") {
                r.matrix("output.weight", vocabulary, sizes.width, Order::AsWanted)?
            } else {
                embedding.clone()
            },
            embedding,
            embedding_scale: self.scaled_embedding.then(|| (sizes.width as f32).sqrt()),
            layers,
            norm: r.vector("output_norm.weight", sizes.width, Order::AsWanted)?,
            softcap: softcap("final_logit_softcapping", |caps| caps.1)?,
            ropes: std::iter::once(rope).chain(local).collect(),
        })
    }

    fn layer(
        &self,
        r: &Reader<'_>,
        sizes: &Sizes,
        layer: usize,
        attended: &Attended,
    ) -> Result<Layer, ArchitectureError> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let norm = |part: &str, length| r.vector(&name(part), length, Order::AsWanted);
        let optional =
            |wanted: bool, part: &str, length| wanted.then(|| norm(part, length)).transpose();
        let Sizes {
            width,
            inner,
            head_dim,
            ..
        } = *sizes;
        let (queries, keys) = (sizes.heads * head_dim, sizes.kv_heads * head_dim);
        let order = if self.paired {
            Order::Paired { head: head_dim }
        } else {
            Order::AsWanted
        };
        let linear = |part: &str, rows, columns, order| r.linear(&name(part), rows, columns, order);
        let [q, k, v] = if self.fused && r.has(&name("attn_qkv.weight")) {
            let all = linear("attn_qkv", queries + 2 * keys, width, Order::AsWanted)?;
            let starts = [0, queries, queries + keys, queries + 2 * keys];
            [0, 1, 2].map(|n| rows_of(&all, starts[n]..starts[n + 1]))
        } else {
            [
                linear("attn_q", queries, width, order)?,
                linear("attn_k", keys, width, order)?,
                linear("attn_v", keys, width, Order::AsWanted)?,
            ]
        };
        let [gate, up] = if self.fused && !r.has(&name("ffn_gate.weight")) {
            // The gate's half comes first.
            let both = linear("ffn_up", 2 * inner, width, Order::AsWanted)?;
            [rows_of(&both, 0..inner), rows_of(&both, inner..2 * inner)]
        } else {
            [
                linear("ffn_gate", inner, width, Order::AsWanted)?,
                linear("ffn_up", inner, width, Order::AsWanted)?,
            ]
        };
        Ok(Layer {
            attention_norm: norm("attn_norm.weight", width)?,
            attention: Attention {
                q,
                k,
                v,
                output: linear("attn_output", width, queries, Order::AsWanted)?,
                q_norm: optional(self.head_norms, "attn_q_norm.weight", head_dim)?,
                k_norm: optional(self.head_norms, "attn_k_norm.weight", head_dim)?,
                scale: attended.scale,
                window: attended.window,
                softcap: attended.softcap,
                rope: attended.rope,
            },
            post_attention_norm: optional(self.post_norms, "post_attention_norm.weight", width)?,
            mlp_norm: norm("ffn_norm.weight", width)?,
            mlp: Mlp {
                activation: self.activation,
                gate,
                up,
                down: linear("ffn_down", width, inner, Order::AsWanted)?,
            },
            post_mlp_norm: optional(self.post_norms, "post_ffw_norm.weight", width)?,
        })
    }

    fn rope(&self, r: &Reader<'_>, sizes: &Sizes) -> Result<Rope, ArchitectureError> {
        let dimensions = r
            .optional_size("rope.dimension_count")?
            .unwrap_or(sizes.head_dim);
        if !dimensions.is_multiple_of(2) || dimensions > sizes.head_dim {
            let expected = format!("an even number up to the head's {}", sizes.head_dim);
            return Err(r.wrong("rope.dimension_count", expected, dimensions));
        }
        Ok(Rope {
            base: r.positive("rope.freq_base")?.unwrap_or(10_000.0),
            dimensions,
            scaling: self.scaling(r, sizes, dimensions / 2)?,
        })
    }

    fn scaling(
        &self,
        r: &Reader<'_>,
        sizes: &Sizes,
        pairs: usize,
    ) -> Result<Scaling, ArchitectureError> {
        if self.fused && r.has("rope_factors_short.weight") {
            let original = r.optional_size("rope.scaling.original_context_length")?;
            let original = original.unwrap_or(sizes.context);
            let magnitude = match r.positive("rope.scaling.attn_factor")? {
                Some(magnitude) => magnitude,
                None => longrope_magnitude(sizes.context, original),
            };
            return Ok(Scaling::Long {
                short: r.factors("rope_factors_short.weight", pairs)?,
                long: r.factors("rope_factors_long.weight", pairs)?,
                original,
                magnitude,
            });
        }
        if r.has("rope_freqs.weight") {
            return Ok(Scaling::PerFrequency(
                r.factors("rope_freqs.weight", pairs)?,
            ));
        }
        let factor = match r.positive("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => r.positive("rope.scale_linear")?,
        };
        match (r.find::<&str>("rope.scaling.type")?, factor) {
            (Some("none"), _) | (None, None) => Ok(Scaling::None),
            (None | Some("linear"), Some(1.0)) => Ok(Scaling::None),
            (None | Some("linear"), Some(factor)) => Ok(Scaling::Linear(factor)),
            (Some(kind), _) => {
                let expected =
                    "none, linear with a factor, or longrope with its factors as tensors";
                Err(r.wrong("rope.scaling.type", expected, Shown::new(kind)))
            }
        }
    }
}

/// What the layers of one model have in common, and the two things that they take turns in.
struct Attended {
    scale: f32,
    softcap: Option<f32>,
    window: Option<usize>,
    rope: usize,
}

/// √(1 + ln(context / original) / ln(original)), as in the LongRoPE of transformers.
fn longrope_magnitude(context: usize, original: usize) -> f32 {
    let (context, original) = (context as f64, original as f64);
    if context <= original {
        return 1.0;
    }
    (1.0 + (context / original).ln() / original.ln()).sqrt() as f32
}
