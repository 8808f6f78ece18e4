//! JSON Lines: one object per final, and per partial where wanted.
//!
//! Positions are seconds in the recording. Instants are given twice: in milliseconds since the stream's first
//! sample was captured (`…_ms`), and in nanoseconds of CLOCK_MONOTONIC (`…_ns`), by which they can be set
//! beside other logs of the same machine.

use firstword_audio::clock::Stamp;
use serde::Serialize;

use super::handed::HandOver;
use super::{OutputError, Sink, Stream, Writer};
use crate::record::Record;
use crate::speech::transcript::{Event, Final, Partial, Word};

/// Writes events as objects.
#[derive(Debug)]
pub struct Json {
    writer: Writer,
    partials: bool,
    handed: HandOver,
}

impl Json {
    /// With `partials`, partial results are written too.
    #[must_use]
    pub fn new(writer: Writer, partials: bool) -> Self {
        Self {
            writer,
            partials,
            handed: HandOver::default(),
        }
    }

    fn put(&mut self, line: &impl Serialize) -> Result<(), OutputError> {
        let mut text = serde_json::to_string(line)
            .map_err(|error| OutputError::new("JSON", std::io::Error::other(error)))?;
        text.push('\n');
        self.writer.put(&text)
    }
}

impl Sink for Json {
    fn begin(&mut self, stream: &Stream) -> Result<(), OutputError> {
        self.handed.forget(stream);
        Ok(())
    }

    fn event(&mut self, stream: &Stream, event: &mut Event) -> Result<(), OutputError> {
        let now = Stamp::now();
        match event {
            Event::Partial(partial) => {
                if self.partials {
                    self.handed.partial(stream, partial, now);
                    self.put(&PartialLine::new(stream, partial, now))?;
                }
            }
            Event::Final(result) => {
                self.handed.finish(stream, result, now);
                result.record.path.handed_over = now;
                self.put(&FinalLine::new(stream, result))?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}

#[derive(Serialize)]
struct PartialLine<'a> {
    r#type: &'static str,
    file: &'a str,
    utterance: u32,
    start: f64,
    covered: f64,
    committed: &'a str,
    tentative: &'a str,
    captured_ms: Option<f64>,
    handed_over_ms: Option<f64>,
    captured_ns: u64,
    handed_over_ns: u64,
}

impl<'a> PartialLine<'a> {
    fn new(stream: &'a Stream, partial: &'a Partial, now: Stamp) -> Self {
        Self {
            r#type: "partial",
            file: &stream.name,
            utterance: partial.utterance,
            start: partial.start.seconds(),
            covered: partial.covered.seconds(),
            committed: &partial.committed,
            tentative: &partial.tentative,
            captured_ms: since_start(stream, partial.captured),
            handed_over_ms: since_start(stream, now),
            captured_ns: partial.captured.as_nanos(),
            handed_over_ns: now.as_nanos(),
        }
    }
}

#[derive(Serialize)]
struct FinalLine<'a> {
    r#type: &'static str,
    file: &'a str,
    utterance: u32,
    text: &'a str,
    start: f64,
    end: f64,
    model: &'a str,
    target: &'a str,
    words: Vec<WordLine<'a>>,
    latencies: &'a Record,
}

impl<'a> FinalLine<'a> {
    fn new(stream: &'a Stream, result: &'a Final) -> Self {
        Self {
            r#type: "final",
            file: &stream.name,
            utterance: result.utterance,
            text: &result.text,
            start: result.start.seconds(),
            end: result.end.seconds(),
            model: &stream.model,
            target: &stream.target,
            words: result
                .words
                .iter()
                .map(|word| WordLine::new(stream, word))
                .collect(),
            latencies: &result.record,
        }
    }
}

#[derive(Serialize)]
struct WordLine<'a> {
    text: &'a str,
    covered: f64,
    captured_ms: Option<f64>,
    committed_ms: Option<f64>,
    handed_over_ms: Option<f64>,
    captured_ns: u64,
    committed_ns: u64,
    handed_over_ns: Option<u64>,
}

impl<'a> WordLine<'a> {
    fn new(stream: &Stream, word: &'a Word) -> Self {
        Self {
            text: &word.text,
            covered: word.covered.seconds(),
            captured_ms: since_start(stream, word.captured),
            committed_ms: since_start(stream, word.committed),
            handed_over_ms: word.handed_over.and_then(|at| since_start(stream, at)),
            captured_ns: word.captured.as_nanos(),
            committed_ns: word.committed.as_nanos(),
            handed_over_ns: word.handed_over.map(Stamp::as_nanos),
        }
    }
}

/// Milliseconds since the stream's first sample was captured, to the microsecond.
fn since_start(stream: &Stream, at: Stamp) -> Option<f64> {
    stream
        .first_captured
        .map(|first| at.since(first).as_micros() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Sheet, finished, partial, stream};
    use super::*;

    #[test]
    fn a_final_is_one_object_with_the_history_of_every_word() {
        let sheet = Sheet::default();
        let mut sink = Json::new(sheet.writer(), false);
        let stream = stream("a \"b\".wav");
        sink.event(&stream, &mut Event::Partial(partial(3, "Fail", " better")))
            .unwrap();
        let mut event = Event::Final(Box::new(finished(3, "Fail better.", 8_000, 24_000)));
        sink.event(&stream, &mut event).unwrap();
        let text = sheet.text();
        assert_eq!(
            text.matches('\n').count(),
            1,
            "one line, no partial: {text}"
        );
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        // 8 000 and 24 000 samples at 16 kHz; stamps 2 s and 2.5 s of a stream that began at 1 s.
        assert_eq!(line["type"], "final");
        assert_eq!(line["file"], "a \"b\".wav");
        assert_eq!(
            (line["start"].as_f64(), line["end"].as_f64()),
            (Some(0.5), Some(1.5))
        );
        assert_eq!(
            (&line["model"], &line["target"]),
            (&"moonshine-tiny-en".into(), &"cpu".into())
        );
        let word = &line["words"][1];
        assert_eq!(word["text"], "better.");
        assert_eq!(word["covered"].as_f64(), Some(1.5));
        assert_eq!(word["captured_ms"].as_f64(), Some(1000.0));
        assert_eq!(word["committed_ms"].as_f64(), Some(1500.0));
        assert_eq!(word["committed_ns"].as_u64(), Some(2_500_000_000));
        let Event::Final(result) = event else {
            unreachable!()
        };
        assert_eq!(
            word["handed_over_ns"].as_u64(),
            result.words[1].handed_over.map(Stamp::as_nanos)
        );
        assert!(line["latencies"].is_object());
    }

    #[test]
    fn partials_are_objects_of_their_own_and_date_their_committed_words() {
        let sheet = Sheet::default();
        let mut sink = Json::new(sheet.writer(), true);
        let stream = stream("a.wav");
        sink.event(&stream, &mut Event::Partial(partial(0, "Fail", " better")))
            .unwrap();
        let mut event = Event::Final(Box::new(finished(0, "Fail better.", 0, 16_000)));
        sink.event(&stream, &mut event).unwrap();
        let lines: Vec<serde_json::Value> = sheet
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["type"], "partial");
        assert_eq!(
            (&lines[0]["committed"], &lines[0]["tentative"]),
            (&"Fail".into(), &" better".into())
        );
        assert_eq!(
            lines[1]["words"][0]["handed_over_ns"],
            lines[0]["handed_over_ns"]
        );
        assert_ne!(
            lines[1]["words"][1]["handed_over_ns"],
            lines[0]["handed_over_ns"]
        );
    }
}
