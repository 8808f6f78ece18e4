//! One request on its way: its tokens so far, and what a row of logits makes of it.

use firstword_audio::Stamp;
use firstword_models::language::constraint::Constraint;
use firstword_models::language::sampling::{Sampler, Workspace};

use super::generator::Event;
use super::request::{Cancel, GenerateError, RequestId, Stop, Text};
use super::timing::Timing;

/// A request, waiting or running.
pub(super) struct Sequence {
    pub id: RequestId,
    /// The prompt, then the tokens of the reply.
    pub history: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the reply at most.
    pub limit: usize,
    /// Why it ends at that limit.
    pub at_limit: Stop,
    pub sampler: Sampler,
    pub constraint: Option<Constraint>,
    pub text: Option<Box<dyn Text>>,
    pub ignore_eos: bool,
    pub cancel: Cancel,
    pub timing: Timing,
}

impl Sequence {
    /// The tokens of the reply.
    pub fn reply(&self) -> &[u32] {
        &self.history[self.prompt..]
    }

    /// Chooses the next token from the logits of the last one, and hands it over. Why the reply ends with it, if it
    /// does.
    pub fn advance(
        &mut self,
        logits: &[f32],
        eos: &[u32],
        work: &mut Workspace,
        clock: &mut dyn FnMut() -> Stamp,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Stop>, GenerateError> {
        let allowed = self.constraint.as_ref().map(Constraint::allowed);
        let choice = self.sampler.choose(logits, allowed, work)?;
        let token = choice.token;
        if eos.contains(&token) && !self.ignore_eos {
            return Ok(Some(Stop::Eos(token)));
        }
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token)?;
        }
        self.history.push(token);
        let before = self.text.is_some().then(&mut *clock);
        let text = self
            .text
            .as_mut()
            .map(|text| text.push(token))
            .unwrap_or_default();
        let now = clock();
        self.timing.detokenise += before.map(|before| now.since(before)).unwrap_or_default();
        self.timing.first_token.get_or_insert(now);
        self.timing.last_token = Some(now);
        self.timing.output_tokens += 1;
        on_event(Event::Token {
            id: self.id,
            token,
            text: &text,
            log_probability: choice.log_probability,
            alternatives: work.alternatives(),
        });
        if let Some(stop) = self.text.as_ref().and_then(|text| text.stopped()) {
            return Ok(Some(Stop::StopString(stop.to_owned())));
        }
        if self.constraint.as_ref().is_some_and(Constraint::finished) {
            return Ok(Some(Stop::Complete));
        }
        Ok((self.reply().len() >= self.limit).then(|| self.at_limit.clone()))
    }
}

/// A request that works in a slot.
pub(super) struct Active {
    /// Index of the slot.
    pub slot: usize,
    pub sequence: Sequence,
    /// What the step that just ran came to: why the reply ends, if it does.
    pub chosen: Result<Option<Stop>, GenerateError>,
}
