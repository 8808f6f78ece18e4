//! `firstword config`: the effective configuration and where each value comes from.

use std::io::Write;

use super::Context;
use crate::cli::{ConfigArgs, ConfigFormat};
use crate::config::Setting;
use crate::exit::{CommandError, Exit, name};
use crate::output::OutputError;

/// Prints the configuration on standard output.
///
/// # Errors
/// When standard output can't be written.
pub fn run(args: &ConfigArgs, context: &Context) -> Result<Exit, CommandError> {
    let text = match args.format {
        ConfigFormat::Toml => context
            .config
            .to_toml(|setting| stands_for(setting, context)),
        ConfigFormat::Json => format!("{:#}\n", context.config.to_json()),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| OutputError::new("standard output", error))?;
    Ok(Exit::Success)
}

/// What an empty path stands for on this machine.
fn stands_for(setting: &Setting, context: &Context) -> Option<String> {
    match (setting.section, setting.key) {
        ("models", "folder") => context.store_root().ok().map(name),
        ("log", "folder") => context.log_folder().ok().map(name),
        ("onnxruntime", "library") => Some("found beside the program or in the store".to_owned()),
        _ => None,
    }
}
