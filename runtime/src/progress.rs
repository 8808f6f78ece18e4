//! Progress on standard error: only on a terminal, only for work that takes long enough to wonder about.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use firstword_audio::clock::{SAMPLE_RATE, Samples};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::printable;

/// A recording shorter than this is done before a bar could be read.
const WORTH_SHOWING: Samples = Samples(10 * SAMPLE_RATE as u64);
/// Characters of a name beside a bar: bar and numbers need the rest of 80 columns.
const NAME: usize = 32;

/// The way through one recording, or through one download.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Progress {
    /// Nothing is shown.
    #[must_use]
    pub fn hidden() -> Self {
        Self {
            bar: None,
            began: Instant::now(),
        }
    }

    /// Through a recording. `total` is its length where it is known. With `in_place` (partials are rewritten on
    /// the same terminal) nothing is shown.
    #[must_use]
    pub fn recording(name: &str, total: Option<Samples>, in_place: bool) -> Self {
        let short = total.is_some_and(|total| total < WORTH_SHOWING);
        if in_place || short || !io::stderr().is_terminal() {
            return Self::hidden();
        }
        let template = match total {
            Some(_) => "{prefix} {bar:30} {percent:>3} % {msg}",
            None => "{prefix} {spinner} {msg}",
        };
        // Hundredths of a second: fine enough for any bar, and far from any overflow.
        Self::shown(name, total.map(hundredths), template)
    }

    /// Through a download of `total` bytes, where that is known.
    #[must_use]
    pub fn download(name: &str, total: Option<u64>) -> Self {
        if !io::stderr().is_terminal() {
            return Self::hidden();
        }
        let template = match total {
            Some(_) => "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}",
            None => "{prefix} {spinner} {bytes} {bytes_per_sec}",
        };
        Self::shown(name, total, template)
    }

    fn shown(name: &str, total: Option<u64>, template: &str) -> Self {
        // 10 pictures a second.
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(short(name));
        Self {
            bar: Some(bar),
            began: Instant::now(),
        }
    }

    /// The recording has been heard up to `position`.
    pub fn advance(&self, position: Samples) {
        let Some(bar) = &self.bar else { return };
        if bar.length().is_none() && position < WORTH_SHOWING {
            return;
        }
        bar.set_message(speed(position, self.began.elapsed()));
        bar.set_position(hundredths(position));
    }

    /// `bytes` have arrived so far.
    pub fn arrived(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }

    /// Runs `write` with the bar off the screen, so that lines and bar do not mix.
    pub fn suspend<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar off the screen.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// A name that leaves room for the bar; its end tells more than its beginning.
fn short(name: &str) -> String {
    let name = printable(name);
    let length = name.chars().count();
    if length <= NAME {
        return name.into_owned();
    }
    let end = name.chars().skip(length - (NAME - 1));
    std::iter::once('…').chain(end).collect()
}

fn hundredths(position: Samples) -> u64 {
    position.0 / u64::from(SAMPLE_RATE / 100)
}

/// `1:02:03, 31 × real time`; no speed before there is one to tell.
fn speed(position: Samples, elapsed: Duration) -> String {
    let seconds = position.0 / u64::from(SAMPLE_RATE);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let heard = if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    };
    if elapsed < Duration::from_millis(200) {
        return heard;
    }
    let times = position.seconds() / elapsed.as_secs_f64();
    let digits = if times < 10.0 { 1 } else { 0 };
    format!("{heard}, {times:.digits$} × real time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_shows_its_end() {
        // 1 + 8 + 1 + 10 + 1 + 11 characters.
        assert_eq!(
            short("/srv/recordings/2026-11-30/meeting.wav"),
            "…cordings/2026-11-30/meeting.wav"
        );
        assert_eq!(short("talk.wav"), "talk.wav");
    }

    #[test]
    fn speed_is_told_in_multiples_of_real_time() {
        // 3 723 s of sound in 120 s: 31.025 times real time.
        let heard = Samples(3_723 * 16_000);
        assert_eq!(
            speed(heard, Duration::from_secs(120)),
            "1:02:03, 31 × real time"
        );
        assert_eq!(
            speed(Samples(16_000), Duration::from_secs(2)),
            "0:01, 0.5 × real time"
        );
        assert_eq!(speed(Samples(16_000), Duration::ZERO), "0:01");
    }
}
