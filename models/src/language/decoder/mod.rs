//! Prompt chunks and decode steps on a session, with the key/value cache in slots.
//!
//! A [`Decoder`] has a number of slots, each for one sequence of tokens with its keys and values.
//! [`Decoder::prefill`] appends a chunk of a prompt to one sequence; [`Decoder::decode`] appends one
//! token each to any number of them, whatever their lengths. Nothing beyond a sequence's length is ever
//! read, so rewinding is a matter of saying so ([`Decoder::truncate`]), and a failed run changes nothing.
//!
//! | module | what it answers |
//! | --- | --- |
//! | `fused` | graphs that write the cache in place |
//! | `growing` | graphs that return the whole cache anew |
//! | `rows` | graphs that return the new keys and values only |
//! | `placement` | which row of the cache has which slot |
//! | `cache`, `logits` | the memory that runs read and write |
//! | `memory` | is there enough of it? |
//! | `raw` | ONNX Runtime's C interface |

mod cache;
mod error;
mod fused;
mod growing;
mod logits;
mod memory;
mod placement;
mod raw;
mod rows;

use firstword_targets::{Cpu, Library};
use ort::session::Session;

pub use error::DecoderError;
pub use logits::Logits;
pub use memory::{Needed, available};

use crate::language::folder::{Element, LanguageFolder, Layout, ModelShape};
use fused::Fused;
use growing::Growing;
use logits::Output;
use rows::Rows;

/// More sequences than a small device can serve; the bindings grow with the square.
const MOST_SLOTS: usize = 256;

/// How many sequences there may be, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sequences at once.
    pub slots: usize,
    /// Tokens of each, prompt and reply together. More than the model's window is cut to that.
    pub window: usize,
}

/// A sequence that was opened. Closed, it is refused everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    index: usize,
    generation: u64,
}

/// Whose logits a chunk shall give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// None: a chunk inside a prompt.
    None,
    /// The last token's: the end of a prompt.
    Last,
    /// Those of these tokens of the chunk, counted from its beginning, in this order.
    Rows(&'a [usize]),
}

/// What was done so far; for tests and measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of the session.
    pub runs: u64,
    /// Cache tensors bound: `2 · layers` for every run of adjacent rows, once.
    pub cache_binds: u64,
    /// Other tensors bound: ids, mask, rows, logits, where their shape changed.
    pub small_binds: u64,
    /// Exchanges of rows, because sequences of one batch were not side by side.
    pub moves: u64,
}

/// A part of a prompt for an engine; everything was checked.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    slot: usize,
    past: usize,
    tokens: &'a [u32],
    /// For LongRoPE.
    end: usize,
    rows: &'a [usize],
}

/// One token of a batch; `index` counts in the caller's order.
#[derive(Clone, Copy, Debug)]
struct Step {
    slot: usize,
    token: u32,
    index: usize,
}

/// A batch for an engine; everything was checked.
struct Group<'a> {
    steps: &'a [Step],
    /// Of all slots.
    lengths: &'a [usize],
    /// For LongRoPE.
    rope_total: usize,
}

#[derive(Debug)]
enum Engine {
    Fused(Box<Fused<f32>>),
    FusedHalf(Box<Fused<half::f16>>),
    Growing(Box<Growing<f32>>),
    GrowingHalf(Box<Growing<half::f16>>),
    Rows(Box<Rows>),
}

/// Calls the same method of whichever engine there is.
macro_rules! each {
    ($engine:expr, $name:ident => $call:expr) => {
        match $engine {
            Engine::Fused($name) => $call,
            Engine::FusedHalf($name) => $call,
            Engine::Growing($name) => $call,
            Engine::GrowingHalf($name) => $call,
            Engine::Rows($name) => $call,
        }
    };
}

/// A language model that is loaded, and the sequences it has.
#[derive(Debug)]
pub struct Decoder {
    engine: Engine,
    output: Output,
    shape: ModelShape,
    capacity: Capacity,
    /// The graph can be told the whole length of a prompt.
    knows_end: bool,
    /// For each slot, counted up when it is opened; odd while it is open.
    generations: Vec<u64>,
    lengths: Vec<usize>,
    /// Which of LongRoPE's factors a sequence's keys were turned by.
    long: Vec<bool>,
    steps: Vec<Step>,
    rows: Vec<usize>,
    counts: Counts,
}

impl Decoder {
    /// Loads the model of a folder, with room for `capacity`.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Memory`] before anything is loaded, if the memory would not suffice;
    /// [`DecoderError::Session`] if ONNX Runtime refuses the graph.
    pub fn load(
        library: &Library,
        cpu: &Cpu,
        folder: &LanguageFolder,
        capacity: Capacity,
    ) -> Result<Self, DecoderError> {
        Self::load_within(library, cpu, folder, capacity, available())
    }

    /// The same with the memory there is said by the caller, in bytes; `None`: not limited.
    ///
    /// # Errors
    ///
    /// As [`Decoder::load`].
    pub fn load_within(
        library: &Library,
        cpu: &Cpu,
        folder: &LanguageFolder,
        capacity: Capacity,
        available: Option<u64>,
    ) -> Result<Self, DecoderError> {
        let shape = folder.shape;
        if capacity.slots == 0 || capacity.window == 0 || capacity.slots > MOST_SLOTS {
            return Err(DecoderError::Capacity {
                slots: capacity.slots,
                window: capacity.window,
                most: MOST_SLOTS,
            });
        }
        let capacity = Capacity {
            window: capacity.window.min(shape.window),
            ..capacity
        };
        Needed::of(folder, capacity).fit(capacity, available)?;
        // Every chunk and every step has its own length: no memory plan for each.
        let cpu = &cpu.clone().for_changing_shapes();
        let engine = match (folder.layout, folder.signature.cache_element) {
            (Layout::Fused, Element::F32) => {
                Engine::Fused(Box::new(Fused::load(library, cpu, folder, capacity)?))
            }
            (Layout::Fused, Element::F16) => {
                Engine::FusedHalf(Box::new(Fused::load(library, cpu, folder, capacity)?))
            }
            (Layout::Growing, Element::F32) => {
                Engine::Growing(Box::new(Growing::load(library, cpu, folder, capacity)?))
            }
            (Layout::Growing, Element::F16) => {
                Engine::GrowingHalf(Box::new(Growing::load(library, cpu, folder, capacity)?))
            }
            (Layout::Rows, _) => {
                Engine::Rows(Box::new(Rows::load(library, cpu, folder, capacity)?))
            }
        };
        Ok(Self {
            engine,
            output: Output::new(
                shape.vocabulary,
                folder.signature.logits_element,
                capacity.slots,
            )?,
            shape,
            capacity,
            knows_end: folder.signature.rope_total.is_some(),
            generations: vec![0; capacity.slots],
            lengths: vec![0; capacity.slots],
            long: vec![false; capacity.slots],
            steps: Vec::with_capacity(capacity.slots),
            rows: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// The model's sizes.
    #[must_use]
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// Slots, and the tokens each may have: the smaller of what was asked for and the model's window.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The session, to measure what the decoder adds to it: what is run through it with bindings of one's own
    /// leaves the sequences here as they are.
    pub fn session(&mut self) -> &mut Session {
        each!(&mut self.engine, engine => engine.session())
    }

    /// Opens an empty sequence; `None` if all slots are taken.
    pub fn open(&mut self) -> Option<Slot> {
        let index = self
            .generations
            .iter()
            .position(|generation| generation % 2 == 0)?;
        self.generations[index] += 1;
        self.lengths[index] = 0;
        Some(Slot {
            index,
            generation: self.generations[index],
        })
    }

    /// Gives the slot back. Closing twice does nothing.
    pub fn close(&mut self, slot: Slot) {
        if self.index(slot).is_err() {
            return;
        }
        self.generations[slot.index] += 1;
        self.lengths[slot.index] = 0;
        match &mut self.engine {
            Engine::Growing(engine) => engine.close(slot.index),
            Engine::GrowingHalf(engine) => engine.close(slot.index),
            Engine::Fused(_) | Engine::FusedHalf(_) | Engine::Rows(_) => (),
        }
    }

    /// Tokens of the sequence; 0 if it is closed.
    #[must_use]
    pub fn length(&self, slot: Slot) -> usize {
        self.index(slot).map_or(0, |index| self.lengths[index])
    }

    /// Rewinds to the first `length` tokens: what was beyond is not read again. A greater length than
    /// the sequence has changes nothing.
    pub fn truncate(&mut self, slot: Slot, length: usize) {
        if let Ok(index) = self.index(slot) {
            self.lengths[index] = self.lengths[index].min(length);
        }
    }

    /// Makes `to` a copy of the first `length` tokens of `from`, instead of what it was. Not more than
    /// `from` has. Costs a copy of their keys and values.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Closed`]; [`DecoderError::NoMemory`] for graphs whose cache grows.
    pub fn copy(&mut self, from: Slot, to: Slot, length: usize) -> Result<(), DecoderError> {
        let (from, to) = (self.index(from)?, self.index(to)?);
        let length = length.min(self.lengths[from]);
        if from != to && length > 0 {
            match &mut self.engine {
                Engine::Fused(engine) => engine.copy(from, to, length),
                Engine::FusedHalf(engine) => engine.copy(from, to, length),
                Engine::Growing(engine) => engine.copy(from, to, length)?,
                Engine::GrowingHalf(engine) => engine.copy(from, to, length)?,
                Engine::Rows(engine) => engine.copy(from, to, length)?,
            }
        }
        self.lengths[to] = length;
        self.long[to] = self.long[from];
        Ok(())
    }

    /// Whether a sequence can't be continued to `next_length` tokens, because LongRoPE turns by other
    /// factors from there on: truncate it to 0 and prefill all of it.
    #[must_use]
    pub fn must_refill(&self, slot: Slot, next_length: usize) -> bool {
        self.index(slot).is_ok_and(|index| {
            self.lengths[index] > 0 && self.long[index] != self.is_long(next_length)
        })
    }

    /// Whether a prompt of `end` tokens must be given as one chunk: LongRoPE in a graph that chooses its
    /// factors by the tokens it has seen.
    #[must_use]
    pub fn must_be_whole(&self, end: usize) -> bool {
        !self.knows_end && self.is_long(end)
    }

    /// Appends one chunk of a prompt. `end` is the length (in tokens) that the sequence will have when
    /// the whole prompt is in: the window is checked against it before the first chunk runs, and
    /// LongRoPE chooses its factors by it.
    ///
    /// # Errors
    ///
    /// [`DecoderError`]: a closed slot, no tokens, unknown tokens, more than the window, rows that the
    /// chunk does not have, a sequence that must be refilled, a failed run. The length is as before then.
    pub fn prefill(
        &mut self,
        slot: Slot,
        tokens: &[u32],
        end: usize,
        wanted: Wanted<'_>,
    ) -> Result<Logits<'_>, DecoderError> {
        let index = self.index(slot)?;
        self.known(tokens.iter())?;
        let past = self.lengths[index];
        let length = past.saturating_add(tokens.len());
        let end = end.max(length);
        self.within_window(end)?;
        if self.must_refill(slot, end) {
            return Err(DecoderError::Refill { length: end });
        }
        if self.must_be_whole(end) && past == 0 && length < end {
            return Err(DecoderError::WholePrompt { length: end });
        }
        self.rows.clear();
        match wanted {
            Wanted::None => (),
            Wanted::Last => self.rows.push(tokens.len() - 1),
            Wanted::Rows(rows) => {
                if let Some(&row) = rows.iter().find(|&&row| row >= tokens.len()) {
                    let rows = tokens.len();
                    return Err(DecoderError::Row { row, rows });
                }
                self.rows.extend_from_slice(rows);
            }
        }
        let chunk = Chunk {
            slot: index,
            past,
            tokens,
            end,
            rows: &self.rows,
        };
        let (output, counts) = (&mut self.output, &mut self.counts);
        each!(&mut self.engine, engine => engine.prefill(&chunk, output, counts))?;
        self.output.widen();
        let logits = self.output.logits()?;
        self.lengths[index] = length;
        self.long[index] = end > self.shape.original_window.unwrap_or(usize::MAX);
        Ok(logits)
    }

    /// Appends one token to each of these sequences, in one batch, whatever their lengths. One row of
    /// logits for each, in this order.
    ///
    /// Graphs with a growing cache run them one after another. LongRoPE models run the sequences within
    /// the original window and those beyond it as two batches.
    ///
    /// # Errors
    ///
    /// [`DecoderError`], as [`Decoder::prefill`], and the same sequence twice. All lengths are as before
    /// then.
    pub fn decode(&mut self, steps: &[(Slot, u32)]) -> Result<Logits<'_>, DecoderError> {
        self.known(steps.iter().map(|(_, token)| token))?;
        self.steps.clear();
        for (at, &(slot, token)) in steps.iter().enumerate() {
            let step = Step {
                slot: self.index(slot)?,
                token,
                index: at,
            };
            if self.steps.iter().any(|other| other.slot == step.slot) {
                return Err(DecoderError::Twice);
            }
            let length = self.lengths[step.slot] + 1;
            self.within_window(length)?;
            if self.must_refill(slot, length) {
                return Err(DecoderError::Refill { length });
            }
            self.steps.push(step);
        }
        let original = self.shape.original_window.unwrap_or(usize::MAX);
        let beyond = |step: &Step| self.lengths[step.slot] + 1 > original;
        self.steps.sort_by_key(beyond);
        let parted = self.steps.partition_point(|step| !beyond(step));
        self.output.order.clear();
        self.output.order.resize(steps.len(), 0);
        self.output.reserve(steps.len())?;
        for (range, rope_total) in [
            (0..parted, 0),
            (parted..steps.len(), original.saturating_add(1)),
        ] {
            if range.is_empty() {
                continue;
            }
            let group = Group {
                steps: &self.steps[range.clone()],
                lengths: &self.lengths,
                rope_total,
            };
            let (output, counts) = (&mut self.output, &mut self.counts);
            each!(&mut self.engine, engine => engine.decode(&group, range.start, output, counts))?;
        }
        self.output.widen();
        let logits = self.output.logits()?;
        for step in &self.steps {
            self.lengths[step.slot] += 1;
            self.long[step.slot] = self.lengths[step.slot] > original;
        }
        Ok(logits)
    }

    fn is_long(&self, length: usize) -> bool {
        self.shape
            .original_window
            .is_some_and(|original| length > original)
    }

    fn index(&self, slot: Slot) -> Result<usize, DecoderError> {
        match self.generations.get(slot.index) {
            Some(&generation) if generation == slot.generation => Ok(slot.index),
            _ => Err(DecoderError::Closed),
        }
    }

    fn known<'t>(
        &self,
        mut tokens: impl ExactSizeIterator<Item = &'t u32>,
    ) -> Result<(), DecoderError> {
        if tokens.len() == 0 {
            return Err(DecoderError::Empty);
        }
        let vocabulary = self.shape.vocabulary;
        match tokens.find(|&&token| token as usize >= vocabulary) {
            Some(&token) => Err(DecoderError::Token { token, vocabulary }),
            None => Ok(()),
        }
    }

    fn within_window(&self, wanted: usize) -> Result<(), DecoderError> {
        let window = self.capacity.window;
        match wanted > window {
            true => Err(DecoderError::Window { wanted, window }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
