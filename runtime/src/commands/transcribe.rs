//! `firstword transcribe`: recordings and streams to text.

use std::io;
use std::path::{Path, PathBuf};

use firstword_audio::clock::{Samples, Stamp};
use firstword_audio::raw::{Raw, Sample};
use firstword_audio::{Channels, Error, Format, Source};

use super::Context;
use crate::cli::{Pace, TranscribeArgs, is_stdin};
use crate::exit::{CommandError, Exit, aside, name, report};
use crate::log::{Heard, ModelId, Recorder, StreamId};
use crate::output::{self, OutputError, Sink};
use crate::progress::Progress;
use crate::speech::feed::{self, Feed};
use crate::speech::listener::{How, News, Stopped, listen};
use crate::speech::transcript::Event;
use crate::speech::{Mode, Recogniser};
use crate::timings::Timings;

/// Transcribes the files in order. An input that can't be read is reported, and the next one is read.
///
/// # Errors
/// What concerns all inputs: a model, the library, the output.
pub fn run(args: &TranscribeArgs, context: &Context) -> Result<Exit, CommandError> {
    let (log, recorder) = context.log();
    let mut recogniser = context.recogniser(&recorder)?;
    let sink = output::open(args)?;
    let mut session = Session::new(context, &mut recogniser, sink);
    let mut exit = Exit::Success;
    for file in &args.files {
        exit = exit.and(session.file(file, args)?);
        if context.interrupt.is_requested() {
            break;
        }
    }
    session.finish(args.timings)?;
    if let Some(log) = log {
        log.finish();
    }
    Ok(exit)
}

/// One run over several inputs with the same models and the same sink.
pub(super) struct Session<'a> {
    context: &'a Context,
    recogniser: &'a mut Recogniser,
    sink: Box<dyn Sink>,
    timings: Timings,
    clocks: Clocks,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        context: &'a Context,
        recogniser: &'a mut Recogniser,
        sink: Box<dyn Sink>,
    ) -> Self {
        Self {
            context,
            recogniser,
            sink,
            timings: Timings::default(),
            clocks: Clocks::now(),
        }
    }

    /// Transcribes one input; its own trouble is reported here.
    pub(super) fn file(
        &mut self,
        file: &Path,
        args: &TranscribeArgs,
    ) -> Result<Exit, CommandError> {
        let interrupt = &self.context.interrupt;
        // Records and JSON have ways of their own to write any character.
        let named = file.to_string_lossy();
        let shown = name(file);
        let trouble = |error: &Error| CommandError::new(Exit::Input, &shown, error);
        let pace = match args.pace {
            Pace::File => feed::Pace::Unbounded,
            Pace::Realtime => feed::Pace::RealTime,
        };
        let opening = Opening::of(file, args);
        let feed = match Feed::start(move || opening.open(), pace, || interrupt.is_requested()) {
            Ok(feed) => feed,
            Err(Some(error)) => {
                report(&trouble(&error));
                return Ok(Exit::Input);
            }
            Err(None) => return Ok(interrupt.requested().unwrap_or(Exit::Interrupted)),
        };
        let live = is_stdin(file) || args.pace == Pace::Realtime;
        let recorder = self.recogniser.recorder.clone();
        let model = self.recogniser.id;
        let id = recorder.stream(&named);
        let how = How {
            name: &named,
            id,
            channels: args.channel.map_or(Channels::Mix, Channels::One),
            settings: self
                .context
                .stream_settings(live || args.partials, args.partials),
            mode: if live { Mode::Live } else { Mode::File },
        };
        let format = feed.reader.format();
        let total = feed.frames.map(|frames| {
            Samples((u128::from(frames) * 16_000 / u128::from(format.sample_rate)) as u64)
        });
        let progress = Progress::recording(&shown, total, output::partials_in_place(args));
        let mut stream = output::Stream {
            name: named.clone().into_owned(),
            model: self.recogniser.names.model.clone(),
            target: self.recogniser.names.target.clone(),
            first_captured: None,
        };
        let (sink, timings) = (&mut self.sink, &mut self.timings);
        sink.begin(&stream)?;
        let mut heard = Samples(0);
        let result = listen(
            feed,
            self.recogniser,
            how,
            || interrupt.is_requested(),
            |news| {
                match news {
                    News::Began(captured) => stream.first_captured = Some(captured),
                    News::Event(event) => {
                        progress.suspend(|| hand_over(sink.as_mut(), &stream, event))?;
                        tell(&recorder, id, event, model);
                        if let Event::Final(last) = event {
                            timings.add(&last.record);
                        }
                    }
                    News::Heard(position) => {
                        heard = position;
                        progress.advance(position);
                    }
                }
                Ok::<_, OutputError>(())
            },
        );
        progress.finish();
        recorder.close_stream(id);
        timings.heard(heard);
        match result {
            Ok(outcome) => {
                // One line for a file, however much is wrong with it.
                let error = outcome.error.as_ref().map(ToString::to_string);
                let wrong: Vec<String> = outcome.damage.into_iter().chain(error).collect();
                if wrong.is_empty() {
                    return Ok(Exit::Success);
                }
                report(&CommandError::new(Exit::Input, &shown, wrong.join("; ")));
                Ok(Exit::Input)
            }
            Err(Stopped::Sound(error)) => {
                report(&trouble(&error));
                Ok(Exit::Input)
            }
            Err(Stopped::Model(error)) => Err(CommandError::from(error)),
            Err(Stopped::Sink(error)) => Err(CommandError::from(error)),
            Err(Stopped::Interrupted) => Ok(interrupt.requested().unwrap_or(Exit::Interrupted)),
        }
    }

    /// Ends the output, and prints the table if wanted.
    pub(super) fn finish(mut self, table: bool) -> Result<(), CommandError> {
        self.sink.finish()?;
        if table {
            let (cpu, elapsed) = self.clocks.spent();
            aside(&self.timings.table(cpu, elapsed));
        }
        Ok(())
    }
}

/// Shows an event and stamps the instant at which it was handed over.
fn hand_over(
    sink: &mut dyn Sink,
    stream: &output::Stream,
    event: &mut Event,
) -> Result<(), OutputError> {
    let silent = matches!(event, Event::Final(last) if last.text.is_empty());
    if !silent {
        sink.event(stream, event)?;
    }
    if let Event::Final(last) = event {
        last.record.path.handed_over = last
            .words
            .iter()
            .filter_map(|word| word.handed_over)
            .max()
            .unwrap_or(last.record.path.assembled)
            .max(last.record.path.assembled);
    }
    Ok(())
}

/// Tells the log of an event that was just handed over.
fn tell(recorder: &Recorder, stream: StreamId, event: &Event, model: ModelId) {
    match event {
        Event::Partial(partial) => recorder.partial(stream, partial, Stamp::now()),
        Event::Final(last) => recorder.utterance(&Heard {
            stream,
            model,
            record: &last.record,
            words: &last.words,
            text: &last.text,
        }),
    }
}

/// How to open an input; carried to the reading thread.
struct Opening {
    file: PathBuf,
    raw: Option<(Sample, Format)>,
}

impl Opening {
    fn of(file: &Path, args: &TranscribeArgs) -> Self {
        Self {
            file: file.to_owned(),
            raw: args.raw.map(|sample| {
                let format = Format {
                    sample_rate: args.rate.unwrap_or(16_000),
                    channels: args.channels.unwrap_or(1),
                };
                (sample, format)
            }),
        }
    }

    fn open(self) -> Result<Box<dyn Source>, Error> {
        match (self.raw, is_stdin(&self.file)) {
            (None, _) => open_source(&self.file),
            (Some((sample, format)), true) => Ok(Box::new(Raw::new(io::stdin(), sample, format)?)),
            (Some((sample, format)), false) => {
                firstword_audio::raw::open(&self.file, sample, format)
            }
        }
    }
}

/// Opens a recording, or standard input as a stream.
pub(super) fn open_source(file: &Path) -> Result<Box<dyn Source>, Error> {
    if is_stdin(file) {
        firstword_audio::stream(io::stdin())
    } else {
        firstword_audio::open(file)
    }
}

/// Processor time and the clock, since then.
struct Clocks {
    cpu: rustix::time::Timespec,
    began: std::time::Instant,
}

impl Clocks {
    fn now() -> Self {
        Self {
            cpu: rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime),
            began: std::time::Instant::now(),
        }
    }

    fn spent(&self) -> (std::time::Duration, std::time::Duration) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let nanos =
            (now.tv_sec - self.cpu.tv_sec) * 1_000_000_000 + (now.tv_nsec - self.cpu.tv_nsec);
        (
            std::time::Duration::from_nanos(nanos.max(0) as u64),
            self.began.elapsed(),
        )
    }
}
