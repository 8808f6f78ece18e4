//! What a latency log says: reports, comparisons, exports, for people and for programs.

pub mod bootstrap;
pub mod compare;
pub mod curve;
pub mod diagnose;
pub mod export;
pub mod gather;
pub mod html;
pub mod replay;
pub mod stage;
pub mod stats;
pub mod summary;
pub mod table;
pub mod tail;
