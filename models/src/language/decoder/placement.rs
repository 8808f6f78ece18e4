//! Which row of the cache each slot has. A batch is a view of adjacent rows, so the slots of a batch
//! must lie side by side; where they do not, as few tokens as possible change places.

/// A permutation of slots over rows.
#[derive(Debug)]
pub(super) struct Placement {
    row_of: Vec<usize>,
    slot_at: Vec<usize>,
}

impl Placement {
    pub fn new(slots: usize) -> Self {
        Self {
            row_of: (0..slots).collect(),
            slot_at: (0..slots).collect(),
        }
    }

    pub fn row_of(&self, slot: usize) -> usize {
        self.row_of[slot]
    }

    /// The first row of a run of rows that has exactly these slots, after the exchanges that `exchange`
    /// was called for, each with two slots and their two rows. `lengths` are those of all slots: empty
    /// ones cost nothing.
    ///
    /// # Errors
    ///
    /// What `exchange` returns; rows that were exchanged before stay so.
    pub fn gather<E>(
        &mut self,
        slots: &[usize],
        lengths: &[usize],
        mut exchange: impl FnMut([usize; 2], [usize; 2]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let rows = || slots.iter().map(|&slot| self.row_of[slot]);
        let (lowest, highest) = (rows().min().unwrap_or(0), rows().max().unwrap_or(0));
        if highest - lowest + 1 == slots.len() {
            return Ok(lowest);
        }
        let takes_part = |slot: usize| slots.contains(&slot);
        let cost = |first: usize| {
            (0..self.slot_at.len())
                .map(|row| {
                    (
                        self.slot_at[row],
                        (first..first + slots.len()).contains(&row),
                    )
                })
                .filter(|&(slot, inside)| takes_part(slot) != inside)
                .map(|(slot, _)| lengths[slot])
                .sum::<usize>()
        };
        let first = (0..=self.slot_at.len() - slots.len())
            .min_by_key(|&first| cost(first))
            .unwrap_or(0);
        let inside = first..first + slots.len();
        for row in inside.clone() {
            let stranger = self.slot_at[row];
            if takes_part(stranger) {
                continue;
            }
            // As many are missing inside as are outside.
            let Some(&slot) = slots
                .iter()
                .find(|&&slot| !inside.contains(&self.row_of[slot]))
            else {
                break;
            };
            let from = self.row_of[slot];
            exchange([slot, stranger], [from, row])?;
            self.row_of[slot] = row;
            self.row_of[stranger] = from;
            self.slot_at[row] = slot;
            self.slot_at[from] = stranger;
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gathers, and says which tokens had to move.
    fn gather(placement: &mut Placement, slots: &[usize], lengths: &[usize]) -> (usize, usize) {
        let mut moved = 0;
        let first = placement.gather(slots, lengths, |[a, b], _| {
            moved += lengths[a] + lengths[b];
            Ok::<(), ()>(())
        });
        let first = first.unwrap();
        let mut rows: Vec<_> = slots.iter().map(|&slot| placement.row_of(slot)).collect();
        rows.sort_unstable();
        assert_eq!(rows, (first..first + slots.len()).collect::<Vec<_>>());
        for row in 0..lengths.len() {
            assert_eq!(placement.row_of[placement.slot_at[row]], row);
        }
        (first, moved)
    }

    #[test]
    fn slots_side_by_side_stay_where_they_are() {
        let mut placement = Placement::new(4);
        assert_eq!(gather(&mut placement, &[2, 1], &[5, 5, 5, 5]), (1, 0));
        assert_eq!(gather(&mut placement, &[3], &[5, 5, 5, 5]), (3, 0));
    }

    #[test]
    fn the_shorter_of_two_moves_into_the_hole() {
        // Slot 1 has closed; 0 has 100 tokens, 2 has 7: 2 moves beside 0.
        assert_eq!(
            gather(&mut Placement::new(3), &[0, 2], &[100, 0, 7]),
            (0, 7)
        );
        assert_eq!(
            gather(&mut Placement::new(3), &[0, 2], &[7, 0, 100]),
            (1, 7)
        );
    }

    #[test]
    fn a_long_stranger_is_not_moved_for_two_short_ones() {
        // 0 and 2 could meet on rows 0–1 or 1–2, both held by the long slot 1; rows 2–3 cost 3.
        assert_eq!(
            gather(&mut Placement::new(4), &[0, 2], &[3, 900, 3, 0]),
            (2, 3)
        );
    }

    #[test]
    fn any_sequence_of_batches_keeps_one_row_for_each_slot() {
        let mut placement = Placement::new(6);
        let lengths = [9, 2, 7, 0, 4, 5];
        for bits in (1_usize..64).chain((1..64).rev().step_by(3)) {
            let slots: Vec<usize> = (0..6).filter(|slot| bits >> slot & 1 == 1).collect();
            gather(&mut placement, &slots, &lengths);
        }
    }
}
