//! The reading side: a thread that reads a source and fills the ring, as a sound card's callback
//! would. Whatever produces the sound, the recognising side only ever sees the ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use firstword_audio::clock::Stamp;
use firstword_audio::ring::{Reader, ring};
use firstword_audio::{Error, Format, Source};

/// How fast a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it gives and the ring takes.
    Unbounded,
    /// One second of sound per second, as a microphone would.
    RealTime,
}

/// How much sound the ring holds.
pub(super) const CAPACITY: Duration = Duration::from_secs(2);
/// How much sound is pushed at once in real time: a usual sound card period.
const PERIOD: Duration = Duration::from_millis(20);

/// A source being read.
#[derive(Debug)]
pub struct Feed {
    /// The ring.
    pub reader: Reader,
    /// Length of the source in frames, where it is known.
    pub frames: Option<u64>,
    spent: Arc<AtomicU64>,
    ended: mpsc::Receiver<Outcome>,
}

/// How the reading ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The source could not be read to its end.
    pub error: Option<Error>,
    /// What was wrong with it and survived, one line each.
    pub damage: Vec<String>,
}

impl Feed {
    /// Opens a source with `open` and reads it, both in a thread of its own: a pipe may keep
    /// either waiting. `give_up` is asked now and then whether to stop waiting.
    ///
    /// # Errors
    ///
    /// What `open` says; `None` if `give_up` said so.
    pub fn start(
        open: impl FnOnce() -> Result<Box<dyn Source>, Error> + Send + 'static,
        pace: Pace,
        give_up: impl Fn() -> bool,
    ) -> Result<Self, Option<Error>> {
        let (opened, opening) = mpsc::sync_channel(1);
        let (end, ended) = mpsc::sync_channel(1);
        let spent = Arc::new(AtomicU64::new(0));
        let time = Arc::clone(&spent);
        // Not joined: a thread that waits on a pipe for ever must not keep the program.
        thread::spawn(move || {
            let before = Stamp::now();
            let source = match open() {
                Ok(source) => source,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            time.fetch_add(
                Stamp::now().since(before).as_nanos() as u64,
                Ordering::Relaxed,
            );
            let format = source.format();
            let (writer, reader) = ring(format, frames_in(CAPACITY, format));
            if opened.send(Ok((reader, source.frames()))).is_err() {
                return;
            }
            let _ = end.send(read(source, writer, pace, &time));
        });
        loop {
            match opening.recv_timeout(Duration::from_millis(50)) {
                Ok(Ok((reader, frames))) => {
                    return Ok(Self {
                        reader,
                        frames,
                        spent,
                        ended,
                    });
                }
                Ok(Err(error)) => return Err(Some(error)),
                Err(RecvTimeoutError::Timeout) if !give_up() => {}
                Err(RecvTimeoutError::Timeout) => return Err(None),
                // The thread is gone without a word: it panicked, and said so on stderr.
                Err(RecvTimeoutError::Disconnected) => return Err(Some(gone())),
            }
        }
    }

    /// The time spent on reading since the last call.
    pub fn take_spent(&self) -> Duration {
        Duration::from_nanos(self.spent.swap(0, Ordering::Relaxed))
    }

    /// How the reading ended; to be asked once the ring is finished.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        self.ended.recv().unwrap_or_else(|_| Outcome {
            error: Some(gone()),
            damage: Vec::new(),
        })
    }
}

fn gone() -> Error {
    Error::Io(std::io::Error::other("the reading thread ended early"))
}

fn frames_in(time: Duration, format: Format) -> usize {
    (time.as_millis() as u64 * u64::from(format.sample_rate)).div_ceil(1000) as usize
}

fn read(
    mut source: Box<dyn Source>,
    mut writer: firstword_audio::ring::Writer,
    pace: Pace,
    spent: &AtomicU64,
) -> Outcome {
    let format = source.format();
    let period = frames_in(PERIOD, format);
    let most = match pace {
        Pace::Unbounded => period * 5,
        Pace::RealTime => period,
    };
    let began = Stamp::now();
    let mut frames = 0;
    let mut block = Vec::new();
    loop {
        block.clear();
        let before = Stamp::now();
        let read = source.read(&mut block, most);
        let mut captured = Stamp::now();
        spent.fetch_add(captured.since(before).as_nanos() as u64, Ordering::Relaxed);
        match read {
            Ok(0) => break,
            Ok(read) => frames += read as u64,
            Err(error) => {
                return Outcome {
                    error: Some(error),
                    damage: source.damage(),
                };
            }
        }
        if pace == Pace::RealTime {
            // The last frame of the block is "spoken" this long after the first.
            let due = began + Duration::from_secs_f64(format.seconds(frames));
            thread::sleep(due.since(captured));
            captured = due.max(captured);
        }
        if !writer.push_all(&block, captured) {
            break;
        }
    }
    Outcome {
        error: None,
        damage: source.damage(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstword_audio::raw::{Raw, Sample};

    const MONO: Format = Format {
        sample_rate: 1000,
        channels: 1,
    };

    fn raw(bytes: &'static [u8]) -> Result<Box<dyn Source>, Error> {
        Ok(Box::new(Raw::new(bytes, Sample::U8, MONO)?))
    }

    fn drain(feed: &mut Feed) -> usize {
        let mut buffer = [0.0; 64];
        let mut frames = 0;
        while !feed.reader.is_finished() {
            match feed.reader.pop(&mut buffer) {
                Some(block) => frames += block.frames,
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        frames
    }

    #[test]
    fn every_frame_of_a_source_longer_than_the_ring_arrives() {
        static BYTES: [u8; 5000] = [128; 5000];
        let mut feed = Feed::start(|| raw(&BYTES), Pace::Unbounded, || false).unwrap();
        assert_eq!(drain(&mut feed), 5000);
        let outcome = feed.outcome();
        assert!(outcome.error.is_none() && outcome.damage.is_empty());
    }

    #[test]
    fn a_source_that_does_not_open_says_why() {
        let failed = Feed::start(|| Err(Error::NotFound), Pace::Unbounded, || false);
        assert!(matches!(failed, Err(Some(Error::NotFound))));
    }

    #[test]
    fn a_pipe_that_says_nothing_is_not_waited_for_after_ctrl_c() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let open = move || firstword_audio::stream(reader);
        assert!(matches!(
            Feed::start(open, Pace::Unbounded, || true),
            Err(None)
        ));
    }

    #[test]
    fn a_reading_thread_that_panics_is_an_error_and_no_hang() {
        let failed = Feed::start(|| panic!("planted"), Pace::Unbounded, || false);
        assert!(matches!(failed, Err(Some(Error::Io(_)))));
    }

    #[test]
    fn in_real_time_no_frame_comes_before_it_was_spoken() {
        static BYTES: [u8; 100] = [128; 100];
        let began = Stamp::now();
        let mut feed = Feed::start(|| raw(&BYTES), Pace::RealTime, || false).unwrap();
        let (mut stamps, mut buffer) = (Vec::new(), [0.0; 20]);
        while !feed.reader.is_finished() {
            match feed.reader.pop(&mut buffer) {
                Some(block) => stamps.extend((block.frames == 20).then_some(block.captured)),
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        // 20 frames at 1 kHz are 20 ms; a late thread makes them later, never earlier.
        assert_eq!(stamps.len(), 5);
        for (i, stamp) in stamps.iter().enumerate() {
            assert!(*stamp >= began + PERIOD * (i as u32 + 1), "{i}: {stamps:?}");
        }
        assert!(stamps.is_sorted());
    }
}
