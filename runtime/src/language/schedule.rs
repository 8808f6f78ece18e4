//! Which step is next? A chunk of a prompt and a batch of single tokens take turns, so that a long prompt does not
//! silence the replies that are running, nor they it.

/// A step of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A chunk of the oldest prompt.
    Prefill,
    /// One token for every running reply.
    Decode,
}

/// The step after `last`, if there is any work.
#[must_use]
pub const fn next(last: Option<Step>, prompts: bool, replies: bool) -> Option<Step> {
    match (prompts, replies, last) {
        (false, false, _) => None,
        (true, false, _) | (true, true, None | Some(Step::Decode)) => Some(Step::Prefill),
        (false, true, _) | (true, true, Some(Step::Prefill)) => Some(Step::Decode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_and_replies_take_turns_and_none_waits_for_nothing() {
        assert_eq!(next(None, false, false), None);
        assert_eq!(next(Some(Step::Prefill), true, false), Some(Step::Prefill));
        assert_eq!(next(Some(Step::Decode), false, true), Some(Step::Decode));
        let mut last = None;
        let steps: Vec<Step> = (0..4)
            .map(|_| {
                last = next(last, true, true);
                last.unwrap()
            })
            .collect();
        assert_eq!(
            steps,
            [Step::Prefill, Step::Decode, Step::Prefill, Step::Decode]
        );
    }
}
