//! Graphs that return the whole cache, longer by the new tokens: Optimum's, transformers.js's, and
//! ONNX Runtime GenAI's without a shared buffer.
//!
//! What a run returns is the next run's past, as it is. Each sequence has its own, so a batch of
//! sequences of different lengths runs one after another: padding them to one length would take a copy
//! of every cache at every step. A sequence that was shortened is copied once, at its next run.

use std::ffi::{CStr, CString};

use firstword_targets::{Cpu, Library};
use ort::session::Session;

use super::error::DecoderError;
use super::logits::Output;
use super::raw::{Buffer, Host, Number, Value, c_name, run};
use super::{Capacity, Chunk, Counts, Group};
use crate::language::folder::{LanguageFolder, ModelShape, Signature};

/// Greatest difference of logits that two ways to the same position may have; what a graph that
/// ignores a part of its chunk gives is off by whole units.
const SAME: f32 = 0.05;

/// One graph and the names it is called by.
#[derive(Debug)]
struct Graph {
    session: Session,
    ids: CString,
    mask: Option<CString>,
    positions: Option<CString>,
    branch: Option<CString>,
    rows: Option<CString>,
    keep: Option<CString>,
    rope_total: Option<CString>,
    past: Vec<CString>,
    /// Logits, then the cache.
    outputs: Vec<CString>,
}

impl Graph {
    fn new(session: Session, signature: &Signature, with_past: bool) -> Result<Self, DecoderError> {
        let optional = |name: &Option<String>| name.as_deref().map(c_name).transpose();
        let mut outputs = vec![c_name(&signature.logits)?];
        let mut past = Vec::new();
        for layer in &signature.layers {
            for part in [0, 1] {
                outputs.push(c_name(&layer.present[part])?);
                if with_past {
                    past.push(c_name(&layer.past[part])?);
                }
            }
        }
        Ok(Self {
            session,
            ids: c_name(&signature.input_ids)?,
            mask: optional(&signature.attention_mask)?,
            positions: optional(&signature.position_ids)?,
            branch: optional(&signature.use_cache_branch)?,
            rows: optional(&signature.logit_rows)?,
            keep: optional(&signature.logits_to_keep)?,
            rope_total: optional(&signature.rope_total)?,
            past,
            outputs,
        })
    }
}

/// The cache of one sequence.
#[derive(Debug)]
struct Past<T: Number> {
    /// `[1, heads, length, head_dim]` each.
    values: Vec<Value>,
    length: usize,
    /// What the values lie in, where that is ours.
    _memory: Vec<Buffer<T>>,
}

/// The engine; `T` are the cache's numbers.
#[derive(Debug)]
pub(super) struct Growing<T: Number> {
    past: Vec<Option<Past<T>>>,
    nothing: Vec<Value>,
    _nothing: Buffer<T>,
    graph: Graph,
    /// The graph for a prompt with nothing before it, where there are two.
    first: Option<Graph>,
    /// Whether a chunk may have more than one token when something is before it.
    chunks: bool,
    shape: ModelShape,
    host: Host,
    ids: Buffer<i64>,
    positions: Buffer<i64>,
    ones: Buffer<i64>,
    rows: Buffer<i64>,
    keep: Buffer<i64>,
    rope_total: Buffer<i64>,
    branch: Buffer<bool>,
}

impl<T: Number> Growing<T> {
    pub fn load(
        library: &Library,
        cpu: &Cpu,
        folder: &LanguageFolder,
        capacity: Capacity,
    ) -> Result<Self, DecoderError> {
        let graph = Graph::new(
            cpu.session(library, &folder.graph)?,
            &folder.signature,
            true,
        )?;
        let first = match &folder.first {
            Some((file, signature)) => {
                Some(Graph::new(cpu.session(library, file)?, signature, false)?)
            }
            None => None,
        };
        let host = Host::new()?;
        let mut empty = Buffer::zeroed(1)?;
        let shape = folder.shape;
        let sizes = [1, shape.kv_heads as i64, 0, shape.head_dim as i64];
        let nothing = graph
            .past
            .iter()
            .map(|_| empty.tensor(&host, 0, &sizes))
            .collect::<Result<_, _>>()?;
        let mut ones = Buffer::zeroed(capacity.window)?;
        ones.as_mut_slice().fill(1);
        let two_ways = first.is_some() || graph.branch.is_some();
        let mut engine = Self {
            past: (0..capacity.slots).map(|_| None).collect(),
            nothing,
            _nothing: empty,
            graph,
            first,
            chunks: !folder.signature.one_token,
            shape,
            host,
            ids: Buffer::zeroed(capacity.window)?,
            positions: Buffer::zeroed(capacity.window)?,
            ones,
            rows: Buffer::zeroed(capacity.window)?,
            keep: Buffer::zeroed(1)?,
            rope_total: Buffer::zeroed(1)?,
            branch: Buffer::zeroed(1)?,
        };
        if engine.chunks && two_ways && capacity.window >= 3 {
            engine.chunks = engine.takes_chunks(folder)?;
        }
        Ok(engine)
    }

    /// Graphs with a branch or file of its own for "something is before it" were traced with one token
    /// there, and some took that for a rule. Three tokens, at once and with the last two as a chunk,
    /// must give the same logits.
    fn takes_chunks(&mut self, folder: &LanguageFolder) -> Result<bool, DecoderError> {
        let mut output = Output::new(self.shape.vocabulary, folder.signature.logits_element, 2)?;
        let mut counts = Counts::default();
        let most = u32::try_from(self.shape.vocabulary - 1).unwrap_or(u32::MAX);
        let tokens = [most / 3, most / 2, most];
        let chunk = |past: usize, to: usize| Chunk {
            slot: 0,
            past,
            tokens: &tokens[past..to],
            end: 3,
            rows: if to == 3 { &[0] } else { &[] },
        };
        let last = |past| Chunk {
            rows: if past == 0 { &[2] } else { &[1] },
            ..chunk(past, 3)
        };
        self.chunk(&last(0), &mut output, &mut counts)?;
        let whole = output.logits()?.row(0).to_vec();
        self.close(0);
        self.chunk(&chunk(0, 1), &mut output, &mut counts)?;
        let parted = self.chunk(&last(1), &mut output, &mut counts);
        self.close(0);
        // What can't run at all in chunks is no error: it runs token by token.
        let Ok(logits) = parted.and_then(|()| output.logits()) else {
            return Ok(false);
        };
        Ok(whole
            .iter()
            .zip(logits.row(0))
            .all(|(a, b)| (a - b).abs() <= SAME))
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.graph.session
    }

    pub fn prefill(
        &mut self,
        chunk: &Chunk<'_>,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        if chunk.tokens.len() == 1 || self.chunks {
            return self.chunk(chunk, output, counts);
        }
        // The first token or the first graph's whole chunk, then token by token.
        if chunk.past == 0 && (self.first.is_some() || self.graph.branch.is_some()) {
            return self.chunk(chunk, output, counts);
        }
        let mut answers = vec![None; chunk.rows.len()];
        let mut taken = 0;
        output.reserve(chunk.rows.len())?;
        for at in 0..chunk.tokens.len() {
            let one = Chunk {
                past: chunk.past + at,
                tokens: &chunk.tokens[at..=at],
                rows: &[],
                ..*chunk
            };
            // After a failure the cache is too long, which the next run mends.
            let results = self.run(&one, counts)?;
            for (answer, _) in answers
                .iter_mut()
                .zip(chunk.rows)
                .filter(|(_, wanted)| **wanted == at)
            {
                output.take(&results, 0, taken)?;
                *answer = Some(taken);
                taken += 1;
            }
        }
        output.order.clear();
        output.order.extend(answers.into_iter().flatten());
        Ok(())
    }

    pub fn decode(
        &mut self,
        group: &Group<'_>,
        first: usize,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        for (at, step) in group.steps.iter().enumerate() {
            let past = group.lengths[step.slot];
            let one = Chunk {
                slot: step.slot,
                past,
                tokens: &[step.token],
                end: group.rope_total,
                rows: &[0],
            };
            let logits = self.run(&one, counts)?;
            output.take(&logits, 0, first + at)?;
            output.order[step.index] = first + at;
        }
        Ok(())
    }

    /// Runs a chunk in one call and takes the wanted rows.
    fn chunk(
        &mut self,
        chunk: &Chunk<'_>,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        let logits = self.run(chunk, counts)?;
        let given = logits.shape()?.get(1).copied().unwrap_or(0);
        let tokens = chunk.tokens.len();
        // Whatever was left out, was left out at the beginning.
        let skipped = tokens.saturating_sub(given);
        let chosen = self.graph.rows.is_some();
        output.reserve(chunk.rows.len())?;
        output.order.clear();
        for (at, &wanted) in chunk.rows.iter().enumerate() {
            let row = match chosen {
                true => at,
                false => wanted
                    .checked_sub(skipped)
                    .ok_or_else(|| DecoderError::Unexpected {
                        found: format!("logits for the last {given} of {tokens} tokens"),
                        expected: format!("also for row {wanted}; give smaller chunks"),
                    })?,
            };
            output.take(&logits, row, at)?;
            output.order.push(at);
        }
        Ok(())
    }

    /// One call; the sequence's cache becomes what it returned. The logits are returned.
    fn run(&mut self, chunk: &Chunk<'_>, counts: &mut Counts) -> Result<Value, DecoderError> {
        self.shorten(chunk.slot, chunk.past)?;
        let tokens = chunk.tokens.len();
        let total = chunk.past + tokens;
        for (at, &token) in chunk.tokens.iter().enumerate() {
            self.ids.as_mut_slice()[at] = i64::from(token);
            self.positions.as_mut_slice()[at] = (chunk.past + at) as i64;
        }
        for (at, &row) in chunk.rows.iter().enumerate() {
            self.rows.as_mut_slice()[at] = row as i64;
        }
        if chunk.rows.is_empty() {
            self.rows.as_mut_slice()[0] = -1;
        }
        let first_row = chunk.rows.iter().min().copied().unwrap_or(tokens - 1);
        self.keep.as_mut_slice()[0] = (tokens - first_row) as i64;
        self.rope_total.as_mut_slice()[0] = chunk.end as i64;
        self.branch.as_mut_slice()[0] = chunk.past > 0;

        let host = &self.host;
        let sizes = [1, tokens as i64];
        let ids = self.ids.tensor(host, 0, &sizes)?;
        let positions = self.positions.tensor(host, 0, &sizes)?;
        let mask = self.ones.tensor(host, 0, &[1, total as i64])?;
        let rows = self
            .rows
            .tensor(host, 0, &[chunk.rows.len().max(1) as i64])?;
        let keep = self.keep.tensor(host, 0, &[])?;
        let rope_total = self.rope_total.tensor(host, 0, &[1])?;
        let branch = self.branch.tensor(host, 0, &[1])?;
        let graph = match &mut self.first {
            Some(first) if chunk.past == 0 => first,
            _ => &mut self.graph,
        };
        let mut inputs: Vec<(&CStr, &Value)> = vec![(&graph.ids, &ids)];
        for (name, value) in [
            (&graph.mask, &mask),
            (&graph.positions, &positions),
            (&graph.branch, &branch),
            (&graph.rows, &rows),
            (&graph.keep, &keep),
            (&graph.rope_total, &rope_total),
        ] {
            if let Some(name) = name {
                inputs.push((name, value));
            }
        }
        let past = self.past[chunk.slot]
            .as_ref()
            .map_or(&self.nothing, |past| &past.values);
        inputs.extend(graph.past.iter().map(CString::as_c_str).zip(past));
        let outputs: Vec<&CStr> = graph.outputs.iter().map(CString::as_c_str).collect();
        counts.runs += 1;
        let mut results = run(&mut graph.session, &inputs, &outputs)?;
        let values = results.split_off(1);
        for value in &values {
            let found = value.shape()?;
            let expected = [1, self.shape.kv_heads, total, self.shape.head_dim];
            if found != expected {
                return Err(DecoderError::Unexpected {
                    found: format!("a cache of shape {found:?}"),
                    expected: format!("{expected:?}"),
                });
            }
        }
        self.past[chunk.slot] = Some(Past {
            values,
            length: total,
            _memory: Vec::new(),
        });
        results.pop().ok_or(DecoderError::Empty)
    }

    /// Makes the cache of a slot `length` tokens long, if it is longer.
    fn shorten(&mut self, slot: usize, length: usize) -> Result<(), DecoderError> {
        if length == 0 {
            self.past[slot] = None;
        } else if let Some(past) = &self.past[slot]
            && past.length != length
        {
            self.past[slot] = Some(self.prefix(past, length)?);
        }
        Ok(())
    }

    /// A copy of the first tokens.
    fn prefix(&self, past: &Past<T>, length: usize) -> Result<Past<T>, DecoderError> {
        if length > past.length {
            return Err(DecoderError::Unexpected {
                found: format!("a cache of {} tokens", past.length),
                expected: format!("at least {length} (this is a bug)"),
            });
        }
        let (heads, head_dim) = (self.shape.kv_heads, self.shape.head_dim);
        let sizes = [1, heads, length, head_dim].map(|size| size as i64);
        let (mut values, mut memory) = (Vec::new(), Vec::new());
        for value in &past.values {
            let numbers = value.numbers::<T>()?;
            let mut copy = Buffer::zeroed(heads * length * head_dim)?;
            let from = numbers.chunks_exact(past.length * head_dim);
            let to = copy.as_mut_slice().chunks_exact_mut(length * head_dim);
            to.zip(from)
                .for_each(|(to, from)| to.copy_from_slice(&from[..to.len()]));
            values.push(copy.tensor(&self.host, 0, &sizes)?);
            memory.push(copy);
        }
        Ok(Past {
            values,
            length,
            _memory: memory,
        })
    }

    /// Copies the first tokens of a slot over those of another.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<(), DecoderError> {
        self.past[to] = match &self.past[from] {
            Some(past) if length > 0 => Some(self.prefix(past, length)?),
            _ => None,
        };
        Ok(())
    }

    pub fn close(&mut self, slot: usize) {
        self.past[slot] = None;
    }
}
