//! Finds the real library, GGUF files and goldens for tests of language models, imports, and runs graphs.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../place/mod.rs"]
mod place;
pub mod tiny;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use firstword_models::gguf::Gguf;
use firstword_models::language::decoder::{Capacity, Decoder};
use firstword_models::language::folder::{LanguageFolder, Layout};
use firstword_models::language::import::{
    Calibration, GraphFlavour, ImportRequest, Precision, calibrate,
};
use firstword_models::language::tokenizer::{GgufTokenizer, Special};
use firstword_targets::{Cpu, Library, Search};
use ort::session::{Session, SessionInputValue};
use ort::value::Tensor;
use serde_json::Value;

/// ONNX Runtime, or a line that says why not.
pub fn library() -> Option<&'static Library> {
    let folder = place::store()
        .unwrap_or_default()
        .join("lib")
        .read_dir()
        .ok()
        .and_then(|entries| {
            let folders = entries.flatten().map(|entry| entry.path());
            folders.filter(|path| path.is_dir()).max()
        });
    let Some(folder) = folder else {
        println!("skipped: no ONNX Runtime (run `firstword model pull`, or set FIRSTWORD_HOME)");
        return None;
    };
    let search = Search {
        environment: ["FIRSTWORD_TEST_ORT", "ORT_DYLIB_PATH"]
            .into_iter()
            .find_map(place::set),
        cache: Some(folder),
        ..Search::default()
    };
    Some(search.load().unwrap())
}

/// The GGUF file of a catalogue entry, or a line that says why not.
pub fn gguf(entry: &str) -> Option<PathBuf> {
    let file = place::gguf(entry);
    if file.is_none() {
        println!("skipped: no {entry} (run `firstword model pull {entry}`, or set FIRSTWORD_HOME)");
    }
    file
}

/// A catalogue entry imported with exact weights, once for each test binary, or `None` with a line that says why not.
pub fn imported(entry: &str) -> Option<PathBuf> {
    static MADE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let source = gguf(entry)?;
    // Cargo's folder for tests: the next run replaces what this one leaves.
    let goal = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("models-{entry}"));
    // Others wait until the import is there.
    let mut made = MADE.lock().unwrap();
    if made.insert(entry.to_owned()) {
        let mut request = request(&source, &goal, Precision::Exact);
        request.window = Some(1024);
        request.replace = true;
        request.tokenizer = &|metadata, folder| {
            let parts = GgufTokenizer::from_metadata(metadata).unwrap();
            parts.rebuild().unwrap().save(folder).unwrap();
            Ok(())
        };
        import(&request);
    }
    Some(goal)
}

/// The calibration text in the tokens of a catalogue entry that is here.
pub fn text_tokens(entry: &str) -> Vec<u32> {
    let gguf = Gguf::open(&gguf(entry).unwrap()).unwrap();
    let parts = GgufTokenizer::from_metadata(gguf.metadata()).unwrap();
    let tokenizer = parts.rebuild().unwrap().tokenizer().unwrap();
    tokenizer.encode(calibrate::TEXT, Special::Plain).unwrap()
}

/// A file of the shared goldens, or a line that says why not.
pub fn golden(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let path = place::set("FIRSTWORD_SHARED")
        .unwrap_or(beside)
        .join("goldens")
        .join(name);
    if !path.is_file() {
        println!("skipped: no {} (set FIRSTWORD_SHARED)", path.display());
        return None;
    }
    Some(path)
}

/// An import of `source` to `goal` without a tokenizer.
pub fn request<'a>(source: &Path, goal: &Path, precision: Precision) -> ImportRequest<'a> {
    ImportRequest {
        source: source.to_owned(),
        goal: goal.to_owned(),
        name: None,
        precision,
        flavour: GraphFlavour::Fused,
        window: None,
        replace: false,
        smoothing: Default::default(),
        calibration: None,
        tokenizer: &|_, _| Ok(()),
    }
}

/// Imports, whatever it takes.
pub fn import(request: &ImportRequest<'_>) -> firstword_models::language::import::Manifest {
    firstword_models::language::import::import(request, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// An import in flavour `plain`, ready to run one sequence.
pub fn plain(
    library: &Library,
    source: &Path,
    goal: &Path,
    precision: Precision,
    window: usize,
) -> Decoder {
    let mut request = request(source, goal, precision);
    request.flavour = GraphFlavour::Plain;
    request.window = Some(window);
    // A folder without one is refused.
    request.tokenizer = &|_, folder| {
        std::fs::write(folder.join("tokenizer.json"), "{}").map_err(|error| error.to_string())
    };
    import(&request);
    let folder = LanguageFolder::open(goal).unwrap();
    assert_eq!(folder.layout, Layout::Rows);
    let capacity = Capacity { slots: 1, window };
    Decoder::load(library, &Cpu::default(), &folder, capacity).unwrap()
}

/// One sequence on a graph of flavour `fused`, with its cache.
pub struct Fused {
    session: Session,
    layers: usize,
    cache: Vec<[Tensor<f32>; 2]>,
    /// Tokens so far.
    pub length: usize,
    /// Inputs beside the usual ones.
    pub more: Vec<(&'static str, i64)>,
}

impl Fused {
    /// A session on the graph in `folder` with room for `room` tokens.
    pub fn new(library: &Library, folder: &Path, shape: [usize; 3], room: usize) -> Self {
        let [layers, kv_heads, head_dim] = shape;
        let session = Cpu::default()
            .session(library, &folder.join("model.onnx"))
            .unwrap();
        // What is beyond a sequence's end is never read: it may be anything.
        let empty = || {
            Tensor::from_array((
                [1, kv_heads, room, head_dim],
                vec![1e4f32; kv_heads * room * head_dim],
            ))
            .unwrap()
        };
        Self {
            session,
            layers,
            cache: (0..layers).map(|_| [empty(), empty()]).collect(),
            length: 0,
            more: Vec::new(),
        }
    }

    /// The logits of these rows of `ids`, which follow what was run before, one row after another.
    pub fn run(&mut self, ids: &[i64], rows: Option<&[i64]>) -> Vec<f32> {
        self.length += ids.len();
        let mut binding = self.session.create_binding().unwrap();
        let list = |values: &[i64]| Tensor::from_array(([values.len()], values.to_vec())).unwrap();
        binding
            .bind_input(
                "input_ids",
                &Tensor::from_array(([1, ids.len()], ids.to_vec())).unwrap(),
            )
            .unwrap();
        let mask = Tensor::from_array(([1, self.length], vec![1i64; self.length])).unwrap();
        binding.bind_input("attention_mask", &mask).unwrap();
        if let Some(rows) = rows {
            binding.bind_input("logit_rows", &list(rows)).unwrap();
        }
        for &(name, value) in &self.more {
            binding.bind_input(name, &list(&[value])).unwrap();
        }
        for (layer, [key, value]) in self.cache.iter().enumerate() {
            for (part, tensor) in [("key", key), ("value", value)] {
                binding
                    .bind_input(format!("past_key_values.{layer}.{part}"), tensor)
                    .unwrap();
            }
        }
        let memory = ort::memory::MemoryInfo::default();
        binding.bind_output_to_device("logits", &memory).unwrap();
        for layer in 0..self.layers {
            for part in ["key", "value"] {
                binding
                    .bind_output_to_device(format!("present.{layer}.{part}"), &memory)
                    .unwrap();
            }
        }
        let mut outputs = self.session.run_binding(&binding).unwrap();
        let logits = outputs.remove("logits").unwrap();
        let logits = logits.try_extract_tensor::<f32>().unwrap().1.to_vec();
        let mut cache = Vec::new();
        for layer in 0..self.layers {
            cache.push(["key", "value"].map(|part| {
                let value = outputs.remove(format!("present.{layer}.{part}")).unwrap();
                value
                    .downcast::<ort::value::TensorValueType<f32>>()
                    .unwrap()
            }));
        }
        drop(outputs);
        self.cache = cache;
        logits
    }
}

/// Keeps the type in scope for files that feed sessions themselves.
pub type Input<'a> = SessionInputValue<'a>;

/// Against Hugging Face transformers in float32 (goldens, which say how they were made): mean KL over the 32 most
/// likely tokens, share of equal most likely tokens, perplexity divided by the reference's.
pub fn compare(
    entry: &str,
    golden: &str,
    precision: Precision,
    calibration: Option<Calibration<'_>>,
) -> Option<[f64; 3]> {
    let golden = self::golden(golden)?;
    let source = gguf(entry)?;
    let library = library()?;
    let folder = tempfile::tempdir().unwrap();
    let goal = folder.path().join("model");
    let mut request = request(&source, &goal, precision);
    request.window = Some(512);
    request.calibration = calibration;
    let manifest = import(&request);
    let golden = json(&golden);
    let ids: Vec<i64> = serde_json::from_value(golden["ids"].clone()).unwrap();
    let shape = [manifest.layers, manifest.kv_heads, manifest.head_dim];
    let mut model = Fused::new(library, &goal, shape, 512);
    let rows: Vec<i64> = (0..ids.len() as i64).collect();
    let logits = model.run(&ids, Some(&rows));
    let rows: Vec<&[f32]> = logits.chunks(manifest.vocabulary).collect();
    let measured = measure(&golden, &rows);
    println!(
        "{entry} {}: KL, top-1, perplexity ratio {measured:?}",
        precision.name()
    );
    if let Some(quality) = &manifest.quality {
        println!("{quality:?}");
    }
    Some(measured)
}

/// A file's contents.
pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// What [`compare`] says, of the logits of all tokens of a golden.
pub fn measure(golden: &Value, rows: &[&[f32]]) -> [f64; 3] {
    let ids: Vec<i64> = serde_json::from_value(golden["ids"].clone()).unwrap();
    assert_eq!(rows.len(), ids.len());
    let (mut kl, mut same, mut nll) = (0.0, 0.0, 0.0);
    for (position, row) in rows.iter().enumerate() {
        let most = row.iter().fold(f32::MIN, |most, &v| most.max(v));
        let sum: f64 = row.iter().map(|&v| f64::from(v - most).exp()).sum();
        let log = |id: usize| f64::from(row[id] - most) - sum.ln();
        let top = &golden["top32"][position];
        let likely: Vec<usize> = serde_json::from_value(top["ids"].clone()).unwrap();
        let expected: Vec<f64> = serde_json::from_value(top["logprobs"].clone()).unwrap();
        // All other tokens count as one: without them the sum is no divergence, and can be below 0.
        let rest = |all: f64| (1.0 - all).max(1e-12);
        let [p, q] = [
            rest(expected.iter().map(|p| p.exp()).sum()),
            rest(likely.iter().map(|&id| log(id).exp()).sum()),
        ];
        kl += p * (p / q).ln();
        kl += likely
            .iter()
            .zip(&expected)
            .map(|(&id, p)| p.exp() * (p - log(id)))
            .sum::<f64>();
        let first = (0..row.len())
            .max_by(|&a, &b| row[a].total_cmp(&row[b]))
            .unwrap();
        same += f64::from(u8::from(first == likely[0]));
        if let Some(&next) = ids.get(position + 1) {
            nll -= log(next as usize);
        }
    }
    let perplexity = (nll / (ids.len() - 1) as f64).exp();
    [
        kl / ids.len() as f64,
        same / ids.len() as f64,
        perplexity / golden["perplexity"].as_f64().unwrap(),
    ]
}
