//! Graphs that return the keys and values of the new tokens only (flavour `plain`): who calls writes
//! them into the cache.
//!
//! The cache of a sequence has room for a bucket of tokens and is bound as the past as it is; what is
//! beyond the sequence's length is masked. Buckets grow by a half, so that a short sequence is not
//! multiplied with a window of zeros, and a long one is copied a few times only. Sequences run one
//! after another: their buckets differ.

use std::ffi::CString;

use firstword_targets::{Cpu, Library};
use ort::session::Session;

use super::error::DecoderError;
use super::logits::Output;
use super::raw::{Binding, Buffer, Host, c_name};
use super::{Capacity, Chunk, Counts, Group};
use crate::language::folder::{Element, LanguageFolder, ModelShape};

/// Added to the scores of what may not be seen. The smallest f32 would overflow when a graph adds its
/// own; e^-10000 is 0 for every kind of float.
const HIDDEN: f32 = -1e4;
/// Tokens of the smallest bucket, and what buckets are multiples of.
const SMALLEST: usize = 64;

/// One sequence's keys and values: 2 · layers tensors `[1, heads, bucket, head_dim]`.
#[derive(Debug)]
struct Past {
    tensors: Vec<Buffer<f32>>,
    bucket: usize,
}

/// The engine.
#[derive(Debug)]
pub(super) struct Rows {
    binding: Binding,
    session: Session,
    ids_name: CString,
    positions_name: CString,
    mask_name: CString,
    local_name: Option<CString>,
    rows_name: Option<CString>,
    total_name: Option<CString>,
    logits_name: CString,
    past_names: Vec<CString>,
    new_names: Vec<CString>,
    host: Host,
    shape: ModelShape,
    window: usize,
    local_window: usize,
    past: Vec<Past>,
    /// What the graph returned of each tensor, `[1, heads, S, head_dim]`.
    new: Vec<Buffer<f32>>,
    ids: Buffer<i64>,
    positions: Buffer<i64>,
    rows: Buffer<i64>,
    rope_total: Buffer<i64>,
    mask: Buffer<f32>,
    local_mask: Buffer<f32>,
}

impl Rows {
    pub fn load(
        library: &Library,
        cpu: &Cpu,
        folder: &LanguageFolder,
        capacity: Capacity,
    ) -> Result<Self, DecoderError> {
        let signature = &folder.signature;
        let missing = |what: &str| DecoderError::Unexpected {
            found: format!("a plain graph without {what}"),
            expected: what.to_owned(),
        };
        if signature.cache_element != Element::F32 {
            return Err(missing("a cache in f32"));
        }
        let named =
            |name: &Option<String>, what| c_name(name.as_deref().ok_or_else(|| missing(what))?);
        let optional = |name: &Option<String>| name.as_deref().map(c_name).transpose();
        let session = cpu.session(library, &folder.graph)?;
        let (mut past_names, mut new_names) = (Vec::new(), Vec::new());
        for layer in &signature.layers {
            for part in [0, 1] {
                past_names.push(c_name(&layer.past[part])?);
                new_names.push(c_name(&layer.present[part])?);
            }
        }
        let tensors = past_names.len();
        let empty = || {
            (0..tensors)
                .map(|_| Buffer::zeroed(0))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            binding: Binding::new(&session)?,
            session,
            ids_name: c_name(&signature.input_ids)?,
            positions_name: named(&signature.position_ids, "position_ids")?,
            mask_name: named(&signature.additive_mask, "attn_mask")?,
            local_name: optional(&signature.additive_mask_local)?,
            rows_name: optional(&signature.logit_rows)?,
            total_name: optional(&signature.rope_total)?,
            logits_name: c_name(&signature.logits)?,
            past_names,
            new_names,
            host: Host::new()?,
            shape: folder.shape,
            window: capacity.window,
            local_window: folder.shape.local_window.unwrap_or(usize::MAX),
            past: (0..capacity.slots)
                .map(|_| {
                    Ok(Past {
                        tensors: empty()?,
                        bucket: 0,
                    })
                })
                .collect::<Result<_, DecoderError>>()?,
            new: empty()?,
            ids: Buffer::zeroed(capacity.window)?,
            positions: Buffer::zeroed(capacity.window)?,
            rows: Buffer::zeroed(capacity.window)?,
            rope_total: Buffer::zeroed(1)?,
            mask: Buffer::zeroed(0)?,
            local_mask: Buffer::zeroed(0)?,
        })
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub fn prefill(
        &mut self,
        chunk: &Chunk<'_>,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        let all = self.rows_name.is_none();
        let rows = if all {
            chunk.tokens.len()
        } else {
            chunk.rows.len().max(1)
        };
        output.order.clear();
        for (at, &row) in chunk.rows.iter().enumerate() {
            self.rows.as_mut_slice()[at] = row as i64;
            output.order.push(if all { row } else { at });
        }
        if chunk.rows.is_empty() {
            self.rows.as_mut_slice()[0] = -1;
        }
        output.reserve(rows)?;
        self.run(chunk, 0, rows, output, counts)
    }

    pub fn decode(
        &mut self,
        group: &Group<'_>,
        first: usize,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        for (at, step) in group.steps.iter().enumerate() {
            let chunk = Chunk {
                slot: step.slot,
                past: group.lengths[step.slot],
                tokens: &[step.token],
                end: group.rope_total,
                rows: &[0],
            };
            self.rows.as_mut_slice()[0] = 0;
            self.run(&chunk, first + at, 1, output, counts)?;
            output.order[step.index] = first + at;
        }
        Ok(())
    }

    fn run(
        &mut self,
        chunk: &Chunk<'_>,
        logits_at: usize,
        logits: usize,
        output: &mut Output,
        counts: &mut Counts,
    ) -> Result<(), DecoderError> {
        let (tokens, heads, head_dim) =
            (chunk.tokens.len(), self.shape.kv_heads, self.shape.head_dim);
        self.make_room(chunk.slot, chunk.past, chunk.past + tokens)?;
        // Nothing before it: no bucket of zeros to multiply with.
        let bucket = if chunk.past == 0 {
            0
        } else {
            self.past[chunk.slot].bucket
        };
        for (at, &token) in chunk.tokens.iter().enumerate() {
            self.ids.as_mut_slice()[at] = i64::from(token);
            self.positions.as_mut_slice()[at] = (chunk.past + at) as i64;
        }
        self.rope_total.as_mut_slice()[0] = chunk.end as i64;
        let (host, binding) = (&self.host, &mut self.binding);
        let sizes = [1, tokens as i64];
        binding.input(&self.ids_name, &self.ids.tensor(host, 0, &sizes)?)?;
        binding.input(
            &self.positions_name,
            &self.positions.tensor(host, 0, &sizes)?,
        )?;
        for (name, memory, back) in [
            (Some(&self.mask_name), &mut self.mask, usize::MAX),
            (
                self.local_name.as_ref(),
                &mut self.local_mask,
                self.local_window,
            ),
        ] {
            let Some(name) = name else { continue };
            let size = tokens * (bucket + tokens);
            if memory.len() < size {
                *memory = Buffer::zeroed(size)?;
            }
            fill_mask(memory.as_mut_slice(), chunk.past, bucket, tokens, back);
            let shape = [1, 1, tokens as i64, (bucket + tokens) as i64];
            binding.input(name, &memory.tensor(host, 0, &shape)?)?;
        }
        if let Some(name) = &self.rows_name {
            binding.input(name, &self.rows.tensor(host, 0, &[logits as i64])?)?;
        }
        if let Some(name) = &self.total_name {
            binding.input(name, &self.rope_total.tensor(host, 0, &[1])?)?;
        }
        binding.output(
            &self.logits_name,
            &output.tensor(host, logits_at, 1, logits)?,
        )?;
        // Bound anew at every run: another sequence's may have been bound, and a provider that copies
        // what is bound would not see what was written since.
        for (tensor, name) in self.past_names.iter().enumerate() {
            let shape = [1, heads as i64, bucket as i64, head_dim as i64];
            let value = self.past[chunk.slot].tensors[tensor].tensor(host, 0, &shape)?;
            binding.input(name, &value)?;
            counts.cache_binds += 1;
            let size = heads * tokens * head_dim;
            if self.new[tensor].len() < size {
                self.new[tensor] = Buffer::zeroed(size)?;
            }
            let shape = [1, heads, tokens, head_dim].map(|size| size as i64);
            binding.output(
                &self.new_names[tensor],
                &self.new[tensor].tensor(host, 0, &shape)?,
            )?;
        }
        counts.runs += 1;
        output.expect_run();
        binding.run(&mut self.session)?;

        let past = &mut self.past[chunk.slot];
        for (to, from) in past.tensors.iter_mut().zip(&self.new) {
            let (stride, size) = (past.bucket * head_dim, tokens * head_dim);
            for head in 0..heads {
                let start = head * stride + chunk.past * head_dim;
                to.as_mut_slice()[start..start + size]
                    .copy_from_slice(&from.as_slice()[head * size..][..size]);
            }
        }
        Ok(())
    }

    /// Gives a slot a bucket for `total` tokens, keeping its first `length`.
    fn make_room(&mut self, slot: usize, length: usize, total: usize) -> Result<(), DecoderError> {
        let past = &self.past[slot];
        if past.bucket >= total {
            return Ok(());
        }
        let bucket = (total + total / 2)
            .next_multiple_of(SMALLEST)
            .min(self.window)
            .max(total);
        self.past[slot] = self.moved(past, length, bucket)?;
        Ok(())
    }

    /// The first `length` tokens in a bucket of another size.
    fn moved(&self, past: &Past, length: usize, bucket: usize) -> Result<Past, DecoderError> {
        let (heads, head_dim) = (self.shape.kv_heads, self.shape.head_dim);
        let mut tensors = Vec::with_capacity(past.tensors.len());
        for from in &past.tensors {
            let mut to = Buffer::zeroed(heads * bucket * head_dim)?;
            let size = length * head_dim;
            for head in 0..if length > 0 { heads } else { 0 } {
                to.as_mut_slice()[head * bucket * head_dim..][..size]
                    .copy_from_slice(&from.as_slice()[head * past.bucket * head_dim..][..size]);
            }
            tensors.push(to);
        }
        Ok(Past { tensors, bucket })
    }

    /// Copies the first tokens of a slot over those of another.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<(), DecoderError> {
        let bucket = self.past[from].bucket;
        self.past[to] = self.moved(&self.past[from], length, bucket)?;
        Ok(())
    }
}

/// `[tokens, bucket + tokens]`: a token sees the `past` ones that are there, those of its chunk up to
/// itself, and of all these the last `back`.
fn fill_mask(mask: &mut [f32], past: usize, bucket: usize, tokens: usize, back: usize) {
    for (token, row) in mask
        .chunks_exact_mut(bucket + tokens)
        .take(tokens)
        .enumerate()
    {
        let first = (past + token + 1).saturating_sub(back);
        row.fill(HIDDEN);
        if first < past {
            row[first..past.min(bucket)].fill(0.0);
        }
        row[bucket + first.saturating_sub(past)..=bucket + token].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_shows_what_is_there_and_no_more() {
        // Two tokens after 3, in a bucket of 4; by hand, 1 for what is seen.
        let seen = |back| {
            let mut mask = vec![9.0; 12];
            fill_mask(&mut mask, 3, 4, 2, back);
            mask.into_iter()
                .map(|score| u8::from(score == 0.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(seen(usize::MAX), [1, 1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1]);
        // A window of 3: itself and two before.
        assert_eq!(seen(3), [0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1]);
        assert_eq!(seen(1), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
    }
}
