//! What the stages tell the log: events of fixed size, without anything on the heap.
//!
//! A record is a run of events with one ticket, from `Heard` or `Asked` to `Done`, which says how many there were: where one
//! is missing, the record is lost as a whole and counted.

use firstword_audio::clock::{Samples, Stamp};

use super::read::WorkKind;
use crate::record::{Counts, Ending, Finish, Path, ReplyPath, SlowStep};

/// A stream that was announced to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamId(pub u32);

/// A loaded model that was announced to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModelId(pub u32);

/// One record on its way through the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// Which kind of step of a device it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Sound → states of the speech encoder.
    #[default]
    Encode,
    /// States → text, all calls of the decoder for one pass.
    Transcribe,
    /// A chunk of a prompt.
    Prefill,
    /// One token for every running reply.
    Decode,
}

impl Role {
    /// As the trace calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Transcribe => "transcribe",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// One thing that a stage tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Event {
    /// Nothing; what an unused place of the queue holds.
    #[default]
    None,
    /// A partial transcript was handed over.
    Partial {
        /// Of which stream.
        stream: StreamId,
        /// Of which utterance.
        utterance: u32,
        /// The last sample that it covers was captured.
        captured: Stamp,
        /// It was handed over.
        handed_over: Stamp,
    },
    /// A part of a record.
    Part(Ticket, Part),
    /// The record is complete.
    Done {
        /// Whose events.
        ticket: Ticket,
        /// What it is.
        kind: WorkKind,
        /// How many events it had, this one included.
        parts: u16,
        /// Words that are not told one by one.
        words_more: u32,
    },
    /// Trace: a step of the device, once for each of its members.
    Step {
        /// Which kind.
        role: Role,
        /// How many worked together in it.
        batch: u16,
        /// For whom; 0 for none.
        stream: StreamId,
        /// With which model.
        model: ModelId,
        /// It could have begun.
        due: Stamp,
        /// It began.
        start: Stamp,
        /// It was over.
        end: Stamp,
    },
    /// Trace: sound came in.
    Arrival {
        /// Whose.
        stream: StreamId,
        /// How many samples, at 16 kHz.
        samples: u32,
        /// When its last sample was captured.
        captured: Stamp,
        /// When it was received.
        received: Stamp,
    },
    /// A stream ended: nothing more comes of it.
    Closed(StreamId),
}

/// A part of a record of an utterance, a request or a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// A record of an utterance or a turn begins: who was heard.
    Heard {
        /// Which stream.
        stream: StreamId,
        /// Which speech model.
        model: ModelId,
        /// The utterance's number.
        utterance: u32,
        /// Its first sample.
        start: Samples,
        /// One past its last.
        end: Samples,
        /// Why it ended.
        ending: Ending,
    },
    /// First half of [`Path`]: up to `resampled`, with the first sample before.
    PathBegin([Stamp; 5]),
    /// The rest of it, from `judged` on.
    PathEnd([Stamp; 6]),
    /// The durations of [`crate::record::Work`] in its order, ns.
    Work([u64; 6]),
    /// What was done.
    Counts(Counts),
    /// A committed word.
    Word {
        /// The last sample that the hypothesis had heard was captured.
        captured: Stamp,
        /// The word was committed.
        committed: Stamp,
        /// It was handed over.
        handed_over: Stamp,
    },
    /// The reply's part of a record begins, or a record of a request.
    Asked {
        /// Which language model.
        model: ModelId,
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Of them, found in the cache.
        cached_tokens: u32,
        /// Steps of the rest.
        prefill_chunks: u32,
        /// Tokens of the reply.
        tokens: u32,
        /// Tokens in the cache at its end.
        context_tokens: u32,
        /// Why it ended.
        finish: Finish,
        /// Turning tokens into text, ns.
        detokenise_ns: u64,
    },
    /// The stamps of [`ReplyPath`], in its order.
    ReplyPath([Stamp; 6]),
    /// Order statistics of the decode steps, µs: median, P95, P99, slowest; and of their batches.
    Steps {
        /// How many there were.
        count: u32,
        /// P50, P95, P99, slowest, µs.
        micros: [u32; 4],
        /// Median and largest batch.
        batch: [u16; 2],
    },
    /// One of the slowest decode steps.
    SlowStep(SlowStep),
}

const _: () = assert!(
    size_of::<Event>() <= 64,
    "an event shall fit into a line of the cache"
);

impl Part {
    /// Both halves of a path.
    #[must_use]
    pub const fn path(path: &Path) -> [Self; 2] {
        [
            Self::PathBegin([
                path.first_captured,
                path.last_captured,
                path.end_captured,
                path.received,
                path.resampled,
            ]),
            Self::PathEnd([
                path.judged,
                path.started,
                path.encoded,
                path.decoded,
                path.assembled,
                path.handed_over,
            ]),
        ]
    }

    /// The stamps of a reply.
    #[must_use]
    pub const fn reply_path(path: &ReplyPath) -> Self {
        Self::ReplyPath([
            path.accepted,
            path.prompted,
            path.started,
            path.prefilled,
            path.first_token,
            path.last_token,
        ])
    }
}
