//! Graphs whose GroupQueryAttention writes into the cache in place.
//!
//! The same memory is bound as past and as present, once for every run of adjacent rows that is ever
//! used; a step then rebinds the mask (whose length is the step's) and nothing of the cache. Prompts go
//! one sequence at a time (the CPU provider refuses a batch of chunks with a past); steps of one
//! token go as one batch, whatever the lengths.

use std::ffi::CString;

use firstword_targets::{Cpu, Library};
use ort::session::Session;

use super::cache::Cache;
use super::error::DecoderError;
use super::logits::Output;
use super::placement::Placement;
use super::raw::{Binding, Buffer, Host, Number, c_name};
use super::{Capacity, Chunk, Counts, Group};
use crate::language::folder::{LanguageFolder, Signature};

/// Names as the C interface takes them.
#[derive(Debug)]
struct Inputs {
    ids: CString,
    mask: Option<CString>,
    positions: Option<CString>,
    rows: Option<CString>,
    keep: Option<CString>,
    rope_total: Option<CString>,
    logits: CString,
    /// Past and present of each cache tensor.
    cache: Vec<[CString; 2]>,
}

impl Inputs {
    fn of(signature: &Signature) -> Result<Self, DecoderError> {
        let optional = |name: &Option<String>| name.as_deref().map(c_name).transpose();
        let mut cache = Vec::new();
        for layer in &signature.layers {
            for part in [0, 1] {
                cache.push([c_name(&layer.past[part])?, c_name(&layer.present[part])?]);
            }
        }
        Ok(Self {
            ids: c_name(&signature.input_ids)?,
            mask: optional(&signature.attention_mask)?,
            positions: optional(&signature.position_ids)?,
            rows: optional(&signature.logit_rows)?,
            keep: optional(&signature.logits_to_keep)?,
            rope_total: optional(&signature.rope_total)?,
            logits: c_name(&signature.logits)?,
            cache,
        })
    }
}

/// What is bound besides the cache; what has not changed is not bound again.
#[derive(Debug, Default, PartialEq, Eq)]
struct Bound {
    /// Rows and columns of ids and positions.
    ids: Option<(usize, usize)>,
    /// Rows and columns of the mask.
    mask: Option<(usize, usize)>,
    /// Entries of `logit_rows`.
    rows: Option<usize>,
    /// Generation of the memory, first row, batch, rows of each.
    logits: Option<(u64, usize, usize, usize)>,
}

#[derive(Debug)]
struct View {
    binding: Binding,
    bound: Bound,
}

/// The engine; `T` are the cache's numbers.
#[derive(Debug)]
pub(super) struct Fused<T: Number> {
    /// For `first · slots + count − 1`: the rows `first … first + count`. Before the session and the
    /// memory they refer to, because fields are dropped in this order.
    views: Vec<Option<View>>,
    session: Session,
    inputs: Inputs,
    last_row_only: bool,
    host: Host,
    cache: Cache<T>,
    placement: Placement,
    slots: usize,
    ids: Buffer<i64>,
    positions: Buffer<i64>,
    /// Ones: the mask of a single sequence.
    ones: Buffer<i64>,
    /// The mask of a batch, one row after another.
    mask: Buffer<i64>,
    rows: Buffer<i64>,
    keep: Buffer<i64>,
    rope_total: Buffer<i64>,
    /// ONNX Runtime refuses a product of no rows.
    needs_a_row: bool,
    members: Vec<usize>,
}

impl<T: Number> Fused<T> {
    pub fn load(
        library: &Library,
        cpu: &Cpu,
        folder: &LanguageFolder,
        capacity: Capacity,
    ) -> Result<Self, DecoderError> {
        let Capacity { slots, window } = capacity;
        let session = cpu.session(library, &folder.graph)?;
        let mut ones = Buffer::zeroed(window)?;
        ones.as_mut_slice().fill(1);
        let batch = window.max(slots);
        let mut engine = Self {
            views: (0..slots * slots).map(|_| None).collect(),
            session,
            inputs: Inputs::of(&folder.signature)?,
            last_row_only: folder.signature.last_row_only,
            host: Host::new()?,
            cache: Cache::new(&folder.shape, slots, window)?,
            placement: Placement::new(slots),
            slots,
            ids: Buffer::zeroed(batch)?,
            positions: Buffer::zeroed(batch)?,
            ones,
            mask: Buffer::zeroed(slots * window)?,
            rows: Buffer::zeroed(batch)?,
            keep: Buffer::zeroed(1)?,
            rope_total: Buffer::zeroed(1)?,
            needs_a_row: false,
            members: Vec::new(),
        };
        if engine.inputs.rows.is_some() {
            engine.try_no_rows(folder)?;
        }
        Ok(engine)
    }

    /// Whether a run may compute no logits at all: products of no rows are refused by some kernels
    /// (MatMulNBits of 1.31). One token at load costs less than a chunk run twice at the first prompt.
    fn try_no_rows(&mut self, folder: &LanguageFolder) -> Result<(), DecoderError> {
        let element = folder.signature.logits_element;
        let mut output = Output::new(folder.shape.vocabulary, element, 1)?;
        let chunk = Chunk {
            slot: 0,
            past: 0,
            tokens: &[0],
            end: 1,
            rows: &[],
        };
        self.prefill(&chunk, &mut output, &mut Counts::default())?;
        // Its logits' memory ends with this function: what is bound to it must not stay.
        self.views.iter_mut().for_each(|view| *view = None);
        Ok(())
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Runs one chunk of one sequence.
    pub fn prefill(
        &mut self,
        chunk: &Chunk<'_>,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        let tokens = chunk.tokens.len();
        let row = self.placement.row_of(chunk.slot);
        for (at, &token) in chunk.tokens.iter().enumerate() {
            self.ids.as_mut_slice()[at] = i64::from(token);
            self.positions.as_mut_slice()[at] = (chunk.past + at) as i64;
        }
        self.rope_total.as_mut_slice()[0] = chunk.end as i64;

        output.order.clear();
        let rows = if self.inputs.rows.is_some() {
            for (at, &wanted) in chunk.rows.iter().enumerate() {
                self.rows.as_mut_slice()[at] = wanted as i64;
                output.order.push(at);
            }
            if chunk.rows.is_empty() && self.needs_a_row {
                self.rows.as_mut_slice()[0] = -1;
            }
            chunk.rows.len().max(usize::from(self.needs_a_row))
        } else if let Some(&last) = chunk.rows.last().filter(|_| self.last_row_only) {
            if last + 1 != tokens || chunk.rows.len() > 1 {
                return Err(DecoderError::Unexpected {
                    found: "logits for the last row only".to_owned(),
                    expected: "rows before it; give smaller chunks".to_owned(),
                });
            }
            output.order.push(0);
            1
        } else if self.last_row_only {
            1
        } else {
            // How many rows from the end the graph computes.
            let first = chunk.rows.iter().min().map_or(tokens - 1, |&first| first);
            let skipped = if self.inputs.keep.is_some() { first } else { 0 };
            self.keep.as_mut_slice()[0] = (tokens - skipped) as i64;
            output
                .order
                .extend(chunk.rows.iter().map(|&wanted| wanted - skipped));
            tokens - skipped
        };
        output.reserve(rows)?;
        let total = chunk.past + tokens;
        let done = self.run(row, 1, tokens, total, 0, rows, output, counts);
        if rows == 0 && done.is_err() {
            // Once: this library wants a row.
            self.needs_a_row = true;
            output.reserve(1)?;
            self.rows.as_mut_slice()[0] = -1;
            return self.run(row, 1, tokens, total, 0, 1, output, counts);
        }
        done
    }

    /// Runs one token for each of the group's sequences. Their logits are the rows from `first` on, in
    /// the order of their rows in the cache; `order` of the output gets the row of each step.
    pub fn decode(
        &mut self,
        group: &Group<'_>,
        first: usize,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        let count = group.steps.len();
        self.members.clear();
        self.members
            .extend(group.steps.iter().map(|step| step.slot));
        let (cache, lengths) = (&mut self.cache, group.lengths);
        let start = self
            .placement
            .gather(&self.members, lengths, |slots, rows| {
                let length = slots.map(|slot| lengths[slot]);
                match length {
                    [length, 0] => cache.copy(rows[0], rows[1], length),
                    [0, length] => cache.copy(rows[1], rows[0], length),
                    [a, b] => cache.exchange(rows[0], rows[1], a.max(b)),
                }
                counts.moves += 1;
                Ok::<(), DecoderError>(())
            })?;
        let total = group
            .steps
            .iter()
            .map(|step| lengths[step.slot] + 1)
            .max()
            .unwrap_or(1);
        for step in group.steps {
            let at = self.placement.row_of(step.slot) - start;
            let length = lengths[step.slot];
            self.ids.as_mut_slice()[at] = i64::from(step.token);
            self.positions.as_mut_slice()[at] = length as i64;
            if count > 1 {
                let row = &mut self.mask.as_mut_slice()[at * total..][..total];
                row[..=length].fill(1);
                row[length + 1..].fill(0);
            }
            output.order[step.index] = first + at;
        }
        self.rows.as_mut_slice()[0] = -1;
        self.keep.as_mut_slice()[0] = 1;
        self.rope_total.as_mut_slice()[0] = group.rope_total as i64;
        self.run(start, count, 1, total, first, 1, output, counts)
    }

    #[allow(clippy::too_many_arguments, reason = "sizes of one run, used once")]
    fn run(
        &mut self,
        first: usize,
        count: usize,
        tokens: usize,
        total: usize,
        logits_at: usize,
        logits: usize,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        let index = first * self.slots + count - 1;
        if self.views[index].is_none() {
            self.views[index] = Some(self.view(first, count, counts)?);
        }
        let Some(View { binding, bound }) = &mut self.views[index] else {
            return Err(DecoderError::Closed);
        };
        let (host, inputs) = (&self.host, &self.inputs);
        if bound.ids != Some((count, tokens)) {
            bound.ids = None;
            let shape = [count as i64, tokens as i64];
            binding.input(&inputs.ids, &self.ids.tensor(host, 0, &shape)?)?;
            counts.small_binds += 1;
            if let Some(name) = &inputs.positions {
                binding.input(name, &self.positions.tensor(host, 0, &shape)?)?;
                counts.small_binds += 1;
            }
            bound.ids = Some((count, tokens));
        }
        if let Some(name) = &inputs.mask
            && bound.mask != Some((count, total))
        {
            bound.mask = None;
            let memory = if count == 1 {
                &mut self.ones
            } else {
                &mut self.mask
            };
            binding.input(
                name,
                &memory.tensor(host, 0, &[count as i64, total as i64])?,
            )?;
            counts.small_binds += 1;
            bound.mask = Some((count, total));
        }
        if let Some(name) = &inputs.rows
            && bound.rows != Some(logits)
        {
            bound.rows = None;
            binding.input(name, &self.rows.tensor(host, 0, &[logits as i64])?)?;
            counts.small_binds += 1;
            bound.rows = Some(logits);
        }
        let place = (output.generation(), logits_at, count, logits);
        if bound.logits != Some(place) {
            bound.logits = None;
            binding.output(
                &inputs.logits,
                &output.tensor(host, logits_at, count, logits)?,
            )?;
            counts.small_binds += 1;
            bound.logits = Some(place);
        }
        counts.runs += 1;
        output.expect_run();
        binding.run(&mut self.session)
    }

    /// Binds the rows of the cache, as past and as present.
    fn view(
        &mut self,
        first: usize,
        count: usize,
        counts: &mut Counts,
    ) -> Result<View, DecoderError> {
        let mut binding = Binding::new(&self.session)?;
        for tensor in 0..self.cache.tensors() {
            let value = self.cache.view(&self.host, tensor, first, count)?;
            let [past, present] = &self.inputs.cache[tensor];
            binding.input(past, &value)?;
            binding.output(present, &value)?;
            counts.cache_binds += 1;
        }
        for (name, memory) in [
            (&self.inputs.rope_total, &mut self.rope_total),
            (&self.inputs.keep, &mut self.keep),
        ] {
            let Some(name) = name else { continue };
            let scalar = Some(name) == self.inputs.keep.as_ref();
            let shape: &[i64] = if scalar { &[] } else { &[1] };
            binding.input(name, &memory.tensor(&self.host, 0, shape)?)?;
            counts.small_binds += 1;
        }
        Ok(View {
            binding,
            bound: Bound::default(),
        })
    }

    /// Copies the first tokens of a slot over those of another.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) {
        let (from, to) = (self.placement.row_of(from), self.placement.row_of(to));
        self.cache.copy(from, to, length);
    }

    #[cfg(test)]
    pub fn spoil(&mut self, slot: usize, length: usize, with: T) {
        let row = self.placement.row_of(slot);
        self.cache.spoil(row, length, with);
    }

    #[cfg(test)]
    pub fn row_numbers(&mut self, slot: usize) -> Vec<T> {
        let row = self.placement.row_of(slot);
        self.cache.row_numbers(0, row)
    }
}
