//! How fast, and against whom?
