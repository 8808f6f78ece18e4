//! When does each step run, and what did it cost?

pub mod config;
pub mod exit;
pub mod interrupt;
pub mod place;
pub mod record;
pub mod speech;
