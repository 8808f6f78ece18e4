//! The lock-free ring between the capturing and the recognising side: one producer, one consumer,
//! native interleaved samples and, beside them, the instant at which each pushed slice was captured.
//!
//! `push` and `pop` allocate nothing, take no lock and make no system call, so that the producer may
//! be a real-time callback. Two rtrb rings carry the data: samples, and one `Slice` per push. A
//! slice's description is published before its samples, so the reader never sees a sample whose
//! capture time it does not know.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::Stamp;
use crate::source::Format;

/// How long the waiting calls sleep between two looks. Small beside a 10 ms capture period.
const POLL: Duration = Duration::from_millis(2);

/// What one accepted push was: which frames, captured when.
#[derive(Clone, Copy)]
struct Slice {
    /// Frames pushed since the start, this slice included.
    end: u64,
    /// The instant of the slice's last frame.
    captured: Stamp,
    /// Frames that the producer dropped just before this slice.
    lost_before: u64,
}

#[derive(Default)]
struct Shared {
    dropped: AtomicU64,
    writer_gone: AtomicBool,
    reader_gone: AtomicBool,
}

/// The producing side.
pub struct Writer {
    samples: rtrb::Producer<f32>,
    slices: rtrb::Producer<Slice>,
    shared: Arc<Shared>,
    format: Format,
    end: u64,
    lost: u64,
}

/// The consuming side.
pub struct Reader {
    samples: rtrb::Consumer<f32>,
    slices: rtrb::Consumer<Slice>,
    shared: Arc<Shared>,
    format: Format,
    position: u64,
    current: Option<Slice>,
    /// Capture stamp of the slice before the current one: no later frame is older.
    earliest: Stamp,
}

/// What [`Reader::pop`] delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Frames written to the front of the buffer.
    pub frames: usize,
    /// The instant at which the last of them was captured.
    pub captured: Stamp,
    /// Frames that the producer had to drop just before the first of them. Zero for every block that
    /// follows the one before it without a gap; a gap is never inside a block.
    pub lost_before: u64,
}

/// A ring for `capacity_frames` frames of this format (at least one).
#[must_use]
pub fn ring(format: Format, capacity_frames: usize) -> (Writer, Reader) {
    let frames = capacity_frames.max(1);
    let (samples_in, samples_out) = rtrb::RingBuffer::new(frames * usize::from(format.channels));
    // Enough descriptions for slices of 16 frames; a driver's period is longer than that.
    let (slices_in, slices_out) = rtrb::RingBuffer::new((frames / 16).clamp(64, 4096));
    let shared = Arc::new(Shared::default());
    let writer = Writer {
        samples: samples_in,
        slices: slices_in,
        shared: Arc::clone(&shared),
        format,
        end: 0,
        lost: 0,
    };
    let reader = Reader {
        samples: samples_out,
        slices: slices_out,
        shared,
        format,
        position: 0,
        current: None,
        earliest: Stamp::default(),
    };
    (writer, reader)
}

/// How long `frames` last at `rate` hertz.
fn lasting(frames: u64, rate: u32) -> Duration {
    let nanos = u128::from(frames) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// `frames` earlier than `stamp`.
fn before(stamp: Stamp, frames: u64, rate: u32) -> Stamp {
    Stamp::from_nanos(
        stamp
            .as_nanos()
            .saturating_sub(lasting(frames, rate).as_nanos() as u64),
    )
}

impl Writer {
    /// Rate and channel count of the frames.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Pushes whole interleaved frames (f32, −1…1). `captured` is the instant of the **last** frame of
    /// the slice. Returns how many frames were accepted, from the front; what does not fit is the
    /// caller's to keep or to drop (then see [`Writer::overrun`]). Samples that make no whole frame
    /// are ignored. Allocates nothing, takes no lock.
    pub fn push(&mut self, interleaved: &[f32], captured: Stamp) -> usize {
        let channels = usize::from(self.format.channels);
        let offered = interleaved.len() / channels;
        let frames = offered.min(self.samples.slots() / channels);
        if frames == 0 {
            return 0;
        }
        let slice = Slice {
            end: self.end + frames as u64,
            captured: before(captured, (offered - frames) as u64, self.format.sample_rate),
            lost_before: self.lost,
        };
        if self.slices.push(slice).is_err() {
            return 0;
        }
        self.lost = 0;
        self.end = slice.end;
        // All of it fits: the room was looked at above, and only this side makes it less.
        let _ = self
            .samples
            .push_partial_slice(&interleaved[..frames * channels]);
        frames
    }

    /// Counts frames that a live producer had to drop because the ring was full; the reader sees the
    /// sum in [`Reader::dropped_frames`] and the place in [`Block::lost_before`].
    pub fn overrun(&mut self, frames: usize) {
        self.lost += frames as u64;
        self.shared
            .dropped
            .fetch_add(frames as u64, Ordering::Relaxed);
    }

    /// Pushes everything, sleeping while the ring is full: for files, never for a real-time callback.
    /// Returns false, with the rest unpushed, once the reader is gone.
    pub fn push_all(&mut self, interleaved: &[f32], captured: Stamp) -> bool {
        let channels = usize::from(self.format.channels);
        let mut rest = interleaved;
        while rest.len() >= channels {
            if self.is_abandoned() {
                return false;
            }
            match self.push(rest, captured) {
                0 => thread::sleep(POLL),
                n => rest = &rest[n * channels..],
            }
        }
        !self.is_abandoned()
    }

    /// True once the reader is gone: nothing pushed from now on will be seen.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.shared.reader_gone.load(Ordering::Acquire)
    }

    /// The end of the stream; dropping the writer says the same.
    pub fn close(self) {}
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Release: whoever sees the flag sees every sample pushed before it.
        self.shared.writer_gone.store(true, Ordering::Release);
    }
}

impl Reader {
    /// Rate and channel count of the frames.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Pops as many whole frames as are there and fit into `out`, up to the next gap. `None`: nothing
    /// now (see [`Reader::is_finished`]), or `out` is shorter than a frame. Allocates nothing, takes
    /// no lock.
    pub fn pop(&mut self, out: &mut [f32]) -> Option<Block> {
        let channels = usize::from(self.format.channels);
        let ready = (self.samples.slots() / channels).min(out.len() / channels);
        if ready == 0 {
            return None;
        }
        let (mut slice, lost_before) = match self.current {
            Some(slice) => (slice, 0),
            None => {
                let slice = self.slices.pop().ok()?;
                (slice, slice.lost_before)
            }
        };
        let mut end = self.position + ready as u64;
        while slice.end < end {
            match self.slices.peek() {
                Ok(next) if next.lost_before == 0 => {
                    self.earliest = slice.captured;
                    slice = *next;
                    // Just seen by peek: the pop cannot fail, and its value is the same.
                    let _ = self.slices.pop();
                }
                _ => end = slice.end,
            }
        }
        let frames = (end - self.position) as usize;
        // All of it is there: only this side takes samples out.
        let _ = self
            .samples
            .pop_partial_slice(&mut out[..frames * channels]);
        self.position = end;
        self.current = (slice.end > end).then_some(slice);
        // A file is read faster than it was spoken: counted back by the sample rate alone, its frames
        // would be older than those before them.
        let captured = before(slice.captured, slice.end - end, self.format.sample_rate)
            .max(self.earliest.min(slice.captured));
        if self.current.is_none() {
            self.earliest = slice.captured;
        }
        Some(Block {
            frames,
            captured,
            lost_before,
        })
    }

    /// True once the writer is gone and everything it pushed has been popped.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // In this order: after the flag nothing more is pushed.
        self.is_closed() && self.samples.is_empty()
    }

    /// True once the writer is gone: what is in the ring now is all that comes.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.writer_gone.load(Ordering::Acquire)
    }

    /// Frames dropped by the producer so far.
    #[must_use]
    pub fn dropped_frames(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Frames that can be popped now.
    #[must_use]
    pub fn ready_frames(&self) -> usize {
        self.samples.slots() / usize::from(self.format.channels)
    }

    /// Sleeps until frames are there or the stream has ended (true), or the time is over (false).
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        loop {
            if !self.samples.is_empty() || self.is_finished() {
                return true;
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(POLL));
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("format", &self.format)
            .field("ready_frames", &self.ready_frames())
            .finish_non_exhaustive()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.reader_gone.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONO: Format = Format {
        sample_rate: 1_000,
        channels: 1,
    };
    const STEREO: Format = Format {
        sample_rate: 1_000,
        channels: 2,
    };

    fn at(millis: u64) -> Stamp {
        Stamp::from_nanos(millis * 1_000_000)
    }

    // At 1 kHz a frame lasts one millisecond, so every expected stamp below is counted on fingers.

    #[test]
    fn frames_read_faster_than_spoken_are_not_older_than_those_before_them() {
        let (mut writer, mut reader) = ring(MONO, 100);
        writer.push(&[0.0; 10], at(1000));
        writer.push(&[0.0; 10], at(1001));
        writer.push(&[0.0; 10], at(1002));
        let mut out = [0.0; 8];
        let stamps: Vec<Stamp> = std::iter::from_fn(|| reader.pop(&mut out))
            .map(|block| block.captured)
            .collect();
        // Frames 8, 16, 24, 30 lie in slices 1, 2, 3, 3; 998 is 1000 less two frames.
        assert_eq!(stamps, [at(998), at(1000), at(1001), at(1002)]);
    }

    #[test]
    fn a_block_inside_a_slice_is_stamped_by_counting_frames_back() {
        let (mut w, mut r) = ring(MONO, 16);
        assert_eq!(w.push(&[0.0; 10], at(100)), 10);
        let mut out = [0.0; 4];
        assert_eq!(
            r.pop(&mut out).unwrap(),
            Block {
                frames: 4,
                captured: at(94),
                lost_before: 0
            }
        );
        assert_eq!(r.pop(&mut out).unwrap().captured, at(98));
        assert_eq!(
            r.pop(&mut out).unwrap(),
            Block {
                frames: 2,
                captured: at(100),
                lost_before: 0
            }
        );
        assert_eq!(r.pop(&mut out), None);
    }

    #[test]
    fn a_block_over_several_slices_has_the_last_ones_stamp() {
        let (mut w, mut r) = ring(STEREO, 16);
        for i in 1..=4_u64 {
            w.push(&[i as f32; 4], at(10 * i));
        }
        let mut out = [0.0; 14];
        let block = r.pop(&mut out).unwrap();
        assert_eq!(
            block,
            Block {
                frames: 7,
                captured: at(39),
                lost_before: 0
            }
        );
        assert_eq!(out[12], 4.0);
    }

    #[test]
    fn what_does_not_fit_stays_with_the_caller_and_the_stamp_is_that_of_the_accepted_part() {
        let (mut w, mut r) = ring(MONO, 8);
        assert_eq!(w.push(&[0.5; 10], at(50)), 8);
        assert_eq!(w.push(&[0.5; 2], at(50)), 0);
        let mut out = [0.0; 8];
        assert_eq!(r.pop(&mut out).unwrap().captured, at(48));
        assert_eq!(w.push(&[0.5; 2], at(50)), 2);
        assert_eq!(r.pop(&mut out).unwrap().captured, at(50));
    }

    #[test]
    fn a_gap_is_between_blocks_and_is_counted() {
        let (mut w, mut r) = ring(MONO, 16);
        w.push(&[1.0; 4], at(4));
        w.overrun(5);
        w.overrun(1);
        w.push(&[2.0; 4], at(14));
        let mut out = [0.0; 16];
        assert_eq!(
            r.pop(&mut out).unwrap(),
            Block {
                frames: 4,
                captured: at(4),
                lost_before: 0
            }
        );
        assert_eq!(
            r.pop(&mut out).unwrap(),
            Block {
                frames: 4,
                captured: at(14),
                lost_before: 6
            }
        );
        assert_eq!(r.dropped_frames(), 6);
    }

    #[test]
    fn half_a_frame_is_not_pushed_and_not_popped() {
        let (mut w, mut r) = ring(STEREO, 8);
        assert_eq!(w.push(&[1.0, 2.0, 3.0], at(1)), 1);
        assert_eq!(r.pop(&mut [0.0]), None);
        let mut out = [0.0; 3];
        assert_eq!(r.pop(&mut out).unwrap().frames, 1);
        assert_eq!(out, [1.0, 2.0, 0.0]);
    }

    #[test]
    fn a_flood_of_tiny_slices_is_refused_rather_than_left_without_stamps() {
        let (mut w, mut r) = ring(MONO, 1_000);
        let accepted: usize = (0..1_000).map(|i| w.push(&[0.0], at(i))).sum();
        assert_eq!(accepted, 64);
        let mut out = [0.0; 1_000];
        assert_eq!(
            r.pop(&mut out).unwrap(),
            Block {
                frames: 64,
                captured: at(63),
                lost_before: 0
            }
        );
        assert_eq!(w.push(&[0.0], at(64)), 1);
    }

    #[test]
    fn the_end_comes_after_the_last_sample() {
        let (mut w, mut r) = ring(MONO, 8);
        w.push(&[1.0], at(1));
        assert!(!r.is_finished());
        w.close();
        assert!(!r.is_finished());
        assert!(r.wait(Duration::ZERO));
        r.pop(&mut [0.0]).unwrap();
        assert!(r.is_finished());
        assert!(r.wait(Duration::ZERO));
    }

    #[test]
    fn a_file_producer_stops_when_nobody_reads() {
        let (mut w, r) = ring(MONO, 8);
        drop(r);
        assert!(!w.push_all(&[0.0; 100], at(1)));
    }

    #[test]
    fn waiting_for_nothing_ends() {
        let (_w, r) = ring(MONO, 8);
        assert!(!r.wait(Duration::from_millis(5)));
    }
}
