//! One step of Moonshine's decoder, in either of its two forms.
//!
//! Both take the keys and values of the tokens before and return them grown, under the same names.
//! What the shipped graph needs besides (the branch to take, the encoder's output) the lean one
//! does without; it wants the keys and values of the sound, computed once per utterance.

use std::fmt;
use std::path::{Path, PathBuf};

use firstword_targets::{Cpu, Library};
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{IoBinding, Session, SessionOutputs};
use ort::value::{DynValue, Tensor};

use super::SpeechError;
use super::lean::{Graphs, LeanError};
use super::moonshine::{Encoded, expect_inputs, missing_output};
use super::tokenizer::BEGIN;

const DECODE: &str = "decoder";

/// A decoder and how to call it.
#[derive(Debug)]
pub(super) struct Decoder {
    step: Session,
    /// For the lean form: the encoder's output to the keys and values of the sound.
    cross: Option<Session>,
    /// The keys and values of the tokens, which grow.
    own: Vec<Names>,
    /// Those of the sound, which do not.
    sound: Vec<Names>,
    /// Keys and values of nothing, `[1, heads, 0, head_dim]`.
    nothing: DynValue,
    host: MemoryInfo<'static>,
}

/// Which graph decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The graph of the model's files.
    Shipped,
    /// The one built from its weights.
    Lean,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shipped => "shipped",
            Self::Lean => "lean",
        })
    }
}

/// The names of one decoder cache tensor, as input and as output.
#[derive(Debug)]
struct Names {
    past: String,
    present: String,
}

/// What a call with nothing before it returns.
struct Whole {
    logits: DynValue,
    own: Vec<DynValue>,
    /// Only of the shipped form.
    sound: Vec<DynValue>,
}

/// What the first call of an utterance found.
pub(super) struct Checked {
    /// Tokens of the draft that hold.
    pub accepted: usize,
    /// The token after them.
    pub next: u32,
    own: Vec<DynValue>,
    /// Only of the shipped form.
    sound: Vec<DynValue>,
}

/// An utterance that is being decoded.
pub(super) struct State {
    binding: IoBinding,
    own: Vec<DynValue>,
}

impl Decoder {
    /// The shipped graph.
    pub fn shipped(library: &Library, cpu: &Cpu, file: &Path) -> Result<Self, SpeechError> {
        let step = cpu.session(library, file)?;
        expect_inputs(
            &step,
            file,
            "decoder",
            &[
                "input_ids",
                "encoder_hidden_states",
                "encoder_attention_mask",
                "use_cache_branch",
            ],
        )?;
        Self::new(step, None, file)
    }

    /// The lean graphs for the shipped one in `file`; see [`super::lean`].
    pub fn lean(
        library: &Library,
        cpu: &Cpu,
        file: &Path,
        kept: Option<&Path>,
    ) -> Result<Self, LeanError> {
        let graphs = Graphs::of(library, file, kept)?;
        let cross = cpu.session_from_bytes(library, "lean cross graph", &graphs.cross)?;
        let step = cpu.session_from_bytes(library, "lean decoder graph", &graphs.step)?;
        drop(graphs);
        let mut decoder = Self::new(step, Some(cross), file).map_err(LeanError::trial)?;
        decoder.try_out().map_err(LeanError::trial)?;
        Ok(decoder)
    }

    fn new(step: Session, cross: Option<Session>, file: &Path) -> Result<Self, SpeechError> {
        let error = SpeechError::step(DECODE);
        let Layout {
            own,
            sound,
            heads,
            head_dim,
        } = Layout::of(&step, file.to_owned())?;
        let nothing = Tensor::<f32>::new(step.allocator(), [1, heads, 0, head_dim])
            .map_err(&error)?
            .into_dyn();
        let host = MemoryInfo::new(
            AllocationDevice::CPU,
            0,
            AllocatorType::Device,
            MemoryType::Default,
        )
        .map_err(&error)?;
        Ok(Self {
            step,
            cross,
            own,
            sound,
            nothing,
            host,
        })
    }

    pub fn form(&self) -> Form {
        match self.cross {
            Some(_) => Form::Lean,
            None => Form::Shipped,
        }
    }

    /// A call of each kind on one frame of silence: an older ONNX Runtime may load a graph that it
    /// can't run.
    fn try_out(&mut self) -> Result<(), SpeechError> {
        const WIDTH: usize = super::lean::WIDTH;
        let error = SpeechError::step(DECODE);
        let hidden = Tensor::from_array(([1, 1, WIDTH], vec![0.5_f32; WIDTH]))
            .map_err(&error)?
            .into_dyn();
        let mask = Tensor::from_array(([1, 1], vec![1_i64])).map_err(&error)?;
        let sound = self.over_sound(&hidden)?;
        let encoded = Encoded {
            hidden,
            mask,
            sound,
            samples: 0,
        };
        let checked = self.check_draft(&encoded, &[BEGIN], 1, |_| true)?;
        let next = checked.next;
        let mut state = self.begin(&encoded, checked)?;
        self.advance(&mut state, next).map(drop)
    }

    /// Keys and values of the sound, in the order of the layers that want them; none for the
    /// shipped form, which computes them with the first token.
    pub fn over_sound(&mut self, hidden: &DynValue) -> Result<Vec<DynValue>, SpeechError> {
        let Some(cross) = &mut self.cross else {
            return Ok(Vec::new());
        };
        let mut outputs = cross
            .run(ort::inputs!["encoder_hidden_states" => hidden])
            .map_err(SpeechError::step(DECODE))?;
        taken(&mut outputs, &self.sound)
    }

    /// Runs begin and these tokens in one call, with nothing before them.
    fn run_whole(&mut self, encoded: &Encoded, tokens: &[u32]) -> Result<Whole, SpeechError> {
        let error = SpeechError::step(DECODE);
        let tokens: Vec<i64> = std::iter::once(BEGIN)
            .chain(tokens.iter().copied())
            .map(i64::from)
            .collect();
        let ids = Tensor::from_array(([1, tokens.len()], tokens)).map_err(&error)?;
        let cached = Tensor::from_array(([1], vec![false])).map_err(&error)?;
        let mut inputs = ort::inputs!["input_ids" => &ids];
        if self.form() == Form::Shipped {
            inputs.extend(ort::inputs![
                "encoder_hidden_states" => &encoded.hidden,
                "encoder_attention_mask" => &encoded.mask,
                "use_cache_branch" => &cached,
            ]);
        }
        for names in &self.own {
            inputs.push((names.past.as_str().into(), (&self.nothing).into()));
        }
        let nothing = std::iter::repeat(&self.nothing);
        for (names, value) in self.sound.iter().zip(encoded.sound.iter().chain(nothing)) {
            inputs.push((names.past.as_str().into(), value.into()));
        }
        let mut outputs = self.step.run(inputs).map_err(&error)?;
        Ok(Whole {
            logits: take(&mut outputs, "logits")?,
            own: taken(&mut outputs, &self.own)?,
            sound: match self.cross {
                Some(_) => Vec::new(),
                None => taken(&mut outputs, &self.sound)?,
            },
        })
    }

    /// The logits after begin and after each of `tokens`, one row after another.
    pub fn logits(&mut self, encoded: &Encoded, tokens: &[u32]) -> Result<Vec<f32>, SpeechError> {
        let whole = self.run_whole(encoded, tokens)?;
        let (_, values) = whole
            .logits
            .try_extract_tensor::<f32>()
            .map_err(SpeechError::step(DECODE))?;
        Ok(values.to_vec())
    }

    /// Runs begin and the draft in one call and keeps what holds of it.
    pub fn check_draft(
        &mut self,
        encoded: &Encoded,
        draft: &[u32],
        forced: usize,
        follows_forced: impl Fn(u32) -> bool,
    ) -> Result<Checked, SpeechError> {
        let Whole {
            logits,
            mut own,
            sound,
        } = self.run_whole(encoded, draft)?;
        let (_, values) = logits
            .try_extract_tensor::<f32>()
            .map_err(SpeechError::step(DECODE))?;
        let width = values.len() / (draft.len() + 1);
        let mut accepted = 0;
        let next = loop {
            let row = &values[accepted * width..][..width];
            let best = if accepted == forced && forced > 0 {
                most_likely_of(row, &follows_forced)?
            } else {
                most_likely(row)?
            };
            match draft.get(accepted) {
                Some(&token) if accepted < forced || token == best => accepted += 1,
                _ => break best,
            }
        };
        if accepted < draft.len() {
            for value in &mut own {
                *value = shortened(value, accepted + 1)?;
            }
        }
        Ok(Checked {
            accepted,
            next,
            own,
            sound,
        })
    }

    /// Binds what does not change from token to token.
    pub fn begin(&self, encoded: &Encoded, checked: Checked) -> Result<State, SpeechError> {
        let error = SpeechError::step(DECODE);
        let mut binding = self.step.create_binding().map_err(&error)?;
        for (names, value) in self
            .sound
            .iter()
            .zip(encoded.sound.iter().chain(&checked.sound))
        {
            binding.bind_input(&names.past, value).map_err(&error)?;
        }
        if self.form() == Form::Shipped {
            let (shape, hidden) = encoded.hidden.try_extract_tensor::<f32>().map_err(&error)?;
            let width = shape.last().copied().unwrap_or_default() as usize;
            // Wanted for its shape only.
            let frame =
                Tensor::from_array(([1, 1, width], hidden[..width].to_vec())).map_err(&error)?;
            let cached = Tensor::from_array(([1], vec![true])).map_err(&error)?;
            binding
                .bind_input("encoder_hidden_states", &frame)
                .map_err(&error)?;
            binding
                .bind_input("encoder_attention_mask", &encoded.mask)
                .map_err(&error)?;
            binding
                .bind_input("use_cache_branch", &cached)
                .map_err(&error)?;
        }
        Ok(State {
            binding,
            own: checked.own,
        })
    }

    /// One token in, the next out; the keys and values grow by it.
    pub fn advance(&mut self, state: &mut State, token: u32) -> Result<u32, SpeechError> {
        let error = SpeechError::step(DECODE);
        let State { binding, own } = state;
        let ids = Tensor::from_array(([1, 1], vec![i64::from(token)])).map_err(&error)?;
        binding.bind_input("input_ids", &ids).map_err(&error)?;
        // An output bound to a device is bound to the tensor of its first run: bound anew, it gets
        // a new one, and the old one stays what it was, an input.
        binding
            .bind_output_to_device("logits", &self.host)
            .map_err(&error)?;
        for (names, value) in self.own.iter().zip(own.iter()) {
            binding.bind_input(&names.past, value).map_err(&error)?;
            binding
                .bind_output_to_device(&names.present, &self.host)
                .map_err(&error)?;
        }
        let mut outputs = self.step.run_binding(binding).map_err(&error)?;
        for (names, value) in self.own.iter().zip(own.iter_mut()) {
            *value = take(&mut outputs, &names.present)?;
        }
        let logits = take(&mut outputs, "logits")?;
        let (_, values) = logits.try_extract_tensor::<f32>().map_err(&error)?;
        most_likely(values)
    }
}

/// The tensors a decoder keeps between its calls.
struct Layout {
    own: Vec<Names>,
    sound: Vec<Names>,
    heads: i64,
    head_dim: i64,
}

impl Layout {
    /// From the names and shapes of a graph's inputs.
    fn of(step: &Session, file: PathBuf) -> Result<Self, SpeechError> {
        let (mut own, mut sound, mut size) = (Vec::new(), Vec::new(), None);
        for input in step.inputs() {
            let Some(name) = input.name().strip_prefix("past_key_values.") else {
                continue;
            };
            let names = Names {
                past: input.name().to_owned(),
                present: format!("present.{name}"),
            };
            if name.contains(".encoder.") {
                sound.push(names);
                continue;
            }
            own.push(names);
            if let Some(shape) = input.dtype().tensor_shape()
                && let [_, heads, _, head_dim] = shape[..]
            {
                size = Some((heads, head_dim));
            }
        }
        match size {
            Some((heads, head_dim)) if heads > 0 && head_dim > 0 => Ok(Self {
                own,
                sound,
                heads,
                head_dim,
            }),
            _ => Err(SpeechError::Signature {
                file,
                missing: "input past_key_values.0.decoder.key of a known size".to_owned(),
                expected: "decoder",
            }),
        }
    }
}

/// Moves an output out of the others.
fn take(outputs: &mut SessionOutputs<'_>, name: &str) -> Result<DynValue, SpeechError> {
    outputs
        .remove(name)
        .ok_or_else(|| missing_output(DECODE, name))
}

fn taken(outputs: &mut SessionOutputs<'_>, all: &[Names]) -> Result<Vec<DynValue>, SpeechError> {
    all.iter()
        .map(|names| take(outputs, &names.present))
        .collect()
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
    most_likely_of(logits, |_| true)
}

/// The same among the tokens that may stand there.
fn most_likely_of(logits: &[f32], may: impl Fn(u32) -> bool) -> Result<u32, SpeechError> {
    let mut best = (f32::NEG_INFINITY, None);
    for (token, &logit) in logits.iter().enumerate() {
        if logit > best.0 && may(token as u32) {
            best = (logit, Some(token as u32));
        }
    }
    best.1.ok_or(SpeechError::NotNumbers { step: DECODE })
}
