//! One stream of sound: its voice activity, its open utterance, its partial and final results.
//!
//! A stream owns all of its state, so streams that share a [`Recogniser`] do not influence each
//! other, in whatever order they are fed. In [`Mode::File`] the result depends on the samples alone,
//! not on the sizes of the blocks in which they come.

use std::time::Duration;

use firstword_audio::clock::{Samples, Stamp};
use firstword_models::speech::silero::FRAME;
use firstword_models::speech::{Draft, SpeechError, Voice};

use super::agreement::Agreement;
use super::endpoint::{Change, Endpoint};
use super::recogniser::{For, Pass, Recogniser, Settings};
use super::seam::{Join, Seam};
use super::timeline::{Arrival, Timeline};
use super::transcript::{Event, Final, Partial, Word};
use crate::log::StreamId;
use crate::record::{Ending, Path, Record, SCHEMA, Work};

/// What happens to a partial that is due while newer sound is waiting already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every partial that falls due is made: nobody waits, and the same file gives the same text.
    File,
    /// Only the newest is made: a slow device skips partials and does not fall behind.
    Live,
}

/// Sound that arrived together.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// f32, 16 kHz mono, −1…1.
    pub samples: &'a [f32],
    /// When its last sample came.
    pub arrival: Arrival,
    /// Time spent on reading it (or on capturing).
    pub read: Duration,
    /// Time spent on resampling it.
    pub resample: Duration,
}

/// The state of one stream.
#[derive(Debug)]
pub struct Stream {
    name: String,
    /// Its number in the log.
    id: StreamId,
    settings: Settings,
    mode: Mode,
    voice: Voice,
    endpoint: Endpoint,
    timeline: Timeline,
    /// Samples from `audio_start` on: all that an open utterance or a pre-roll may still want.
    audio: Vec<f32>,
    audio_start: Samples,
    /// Up to here voice activity has looked.
    judged: Samples,
    probabilities: Vec<f32>,
    open: Option<Utterance>,
    next: u32,
    seam: Option<Seam>,
    /// Reading, resampling and voice activity since the last utterance ended.
    spent: Work,
    samples_lost: u64,
}

/// An utterance that has begun and not ended.
#[derive(Debug)]
struct Utterance {
    start: Samples,
    record: Record,
    agreement: Agreement,
    /// Words that were committed, as they are shown.
    words: Vec<Word>,
    /// How the words go on from those before a cut inside speech; fixed at the first commit.
    join: Option<Join>,
    /// The last pass: up to which sample it heard, and its stamps.
    last: Option<(Samples, Path)>,
    shown: Option<(String, String)>,
}

impl Stream {
    /// A stream that begins at sample 0.
    #[must_use]
    pub fn new(name: &str, settings: Settings, mode: Mode) -> Self {
        Self {
            name: name.to_owned(),
            id: StreamId::default(),
            settings,
            mode,
            voice: Voice::default(),
            endpoint: Endpoint::new(settings.endpoint),
            timeline: Timeline::default(),
            audio: Vec::new(),
            audio_start: Samples(0),
            judged: Samples(0),
            probabilities: Vec::new(),
            open: None,
            next: 0,
            seam: None,
            spent: Work::default(),
            samples_lost: 0,
        }
    }

    /// The log knows it by this number.
    #[must_use]
    pub const fn known_as(mut self, id: StreamId) -> Self {
        self.id = id;
        self
    }

    /// One past the last sample that has come.
    #[must_use]
    pub fn position(&self) -> Samples {
        self.audio_start + Samples(self.audio.len() as u64)
    }

    /// How many samples are kept: bounded by the longest utterance and a block.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.audio.len()
    }

    /// A live source has lost so many samples before the next block.
    pub fn lost(&mut self, samples: u64) {
        self.samples_lost += samples;
    }

    /// Takes a block and appends what became of it to `events`.
    ///
    /// # Errors
    ///
    /// [`SpeechError`] if a model fails. The stream can't go on after that.
    pub fn push(
        &mut self,
        recogniser: &mut Recogniser,
        block: Block<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), SpeechError> {
        self.audio.extend_from_slice(block.samples);
        self.timeline.push(self.position(), block.arrival);
        recogniser.recorder.arrival(
            self.id,
            block.samples.len(),
            block.arrival.captured,
            block.arrival.received,
        );
        self.spent.read += block.read;
        self.spent.resample += block.resample;
        self.judge(recogniser, events)?;
        self.forget();
        Ok(())
    }

    /// The sound is over: the last words come out.
    ///
    /// # Errors
    ///
    /// [`SpeechError`] if a model fails.
    pub fn finish(
        &mut self,
        recogniser: &mut Recogniser,
        events: &mut Vec<Event>,
    ) -> Result<(), SpeechError> {
        let sound_end = self.position();
        let rest = (sound_end - self.judged).0 as usize % FRAME;
        if rest > 0 {
            // Voice activity judges whole frames only. A partial of it would come with the final.
            self.audio.resize(self.audio.len() + FRAME - rest, 0.0);
            self.settings.partials = None;
            self.judge(recogniser, events)?;
        }
        if let Some(Change::End {
            end,
            speech_end,
            ending,
        }) = self.endpoint.finish()
        {
            self.end(
                recogniser,
                end.min(sound_end),
                speech_end.min(sound_end),
                ending,
                events,
            )?;
        }
        Ok(())
    }

    /// Runs voice activity over the whole frames that are new, and acts on each.
    fn judge(
        &mut self,
        recogniser: &mut Recogniser,
        events: &mut Vec<Event>,
    ) -> Result<(), SpeechError> {
        let from = (self.judged - self.audio_start).0 as usize;
        let before = Stamp::now();
        self.probabilities.clear();
        recogniser.silero.probabilities(
            &mut self.voice,
            &self.audio[from..],
            &mut self.probabilities,
        )?;
        self.spent.voice_activity += Stamp::now().since(before);
        let frames = self.probabilities.len();
        for i in 0..frames {
            let frame = &self.audio[from + i * FRAME..][..FRAME];
            let energy = frame.iter().map(|s| s * s).sum::<f32>() / FRAME as f32;
            self.judged = self.judged + Samples(FRAME as u64);
            match self.endpoint.frame(self.probabilities[i], energy) {
                Some(Change::Begin { start }) => self.begin(recogniser, start),
                Some(Change::End {
                    end,
                    speech_end,
                    ending,
                }) => self.end(recogniser, end, speech_end, ending, events)?,
                None => {}
            }
            if self.mode == Mode::File || i + 1 == frames {
                self.partial(recogniser, events)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, recogniser: &Recogniser, start: Samples) {
        let record = Record {
            schema: SCHEMA,
            kind: "utterance",
            stream: self.name.clone(),
            utterance: self.next,
            start,
            model: recogniser.names.model.clone(),
            decoder: recogniser.names.decoder.clone(),
            target: recogniser.names.target.clone(),
            onnxruntime: recogniser.names.onnxruntime.clone(),
            path: Path {
                first_captured: self.timeline.arrival(start).captured,
                ..Path::default()
            },
            ..Record::default()
        };
        self.next += 1;
        self.open = Some(Utterance {
            start,
            record,
            agreement: Agreement::default(),
            words: Vec::new(),
            join: None,
            last: None,
            shown: None,
        });
    }

    /// Makes a partial if one is due.
    fn partial(
        &mut self,
        recogniser: &mut Recogniser,
        events: &mut Vec<Event>,
    ) -> Result<(), SpeechError> {
        let (Some(interval), Some((_, speech_end))) =
            (self.settings.partials, self.endpoint.speech())
        else {
            return Ok(());
        };
        let Some(open) = &self.open else {
            return Ok(());
        };
        // In a pause one pass hears all that the final one would: if the pause proves to be the
        // end, its result is the final one, and nothing is left to wait for.
        let settled = speech_end + self.settings.endpoint.post_roll;
        let heard = open.last.map_or(open.start, |(heard, _)| heard);
        let speaking = speech_end == self.judged;
        let covered = if speaking && self.judged >= heard + interval {
            self.judged
        } else if !speaking && self.judged >= settled && heard < settled {
            settled
        } else {
            return Ok(());
        };
        self.listen(recogniser, covered)?;
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let partial = open.show(recogniser, self.seam.as_ref(), covered, &self.timeline);
        if partial.committed.is_empty() && partial.tentative.is_empty() {
            return Ok(());
        }
        let text = (partial.committed.clone(), partial.tentative.clone());
        if open.shown.as_ref() != Some(&text) {
            open.shown = Some(text);
            events.push(Event::Partial(partial));
        }
        Ok(())
    }

    /// One pass over the open utterance up to `covered`.
    fn listen(&mut self, recogniser: &mut Recogniser, covered: Samples) -> Result<(), SpeechError> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let range =
            (open.start - self.audio_start).0 as usize..(covered - self.audio_start).0 as usize;
        let whom = For {
            stream: self.id,
            due: self
                .timeline
                .arrival(covered.saturating_sub(Samples(1)))
                .resampled,
        };
        let draft = Draft {
            tokens: open.agreement.previous(),
            forced: open.agreement.committed(),
        };
        let Pass {
            hypothesis,
            started,
            encoded,
            decoded,
        } = recogniser.pass(&self.audio[range], draft, whom, &mut open.record)?;
        open.record.counts.tokens = hypothesis.tokens.len() as u32;
        open.record.counts.cut_short = hypothesis.cut_short;
        let tokenizer = recogniser.moonshine.tokenizer();
        open.agreement
            .agree(hypothesis.tokens, |token| tokenizer.starts_word(token));
        open.last = Some((
            covered,
            Path {
                started,
                encoded,
                decoded,
                ..Path::default()
            },
        ));
        Ok(())
    }

    /// Ends the open utterance at `end`.
    fn end(
        &mut self,
        recogniser: &mut Recogniser,
        end: Samples,
        speech_end: Samples,
        ending: Ending,
        events: &mut Vec<Event>,
    ) -> Result<(), SpeechError> {
        let judged = Stamp::now();
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.last.is_none_or(|(heard, _)| heard != end))
        {
            self.listen(recogniser, end)?;
        }
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let seam_before = self.seam.take();
        let handed = open.conclude(recogniser, seam_before.as_ref(), end, &self.timeline);
        let held = (ending == Ending::Length).then(|| {
            let (seam, handed_now) = Seam::cut(
                &open.words.iter().map(|w| &w.text).collect::<Vec<_>>(),
                open.words.len() > handed,
            );
            open.words.truncate(handed_now);
            seam
        });
        self.seam = held;

        let last = (speech_end.max(open.start + Samples(1))) - Samples(1);
        let certain = self.timeline.arrival(self.judged - Samples(1));
        let record = &mut open.record;
        let spent = std::mem::take(&mut self.spent);
        record.work.read = spent.read;
        record.work.resample = spent.resample;
        record.work.voice_activity = spent.voice_activity;
        record.counts.samples_lost = self.samples_lost;
        self.samples_lost = 0;
        record.end = end;
        record.ending = ending;
        let pass = open.last.map_or_else(Path::default, |(_, path)| path);
        record.path = Path {
            last_captured: self.timeline.arrival(last).captured,
            end_captured: certain.captured,
            received: certain.received,
            resampled: certain.resampled,
            judged,
            assembled: Stamp::now(),
            ..record.path
        };
        // A pass that was over before the end was certain cost the reader no time.
        if pass.started >= judged {
            record.path.started = pass.started;
            record.path.encoded = pass.encoded;
            record.path.decoded = pass.decoded;
        }
        let text = open
            .words
            .iter()
            .map(|word| word.text.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        events.push(Event::Final(Box::new(Final {
            utterance: open.record.utterance,
            text,
            start: open.start,
            end,
            words: open.words,
            record: open.record,
        })));
        Ok(())
    }

    /// Drops what no later utterance can want.
    fn forget(&mut self) {
        let needed = match &self.open {
            Some(open) => open.start.min(self.endpoint.needed_from()),
            None => self.endpoint.needed_from(),
        };
        let surplus = needed.saturating_sub(self.audio_start).0 as usize;
        // Moving the rest to the front costs something: not for a few samples.
        if surplus >= 8000 && surplus <= self.audio.len() {
            self.audio.drain(..surplus);
            self.audio_start = needed;
            self.timeline.forget(needed);
        }
    }
}

impl Utterance {
    /// The words of the last hypothesis, and how many of them are committed.
    fn hypothesis_words(&self, recogniser: &Recogniser) -> (Vec<String>, usize) {
        let tokenizer = recogniser.moonshine.tokenizer();
        let split = |tokens: &[u32]| {
            tokenizer
                .text(tokens)
                .split_whitespace()
                // The decoder sometimes says a comma twice ("In short,, the period").
                .map(|word| word.replace(",,", ","))
                .collect::<Vec<_>>()
        };
        let tokens = self.agreement.previous();
        let committed = split(&tokens[..self.agreement.committed()]).len();
        (split(tokens), committed)
    }

    /// Lays the words behind those before the seam. Fixed once something of it is committed.
    fn joined(
        &mut self,
        seam: Option<&Seam>,
        words: Vec<String>,
        committed: usize,
    ) -> (Vec<String>, usize) {
        let join = match (&self.join, seam) {
            (Some(join), _) => join.clone(),
            (None, Some(seam)) => seam.join(&words),
            (None, None) => Join {
                first: None,
                skip: 0,
            },
        };
        let skip = join.skip.min(words.len());
        let shown_committed = committed.saturating_sub(skip);
        let first = join.first.clone();
        let ahead = usize::from(first.is_some() && shown_committed > 0);
        if shown_committed > 0 {
            self.join = Some(join);
        }
        (
            first
                .into_iter()
                .chain(words.into_iter().skip(skip))
                .collect(),
            shown_committed + ahead,
        )
    }

    /// Commits what is certain and returns the partial.
    fn show(
        &mut self,
        recogniser: &Recogniser,
        seam: Option<&Seam>,
        covered: Samples,
        timeline: &Timeline,
    ) -> Partial {
        let (words, committed) = self.hypothesis_words(recogniser);
        let (words, committed) = self.joined(seam, words, committed);
        self.commit(&words[..committed.min(words.len())], covered, timeline);
        let committed: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        let mut tentative = words[committed.len().min(words.len())..].join(" ");
        if !committed.is_empty() && !tentative.is_empty() {
            tentative.insert(0, ' ');
        }
        Partial {
            utterance: self.record.utterance,
            start: self.start,
            covered,
            captured: timeline
                .arrival(covered.saturating_sub(Samples(1)))
                .captured,
            committed: committed.join(" "),
            tentative,
        }
    }

    /// Commits all words; returns how many were committed before.
    fn conclude(
        &mut self,
        recogniser: &Recogniser,
        seam: Option<&Seam>,
        covered: Samples,
        timeline: &Timeline,
    ) -> usize {
        let before = self.words.len();
        let (words, committed) = self.hypothesis_words(recogniser);
        let (words, _) = self.joined(seam, words, committed);
        self.commit(&words, covered, timeline);
        before
    }

    fn commit(&mut self, words: &[String], covered: Samples, timeline: &Timeline) {
        let captured = timeline
            .arrival(covered.saturating_sub(Samples(1)))
            .captured;
        let committed = Stamp::now();
        for text in words.iter().skip(self.words.len()) {
            self.words.push(Word {
                text: text.clone(),
                covered,
                captured,
                committed,
                handed_over: None,
            });
        }
    }
}
