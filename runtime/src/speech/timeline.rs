//! When was a sample captured? Remembers the capture stamp of each block of a stream.

use std::collections::VecDeque;

use firstword_audio::clock::{Samples, Stamp};

/// Stamps of the blocks of one stream, oldest first. Bounded: [`Timeline::forget`] drops the past.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// One past the last sample of a block, and what is known of that sample.
    blocks: VecDeque<(Samples, Arrival)>,
}

/// What is known of the last sample of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// It was captured.
    pub captured: Stamp,
    /// It was taken from the ring.
    pub received: Stamp,
    /// It had passed the resampler.
    pub resampled: Stamp,
}

impl Timeline {
    /// A block that ends before sample `end` has arrived.
    pub fn push(&mut self, end: Samples, arrival: Arrival) {
        self.blocks.push_back((end, arrival));
    }

    /// What is known of `sample`: the block that holds it, with the capture time counted back from
    /// the block's end, but not before the end of the previous block (a file is read faster than it
    /// was spoken). The last block's for a sample that is still to come.
    #[must_use]
    pub fn arrival(&self, sample: Samples) -> Arrival {
        let at = self.blocks.partition_point(|(end, _)| *end <= sample);
        let Some(&(end, arrival)) = self.blocks.get(at).or(self.blocks.back()) else {
            return Arrival::default();
        };
        let back = end.saturating_sub(sample + Samples(1)).duration();
        let earliest = match at.checked_sub(1).and_then(|before| self.blocks.get(before)) {
            Some((_, before)) => before.captured,
            None => Stamp::default(),
        };
        let counted = Stamp::from_nanos(
            arrival
                .captured
                .as_nanos()
                .saturating_sub(back.as_nanos() as u64),
        );
        Arrival {
            captured: counted.max(earliest).min(arrival.captured),
            ..arrival
        }
    }

    /// Drops the blocks that end at or before `sample`, save the last of them.
    pub fn forget(&mut self, sample: Samples) {
        while self.blocks.len() > 1 && self.blocks[1].0 <= sample {
            self.blocks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Stamp {
        Stamp::from_nanos(ms * 1_000_000)
    }

    fn captured(ms_: u64) -> Arrival {
        Arrival {
            captured: ms(ms_),
            received: ms(ms_ + 1),
            resampled: ms(ms_ + 2),
        }
    }

    #[test]
    fn within_a_block_time_is_counted_back_from_its_end() {
        let mut timeline = Timeline::default();
        timeline.push(Samples(1600), captured(100));
        timeline.push(Samples(3200), captured(200));
        // 800 samples are 50 ms at 16 kHz.
        assert_eq!(timeline.arrival(Samples(2399)).captured, ms(150));
        assert_eq!(timeline.arrival(Samples(3199)).captured, ms(200));
        assert_eq!(timeline.arrival(Samples(2399)).received, ms(201));
    }

    #[test]
    fn a_block_read_at_once_is_not_older_than_the_one_before() {
        let mut timeline = Timeline::default();
        timeline.push(Samples(16_000), captured(10));
        timeline.push(Samples(32_000), captured(11));
        assert_eq!(timeline.arrival(Samples(16_000)).captured, ms(10));
        assert_eq!(timeline.arrival(Samples(31_999)).captured, ms(11));
    }

    #[test]
    fn the_past_is_forgotten_but_never_all_of_it() {
        let mut timeline = Timeline::default();
        for i in 1..=100 {
            timeline.push(Samples(i * 100), captured(i * 10));
        }
        timeline.forget(Samples(9_950));
        assert_eq!(timeline.blocks.len(), 2);
        timeline.forget(Samples(1_000_000));
        assert_eq!(timeline.blocks.len(), 1);
        assert_eq!(timeline.arrival(Samples(1_000_000)).captured, ms(1000));
    }
}
