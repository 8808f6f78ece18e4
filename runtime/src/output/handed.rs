//! When each word was first shown: committed words of partials come before their final.

use std::collections::HashMap;

use firstword_audio::clock::Stamp;

use super::Stream;
use crate::speech::transcript::{Final, Partial};

/// The instants at which committed words of unfinished utterances were shown.
#[derive(Debug, Default)]
pub struct HandOver {
    shown: HashMap<(String, u32), Vec<Stamp>>,
}

impl HandOver {
    /// The committed words of this partial have been on show since `at`, unless they were before.
    pub fn partial(&mut self, stream: &Stream, partial: &Partial, at: Stamp) {
        let words = partial.committed.split_whitespace().count();
        let shown = self
            .shown
            .entry((stream.name.clone(), partial.utterance))
            .or_default();
        while shown.len() < words {
            shown.push(at);
        }
    }

    /// Fills in `handed_over` of all words: `at` for those that no partial has shown.
    pub fn finish(&mut self, stream: &Stream, result: &mut Final, at: Stamp) {
        let shown = self
            .shown
            .remove(&(stream.name.clone(), result.utterance))
            .unwrap_or_default();
        let earlier = shown.into_iter().map(Some).chain(std::iter::repeat(None));
        for (word, earlier) in result.words.iter_mut().zip(earlier) {
            word.handed_over = Some(earlier.unwrap_or(at));
        }
    }

    /// A stream begins anew: what is left of an earlier one of the same name is forgotten.
    pub fn forget(&mut self, stream: &Stream) {
        self.shown.retain(|(name, _), _| *name != stream.name);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{finished, partial, stream};
    use super::*;

    #[test]
    fn a_word_counts_from_the_partial_that_committed_it_and_from_no_later_one() {
        let stream = stream("a.wav");
        let mut handed = HandOver::default();
        handed.partial(
            &stream,
            &partial(0, "Ever", " tried"),
            Stamp::from_nanos(10),
        );
        handed.partial(
            &stream,
            &partial(0, "Ever tried.", " Fail"),
            Stamp::from_nanos(20),
        );
        let mut result = finished(0, "Ever tried. Ever failed.", 0, 16_000);
        handed.finish(&stream, &mut result, Stamp::from_nanos(30));
        let at: Vec<u64> = result
            .words
            .iter()
            .map(|w| w.handed_over.unwrap().as_nanos())
            .collect();
        assert_eq!(at, [10, 20, 30, 30]);
        assert!(
            handed.shown.is_empty(),
            "a finished utterance must leave nothing behind"
        );
    }
}
