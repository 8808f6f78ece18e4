//! Greedy decoding's rules: what a draft is, when a transcript is over, and when it runs in a loop.
//! Pure logic over token numbers; the network is in [`super::moonshine`].

/// Tokens to begin from: the previous hypothesis of the same utterance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Draft<'a> {
    /// The tokens, without begin and end.
    pub tokens: &'a [u32],
    /// How many of them are kept whatever the network says: what was already committed. They end with a
    /// whole word, so the token after them begins one, or is the end.
    pub forced: usize,
}

/// What the decoder made of an utterance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hypothesis {
    /// The tokens, without begin and end.
    pub tokens: Vec<u32>,
    /// How many of the draft's tokens were kept.
    pub kept: usize,
    /// Calls of the decoder, the one that checks the draft included.
    pub steps: u32,
    /// Tokens thrown away because they repeated what stood before them.
    pub looped: u32,
    /// The end was not reached within the limit.
    pub cut_short: bool,
}

/// Bounds on the length of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens at most.
    pub tokens: usize,
}

impl Limits {
    /// The bound for an utterance of `samples` (16 kHz): 6.5 tokens per second, which is what
    /// Moonshine's authors recommend against invented text (Hugging Face's model card), and eight more, so
    /// that short words are not cut.
    #[must_use]
    pub fn for_audio(samples: usize) -> Self {
        Self {
            tokens: samples * 13 / (2 * 16_000) + 8,
        }
    }
}

/// The longest repeated group that is looked for, in tokens.
const LONGEST_GROUP: usize = 24;
/// A group repeated so often, over so many tokens, is a loop and not speech: nobody says more than
/// this in the time it takes the decoder to be sure.
const LOOP_TIMES: usize = 4;
const LOOP_TOKENS: usize = 24;

/// A group of tokens that the end of a transcript repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// Tokens in the group.
    pub group: usize,
    /// How many times it stands there, one after another.
    pub times: usize,
}

impl Repetition {
    /// The repetition at the end of `tokens` that covers most of them, if a group stands there at
    /// least twice.
    #[must_use]
    pub fn at_end(tokens: &[u32]) -> Option<Self> {
        (1..=LONGEST_GROUP.min(tokens.len() / 2))
            .map(|group| {
                let last = &tokens[tokens.len() - group..];
                let times = tokens
                    .rchunks_exact(group)
                    .take_while(|chunk| *chunk == last)
                    .count();
                Self { group, times }
            })
            .filter(|repetition| repetition.times > 1)
            // On equal cover the shortest group describes it.
            .max_by_key(|r| (r.group * r.times, std::cmp::Reverse(r.group)))
    }

    /// Whether this is a loop even though the transcript could still go on.
    #[must_use]
    pub fn is_loop(self) -> bool {
        self.times >= LOOP_TIMES && self.group * self.times >= LOOP_TOKENS
    }

    /// Tokens to take away so that the group stands once.
    #[must_use]
    pub fn surplus(self) -> usize {
        self.group * (self.times - 1)
    }
}

/// Cuts a loop from the end of `tokens`, but nothing of the first `keep`; returns how many tokens went.
/// `over` says that the limit was reached: then a group repeated three times is enough.
pub(crate) fn cut_loop(tokens: &mut Vec<u32>, keep: usize, over: bool) -> u32 {
    let Some(repetition) = Repetition::at_end(tokens) else {
        return 0;
    };
    if !(repetition.is_loop() || over && repetition.times >= 3) {
        return 0;
    }
    let length = (tokens.len() - repetition.surplus()).max(keep);
    let cut = tokens.len() - length;
    tokens.truncate(length);
    cut as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chorus_is_not_a_loop_but_a_stuck_decoder_is() {
        // "no no no no" said four times is speech.
        assert!(!Repetition::at_end(&[9, 5, 5, 5, 5]).unwrap().is_loop());
        let stuck: Vec<u32> = [1, 2, 3].iter().copied().cycle().take(30).collect();
        assert_eq!(
            Repetition::at_end(&stuck),
            Some(Repetition {
                group: 3,
                times: 10
            })
        );
        assert!(Repetition::at_end(&stuck).unwrap().is_loop());
    }

    #[test]
    fn the_first_of_the_repeated_words_stays() {
        let mut tokens = vec![7, 8];
        tokens.extend([1, 2, 3, 4, 5, 6].iter().cycle().take(24));
        assert_eq!(cut_loop(&mut tokens, 0, false), 18);
        assert_eq!(tokens, [7, 8, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_committed_word_is_not_cut() {
        let mut tokens: Vec<u32> = std::iter::repeat_n(4, 30).collect();
        assert_eq!(cut_loop(&mut tokens, 12, false), 18);
        assert_eq!(tokens.len(), 12);
    }

    #[test]
    fn at_the_limit_three_times_is_enough() {
        let mut tokens = vec![7, 1, 2, 1, 2, 1, 2];
        assert_eq!(cut_loop(&mut tokens.clone(), 0, false), 0);
        assert_eq!(cut_loop(&mut tokens, 0, true), 4);
        assert_eq!(tokens, [7, 1, 2]);
    }

    #[test]
    fn nothing_repeats_in_nothing() {
        assert_eq!(Repetition::at_end(&[]), None);
        assert_eq!(Repetition::at_end(&[1]), None);
        assert_eq!(Repetition::at_end(&[1, 2]), None);
    }

    #[test]
    fn ten_seconds_may_hold_seventy_three_tokens() {
        // 6.5 per second, and 8.
        assert_eq!(Limits::for_audio(160_000).tokens, 73);
    }
}
