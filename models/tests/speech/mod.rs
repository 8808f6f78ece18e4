//! Finds the real library, model and recordings for tests that need them.

#[path = "../place/mod.rs"]
mod place;

use std::path::{Path, PathBuf};

use firstword_audio::{Channels, Conditioner, open};
use firstword_targets::{Library, Search};

/// Samples of one second.
pub const SECOND: usize = 16_000;

/// What `firstword model pull` fetched: library, model folder, and recordings.
pub struct Real {
    pub library: &'static Library,
    pub model: PathBuf,
    clips: PathBuf,
}

impl Real {
    /// `None`, with a line that says so, where something is missing.
    pub fn find() -> Option<Self> {
        let root = place::store().unwrap_or_default();
        let models = root.join("models");
        let (model, clips) = (models.join("moonshine-tiny-en"), models.join("demo-clips"));
        let library = root.join("lib").read_dir().ok().and_then(|entries| {
            let folders = entries.flatten().map(|entry| entry.path());
            folders.filter(|path| path.is_dir()).max()
        });
        let there = model.join("tokenizer.bin").is_file() && clips.join("beckett.wav").is_file();
        let (true, Some(folder)) = (there, library) else {
            println!("skipped: no models (run `firstword model pull`, or set FIRSTWORD_HOME)");
            return None;
        };
        let search = Search {
            environment: ["FIRSTWORD_TEST_ORT", "ORT_DYLIB_PATH"]
                .into_iter()
                .find_map(place::set),
            cache: Some(folder),
            ..Search::default()
        };
        Some(Self {
            library: search.load().unwrap(),
            model,
            clips,
        })
    }

    /// A recording at 16 kHz.
    pub fn clip(&self, name: &str) -> Vec<f32> {
        samples(&self.clips.join(name))
    }
}

fn samples(path: &Path) -> Vec<f32> {
    let mut source = open(path).unwrap();
    let mut conditioner = Conditioner::new(source.format(), Channels::default()).unwrap();
    let (mut native, mut out) = (Vec::new(), Vec::new());
    while source.read(&mut native, 48_000).unwrap() > 0 {
        out.extend_from_slice(conditioner.push(&native).unwrap());
        native.clear();
    }
    out.extend_from_slice(conditioner.finish().unwrap());
    out
}
