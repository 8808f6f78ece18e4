//! `firstword model pull ADDRESS`: what was typed, what is shown on the way, and what to do with what came.

use firstword_models::Store;
use firstword_models::hub::{
    Address, Download, Downloaded, Got, HubError, Patience, Progress as Step, Surroundings, Token,
    transfer::Attended,
};

use super::Context;
use crate::cli::ModelPullArgs;
use crate::exit::{CommandError, Exit, name, printable, say};
use crate::progress::Progress;

/// A download that is asked for, with what the environment says.
pub struct Planned {
    download: Download,
    surroundings: Surroundings,
    user: Option<Token>,
}

/// Reads addresses, flags and environment; touches no network.
///
/// # Errors
/// [`Exit::Usage`] for addresses or flags that mean nothing, and for a token that can't be used.
pub fn plan(
    args: &ModelPullArgs,
    addresses: &[String],
    context: &Context,
) -> Result<Vec<Planned>, CommandError> {
    let flags = [
        ("--as", args.name.is_some()),
        ("--sha256", args.sha256.is_some()),
        ("--token-file", args.token_file.is_some()),
    ];
    for (flag, given) in flags {
        if given && addresses.len() != 1 {
            let reason = format!(
                "it goes with one address (https:// or hf:), found {}",
                addresses.len()
            );
            return Err(CommandError::new(Exit::Usage, flag, reason));
        }
    }
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let variable = |name: &str| std::env::var_os(name);
    let usage = |error: HubError| CommandError::new(Exit::Usage, "", error);
    let surroundings = Surroundings::read(&variable).map_err(usage)?;
    let token = args
        .token_file
        .as_deref()
        .map(Token::of_file)
        .transpose()
        .map_err(usage)?;
    let mut planned = Vec::new();
    for text in addresses {
        let address = Address::parse(text, &surroundings.endpoint).map_err(usage)?;
        // The user's own token is for that server; no other address needs it.
        let user = match (&token, &address) {
            (None, Address::Repository(_)) => Token::of_user(&variable).map_err(usage)?,
            _ => None,
        };
        planned.push(Planned {
            download: Download {
                address,
                name: args.name.clone(),
                sha256: args.sha256.clone(),
                token: token.clone(),
                offline: context.config.settings.models.offline,
            },
            surroundings: surroundings.clone(),
            user,
        });
    }
    let tokens = token
        .iter()
        .chain(planned.iter().filter_map(|planned| planned.user.as_ref()));
    if let Some(warning) = tokens.filter_map(|token| token.warning.as_ref()).next() {
        say(warning);
    }
    Ok(planned)
}

impl Planned {
    /// Fetches it and says in a few lines what came and what to do with it.
    ///
    /// # Errors
    /// As [`exit_of`] says.
    pub fn run(&self, store: &Store, stop: &dyn Fn() -> bool) -> Result<String, CommandError> {
        let mut shown = Shown::default();
        let mut attended = Attended {
            tell: &mut |step| shown.step(step),
            stop,
        };
        let (found, got) = store.download(
            &self.download,
            &self.surroundings,
            Patience::default(),
            self.user.clone(),
            &mut attended,
        )?;
        drop(shown);
        Ok(told(&found, got))
    }
}

fn told(found: &Downloaded, got: Got) -> String {
    let outcome = match got {
        Got::AlreadyThere => "was there already",
        Got::Fetched => "fetched",
        Got::Replaced => "another version was there, replaced",
    };
    let mut text = format!("{}: {outcome}\n", found.name);
    if let Some(licence) = &found.licence {
        text.push_str(&format!(
            "  licence, as its authors say: {}\n",
            printable(licence)
        ));
    }
    if let Some(gguf) = found.gguf() {
        text.push_str(&format!(
            "  next: firstword model import {}\n",
            quoted(&name(gguf))
        ));
    } else if found.has_onnx() {
        text.push_str(&format!("  next: --model {}\n", found.name));
    } else {
        text.push_str(&format!("  it lies in {}\n", name(&found.path)));
    }
    text
}

/// A path as it can be typed into a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// The exit code for a download that failed.
pub fn exit_of(error: &HubError) -> Exit {
    match error {
        HubError::Address { .. }
        | HubError::Plain { .. }
        | HubError::TokenInTheOpen { .. }
        | HubError::Token { .. }
        | HubError::Name { .. }
        | HubError::NoSum { .. }
        | HubError::OneSum { .. } => Exit::Usage,
        HubError::Taken { .. }
        | HubError::Offline { .. }
        | HubError::NothingMatches { .. }
        | HubError::Choose { .. }
        | HubError::NoModel { .. }
        | HubError::Unknown { .. }
        | HubError::Damaged { .. } => Exit::Model,
        HubError::Gated { .. } => Exit::Terms,
        HubError::NoRoom { .. } | HubError::DiskFull { .. } | HubError::Io { .. } => Exit::Output,
        HubError::Stopped => Exit::Interrupted,
        _ => Exit::Network,
    }
}

impl From<HubError> for CommandError {
    fn from(error: HubError) -> Self {
        Self::new(exit_of(&error), "", error)
    }
}

/// The steps of a download on standard error.
#[derive(Default)]
struct Shown {
    bar: Option<(String, Progress)>,
}

impl Shown {
    fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Waiting => self.line("another pull fetches the same; waiting for it"),
            Step::Asking { address } => self.line(&format!("asking what {address} holds")),
            Step::Anew { file } => self.line(&format!(
                "{file} has changed on the server, or it can't resume: beginning anew"
            )),
            Step::Again { reason, pause } => {
                let seconds = pause.as_secs().max(1);
                self.line(&format!("{reason}; trying again in {seconds} s"));
            }
            Step::Receiving { file, done, total } => {
                if self.bar.as_ref().is_none_or(|(shown, _)| shown != file) {
                    // The old bar goes before the new one comes.
                    self.bar = None;
                    say(&format!("fetching {file}"));
                    self.bar = Some((file.to_owned(), Progress::download(file, total)));
                }
                if let Some((_, bar)) = &self.bar {
                    bar.arrived(done);
                }
            }
        }
    }

    fn line(&mut self, text: &str) {
        self.bar = None;
        say(text);
    }
}
