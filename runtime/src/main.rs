//! The `firstword` command.

fn main() {}
