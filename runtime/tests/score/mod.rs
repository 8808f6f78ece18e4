//! Word error scoring for the tests that judge transcripts against the true text.
//!
//! An integration test says `mod score;`, asks [`clips`] for real speech with its true text, and counts
//! with [`errors`]. Both texts go through the same normaliser first: the rules of Whisper's English one,
//! ported by hand ([`normalise`]) and compared with the original's output in `normaliser.tsv`.

// Each test binary that includes this module uses a part of it.
#![allow(dead_code, unreachable_pub, unused_imports, clippy::unwrap_used)]

mod normaliser;
mod number_words;
mod numbers;

pub use normaliser::normalise;

use std::path::{Path, PathBuf};

/// What is said in `beckett.wav` of the `moonshine-voice` wheel (Samuel Beckett, "Worstward Ho"): 12 words.
pub const BECKETT: &str = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.";

/// What is said in `two_cities.wav` of the `moonshine-voice` wheel (Charles Dickens, "A Tale of Two
/// Cities", first sentence): 119 words.
pub const TWO_CITIES: &str = "It was the best of times, it was the worst of times, it was the age of \
    wisdom, it was the age of foolishness, it was the epoch of belief, it was the epoch of incredulity, \
    it was the season of Light, it was the season of Darkness, it was the spring of hope, it was the \
    winter of despair, we had everything before us, we had nothing before us, we were all going direct \
    to Heaven, we were all going direct the other way - in short, the period was so far like the present \
    period, that some of its noisiest authorities insisted on its being received, for good or for evil, \
    in the superlative degree of comparison only.";

/// A recording (or one channel of it) and what is said in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// File name with the channel where one is picked, for messages: `jfk.flac`, `two.wav (channel 1)`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The channel to listen to, counted from 1 as `--channel` counts; `None`: all of them together.
    pub channel: Option<u32>,
    /// The true text, as the manifest has it.
    pub text: String,
}

/// Word errors of `hypothesis` and the number of words of `reference`, both normalised.
///
/// Errors are the fewest words to put in, leave out or exchange (Levenshtein distance over words).
#[must_use]
pub fn errors(reference: &str, hypothesis: &str) -> (usize, usize) {
    let reference = normalise(reference);
    let hypothesis = normalise(hypothesis);
    (distance(&reference, &hypothesis), reference.len())
}

/// Levenshtein distance over words, one row at a time.
fn distance(reference: &[String], hypothesis: &[String]) -> usize {
    // row[j]: distance of the reference's words so far to the first j words of the hypothesis.
    let mut row: Vec<usize> = (0..=hypothesis.len()).collect();
    for (i, expected) in reference.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, heard) in hypothesis.iter().enumerate() {
            let exchanged = diagonal + usize::from(expected != heard);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[hypothesis.len()]
}

/// The folder of shared test data: `FIRSTWORD_SHARED`, or `../shared` beside the checkout.
#[must_use]
pub fn shared_folder() -> PathBuf {
    match std::env::var_os("FIRSTWORD_SHARED") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
    }
}

/// All recordings of the manifest, unscored ones included, or `None` with a line on stdout that begins
/// `skipped: ` where the folder of clips is absent.
#[must_use]
pub fn all_clips() -> Option<Vec<Clip>> {
    let folder = shared_folder().join("speech");
    let manifest = folder.join("manifest.tsv");
    if !manifest.exists() {
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        println!(
            "skipped: {name}: no {}; set FIRSTWORD_SHARED",
            manifest.display()
        );
        return None;
    }
    let table = std::fs::read_to_string(&manifest).unwrap();
    Some(read_manifest(&folder, &table))
}

/// The recordings that word error rates are quoted on: not the wake words, not the counting clip.
/// `None`, with a `skipped: ` line, where the folder of clips is absent.
#[must_use]
pub fn clips() -> Option<Vec<Clip>> {
    let scored = |clip: &Clip| !clip.name.starts_with("mww_") && clip.name != "english_123.wav";
    all_clips().map(|clips| clips.into_iter().filter(scored).collect())
}

/// Reads the table: a head line, then file, seconds, rate, channels, transcript and provenance,
/// separated by tabs. A transcript `(L) … (R) …` is two clips, one for each channel.
fn read_manifest(folder: &Path, table: &str) -> Vec<Clip> {
    let mut clips = Vec::new();
    for line in table.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('\t').collect();
        assert!(
            cells.len() > 4,
            "manifest line with {} cells: {line}",
            cells.len()
        );
        let (file, text) = (cells[0], cells[4]);
        let path = folder.join(file);
        let sides = text
            .strip_prefix("(L) ")
            .and_then(|text| text.split_once(" (R) "));
        match sides {
            None => clips.push(Clip {
                name: file.into(),
                path,
                channel: None,
                text: text.into(),
            }),
            Some((left, right)) => {
                for (channel, text) in [(1, left), (2, right)] {
                    clips.push(Clip {
                        name: format!("{file} (channel {channel})"),
                        path: path.clone(),
                        channel: Some(channel),
                        text: text.into(),
                    });
                }
            }
        }
    }
    clips
}

/// Clips with a known split, for this module's own test.
#[must_use]
pub fn read_manifest_text(table: &str) -> Vec<Clip> {
    read_manifest(Path::new("speech"), table)
}
