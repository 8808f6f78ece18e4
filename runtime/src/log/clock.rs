//! The three clocks of a device: the monotonic one, by which everything is measured; the wall, which may be set; and the one
//! that goes on while the device sleeps. Their differences say where a segment lies in history, and what time did meanwhile.

use std::time::Duration;

use firstword_audio::clock::Stamp;
use rustix::time::{ClockId, clock_gettime};

/// So many times the clocks are read; the closest reading counts.
const TRIES: usize = 5;
/// NTP may turn the wall's pace by 500 ppm (adjtimex(2)); and a reading is this exact at worst.
const SLEW_PER_MILLION: u64 = 500;
/// A step or a sleep below this is none.
const LEAST: Duration = Duration::from_millis(20);

/// The clocks at one instant, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// CLOCK_MONOTONIC.
    pub mono: Stamp,
    /// CLOCK_REALTIME: since 1970-01-01 00:00 UTC.
    pub wall_ns: i64,
    /// Wall − monotonic.
    pub wall_offset_ns: i64,
    /// The wall was read within so much of `mono`, either way.
    pub uncertainty_ns: u64,
    /// CLOCK_BOOTTIME − CLOCK_MONOTONIC: how long the device has slept since its start.
    pub slept_ns: i64,
}

impl Reading {
    /// Reads them now.
    #[must_use]
    pub fn now() -> Self {
        let one = || {
            let before = nanos(ClockId::Monotonic);
            let wall = nanos(ClockId::Realtime);
            let boot = nanos(ClockId::Boottime);
            let after = nanos(ClockId::Monotonic);
            let mono = before + (after - before) / 2;
            Self {
                mono: Stamp::from_nanos(mono as u64),
                wall_ns: wall,
                wall_offset_ns: wall - mono,
                // Half of the span, rounded up.
                uncertainty_ns: ((after - before + 1) / 2) as u64,
                slept_ns: (boot - mono).max(0),
            }
        };
        let mut best = one();
        for _ in 1..TRIES {
            let next = one();
            if next.uncertainty_ns < best.uncertainty_ns {
                best = next;
            }
        }
        // Within the exactness of a reading, a device that never slept has slept for no time.
        if best.slept_ns.unsigned_abs() <= best.uncertainty_ns {
            best.slept_ns = 0;
        }
        best
    }
}

fn nanos(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec * 1_000_000_000 + t.tv_nsec as i64
}

/// Something that time did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Oddity {
    /// The device slept for so long.
    Suspend(Duration),
    /// The wall clock was set: forward by so many nanoseconds, or back.
    Step(i64),
}

/// What time did between two readings: the monotonic clock stands still while the device sleeps, the wall goes on; what the
/// wall moved beyond that and beyond NTP's pace was a step.
#[must_use]
pub fn oddities(before: &Reading, now: &Reading) -> [Option<Oddity>; 2] {
    let slept = now.slept_ns - before.slept_ns;
    let suspend = u64::try_from(slept)
        .map(Duration::from_nanos)
        .ok()
        .filter(|slept| *slept >= LEAST);
    let moved = now.wall_offset_ns - before.wall_offset_ns - slept;
    let passed = now.mono.since(before.mono).as_nanos() as u64 + slept.max(0) as u64;
    let slew = passed / 1_000_000 * SLEW_PER_MILLION;
    let least = LEAST.as_nanos() as u64 + slew + before.uncertainty_ns + now.uncertainty_ns;
    let step = (moved.unsigned_abs() >= least).then_some(Oddity::Step(moved));
    [suspend.map(Oddity::Suspend), step]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn at(mono_ms: u64, offset_ms: i64, slept_ms: i64) -> Reading {
        Reading {
            mono: Stamp::from_nanos(mono_ms * MS as u64),
            wall_ns: mono_ms as i64 * MS + offset_ms * MS,
            wall_offset_ns: offset_ms * MS,
            uncertainty_ns: 500,
            slept_ns: slept_ms * MS,
        }
    }

    #[test]
    fn a_reading_is_close_and_holds_together() {
        let reading = Reading::now();
        assert_eq!(
            reading.wall_ns - reading.wall_offset_ns,
            reading.mono.as_nanos() as i64
        );
        // 2026-01-01; this was written later.
        assert!(reading.wall_ns > 1_767_225_600_000_000_000);
        assert!(reading.uncertainty_ns < 50 * MS as u64);
        assert_eq!(oddities(&reading, &Reading::now()), [None, None]);
    }

    #[test]
    fn sleep_and_a_set_clock_are_told_apart() {
        let before = at(1_000, 5_000, 0);
        // Nothing: a second, and what NTP may add to it.
        assert_eq!(oddities(&before, &at(2_000, 5_000, 0)), [None, None]);
        // Half a millisecond a second is NTP's pace: 1800 ms in an hour.
        assert_eq!(oddities(&before, &at(3_601_000, 6_790, 0)), [None, None]);
        // Eight seconds of sleep: the monotonic clock stood still, the wall did not.
        assert_eq!(
            oddities(&before, &at(1_100, 13_000, 8_000)),
            [Some(Oddity::Suspend(Duration::from_secs(8))), None]
        );
        // Set back by an hour.
        assert_eq!(
            oddities(&before, &at(2_000, 5_000 - 3_600_000, 0)),
            [None, Some(Oddity::Step(-3_600_000 * MS))]
        );
        // Both: slept a second, then set two seconds forward.
        assert_eq!(
            oddities(&before, &at(1_200, 8_000, 1_000)),
            [
                Some(Oddity::Suspend(Duration::from_secs(1))),
                Some(Oddity::Step(2_000 * MS))
            ]
        );
    }
}
