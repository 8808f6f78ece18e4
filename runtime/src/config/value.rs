//! Values of the configuration: what each kind accepts, from TOML or from text, and how it is written back.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

/// What a key accepts. Ranges include both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number with a unit.
    Count {
        /// Smallest value accepted.
        least: u64,
        /// Largest value accepted.
        most: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// A number without unit.
    Ratio {
        /// Smallest value accepted.
        least: f64,
        /// Largest value accepted.
        most: f64,
    },
    /// A length of time, written with its unit: `"300ms"`, `"1.5s"`, `"2min"`.
    Time {
        /// Shortest time accepted.
        least: Duration,
        /// Longest time accepted.
        most: Duration,
    },
    /// Text that may not be empty.
    Name,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A model: a name of the catalogue, or the path of a folder, which has a `/` in it.
    Model,
    /// A path; empty means that the program finds one by itself.
    Path,
}

/// One value, of the kind that its key asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// See [`Kind::Switch`].
    Switch(bool),
    /// See [`Kind::Count`].
    Count(u64),
    /// See [`Kind::Ratio`].
    Ratio(f64),
    /// See [`Kind::Time`].
    Time(Duration),
    /// See [`Kind::Name`].
    Name(String),
    /// See [`Kind::Model`].
    Model(String),
    /// See [`Kind::Path`].
    Path(PathBuf),
}

/// A value that its key does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct Mismatch {
    /// What the key accepts.
    pub expected: String,
    /// What was written.
    pub found: String,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("true or false"),
            Self::Count { least, most, unit } => {
                write!(f, "a whole number of {unit} from {least} to {most}")
            }
            Self::Ratio { least, most } => write!(f, "a number from {least} to {most}"),
            Self::Time { least, most } => {
                write!(
                    f,
                    "a time from \"{}\" to \"{}\"",
                    time_text(*least),
                    time_text(*most)
                )
            }
            Self::Name => f.write_str("a name"),
            Self::OneOf(texts) => {
                for (at, text) in texts.iter().enumerate() {
                    let before = match at {
                        0 => "",
                        _ if at + 1 == texts.len() => " or ",
                        _ => ", ",
                    };
                    write!(f, "{before}\"{text}\"")?;
                }
                Ok(())
            }
            Self::Model => f.write_str("a name or a folder"),
            Self::Path => f.write_str("a path"),
        }
    }
}

impl Kind {
    /// Reads a value from plain text (an environment variable, a flag, a default).
    ///
    /// # Errors
    /// When the text is of another kind or out of range.
    pub fn read_text(&self, text: &str) -> Result<Value, Mismatch> {
        let value = match self {
            Self::Switch => match text {
                "true" => Some(Value::Switch(true)),
                "false" => Some(Value::Switch(false)),
                _ => None,
            },
            Self::Count { .. } => digits(text).map(Value::Count),
            Self::Ratio { .. } => text.parse().ok().map(Value::Ratio),
            Self::Time { .. } => read_time(text).map(Value::Time),
            Self::Name | Self::OneOf(_) => Some(Value::Name(text.to_owned())),
            Self::Model => Some(Value::Model(text.to_owned())),
            Self::Path => Some(Value::Path(PathBuf::from(text))),
        };
        value
            .filter(|v| self.accepts(v))
            .ok_or_else(|| self.mismatch(quoted(text)))
    }

    /// Reads a value from a parsed TOML document.
    ///
    /// # Errors
    /// When the value is of another kind or out of range.
    pub fn read_toml(&self, found: &DeValue<'_>) -> Result<Value, Mismatch> {
        let value = match (self, found) {
            (Self::Switch, DeValue::Boolean(on)) => Some(Value::Switch(*on)),
            (Self::Count { .. }, DeValue::Integer(number)) => {
                u64::from_str_radix(number.as_str(), number.radix())
                    .ok()
                    .map(Value::Count)
            }
            (Self::Ratio { .. }, DeValue::Float(number)) => {
                number.as_str().parse().ok().map(Value::Ratio)
            }
            // A person writes 1 for 1.0.
            (Self::Ratio { .. }, DeValue::Integer(number)) => {
                number.as_str().parse().ok().map(Value::Ratio)
            }
            (Self::Time { .. }, DeValue::String(text)) => read_time(text).map(Value::Time),
            (Self::Name | Self::OneOf(_), DeValue::String(text)) => {
                Some(Value::Name(text.to_string()))
            }
            (Self::Model, DeValue::String(text)) => Some(Value::Model(text.to_string())),
            (Self::Path, DeValue::String(text)) => Some(Value::Path(PathBuf::from(text.as_ref()))),
            _ => None,
        };
        value
            .filter(|v| self.accepts(v))
            .ok_or_else(|| self.mismatch(describe(found)))
    }

    fn mismatch(&self, found: String) -> Mismatch {
        let expected = match self {
            Self::Time { .. } => format!("{self} (with its unit: ms, s or min)"),
            Self::Name => "a name that is not empty".to_owned(),
            Self::Model => "a model's name, or a folder with a / in its path".to_owned(),
            _ => self.to_string(),
        };
        Mismatch { expected, found }
    }

    fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Count { least, most, .. }, Value::Count(v)) => (least..=most).contains(&v),
            // NaN is in no range.
            (Self::Ratio { least, most }, Value::Ratio(v)) => (least..=most).contains(&v),
            (Self::Time { least, most }, Value::Time(v)) => (least..=most).contains(&v),
            (Self::Name, Value::Name(text)) | (Self::Model, Value::Model(text)) => {
                !text.trim().is_empty() && !text.contains('\0')
            }
            (Self::OneOf(texts), Value::Name(text)) => texts.contains(&text.as_str()),
            (Self::Path, Value::Path(path)) => !path.as_os_str().as_encoded_bytes().contains(&0),
            _ => true,
        }
    }
}

impl Value {
    /// A relative path made absolute against `folder`, `~/` against `home`; other values unchanged.
    #[must_use]
    pub fn anchored(self, folder: &Path, home: Option<&Path>) -> Self {
        let anchor = |path: &Path| match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => folder.join(path),
        };
        match self {
            Self::Path(path) if !path.as_os_str().is_empty() => Self::Path(anchor(&path)),
            Self::Model(text) if text.contains('/') => {
                Self::Model(anchor(Path::new(&text)).to_string_lossy().into_owned())
            }
            other => other,
        }
    }

    /// The value as TOML source text.
    #[must_use]
    pub fn to_toml(&self) -> String {
        match self {
            Self::Switch(on) => on.to_string(),
            Self::Count(n) => n.to_string(),
            // Debug keeps the point or the exponent, which TOML needs to see a float.
            Self::Ratio(x) => format!("{x:?}"),
            Self::Time(time) => format!("\"{}\"", time_text(*time)),
            Self::Name(text) | Self::Model(text) => toml::Value::String(text.clone()).to_string(),
            Self::Path(path) => {
                toml::Value::String(path.to_string_lossy().into_owned()).to_string()
            }
        }
    }

    /// The value as JSON; times as text with their unit, as in the file.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Switch(on) => (*on).into(),
            Self::Count(n) => (*n).into(),
            Self::Ratio(x) => (*x).into(),
            Self::Time(time) => time_text(*time).into(),
            Self::Name(text) | Self::Model(text) => text.clone().into(),
            Self::Path(path) => path.to_string_lossy().into_owned().into(),
        }
    }
}

/// Reads `"300ms"`, `"1.5s"`, `"2 min"`: an unsigned decimal number and its unit, exact to the nanosecond.
fn read_time(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let unit: u64 = match unit {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        _ => return None,
    };
    let number = number.trim_end_matches(' ');
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.len() > 9 {
        return None;
    }
    let part = digits(fraction)?.checked_mul(unit)? / 10_u64.pow(fraction.len() as u32);
    let nanos = digits(whole)?.checked_mul(unit)?.checked_add(part)?;
    Some(Duration::from_nanos(nanos))
}

/// An unsigned decimal number without sign or separators.
fn digits(text: &str) -> Option<u64> {
    // parse() alone would take "+5".
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// The shortest of the accepted spellings: below a second in ms, else in seconds.
#[must_use]
pub fn time_text(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (unit, name) = if nanos < 1_000_000_000 {
        (1_000_000, "ms")
    } else {
        (1_000_000_000, "s")
    };
    let fraction = format!(
        "{:0width$}",
        nanos % unit,
        width = if unit == 1_000_000 { 6 } else { 9 }
    );
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        format!("{}{name}", nanos / unit)
    } else {
        format!("{}.{fraction}{name}", nanos / unit)
    }
}

fn quoted(text: &str) -> String {
    const SHOWN: usize = 60; // characters: a pasted file must not flood the message
    if text.chars().count() > SHOWN {
        let start: String = text.chars().take(SHOWN).collect();
        format!("\"{start}…\"")
    } else {
        format!("\"{text}\"")
    }
}

/// A TOML value in words, for messages.
pub(super) fn describe(found: &DeValue<'_>) -> String {
    match found {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit_and_are_exact() {
        let ms = Duration::from_millis;
        assert_eq!(read_time("300ms"), Some(ms(300)));
        assert_eq!(read_time("1.5s"), Some(ms(1500)));
        assert_eq!(read_time("2 min"), Some(ms(120_000)));
        assert_eq!(read_time("0.000001ms"), Some(Duration::from_nanos(1)));
        for wrong in [
            "300",
            "",
            "ms",
            "-1s",
            "+1s",
            ".5s",
            "1h",
            "1e3ms",
            "99999999999999999999s",
            "1.0000000000s",
            "1 s ",
        ] {
            assert_eq!(read_time(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn times_are_written_as_people_write_them() {
        assert_eq!(time_text(Duration::from_millis(300)), "300ms");
        assert_eq!(time_text(Duration::from_millis(1500)), "1.5s");
        assert_eq!(time_text(Duration::from_secs(15)), "15s");
        assert_eq!(time_text(Duration::ZERO), "0ms");
    }

    #[test]
    fn a_message_says_what_was_expected_and_what_was_found() {
        let kind = Kind::Ratio {
            least: 0.0,
            most: 1.0,
        };
        assert_eq!(
            kind.read_text("2").unwrap_err().to_string(),
            "expected a number from 0 to 1, found \"2\""
        );
        assert!(kind.read_text("nan").is_err());
    }
}
