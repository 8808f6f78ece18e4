//! A conversation on a terminal, typed by hand.

#![allow(clippy::unwrap_used)]

mod heard;
mod imported;
mod program;
mod score;
mod terminal;

use program::Home;
use terminal::Terminal;

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
    let Some(mut terminal) = Terminal::start(&home.path(""), &line) else {
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
    let record = home.records().pop().unwrap();
    assert_eq!(record["finish"], "cancelled");
    assert!(record["tokens"].as_u64().unwrap() < 4000);
}
