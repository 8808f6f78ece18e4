//! What has been told so far of a record that is not complete, and of an utterance's partials.

use std::time::Duration;

use firstword_audio::clock::Stamp;

use super::event::{ModelId, Part, StreamId};
use super::recorder::WORDS;
use crate::record::{Path, Record, Reply, ReplyPath, Steps, Work};

/// Partials of an utterance that enter its statistics.
const PARTIALS: usize = 1024;

/// A record that is being told.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Parts that came.
    pub seen: u16,
    pub stream: StreamId,
    /// The speech model, once something of what was heard is told.
    pub heard: Option<ModelId>,
    /// The language model, once something of the reply is told.
    pub asked: Option<ModelId>,
    pub record: Record,
    pub reply: Reply,
    /// Captured, committed, handed over.
    pub words: Vec<[Stamp; 3]>,
    slow: usize,
}

impl Draft {
    /// One more part of it.
    pub fn take(&mut self, part: Part) {
        self.seen += 1;
        match part {
            Part::Heard {
                stream,
                model,
                utterance,
                start,
                end,
                ending,
            } => {
                self.stream = stream;
                self.heard = Some(model);
                let record = &mut self.record;
                (record.utterance, record.start, record.end, record.ending) =
                    (utterance, start, end, ending);
            }
            Part::PathBegin(at) => {
                let path = &mut self.record.path;
                [
                    path.first_captured,
                    path.last_captured,
                    path.end_captured,
                    path.received,
                    path.resampled,
                ] = at;
            }
            Part::PathEnd(at) => {
                let path: &mut Path = &mut self.record.path;
                [
                    path.judged,
                    path.started,
                    path.encoded,
                    path.decoded,
                    path.assembled,
                    path.handed_over,
                ] = at;
            }
            Part::Work(nanos) => {
                let [read, resample, voice_activity, encode, decode, slowest_step] =
                    nanos.map(Duration::from_nanos);
                self.record.work = Work {
                    read,
                    resample,
                    voice_activity,
                    encode,
                    decode,
                    slowest_step,
                };
            }
            Part::Counts(counts) => self.record.counts = counts,
            Part::Word {
                captured,
                committed,
                handed_over,
            } => {
                if self.words.len() < WORDS {
                    self.words.push([captured, committed, handed_over]);
                }
            }
            Part::Asked {
                model,
                prompt_tokens,
                cached_tokens,
                prefill_chunks,
                tokens,
                context_tokens,
                finish,
                detokenise_ns,
            } => {
                self.asked = Some(model);
                self.reply = Reply {
                    prompt_tokens,
                    cached_tokens,
                    prefill_chunks,
                    tokens,
                    context_tokens,
                    finish,
                    detokenise: Duration::from_nanos(detokenise_ns),
                    ..self.reply
                };
            }
            Part::ReplyPath(at) => {
                let path: &mut ReplyPath = &mut self.reply.path;
                [
                    path.accepted,
                    path.prompted,
                    path.started,
                    path.prefilled,
                    path.first_token,
                    path.last_token,
                ] = at;
            }
            Part::Steps {
                count,
                micros,
                batch,
            } => {
                let [p50, p95, p99, slowest] =
                    micros.map(|micros| Duration::from_micros(u64::from(micros)));
                let steps = &mut self.reply.steps;
                *steps = Steps {
                    count,
                    p50,
                    p95,
                    p99,
                    slowest,
                    batch_p50: batch[0],
                    batch_max: batch[1],
                    slow: steps.slow,
                };
            }
            Part::SlowStep(slow) => {
                if let Some(place) = self.reply.steps.slow.get_mut(self.slow) {
                    *place = slow;
                    self.slow += 1;
                }
            }
        }
    }
}

/// The partials of an utterance.
#[derive(Debug, Default)]
pub(super) struct Partials {
    /// The first was handed over.
    pub first: Option<Stamp>,
    pub count: u32,
    /// Their latencies, as many as enter the statistics.
    pub micros: Vec<u32>,
}

impl Partials {
    /// One more, handed over so long after its last sample was captured.
    pub fn take(&mut self, handed_over: Stamp, latency: Duration) {
        self.first.get_or_insert(handed_over);
        self.count += 1;
        if self.micros.len() < PARTIALS {
            self.micros
                .push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
        }
    }
}
