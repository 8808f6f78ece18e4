//! The name of a target, as people write it on the command line and as records keep it.

use std::fmt;
use std::str::FromStr;

/// A place where a graph can run, by name.
///
/// The written form will grow to `provider:device` (`openvino:npu`) as targets are added; a record
/// keeps the [`fmt::Display`] form, so that form does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Target {
    /// ONNX Runtime's own CPU provider, in f32 and the model's own integer types.
    #[default]
    Cpu,
}

impl Target {
    /// Every target this build knows.
    pub const ALL: [Self; 1] = [Self::Cpu];
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => "cpu",
        })
    }
}

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(written: &str) -> Result<Self, UnknownTarget> {
        Self::ALL
            .into_iter()
            .find(|target| target.to_string() == written)
            .ok_or_else(|| UnknownTarget {
                written: written.to_owned(),
            })
    }
}

/// A target name that this build does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown target '{written}': this build knows: {}", Target::ALL.map(|target| target.to_string()).join(", "))]
pub struct UnknownTarget {
    written: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_target_reads_back_as_itself() {
        for target in Target::ALL {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        assert_eq!("cpu".parse(), Ok(Target::Cpu));
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_list_of_known_ones() {
        let refused = "openvino:npu".parse::<Target>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "unknown target 'openvino:npu': this build knows: cpu"
        );
        assert!(
            "CPU".parse::<Target>().is_err(),
            "names are exact: records are compared by text"
        );
    }
}
