//! Real models for the tests of recognition: what does the recogniser make of these samples?

// Each test binary that includes this module uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use firstword::config::{Config, Source};
use firstword::place::{Environment, Place};
use firstword::speech::endpoint;
use firstword::speech::recogniser::{Recogniser, Settings};
use firstword::speech::stream::{Block, Mode, Stream};
use firstword::speech::timeline::Arrival;
use firstword::speech::transcript::{Event, Final};
use firstword_audio::clock::{Samples, Stamp};
use firstword_audio::{Channels, Conditioner};
use firstword_models::Store;

/// The store of this machine, where `make test` has put the models.
pub fn store() -> Store {
    let place = Place::new(&Environment::of_process());
    Store::new(place.store().unwrap())
}

/// A recording of the demo, or `None` with a line `skipped: …`.
pub fn demo_clip(name: &str) -> Option<PathBuf> {
    match store().resolve("demo-clips") {
        Ok(folder) => Some(folder.file(name)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// The default models, loaded once for each test binary, or `None` with a line `skipped: …`.
pub fn recogniser() -> Option<MutexGuard<'static, Recogniser>> {
    static LOADED: OnceLock<Result<Mutex<Recogniser>, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| load().map(Mutex::new));
    match loaded {
        // A test that failed while it held the models left them as they were: they have no state.
        Ok(recogniser) => Some(recogniser.lock().unwrap_or_else(|held| held.into_inner())),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

fn load() -> Result<Recogniser, String> {
    let environment = Environment::of_process();
    let place = Place::new(&environment);
    let source = Source::choose(None, &environment, &place);
    let context = firstword::commands::Context {
        config: Config::load(&source, &environment, &place, &[]).map_err(|e| e.to_string())?,
        place,
        interrupt: firstword::interrupt::Interrupt::install().map_err(|e| e.to_string())?,
        verbose: 0,
    };
    context
        .recogniser(&firstword::log::Recorder::off())
        .map_err(|e| e.to_string())
}

/// The defaults of the configuration, as `firstword transcribe` takes them for a recording.
pub fn recording() -> Settings {
    Settings {
        endpoint: endpoint::Settings {
            threshold: 0.5,
            pause: samples(1500),
            pre_roll: samples(500),
            post_roll: samples(200),
            longest: samples(15_000),
        },
        partials: None,
    }
}

/// The same with `--partials`.
pub fn streaming() -> Settings {
    let recording = recording();
    Settings {
        endpoint: endpoint::Settings {
            pause: samples(500),
            ..recording.endpoint
        },
        partials: Some(samples(300)),
    }
}

pub fn samples(ms: u64) -> Samples {
    Samples::from_duration(Duration::from_millis(ms))
}

/// A recording as 16 kHz mono.
pub fn load_clip(path: &Path, channel: Option<u32>) -> Vec<f32> {
    let mut source = firstword_audio::open(path).unwrap();
    let channels = channel.map_or(Channels::Mix, |n| Channels::One(n as u16));
    let mut conditioner = Conditioner::new(source.format(), channels).unwrap();
    let mut interleaved = Vec::new();
    let mut out = Vec::new();
    while source.read(&mut interleaved, 4096).unwrap() > 0 {
        out.extend_from_slice(conditioner.push(&interleaved).unwrap());
        interleaved.clear();
    }
    out.extend_from_slice(conditioner.finish().unwrap());
    out
}

/// Feeds a stream block by block; `arrival` is when each block came.
pub fn push(
    stream: &mut Stream,
    recogniser: &mut Recogniser,
    samples: &[f32],
    events: &mut Vec<Event>,
) {
    let now = Stamp::now();
    let block = Block {
        samples,
        arrival: Arrival {
            captured: now,
            received: now,
            resampled: now,
        },
        read: Duration::ZERO,
        resample: Duration::ZERO,
    };
    stream.push(recogniser, block, events).unwrap();
}

/// Everything that is made of these samples, fed in blocks of `block` samples.
pub fn events(
    recogniser: &mut Recogniser,
    settings: Settings,
    sound: &[f32],
    block: usize,
) -> Vec<Event> {
    let mut stream = Stream::new("test", settings, Mode::File);
    let mut events = Vec::new();
    for block in sound.chunks(block) {
        push(&mut stream, recogniser, block, &mut events);
    }
    stream.finish(recogniser, &mut events).unwrap();
    events
}

/// The finals among them.
pub fn finals(events: &[Event]) -> Vec<&Final> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Final(last) => Some(&**last),
            Event::Partial(_) => None,
        })
        .collect()
}

/// Their text in one line.
pub fn text(events: &[Event]) -> String {
    finals(events)
        .iter()
        .map(|last| last.text.as_str())
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
