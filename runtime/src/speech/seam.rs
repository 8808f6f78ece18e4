//! Joining the words of two utterances that were cut inside speech.
//!
//! The second utterance begins a little before the cut, so its first words are the last words of
//! the first one, heard again. The last word before the cut may be a fragment, and so may the first
//! one after it. The first utterance therefore holds its last word back; here the two word lists are
//! laid over each other where they match best, and the second one's version of the held word is
//! taken, because it was heard whole.

/// How many words the overlap of 0.6 s can hold at most.
const WORDS: usize = 6;
/// Fragments at the beginning of the second utterance that may be skipped.
const FRAGMENTS: usize = 2;

/// The end of an utterance that was cut inside speech.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seam {
    /// Its last words that were handed over, then the held one; at most [`WORDS`].
    tail: Vec<String>,
    /// The word that was not handed over.
    held: Option<String>,
}

/// How the next utterance goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// A word to put in front: the held one, where it was not heard again.
    pub first: Option<String>,
    /// How many words to leave out, because they were handed over already.
    pub skip: usize,
}

impl Seam {
    /// Takes the words of an utterance. `may_hold` says whether the last one may be held back
    /// (it may not once it was committed). Returns how many words are to be handed over now.
    pub fn cut(words: &[impl AsRef<str>], may_hold: bool) -> (Self, usize) {
        let tail = words[words.len().saturating_sub(WORDS)..]
            .iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        let held = words
            .last()
            .filter(|_| may_hold)
            .map(|word| word.as_ref().to_owned());
        let handed = words.len() - usize::from(held.is_some());
        (Self { tail, held }, handed)
    }

    /// Lays the next utterance's words over the end of this one.
    #[must_use]
    pub fn join(&self, words: &[impl AsRef<str>]) -> Join {
        // (words matched, fragments skipped): the longest match, then the fewest fragments.
        let best = (0..=FRAGMENTS.min(words.len()))
            .flat_map(|skipped| {
                (1..=self.tail.len().min(words.len() - skipped)).map(move |n| (n, skipped))
            })
            .filter(|&(n, skipped)| self.matches(&words[skipped..skipped + n]))
            .max_by_key(|&(n, skipped)| (n, std::cmp::Reverse(skipped)));
        match (best, &self.held) {
            (Some((n, skipped)), Some(_)) => Join {
                first: None,
                skip: skipped + n - 1,
            },
            (Some((n, skipped)), None) => Join {
                first: None,
                skip: skipped + n,
            },
            // The rest of the held word, heard as a word of its own.
            (None, Some(held))
                if words
                    .first()
                    .is_some_and(|word| is_ending(&bare(held), &bare(word.as_ref()))) =>
            {
                Join {
                    first: Some(held.clone()),
                    skip: 1,
                }
            }
            (None, held) => Join {
                first: held.clone(),
                skip: 0,
            },
        }
    }

    /// Whether the tail ends with these words. The last may be a fragment in the tail.
    fn matches(&self, words: &[impl AsRef<str>]) -> bool {
        let tail = &self.tail[self.tail.len() - words.len()..];
        let last = words.len() - 1;
        tail.iter().zip(words).enumerate().all(|(i, (old, new))| {
            let (old, new) = (bare(old), bare(new.as_ref()));
            old == new || (i == last && self.held.is_some() && is_beginning(&old, &new))
        })
    }
}

/// A word without case and punctuation.
fn bare(word: &str) -> String {
    word.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

fn is_beginning(fragment: &str, word: &str) -> bool {
    fragment.chars().count() >= 2 && word.starts_with(fragment)
}

fn is_ending(word: &str, fragment: &str) -> bool {
    fragment.chars().count() >= 2 && word.len() > fragment.len() && word.ends_with(fragment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands over what two utterances with these words give together.
    fn joined(first: &str, second: &str, may_hold: bool) -> String {
        let first: Vec<&str> = first.split_whitespace().collect();
        let second: Vec<&str> = second.split_whitespace().collect();
        let (seam, handed) = Seam::cut(&first, may_hold);
        let join = seam.join(&second);
        let mut words: Vec<&str> = first[..handed].to_vec();
        words.extend(join.first.as_deref());
        words.extend(&second[join.skip..]);
        words.join(" ")
    }

    #[test]
    fn words_heard_twice_are_printed_once() {
        for hold in [true, false] {
            assert_eq!(
                joined(
                    "we had everything before us",
                    "Before us, we had nothing",
                    hold
                ),
                if hold {
                    "we had everything before us, we had nothing"
                } else {
                    "we had everything before us we had nothing"
                }
            );
        }
    }

    #[test]
    fn a_word_cut_in_two_is_printed_whole() {
        assert_eq!(
            joined("we had every", "had everything before us", true),
            "we had everything before us"
        );
        assert_eq!(
            joined("we had every", "everything before us", true),
            "we had everything before us"
        );
    }

    #[test]
    fn a_fragment_before_the_overlap_is_left_out() {
        assert_eq!(
            joined(
                "the epoch of incredulity it",
                "Dulity, it was the season",
                true
            ),
            "the epoch of incredulity it was the season"
        );
    }

    #[test]
    fn the_rest_of_a_held_word_is_not_a_word() {
        assert_eq!(
            joined("it was the wisdom", "dom it was", true),
            "it was the wisdom it was"
        );
    }

    #[test]
    fn nothing_in_common_loses_nothing() {
        assert_eq!(
            joined("one two three", "four five", true),
            "one two three four five"
        );
        assert_eq!(joined("one two three", "", true), "one two three");
        assert_eq!(joined("", "four five", true), "four five");
    }

    #[test]
    fn a_phrase_that_comes_again_later_is_kept() {
        // Only the beginning of the second utterance is compared with the end of the first.
        assert_eq!(
            joined(
                "it was the age of wisdom it was",
                "it was the age of foolishness it was the",
                true
            ),
            "it was the age of wisdom it was the age of foolishness it was the"
        );
    }
}
