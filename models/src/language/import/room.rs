//! Is there room for what an import will write and hold? Asked beforehand: a full device or a killed process says little.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ImportError, ImportRequest};
use crate::gguf::Gguf;
use crate::language::architecture::{Description, Layer};
use crate::language::lower::Recipe;

const MEGABYTE: u64 = 1_000_000;
/// Buffers, the head of the source and its tokenizer, in bytes: the largest vocabulary (262 144) takes about this much.
const AROUND: u64 = 300 * MEGABYTE;

/// Bytes for each weight of a layer that is run, at most: in the graph, in its bytes, as ONNX Runtime reads them and as it
/// packs them. Phi-3-mini's 113 million took 0.42 GB.
const RUN: u64 = 4;

/// The device has too little room.
#[derive(Debug, thiserror::Error)]
#[error("not enough room in {}: expected {needed} MB, found {free} MB free; free some or choose another folder", folder.display())]
pub struct Room {
    /// Where it would be made.
    pub folder: PathBuf,
    /// Megabytes that may be needed.
    pub needed: u64,
    /// Megabytes that are free.
    pub free: u64,
}

/// Is there room for `needed` bytes where `goal` will be? A folder that is not there is said when it is written to.
///
/// # Errors
///
/// [`Room`].
pub fn check_room(goal: &Path, needed: u64) -> Result<(), Room> {
    let parent = goal
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let Ok(room) = rustix::fs::statvfs(parent) else {
        return Ok(());
    };
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if free < needed {
        return Err(Room {
            folder: parent.to_owned(),
            needed: needed.div_ceil(MEGABYTE),
            free: free / MEGABYTE,
        });
    }
    Ok(())
}

/// Compares what is needed with what is free.
pub fn check(
    request: &ImportRequest<'_>,
    description: &Description,
    gguf: &Gguf,
    recipe: &dyn Recipe,
    window: usize,
) -> Result<(), ImportError> {
    let tensors = gguf.tensors().iter();
    let weights: f64 = tensors
        .clone()
        .map(|t| (t.rows() * t.columns()) as f64 * recipe.bytes_per_weight(t.kind))
        .sum();
    let tables: usize = description
        .ropes
        .iter()
        .map(|rope| rope.dimensions * 2 * 4 * window)
        .sum();
    let embedding = (description.vocabulary * description.width) as f64;
    let weights = weights + embedding * recipe.bytes_per_embedded();
    let needed = weights as u64 + tables as u64 + AROUND / 4;
    check_room(&request.goal, needed)?;
    let largest = tensors
        .map(|t| (t.rows() * t.columns()) as u64)
        .max()
        .unwrap_or(0);
    let mut held = (largest as f64 * recipe.held_per_weight()) as u64;
    if request.calibration.is_some() {
        let layer = description.layers.iter().map(weights_of).max();
        held = held.max(RUN * layer.unwrap_or(0));
    }
    let needed = AROUND + held + 2 * tables as u64;
    match available() {
        Some(free) if free < needed => Err(ImportError::Memory {
            needed: needed.div_ceil(MEGABYTE),
            free: free / MEGABYTE,
        }),
        _ => Ok(()),
    }
}

/// Weights of a layer's matrices.
fn weights_of(layer: &Layer) -> u64 {
    let (attention, mlp) = (&layer.attention, &layer.mlp);
    let all = [
        &attention.q,
        &attention.k,
        &attention.v,
        &attention.output,
        &mlp.gate,
        &mlp.up,
        &mlp.down,
    ];
    all.map(|linear| (linear.weight.rows.len() * linear.weight.columns) as u64)
        .iter()
        .sum()
}

/// Memory that can be had, in bytes; `None` where the system does not say.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
