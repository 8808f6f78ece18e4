//! What Hugging Face's templates may call beyond Jinja itself: `raise_exception`, `strftime_now`, its `tojson`.

use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize as _;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::source::BOUNDED;

/// Begins the message of an error that the template itself raised; U+FDEF is no character, so no other message has it.
pub(super) const RAISED: char = '\u{FDEF}';

/// The longest value that a template may put into a variable, in bytes.
pub(super) const MOST_VALUE: usize = 8 << 20;

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_function(
        "raise_exception",
        |reason: String| -> Result<Value, Error> {
            Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{RAISED}{reason}"),
            ))
        },
    );
    environment.add_function(BOUNDED, |value: Value| -> Result<Value, Error> {
        if value.as_str().is_some_and(|text| text.len() > MOST_VALUE) {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "a variable's text grows without bound",
            ));
        }
        Ok(value)
    });
    environment.add_filter("tojson", to_json);
}

/// `json.dumps(value, ensure_ascii=False, indent=…)`, as `tojson` is in Hugging Face's templates: spaces after `:` and
/// `,`, nothing escaped for HTML.
fn to_json(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get("indent")?,
    };
    // Taken and of no effect: text is never escaped, keys stay as they come.
    let _: Option<bool> = options.get("ensure_ascii")?;
    let _: Option<bool> = options.get("sort_keys")?;
    let _: Option<Value> = options.get("separators")?;
    options.assert_all_used()?;
    let mut out = Vec::new();
    let written = match indent {
        Some(indent) => {
            let spaces = " ".repeat(indent.min(16));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, Spaced)),
    };
    let wrong = |reason: String| Error::new(ErrorKind::InvalidOperation, reason);
    written.map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(out).map_err(|error| wrong(error.to_string()))?;
    Ok(Value::from(text))
}

/// Python's separators.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

const DAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Python's `strftime` in UTC, for the directives that templates use; others stay as they are.
pub(super) fn strftime(format: &str, now: SystemTime) -> String {
    let seconds = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let days = seconds / 86_400;
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let weekday = DAYS[(days % 7) as usize];
    let name = MONTHS[(month - 1) as usize];
    let mut out = Vec::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        // Writing into memory cannot fail.
        let _ = match character {
            '%' => match characters.next() {
                Some('d') => write!(out, "{day:02}"),
                Some('m') => write!(out, "{month:02}"),
                Some('Y') => write!(out, "{year}"),
                Some('y') => write!(out, "{:02}", year % 100),
                Some('b' | 'h') => write!(out, "{}", &name[..3]),
                Some('B') => write!(out, "{name}"),
                Some('a') => write!(out, "{}", &weekday[..3]),
                Some('A') => write!(out, "{weekday}"),
                Some('H') => write!(out, "{hour:02}"),
                Some('M') => write!(out, "{minute:02}"),
                Some('S') => write!(out, "{second:02}"),
                Some('F') => write!(out, "{year}-{month:02}-{day:02}"),
                Some('%') => write!(out, "%"),
                Some(other) => write!(out, "%{other}"),
                None => write!(out, "%"),
            },
            other => write!(out, "{other}"),
        };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Year, month and day of a day since 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_python() {
        // datetime.fromtimestamp(n, timezone.utc).strftime("%d %b %Y|%A %B|%H:%M:%S|%y%m%d")
        let cases = [
            (0, "01 Jan 1970|Thursday January|00:00:00|700101"),
            (951_782_400, "29 Feb 2000|Tuesday February|00:00:00|000229"),
            (
                1_735_689_599,
                "31 Dec 2024|Tuesday December|23:59:59|241231",
            ),
            (4_102_444_800, "01 Jan 2100|Friday January|00:00:00|000101"),
        ];
        for (seconds, expected) in cases {
            let now = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(strftime("%d %b %Y|%A %B|%H:%M:%S|%y%m%d", now), expected);
        }
    }
}
