//! Ctrl-C, seen from outside: the first asks, the second ends the process with the documented code.

use std::process::Command;

use firstword::exit::Exit;
use firstword::interrupt::Interrupt;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::raise;

/// Set in the process that a test may end.
const CHILD: &str = "FIRSTWORD_TEST_CHILD";

/// Runs a test of this file in a process of its own, because it ends the process.
fn in_a_child(test: &str) -> Option<i32> {
    Command::new(std::env::current_exe().expect("a test knows its own file"))
        .args(["--exact", test, "--quiet"])
        .env(CHILD, "1")
        .output()
        .expect("the test can be started again")
        .status
        .code()
}

#[test]
fn the_second_ctrl_c_ends_the_process_at_once() {
    assert_eq!(in_a_child("child_interrupted_twice"), Some(130));
}

#[test]
fn the_second_sigterm_ends_the_process_at_once() {
    assert_eq!(in_a_child("child_terminated_twice"), Some(143));
}

#[test]
fn child_interrupted_twice() {
    if std::env::var_os(CHILD).is_none() {
        // Run by the test above, in a process of its own.
        return;
    }
    let interrupt = Interrupt::install().unwrap();
    assert_eq!(interrupt.requested(), None);
    raise(SIGINT).unwrap();
    assert_eq!(interrupt.requested(), Some(Exit::Interrupted));
    raise(SIGINT).unwrap();
    unreachable!("the second signal ends the process");
}

#[test]
fn child_terminated_twice() {
    if std::env::var_os(CHILD).is_none() {
        // Run by the test above, in a process of its own.
        return;
    }
    let interrupt = Interrupt::install().unwrap();
    raise(SIGTERM).unwrap();
    assert_eq!(interrupt.requested(), Some(Exit::Terminated));
    raise(SIGTERM).unwrap();
    unreachable!("the second signal ends the process");
}
