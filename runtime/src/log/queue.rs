//! A bounded queue without locks: many threads put events in, one takes them out. Neither waits, allocates or calls the
//! system; where the queue is full, `push` says so and nothing is overwritten.
//!
//! Each slot has a turn: `n` is free for the `n`th push, `n + 1` holds its value (Dmitry Vyukov, "Bounded MPMC queue", 2011).
//! This file is compiled twice: here, and with loom's atomics in `tests/log_queue_model.rs`, which tries every order in
//! which the threads can meet.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::sync::{AtomicUsize, UnsafeCell};

/// On a line of its own, so that those who push and the one who pops do not slow each other down.
#[repr(align(64))]
struct Apart(AtomicUsize);

struct Slot<T> {
    turn: AtomicUsize,
    value: UnsafeCell<T>,
}

/// The queue.
pub struct Queue<T> {
    slots: Box<[Slot<T>]>,
    /// The next push.
    tail: Apart,
    /// The next pop.
    head: Apart,
}

// SAFETY: a value is written by the one thread that took its turn with `tail` and read by the one that took it with `head`;
// the slot's turn, stored with Release and loaded with Acquire, lies between the two. T crosses threads by value.
unsafe impl<T: Send> Sync for Queue<T> {}
// SAFETY: as above; the queue owns its values.
unsafe impl<T: Send> Send for Queue<T> {}

impl<T: Copy + Default> Queue<T> {
    /// A queue for `capacity` values, rounded up to a power of two.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        // Below two, "holds the value of this push" and "is free for the next" would be the same turn.
        let capacity = capacity.max(2).next_power_of_two();
        Self {
            slots: (0..capacity)
                .map(|turn| Slot {
                    turn: AtomicUsize::new(turn),
                    value: UnsafeCell::new(T::default()),
                })
                .collect(),
            tail: Apart(AtomicUsize::new(0)),
            head: Apart(AtomicUsize::new(0)),
        }
    }

    /// Puts a value in. `false`: the queue is full, and the value is not in it.
    #[must_use]
    pub fn push(&self, value: T) -> bool {
        let mut at = self.tail.0.load(Relaxed);
        loop {
            let slot = &self.slots[at & (self.slots.len() - 1)];
            let ahead = slot.turn.load(Acquire).wrapping_sub(at) as isize;
            if ahead < 0 {
                return false;
            }
            if ahead > 0 {
                at = self.tail.0.load(Relaxed);
                continue;
            }
            match self
                .tail
                .0
                .compare_exchange_weak(at, at.wrapping_add(1), Relaxed, Relaxed)
            {
                Ok(_) => {
                    // SAFETY: this turn of the slot is this thread's alone until the store below.
                    slot.value.with_mut(|place| unsafe { place.write(value) });
                    slot.turn.store(at.wrapping_add(1), Release);
                    return true;
                }
                Err(now) => at = now,
            }
        }
    }

    /// Takes the oldest value out.
    pub fn pop(&self) -> Option<T> {
        let mut at = self.head.0.load(Relaxed);
        loop {
            let slot = &self.slots[at & (self.slots.len() - 1)];
            let ahead = slot.turn.load(Acquire).wrapping_sub(at.wrapping_add(1)) as isize;
            if ahead < 0 {
                return None;
            }
            if ahead > 0 {
                at = self.head.0.load(Relaxed);
                continue;
            }
            match self
                .head
                .0
                .compare_exchange_weak(at, at.wrapping_add(1), Relaxed, Relaxed)
            {
                Ok(_) => {
                    // SAFETY: the value was written before its turn was stored, and nobody writes here until the store below.
                    let value = slot.value.with(|place| unsafe { place.read() });
                    slot.turn.store(at.wrapping_add(self.slots.len()), Release);
                    return Some(value);
                }
                Err(now) => at = now,
            }
        }
    }
}

impl<T> std::fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({})", self.slots.len())
    }
}
