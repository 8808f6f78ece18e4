//! How fast, and against whom?
//!
//! - `benches/peers` (`make peers`): firstword against sherpa-onnx and moonshine-voice on the same weights
//!   and recordings, in one alternated run;
//! - `benches/peers/language.py` (`make language-peers`): our imports of a GGUF file against llama.cpp, onnxruntime-genai
//!   and OpenVINO GenAI on the same weights; `src/bin/language_cost.rs` is our contestant;
//! - `src/bin/lm_loop.rs`: our generation loop against a bare ONNX Runtime loop on the same graph;
//! - `src/bin/decoder_forms.rs`: the rebuilt decoder against the shipped one, per token;
//! - `src/bin/token_choice.rs`: sampling and following a JSON schema, per token;
//! - `benches/log_stamp.rs`: what it costs a stage to tell the log.
