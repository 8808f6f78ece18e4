//! Imported folders run in onnxruntime-genai as well, an engine of others, and there give the same greedy tokens.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use std::path::{Path, PathBuf};
use std::process::Command;

use firstword_models::language::decoder::{Capacity, Decoder, Wanted};
use firstword_models::language::folder::LanguageFolder;
use firstword_targets::Cpu;
use language::{imported, library, text_tokens};

/// Both run the same graph, each on its own ONNX Runtime. A step whose two best logits lie nearer together than this
/// may go either way. (With onnxruntime-genai 0.18 and ONNX Runtime 1.31.1 on AVX2 all tokens are the same.)
const MARGIN: f32 = 0.02;
const PROMPT: usize = 40;
const NEW: usize = 64;

/// Greedy tokens of onnxruntime-genai: `FOLDER NEW ID…` → one line of ids.
const GENAI: &str = r#"
import sys
import onnxruntime_genai as genai

folder, new, prompt = sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3:]]
model = genai.Model(folder)
params = genai.GeneratorParams(model)
# With min_length the end of text is not chosen.
length = len(prompt) + new
params.set_search_options(do_sample=False, max_length=length + 1, min_length=length)
generator = genai.Generator(model, params)
generator.append_tokens(prompt)
tokens = []
while len(tokens) < new:
    generator.generate_next_token()
    tokens.append(int(generator.get_next_tokens()[0]))
print(*tokens)
"#;

/// A Python that has onnxruntime-genai, or `None` with a line that says why not.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("FIRSTWORD_GENAI_PYTHON").filter(|path| !path.is_empty());
    if named.is_none() {
        println!(
            "skipped: no onnxruntime-genai (set FIRSTWORD_GENAI_PYTHON to a Python that has it, as scripts/test.sh does)"
        );
    }
    named.map(PathBuf::from)
}

fn theirs(python: &Path, folder: &Path, prompt: &[u32]) -> Vec<u32> {
    let output = Command::new(python)
        .args(["-c", GENAI])
        .arg(folder)
        .arg(NEW.to_string())
        .args(prompt.iter().map(u32::to_string))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = String::from_utf8(output.stdout).unwrap();
    line.split_whitespace()
        .map(|token| token.parse().unwrap())
        .collect()
}

/// Our tokens, and how much better each was than the second best. `eos` is never chosen.
fn ours(folder: &Path, prompt: &[u32]) -> Option<Vec<(u32, f32)>> {
    let library = library()?;
    let folder = LanguageFolder::open(folder).unwrap();
    let capacity = Capacity {
        slots: 1,
        window: PROMPT + NEW,
    };
    let mut decoder = Decoder::load(library, &Cpu::default(), &folder, capacity).unwrap();
    let slot = decoder.open().unwrap();
    let choose = |row: &[f32]| {
        let mut best = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
        for (token, &logit) in row.iter().enumerate() {
            if folder.eos.contains(&(token as u32)) {
                continue;
            }
            if logit > best.1 {
                best = (token as u32, logit, best.1);
            } else if logit > best.2 {
                best.2 = logit;
            }
        }
        (best.0, best.1 - best.2)
    };
    let logits = decoder
        .prefill(slot, prompt, prompt.len(), Wanted::Last)
        .unwrap();
    let mut chosen = vec![choose(logits.row(0))];
    while chosen.len() < NEW {
        let token = chosen[chosen.len() - 1].0;
        chosen.push(choose(decoder.decode(&[(slot, token)]).unwrap().row(0)));
    }
    Some(chosen)
}

fn genai_agrees(entry: &str) {
    let (Some(python), Some(folder)) = (python(), imported(entry)) else {
        return;
    };
    let text = text_tokens(entry);
    let mut all = 0;
    for prompt in text.chunks_exact(PROMPT).step_by(6).take(2) {
        let Some(ours) = ours(&folder, prompt) else {
            return;
        };
        let theirs = theirs(&python, &folder, prompt);
        assert_eq!(theirs.len(), NEW);
        let close = ours.iter().position(|&(_, margin)| margin < MARGIN);
        let compared = close.unwrap_or(NEW);
        let tokens: Vec<u32> = ours.iter().map(|&(token, _)| token).collect();
        let same = tokens.iter().zip(&theirs).take_while(|(a, b)| a == b);
        println!("{entry}: {compared} compared, {} the same", same.count());
        assert_eq!(tokens[..compared], theirs[..compared], "{entry}");
        all += compared;
    }
    // Prompts that all begin with a close call would show nothing.
    assert!(all >= NEW, "{entry}: {all} tokens compared");
}

#[test]
fn onnxruntime_genai_gives_the_same_tokens_for_smollm2() {
    genai_agrees("smollm2-135m-instruct");
}

#[test]
fn onnxruntime_genai_gives_the_same_tokens_for_gemma() {
    genai_agrees("gemma-3-270m");
}
