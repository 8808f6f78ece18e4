//! Ctrl-C and SIGTERM: the first asks the loops to finish what is final, the second ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// A wish to stop, shared between the signal handlers and the loops. Cloning shares the same wish.
///
/// System calls are restarted after the signal: a thread that is blocked in a read stays there, so the loop
/// that ends the program must not be the one that waits for input.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    wanted: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Takes over SIGINT and SIGTERM for this process.
    ///
    /// # Errors
    /// When the operating system refuses the handlers.
    pub fn install() -> io::Result<Self> {
        let interrupt = Self::default();
        for (signal, exit) in [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated)] {
            // Order matters: the shutdown looks at the wish before this signal sets it, so that only the
            // second signal ends the process.
            flag::register_conditional_shutdown(
                signal,
                i32::from(exit.code()),
                Arc::clone(&interrupt.wanted),
            )?;
            flag::register_usize(signal, Arc::clone(&interrupt.signal), signal as usize)?;
            flag::register(signal, Arc::clone(&interrupt.wanted))?;
        }
        Ok(interrupt)
    }

    /// The exit code to end with, once a signal has come.
    #[must_use]
    pub fn requested(&self) -> Option<Exit> {
        if !self.wanted.load(Ordering::Acquire) {
            return None;
        }
        if self.signal.load(Ordering::Acquire) == SIGTERM as usize {
            Some(Exit::Terminated)
        } else {
            Some(Exit::Interrupted)
        }
    }

    /// Whether a signal has come (cheap: one atomic load).
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// The wish as a flag that other parts can look at.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.wanted)
    }

    /// The wish was granted, and the program goes on: a conversation whose reply was stopped. The next signal asks
    /// again.
    pub fn forget(&self) {
        self.wanted.store(false, Ordering::Release);
    }

    /// The same wish, made by the program itself (tests, a sink whose reader went away).
    pub fn request(&self) {
        self.wanted.store(true, Ordering::Release);
    }
}

/// Runs `work` and gives SIGINT back to whom it belonged before: the line editor takes it over when it is made (its
/// feature `signal-hook`, which does not, loses what is pasted), and Ctrl-C would not stop a reply.
pub fn keeping_sigint<T>(work: impl FnOnce() -> T) -> T {
    let mut before = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with a null action nothing is changed, and the present one is written to `before`.
    let known = unsafe { libc::sigaction(SIGINT, std::ptr::null(), before.as_mut_ptr()) } == 0;
    let done = work();
    if known {
        // SAFETY: `before` was written by the call above, and describes a handler that is still there.
        unsafe { libc::sigaction(SIGINT, before.as_ptr(), std::ptr::null_mut()) };
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_seen_by_every_clone() {
        let first = Interrupt::default();
        let second = first.clone();
        assert_eq!(second.requested(), None);
        first.request();
        assert_eq!(second.requested(), Some(Exit::Interrupted));
    }
}
