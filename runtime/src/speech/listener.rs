//! The recognising side: takes sound from the ring, conditions it, feeds the stream, and hands the
//! results over, each with its record.

use std::time::Duration;

use firstword_audio::clock::{Samples, Stamp};
use firstword_audio::{Channels, Conditioner, Error, SAMPLE_RATE};
use firstword_models::speech::SpeechError;

use super::feed::{Feed, Outcome};
use super::recogniser::{Recogniser, Settings};
use super::stream::{Block, Mode, Stream};
use super::timeline::Arrival;
use super::transcript::Event;
use crate::log::StreamId;

/// How much sound is taken from the ring at once. Voice activity costs less than half per frame when
/// ten frames come together; a live stream takes whatever is there.
const BATCH: Duration = Duration::from_millis(320);
/// Most sound taken at once from a live source: all that can be in the ring.
const ALL: Duration = super::feed::CAPACITY;
/// How long to wait for sound before looking around again.
const PATIENCE: Duration = Duration::from_millis(50);
/// The same while a batch is gathered from a file, which takes no time to speak of.
const MOMENT: Duration = Duration::from_millis(1);

/// Why listening stopped before the sound ended.
#[derive(Debug, thiserror::Error)]
pub enum Stopped<E> {
    /// The sound can't be conditioned, or a channel is asked for that is not there.
    #[error(transparent)]
    Sound(Error),
    /// A model failed.
    #[error(transparent)]
    Model(SpeechError),
    /// The result could not be handed over.
    #[error(transparent)]
    Sink(E),
    /// `give_up` said so.
    #[error("interrupted")]
    Interrupted,
}

/// How one stream is listened to.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// The stream's name in records.
    pub name: &'a str,
    /// Its number in the log.
    pub id: StreamId,
    /// Which channel.
    pub channels: Channels,
    /// Utterances and partials.
    pub settings: Settings,
    /// Whether somebody waits for the results while the sound goes on.
    pub mode: Mode,
}

/// What the listener tells its owner.
#[derive(Debug)]
pub enum News<'a> {
    /// The stream's first sample was captured then.
    Began(Stamp),
    /// Something to show.
    Event(&'a mut Event),
    /// The stream has been heard up to here.
    Heard(Samples),
}

/// Listens to a feed until it ends. `tell` is given everything in order; a final's record is complete
/// once `tell` returned from it, save `handed_over`, which `tell` sets.
///
/// # Errors
///
/// [`Stopped`]. What was final before has been told.
pub fn listen<E>(
    mut feed: Feed,
    recogniser: &mut Recogniser,
    how: How<'_>,
    give_up: impl Fn() -> bool,
    mut tell: impl FnMut(News<'_>) -> Result<(), E>,
) -> Result<Outcome, Stopped<E>> {
    let format = feed.reader.format();
    let mut conditioner = Conditioner::new(format, how.channels).map_err(Stopped::Sound)?;
    let mut stream = Stream::new(how.name, how.settings, how.mode).known_as(how.id);
    let mut events = Vec::new();
    let channels = usize::from(format.channels);
    let frames_in =
        |time: Duration| (time.as_millis() as usize * format.sample_rate as usize).div_ceil(1000);
    let (batch, most) = match how.mode {
        Mode::File => (frames_in(BATCH), frames_in(BATCH)),
        Mode::Live => (1, frames_in(ALL)),
    };
    let mut buffer = vec![0.0; most * channels];
    let mut began = false;
    let mut arrival = Arrival::default();
    loop {
        if give_up() {
            return Err(Stopped::Interrupted);
        }
        let gathered = feed.reader.is_closed() || feed.reader.ready_frames() >= batch;
        let Some(block) = gathered.then(|| feed.reader.pop(&mut buffer)).flatten() else {
            if feed.reader.is_finished() {
                break;
            }
            match how.mode {
                Mode::File => std::thread::sleep(MOMENT),
                Mode::Live => {
                    let _ = feed.reader.wait(PATIENCE);
                }
            }
            continue;
        };
        let received = Stamp::now();
        if !began {
            began = true;
            // The stamp is that of the block's last frame; the first one's is counted back, as the
            // stream's timeline does.
            let since = Duration::from_secs_f64(format.seconds(block.frames as u64 - 1));
            let first = block
                .captured
                .as_nanos()
                .saturating_sub(since.as_nanos() as u64);
            tell(News::Began(Stamp::from_nanos(first))).map_err(Stopped::Sink)?;
        }
        if block.lost_before > 0 {
            stream.lost(block.lost_before * u64::from(SAMPLE_RATE) / u64::from(format.sample_rate));
        }
        let samples = conditioner
            .push(&buffer[..block.frames * channels])
            .map_err(Stopped::Sound)?;
        let resampled = Stamp::now();
        arrival = Arrival {
            captured: block.captured,
            received,
            resampled,
        };
        stream
            .push(
                recogniser,
                Block {
                    samples,
                    arrival,
                    read: feed.take_spent(),
                    resample: resampled.since(received),
                },
                &mut events,
            )
            .map_err(Stopped::Model)?;
        hand_over(&mut events, &mut tell)?;
        tell(News::Heard(stream.position())).map_err(Stopped::Sink)?;
    }
    let before = Stamp::now();
    let samples = conditioner.finish().map_err(Stopped::Sound)?;
    arrival.resampled = Stamp::now();
    let block = Block {
        samples,
        arrival,
        read: feed.take_spent(),
        resample: arrival.resampled.since(before),
    };
    stream
        .push(recogniser, block, &mut events)
        .and_then(|()| stream.finish(recogniser, &mut events))
        .map_err(Stopped::Model)?;
    hand_over(&mut events, &mut tell)?;
    tell(News::Heard(stream.position())).map_err(Stopped::Sink)?;
    Ok(feed.outcome())
}

fn hand_over<E>(
    events: &mut Vec<Event>,
    tell: &mut impl FnMut(News<'_>) -> Result<(), E>,
) -> Result<(), Stopped<E>> {
    for event in events.iter_mut() {
        tell(News::Event(event)).map_err(Stopped::Sink)?;
    }
    events.clear();
    Ok(())
}
