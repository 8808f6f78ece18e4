//! A scripted model, no real one: its logits are a hash of the tokens that its slot holds, so that any mistake with a
//! cache (a token missing, doubled, from another sequence, turned by the wrong factors) changes every token after it.

#![allow(dead_code)] // Each test binary uses its part.

use std::sync::{Arc, Mutex};

use firstword::language::{Rows, Steps, Text};
use firstword_models::language::sampling::{Sampler, Sampling, Workspace};

pub const VOCABULARY: usize = 53;
/// About one reply in six ends after each token, where the draw is flat.
pub const EOS: [u32; 2] = [0, 1];

/// What the model did, for assertions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub prefilled: usize,
    /// Tokens of every chunk.
    pub chunks: Vec<usize>,
    /// Members of every decode step.
    pub batches: Vec<usize>,
    pub copied: usize,
    /// Prefill (`p`) and decode (`d`) steps in their order.
    pub order: String,
}

/// A token in a cache: which, and turned by the long factors?
type Cell = (u32, bool);

pub struct Scripted {
    pub window: usize,
    /// Up to this length the short factors apply.
    pub original: Option<usize>,
    /// The step (counted from 0, chunks and decode steps together) that fails.
    pub failing: Option<usize>,
    /// The step from which logits are not numbers, for one step.
    pub mad: Option<usize>,
    /// Copies fail.
    pub no_copies: bool,
    /// A prompt that needs the long factors must be one chunk.
    pub whole: bool,
    slots: Vec<Vec<Cell>>,
    opened: Vec<bool>,
    steps: usize,
    pub done: Arc<Mutex<Done>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot(usize);

pub struct Logits(Vec<Vec<f32>>);

impl Rows for Logits {
    fn row(&self, index: usize) -> &[f32] {
        &self.0[index]
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ (z >> 33)
}

/// The logits after these tokens.
fn logits(history: &[Cell]) -> Vec<f32> {
    let hash = history
        .iter()
        .fold(history.len() as u64, |hash, &(token, long)| {
            mix(hash ^ mix(u64::from(token) * 2 + u64::from(long) + 1))
        });
    let value = |token: u64| (mix(hash ^ (token + 1)) >> 40) as f32 / (1u64 << 24) as f32;
    (0..VOCABULARY as u64)
        .map(|token| 6.0 * value(token))
        .collect()
}

impl Scripted {
    pub fn new(slots: usize, window: usize) -> Self {
        Self {
            window,
            original: None,
            failing: None,
            mad: None,
            no_copies: false,
            whole: false,
            slots: vec![Vec::new(); slots],
            opened: vec![false; slots],
            steps: 0,
            done: Arc::default(),
        }
    }

    fn long(&self, length: usize) -> bool {
        self.original.is_some_and(|original| length > original)
    }

    /// Appends; whether this step fails.
    fn append(&mut self, slot: Slot, tokens: &[u32], end: usize) -> Result<(), String> {
        assert!(self.opened[slot.0], "a step on a slot that is not open");
        let long = self.long(end);
        let held = &mut self.slots[slot.0];
        assert!(
            held.iter().all(|cell| cell.1 == long),
            "mixed factors in a slot"
        );
        held.extend(tokens.iter().map(|&token| (token, long)));
        if held.len() > self.window {
            return Err(format!(
                "{} tokens in a window of {}",
                held.len(),
                self.window
            ));
        }
        Ok(())
    }

    fn count(&mut self, what: char) -> (bool, bool) {
        let step = self.steps;
        self.steps += 1;
        self.done.lock().unwrap().order.push(what);
        (self.failing == Some(step), self.mad == Some(step))
    }
}

impl Steps for Scripted {
    type Slot = Slot;
    type Logits<'a> = Logits;
    type Error = String;

    fn vocabulary(&self) -> usize {
        VOCABULARY
    }

    fn window(&self) -> usize {
        self.window
    }

    fn open(&mut self) -> Option<Slot> {
        let free = self.opened.iter().position(|open| !open)?;
        self.opened[free] = true;
        Some(Slot(free))
    }

    fn close(&mut self, slot: Slot) {
        assert!(
            std::mem::replace(&mut self.opened[slot.0], false),
            "closed twice"
        );
        self.slots[slot.0].clear();
    }

    fn length(&self, slot: Slot) -> usize {
        self.slots[slot.0].len()
    }

    fn truncate(&mut self, slot: Slot, length: usize) {
        assert!(
            length <= self.slots[slot.0].len(),
            "truncated to more than there is"
        );
        self.slots[slot.0].truncate(length);
    }

    fn copy(&mut self, from: Slot, to: Slot, length: usize) -> Result<(), String> {
        if self.no_copies {
            self.slots[to.0] = vec![(9, true); 3];
            return Err("no memory".into());
        }
        self.slots[to.0] = self.slots[from.0][..length].to_vec();
        self.done.lock().unwrap().copied += length;
        Ok(())
    }

    fn prefill(
        &mut self,
        slot: Slot,
        tokens: &[u32],
        end: usize,
        wanted: bool,
    ) -> Result<Logits, String> {
        assert!(!tokens.is_empty() && self.slots[slot.0].len() + tokens.len() <= end);
        let (fails, mad) = self.count('p');
        {
            let mut done = self.done.lock().unwrap();
            done.prefilled += tokens.len();
            done.chunks.push(tokens.len());
        }
        self.append(slot, tokens, end)?;
        if fails {
            return Err("out of memory".into());
        }
        let rows = if mad {
            vec![vec![f32::NAN; VOCABULARY]]
        } else if wanted {
            vec![logits(&self.slots[slot.0])]
        } else {
            Vec::new()
        };
        Ok(Logits(rows))
    }

    fn decode(&mut self, steps: &[(Slot, u32)]) -> Result<Logits, String> {
        let (fails, mad) = self.count('d');
        self.done.lock().unwrap().batches.push(steps.len());
        for (i, &(slot, token)) in steps.iter().enumerate() {
            assert!(
                steps[..i].iter().all(|other| other.0 != slot),
                "a slot twice in a batch"
            );
            let length = self.slots[slot.0].len() + 1;
            self.append(slot, &[token], length)?;
        }
        if fails {
            return Err("the device was lost".into());
        }
        let row = |&(slot, _): &(Slot, u32)| logits(&self.slots[slot.0]);
        let mut rows: Vec<Vec<f32>> = steps.iter().map(row).collect();
        if mad {
            rows[0].fill(f32::NAN);
        }
        Ok(Logits(rows))
    }

    fn must_refill(&self, slot: Slot, length: usize) -> bool {
        let long = self.long(length);
        self.slots[slot.0].iter().any(|cell| cell.1 != long)
    }

    fn must_be_whole(&self, length: usize) -> bool {
        self.whole && self.long(length)
    }
}

/// What a sequence alone must give, worked out without slots, chunks and batches: tokens, and whether EOS ended it.
pub fn alone(
    original: Option<usize>,
    prompt: &[u32],
    limit: usize,
    sampling: &Sampling,
) -> (Vec<u32>, bool) {
    let mut sampler = Sampler::new(sampling.clone(), VOCABULARY, prompt, limit).unwrap();
    let mut work = Workspace::default();
    let mut history = prompt.to_vec();
    for _ in 0..limit {
        let long = original.is_some_and(|original| history.len() > original);
        let cells: Vec<Cell> = history.iter().map(|&token| (token, long)).collect();
        let token = sampler
            .choose(&logits(&cells), None, &mut work)
            .unwrap()
            .token;
        if EOS.contains(&token) {
            return (history[prompt.len()..].to_vec(), true);
        }
        history.push(token);
    }
    (history[prompt.len()..].to_vec(), false)
}

/// Writes every token as a letter; ends at a stop string, no part of which is shown.
pub struct Letters {
    pub stops: Vec<String>,
    held: String,
    stopped: Option<String>,
}

pub fn letter(token: u32) -> char {
    char::from_u32('A' as u32 + token).unwrap()
}

impl Letters {
    pub fn until(stops: &[&str]) -> Box<dyn Text> {
        Box::new(Self {
            stops: stops.iter().map(|stop| (*stop).to_owned()).collect(),
            held: String::new(),
            stopped: None,
        })
    }
}

impl Text for Letters {
    fn push(&mut self, token: u32) -> String {
        self.held.push(letter(token));
        let stop = self
            .stops
            .iter()
            .find(|stop| self.held.contains(stop.as_str()))
            .cloned();
        if let Some(stop) = stop {
            let at = self.held.find(&stop).unwrap();
            self.stopped = Some(stop);
            return std::mem::take(&mut self.held)[..at].to_owned();
        }
        let starts = |tail: &str| self.stops.iter().any(|stop| stop.starts_with(tail));
        let keep = (0..self.held.len())
            .find(|&at| starts(&self.held[at..]))
            .unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        std::mem::replace(&mut self.held, rest)
    }

    fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }
}
