//! The promise to the stages: telling the log allocates nothing, takes no lock and makes no system call, whether the queue has
//! room or not.
//!
//! As for the ring of the sound (audio/tests/ring_is_real_time.rs): a child process, in it a thread under a seccomp filter
//! that kills the process at any system call, its calls of the allocator counted. That the trap shuts is tested with a
//! planted allocation and with what is not for the hot path: announcing a stream.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A test, helpers included.

#[path = "../../audio/tests/counting/mod.rs"]
mod counting;
#[path = "../../audio/tests/trap/mod.rs"]
mod trap;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::Duration;

use firstword::config::Config;
use firstword::log::{Heard, Load, Log, Model, Options, Role, Step};
use firstword::record::{Record, Reply, Steps};
use firstword::speech::transcript::{Partial, Word};
use firstword_audio::Stamp;
use firstword_audio::clock::Samples;
use trap::{ALLOCATED, CLEAN, NO_SECCOMP, SIGSYS, forbid_system_calls};

const ROLE: &str = "FIRSTWORD_LOG_TEST_ROLE";

/// Not a test by itself: what the tests below start as their child.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let settings = Config::defaults().unwrap().settings;
    let log = Log::start(Options {
        trace: true,
        ..Options::of(&settings, folder.path().to_owned())
    });
    let recorder = log.recorder();
    let model = recorder.load(Model::default(), Load::default());
    let stream = recorder.stream("mic");
    let record = Record::default();
    let word = Word {
        text: String::new(),
        covered: Samples(1),
        captured: Stamp::now(),
        committed: Stamp::now(),
        handed_over: None,
    };
    // More than are told one by one.
    let words = vec![word; 100];
    let partial = Partial {
        utterance: 0,
        start: Samples(0),
        covered: Samples(1),
        captured: Stamp::now(),
        committed: String::new(),
        tentative: String::new(),
    };
    let reply = Reply {
        steps: Steps::of((0..100).map(|n| (n, 1))),
        ..Reply::default()
    };
    let outcome = AtomicI32::new(-1);
    let outcome: &'static AtomicI32 = Box::leak(Box::new(outcome));
    std::thread::spawn(move || {
        if !forbid_system_calls() {
            outcome.store(NO_SECCOMP, SeqCst);
        }
        let before = counting::calls();
        // Far more than the queue holds: the other side can't keep up, so both ways of a push are taken.
        for n in 0..2_000 {
            match role.as_str() {
                "allocation" if n == 1_000 => drop(std::hint::black_box(Box::new(n))),
                "stream" if n == 1_000 => drop(std::hint::black_box(recorder.stream("another"))),
                _ => {}
            }
            let now = Stamp::now();
            recorder.arrival(stream, 160, now, now);
            recorder.partial(stream, &partial, now);
            let heard = Heard {
                stream,
                model,
                record: &record,
                words: &words,
                text: "",
            };
            recorder.utterance(&heard);
            recorder.request(model, &reply, "", "");
            recorder.turn(&heard, model, &reply, "");
            recorder.step(Step {
                role: Role::Decode,
                model,
                stream,
                batch: 4,
                due: now,
                start: now,
                end: Stamp::now(),
            });
        }
        recorder.close_stream(stream);
        let allocated = counting::calls() - before;
        let clean = if allocated == 0 { CLEAN } else { ALLOCATED };
        let _ = outcome.compare_exchange(-1, clean, SeqCst, SeqCst);
        // The end of a thread is a system call.
        loop {
            std::hint::spin_loop();
        }
    });
    while outcome.load(SeqCst) == -1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // exit() runs no destructors.
    drop(folder);
    std::process::exit(outcome.load(SeqCst));
}

fn run(role: &str) -> Option<ExitStatus> {
    trap::run(ROLE, role)
}

#[test]
fn telling_the_log_allocates_nothing_and_makes_no_system_call() {
    let Some(status) = run("nothing") else { return };
    assert_eq!(status.code(), Some(CLEAN), "{status}");
}

#[test]
fn the_trap_shuts_on_a_planted_allocation() {
    let Some(status) = run("allocation") else {
        return;
    };
    // The allocator may go to the system for it, or not.
    assert!(
        status.code() == Some(ALLOCATED) || status.signal() == Some(SIGSYS),
        "{status}"
    );
}

#[test]
fn the_trap_shuts_on_what_is_not_for_the_hot_path() {
    let Some(status) = run("stream") else { return };
    assert!(
        status.code() == Some(ALLOCATED) || status.signal() == Some(SIGSYS),
        "{status}"
    );
}
