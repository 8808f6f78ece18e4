//! Moonshine (Useful Sensors, MIT): an encoder over raw sound and a decoder with a cache, as the
//! `.ort` pair that its authors ship.
//!
//! - encoder: `input_values` f32 `[1, N]` (16 kHz, −1…1), `attention_mask` i64 `[1, N]` →
//!   `last_hidden_state` f32 `[1, T, 288]`, one frame for every 384 samples;
//! - decoder, both branches merged behind an `If`: without cache it takes any number of tokens and
//!   all hidden frames and returns the keys and values of both attentions; with cache it takes one
//!   token, wants one hidden frame only for its shape, and returns the grown decoder cache.
//!
//! The encoder runs as it is. The decoder is built anew from its weights ([`super::lean`]); the
//! shipped one takes its place where that fails.
//!
//! A draft (the previous partial's tokens) goes through the decoder in one call: its logits say how
//! much of the draft the new sound still supports, and decoding goes on from there.

use std::path::Path;

use firstword_targets::{Cpu, Library};
use ort::session::Session;
use ort::value::{DynValue, Tensor, TensorRef};

use super::SpeechError;
use super::decoder::{Decoder, Form};
use super::decoding::{Draft, Hypothesis, Limits, Repetition, cut_loop};
use super::lean::LeanError;
use super::tokenizer::{END, Tokenizer};

const ENCODER: &str = "encoder_model.ort";
const DECODER: &str = "decoder_model_merged.ort";
const TOKENIZER: &str = "tokenizer.bin";
const EXPECTED: &str = "encoder_model.ort, decoder_model_merged.ort, tokenizer.bin";
/// The encoder's three convolutions need this many samples for one frame:
/// ((1·2 + 1 − 1)·3 + 7 − 1)·64 + 127 of kernel widths 127, 7, 3 and strides 64, 3, 2.
const SHORTEST: usize = 895;

const ENCODE: &str = "encoder";

/// The recogniser: samples of one utterance to tokens to text.
#[derive(Debug)]
pub struct Moonshine {
    encoder: Session,
    decoder: Decoder,
    /// Why the decoder is the shipped one.
    refused: Option<LeanError>,
    tokenizer: Tokenizer,
    padded: Vec<f32>,
}

/// An utterance behind the encoder.
#[derive(Debug)]
pub struct Encoded {
    pub(super) hidden: DynValue,
    /// `[1, N]` of ones.
    pub(super) mask: Tensor<i64>,
    /// Keys and values of the sound for each layer; empty for the shipped decoder.
    pub(super) sound: Vec<DynValue>,
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
    /// Loads the three files of `folder`. The decoder is built anew from the shipped one's weights
    /// where they are as expected ([`super::lean`]); what was built is kept in the folder `cache`,
    /// if there is one, for the next time.
    ///
    /// # Errors
    ///
    /// [`SpeechError`] if a file is missing, damaged, or not what its name says.
    pub fn load(
        library: &Library,
        cpu: &Cpu,
        folder: &Path,
        cache: Option<&Path>,
    ) -> Result<Self, SpeechError> {
        Self::load_with(library, cpu, folder, |cpu, file| {
            Ok(match Decoder::lean(library, cpu, file, cache) {
                Ok(decoder) => (decoder, None),
                Err(why) => (Decoder::shipped(library, cpu, file)?, Some(why)),
            })
        })
    }

    /// The same with the decoder as it was shipped, to compare with.
    ///
    /// # Errors
    ///
    /// As [`Moonshine::load`].
    pub fn load_shipped(library: &Library, cpu: &Cpu, folder: &Path) -> Result<Self, SpeechError> {
        Self::load_with(library, cpu, folder, |cpu, file| {
            Ok((Decoder::shipped(library, cpu, file)?, None))
        })
    }

    fn load_with(
        library: &Library,
        cpu: &Cpu,
        folder: &Path,
        decoder: impl FnOnce(&Cpu, &Path) -> Result<(Decoder, Option<LeanError>), SpeechError>,
    ) -> Result<Self, SpeechError> {
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
        let (decoder, refused) = decoder(&cpu, &file)?;
        Ok(Self {
            encoder,
            decoder,
            refused,
            tokenizer,
            padded: Vec::new(),
        })
    }

    /// Which decoder runs.
    #[must_use]
    pub fn decoder_form(&self) -> Form {
        self.decoder.form()
    }

    /// Why the decoder is the shipped one and not the lean one.
    #[must_use]
    pub fn why_shipped(&self) -> Option<&LeanError> {
        self.refused.as_ref()
    }

    /// The tokenizer that belongs to the weights.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Runs the encoder over one utterance (f32, 16 kHz mono, −1…1), and for the lean decoder also
    /// what that computes of the sound once (which the shipped one does with its first token). Costs
    /// about 10 ms per second of sound on one core, and 1 ms for the latter; the authors trained on at most 30 s, and past 15 s the text gets worse.
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
        let sound = self.decoder.over_sound(&hidden)?;
        Ok(Encoded {
            hidden,
            mask,
            sound,
            samples: length,
        })
    }

    /// The decoder's logits after begin and after each of `tokens`: `tokens.len() + 1` rows of 32 768,
    /// one after another. In one call, as a draft is checked: the inputs of a product are quantised
    /// with one scale for all rows, so that a row differs a little with what stands in the others.
    ///
    /// # Errors
    ///
    /// [`SpeechError::Step`] if ONNX Runtime fails.
    pub fn logits(&mut self, encoded: &Encoded, tokens: &[u32]) -> Result<Vec<f32>, SpeechError> {
        self.decoder.logits(encoded, tokens)
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

        // What was committed are whole words: a comma or an ending behind it would change the last.
        let tokenizer = &self.tokenizer;
        let whole_words = |token| token == END || tokenizer.starts_word(token);
        let checked = self
            .decoder
            .check_draft(encoded, draft.tokens, forced, whole_words)?;
        let (accepted, mut next) = (checked.accepted, checked.next);
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
        let mut state = self.decoder.begin(encoded, checked)?;
        while next != END {
            hypothesis.tokens.push(next);
            hypothesis.cut_short = hypothesis.tokens.len() >= limit;
            if hypothesis.cut_short
                || Repetition::at_end(&hypothesis.tokens).is_some_and(Repetition::is_loop)
            {
                break;
            }
            next = self.decoder.advance(&mut state, next)?;
            hypothesis.steps += 1;
            on_step(Step { tokens: 1 });
        }
        if next != END {
            hypothesis.looped = cut_loop(&mut hypothesis.tokens, forced, hypothesis.cut_short);
        }
        Ok(hypothesis)
    }
}

pub(super) fn missing_output(step: &'static str, name: &str) -> SpeechError {
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
