//! The models and settings that all streams share. What belongs to one stream is in
//! [`super::stream`].

use firstword_audio::clock::{Samples, Stamp};
use firstword_models::speech::{Draft, Hypothesis, Moonshine, Silero, SpeechError};

use super::endpoint;
use crate::log::{ModelId, Recorder, Role, Step, StreamId};
use crate::record::Record;

/// Loaded models and what they are called.
#[derive(Debug)]
pub struct Recogniser {
    /// Samples to tokens to text.
    pub moonshine: Moonshine,
    /// Samples to speech probabilities.
    pub silero: Silero,
    /// Names for the records.
    pub names: Names,
    /// Where steps and arrivals are told, if they are.
    pub recorder: Recorder,
    /// The recogniser's number there.
    pub id: ModelId,
}

/// For whom a pass is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct For {
    pub stream: StreamId,
    /// When it could have begun: the sound was there.
    pub due: Stamp,
}

/// What stands in every record.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The recogniser's.
    pub model: String,
    /// The form of its decoder.
    pub decoder: String,
    /// Where it runs.
    pub target: String,
    /// Version of the ONNX Runtime library.
    pub onnxruntime: String,
}

/// How a stream is cut and shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Begin and end of utterances.
    pub endpoint: endpoint::Settings,
    /// Partial results, and how much new sound there must be between two of them.
    pub partials: Option<Samples>,
}

/// One pass over an utterance: what was heard, and when.
#[derive(Debug)]
pub(super) struct Pass {
    pub hypothesis: Hypothesis,
    pub started: Stamp,
    pub encoded: Stamp,
    pub decoded: Stamp,
}

impl Recogniser {
    /// Encodes the samples (f32, 16 kHz mono) of an utterance and decodes them from `draft`; the
    /// cost goes into `record`.
    pub(super) fn pass(
        &mut self,
        samples: &[f32],
        draft: Draft<'_>,
        whom: For,
        record: &mut Record,
    ) -> Result<Pass, SpeechError> {
        let started = Stamp::now();
        let encoded_sound = self.moonshine.encode(samples)?;
        let encoded = Stamp::now();
        let mut before = encoded;
        let work = &mut record.work;
        let hypothesis = self.moonshine.decode(&encoded_sound, draft, |_| {
            let now = Stamp::now();
            work.slowest_step = work.slowest_step.max(now.since(before));
            before = now;
        })?;
        let decoded = Stamp::now();
        let step = |role, due, start, end| Step {
            role,
            model: self.id,
            stream: whom.stream,
            batch: 1,
            due,
            start,
            end,
        };
        self.recorder
            .step(step(Role::Encode, whom.due.min(started), started, encoded));
        self.recorder
            .step(step(Role::Transcribe, encoded, encoded, decoded));
        work.encode += encoded.since(started);
        work.decode += decoded.since(encoded);
        let counts = &mut record.counts;
        counts.passes += 1;
        counts.decoder_steps += hypothesis.steps;
        counts.tokens_kept += hypothesis.kept as u32;
        counts.tokens_looped += hypothesis.looped;
        Ok(Pass {
            hypothesis,
            started,
            encoded,
            decoded,
        })
    }
}
