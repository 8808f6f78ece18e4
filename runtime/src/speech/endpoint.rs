//! Where does an utterance begin and end? A pure state machine over the speech probabilities of
//! 32 ms frames.
//!
//! An utterance ends at a pause. How long a pause must be depends on how long the utterance has
//! grown: `pause` as long as it is short, less and less from half of the longest utterance on, one
//! frame of quiet near its end. So a long utterance is cut at the first good pause, and a cut never
//! lies in the past. Only speech without any pause reaches the longest utterance; it is cut at its
//! weakest point of the last seconds, and the next utterance begins a little before that, so that
//! the words at the seam can be compared.

use std::collections::VecDeque;

use firstword_audio::clock::Samples;
use firstword_models::speech::silero::FRAME;

use crate::record::Ending;

/// What decides over begin and end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Probability from which a frame is speech (0…1). Silence begins 0.15 below, as in Silero's
    /// own utilities, so that a voice that hovers at the threshold is not cut.
    pub threshold: f32,
    /// Silence that ends a short utterance.
    pub pause: Samples,
    /// Sound kept before the first frame of speech.
    pub pre_roll: Samples,
    /// Sound kept after the last frame of speech.
    pub post_roll: Samples,
    /// The longest utterance, pre-roll and post-roll included.
    pub longest: Samples,
}

/// Less speech than this (in frames) is a click or a chime.
const SHORTEST_SPEECH: u32 = 3;
/// How far the probability must fall below the threshold to count as silence.
const HYSTERESIS: f32 = 0.15;
/// The shortest pause at which a long utterance is cut.
const SHORTEST_PAUSE: Samples = Samples(3 * FRAME as u64);
/// How far back from the longest utterance the weakest point is looked for.
const SEARCH: Samples = Samples(2 * 16_000);
/// How much of the sound before a cut inside speech the next utterance hears again.
pub const OVERLAP: Samples = Samples(10_000);

/// What a frame changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An utterance has begun.
    Begin {
        /// Its first sample, pre-roll included.
        start: Samples,
    },
    /// The utterance is over.
    End {
        /// One past its last sample, post-roll included.
        end: Samples,
        /// One past the last sample of the speech itself.
        speech_end: Samples,
        /// Why.
        ending: Ending,
    },
}

#[derive(Clone, Copy, Debug)]
struct Open {
    start: Samples,
    /// One past the last frame of speech.
    speech_end: Samples,
    speech_frames: u32,
    announced: bool,
}

/// The state of one stream.
#[derive(Clone, Debug)]
pub struct Endpoint {
    settings: Settings,
    /// One past the last frame seen.
    now: Samples,
    /// An utterance does not begin before the end of the previous one.
    floor: Samples,
    open: Option<Open>,
    /// (start of frame, probability, energy) of the last [`SEARCH`].
    recent: VecDeque<(Samples, f32, f32)>,
    /// Set by a cut inside speech: the next frame goes on with a new utterance from here.
    resume: Option<Samples>,
}

impl Endpoint {
    /// A stream that begins at sample 0.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: Samples(0),
            floor: Samples(0),
            open: None,
            recent: VecDeque::new(),
            resume: None,
        }
    }

    /// The next frame: its speech probability and its energy (mean square).
    pub fn frame(&mut self, probability: f32, energy: f32) -> Option<Change> {
        let frame_start = self.now;
        self.now = frame_start + Samples(FRAME as u64);
        self.recent.push_back((frame_start, probability, energy));
        while self
            .recent
            .front()
            .is_some_and(|(start, ..)| *start + SEARCH < self.now)
        {
            self.recent.pop_front();
        }
        if let Some(start) = self.resume.take() {
            self.open = Some(Open {
                start,
                speech_end: self.now,
                speech_frames: SHORTEST_SPEECH,
                announced: true,
            });
            return Some(Change::Begin { start });
        }
        if probability >= self.settings.threshold {
            let open = self.open.get_or_insert(Open {
                start: frame_start
                    .saturating_sub(self.settings.pre_roll)
                    .max(self.floor),
                speech_end: self.now,
                speech_frames: 0,
                announced: false,
            });
            open.speech_end = self.now;
            open.speech_frames += 1;
            if open.speech_frames >= SHORTEST_SPEECH && !open.announced {
                open.announced = true;
                return Some(Change::Begin { start: open.start });
            }
        }
        let open = self.open?;
        let silence = self.now.saturating_sub(open.speech_end);
        let length = self.now.saturating_sub(open.start);
        let pause = self.pause_for(length);
        // A probability that hovers between speech and silence ends an utterance too, later.
        let quiet = probability < self.settings.threshold - HYSTERESIS;
        if silence >= pause && (quiet || silence >= pause + pause) {
            return self.close(open, Ending::Pause);
        }
        if length + Samples(FRAME as u64) > self.settings.longest {
            return self.cut(open);
        }
        None
    }

    /// The sound is over.
    pub fn finish(&mut self) -> Option<Change> {
        let open = self.open?;
        self.close(open, Ending::EndOfSound)
    }

    /// While an utterance is open: its first sample and the end of its speech so far.
    #[must_use]
    pub fn speech(&self) -> Option<(Samples, Samples)> {
        self.open
            .filter(|open| open.announced)
            .map(|open| (open.start, open.speech_end))
    }

    /// The earliest sample that a later utterance could still want.
    #[must_use]
    pub fn needed_from(&self) -> Samples {
        let earliest = self
            .now
            .saturating_sub(self.settings.pre_roll)
            .max(self.floor);
        let open = self.open.map_or(earliest, |open| open.start);
        self.resume.map_or(open, |resume| resume.min(open))
    }

    /// How much silence ends an utterance of this length.
    fn pause_for(&self, length: Samples) -> Samples {
        let Samples(longest) = self.settings.longest;
        let (full_until, short_from) = (longest / 2, longest * 9 / 10);
        let Samples(full) = self.settings.pause;
        let short = SHORTEST_PAUSE.0.min(full);
        let Samples(length) = length;
        Samples(if length <= full_until {
            full
        } else if length >= short_from {
            short
        } else {
            full - (full - short) * (length - full_until) / (short_from - full_until)
        })
    }

    fn close(&mut self, open: Open, ending: Ending) -> Option<Change> {
        self.open = None;
        let end = (open.speech_end + self.settings.post_roll)
            .min(self.now)
            .min(open.start + self.settings.longest);
        self.floor = open.speech_end;
        // A click: nobody was told of a beginning, nobody is told of an end.
        open.announced.then_some(Change::End {
            end,
            speech_end: open.speech_end,
            ending,
        })
    }

    /// Cuts inside speech, at the quietest frame of the last seconds.
    fn cut(&mut self, open: Open) -> Option<Change> {
        let weakest = self
            .recent
            .iter()
            .filter(|(start, ..)| *start > open.start + OVERLAP)
            .min_by(|a, b| {
                (a.1 >= self.settings.threshold, a.2)
                    .partial_cmp(&(b.1 >= self.settings.threshold, b.2))
                    .unwrap_or(std::cmp::Ordering::Equal)
            })
            .map_or(self.now, |(start, ..)| *start + Samples(FRAME as u64 / 2));
        self.open = None;
        if !open.announced {
            self.floor = self.now;
            return None;
        }
        self.floor = weakest.saturating_sub(OVERLAP);
        self.resume = Some(self.floor);
        Some(Change::End {
            end: weakest,
            speech_end: weakest,
            ending: Ending::Length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const F: u64 = FRAME as u64;

    fn settings() -> Settings {
        Settings {
            threshold: 0.5,
            pause: Samples(8000),
            pre_roll: Samples(3200),
            post_roll: Samples(1600),
            longest: Samples(15 * 16_000),
        }
    }

    /// Runs frames of (count, probability) and collects the changes with the frame's number.
    fn run(endpoint: &mut Endpoint, frames: &[(usize, f32)]) -> Vec<Change> {
        let mut changes = Vec::new();
        for &(count, probability) in frames {
            for _ in 0..count {
                changes.extend(endpoint.frame(probability, probability));
            }
        }
        changes
    }

    #[test]
    fn a_word_between_silences_is_one_utterance_with_its_pre_roll() {
        let mut endpoint = Endpoint::new(settings());
        let changes = run(&mut endpoint, &[(20, 0.0), (10, 0.9), (40, 0.0)]);
        assert_eq!(
            changes,
            [
                Change::Begin {
                    start: Samples(20 * F - 3200)
                },
                Change::End {
                    end: Samples(30 * F + 1600),
                    speech_end: Samples(30 * F),
                    ending: Ending::Pause
                },
            ]
        );
    }

    #[test]
    fn a_click_is_no_utterance() {
        let mut endpoint = Endpoint::new(settings());
        assert_eq!(run(&mut endpoint, &[(20, 0.0), (2, 0.9), (40, 0.0)]), []);
        assert_eq!(endpoint.finish(), None);
    }

    #[test]
    fn the_end_of_the_sound_ends_the_utterance_with_its_last_frame() {
        let mut endpoint = Endpoint::new(settings());
        run(&mut endpoint, &[(5, 0.0), (10, 0.9)]);
        assert_eq!(
            endpoint.finish(),
            Some(Change::End {
                end: Samples(15 * F),
                speech_end: Samples(15 * F),
                ending: Ending::EndOfSound
            })
        );
    }

    #[test]
    fn a_short_pause_ends_a_long_utterance_but_not_a_short_one() {
        let speech_then_pause = |speech| {
            let mut endpoint = Endpoint::new(settings());
            run(&mut endpoint, &[(speech, 0.9), (5, 0.0)]).len()
        };
        // 2 s and 14 s of speech; the pause lasts 160 ms.
        assert_eq!(speech_then_pause(63), 1);
        assert_eq!(speech_then_pause(437), 2);
    }

    #[test]
    fn speech_without_a_pause_is_cut_at_its_quietest_frame_and_heard_on_from_before() {
        let mut endpoint = Endpoint::new(settings());
        let mut changes = Vec::new();
        for i in 0..600_u64 {
            // Frame 440 (14.08 s) is the quietest of the last two seconds before 15 s.
            let energy = if i == 440 { 0.1 } else { 0.5 };
            changes.extend(endpoint.frame(0.9, energy));
        }
        let cut = 440 * F + F / 2;
        assert_eq!(
            changes[1..],
            [
                Change::End {
                    end: Samples(cut),
                    speech_end: Samples(cut),
                    ending: Ending::Length
                },
                Change::Begin {
                    start: Samples(cut) - OVERLAP
                },
            ]
        );
    }

    proptest! {
        #[test]
        fn utterances_are_in_order_bounded_and_begin_before_they_end(
            frames in proptest::collection::vec((0.0f32..1.0, 0.0f32..1.0), 0..3000),
            pause in 1u64..40_000, longest in 48_000u64..480_000,
        ) {
            let settings = Settings { pause: Samples(pause), longest: Samples(longest), ..settings() };
            let mut endpoint = Endpoint::new(settings);
            let mut changes = Vec::new();
            for (probability, energy) in frames {
                let needed = endpoint.needed_from();
                let change = endpoint.frame(probability, energy);
                if let Some(Change::Begin { start }) = change {
                    prop_assert!(start >= needed, "{start} was thrown away before {needed}");
                }
                changes.extend(change);
            }
            changes.extend(endpoint.finish());
            let mut previous_end = Samples(0);
            for pair in changes.chunks(2) {
                let [Change::Begin { start }, Change::End { end, .. }] = pair else {
                    return Err(TestCaseError::fail(format!("{pair:?}")));
                };
                prop_assert!(start < end && *end - *start <= settings.longest);
                prop_assert!(*start + OVERLAP >= previous_end);
                previous_end = *end;
            }
        }
    }
}
