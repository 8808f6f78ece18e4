//! A trap for system calls: a child process in which a thread is killed, and the process with it, at the first one. Tests that
//! promise a real-time thread no lock, no allocation and no system call run what they promise in it.

#![allow(dead_code)] // Each test binary uses its part.

use std::process::{Command, ExitStatus, Stdio};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

/// What kills the child.
pub const SIGSYS: i32 = 31;
/// The child's exit codes.
pub const CLEAN: i32 = 0;
pub const ALLOCATED: i32 = 3;
pub const NO_SECCOMP: i32 = 77;

/// From here on, this thread dies, and the process with it, at any system call but those allowed by
/// the test harness's end (none: the main thread ends the process).
pub fn forbid_system_calls() -> bool {
    let arch = std::env::consts::ARCH.try_into();
    // A filter needs a rule: exit of the thread, which does not happen.
    let exit = if cfg!(target_arch = "x86_64") { 60 } else { 93 };
    let rules = [(exit, Vec::<SeccompRule>::new())].into_iter().collect();
    let program = arch.ok().and_then(|arch| {
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::KillProcess,
            SeccompAction::Allow,
            arch,
        );
        BpfProgram::try_from(filter.ok()?).ok()
    });
    program.is_some_and(|p| seccompiler::apply_filter(&p).is_ok())
}

/// Runs this test binary's `child_process` in the role that it finds in `variable`. `None`: the kernel has no seccomp, and it is
/// said that the test was skipped.
pub fn run(variable: &str, role: &str) -> Option<ExitStatus> {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--test-threads=1"])
        .env(variable, role)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    if status.code() == Some(NO_SECCOMP) {
        println!("skipped: this kernel has no seccomp filters");
        return None;
    }
    Some(status)
}
