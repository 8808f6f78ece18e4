//! When does each step run, and what did it cost?

pub mod record;
pub mod speech;
