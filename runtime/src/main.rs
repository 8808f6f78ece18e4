//! The `firstword` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(firstword::commands::run(std::env::args_os()).code())
}
