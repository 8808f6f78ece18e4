//! Events made by hand for the tests of the sinks, and a writer whose content can be read.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use firstword_audio::clock::{Samples, Stamp};

use super::{Stream, Writer};
use crate::record::Record;
use crate::speech::transcript::{Final, Partial, Word};

/// A stream whose first sample was captured at 1 s of the clock.
pub fn stream(name: &str) -> Stream {
    Stream {
        name: name.to_owned(),
        model: "moonshine-tiny-en".to_owned(),
        target: "cpu".to_owned(),
        first_captured: Some(Stamp::from_nanos(1_000_000_000)),
    }
}

/// A partial that starts at sample 0 and has heard one second.
pub fn partial(utterance: u32, committed: &str, tentative: &str) -> Partial {
    Partial {
        utterance,
        start: Samples(0),
        covered: Samples(16_000),
        captured: Stamp::from_nanos(2_000_000_000),
        committed: committed.to_owned(),
        tentative: tentative.to_owned(),
    }
}

/// A final from sample `start` to `end`; its words were captured at 2 s and committed at 2.5 s of the clock.
pub fn finished(utterance: u32, text: &str, start: u64, end: u64) -> Final {
    let words = text.split_whitespace().map(|word| Word {
        text: word.to_owned(),
        covered: Samples(end),
        captured: Stamp::from_nanos(2_000_000_000),
        committed: Stamp::from_nanos(2_500_000_000),
        handed_over: None,
    });
    Final {
        utterance,
        text: text.to_owned(),
        start: Samples(start),
        end: Samples(end),
        words: words.collect(),
        record: Record::default(),
    }
}

/// Bytes that a sink has written.
#[derive(Clone, Default)]
pub struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Sheet {
    pub fn writer(&self) -> Writer {
        Writer::new("sheet", self.clone())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
