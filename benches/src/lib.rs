//! How fast, and against whom?
//!
//! - `benches/peers` (`make peers`): firstword against sherpa-onnx and moonshine-voice on the same weights
//!   and recordings, in one alternated run;
//! - `src/bin/decoder_forms.rs`: the rebuilt decoder against the shipped one, per token;
//! - `src/bin/token_choice.rs`: sampling and following a JSON schema, per token.
