//! A conversation on a terminal, typed by hand.

#![allow(clippy::unwrap_used)]

mod heard;
mod imported;
mod program;
mod score;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use program::Home;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `firstword chat` on a terminal of its own.
struct Terminal {
    child: Child,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(home: &Home, line: &str) -> Option<Self> {
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--return", "--command", line, "/dev/null"])
            .env("FIRSTWORD_HOME", home.path(""))
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .current_dir(home.path(""))
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
    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let more = self.screen.recv_timeout(PATIENCE);
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end);
    }

    fn type_keys(&mut self, keys: &str) {
        let keyboard = self.child.stdin.as_mut().unwrap();
        keyboard.write_all(keys.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }
}

#[test]
fn ctrl_c_stops_a_reply_and_keeps_the_conversation() {
    let (Some(home), Some(model)) = (Home::new(), imported::smollm()) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_firstword");
    // exec: a shell that waits would take Ctrl-C as meant for it, too.
    let line = format!(
        "exec {program} chat --max-tokens 4000 --model {}",
        model.display()
    );
    let Some(mut terminal) = Terminal::start(&home, &line) else {
        return;
    };
    terminal.wait_for("> ");
    terminal.type_keys("Write a very long story about a dragon.\r");
    // The model goes round in circles for thousands of tokens: any word of its reply will do.
    terminal.wait_for("\n");
    terminal.wait_for(" the ");
    terminal.type_keys("\x03");
    terminal.wait_for("> ");
    terminal.type_keys("/stats\r");
    terminal.wait_for("TTFT");
    terminal.wait_for("> ");
    terminal.type_keys("/reset\r");
    terminal.wait_for("the conversation is forgotten");
    terminal.wait_for("> ");
    // Ctrl-C at the prompt is told how to leave; Ctrl-D leaves.
    terminal.type_keys("\x03");
    terminal.wait_for("Ctrl-D or /quit ends the conversation");
    terminal.wait_for("> ");
    terminal.type_keys("\x04");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
    // Of the log's line: the reply was stopped, long before its limit.
    let log = std::fs::read_to_string(home.path("log/latency.jsonl")).unwrap();
    let record: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(record["finish"], "cancelled");
    assert!(record["tokens"].as_u64().unwrap() < 4000);
}
