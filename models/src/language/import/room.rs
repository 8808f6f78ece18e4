//! Is there room for what an import will write and hold? Asked beforehand: a full device or a killed process says little.

use std::fs;
use std::path::Path;

use super::{ImportError, ImportRequest};
use crate::gguf::Gguf;
use crate::language::architecture::Description;
use crate::language::lower::Recipe;

const MEGABYTE: u64 = 1_000_000;
/// Buffers, the head of the source and its tokenizer, in bytes: the largest vocabulary (262 144) takes about this much.
const AROUND: u64 = 300 * MEGABYTE;

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
    let parent = request
        .goal
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    // A folder that is not there is said when it is written to.
    if let Ok(room) = rustix::fs::statvfs(parent) {
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free < needed {
            return Err(ImportError::Room {
                folder: parent.to_owned(),
                needed: needed.div_ceil(MEGABYTE),
                free: free / MEGABYTE,
            });
        }
    }
    let largest = tensors
        .map(|t| (t.rows() * t.columns()) as u64)
        .max()
        .unwrap_or(0);
    let needed = AROUND + (largest as f64 * recipe.held_per_weight()) as u64 + 2 * tables as u64;
    match available() {
        Some(free) if free < needed => Err(ImportError::Memory {
            needed: needed.div_ceil(MEGABYTE),
            free: free / MEGABYTE,
        }),
        _ => Ok(()),
    }
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
