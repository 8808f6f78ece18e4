//! Many requests on one model, step by step: continuous batching of decode steps, prompts in chunks between them,
//! reuse of what is cached already.
//!
//! A call of [`Generator::step`] runs one step of the model at most and hands over what came of it. Nothing here waits
//! or sleeps, and time comes from a clock that is given, so that every order of events can be tested.

use std::collections::VecDeque;

use firstword_audio::Stamp;
use firstword_models::language::sampling::{Sampler, Workspace};

use super::active::{Active, Sequence};
pub use super::event::{Event, RunError};
use super::request::{GenerateError, Refused, Reply, Request, RequestId, Stop};
use super::schedule::{self, Step};
use super::slots::{self, Held};
use super::steps::{Rows, Steps};
use super::timing::{Chunk, DecodeStep, Timing};
use crate::log::{ModelId, Recorder, Role, StreamId};

/// Slots used at most, however many a model has.
const MOST_SLOTS: usize = 1024;
/// Room made beforehand for the tokens of a reply, whatever `max_tokens` says.
const ROOM: usize = 4096;

/// How a generator works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tokens of a prompt that run in one step (one at least). Measured on the CPU: attention does not skip what the
    /// causal mask rules out, so chunks of 128 are faster than a whole prompt of 512.
    pub chunk: usize,
    /// Tokens that end a reply.
    pub eos: Vec<u32>,
    /// Requests that may wait for a slot.
    pub waiting: usize,
    /// Where prompt and `max_tokens` together exceed the window: shorten the reply (it ends with [`Stop::Window`])
    /// instead of refusing the request.
    pub shorten: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chunk: 128,
            eos: Vec::new(),
            waiting: 64,
            shorten: true,
        }
    }
}

/// Runs requests on a model.
pub struct Generator<M: Steps> {
    model: M,
    options: Options,
    clock: Box<dyn FnMut() -> Stamp + Send>,
    slots: Vec<Held<M::Slot>>,
    waiting: VecDeque<Sequence>,
    /// Those whose prompt is not cached to its end, the one that is worked on first.
    prefilling: VecDeque<Active>,
    decoding: Vec<Active>,
    last: Option<Step>,
    next_id: u64,
    uses: u64,
    recorder: Recorder,
    id: ModelId,
    work: Workspace,
    batch: Vec<(M::Slot, u32)>,
    members: Vec<Active>,
}

impl<M: Steps> Generator<M> {
    /// A generator on a model, all of whose slots it takes.
    #[must_use]
    pub fn new(model: M, options: Options) -> Self {
        Self::with_clock(model, options, Box::new(Stamp::now))
    }

    /// The same, with another clock than CLOCK_MONOTONIC.
    #[must_use]
    pub fn with_clock(
        mut model: M,
        options: Options,
        clock: Box<dyn FnMut() -> Stamp + Send>,
    ) -> Self {
        let slots = std::iter::from_fn(|| model.open())
            .take(MOST_SLOTS)
            .map(|slot| Held {
                slot,
                tokens: Vec::new(),
                busy: false,
                used: 0,
            })
            .collect();
        Self {
            model,
            options: Options {
                chunk: options.chunk.max(1),
                ..options
            },
            clock,
            slots,
            waiting: VecDeque::new(),
            prefilling: VecDeque::new(),
            decoding: Vec::new(),
            last: None,
            next_id: 0,
            uses: 0,
            recorder: Recorder::off(),
            id: ModelId::default(),
            work: Workspace::default(),
            batch: Vec::new(),
            members: Vec::new(),
        }
    }

    /// Tells its steps to the log, which knows the model by this number.
    pub fn tell(&mut self, recorder: Recorder, id: ModelId) {
        (self.recorder, self.id) = (recorder, id);
    }

    /// The model.
    #[must_use]
    pub const fn model(&self) -> &M {
        &self.model
    }

    /// Tokens that end a reply.
    #[must_use]
    pub fn eos(&self) -> &[u32] {
        &self.options.eos
    }

    /// What every slot holds.
    #[must_use]
    pub fn slots(&self) -> &[Held<M::Slot>] {
        &self.slots
    }

    /// Whether no request waits or runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.prefilling.is_empty() && self.decoding.is_empty()
    }

    /// Gives the model back, its slots closed. Requests that were not at their end are gone.
    pub fn into_model(mut self) -> M {
        for held in &self.slots {
            self.model.close(held.slot);
        }
        self.model
    }

    /// Accepts a request. It runs with the next calls of [`step`](Self::step).
    ///
    /// # Errors
    ///
    /// A prompt that is empty or does not leave room for a reply in the window; a reply that does not fit and may not
    /// be shortened; sampling that makes no sense; too many requests that wait.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Refused> {
        let (prompt, window) = (request.prompt.len(), self.model.window());
        if prompt == 0 {
            return Err(Refused::EmptyPrompt);
        }
        if prompt > window || (prompt == window && request.max_tokens > 0) {
            return Err(Refused::PromptTooLong { prompt, window });
        }
        let room = window - prompt;
        if request.max_tokens > room && !self.options.shorten {
            return Err(Refused::ReplyTooLong {
                prompt,
                max_tokens: request.max_tokens,
                window,
            });
        }
        if self.waiting.len() >= self.options.waiting {
            return Err(Refused::Busy {
                waiting: self.waiting.len(),
            });
        }
        let limit = request.max_tokens.min(room);
        let sampler = Sampler::new(
            request.sampling,
            self.model.vocabulary(),
            &request.prompt,
            limit.min(ROOM),
        )?;
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let mut timing = Timing::new((self.clock)(), prompt);
        // Room for all steps at once: between two tokens nothing is allocated for their figures.
        timing.steps.reserve(limit.min(ROOM));
        self.waiting.push_back(Sequence {
            id,
            history: request.prompt,
            prompt,
            limit,
            at_limit: if request.max_tokens > room {
                Stop::Window
            } else {
                Stop::Length
            },
            sampler,
            constraint: request.constraint,
            text: request.text,
            ignore_eos: request.ignore_eos,
            cancel: request.cancel,
            timing,
        });
        Ok(id)
    }

    /// Ends what was cancelled, then runs one step of the model, if there is any work. Whether there may be more.
    pub fn step(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> bool {
        self.end_cancelled(on_event);
        self.find_outgrown();
        let free = self.slots.is_empty() || self.slots.iter().any(|held| !held.busy);
        let prompts = !self.prefilling.is_empty() || (free && !self.waiting.is_empty());
        self.last = schedule::next(self.last, prompts, !self.decoding.is_empty());
        match self.last {
            Some(Step::Prefill) => self.prefill(on_event),
            Some(Step::Decode) => self.decode(on_event),
            None => {}
        }
        !self.is_idle()
    }

    /// Runs one request to its end; text is handed over as it becomes certain. Others that were submitted run along,
    /// and what comes of them is lost: this is for a caller with one request at a time.
    ///
    /// # Errors
    ///
    /// The request was not accepted, or failed on its way.
    pub fn run_one(
        &mut self,
        request: Request,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Reply, RunError> {
        let mine = self.submit(request)?;
        let mut end = None;
        while end.is_none() {
            self.step(&mut |event| match event {
                Event::Token { id, text, .. } if id == mine && !text.is_empty() => on_text(text),
                Event::Done { id, rest, reply } if id == mine => {
                    if !rest.is_empty() {
                        on_text(&rest);
                    }
                    end = Some(Ok(reply));
                }
                Event::Failed { id, error, .. } if id == mine => end = Some(Err(error)),
                _ => {}
            });
        }
        end.map_or(Err(GenerateError::NoSlot.into()), |end| {
            end.map_err(RunError::from)
        })
    }

    fn end_cancelled(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let cancelled = |sequence: &Sequence| sequence.cancel.is_cancelled();
        while let Some(at) = self.waiting.iter().position(cancelled) {
            if let Some(sequence) = self.waiting.remove(at) {
                finish(sequence, Ok(Stop::Cancelled), &mut self.clock, on_event);
            }
        }
        while let Some(at) = self.prefilling.iter().position(|a| cancelled(&a.sequence)) {
            if let Some(active) = self.prefilling.remove(at) {
                release(&mut self.slots, &mut self.uses, active.slot);
                finish(
                    active.sequence,
                    Ok(Stop::Cancelled),
                    &mut self.clock,
                    on_event,
                );
            }
        }
        while let Some(at) = self.decoding.iter().position(|a| cancelled(&a.sequence)) {
            let active = self.decoding.remove(at);
            release(&mut self.slots, &mut self.uses, active.slot);
            finish(
                active.sequence,
                Ok(Stop::Cancelled),
                &mut self.clock,
                on_event,
            );
        }
    }

    /// Replies whose cache cannot be part of the sequence that they become: all of it is prefilled again.
    fn find_outgrown(&mut self) {
        let mut at = 0;
        while let Some(active) = self.decoding.get(at) {
            let held = &mut self.slots[active.slot];
            if self
                .model
                .must_refill(held.slot, active.sequence.history.len())
            {
                self.model.truncate(held.slot, 0);
                held.tokens.clear();
                self.prefilling.push_back(self.decoding.remove(at));
            } else {
                at += 1;
            }
        }
    }

    /// Gives the oldest waiting request a slot, with as much of its prompt in it as is cached anywhere.
    fn admit(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let Some(mut sequence) = self.waiting.pop_front() else {
            return;
        };
        let prompt = &sequence.history;
        let usable = |held: &Held<M::Slot>| !self.model.must_refill(held.slot, prompt.len());
        let Some(place) = slots::place(&self.slots, prompt, usable) else {
            let error = GenerateError::NoSlot;
            finish(sequence, Err(error), &mut self.clock, on_event);
            return;
        };
        sequence.timing.started = Some((self.clock)());
        let target = self.slots[place.target].slot;
        let reused = match place.source {
            None => {
                self.model.truncate(target, place.reused);
                place.reused
            }
            Some(source) => {
                self.model.truncate(target, 0);
                match self
                    .model
                    .copy(self.slots[source].slot, target, place.reused)
                {
                    Ok(()) => place.reused,
                    // A copy saves time; without it the whole prompt is prefilled.
                    Err(_) => {
                        self.model.truncate(target, 0);
                        0
                    }
                }
            }
        };
        sequence.timing.cached_tokens = reused as u32;
        let held = &mut self.slots[place.target];
        held.tokens.clear();
        held.tokens.extend_from_slice(&sequence.history[..reused]);
        held.busy = true;
        self.prefilling.push_back(Active {
            slot: place.target,
            sequence,
            chosen: Ok(None),
        });
    }

    fn prefill(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        if self.prefilling.is_empty() {
            self.admit(on_event);
        }
        let Some(mut active) = self.prefilling.pop_front() else {
            return;
        };
        let sequence = &mut active.sequence;
        let held = &mut self.slots[active.slot];
        let (from, end) = (held.tokens.len(), sequence.history.len());
        let whole = from == 0 && self.model.must_be_whole(end);
        let to = if whole {
            end
        } else {
            end.min(from + self.options.chunk)
        };
        let tokens = &sequence.history[from..to];
        let wanted = to == end && sequence.limit > 0;
        let began = (self.clock)();
        let chosen = {
            let result = self.model.prefill(held.slot, tokens, end, wanted);
            let ended = (self.clock)();
            self.recorder.step(crate::log::Step {
                role: Role::Prefill,
                model: self.id,
                stream: StreamId::default(),
                batch: 1,
                due: sequence.timing.ready(),
                start: began,
                end: ended,
            });
            sequence.timing.chunks.push(Chunk {
                tokens: tokens.len() as u32,
                began,
                took: ended.since(began),
            });
            match result {
                Err(error) => Err(GenerateError::Step {
                    what: "a prefill chunk",
                    tokens: tokens.len(),
                    reason: error.to_string(),
                }),
                Ok(logits) => {
                    held.tokens.extend_from_slice(tokens);
                    if wanted {
                        let eos = &self.options.eos;
                        let work = &mut self.work;
                        sequence.advance(logits.row(0), eos, work, &mut self.clock, on_event)
                    } else if to == end {
                        Ok(Some(sequence.at_limit.clone()))
                    } else {
                        Ok(None)
                    }
                }
            }
        };
        if chosen == Ok(None) && to < end {
            self.prefilling.push_front(active);
        } else {
            self.settle(active, chosen, on_event);
        }
    }

    fn decode(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        std::mem::swap(&mut self.decoding, &mut self.members);
        self.batch.clear();
        for Active { slot, sequence, .. } in &self.members {
            // What is decoded has one token that is not cached yet: the one chosen last.
            let held = &self.slots[*slot];
            self.batch
                .push((held.slot, sequence.history[held.tokens.len()]));
        }
        let began = (self.clock)();
        let failed = {
            let result = self.model.decode(&self.batch);
            let ended = (self.clock)();
            let step = DecodeStep::new(ended.since(began), self.batch.len());
            for Active { sequence, .. } in &self.members {
                self.recorder.step(crate::log::Step {
                    role: Role::Decode,
                    model: self.id,
                    stream: StreamId::default(),
                    batch: self.batch.len(),
                    due: sequence.timing.ready(),
                    start: began,
                    end: ended,
                });
            }
            match result {
                Err(error) => Some(error.to_string()),
                Ok(logits) => {
                    for (row, active) in self.members.iter_mut().enumerate() {
                        self.slots[active.slot].tokens.push(self.batch[row].1);
                        active.sequence.timing.steps.push(step);
                        let eos = &self.options.eos;
                        let work = &mut self.work;
                        let sequence = &mut active.sequence;
                        active.chosen =
                            sequence.advance(logits.row(row), eos, work, &mut self.clock, on_event);
                    }
                    None
                }
            }
        };
        let mut members = std::mem::take(&mut self.members);
        for mut active in members.drain(..) {
            let chosen = match &failed {
                None => std::mem::replace(&mut active.chosen, Ok(None)),
                Some(reason) => Err(GenerateError::Step {
                    what: "a decode step",
                    tokens: self.batch.len(),
                    reason: reason.clone(),
                }),
            };
            self.settle(active, chosen, on_event);
        }
        self.members = members;
    }

    /// Goes on with a reply, or ends it.
    fn settle(
        &mut self,
        active: Active,
        end: Result<Option<Stop>, GenerateError>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) {
        let end = match end {
            Ok(None) => {
                self.decoding.push(active);
                return;
            }
            Ok(Some(stop)) => Ok(stop),
            Err(error) => Err(error),
        };
        if matches!(
            end,
            Err(GenerateError::Step { .. } | GenerateError::Sampling(_))
        ) {
            // Nobody knows what a failed step left in the slot; and logits that are no numbers are in the cache too.
            let held = &mut self.slots[active.slot];
            self.model.truncate(held.slot, 0);
            held.tokens.clear();
        }
        release(&mut self.slots, &mut self.uses, active.slot);
        finish(active.sequence, end, &mut self.clock, on_event);
    }
}

/// A slot is free; what it holds may be reused.
fn release<S>(slots: &mut [Held<S>], uses: &mut u64, index: usize) {
    *uses += 1;
    slots[index].busy = false;
    slots[index].used = *uses;
}

/// The last event of a request.
fn finish(
    mut sequence: Sequence,
    end: Result<Stop, GenerateError>,
    clock: &mut dyn FnMut() -> Stamp,
    on_event: &mut dyn FnMut(Event<'_>),
) {
    let id = sequence.id;
    sequence.timing.ended = clock();
    sequence.timing.context_tokens = u32::try_from(sequence.history.len()).unwrap_or(u32::MAX);
    match end {
        Ok(stop) => {
            let rest = sequence
                .text
                .as_mut()
                .map(|text| text.finish())
                .unwrap_or_default();
            let reply = Reply {
                tokens: sequence.history.split_off(sequence.prompt),
                stop,
                timing: sequence.timing,
            };
            on_event(Event::Done { id, rest, reply });
        }
        Err(error) => on_event(Event::Failed {
            id,
            error,
            timing: sequence.timing,
        }),
    }
}
