//! On a terminal: partials that are rewritten in place, a progress bar, and what is left of them.

#![allow(clippy::unwrap_used)]

mod heard;
mod program;
mod score;

use std::process::{Command, Output, Stdio};

use program::{Home, complaints, shared_clip, shared_samples, text, wav};

/// Runs a shell line on a terminal of its own (80 × 24); `None`, with a line `skipped: …`, without `script`.
fn on_a_terminal(home: &Home, line: &str) -> Option<Output> {
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .env("FIRSTWORD_HOME", home.path(""))
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .current_dir(home.path(""))
        .stdin(Stdio::null());
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: script (util-linux): {error}");
            None
        }
    }
}

/// What is left on a terminal when all of this was written: just the sequences that the program uses.
fn screen(written: &str) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                assert_eq!(rest.next(), Some('['));
                let mut parameter = String::new();
                let command = loop {
                    match rest.next().unwrap() {
                        digit if digit.is_ascii_digit() || "?;".contains(digit) => {
                            parameter.push(digit)
                        }
                        command => break command,
                    }
                };
                match command {
                    'A' => row -= parameter.parse::<usize>().unwrap_or(1),
                    'B' => row += parameter.parse::<usize>().unwrap_or(1),
                    'J' => {
                        rows.truncate(row + 1);
                        rows[row].truncate(column);
                    }
                    'K' if parameter == "2" => rows[row].clear(),
                    'K' => rows[row].truncate(column),
                    'm' | 'h' | 'l' => {}
                    other => panic!("unknown sequence {parameter}{other}"),
                }
            }
            c => {
                if column == 80 {
                    (row, column) = (row + 1, 0);
                }
                while rows.len() <= row {
                    rows.push(Vec::new());
                }
                while rows[row].len() <= column {
                    rows[row].push(' ');
                }
                rows[row][column] = c;
                column += 1;
            }
        }
        while rows.len() <= row {
            rows.push(Vec::new());
        }
    }
    rows.into_iter()
        .map(|row| row.into_iter().collect::<String>().trim_end().to_owned())
        .filter(|row| !row.is_empty())
        .collect()
}

#[test]
fn on_a_terminal_partials_are_dimmed_rewritten_and_leave_nothing_behind() {
    let (Some(home), Some(forward), Some(jfk)) = (
        Home::new(),
        shared_samples("goforward.wav"),
        shared_clip("jfk.flac"),
    ) else {
        return;
    };
    home.file("forward.wav", wav(&forward));
    home.file("jfk.flac", std::fs::read(jfk).unwrap());
    let program = env!("CARGO_BIN_EXE_firstword");
    for file in ["forward.wav", "jfk.flac"] {
        let line = format!("'{program}' transcribe --partials {file}");
        let Some(output) = on_a_terminal(&home, &line) else {
            return;
        };
        let written = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{written}");
        // ECMA-48: SGR 2 is faint.
        assert!(written.matches("\u{1b}[2m").count() > 3, "{written:?}");
        let on_a_pipe = text(&home.transcribe(["--partials", file]).stdout);
        let mut left = screen(&written).join("\n");
        // A final that is wider than the terminal is wrapped by it.
        left = left
            .replace('\n', " ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let expected: Vec<&str> = on_a_pipe.split_whitespace().collect();
        let squeezed = |text: &str| text.replace(' ', "");
        assert_eq!(
            squeezed(&left),
            squeezed(&expected.join(" ")),
            "{written:?}"
        );
    }
}

#[test]
fn the_progress_bar_is_for_terminals_only_and_goes_away() {
    let (Some(home), Some(jfk)) = (Home::new(), shared_clip("jfk.flac")) else {
        return;
    };
    home.file("jfk.flac", std::fs::read(jfk).unwrap());
    let output = home.transcribe(["jfk.flac"]);
    assert!(complaints(&output, 0).is_empty());
    let plain = text(&output.stdout);
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let line = format!("'{}' transcribe jfk.flac", env!("CARGO_BIN_EXE_firstword"));
    let Some(output) = on_a_terminal(&home, &line) else {
        return;
    };
    let written = text(&output.stdout);
    assert!(
        written.contains("real time") || written.contains('%'),
        "{written:?}"
    );
    let left = screen(&written).concat().replace(' ', "");
    assert_eq!(left, plain.replace([' ', '\n'], ""), "{written:?}");
}
