//! Terms of use before the first pull: shown, asked for where a person is at the terminal, never taken as given.

use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};

use firstword_models::catalogue::{Entry, Terms};
use firstword_models::{Store, StoreError};

use super::{Context, LOOK};
use crate::exit::{CommandError, Exit, aside, say};

/// What became of the question.
pub enum Answer {
    /// There was nothing to ask.
    Nothing,
    /// All terms were accepted.
    Accepted,
    /// They were not, or the person left.
    Refused(Exit),
}

/// Shows the terms of `names` that nobody accepted on this machine yet. On a terminal they are asked for.
///
/// # Errors
/// [`Exit::Terms`] where nobody can be asked; the message says what to type.
pub fn ask(store: &Store, names: &[String], context: &Context) -> Result<Answer, CommandError> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut waiting = store.to_accept(&names);
    waiting.dedup_by(|one, other| one.1 == other.1);
    for (entry, terms) in &waiting {
        aside(&text(entry, terms));
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let name = entry.name;
            return Err(CommandError::from(StoreError::NotAccepted { name, terms }));
        }
        aside(&format!("Do you accept the {}? [y/N] ", terms.title));
        match answer(context)? {
            Some(line) if matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") => {}
            Some(_) => {
                say(&format!("{} was not fetched", entry.name));
                return Ok(Answer::Refused(Exit::Terms));
            }
            None => {
                aside("\n");
                let exit = context.interrupt.requested().unwrap_or(Exit::Terms);
                return Ok(Answer::Refused(exit));
            }
        }
    }
    Ok(if waiting.is_empty() {
        Answer::Nothing
    } else {
        Answer::Accepted
    })
}

/// What is shown: title, where the full text is, what it asks for.
fn text(entry: &Entry, terms: &Terms) -> String {
    let mut text = format!(
        "{} comes under the {} ({}).\n\nThe full text: {}\n\
         It is also kept beside the model, as {} (SHA-256 {}).\n\
         In short, in our words; the text itself decides:\n",
        entry.name, terms.title, terms.dated, terms.address, terms.file, terms.sha256
    );
    for paragraph in terms.summary {
        text.push_str(&wrapped(paragraph));
    }
    text.push_str(&format!(
        "To accept them: firstword model pull {} --accept-licence\n\n",
        entry.name
    ));
    text
}

/// A paragraph of a list, in lines of at most 78 characters.
fn wrapped(paragraph: &str) -> String {
    const WIDTH: usize = 78;
    let mut text = String::from(" -");
    let mut column = 2;
    for word in paragraph.split(' ') {
        let length = word.chars().count();
        if column + 1 + length > WIDTH {
            text.push_str("\n  ");
            column = 2;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + length;
    }
    text.push('\n');
    text
}

/// A line from standard input; `None` at its end, or when Ctrl-C came first.
pub(super) fn answer(context: &Context) -> Result<Option<String>, CommandError> {
    // No signal wakes a thread that waits for a line, so another one waits.
    let (said, line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = said.send(read.map(|bytes| (bytes > 0).then_some(line)));
    });
    loop {
        match line.recv_timeout(LOOK) {
            Ok(read) => {
                return read
                    .map_err(|error| CommandError::new(Exit::Input, "standard input", error));
            }
            Err(RecvTimeoutError::Timeout) if !context.interrupt.is_requested() => {}
            Err(_) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use firstword_models::Catalogue;

    use super::*;

    #[test]
    fn what_is_shown_names_terms_address_and_command_and_fits_a_terminal() {
        let entry = Catalogue::default().find("gemma-3-270m").unwrap();
        let text = text(entry, entry.terms.unwrap());
        for part in [
            "Gemma Terms of Use",
            "https://ai.google.dev/gemma/terms",
            "https://ai.google.dev/gemma/prohibited_use_policy",
            "firstword model pull gemma-3-270m --accept-licence",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let long = |line: &&str| line.chars().count() > 80 && !line.contains("SHA-256");
        assert_eq!(text.lines().find(long), None);
    }
}
