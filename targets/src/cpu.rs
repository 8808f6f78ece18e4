//! The CPU target: sessions on ONNX Runtime's own CPU provider, set for a small shared device.
//!
//! What is set and why (measured figures in the project's ONNX Runtime notes):
//!
//! - **One thread by default.** A device of this class has few cores and other work to do. On two
//!   cores shared with other work, Moonshine's decoder took 3.9 ms per token with one thread and
//!   5.3–8.3 ms (1.6 times the CPU time) with two; the encoder over 5 s took 57–61 ms against
//!   38–83 ms (ONNX Runtime 1.31.1, spinning off). A second thread is for the encoder of an idle machine.
//! - **Spinning off.** A waiting worker gives its core back. Two sessions whose threads spin made
//!   small decode steps 2–6 times slower when they shared cores. Where it is on, workers spin inside a run only.
//! - **Prepacking on** (`session.disable_prepacking=0`): 1.2–1.7 times per token on Moonshine's decoder.
//! - **All graph optimisations** for `.onnx`. A `.ort` file was optimised when it was written: it
//!   is loaded as it is, and ONNX Runtime applies only what was saved in it.
//! - **The device is named** for every session, never left to ONNX Runtime. From 1.22 on that is
//!   the listed device of the `CPUExecutionProvider`; where none are listed (older libraries) there
//!   is no choice to be made, and a session without providers is on the CPU.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ort::ErrorCode;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};

use crate::{Library, devices};

/// ONNX Runtime's name of the provider that runs every node here: no other is registered.
pub const PROVIDER: &str = "CPUExecutionProvider";

/// How sessions on the CPU are built. [`Cpu::default`] suits a small device shared with other work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Threads that share one step, the caller's own included; 1 starts no thread at all.
    pub threads: NonZeroUsize,
    /// Whether waiting threads burn their core to save a wake-up (some ten µs per step).
    pub spinning: bool,
    /// Whether ONNX Runtime plans one block of memory per input shape and keeps every plan. Right
    /// for few fixed shapes; with ever-changing ones the plans pile up (onnxruntime#11118), so a
    /// model whose shapes are not bucketed turns it off.
    pub memory_pattern: bool,
    /// Whether freed tensors are kept for the next step. Off, memory returns to the system at once
    /// and each step pays for its allocations.
    pub arena: bool,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            threads: NonZeroUsize::MIN,
            spinning: false,
            memory_pattern: true,
            arena: true,
        }
    }
}

impl Cpu {
    /// The default, with this many threads.
    #[must_use]
    pub fn with_threads(threads: NonZeroUsize) -> Self {
        Self {
            threads,
            ..Self::default()
        }
    }

    /// The same, for a model whose input shapes change with every call: no memory plan per shape.
    #[must_use]
    pub fn for_changing_shapes(self) -> Self {
        Self {
            memory_pattern: false,
            ..self
        }
    }

    /// The settings as ONNX Runtime is told them, in its own words; what [`Cpu::session`] applies.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let on_off = |on: bool| String::from(if on { "1" } else { "0" });
        vec![
            ("session.intra_op.allow_spinning", on_off(self.spinning)),
            ("session.inter_op.allow_spinning", on_off(self.spinning)),
            // Between two runs nobody spins.
            ("session.force_spinning_stop", on_off(self.spinning)),
            ("session.disable_prepacking", on_off(false)),
        ]
    }

    /// Builds a session for the model file `model` (`.onnx` or `.ort`).
    ///
    /// # Errors
    ///
    /// [`SessionError`], which names the file: it can't be read, is no model, or uses an operator
    /// this ONNX Runtime lacks.
    pub fn session(&self, library: &Library, model: &Path) -> Result<Session, SessionError> {
        let unreadable = |source| SessionError::Unreadable {
            model: model.to_owned(),
            source,
        };
        let metadata = File::open(model)
            .and_then(|file| file.metadata())
            .map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(io::Error::new(
                io::ErrorKind::IsADirectory,
                "not a file",
            )));
        }
        let name = model.display().to_string();
        if metadata.len() == 0 {
            return Err(SessionError::NotAModel {
                model: name,
                said: "the file is empty".to_owned(),
            });
        }
        let mut builder = self.builder(library)?;
        builder
            .commit_from_file(model)
            .map_err(|error| SessionError::of_model(name, &error))
    }

    /// Builds a session from a model in memory; `name` stands for it in errors. ONNX Runtime copies
    /// what it needs.
    ///
    /// # Errors
    ///
    /// As [`Cpu::session`].
    pub fn session_from_bytes(
        &self,
        library: &Library,
        name: &str,
        model: &[u8],
    ) -> Result<Session, SessionError> {
        if model.is_empty() {
            return Err(SessionError::NotAModel {
                model: name.to_owned(),
                said: "there are no bytes".to_owned(),
            });
        }
        let mut builder = self.builder(library)?;
        builder
            .commit_from_memory(model)
            .map_err(|error| SessionError::of_model(name.to_owned(), &error))
    }

    fn builder(&self, library: &Library) -> Result<SessionBuilder, SessionError> {
        let mut builder =
            Session::builder(library.environment()).map_err(SessionError::settings)?;
        builder = builder
            .with_intra_threads(self.threads.get())
            .map_err(SessionError::settings)?;
        builder = builder
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(SessionError::settings)?;
        builder = builder
            .with_memory_pattern(self.memory_pattern)
            .map_err(SessionError::settings)?;
        builder = builder
            .with_log_level(LogLevel::Warning)
            .map_err(SessionError::settings)?;
        for (key, value) in self.settings() {
            builder = builder
                .with_config_entry(key, value)
                .map_err(SessionError::settings)?;
        }
        // In `ort`, registering `ep::CPU` adds no provider: it only sets the arena switch.
        let cpu = ort::ep::CPU::default()
            .with_arena_allocator(self.arena)
            .build();
        builder = builder
            .with_execution_providers([cpu])
            .map_err(SessionError::settings)?;
        devices::name_cpu(library, &mut builder).map_err(SessionError::settings)?;
        Ok(builder)
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The model file can't be read.
    #[error("model {} can't be read: {source}", model.display())]
    Unreadable {
        /// The file.
        model: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The contents are no model, or only a part of one.
    #[error("{model} is not a complete model: {said}; fetch it again or check where it came from")]
    NotAModel {
        /// The file, or the name given for bytes.
        model: String,
        /// What ONNX Runtime said.
        said: String,
    },
    /// The model uses an operator that this ONNX Runtime does not have.
    #[error(
        "{model} needs an operator this ONNX Runtime lacks: {said}; use a newer library or another model"
    )]
    MissingOperator {
        /// The file, or the name given for bytes.
        model: String,
        /// What ONNX Runtime said.
        said: String,
    },
    /// ONNX Runtime would not build the session for another reason.
    #[error("{model} can't be loaded: {said}")]
    Refused {
        /// The file, or the name given for bytes.
        model: String,
        /// What ONNX Runtime said.
        said: String,
    },
    /// ONNX Runtime refused a setting: this is a bug, or a library with parts left out.
    #[error("ONNX Runtime refused the settings of the CPU target: {0}")]
    Settings(String),
}

impl SessionError {
    fn settings<R>(error: ort::Error<R>) -> Self {
        Self::Settings(crate::one_line(error.message()))
    }

    fn of_model(model: String, error: &ort::Error) -> Self {
        let said = without_source_line(&crate::one_line(error.message()));
        // ONNX Runtime has no code of its own for a missing operator: an unknown one is a failure
        // or an invalid graph by code, one without a kernel is "not implemented".
        let operator = [
            "is not a registered function/op",
            "No Op registered for",
            "Could not find an implementation",
        ];
        if error.code() == ErrorCode::NotImplemented
            || operator.iter().any(|text| said.contains(text))
        {
            return Self::MissingOperator { model, said };
        }
        match error.code() {
            ErrorCode::InvalidProtobuf | ErrorCode::InvalidGraph | ErrorCode::NoModel => {
                Self::NotAModel { model, said }
            }
            _ if said.contains("verification failed")
                || said.contains("ModelProto does not have a graph") =>
            {
                Self::NotAModel { model, said }
            }
            _ => Self::Refused { model, said },
        }
    }
}

/// ONNX Runtime begins some messages with its own source file and line, which helps nobody here.
fn without_source_line(said: &str) -> String {
    let rest = match said.split_once(' ') {
        Some((first, rest)) if first.contains(".cc:") || first.contains(".h:") => rest,
        _ => said,
    };
    rest.strip_prefix("operator() ").unwrap_or(rest).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_leaves_cores_to_others() {
        let cpu = Cpu::default();
        assert_eq!(cpu.threads.get(), 1);
        assert!(!cpu.spinning);
    }

    #[test]
    fn the_source_line_of_onnx_runtime_is_left_out_of_what_it_said() {
        // A message of 1.31.1 for a .ort file cut short.
        let said = "inference_session.cc:2226 operator() ORT model verification failed.";
        assert_eq!(without_source_line(said), "ORT model verification failed.");
        assert_eq!(
            without_source_line("Protobuf parsing failed."),
            "Protobuf parsing failed."
        );
    }

    #[test]
    fn the_settings_say_what_onnx_runtime_is_told() {
        let settings = Cpu::default().settings();
        assert!(settings.contains(&("session.intra_op.allow_spinning", "0".to_owned())));
        assert!(settings.contains(&("session.disable_prepacking", "0".to_owned())));
        let spinning = Cpu {
            spinning: true,
            ..Cpu::default()
        }
        .settings();
        assert!(spinning.contains(&("session.intra_op.allow_spinning", "1".to_owned())));
        assert!(spinning.contains(&("session.force_spinning_stop", "1".to_owned())));
    }
}
