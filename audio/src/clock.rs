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
        Duration::from_nanos(self.0 * 1_000_000_000 / SAMPLE_RATE as u64)
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
