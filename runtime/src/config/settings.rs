//! The one table of settings. Typed fields, defaults, ranges, environment variables, `firstword config`, its
//! help and the documentation all come from the rows below: a new key is one new row.

use std::path::PathBuf;
use std::time::Duration;

use super::value::{Kind, Value};

/// One key of the configuration.
#[derive(Debug)]
pub struct Setting {
    /// The table that it stands in.
    pub section: &'static str,
    /// Its name.
    pub key: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// Its default, as plain text.
    pub default: &'static str,
    /// What it means, in lines.
    pub about: &'static [&'static str],
    /// Environment variables of other programs that set it too, after our own.
    pub also: &'static [&'static str],
}

/// A table of the configuration file.
#[derive(Debug)]
pub struct Section {
    /// Its name, as in `[name]`.
    pub name: &'static str,
    /// What it is about, in lines.
    pub about: &'static [&'static str],
    /// Its keys.
    pub settings: &'static [Setting],
}

impl Setting {
    /// Our environment variable for this key: `FIRSTWORD_<SECTION>_<KEY>`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("FIRSTWORD_{}_{}", self.section, self.key).to_ascii_uppercase()
    }

    /// What it means, as one paragraph.
    #[must_use]
    pub fn meaning(&self) -> String {
        paragraph(self.about)
    }

    /// The default as TOML source text.
    ///
    /// # Errors
    /// When the table itself is wrong, which a test rules out.
    pub fn default_value(&self) -> Result<Value, super::value::Mismatch> {
        self.kind.read_text(self.default)
    }
}

impl Section {
    /// What it is about, as one paragraph.
    #[must_use]
    pub fn meaning(&self) -> String {
        paragraph(self.about)
    }
}

fn paragraph(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// Every key of every section, in the order of the table.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// A Rust type that a value can be read as.
trait Typed: Sized {
    fn typed(value: &Value) -> Option<Self>;
}

macro_rules! typed {
    ($($type:ty: $value:pat => $out:expr;)+) => {
        $(impl Typed for $type {
            fn typed(value: &Value) -> Option<Self> {
                match value { $value => $out, _ => None }
            }
        })+
    };
}

typed! {
    bool: Value::Switch(on) => Some(*on);
    usize: Value::Count(n) => usize::try_from(*n).ok();
    f64: Value::Ratio(x) => Some(*x);
    Duration: Value::Time(time) => Some(*time);
    String: Value::Name(text) | Value::Model(text) => Some(text.clone());
    Option<PathBuf>: Value::Path(path) => Some(Some(path.clone()).filter(|p| !p.as_os_str().is_empty()));
}

macro_rules! table {
    ($(
        $(#[doc = $section_about:literal])+
        $section:ident: $Section:ident {
            $(
                $(#[doc = $about:literal])+
                $key:ident: $type:ty = $default:literal, $kind:expr $(, also $also:literal)*;
            )+
        }
    )+) => {
        $(
            $(#[doc = $section_about])+
            #[derive(Clone, Debug, PartialEq)]
            pub struct $Section {
                $($(#[doc = $about])+ pub $key: $type,)+
            }
        )+

        /// Every setting with its effective value, as the program uses it.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[doc = $section_about])+ pub $section: $Section,)+
        }

        /// The sections, in the order in which they are shown.
        pub static SECTIONS: &[Section] = &[$(
            Section {
                name: stringify!($section),
                about: &[$($section_about),+],
                settings: &[$(
                    Setting {
                        section: stringify!($section),
                        key: stringify!($key),
                        kind: $kind,
                        default: $default,
                        about: &[$($about),+],
                        also: &[$($also),*],
                    },
                )+],
            },
        )+];

        impl Settings {
            /// The typed settings; `None` only where a row's type does not fit its kind, which is a bug that
            /// the tests of this file rule out.
            pub(super) fn read<'a>(value: impl Fn(&str, &str) -> Option<&'a Value>) -> Option<Self> {
                Some(Self {
                    $($section: $Section {
                        $($key: <$type as Typed>::typed(value(stringify!($section), stringify!($key))?)?,)+
                    },)+
                })
            }
        }
    };
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

table! {
    /// The library that runs the models.
    onnxruntime: OnnxRuntime {
        /// Path of the ONNX Runtime library (libonnxruntime.so…). Empty: looked for beside the program, then in
        /// the store, where `firstword model pull` puts it.
        library: Option<PathBuf> = "", Kind::Path, also "ORT_DYLIB_PATH";
        /// Threads of one session. 0: chosen for the machine.
        threads: usize = "0", Kind::Count { least: 0, most: 1024, unit: "threads" };
        /// Whether threads that wait within a step spin. Faster with several threads alone on a machine, several times
        /// slower when streams or programs share few cores.
        spinning: bool = "false", Kind::Switch;
    }

    /// How speech becomes text.
    speech: Speech {
        /// The speech model: a name that `firstword model list` knows, or a folder with a / in its path.
        model: String = "moonshine-tiny-en", Kind::Model;
        /// Where the model runs. This version knows `cpu`.
        target: String = "cpu", Kind::Name;
        /// Least time between two partial results of an utterance.
        partial_interval: Duration = "300ms", Kind::Time { least: ms(50), most: ms(10_000) };
        /// Longest utterance. Longer speech is cut at its weakest point: beyond about 16 s the model begins
        /// to invent text.
        max_utterance: Duration = "15s", Kind::Time { least: ms(2_000), most: ms(30_000) };
    }

    /// Where speech begins and ends.
    voice_activity: VoiceActivity {
        /// The voice activity model: a name that `firstword model list` knows, or a folder with a / in its path.
        model: String = "silero-vad", Kind::Model;
        /// Probability of speech from which a piece of sound counts as speech.
        threshold: f64 = "0.5", Kind::Ratio { least: 0.01, most: 0.99 };
        /// Silence that ends an utterance. Shorter: finals come sooner, sentences are cut more often.
        min_silence: Duration = "500ms", Kind::Time { least: ms(32), most: ms(10_000) };
        /// The same in recordings that nobody waits for (no --partials, no --pace realtime): sentences stay
        /// together, which gives fewer errors.
        min_silence_recording: Duration = "1500ms", Kind::Time { least: ms(32), most: ms(10_000) };
        /// Sound kept from before the speech was noticed, so that the first word is whole.
        pre_roll: Duration = "500ms", Kind::Time { least: ms(0), most: ms(2_000) };
        /// Sound kept from after the last frame of speech, so that the last word is whole.
        post_roll: Duration = "200ms", Kind::Time { least: ms(0), most: ms(2_000) };
    }

    /// How a language model answers.
    language: Language {
        /// The language model: a name that `firstword model list` knows, or a folder with a / in its path.
        model: String = "smollm2-135m-instruct", Kind::Model;
        /// Where the model runs. This version knows `cpu`.
        target: String = "cpu", Kind::Name;
        /// Tokens that prompt and reply may have together. More than the model was made for is cut to that.
        window: usize = "4096", Kind::Count { least: 16, most: 131_072, unit: "tokens" };
        /// Longest reply.
        max_tokens: usize = "256", Kind::Count { least: 1, most: 131_072, unit: "tokens" };
        /// Tokens of a prompt that run in one step. Shorter: a reply that is under way waits less for another prompt.
        prefill_chunk: usize = "128", Kind::Count { least: 1, most: 4_096, unit: "tokens" };
    }

    /// The models and where they come from.
    models: Models {
        /// The store: models, libraries and unfinished downloads lie in it. Empty: the cache folder.
        folder: Option<PathBuf> = "", Kind::Path;
        /// Never use the network.
        offline: bool = "false", Kind::Switch;
    }

    /// What is written down.
    log: Log {
        /// Folder of the log. Empty: the state folder.
        folder: Option<PathBuf> = "", Kind::Path;
        /// Whether the latency record of every utterance, request and turn is written to the log.
        latency: bool = "true", Kind::Switch;
        /// Whether the log holds what was heard, asked and answered. The sound is never in it.
        text: bool = "false", Kind::Switch;
        /// Most that all segments in the folder take; the oldest goes first.
        budget_bytes: usize = "67108864", Kind::Count { least: 16_384, most: 1 << 40, unit: "bytes" };
        /// A new segment begins at this size; at most a quarter of the budget.
        segment_bytes: usize = "4194304", Kind::Count { least: 4_096, most: 1 << 32, unit: "bytes" };
        /// A new segment begins after this time.
        segment_age: Duration = "1440min", Kind::Time { least: ms(1_000), most: ms(2_592_000_000) };
        /// When what was written is brought to the disk: never by the program, at intervals and at its end, or each time.
        sync: String = "interval", Kind::OneOf(&["never", "interval", "each"]);
        /// With `interval`: a power cut loses no more than this.
        sync_every: Duration = "5s", Kind::Time { least: ms(100), most: ms(3_600_000) };
        /// How long a record may wait for others, to be written with them.
        flush_every: Duration = "500ms", Kind::Time { least: ms(10), most: ms(60_000) };
        /// Most that is written on average, in bytes a second; sixteen times as much may come at once. What is above is
        /// counted and left out.
        rate_bytes_per_s: usize = "65536", Kind::Count { least: 1_024, most: 1 << 32, unit: "bytes" };
        /// How often temperature, clocks, memory and load are read.
        device_every: Duration = "10s", Kind::Time { least: ms(100), most: ms(3_600_000) };
        /// Whether every step of the device and every arrival of sound is written down, for `firstword log replay`.
        trace: bool = "false", Kind::Switch;
        /// Most that a process writes of that.
        trace_bytes: usize = "16777216", Kind::Count { least: 4_096, most: 1 << 40, unit: "bytes" };
    }

    /// What latencies are held to.
    latency: Latency {
        /// The named objective; docs/latency-log.md says what each of them limits.
        objective: String = "interactive", Kind::OneOf(&crate::log::objective::NAMES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_accepted_by_its_own_key_and_fits_its_type() {
        let defaults: Vec<(&Setting, Value)> = settings()
            .map(|setting| (setting, setting.default_value().unwrap()))
            .collect();
        let read = Settings::read(|section, key| {
            defaults
                .iter()
                .find(|(s, _)| s.section == section && s.key == key)
                .map(|(_, value)| value)
        });
        // Ground truth: the defaults agreed on with the people who use these values.
        let read = read.unwrap();
        assert_eq!(read.speech.model, "moonshine-tiny-en");
        assert_eq!(read.speech.partial_interval, Duration::from_millis(300));
        assert_eq!(read.speech.max_utterance, Duration::from_secs(15));
        assert_eq!(read.voice_activity.threshold, 0.5);
        assert_eq!(read.onnxruntime.library, None);
        assert!(!read.models.offline && read.log.latency && !read.onnxruntime.spinning);
    }

    #[test]
    fn variables_are_named_after_section_and_key() {
        let variables: Vec<String> = settings().map(Setting::variable).collect();
        assert!(variables.contains(&"FIRSTWORD_VOICE_ACTIVITY_MIN_SILENCE".to_owned()));
    }
}
