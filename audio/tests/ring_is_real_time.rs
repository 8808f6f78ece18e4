//! The promise to a capture callback: pushing and popping allocates nothing, takes no lock and makes
//! no system call.
//!
//! The proof runs in a child process. Two threads push and pop a million times; each counts its calls
//! into the allocator, and each has put itself under a seccomp filter that kills the process at any
//! system call. A lock that has to wait calls futex. That it has to wait is made sure of twice: on two
//! cores the threads meet in it, and on one core a thread is put aside while it holds it. That the trap
//! works is tested by the same child with a planted lock, a planted allocation, a planted sleep.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod counting;
mod trap;

use std::hint::spin_loop;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use firstword_audio::ring::{Reader, Writer, ring};
use firstword_audio::{Format, Stamp};
use trap::{ALLOCATED, CLEAN, NO_SECCOMP, SIGSYS, forbid_system_calls};

/// Pushes, and as many pops: a million together.
const ROUNDS: u64 = 500_000;
/// On one core: long enough for the scheduler to change threads dozens of times.
const ROUNDS_ON_ONE_CORE: u64 = 5_000_000;
const ROLE: &str = "FIRSTWORD_RING_TEST_ROLE";

/// What is planted beside the ring, to see whether the trap shuts.
#[derive(Clone, Copy, PartialEq)]
enum Plant {
    Nothing,
    Lock,
    Allocation,
    Sleep,
}

/// From here on, this thread and those it starts run on the first core that it may use.
fn share_one_core() {
    let mine = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU)
        .find(|cpu| mine.is_set(*cpu))
        .unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set(first);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

#[derive(Default)]
struct Meeting {
    no_seccomp: AtomicBool,
    ready: AtomicU64,
    done: AtomicU64,
    allocator_calls: AtomicU64,
    lock: Mutex<()>,
}

impl Meeting {
    /// Runs `work` under the filter, when all threads are ready; then waits to be ended.
    fn guarded(&self, work: impl FnOnce(&Self)) -> ! {
        if !forbid_system_calls() {
            self.no_seccomp.store(true, SeqCst);
        }
        self.ready.fetch_add(1, SeqCst);
        while self.ready.load(SeqCst) < 2 {
            spin_loop();
        }
        let before = counting::calls();
        work(self);
        self.allocator_calls
            .fetch_add(counting::calls() - before, SeqCst);
        self.done.fetch_add(1, SeqCst);
        loop {
            spin_loop();
        }
    }
}

fn produce(mut writer: Writer, meeting: &Meeting, plant: Plant, rounds: u64) {
    let samples = [0.25; 2 * 64];
    for i in 0..rounds {
        // Held over the call, as a ring with a lock inside would hold it.
        let _guard = (plant == Plant::Lock).then(|| meeting.lock.lock().unwrap());
        match plant {
            Plant::Allocation if i == 1_000 => drop(std::hint::black_box(Box::new(i))),
            Plant::Sleep if i == 1_000 => thread::sleep(Duration::from_nanos(1)),
            _ => {}
        }
        let frames = (i % 64) as usize + 1;
        let accepted = writer.push(&samples[..2 * frames], Stamp::from_nanos(i * 1_000_000));
        if accepted < frames {
            writer.overrun(frames - accepted);
        }
    }
    // Dropping frees, which is not what is measured.
    std::mem::forget(writer);
}

fn consume(mut reader: Reader, meeting: &Meeting, plant: Plant, rounds: u64) {
    let mut out = [0.0; 2 * 100];
    for i in 0..rounds {
        let _guard = (plant == Plant::Lock).then(|| meeting.lock.lock().unwrap());
        let frames = (i % 100) as usize + 1;
        std::hint::black_box(reader.pop(&mut out[..2 * frames]));
        std::hint::black_box((reader.is_finished(), reader.dropped_frames()));
    }
    std::mem::forget(reader);
}

fn child(plant: Plant, one_core: bool) -> ! {
    let rounds = if one_core { ROUNDS_ON_ONE_CORE } else { ROUNDS };
    if one_core {
        share_one_core();
    }
    let (writer, reader) = ring(
        Format {
            sample_rate: 48_000,
            channels: 2,
        },
        1_024,
    );
    let meeting = Arc::new(Meeting::default());
    let (a, b) = (Arc::clone(&meeting), Arc::clone(&meeting));
    thread::spawn(move || a.guarded(|m| produce(writer, m, plant, rounds)));
    thread::spawn(move || b.guarded(|m| consume(reader, m, plant, rounds)));
    while meeting.done.load(SeqCst) < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    let allocator_calls = meeting.allocator_calls.load(SeqCst);
    std::process::exit(match allocator_calls {
        _ if meeting.no_seccomp.load(SeqCst) => NO_SECCOMP,
        0 => CLEAN,
        _ => ALLOCATED,
    });
}

/// Not a test by itself: what the tests below start as their child.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (plant, cores) = role.split_once(" on ").unwrap();
    let plant = match plant {
        "nothing" => Plant::Nothing,
        "lock" => Plant::Lock,
        "allocation" => Plant::Allocation,
        "sleep" => Plant::Sleep,
        other => panic!("{other}"),
    };
    child(plant, cores == "one core");
}

fn run(role: &str) -> Option<ExitStatus> {
    trap::run(ROLE, role)
}

#[test]
fn a_million_pushes_and_pops_allocate_nothing_and_make_no_system_call() {
    for role in ["nothing on two cores", "nothing on one core"] {
        let Some(status) = run(role) else { return };
        assert_eq!(status.code(), Some(CLEAN), "{role}: {status}");
    }
}

#[test]
fn the_trap_catches_a_lock() {
    // On two cores it does nearly always, which is no test.
    let Some(status) = run("lock on one core") else {
        return;
    };
    assert_eq!(status.signal(), Some(SIGSYS), "{status}");
}

#[test]
fn the_trap_catches_an_allocation() {
    let Some(status) = run("allocation on two cores") else {
        return;
    };
    assert_eq!(status.code(), Some(ALLOCATED), "{status}");
}

#[test]
fn the_trap_catches_a_system_call() {
    let Some(status) = run("sleep on two cores") else {
        return;
    };
    assert_eq!(status.signal(), Some(SIGSYS), "{status}");
}

/// A lock that nobody else holds makes no system call, so the source is looked at as well.
#[test]
fn the_ring_names_no_lock() {
    let source = include_str!("../src/ring.rs");
    let code = source.split("#[cfg(test)]").next().unwrap();
    let code: String = code
        .lines()
        .filter(|l| !l.trim_start().starts_with("//"))
        .collect();
    for lock in [
        "Mutex", "RwLock", "Condvar", "mpsc", "Once", "Lazy", "park", "Barrier",
    ] {
        assert!(!code.contains(lock), "ring.rs uses {lock}");
    }
}
