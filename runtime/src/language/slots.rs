//! Whose cache holds the beginning of this prompt already? A finished reply leaves its tokens in its slot.
//!
//! A new prompt goes on in the slot with the longest common prefix, if that slot is free and would lose no more tokens
//! than it saves: a conversation's next turn. Otherwise the common prefix is copied from wherever it is, a running
//! reply included, into an unused slot, or into the one that was not used for the longest time: a shared system prompt.

/// What is known about a slot of the model.
#[derive(Clone, Debug)]
pub struct Held<S> {
    /// The slot.
    pub slot: S,
    /// The tokens whose keys and values it holds.
    pub tokens: Vec<u32>,
    /// Whether a request works in it.
    pub busy: bool,
    /// When it was last given back: a count, the higher the later.
    pub used: u64,
}

/// Where a prompt begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the slot to work in.
    pub target: usize,
    /// Index of the slot to copy the prefix from, if it is another one.
    pub source: Option<usize>,
    /// Tokens that need no prefill.
    pub reused: usize,
}

/// Finds a place for a prompt, or none if every slot is busy. At least the prompt's last token is left to prefill: its
/// logits are wanted. `usable` says whether what a slot holds can be part of this prompt at all.
pub fn place<S>(
    slots: &[Held<S>],
    prompt: &[u32],
    usable: impl Fn(&Held<S>) -> bool,
) -> Option<Place> {
    let most = prompt.len().saturating_sub(1);
    let common: Vec<usize> = slots
        .iter()
        .map(|held| {
            let same = held
                .tokens
                .iter()
                .zip(prompt)
                .take_while(|(a, b)| a == b)
                .count();
            if same > 0 && usable(held) {
                same.min(most)
            } else {
                0
            }
        })
        .collect();
    // The longest common prefix; of equals a free slot, then the one with the least to lose, then the latest used.
    let best = (0..slots.len()).max_by_key(|&i| {
        let held = &slots[i];
        (
            common[i],
            !held.busy,
            std::cmp::Reverse(held.tokens.len()),
            held.used,
        )
    })?;
    let lost = slots[best].tokens.len() - common[best];
    if !slots[best].busy && common[best] > 0 && lost <= common[best] {
        return Some(Place {
            target: best,
            source: None,
            reused: common[best],
        });
    }
    let target = (0..slots.len())
        .filter(|&i| !slots[i].busy)
        .min_by_key(|&i| (!slots[i].tokens.is_empty(), slots[i].used))?;
    Some(Place {
        target,
        source: (target != best && common[best] > common[target]).then_some(best),
        reused: common[best],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(tokens: &[u32], busy: bool, used: u64) -> Held<u8> {
        Held {
            slot: 0,
            tokens: tokens.to_vec(),
            busy,
            used,
        }
    }

    fn found(slots: &[Held<u8>], prompt: &[u32]) -> Option<(usize, Option<usize>, usize)> {
        place(slots, prompt, |_| true).map(|p| (p.target, p.source, p.reused))
    }

    #[test]
    fn the_next_turn_goes_on_in_its_own_slot() {
        let slots = [
            held(&[1, 2, 9], false, 5),
            held(&[1, 2, 3, 4], false, 1),
            held(&[], false, 0),
        ];
        assert_eq!(found(&slots, &[1, 2, 3, 4, 5, 6]), Some((1, None, 4)));
        // The reply was cut differently into tokens: one token of the cache is given up.
        assert_eq!(found(&slots, &[1, 2, 3, 7, 5, 6]), Some((1, None, 3)));
    }

    #[test]
    fn a_shared_beginning_is_copied_and_the_other_conversation_kept() {
        let slots = [held(&[1, 2, 3, 4, 5, 6, 7], false, 5), held(&[], false, 0)];
        assert_eq!(found(&slots, &[1, 2, 8, 9]), Some((1, Some(0), 2)));
        // From a slot that works, too.
        let slots = [held(&[1, 2, 3], true, 5), held(&[], false, 0)];
        assert_eq!(found(&slots, &[1, 2, 3, 9]), Some((1, Some(0), 3)));
    }

    #[test]
    fn without_an_unused_slot_the_one_unused_longest_is_taken() {
        let slots = [
            held(&[5, 5], false, 7),
            held(&[6, 6], false, 3),
            held(&[7], true, 1),
        ];
        assert_eq!(found(&slots, &[9, 9]), Some((1, None, 0)));
        // It is the one with the prefix itself: nothing to copy.
        let slots = [held(&[1, 2, 3, 4, 5], false, 1), held(&[6], false, 3)];
        assert_eq!(found(&slots, &[1, 2, 9]), Some((0, None, 2)));
    }

    #[test]
    fn the_last_token_of_a_prompt_is_always_left_to_prefill() {
        let slots = [held(&[1, 2, 3, 4], false, 1)];
        assert_eq!(found(&slots, &[1, 2, 3, 4]), Some((0, None, 3)));
        assert_eq!(found(&slots, &[1]), Some((0, None, 0)));
    }

    #[test]
    fn busy_slots_and_unusable_caches_are_left_alone() {
        assert_eq!(found(&[held(&[1, 2], true, 1)], &[1, 2, 3]), None);
        assert_eq!(found(&[], &[1]), None);
        let slots = [held(&[1, 2], false, 1)];
        let place = place(&slots, &[1, 2, 3], |_| false).unwrap();
        assert_eq!((place.target, place.source, place.reused), (0, None, 0));
    }
}
