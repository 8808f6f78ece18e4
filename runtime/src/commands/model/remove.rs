//! `firstword model remove`: what is in the store under a name goes, after a question.

use std::io::{self, IsTerminal};

use firstword_models::Store;
use firstword_models::store::Held;

use super::terms::answer;
use super::{Context, size};
use crate::cli::ModelRemoveArgs;
use crate::exit::{CommandError, Exit, aside, name, say};
use crate::output::Writer;

/// Removes models.
///
/// # Errors
/// [`Exit::Model`] for a name that nothing in the store has, [`Exit::Usage`] where nobody can be asked; then nothing is
/// removed. [`Exit::Output`] for what can't be deleted.
pub fn run(args: &ModelRemoveArgs, store: &Store, context: &Context) -> Result<Exit, CommandError> {
    // All names are looked at before anything goes.
    let mut found: Vec<(&str, Vec<Held>)> = Vec::new();
    for wanted in &args.names {
        let held = store.held(wanted);
        if held.is_empty() {
            return Err(unknown(wanted, store));
        }
        if found.iter().all(|(name, _)| name != wanted) {
            found.push((wanted, held));
        }
    }
    if !args.yes {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let reason = "asks before it removes, and there is no terminal: give --yes";
            return Err(CommandError::new(Exit::Usage, "model remove", reason));
        }
        for (_, held) in &found {
            for Held { path, bytes } in held {
                aside(&format!("{} ({})\n", name(path), size(*bytes)));
            }
        }
        aside("Remove this? [y/N] ");
        let said = answer(context)?;
        let yes = said
            .as_deref()
            .is_some_and(|line| matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"));
        if !yes {
            if said.is_none() {
                aside("\n");
            }
            say("nothing was removed");
            return Ok(context.interrupt.requested().unwrap_or(Exit::Success));
        }
    }
    let mut out = Writer::stdout();
    for (model, held) in found {
        let freed = store.remove(&held)?;
        out.put(&format!("{model}: removed, {freed} bytes freed\n"))?;
    }
    Ok(Exit::Success)
}

fn unknown(wanted: &str, store: &Store) -> CommandError {
    let names = store.names_held();
    let there = match names.is_empty() {
        true => "the store is empty".to_owned(),
        false => format!("the store has: {}", names.join(", ")),
    };
    let reason =
        format!("expected the name of a model in the store, found none of this name; {there}");
    let shown = if wanted.is_empty() { "\"\"" } else { wanted };
    CommandError::new(Exit::Model, shown, reason)
}
