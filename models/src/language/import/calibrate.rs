//! Runs a model layer by layer on a text: what goes into its products (to choose the smoothing), and how far the
//! precision that is imported is from `exact`.
//!
//! Two models walk through the text one after the other, one layer at a time, so that the memory in use is that of one
//! layer and not of a model: `exact`, which shows the inputs of its products, and the one that is imported, with the
//! factors and the ways of rounding chosen from them. Both are chosen on the first part of the text, distances measured on the
//! rest. Of a model nothing is kept between layers but what goes on to the next one; the head is run for some thousand
//! words at a time.

use std::borrow::Cow;

use firstword_targets::{Cpu, Library, one_line};
use ort::session::{Session, SessionInputValue, SessionOutputs};
use ort::value::Tensor;

use super::distance::Distance;
use super::ways::{self, Candidate};
use super::{ImportError, Precision, Quality};
use crate::language::architecture::{Description, Linear};
use crate::language::lower::smoothing::{Choice, Inputs, Rows, factors};
use crate::language::lower::{
    LowerError, Lowering, Place, Reading, Recipe, Role, Smoothing, Stage, Ways, Weight, head, stage,
};

/// The text both are done on: prose, talk, code, tables and other languages, written for this purpose.
pub const TEXT: &str = include_str!("calibration.txt");
/// Its name, as the manifest has it.
pub const NAME: &str = "firstword calibration text 1";

/// Words whose logits are computed at once. Gemma's head, 262 144 by 640, takes 0.7 GB in one piece as it is prepared,
/// and its logits of one row 1 MB, several times over where inputs are rounded twice.
const WORDS: usize = 4_096;

/// What is needed to run a model while it is imported.
#[derive(Clone, Copy)]
pub struct Calibration<'a> {
    /// ONNX Runtime.
    pub library: &'a Library,
    /// How its sessions are set.
    pub cpu: &'a Cpu,
    /// [`TEXT`] in the model's tokens, with whatever token its texts begin with.
    pub tokens: &'a [u32],
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The factors.
    pub smoothing: Smoothing,
    /// The ways that were chosen.
    pub ways: Ways,
    /// The distance from `exact`.
    pub quality: Quality,
}

impl Calibration<'_> {
    /// Chooses factors for `precision`, where it profits from them, and measures it. The weights are read several times.
    ///
    /// # Errors
    ///
    /// [`ImportError::Lower`], [`ImportError::Calibrate`].
    pub fn run(
        &self,
        description: &Description,
        reading: &Reading<'_>,
        precision: Precision,
    ) -> Result<Calibrated, ImportError> {
        let length = self.tokens.len();
        let known = self
            .tokens
            .iter()
            .all(|&t| (t as usize) < description.vocabulary);
        if length < 8 || !known || description.layers.is_empty() {
            return Err(failed(format!(
                "expected 8 and more tokens below {}, found {length}",
                description.vocabulary
            )));
        }
        let seen = length * 2 / 3;
        let shown = if precision.is_smoothed() { seen } else { 0 };
        let roles = [Role::Attention, Role::Output, Role::GateUp, Role::Down];
        let all: usize = (0..description.layers.len())
            .flat_map(|layer| roles.map(|role| weights(description, layer, role)))
            .sum();
        let start = self.embedded(description, reading).map_err(lowered)?;
        let step = |layer, recipe: &mut dyn Recipe, smoothing: &Smoothing| {
            let lowering = Lowering {
                description,
                window: length,
                smoothing,
            };
            stage(&lowering, reading, layer, recipe).map_err(lowered)
        };

        let mut exact = start.clone();
        let mut candidates = Vec::new();
        for layer in 0..description.layers.len() {
            let mut recipe = Precision::Exact.recipe(&Ways::new());
            let graph = step(layer, recipe.as_mut(), &Smoothing::new())?;
            for (role, inputs) in self.walk(description, graph, &mut exact, shown)? {
                let choice = choose(description, reading, layer, role, &inputs).map_err(lowered)?;
                let linears = linears(description, layer, role).into_iter();
                candidates.push(Candidate {
                    place: Place { layer, role },
                    part: weights(description, layer, role) as f64 / all as f64,
                    outputs: linears.map(|linear| linear.weight.rows.len()).sum(),
                    choice,
                });
            }
        }
        // What comes after a token tells how well it was foreseen; after the last one nothing comes.
        let measured = seen * description.width..(length - 1) * description.width;
        let times = ways::times(precision);
        let mut tried = times.iter().enumerate();
        loop {
            let Some((n, &time)) = tried.next() else {
                return Err(failed("no time to try; this is a bug".to_owned()));
            };
            let (ways, smoothing) = ways::choose(time, &candidates);
            let mut other = start.clone();
            for layer in 0..description.layers.len() {
                let mut recipe = precision.recipe(&ways);
                let graph = step(layer, recipe.as_mut(), &smoothing)?;
                self.walk(description, graph, &mut other, 0)?;
            }
            let quality = self.compared(
                description,
                reading,
                precision,
                [
                    &exact.normed[measured.clone()],
                    &other.normed[measured.clone()],
                ],
                &self.tokens[seen + 1..],
            )?;
            if ways::is_near(&quality) || n + 1 == times.len() {
                return Ok(Calibrated {
                    smoothing,
                    ways,
                    quality,
                });
            }
        }
    }

    /// The text's embeddings, as the file has them.
    fn embedded(
        &self,
        description: &Description,
        reading: &Reading<'_>,
    ) -> Result<Hidden, LowerError> {
        let table = Weight::new(reading, &description.embedding);
        let mut sum = vec![0.0; self.tokens.len() * description.width];
        for (&token, row) in self
            .tokens
            .iter()
            .zip(sum.chunks_exact_mut(description.width))
        {
            let token = token as usize;
            table.floats(token..token + 1, row)?;
        }
        if let Some(scale) = description.embedding_scale {
            sum.iter_mut().for_each(|v| *v *= scale);
        }
        Ok(Hidden {
            sum,
            normed: Vec::new(),
        })
    }

    /// Takes one layer: `hidden` is replaced by what comes out. Of the first `shown` tokens says what goes into each
    /// product.
    fn walk(
        &self,
        description: &Description,
        graph: Stage,
        hidden: &mut Hidden,
        shown: usize,
    ) -> Result<Vec<(Role, Inputs)>, ImportError> {
        let Stage {
            model,
            sum,
            normed,
            inputs,
        } = graph;
        let mut session = self.session("a layer", model)?;
        let (length, width) = (self.tokens.len(), description.width);
        let (heads, size) = (description.kv_heads, description.head_dim);
        let cache =
            || Tensor::from_array(([1, heads, length, size], vec![0f32; heads * length * size]));
        let ids: Vec<i64> = self.tokens.iter().map(|&t| i64::from(t)).collect();
        let ids = Tensor::from_array(([1, length], ids)).map_err(ran)?;
        let mask = Tensor::from_array(([1, length], vec![1i64; length])).map_err(ran)?;
        let rows: Vec<i64> = (0..length as i64).collect();
        let rows = Tensor::from_array(([length], rows)).map_err(ran)?;
        let values = std::mem::take(&mut hidden.sum);
        let values = Tensor::from_array(([1, length, width], values)).map_err(ran)?;
        let given: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = vec![
            ("input_ids".into(), ids.into()),
            ("attention_mask".into(), mask.into()),
            ("logit_rows".into(), rows.into()),
            ("hidden".into(), values.into()),
            ("past_key_values.0.key".into(), cache().map_err(ran)?.into()),
            (
                "past_key_values.0.value".into(),
                cache().map_err(ran)?.into(),
            ),
        ];
        let outputs = session.run(given).map_err(ran)?;
        hidden.sum = taken(&outputs, &sum)?.to_vec();
        hidden.normed = taken(&outputs, &normed)?.to_vec();
        if shown == 0 {
            return Ok(Vec::new());
        }
        inputs
            .into_iter()
            .map(|(role, name)| {
                let values = taken(&outputs, &name)?;
                let channels = values.len() / length;
                let values = values[..shown * channels].to_vec();
                Ok((role, Inputs { values, channels }))
            })
            .collect()
    }

    /// The distance of two models by what goes into their heads (`exact` first, rows of the model's width); `next` are
    /// the tokens that came.
    fn compared(
        &self,
        description: &Description,
        reading: &Reading<'_>,
        precision: Precision,
        normed: [&[f32]; 2],
        next: &[u32],
    ) -> Result<Quality, ImportError> {
        let mut distance = Distance::new(next);
        for start in (0..description.vocabulary).step_by(WORDS) {
            let words = start..(start + WORDS).min(description.vocabulary);
            let logits = |precision: Precision, normed: &[f32]| {
                let mut recipe = precision.recipe(&Ways::new());
                let model =
                    head(description, reading, words.clone(), recipe.as_mut()).map_err(lowered)?;
                let mut session = self.session("the head", model)?;
                let shape = [next.len(), description.width];
                let normed = Tensor::from_array((shape, normed.to_vec())).map_err(ran)?;
                let outputs = session.run(ort::inputs!["normed" => normed]).map_err(ran)?;
                Ok::<_, ImportError>(taken(&outputs, "logits")?.to_vec())
            };
            let exact = logits(Precision::Exact, normed[0])?;
            let other = logits(precision, normed[1])?;
            distance.add(words.start, words.len(), &exact, &other);
        }
        let found = distance.found();
        Ok(Quality {
            kl: found.kl,
            top1: found.top1,
            perplexity_ratio: found.perplexity_ratio,
            against: Precision::Exact.name().to_owned(),
            text: NAME.to_owned(),
        })
    }

    /// A session that gives all its memory back; the model's bytes are gone when it is there.
    fn session(&self, name: &str, model: Vec<u8>) -> Result<Session, ImportError> {
        let cpu = Cpu {
            arena: false,
            memory_pattern: false,
            ..self.cpu.clone()
        };
        cpu.session_from_bytes(self.library, name, &model)
            .map_err(|error| failed(error.to_string()))
    }
}

/// Where a walk is.
#[derive(Clone)]
struct Hidden {
    /// `[S, width]`, out of the last layer taken.
    sum: Vec<f32>,
    /// The same as the head takes it; of use after the last layer.
    normed: Vec<f32>,
}

fn taken<'o>(outputs: &'o SessionOutputs<'_>, name: &str) -> Result<&'o [f32], ImportError> {
    let value = outputs
        .get(name)
        .ok_or_else(|| failed(format!("no output {name}")))?;
    Ok(value.try_extract_tensor::<f32>().map_err(ran)?.1)
}

/// Matrices as rows, read piece by piece.
struct Matrices<'a>(Vec<Weight<'a>>);

impl Rows<LowerError> for Matrices<'_> {
    fn each(&mut self, row: &mut dyn FnMut(&[f32])) -> Result<(), LowerError> {
        let mut floats = Vec::new();
        for weight in &self.0 {
            let at_once = ((1 << 18) / weight.columns().max(1)).max(1);
            for start in (0..weight.rows()).step_by(at_once) {
                let range = start..(start + at_once).min(weight.rows());
                floats.resize(range.len() * weight.columns(), 0.0);
                weight.floats(range, &mut floats)?;
                floats.chunks_exact(weight.columns()).for_each(&mut *row);
            }
        }
        Ok(())
    }
}

/// The matrices of a place.
fn linears(description: &Description, layer: usize, role: Role) -> Vec<&Linear> {
    let parts = &description.layers[layer];
    let (attention, mlp) = (&parts.attention, &parts.mlp);
    match role {
        Role::Attention => vec![&attention.q, &attention.k, &attention.v],
        Role::Output => vec![&attention.output],
        Role::GateUp => vec![&mlp.gate, &mlp.up],
        Role::Down => vec![&mlp.down],
        Role::Head => Vec::new(),
    }
}

/// How many weights a place has.
fn weights(description: &Description, layer: usize, role: Role) -> usize {
    let matrices = linears(description, layer, role).into_iter();
    matrices
        .map(|linear| linear.weight.rows.len() * linear.weight.columns)
        .sum()
}

fn choose(
    description: &Description,
    reading: &Reading<'_>,
    layer: usize,
    role: Role,
    inputs: &Inputs,
) -> Result<Choice, LowerError> {
    let linears = linears(description, layer, role);
    let share: Vec<usize> = if role == Role::Output {
        // Several query heads share the channels of a value head.
        let (size, queries) = (
            description.head_dim,
            description.heads / description.kv_heads,
        );
        (0..inputs.channels)
            .map(|k| k / size / queries * size + k % size)
            .collect()
    } else {
        (0..inputs.channels).collect()
    };
    let weights = linears
        .iter()
        .map(|linear| Weight::new(reading, &linear.weight));
    factors(inputs, &share, &mut Matrices(weights.collect()))
}

fn lowered(error: LowerError) -> ImportError {
    match error {
        LowerError::Cancelled => ImportError::Cancelled,
        other => ImportError::Lower(other),
    }
}

fn failed(said: String) -> ImportError {
    ImportError::Calibrate { said }
}

fn ran<R>(error: ort::Error<R>) -> ImportError {
    failed(one_line(error.message()))
}
