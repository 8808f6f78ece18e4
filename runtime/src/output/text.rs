//! Plain text: the transcript and nothing else, one utterance per line, for pipes and files.
//!
//! Partials leave no trace here: a line that was written can't be taken back.

use firstword_audio::clock::Stamp;

use super::handed::HandOver;
use super::{OutputError, Sink, Stream, Writer, one_line};
use crate::exit::say;
use crate::speech::transcript::Event;

/// Writes finals as lines.
#[derive(Debug)]
pub struct Text {
    writer: Writer,
    announce: bool,
    handed: HandOver,
}

impl Text {
    /// With `announce`, the name of each stream goes to standard error when it begins.
    #[must_use]
    pub fn new(writer: Writer, announce: bool) -> Self {
        Self {
            writer,
            announce,
            handed: HandOver::default(),
        }
    }
}

impl Sink for Text {
    fn begin(&mut self, stream: &Stream) -> Result<(), OutputError> {
        if self.announce {
            say(&stream.name);
        }
        Ok(())
    }

    fn event(&mut self, stream: &Stream, event: &mut Event) -> Result<(), OutputError> {
        let Event::Final(result) = event else {
            return Ok(());
        };
        let line = one_line(result.text.trim());
        if !line.trim().is_empty() {
            self.writer.put(&format!("{line}\n"))?;
        }
        self.handed.finish(stream, result, Stamp::now());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Sheet, finished, partial, stream};
    use super::*;

    #[test]
    fn only_finished_utterances_are_written_one_per_line() {
        let sheet = Sheet::default();
        let mut sink = Text::new(sheet.writer(), false);
        let stream = stream("a.wav");
        sink.event(&stream, &mut Event::Partial(partial(0, "Ever", " tr")))
            .unwrap();
        for (n, text) in ["Ever tried.", "", "Ever\u{1b}[2J\nfailed."]
            .into_iter()
            .enumerate()
        {
            let mut event = Event::Final(Box::new(finished(n as u32, text, 0, 16_000)));
            sink.event(&stream, &mut event).unwrap();
            let Event::Final(result) = event else {
                unreachable!()
            };
            assert!(result.words.iter().all(|word| word.handed_over.is_some()));
        }
        sink.finish().unwrap();
        assert_eq!(sheet.text(), "Ever tried.\nEver [2J failed.\n");
    }
}
