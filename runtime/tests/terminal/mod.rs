//! A terminal for tests: a program in it, a keyboard, and what the screen has shown.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program on a terminal of its own.
pub struct Terminal {
    pub child: Child,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// Runs a shell's line in a home; `None`, with a line `skipped: …`, where there is no `script`.
    pub fn start(home: &Path, line: &str) -> Option<Self> {
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--return", "--command", line, "/dev/null"])
            .env("FIRSTWORD_HOME", home)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: script (util-linux): {error}");
                return None;
            }
        };
        let mut out = child.stdout.take().unwrap();
        let (give, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut buffer) {
                if give.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Some(Self {
            child,
            screen,
            seen: String::new(),
        })
    }

    /// Waits until this is written, and forgets all up to its end.
    pub fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let more = self.screen.recv_timeout(PATIENCE);
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end);
    }

    /// Types.
    pub fn type_keys(&mut self, keys: &str) {
        let keyboard = self.child.stdin.as_mut().unwrap();
        keyboard.write_all(keys.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }
}
