//! Models from an address: HTTPS downloads and Hugging Face repositories, resumed, hashed, bounded.
//!
//! The catalogue pins a few models; people have others. What they name is fetched into
//! `ROOT/downloads/NAME/` with a note of where it came from and the SHA-256 of every file.
//!
//! - [`address`] reads what was typed; [`repository`] asks a Hugging Face server what is in a repository
//!   and chooses files; [`transfer`] brings one file, resuming what was cut off; [`download`] puts whole
//!   downloads into the store. [`client`] is the only part that talks to the network.
//! - A server decides nothing here: names are checked before they become paths, lengths before they
//!   become disk space, hashes before a file is used. A token goes to the server it is meant for and to
//!   no other, and never over a connection that others can read.

pub mod address;
pub mod client;
pub mod download;
mod error;
mod note;
pub mod repository;
pub mod token;
pub mod transfer;
mod url;

pub use address::{Address, is_address};
pub use client::{Patience, Surroundings};
pub use download::{Download, Downloaded, Got};
pub use error::HubError;
pub use token::Token;
pub use transfer::Progress;
pub use url::Url;
