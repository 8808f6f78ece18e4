//! Wall time: what a person types and reads. Always UTC, because a log is read far from where it was written.

use std::fmt;
use std::time::Duration;

/// An instant on the wall clock of the device that wrote the log: nanoseconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub i64);

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

impl Wall {
    /// Whole seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(SECOND)
    }

    /// So much earlier.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)),
        )
    }

    /// `2026-11-24T08:30:05.250Z`.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let (year, month, day, second) = self.civil();
        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.0.rem_euclid(SECOND) / 1_000_000
        )
    }

    /// `08:30:05.250`.
    #[must_use]
    pub fn clock(self) -> String {
        let (.., second) = self.civil();
        format!(
            "{:02}:{:02}:{:02}.{:03}",
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.0.rem_euclid(SECOND) / 1_000_000
        )
    }

    /// `2026-11-24 08:30`.
    #[must_use]
    pub fn minute(self) -> String {
        let (year, month, day, second) = self.civil();
        format!(
            "{year:04}-{month:02}-{day:02} {:02}:{:02}",
            second / 3600,
            second / 60 % 60
        )
    }

    /// Year, month, day and second of the day.
    fn civil(self) -> (i64, i64, i64, i64) {
        let days = self.seconds().div_euclid(DAY);
        // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + i64::from(month <= 2);
        (year, month, day, self.seconds().rem_euclid(DAY))
    }

    fn of_civil(year: i64, month: i64, day: i64, second: i64) -> Self {
        // The same paper, days_from_civil.
        let y = if month <= 2 { year - 1 } else { year };
        let era = y.div_euclid(400);
        let yoe = y.rem_euclid(400);
        let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
        let days = era * 146_097 + doe - 719_468;
        Self((days * DAY + second).saturating_mul(SECOND))
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day, second) = self.civil();
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// A time that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WallError {
    /// Not an instant.
    #[error(
        "expected a time in UTC like 2026-11-24, 2026-11-24T08:30 or 2026-11-24T08:30:05+01:00, found {0:?}"
    )]
    Instant(String),
    /// Not a span.
    #[error("expected a span like 30s, 15min, 2h or 7d, found {0:?}")]
    Span(String),
    /// Two ends the wrong way round.
    #[error("the range ends before it begins")]
    Backwards,
}

impl std::str::FromStr for Wall {
    type Err = WallError;

    /// Reads a date, or a date and a time (`T` or a space between), in UTC if no offset is given.
    fn from_str(text: &str) -> Result<Self, WallError> {
        instant(text.trim()).ok_or_else(|| WallError::Instant(text.to_owned()))
    }
}

fn instant(text: &str) -> Option<Wall> {
    let number = |digits: &str, length: usize| {
        (digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse::<i64>().ok())?
    };
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let midnight = Wall::of_civil(year, month, day, 0);
    // The 31st of February is none.
    if midnight.civil() != (year, month, day, 0) {
        return None;
    }
    let Some(time) = time else {
        return Some(midnight);
    };
    let (time, offset) = if let Some(time) = time.strip_suffix(['Z', 'z']) {
        (time, 0)
    } else if let Some(at) = time.rfind(['+', '-']) {
        let (hours, minutes) = time[at + 1..].split_once(':')?;
        let seconds = number(hours, 2)? * 3600 + number(minutes, 2)? * 60;
        let sign = if time.as_bytes()[at] == b'-' { -1 } else { 1 };
        (&time[..at], sign * seconds)
    } else {
        (time, 0)
    };
    let mut parts = time.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (second, fraction) = match parts.next() {
        None => (0, 0),
        Some(second) => {
            let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
            if fraction.is_empty() || fraction.len() > 9 {
                return None;
            }
            (
                number(whole, 2)?,
                number(fraction, fraction.len())? * 10_i64.pow(9 - fraction.len() as u32),
            )
        }
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = hour * 3600 + minute * 60 + second - offset;
    Some(Wall(midnight.0.checked_add(seconds * SECOND + fraction)?))
}

/// A span of time that a person typed: `30s`, `15min`, `2h`, `7d`.
///
/// # Errors
/// When it is none.
pub fn span(text: &str) -> Result<Duration, WallError> {
    let refuse = || WallError::Span(text.to_owned());
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let seconds = match unit {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(refuse()),
    };
    let number: f64 = text[..text.len() - unit.len()]
        .parse()
        .map_err(|_| refuse())?;
    if !(number > 0.0 && number * seconds < 1e9) {
        return Err(refuse());
    }
    Ok(Duration::from_secs_f64(number * seconds))
}

/// From when to when; the end is not part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first instant.
    pub since: Option<Wall>,
    /// One past the last.
    pub until: Option<Wall>,
}

impl Range {
    /// Both ends, either of which may be open.
    ///
    /// # Errors
    /// When it ends before it begins.
    pub fn new(since: Option<Wall>, until: Option<Wall>) -> Result<Self, WallError> {
        if let (Some(since), Some(until)) = (since, until)
            && until <= since
        {
            return Err(WallError::Backwards);
        }
        Ok(Self { since, until })
    }

    /// Whether nothing is left out.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    /// Whether an instant is in it.
    #[must_use]
    pub fn holds(&self, at: Wall) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }
}

impl std::str::FromStr for Range {
    type Err = WallError;

    /// Reads `FROM..TO`; either may be left out.
    fn from_str(text: &str) -> Result<Self, WallError> {
        let (since, until) = text
            .split_once("..")
            .ok_or_else(|| WallError::Instant(text.to_owned()))?;
        let end = |text: &str| (!text.trim().is_empty()).then(|| text.parse()).transpose();
        Self::new(end(since)?, end(until)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_date_1_prints_them() {
        // `date -u -d '2026-11-24T08:30:05' +%s` and so on, GNU coreutils.
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2026-11-24", 1_795_478_400),
            ("2026-11-24T08:30", 1_795_509_000),
            ("2026-11-24 08:30:05", 1_795_509_005),
            ("2026-11-24T08:30:05Z", 1_795_509_005),
            ("2026-11-24T08:30:05+01:00", 1_795_505_405),
            ("2000-02-29T23:59:59-00:30", 951_870_599),
        ] {
            let wall: Wall = text.parse().unwrap();
            assert_eq!(wall.seconds(), seconds, "{text}");
        }
        let wall: Wall = "2026-11-24T08:30:05.25".parse().unwrap();
        assert_eq!(wall.rfc3339(), "2026-11-24T08:30:05.250Z");
        assert_eq!(wall.to_string(), "2026-11-24 08:30:05");
        assert_eq!(Wall(-1_000_000_000).rfc3339(), "1969-12-31T23:59:59.000Z");
    }

    #[test]
    fn what_is_no_time_is_refused_with_an_example() {
        for text in [
            "",
            "now",
            "2026-02-31",
            "2026-13-01",
            "24.11.2026",
            "2026-11-24T25:00",
            "2026-11-24T08",
            "2026-11-24T08:30:05.",
            "2026-11-24T08:30+1",
            "９999-01-01",
        ] {
            let error = text.parse::<Wall>().unwrap_err().to_string();
            assert!(error.contains("2026-11-24T08:30"), "{text}: {error}");
        }
        for text in ["", "5", "h", "-1h", "1y", "0s", "1e9d"] {
            assert!(span(text).is_err(), "{text}");
        }
        assert_eq!(span("1.5h").unwrap(), Duration::from_secs(5400));
    }

    #[test]
    fn a_range_has_its_beginning_and_not_its_end() {
        let range: Range = "2026-11-24T08:00..2026-11-24T09:00".parse().unwrap();
        let at = |text: &str| text.parse::<Wall>().unwrap();
        assert!(range.holds(at("2026-11-24T08:00")));
        assert!(!range.holds(at("2026-11-24T09:00")));
        assert!("2026-11-24..2026-11-23".parse::<Range>().is_err());
        assert!("..".parse::<Range>().unwrap().is_everything());
    }
}
