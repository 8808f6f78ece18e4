//! The device: what it is, and the state it is in. Everything is read from files of the kernel and the distribution; what a
//! device does not have is `None`, never a guess.

mod identity;
mod sample;

pub use identity::Identity;
pub use sample::{Full, Rail, Sample, Sampler, Zone};

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Hot from here on, °C; the reports say "thermal" from here on, where the clock is low besides.
const HOT: f64 = 75.0;
/// A clock below this share of the highest is low.
const LOW_CLOCK: f64 = 0.85;
/// Memory is short below so many bytes.
pub const SHORT_OF_MEMORY: f64 = 64.0 * 1024.0 * 1024.0;

/// Whether a device runs clearly below its clock for heat: by its own word, or hot and below 85 % of the highest clock.
#[must_use]
pub fn is_throttled(said: Option<bool>, temperature_c: Option<f64>, clock: Option<f64>) -> bool {
    said == Some(true)
        || (temperature_c.is_some_and(|c| c >= HOT) && clock.is_some_and(|share| share < LOW_CLOCK))
}

/// Whether others used the processor: nearly all cores in use, or a hypervisor took its share, or more than twice as many
/// tasks were runnable as there are cores.
#[must_use]
pub fn is_loaded(
    steal: Option<f64>,
    busy: Option<f64>,
    load_1m: Option<f64>,
    cores: Option<f64>,
) -> bool {
    steal.is_some_and(|steal| steal > 0.05)
        || busy.is_some_and(|busy| busy > 0.95)
        || matches!((load_1m, cores), (Some(load), Some(cores)) if load > 2.0 * cores)
}

/// Memory that this process has in use, by the kernel's word below `root`.
#[must_use]
pub fn process_memory(root: &Path) -> Option<u64> {
    kilobytes(&read(&root.join("proc/self/status"))?, "VmRSS")
}

/// Longest file of the kernel that is read here: /proc/stat of a machine with many cores.
const LONGEST: u64 = 256 << 10;

/// A file's text, if it can be read.
fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(LONGEST)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first line of a file without blanks and zero bytes around it; `None` for an empty one.
fn word(path: &Path) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().next()?.trim_matches(['\0', ' ', '\t']);
    (!line.is_empty()).then(|| line.to_owned())
}

/// A whole number that is all of a file's first line.
fn number(path: &Path) -> Option<f64> {
    word(path)?
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
}

/// `Name:   value` in a file of the kernel.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// `Name:   123 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = field(text, name)?;
    let number = value.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    number.checked_mul(1024)
}

/// The folders and files in a folder, sorted, so that a report reads the same each time.
fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// A device made of files, for tests: hardware that is not here.
#[cfg(test)]
fn made_up(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}
