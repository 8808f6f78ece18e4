//! Where does a graph run, and did it really run there?
//!
//! [`library`] finds ONNX Runtime and opens it once per process; [`cpu`] builds sessions on the
//! CPU, always with the device named; [`target`] is how people write a target down.
//!
//! ```no_run
//! use firstword_targets::{Cpu, Search};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let search = Search { environment: std::env::var_os("ORT_DYLIB_PATH").map(Into::into), ..Search::default() };
//! let library = search.load()?;
//! eprintln!("{library}");
//! let session = Cpu::default().session(library, "encoder_model.ort".as_ref())?;
//! # Ok(())
//! # }
//! ```

pub mod cpu;
pub mod library;
pub mod target;

mod devices;

pub use cpu::{Cpu, SessionError};
pub use library::{Library, LibraryError, Origin, Search};
pub use target::{Target, UnknownTarget};

/// ONNX Runtime's own text as one line: its messages span several, an error of ours may not.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
