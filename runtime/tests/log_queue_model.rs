//! The queue of the log under loom: every order in which threads can meet in it, with the C11 memory model.
//!
//! The queue's own source is compiled here with loom's atomics and cells; loom reports a value that is read while it is
//! written, whatever the outcome.

mod sync {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::AtomicUsize;
}

#[path = "../src/log/queue.rs"]
mod queue;

use loom::sync::Arc;
use loom::thread;
use queue::Queue;

/// What comes out of the queue until `wanted` values did.
fn take(queue: &Queue<u32>, wanted: usize) -> Vec<u32> {
    let mut taken = Vec::new();
    while taken.len() < wanted {
        match queue.pop() {
            Some(value) => taken.push(value),
            None => thread::yield_now(),
        }
    }
    taken
}

#[test]
fn two_that_push_and_one_that_pops_lose_and_repeat_nothing() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2));
        let pushing: Vec<_> = [10, 20]
            .map(|value| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.push(value))
            })
            .into();
        let mut taken = take(&queue, 2);
        taken.sort_unstable();
        assert_eq!(taken, [10, 20]);
        for thread in pushing {
            // Two places, two values: there is always room.
            assert!(thread.join().unwrap());
        }
        assert_eq!(queue.pop(), None);
    });
}

#[test]
fn values_of_one_thread_keep_their_order_and_a_full_queue_refuses() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let queue = Arc::new(Queue::new(2));
        let pushing = {
            let queue = Arc::clone(&queue);
            // Three into two places: how many got in depends on how fast the other side is.
            thread::spawn(move || {
                (1..=3_u32)
                    .filter(|&value| queue.push(value))
                    .collect::<Vec<_>>()
            })
        };
        let early = queue.pop();
        let entered = pushing.join().unwrap();
        let mut taken: Vec<u32> = early.into_iter().collect();
        taken.extend(std::iter::from_fn(|| queue.pop()));
        assert_eq!(taken, entered);
        assert!(entered.len() >= 2 && entered[..2] == [1, 2]);
    });
}
