//! What an import holds does not grow with the model's vocabulary. Alone in its process, whose peak it reads.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use std::fs;
use std::ops::ControlFlow;

use firstword_models::language::import::{Calibration, Precision};
use firstword_models::language::synth::{self, Sizes};
use firstword_targets::Cpu;

/// Tokens, as many as Gemma has.
const VOCABULARY: usize = 262_144;
/// Tokens of the text: a third of them, less the last, is measured.
const TEXT: usize = 510;

/// A line of `/proc/self/status`, in bytes.
fn status(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    let kilobytes: u64 = line
        .trim_matches(&[':', ' ', '\t', 'k', 'B'][..])
        .parse()
        .unwrap();
    kilobytes * 1024
}

// The logits that are compared would take 2 models · 169 rows · 262 144 words · 4 bytes = 354 MB in one piece, the head's
// codes and scales 42 MB, three times over as ONNX Runtime reads, unpacks and packs them. In pieces of 4 096 words it is a
// sixty-fourth of all that, and four times that where inputs are rounded twice, 30 MB; the scales of the whole table (8 MB) and the file's own list of tokens (some 20 MB) stay.
// A quarter of those 354 MB is in between.
#[test]
fn an_import_with_calibration_does_not_hold_a_whole_head_or_its_logits() {
    let Some(library) = language::library() else {
        return;
    };
    let sizes = Sizes {
        name: "many-words",
        layers: 2,
        width: 256,
        inner: 256,
        heads: 4,
        vocabulary: VOCABULARY,
        context: 512,
        window: 511,
        tied: true,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.gguf");
    synth::save(&sizes, &path, &mut |_, _| ControlFlow::Continue(())).unwrap();
    // From all over the vocabulary.
    let tokens: Vec<u32> = (0..TEXT).map(|n| (n * 509 % VOCABULARY) as u32).collect();
    let cpu = Cpu::default();
    let goal = folder.path().join("model");
    let mut request = language::request(&path, &goal, Precision::Fast);
    request.calibration = Some(Calibration {
        library,
        cpu: &cpu,
        tokens: &tokens,
    });
    // Sets VmHWM back to VmRSS, where that is allowed (proc(5)); otherwise it counts what came before as well.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = status("VmRSS");
    language::import(&request);
    let grown = status("VmHWM").saturating_sub(before);
    println!(
        "grown by {} MB over {} MB",
        grown / 1_000_000,
        before / 1_000_000
    );
    let logits = 2 * (TEXT / 3 - 1) * VOCABULARY * 4;
    assert!(grown < logits as u64 / 4, "{grown} bytes");
}
