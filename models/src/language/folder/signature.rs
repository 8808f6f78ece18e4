//! How a decoder graph is called: which input carries what, and which outputs are the cache.

use super::outline::{Outline, Port};

/// Numbers of a tensor, as ONNX counts their kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32 bits.
    F32,
    /// 16 bits, IEEE.
    F16,
}

impl Element {
    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    fn of(port: &Port) -> Result<Self, String> {
        match port.element {
            1 => Ok(Self::F32),
            10 => Ok(Self::F16),
            kind => Err(format!(
                "{} has numbers of kind {kind}; f32 (1) and f16 (10) are known",
                port.name
            )),
        }
    }
}

/// What happens to the cache in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// GroupQueryAttention writes the new keys and values in place, behind the row's length.
    Fused,
    /// The graph returns the whole cache, longer by the new tokens.
    Growing,
    /// The graph returns the new keys and values only; who calls writes them into the cache.
    Rows,
}

/// The names of one layer's keys and values, in and out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNames {
    /// `past_key_values.N.key` and `.value`, or what stands for them.
    pub past: [String; 2],
    /// `present.N.key` and `.value`, or what stands for them.
    pub present: [String; 2],
}

/// Inputs and outputs by what they carry. What a graph does not have is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// i64 `[B, S]`.
    pub input_ids: String,
    /// i64 `[B, T]`, 1 for each position that is there.
    pub attention_mask: Option<String>,
    /// i64 `[B, S]`.
    pub position_ids: Option<String>,
    /// bool `[1]`: whether there is a past.
    pub use_cache_branch: Option<String>,
    /// i64 `[R]`: the rows (of S) whose logits are computed.
    pub logit_rows: Option<String>,
    /// i64, a scalar: how many of the last rows get logits.
    pub logits_to_keep: Option<String>,
    /// i64 `[1]`: the length that chooses LongRoPE's factors, if greater than T.
    pub rope_total: Option<String>,
    /// f32 `[B, 1, S, P + S]`, added to the scores.
    pub additive_mask: Option<String>,
    /// The same for the layers with a sliding window.
    pub additive_mask_local: Option<String>,
    /// `[B, R or S, vocabulary]`.
    pub logits: String,
    /// The numbers of the logits.
    pub logits_element: Element,
    /// The graph gives logits for the last row only.
    pub last_row_only: bool,
    /// The graph takes one token a call.
    pub one_token: bool,
    /// The cache, layer by layer.
    pub layers: Vec<LayerNames>,
    /// The numbers of the cache.
    pub cache_element: Element,
}

/// Sizes that the graph fixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub kv_heads: Option<usize>,
    pub head_dim: Option<usize>,
    pub vocabulary: Option<usize>,
}

/// Names as a configuration file gives them; `%d` stands for the layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub input_ids: String,
    pub attention_mask: String,
    pub position_ids: String,
    pub logits: String,
    pub past: [String; 2],
    pub present: [String; 2],
}

impl Default for Names {
    fn default() -> Self {
        let owned = |name: &str| name.to_owned();
        Self {
            input_ids: owned("input_ids"),
            attention_mask: owned("attention_mask"),
            position_ids: owned("position_ids"),
            logits: owned("logits"),
            past: ["past_key_values.%d.key", "past_key_values.%d.value"].map(owned),
            present: ["present.%d.key", "present.%d.value"].map(owned),
        }
    }
}

impl Names {
    /// The usual names, and for the cache those that occur in the graph: `past_key_values.0.key`,
    /// `past.0.key`, `past_key_0` …
    pub fn found_in(outline: &Outline) -> Self {
        let mut names = Self::default();
        for (part, word) in ["key", "value"].into_iter().enumerate() {
            let pattern = |ports: &[Port], prefix: &str| {
                ports.iter().find_map(|port| {
                    let rest = port.name.strip_prefix(prefix)?;
                    // The word is looked for outside of `past_key_values`, which has both.
                    let rest = rest.strip_prefix("_key_values").unwrap_or(rest);
                    if !rest.contains(word) {
                        return None;
                    }
                    let at = port.name.len() - rest.len();
                    let digits = at + rest.find(|c: char| c.is_ascii_digit())?;
                    let end = port.name[digits..]
                        .find(|c: char| !c.is_ascii_digit())
                        .map_or(port.name.len(), |n| digits + n);
                    Some(format!("{}%d{}", &port.name[..digits], &port.name[end..]))
                })
            };
            if let Some(found) = pattern(&outline.inputs, "past") {
                names.past[part] = found;
            }
            if let Some(found) = pattern(&outline.outputs, "present") {
                names.present[part] = found;
            }
        }
        names
    }
}

impl Signature {
    /// Finds in the graph what a decoder needs.
    pub(super) fn of(outline: &Outline, names: &Names) -> Result<(Self, Sizes), String> {
        let layers: Vec<LayerNames> = (0..)
            .map(|layer: usize| {
                let name = |pattern: &String| pattern.replace("%d", &layer.to_string());
                LayerNames {
                    past: names.past.each_ref().map(name),
                    present: names.present.each_ref().map(name),
                }
            })
            .take_while(|layer| outline.input(&layer.past[0]).is_some())
            .collect();
        let Some(first) = layers.first() else {
            let legacy = outline.inputs.iter().any(|port| port.name == "past_0");
            let name = names.past[0].replace("%d", "0");
            return Err(match legacy {
                true => "keys and values are in one input past_0; export it again with keys and values apart".to_owned(),
                false => format!("it has no input {name}: it was exported without a cache; export it with past"),
            });
        };
        let input = |name: &str| {
            outline
                .input(name)
                .ok_or_else(|| format!("it has no input {name}"))
        };
        let output = |name: &str| {
            outline
                .output(name)
                .ok_or_else(|| format!("it has no output {name}"))
        };

        let mut sizes = Sizes::default();
        let cache_element = Element::of(input(&first.past[0])?)?;
        for layer in &layers {
            for name in &layer.past {
                let port = input(name)?;
                if port.shape.len() != 4 {
                    return Err(format!(
                        "{name} has {} axes, expected [B, heads, P, head_dim]",
                        port.shape.len()
                    ));
                }
                if Element::of(port)? != cache_element {
                    return Err(format!("{name} has other numbers than {}", first.past[0]));
                }
                for (kept, axis) in [(&mut sizes.kv_heads, 1), (&mut sizes.head_dim, 3)] {
                    let size = port.shape[axis].and_then(|n| usize::try_from(n).ok());
                    match (*kept, size) {
                        (Some(a), Some(b)) if a != b => {
                            return Err(format!("{name} has size {b} where others have {a}"));
                        }
                        _ => *kept = kept.or(size),
                    }
                }
            }
            for name in &layer.present {
                if Element::of(output(name)?)? != cache_element {
                    return Err(format!("{name} has other numbers than {}", first.past[0]));
                }
            }
        }

        let ids = input(&names.input_ids)?;
        if ids.element != 7 {
            return Err(format!(
                "{} is not int64 (kind {})",
                names.input_ids, ids.element
            ));
        }
        let logits = output(&names.logits)?;
        if !matches!(logits.shape.len(), 0 | 3) {
            return Err(format!(
                "{} has {} axes, expected [B, S, vocabulary]",
                logits.name,
                logits.shape.len()
            ));
        }
        sizes.vocabulary = logits
            .shape
            .get(2)
            .and_then(|size| *size)
            .and_then(|n| usize::try_from(n).ok());

        let optional = |name: &str| outline.input(name).map(|port| port.name.clone());
        let either = |names: [&str; 2]| names.into_iter().find_map(optional);
        let signature = Self {
            input_ids: ids.name.clone(),
            attention_mask: optional(&names.attention_mask),
            position_ids: optional(&names.position_ids),
            use_cache_branch: optional("use_cache_branch"),
            logit_rows: optional("logit_rows"),
            logits_to_keep: either(["num_logits_to_keep", "logits_to_keep"]),
            rope_total: optional("rope_total"),
            additive_mask: optional("attn_mask"),
            additive_mask_local: optional("attn_mask_local"),
            logits: logits.name.clone(),
            logits_element: Element::of(logits)?,
            last_row_only: logits.shape.get(1) == Some(&Some(1))
                && ids.shape.get(1) != Some(&Some(1)),
            one_token: ids.shape.get(1) == Some(&Some(1)),
            layers,
            cache_element,
        };
        signature.expect_nothing_else(outline)?;
        Ok((signature, sizes))
    }

    /// An input that nobody fills would fail at the first run; it is better said now.
    fn expect_nothing_else(&self, outline: &Outline) -> Result<(), String> {
        let known = [
            Some(&self.input_ids),
            self.attention_mask.as_ref(),
            self.position_ids.as_ref(),
            self.use_cache_branch.as_ref(),
            self.logit_rows.as_ref(),
            self.logits_to_keep.as_ref(),
            self.rope_total.as_ref(),
            self.additive_mask.as_ref(),
            self.additive_mask_local.as_ref(),
        ];
        for port in &outline.inputs {
            let ours = known.into_iter().flatten().any(|name| *name == port.name)
                || self
                    .layers
                    .iter()
                    .any(|layer| layer.past.contains(&port.name))
                || outline.constants.contains(&port.name);
            if !ours {
                return Err(format!(
                    "it wants an input {} that this program does not know (image, encoder or adapter?)",
                    port.name
                ));
            }
        }
        Ok(())
    }

    /// What happens to the cache, from the graph alone: `shared` says that the folder's authors
    /// bind one buffer as past and present.
    pub(super) fn layout(&self, outline: &Outline, shared: bool) -> Result<Layout, String> {
        let grouped = outline.operators.get("com.microsoft:GroupQueryAttention");
        if shared {
            return match grouped {
                Some(&count) if count >= self.layers.len() => Ok(Layout::Fused),
                _ => Err(format!(
                    "its cache is said to be shared in place, but only {} of {} layers use GroupQueryAttention",
                    grouped.copied().unwrap_or(0),
                    self.layers.len()
                )),
            };
        }
        if self.additive_mask.is_some() {
            return Ok(Layout::Rows);
        }
        Ok(Layout::Growing)
    }
}
