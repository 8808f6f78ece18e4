//! Logits → the next token: greedy, temperature, top-k, top-p, min-p, penalties, bias, seed.
//!
//! The order is that of llama.cpp's default chain (`common/sampling.cpp`; its dry, typical-p, top-n-sigma and xtc
//! steps, off by default there, do not exist here):
//!
//! 1. tokens that a constraint rules out get −∞;
//! 2. logit bias: `logit += bias`;
//! 3. penalties: repetition (Keskar et al., "CTRL", 2019, as in Hugging Face and llama.cpp: a positive logit is
//!    divided, another multiplied) on every token of the prompt and of the answer; then presence and frequency
//!    (OpenAI: `logit -= presence + frequency · count`) on the tokens of the answer, counted there only, as vLLM does;
//! 4. top-k, top-p, min-p, each on the probabilities among what the one before it left, at temperature 1;
//! 5. temperature, then one draw. (Where only temperature or min-p are on, nothing is sorted or selected: see `weights`.)
//!
//! Temperature 0 takes the highest logit after step 3 (the lowest id of equals) and draws nothing.
//!
//! **The draw.** The weights `exp((logit − highest) / temperature)` of what is left are summed up in the order of the
//! vocabulary, and the token is the first whose running sum exceeds `u · total`, where `u` is the sequence's next
//! random number ([`random::Random`], SplitMix64: the n-th number depends on the seed and n only). The same seed on the
//! same logits therefore gives the same text, alone or in a batch, whatever others draw.
//!
//! Log-probabilities are those of the model: of the logits before step 1, as OpenAI, vLLM and llama.cpp report them.

pub mod filter;
pub mod random;
mod weights;

use self::filter::Candidate;
use self::random::Random;
use super::constraint::TokenSet;

/// How a request chooses its tokens. The default is greedy, with everything else off.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0: the highest logit. Above, the logits are divided by it before the draw.
    pub temperature: f32,
    /// Only the so many highest; 0: all.
    pub top_k: u32,
    /// Only the fewest whose probabilities reach this; 1: all. In (0, 1].
    pub top_p: f32,
    /// Only those with at least this share of the highest probability; 0: all. In [0, 1].
    pub min_p: f32,
    /// Positive logits of tokens seen are divided by it, others multiplied; 1: off. Above 0.
    pub repetition_penalty: f32,
    /// Taken off the logit of a token that is in the answer; 0: off.
    pub presence_penalty: f32,
    /// Taken off for each time that a token is in the answer; 0: off.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens; −∞ rules one out.
    pub logit_bias: Vec<(u32, f32)>,
    /// What the draws depend on.
    pub seed: u64,
    /// Report the log-probability of the chosen token, and of so many of the most probable ones.
    pub log_probabilities: Option<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            log_probabilities: None,
        }
    }
}

/// Why no token could be chosen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A parameter makes no sense.
    #[error("{name} is {found}: expected {expected}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: f32,
    },
    /// A token that the model does not have.
    #[error(
        "{place} names token {token}: the model has tokens 0 to {last}, {advice}",
        last = vocabulary.saturating_sub(1)
    )]
    NoSuchToken {
        /// Where it is named.
        place: &'static str,
        /// The token.
        token: u32,
        /// How many tokens there are.
        vocabulary: usize,
        /// What to do.
        advice: &'static str,
    },
    /// The model gave another number of logits.
    #[error(
        "the model gave {found} logits, expected {expected}: its vocabulary and its graph do not fit together"
    )]
    Vocabulary {
        /// Tokens of the vocabulary.
        expected: usize,
        /// Logits given.
        found: usize,
    },
    /// The model computed something that is no number.
    #[error(
        "the logit of token {token} is {value}, expected a number: the model's weights are damaged, \
         or this target computes it wrongly; try another target or import it again"
    )]
    NotANumber {
        /// The first such token.
        token: usize,
        /// NaN or an infinity.
        value: f32,
    },
    /// Every token is ruled out.
    #[error(
        "no token may come next: constraint and logit_bias together rule all of them out; loosen one of them"
    )]
    NothingAllowed,
}

impl Sampling {
    /// Checks every parameter against a vocabulary of so many tokens.
    ///
    /// # Errors
    ///
    /// The first parameter that makes no sense, with what it may be.
    pub fn check(&self, vocabulary: usize) -> Result<(), SamplingError> {
        let above_zero = |x: f32| x.is_finite() && x > 0.0;
        for (name, found, fits, expected) in [
            (
                "temperature",
                self.temperature,
                self.temperature.is_finite() && self.temperature >= 0.0,
                "0 (the most probable token) or a number above it",
            ),
            (
                "top_p",
                self.top_p,
                self.top_p > 0.0 && self.top_p <= 1.0,
                "a number above 0, up to 1 (off)",
            ),
            (
                "min_p",
                self.min_p,
                (0.0..=1.0).contains(&self.min_p),
                "a number from 0 (off) to 1",
            ),
            (
                "repetition_penalty",
                self.repetition_penalty,
                above_zero(self.repetition_penalty),
                "a number above 0 (1 is off)",
            ),
            (
                "presence_penalty",
                self.presence_penalty,
                self.presence_penalty.is_finite(),
                "a number (0 is off)",
            ),
            (
                "frequency_penalty",
                self.frequency_penalty,
                self.frequency_penalty.is_finite(),
                "a number (0 is off)",
            ),
        ] {
            if !fits {
                return Err(SamplingError::Parameter {
                    name,
                    expected,
                    found,
                });
            }
        }
        for &(token, bias) in &self.logit_bias {
            if token as usize >= vocabulary {
                return Err(SamplingError::NoSuchToken {
                    place: "logit_bias",
                    token,
                    vocabulary,
                    advice: "leave it out",
                });
            }
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(SamplingError::Parameter {
                    name: "logit_bias",
                    expected: "a number, or -inf to rule a token out",
                    found: bias,
                });
            }
        }
        Ok(())
    }

    fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Its id.
    pub token: u32,
    /// Its log-probability in the model's own distribution, where asked for.
    pub log_probability: Option<f32>,
}

/// Memory that choosing needs, shared by the sequences of a device; after a few choices it does not grow any more.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    adjusted: Vec<f32>,
    candidates: Vec<Candidate>,
    scratch: Vec<Candidate>,
    weights: Vec<f32>,
    /// The sums of blocks of `weights`, where every token has one.
    sums: Vec<f64>,
    /// `weights` has one for every token of the vocabulary, not for every candidate.
    whole: bool,
    best: Vec<Candidate>,
    alternatives: Vec<(u32, f32)>,
}

impl Workspace {
    /// The last choice's most probable tokens and their log-probabilities, best first, where asked for.
    #[must_use]
    pub fn alternatives(&self) -> &[(u32, f32)] {
        &self.alternatives
    }

    /// The tokens among which the last choice was drawn, in the order of the vocabulary, and their probabilities.
    /// Empty after a greedy choice.
    pub fn drawn_from(&self) -> impl Iterator<Item = (u32, f64)> {
        let total: f64 = self.weights.iter().copied().map(f64::from).sum();
        let token = |at: usize| match self.whole {
            true => at as u32,
            false => self.candidates[at].token,
        };
        let drawn = |(_, weight): &(usize, &f32)| !self.whole || **weight > 0.0;
        let weights = self.weights.iter().enumerate().filter(drawn);
        weights.map(move |(at, &weight)| (token(at), f64::from(weight) / total))
    }
}

/// Chooses the tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    vocabulary: usize,
    random: Random,
    /// Of each token, where penalties are on: 0 unseen, 1 in the prompt only, 1 + n in the answer n times.
    seen: Vec<u32>,
    /// The tokens whose `seen` is not 0.
    distinct: Vec<u32>,
}

impl Sampler {
    /// A sampler for a sequence that begins with `prompt`; `expected` more tokens find room without allocation.
    ///
    /// # Errors
    ///
    /// Parameters that make no sense; a prompt with a token that the model does not have.
    pub fn new(
        sampling: Sampling,
        vocabulary: usize,
        prompt: &[u32],
        expected: usize,
    ) -> Result<Self, SamplingError> {
        sampling.check(vocabulary)?;
        if let Some(&token) = prompt.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(SamplingError::NoSuchToken {
                place: "the prompt",
                token,
                vocabulary,
                advice: "use the tokenizer that belongs to this model",
            });
        }
        let mut sampler = Self {
            random: Random::new(sampling.seed),
            seen: Vec::new(),
            distinct: Vec::new(),
            vocabulary,
            sampling,
        };
        if sampler.sampling.penalises() {
            sampler.seen = vec![0; vocabulary];
            let most = prompt.len().saturating_add(expected).min(vocabulary);
            sampler.distinct.reserve_exact(most);
            for &token in prompt {
                let seen = &mut sampler.seen[token as usize];
                if *seen == 0 {
                    *seen = 1;
                    sampler.distinct.push(token);
                }
            }
        }
        Ok(sampler)
    }

    /// Chooses the next token from the logits of the last one (one for each token of the vocabulary), among those
    /// that are `allowed`, and remembers it.
    ///
    /// # Errors
    ///
    /// Another number of logits than tokens; a logit that is NaN or +∞; everything ruled out.
    pub fn choose(
        &mut self,
        logits: &[f32],
        allowed: Option<&TokenSet>,
        work: &mut Workspace,
    ) -> Result<Choice, SamplingError> {
        if logits.len() != self.vocabulary {
            return Err(SamplingError::Vocabulary {
                expected: self.vocabulary,
                found: logits.len(),
            });
        }
        let highest = |logits: &[f32]| {
            filter::highest(logits).map_err(|token| SamplingError::NotANumber {
                token,
                value: logits[token],
            })
        };
        let raw = highest(logits)?;
        work.candidates.clear();
        work.weights.clear();
        work.whole = false;
        let token = if allowed.is_some()
            || !self.sampling.logit_bias.is_empty()
            || !self.distinct.is_empty()
        {
            let mut adjusted = std::mem::take(&mut work.adjusted);
            self.adjust(logits, allowed, &mut adjusted);
            let token = highest(&adjusted).and_then(|top| self.pick(&adjusted, top, work));
            work.adjusted = adjusted;
            token?
        } else {
            self.pick(logits, raw, work)?
        };
        self.remember(token);
        let log_probability = self
            .sampling
            .log_probabilities
            .map(|count| log_probabilities(logits, raw, token, count as usize, work));
        Ok(Choice {
            token,
            log_probability,
        })
    }

    /// Steps 1 to 3.
    fn adjust(&self, logits: &[f32], allowed: Option<&TokenSet>, adjusted: &mut Vec<f32>) {
        adjusted.clear();
        adjusted.extend_from_slice(logits);
        if let Some(allowed) = allowed {
            allowed.rule_out_others(adjusted);
        }
        for &(token, bias) in &self.sampling.logit_bias {
            adjusted[token as usize] += bias;
        }
        let repetition = self.sampling.repetition_penalty;
        for &token in &self.distinct {
            let logit = &mut adjusted[token as usize];
            if *logit > 0.0 {
                *logit /= repetition;
            } else {
                *logit *= repetition;
            }
            let count = self.seen[token as usize] - 1;
            if count > 0 {
                *logit -=
                    self.sampling.presence_penalty + self.sampling.frequency_penalty * count as f32;
            }
        }
    }

    /// Steps 4 and 5.
    fn pick(
        &mut self,
        logits: &[f32],
        top: Candidate,
        work: &mut Workspace,
    ) -> Result<u32, SamplingError> {
        if top.logit == f32::NEG_INFINITY {
            return Err(SamplingError::NothingAllowed);
        }
        let sampling = &self.sampling;
        if sampling.temperature == 0.0 {
            return Ok(top.token);
        }
        let candidates = &mut work.candidates;
        let k = sampling.top_k as usize;
        let by_count = k > 0 && k < logits.len();
        if !by_count && sampling.top_p == 1.0 && sampling.min_p == 0.0 {
            work.whole = true;
            let (temperature, unit) = (sampling.temperature, self.random.unit());
            let (weights, sums) = (&mut work.weights, &mut work.sums);
            let drawn = weights::draw(logits, top.logit, temperature, unit, weights, sums);
            // u < 1, so some sum exceeds the goal, save where the product was rounded up to the total.
            return Ok(drawn.unwrap_or(top.token));
        }
        let mut total = 0.0;
        if by_count {
            filter::top_k(logits, k, candidates, &mut work.scratch);
            if sampling.top_p < 1.0 {
                let weight = |c: &Candidate| f64::from((c.logit - top.logit).exp());
                total = candidates.iter().map(weight).sum();
            }
        } else if sampling.top_p < 1.0 {
            total = weights::total(logits, top.logit);
            let floor = filter::top_p_floor(sampling.top_p, top.logit, total, logits.len());
            filter::all(logits, floor, candidates);
        } else {
            filter::all(
                logits,
                filter::min_p_floor(sampling.min_p, top.logit),
                candidates,
            );
        }
        if sampling.top_p < 1.0 {
            filter::top_p(
                sampling.top_p,
                top.logit,
                total,
                candidates,
                &mut work.scratch,
            );
        }
        if sampling.min_p > 0.0 {
            filter::min_p(sampling.min_p, top.logit, candidates);
        }
        // With a temperature next to 0 the quotient is 0 or −∞, and the weight 1 or 0.
        let temperature = sampling.temperature;
        let weight = |c: &Candidate| ((c.logit - top.logit) / temperature).exp();
        work.weights.extend(candidates.iter().map(weight));
        let total: f64 = work.weights.iter().copied().map(f64::from).sum();
        let goal = self.random.unit() * total;
        let mut sum = 0.0;
        for (candidate, &weight) in candidates.iter().zip(&work.weights) {
            sum += f64::from(weight);
            if sum > goal {
                return Ok(candidate.token);
            }
        }
        // u < 1, so the last sum, which is `total`, exceeds the goal, save where the product was rounded up to it.
        Ok(top.token)
    }

    fn remember(&mut self, token: u32) {
        if let Some(seen) = self.seen.get_mut(token as usize) {
            if *seen == 0 {
                self.distinct.push(token);
            }
            *seen = (*seen).max(1) + 1;
        }
    }
}

/// The log-probability of `token`, and of the `count` most probable ones in `work.alternatives`.
fn log_probabilities(
    logits: &[f32],
    top: Candidate,
    token: u32,
    count: usize,
    work: &mut Workspace,
) -> f32 {
    let weights = logits.iter().map(|&x| f64::from((x - top.logit).exp()));
    let normaliser = f64::from(top.logit) + weights.sum::<f64>().ln();
    let of = |logit: f32| (f64::from(logit) - normaliser) as f32;
    let mut best = std::mem::take(&mut work.best);
    filter::best(
        logits,
        count.min(logits.len()),
        &mut best,
        &mut work.scratch,
    );
    work.alternatives.clear();
    work.alternatives
        .extend(best.iter().map(|c| (c.token, of(c.logit))));
    work.best = best;
    of(logits[token as usize])
}

#[cfg(test)]
mod tests;
