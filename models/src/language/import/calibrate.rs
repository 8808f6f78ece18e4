//! Runs a model layer by layer on a text: what goes into its products (to choose the smoothing), and how far the
//! precision that is imported is from `exact`.
//!
//! Two models walk through the text side by side, one layer at a time, so that the memory in use is that of one layer
//! and not of a model: `exact`, which shows the inputs of its products, and the one that is imported, with the factors
//! chosen from them. Factors are chosen on the first part of the text, distances measured on the rest.

use std::borrow::Cow;
use std::ops::Range;

use firstword_targets::{Cpu, Library, one_line};
use ort::session::{Session, SessionInputValue};
use ort::value::Tensor;

use super::{ImportError, Precision, Quality};
use crate::language::architecture::{Description, Linear};
use crate::language::lower::smoothing::{Choice, Inputs, Rows, factors};
use crate::language::lower::{
    LowerError, Lowering, Place, Reading, Role, Smoothing, Stage, Twice, Weight, stage,
};

/// The text both are done on: prose, talk, code, tables and other languages, written for this purpose.
pub const TEXT: &str = include_str!("calibration.txt");
/// Its name, as the manifest has it.
pub const NAME: &str = "firstword calibration text 1";

/// `fast` rounds inputs twice wherever rounding them once would cost more of the outputs' mean square than this times
/// the place's part of all layers' weights: so those that are rounded once cost less than this together, and time is
/// spent where it takes most away.
const MOST: f64 = 0.02;

/// Rows whose logits are computed at once.
const ROWS: usize = 32;

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
    /// The places whose inputs are rounded twice.
    pub twice: Twice,
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
        let mut smoothing = Smoothing::new();
        let mut twice = Twice::new();
        let roles = [Role::Attention, Role::Output, Role::GateUp, Role::Down];
        let all: usize = (0..description.layers.len())
            .flat_map(|layer| roles.map(|role| weights(description, layer, role)))
            .sum();
        let none = Smoothing::new();
        let mut exact = Hidden::default();
        let mut other = Hidden::default();
        let last = description.layers.len() - 1;
        for layer in 0..=last {
            let rows = if layer == last {
                seen..length - 1
            } else {
                0..0
            };
            let lowering = |smoothing| Lowering {
                description,
                window: length,
                smoothing,
            };
            let graph = stage(
                &lowering(&none),
                reading,
                layer,
                Precision::Exact.recipe(&twice).as_mut(),
            )
            .map_err(lowered)?;
            let inputs = self.walk(description, &graph, &mut exact, rows.clone())?;
            drop(graph);
            if precision.is_smoothed() {
                for (role, mut inputs) in inputs {
                    inputs.magnitudes.truncate(seen * inputs.channels);
                    let choice =
                        choose(description, reading, layer, role, &inputs).map_err(lowered)?;
                    let part = weights(description, layer, role) as f64 / all as f64;
                    let place = Place { layer, role };
                    let chosen = if precision == Precision::Balanced || choice.gain() > MOST * part
                    {
                        twice.insert(place);
                        choice.twice
                    } else {
                        choice.once
                    };
                    smoothing.insert(place, chosen.values);
                }
            }
            let graph = stage(
                &lowering(&smoothing),
                reading,
                layer,
                precision.recipe(&twice).as_mut(),
            )
            .map_err(lowered)?;
            self.walk(description, &graph, &mut other, rows)?;
        }
        let next = &self.tokens[seen + 1..];
        let quality = compare(&exact.logits, &other.logits, description.vocabulary, next);
        Ok(Calibrated {
            smoothing,
            twice,
            quality,
        })
    }

    /// Takes one layer: `hidden` is replaced by what comes out; of `rows` the logits are added.
    fn walk(
        &self,
        description: &Description,
        graph: &Stage,
        hidden: &mut Hidden,
        rows: Range<usize>,
    ) -> Result<Vec<(Role, Inputs)>, ImportError> {
        let mut session = self
            .cpu
            .session_from_bytes(self.library, "a layer", &graph.model)
            .map_err(|error| failed(error.to_string()))?;
        let mut came = self.step(
            description,
            graph,
            &mut session,
            hidden,
            0..self.tokens.len(),
        )?;
        for start in rows.clone().step_by(ROWS) {
            let some = start..(start + ROWS).min(rows.end);
            let mut logits = self
                .step(description, graph, &mut session, hidden, some)?
                .logits;
            hidden.logits.append(&mut logits);
        }
        hidden.values = std::mem::take(&mut came.sum);
        Ok(came.inputs)
    }

    fn step(
        &self,
        description: &Description,
        graph: &Stage,
        session: &mut Session,
        hidden: &Hidden,
        rows: Range<usize>,
    ) -> Result<Came, ImportError> {
        let length = self.tokens.len();
        let (heads, size) = (description.kv_heads, description.head_dim);
        let ids: Vec<i64> = self.tokens.iter().map(|&t| i64::from(t)).collect();
        let wanted: Vec<i64> = rows.clone().map(|row| row as i64).collect();
        // All rows are asked for to go on to the next layer: logits would be too many.
        let goes_on = rows.len() == length;
        let mut inputs: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = Vec::new();
        let cache =
            || Tensor::from_array(([1, heads, length, size], vec![0f32; heads * length * size]));
        inputs.push((
            "input_ids".into(),
            Tensor::from_array(([1, length], ids)).map_err(ran)?.into(),
        ));
        let mask = Tensor::from_array(([1, length], vec![1i64; length])).map_err(ran)?;
        inputs.push(("attention_mask".into(), mask.into()));
        let wanted = Tensor::from_array(([rows.len()], wanted)).map_err(ran)?;
        inputs.push(("logit_rows".into(), wanted.into()));
        for part in ["key", "value"] {
            let name = format!("past_key_values.0.{part}");
            inputs.push((name.into(), cache().map_err(ran)?.into()));
        }
        if session
            .inputs()
            .iter()
            .any(|input| input.name() == "hidden")
        {
            let shape = [1, length, description.width];
            let values = Tensor::from_array((shape, hidden.values.clone())).map_err(ran)?;
            inputs.push(("hidden".into(), values.into()));
        }
        let outputs = session.run(inputs).map_err(ran)?;
        let take = |name: &str| -> Result<Vec<f32>, ImportError> {
            let value = outputs
                .get(name)
                .ok_or_else(|| failed(format!("no output {name}")))?;
            Ok(value.try_extract_tensor::<f32>().map_err(ran)?.1.to_vec())
        };
        if !goes_on {
            return Ok(Came {
                logits: take("logits")?,
                ..Came::default()
            });
        }
        let mut shown = Vec::new();
        for (role, name) in &graph.inputs {
            let mut magnitudes = take(name)?;
            magnitudes.iter_mut().for_each(|v| *v = v.abs());
            let channels = magnitudes.len() / length;
            shown.push((
                *role,
                Inputs {
                    magnitudes,
                    channels,
                },
            ));
        }
        Ok(Came {
            sum: take(&graph.sum)?,
            inputs: shown,
            logits: Vec::new(),
        })
    }
}

/// Where a walk is.
#[derive(Default)]
struct Hidden {
    /// `[S, width]`, out of the last layer taken.
    values: Vec<f32>,
    logits: Vec<f32>,
}

/// What came out of a layer.
#[derive(Default)]
struct Came {
    sum: Vec<f32>,
    inputs: Vec<(Role, Inputs)>,
    logits: Vec<f32>,
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

/// Distances between two models' logits, rows of `vocabulary`; `next` are the tokens that came.
fn compare(exact: &[f32], other: &[f32], vocabulary: usize, next: &[u32]) -> Quality {
    let (mut kl, mut same, mut surprise, mut rows) = (0.0, 0usize, 0.0, 0usize);
    let pairs = exact
        .chunks_exact(vocabulary)
        .zip(other.chunks_exact(vocabulary));
    for ((exact, other), &token) in pairs.zip(next) {
        let (of_exact, of_other) = (log_sum(exact), log_sum(other));
        for (&e, &o) in exact.iter().zip(other) {
            let (e, o) = (f64::from(e) - of_exact, f64::from(o) - of_other);
            kl += e.exp() * (e - o);
        }
        same += usize::from(most_likely(exact) == most_likely(other));
        let at = token as usize;
        surprise += (f64::from(exact[at]) - of_exact) - (f64::from(other[at]) - of_other);
        rows += 1;
    }
    let rows = rows.max(1) as f64;
    Quality {
        kl: kl / rows,
        top1: same as f64 / rows,
        perplexity_ratio: (surprise / rows).exp(),
        against: Precision::Exact.name().to_owned(),
        text: NAME.to_owned(),
    }
}

/// ln Σ exp of a row.
fn log_sum(row: &[f32]) -> f64 {
    let most = row.iter().fold(f32::NEG_INFINITY, |most, &v| most.max(v));
    let sum: f64 = row.iter().map(|&v| f64::from(v - most).exp()).sum();
    f64::from(most) + sum.ln()
}

fn most_likely(row: &[f32]) -> Option<usize> {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]))
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

#[cfg(test)]
mod tests {
    use super::*;

    // By hand: p = (3/4, 1/4) against q = (1/2, 1/2): KL = 3/4 ln(3/2) + 1/4 ln(1/2); the token that came is the
    // second: surprise 1/4 against 1/2, so the other's perplexity is half.
    #[test]
    fn distances_are_those_of_the_textbook() {
        let exact = [3f32.ln() + 5.0, 5.0];
        let other = [0.0, 1e-7];
        let quality = compare(&exact, &other, 2, &[1]);
        let kl = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        assert!((quality.kl - kl).abs() < 1e-6, "{quality:?}");
        assert!((quality.perplexity_ratio - 0.5).abs() < 1e-6);
        assert_eq!(quality.top1, 0.0);
    }

    #[test]
    fn a_model_is_no_distance_from_itself() {
        let logits = [1.0, -2.0, 700.0, 3.0, 3.5, -1.0];
        let quality = compare(&logits, &logits, 3, &[2, 0]);
        assert_eq!(
            (quality.kl, quality.top1, quality.perplexity_ratio),
            (0.0, 1.0, 1.0)
        );
    }
}
