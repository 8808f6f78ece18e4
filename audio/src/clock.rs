//! The one clock (CLOCK_MONOTONIC) and the one unit of position in a stream.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// The rate of everything behind the resampler, in hertz.
pub const SAMPLE_RATE: u32 = 16_000;

/// An instant on CLOCK_MONOTONIC, in nanoseconds since an unspecified start (boot, on Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The present instant.
    #[must_use]
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Self((t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64)
    }

    /// An instant from nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero where `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Stamp {
    type Output = Self;

    fn add(self, d: Duration) -> Self {
        Self(self.0 + d.as_nanos() as u64)
    }
}

/// A count of samples, or a position in a stream, at 16 kHz mono (62.5 µs each).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Samples(pub u64);

impl Samples {
    /// The whole samples in a duration (rounded to the nearest).
    #[must_use]
    pub const fn from_duration(d: Duration) -> Self {
        Self(((d.as_nanos() * SAMPLE_RATE as u128 + 500_000_000) / 1_000_000_000) as u64)
    }

    /// How long these samples last.
    #[must_use]
    pub const fn duration(self) -> Duration {
        // In 64 bits the product would overflow after 13 days of sound.
        let nanos = self.0 as u128 * 1_000_000_000 / SAMPLE_RATE as u128;
        Duration::from_nanos(nanos as u64)
    }

    /// Seconds, for people.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / f64::from(SAMPLE_RATE)
    }

    /// `self − other`, not below zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Samples {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Samples {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let first = Stamp::now();
        assert!(Stamp::now() >= first);
        assert!(first.as_nanos() > 0);
    }

    #[test]
    fn time_since_a_later_instant_is_zero() {
        let (early, late) = (Stamp::from_nanos(1_000), Stamp::from_nanos(3_500));
        assert_eq!(late.since(early), Duration::from_nanos(2_500));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early + Duration::from_nanos(2_500), late);
    }

    // A sample lasts 1/16000 s = 62.5 µs.
    #[test]
    fn samples_and_durations_convert_both_ways() {
        assert_eq!(Samples(1).duration(), Duration::from_nanos(62_500));
        assert_eq!(Samples(16_000).duration(), Duration::from_secs(1));
        assert_eq!(
            Samples::from_duration(Duration::from_millis(30)),
            Samples(480)
        );
        assert_eq!(
            Samples::from_duration(Duration::from_nanos(31_249)),
            Samples(0)
        );
        assert_eq!(
            Samples::from_duration(Duration::from_nanos(31_250)),
            Samples(1)
        );
        // A year of sound does not overflow.
        let year = Duration::from_secs(365 * 86_400);
        assert_eq!(Samples::from_duration(year).duration(), year);
    }

    #[test]
    fn positions_add_subtract_and_print_as_seconds() {
        assert_eq!(Samples(5) + Samples(3), Samples(8));
        assert_eq!(Samples(5) - Samples(3), Samples(2));
        assert_eq!(Samples(3).saturating_sub(Samples(5)), Samples(0));
        assert_eq!(Samples(24_000).to_string(), "1.500 s");
        assert_eq!(Samples(8_000).seconds(), 0.5);
    }
}
