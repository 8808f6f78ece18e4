//! From the configuration to loaded models and settings for streams.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use firstword_audio::clock::{Samples, Stamp};
use firstword_models::catalogue::ONNX_RUNTIME;
use firstword_models::speech::{Moonshine, Silero, SpeechError};
use firstword_models::store::Folder;
use firstword_models::{Store, StoreError};
use firstword_targets::{Cpu, Library, LibraryError, Target};

use super::Context;
use crate::exit::{CommandError, Exit, say};
use crate::log::{Load, Model, Purpose, Recorder};
use crate::speech::endpoint;
use crate::speech::recogniser::{Names, Recogniser, Settings};

impl Context {
    /// Loads the library and the models that the configuration names.
    ///
    /// # Errors
    /// With the exit code that belongs to what is missing.
    pub fn recogniser(&self, recorder: &Recorder) -> Result<Recogniser, CommandError> {
        let watch = LoadWatch::begin();
        let settings = &self.config.settings;
        let target: Target = settings
            .speech
            .target
            .parse()
            .map_err(|error| CommandError::new(Exit::Usage, "speech.target", error))?;
        // Models first: a misspelt name is quicker told than a library loaded.
        let store = self.store()?;
        let speech = store.resolve(&settings.speech.model);
        let voice = store.resolve(&settings.voice_activity.model);
        let absent =
            |found: &Result<Folder, StoreError>| matches!(found, Err(StoreError::Absent { .. }));
        if absent(&speech) && absent(&voice) && !self.finds_library(&store) {
            let reason = "nothing is there yet: run `firstword model pull` once";
            return Err(CommandError::new(
                Exit::Model,
                store.root().display(),
                reason,
            ));
        }
        let (speech, voice) = (speech?, voice?);
        let watch = watch.lap("verify");
        let library = self.library(&store)?;
        let watch = watch.lap("library");
        let cpu = self.cpu();
        if self.verbose > 0 {
            say(&library.to_string());
            say(&format!("speech model in {}", speech.path.display()));
            say(&format!("voice activity model in {}", voice.path.display()));
        }
        library.messages().show(self.verbose > 1);
        let built = store.root().join("built");
        let moonshine = Moonshine::load(library, &cpu, &speech.path, Some(&built))?;
        if self.verbose > 0
            && let Some(reason) = moonshine.why_shipped()
        {
            say(&format!("the decoder runs as shipped: {reason}"));
        }
        let names = Names {
            model: model_name(&settings.speech.model),
            decoder: moonshine.decoder_form().to_string(),
            target: target.to_string(),
            onnxruntime: library.version.clone(),
        };
        let model = Model {
            model: names.model.clone(),
            precision: None,
            decoder: Some(names.decoder.clone()),
            target: names.target.clone(),
            placement: Some(firstword_targets::cpu::PROVIDER.to_owned()),
            onnxruntime: names.onnxruntime.clone(),
        };
        let load = watch.lap("session").end(Purpose::Speech, &speech.path);
        let id = recorder.load(model, load);
        let watch = LoadWatch::begin();
        // A frame of voice activity is too little work for two.
        let alone = Cpu {
            threads: NonZeroUsize::MIN,
            ..cpu
        };
        let silero = Silero::load(library, &alone, &voice.path)?;
        let model = Model {
            model: model_name(&settings.voice_activity.model),
            precision: None,
            decoder: None,
            target: names.target.clone(),
            placement: Some(firstword_targets::cpu::PROVIDER.to_owned()),
            onnxruntime: names.onnxruntime.clone(),
        };
        let load = watch
            .lap("session")
            .end(Purpose::VoiceActivity, &voice.path);
        let _ = recorder.load(model, load);
        Ok(Recogniser {
            names,
            moonshine,
            silero,
            recorder: recorder.clone(),
            id,
        })
    }

    /// Whether there is a library to be tried at all.
    fn finds_library(&self, store: &Store) -> bool {
        !self.library_search().finds_in_cache_only()
            || !matches!(store.resolve(ONNX_RUNTIME), Err(StoreError::Absent { .. }))
    }

    /// ONNX Runtime, opened once.
    ///
    /// # Errors
    /// Where it is not found, or not whole.
    pub(super) fn library(&self, store: &Store) -> Result<&'static Library, CommandError> {
        let search = self.library_search();
        // A damaged library would take the process down without a word: its hash is asked for first.
        if search.finds_in_cache_only() {
            match store.resolve(ONNX_RUNTIME) {
                // That there is none is told by the search, with all the places it looked at.
                Ok(_) | Err(StoreError::Absent { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(search.load()?)
    }

    /// How streams are cut and shown. `waiting`: somebody waits for results while the sound goes on.
    #[must_use]
    pub fn stream_settings(&self, waiting: bool, partials: bool) -> Settings {
        let settings = &self.config.settings;
        let voice = &settings.voice_activity;
        let samples = |time: Duration| Samples::from_duration(time);
        Settings {
            endpoint: endpoint::Settings {
                threshold: voice.threshold as f32,
                pause: samples(if waiting {
                    voice.min_silence
                } else {
                    voice.min_silence_recording
                }),
                pre_roll: samples(voice.pre_roll),
                post_roll: samples(voice.post_roll),
                longest: samples(settings.speech.max_utterance),
            },
            partials: partials.then(|| samples(settings.speech.partial_interval)),
        }
    }
}

/// Times a load, lap by lap.
pub(super) struct LoadWatch {
    laps: Vec<(&'static str, Duration)>,
    last: Stamp,
    rss_before: Option<u64>,
}

impl LoadWatch {
    /// A load begins.
    pub fn begin() -> Self {
        Self {
            laps: Vec::new(),
            last: Stamp::now(),
            rss_before: memory(),
        }
    }

    /// What was done since the last lap had this name.
    pub fn lap(mut self, name: &'static str) -> Self {
        let now = Stamp::now();
        self.laps.push((name, now.since(self.last)));
        self.last = now;
        self
    }

    /// The load of what is in this folder is over.
    pub fn end(self, role: Purpose, folder: &Path) -> Load {
        Load {
            role,
            stages: self.laps,
            bytes: bytes_in(folder),
            cached: None,
            rss_before_bytes: self.rss_before,
            rss_after_bytes: memory(),
        }
    }
}

/// Memory of this process now.
fn memory() -> Option<u64> {
    crate::log::device::process_memory(Path::new("/"))
}

/// Bytes of the files in a folder.
fn bytes_in(folder: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(folder).ok()?;
    let sizes = entries
        .flatten()
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .filter(std::fs::Metadata::is_file)
        .map(|meta| meta.len());
    Some(sizes.sum())
}

/// A model's name for records: without the folders of a path.
pub(super) fn model_name(model: &str) -> String {
    Path::new(model).file_name().map_or_else(
        || model.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

impl From<LibraryError> for CommandError {
    fn from(error: LibraryError) -> Self {
        Self::new(Exit::OnnxRuntime, "", error)
    }
}

impl From<SpeechError> for CommandError {
    fn from(error: SpeechError) -> Self {
        let exit = match error {
            SpeechError::Step { .. } => Exit::OnnxRuntime,
            _ => Exit::Model,
        };
        Self::new(exit, "", error)
    }
}
