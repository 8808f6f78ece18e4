//! `firstword log tail` on a terminal: colour where it is wanted, an end with Ctrl-C.

#![allow(clippy::unwrap_used)]

mod terminal;

use firstword::log::read::planted::{self, Plan};
use terminal::Terminal;

#[test]
fn a_terminal_gets_colour_unless_the_person_has_said_no() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        records: 40,
        ..Plan::default()
    };
    planted::write(&folder.path().join("log"), &plan).unwrap();
    let program = env!("CARGO_BIN_EXE_firstword");
    // The lost line is the last of the planted log.
    let red = "\x1b[31mthe log lost 3 records";
    let plain = "  the log lost 3 records";
    for (before, expected) in [
        ("", red),
        ("export NO_COLOR=1; ", plain),
        ("export TERM=dumb; ", plain),
    ] {
        let line = format!("{before}exec {program} log tail");
        let Some(mut terminal) = Terminal::start(folder.path(), &line) else {
            return;
        };
        terminal.wait_for(expected);
        assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn ctrl_c_ends_following() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        records: 40,
        ..Plan::default()
    };
    planted::write(&folder.path().join("log"), &plan).unwrap();
    let program = env!("CARGO_BIN_EXE_firstword");
    let Some(mut terminal) = Terminal::start(folder.path(), &format!("exec {program} log tail -f"))
    else {
        return;
    };
    terminal.wait_for("the log lost 3 records");
    terminal.type_keys("\x03");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(130));
}
