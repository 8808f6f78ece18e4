//! Moonshine (Useful Sensors, MIT): an encoder over raw sound and a decoder with a cache, as the
//! `.ort` pair that its authors ship.
//!
//! - encoder: `input_values` f32 `[1, N]` (16 kHz, −1…1), `attention_mask` i64 `[1, N]` →
//!   `last_hidden_state` f32 `[1, T, 288]`, one frame for every 384 samples;
//! - decoder, both branches merged behind an `If`: without cache it takes any number of tokens and
//!   all hidden frames and returns the keys and values of both attentions; with cache it takes one
//!   token, wants one hidden frame only for its shape, and returns the grown decoder cache.
//!
//! A draft (the previous partial's tokens) goes through the first branch in one call: its logits
//! say how much of the draft the new sound still supports, and decoding goes on from there.

use std::path::{Path, PathBuf};

use firstword_targets::{Cpu, Library};
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{IoBinding, Session};
use ort::value::{DynValue, Tensor, TensorRef};

use super::SpeechError;
use super::decoding::{Draft, Hypothesis, Limits, Repetition, cut_loop};
use super::tokenizer::{BEGIN, END, Tokenizer};

const ENCODER: &str = "encoder_model.ort";
const DECODER: &str = "decoder_model_merged.ort";
const TOKENIZER: &str = "tokenizer.bin";
const EXPECTED: &str = "encoder_model.ort, decoder_model_merged.ort, tokenizer.bin";
/// The encoder's three convolutions need this many samples for one frame:
/// ((1·2 + 1 − 1)·3 + 7 − 1)·64 + 127 of kernel widths 127, 7, 3 and strides 64, 3, 2.
const SHORTEST: usize = 895;

const ENCODE: &str = "encoder";
const DECODE: &str = "decoder";

/// The recogniser: samples of one utterance to tokens to text.
#[derive(Debug)]
pub struct Moonshine {
    encoder: Session,
    decoder: Session,
    tokenizer: Tokenizer,
    layers: Vec<Layer>,
    /// Keys and values of nothing, `[1, heads, 0, head_dim]`.
    nothing: DynValue,
    host: MemoryInfo<'static>,
    padded: Vec<f32>,
}

/// The names of one decoder cache tensor, as input and as output.
#[derive(Debug)]
struct Layer {
    past: String,
    present: String,
    /// Belongs to the attention over the sound, which does not grow with the tokens.
    cross: bool,
}

/// An utterance behind the encoder.
#[derive(Debug)]
pub struct Encoded {
    hidden: DynValue,
    /// `[1, N]` of ones.
    mask: Tensor<i64>,
    /// Samples that were encoded, zeros added for a too short utterance included.
    pub samples: usize,
}

/// What one call of the decoder did; told to the caller as it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Tokens that went in: the draft's and one for the first call, one for the others.
    pub tokens: usize,
}

impl Moonshine {
    /// Loads the three files of `folder`.
    ///
    /// # Errors
    ///
    /// [`SpeechError`] if a file is missing, damaged, or not what its name says.
    pub fn load(library: &Library, cpu: &Cpu, folder: &Path) -> Result<Self, SpeechError> {
        if let Some(file) = [ENCODER, DECODER, TOKENIZER]
            .into_iter()
            .find(|file| !folder.join(file).is_file())
        {
            return Err(SpeechError::Incomplete {
                folder: folder.to_owned(),
                layout: "Moonshine",
                file,
                expected: EXPECTED,
            });
        }
        let file = folder.join(TOKENIZER);
        let bytes = std::fs::read(&file).map_err(|source| SpeechError::Unreadable {
            file: file.clone(),
            source,
        })?;
        let tokenizer =
            Tokenizer::parse(&bytes).map_err(|source| SpeechError::Tokenizer { file, source })?;

        // Every utterance has its own length and every step its own: no plan per shape.
        let cpu = cpu.clone().for_changing_shapes();
        let file = folder.join(ENCODER);
        let encoder = cpu.session(library, &file)?;
        expect_inputs(
            &encoder,
            &file,
            "encoder",
            &["input_values", "attention_mask"],
        )?;
        let file = folder.join(DECODER);
        let decoder = cpu.session(library, &file)?;
        expect_inputs(
            &decoder,
            &file,
            "decoder",
            &[
                "input_ids",
                "encoder_hidden_states",
                "encoder_attention_mask",
                "use_cache_branch",
            ],
        )?;
        let (layers, heads, head_dim) = cache_layout(&decoder, file)?;
        let nothing = Tensor::<f32>::new(decoder.allocator(), [1, heads, 0, head_dim])
            .map_err(SpeechError::step(DECODE))?
            .into_dyn();
        let host = MemoryInfo::new(
            AllocationDevice::CPU,
            0,
            AllocatorType::Device,
            MemoryType::Default,
        )
        .map_err(SpeechError::step(DECODE))?;
        Ok(Self {
            encoder,
            decoder,
            tokenizer,
            layers,
            nothing,
            host,
            padded: Vec::new(),
        })
    }

    /// The tokenizer that belongs to the weights.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Runs the encoder over one utterance (f32, 16 kHz mono, −1…1). Costs about 10 ms per second of
    /// sound on one core; the authors trained on at most 30 s, and past 15 s the text gets worse.
    ///
    /// # Errors
    ///
    /// [`SpeechError::Step`] if ONNX Runtime fails, [`SpeechError::NotNumbers`] on NaN.
    pub fn encode(&mut self, samples: &[f32]) -> Result<Encoded, SpeechError> {
        let samples = if samples.len() < SHORTEST {
            self.padded.clear();
            self.padded.extend_from_slice(samples);
            self.padded.resize(SHORTEST, 0.0);
            &self.padded[..]
        } else {
            samples
        };
        let error = SpeechError::step(ENCODE);
        let length = samples.len();
        let mask = Tensor::from_array(([1, length], vec![1_i64; length])).map_err(&error)?;
        let sound = TensorRef::from_array_view(([1, length], samples)).map_err(&error)?;
        let mut outputs = self
            .encoder
            .run(ort::inputs!["input_values" => sound, "attention_mask" => &mask])
            .map_err(&error)?;
        let hidden = outputs
            .remove("last_hidden_state")
            .ok_or_else(|| missing_output(ENCODE, "last_hidden_state"))?;
        let (_, values) = hidden.try_extract_tensor::<f32>().map_err(&error)?;
        if values.iter().any(|v| v.is_nan()) {
            return Err(SpeechError::NotNumbers { step: ENCODE });
        }
        drop(outputs);
        Ok(Encoded {
            hidden,
            mask,
            samples: length,
        })
    }

    /// Greedy decoding of an encoded utterance, beginning from `draft`. `on_step` is told of every
    /// call of the decoder right after it.
    ///
    /// # Errors
    ///
    /// [`SpeechError::Step`] if ONNX Runtime fails, [`SpeechError::NotNumbers`] on NaN.
    pub fn decode(
        &mut self,
        encoded: &Encoded,
        draft: Draft<'_>,
        mut on_step: impl FnMut(Step),
    ) -> Result<Hypothesis, SpeechError> {
        let forced = draft.forced.min(draft.tokens.len());
        let limit = Limits::for_audio(encoded.samples).tokens.max(forced + 1);
        let mut hypothesis = Hypothesis::default();

        let (accepted, mut next, mut cache) = self.check_draft(encoded, draft.tokens, forced)?;
        hypothesis
            .tokens
            .extend_from_slice(&draft.tokens[..accepted]);
        hypothesis.kept = accepted;
        hypothesis.steps = 1;
        on_step(Step {
            tokens: draft.tokens.len() + 1,
        });
        if next == END {
            return Ok(hypothesis);
        }
        let mut binding = self.bind(encoded, &cache)?;
        while next != END {
            hypothesis.tokens.push(next);
            hypothesis.cut_short = hypothesis.tokens.len() >= limit;
            if hypothesis.cut_short
                || Repetition::at_end(&hypothesis.tokens).is_some_and(Repetition::is_loop)
            {
                break;
            }
            next = self.advance(&mut binding, next, &mut cache)?;
            hypothesis.steps += 1;
            on_step(Step { tokens: 1 });
        }
        if next != END {
            hypothesis.looped = cut_loop(&mut hypothesis.tokens, forced, hypothesis.cut_short);
        }
        Ok(hypothesis)
    }

    /// Runs begin and the draft through the branch without cache. Returns how many tokens of the
    /// draft hold, the token after them, and the cache up to there.
    fn check_draft(
        &mut self,
        encoded: &Encoded,
        draft: &[u32],
        forced: usize,
    ) -> Result<(usize, u32, Vec<DynValue>), SpeechError> {
        let error = SpeechError::step(DECODE);
        let tokens: Vec<i64> = std::iter::once(BEGIN)
            .chain(draft.iter().copied())
            .map(i64::from)
            .collect();
        let length = tokens.len();
        let ids = Tensor::from_array(([1, length], tokens)).map_err(&error)?;
        let cached = Tensor::from_array(([1], vec![false])).map_err(&error)?;
        let mut inputs = ort::inputs![
            "input_ids" => &ids,
            "encoder_hidden_states" => &encoded.hidden,
            "encoder_attention_mask" => &encoded.mask,
            "use_cache_branch" => &cached,
        ];
        for layer in &self.layers {
            inputs.push((layer.past.as_str().into(), (&self.nothing).into()));
        }
        let mut outputs = self.decoder.run(inputs).map_err(&error)?;
        let logits = outputs
            .remove("logits")
            .ok_or_else(|| missing_output(DECODE, "logits"))?;
        let (_, values) = logits.try_extract_tensor::<f32>().map_err(&error)?;
        let width = values.len() / length;
        let mut accepted = 0;
        let next = loop {
            let best = most_likely(&values[accepted * width..][..width])?;
            match draft.get(accepted) {
                Some(&token) if accepted < forced || token == best => accepted += 1,
                _ => break best,
            }
        };
        let cache = self
            .layers
            .iter()
            .map(|layer| {
                let value = outputs
                    .remove(&layer.present)
                    .ok_or_else(|| missing_output(DECODE, &layer.present))?;
                if layer.cross || accepted + 1 == length {
                    Ok(value)
                } else {
                    shortened(&value, accepted + 1)
                }
            })
            .collect::<Result<_, _>>()?;
        Ok((accepted, next, cache))
    }

    /// Binds what does not change from token to token.
    fn bind(&self, encoded: &Encoded, cache: &[DynValue]) -> Result<IoBinding, SpeechError> {
        let error = SpeechError::step(DECODE);
        let mut binding = self.decoder.create_binding().map_err(&error)?;
        let (shape, hidden) = encoded.hidden.try_extract_tensor::<f32>().map_err(&error)?;
        let width = shape.last().copied().unwrap_or_default() as usize;
        let frame =
            Tensor::from_array(([1, 1, width], hidden[..width].to_vec())).map_err(&error)?;
        binding
            .bind_input("encoder_hidden_states", &frame)
            .map_err(&error)?;
        binding
            .bind_input("encoder_attention_mask", &encoded.mask)
            .map_err(&error)?;
        let cached = Tensor::from_array(([1], vec![true])).map_err(&error)?;
        binding
            .bind_input("use_cache_branch", &cached)
            .map_err(&error)?;
        for (layer, value) in self.layers.iter().zip(cache) {
            if layer.cross {
                binding.bind_input(&layer.past, value).map_err(&error)?;
            }
        }
        Ok(binding)
    }

    /// One token in, the next out; the cache grows by it.
    fn advance(
        &mut self,
        binding: &mut IoBinding,
        token: u32,
        cache: &mut [DynValue],
    ) -> Result<u32, SpeechError> {
        let error = SpeechError::step(DECODE);
        let ids = Tensor::from_array(([1, 1], vec![i64::from(token)])).map_err(&error)?;
        binding.bind_input("input_ids", &ids).map_err(&error)?;
        // An output bound to a device is bound to the tensor of its first run: bound anew, it gets
        // a new one, and the old one stays what it was, an input.
        binding
            .bind_output_to_device("logits", &self.host)
            .map_err(&error)?;
        for (layer, value) in self.layers.iter().zip(cache.iter()) {
            if !layer.cross {
                binding.bind_input(&layer.past, value).map_err(&error)?;
                binding
                    .bind_output_to_device(&layer.present, &self.host)
                    .map_err(&error)?;
            }
        }
        let mut outputs = self.decoder.run_binding(binding).map_err(&error)?;
        for (layer, value) in self.layers.iter().zip(cache.iter_mut()) {
            if !layer.cross {
                *value = outputs
                    .remove(&layer.present)
                    .ok_or_else(|| missing_output(DECODE, &layer.present))?;
            }
        }
        let logits = outputs
            .get("logits")
            .ok_or_else(|| missing_output(DECODE, "logits"))?;
        let (_, values) = logits.try_extract_tensor::<f32>().map_err(&error)?;
        most_likely(values)
    }
}

/// The cache tensors of the decoder in the order of its inputs, the number of heads and their width.
fn cache_layout(decoder: &Session, file: PathBuf) -> Result<(Vec<Layer>, i64, i64), SpeechError> {
    let mut layers = Vec::new();
    let mut size = None;
    for input in decoder.inputs() {
        let Some(name) = input.name().strip_prefix("past_key_values.") else {
            continue;
        };
        if let Some(shape) = input.dtype().tensor_shape()
            && let [_, heads, _, head_dim] = shape[..]
        {
            size = Some((heads, head_dim));
        }
        layers.push(Layer {
            past: input.name().to_owned(),
            present: format!("present.{name}"),
            cross: name.contains(".encoder."),
        });
    }
    match size {
        Some((heads, head_dim)) if heads > 0 && head_dim > 0 => Ok((layers, heads, head_dim)),
        _ => Err(SpeechError::Signature {
            file,
            missing: "input past_key_values.0.decoder.key of a known size".to_owned(),
            expected: "decoder",
        }),
    }
}

/// The first `length` positions of a cache tensor `[1, heads, positions, head_dim]`.
fn shortened(value: &DynValue, length: usize) -> Result<DynValue, SpeechError> {
    let error = SpeechError::step(DECODE);
    let (shape, values) = value.try_extract_tensor::<f32>().map_err(&error)?;
    let [heads, positions, head_dim] = [shape[1], shape[2], shape[3]].map(|n| n as usize);
    let mut kept = Vec::with_capacity(heads * length * head_dim);
    for head in values.chunks_exact(positions * head_dim) {
        kept.extend_from_slice(&head[..length * head_dim]);
    }
    Ok(Tensor::from_array(([1, heads, length, head_dim], kept))
        .map_err(&error)?
        .into_dyn())
}

/// The token with the highest logit, the lowest number among equals.
fn most_likely(logits: &[f32]) -> Result<u32, SpeechError> {
    let mut best = (f32::NEG_INFINITY, None);
    for (token, &logit) in logits.iter().enumerate() {
        if logit > best.0 {
            best = (logit, Some(token as u32));
        }
    }
    best.1.ok_or(SpeechError::NotNumbers { step: DECODE })
}

fn missing_output(step: &'static str, name: &str) -> SpeechError {
    SpeechError::Step {
        step,
        said: format!("the graph gave no output {name}"),
    }
}

/// Checks that a graph has these inputs.
pub(super) fn expect_inputs(
    session: &Session,
    file: &Path,
    expected: &'static str,
    names: &[&str],
) -> Result<(), SpeechError> {
    match names
        .iter()
        .find(|name| !session.inputs().iter().any(|input| input.name() == **name))
    {
        Some(name) => Err(SpeechError::Signature {
            file: file.to_owned(),
            missing: format!("input {name}"),
            expected,
        }),
        None => Ok(()),
    }
}
