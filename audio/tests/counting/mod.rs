//! A global allocator that counts, per thread, what this thread asks for. Tests that promise "no
//! allocation" or "no absurd allocation" measure with it.

#![allow(dead_code)] // Each test binary uses its part.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(size: usize) {
    CALLS.set(CALLS.get() + 1);
    LARGEST.set(LARGEST.get().max(size));
}

// SAFETY: every call is handed to the system allocator unchanged; the counters are plain
// thread-local cells without destructors, which never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // Freeing takes the allocator's locks just as allocating does.
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Calls into the allocator (allocations, reallocations, frees) by this thread so far.
pub fn calls() -> u64 {
    CALLS.get()
}

/// Runs `f`; returns its result and the largest single allocation, in bytes, that it made.
pub fn largest_during<T>(f: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let result = f();
    (result, LARGEST.get())
}
