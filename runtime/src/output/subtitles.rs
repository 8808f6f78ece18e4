//! Subtitles: SubRip and WebVTT.
//!
//! A long utterance is split into cues of at most two lines of 42 characters (the width that broadcasters'
//! guidelines agree on), which share its time in proportion to their length: the model gives no word times.

use firstword_audio::clock::{Samples, Stamp};
use unicode_width::UnicodeWidthStr;

use super::handed::HandOver;
use super::{OutputError, Sink, Stream, Writer};
use crate::speech::transcript::{Event, Final};

/// Character cells of a line.
const LINE: usize = 42;
/// Lines of a cue.
const LINES: usize = 2;

/// Which kind of subtitles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SubRip: numbered cues, times with a decimal comma.
    Srt,
    /// WebVTT (W3C): header, times with a decimal point, `&`, `<` and `>` escaped.
    Vtt,
}

/// Writes finals as cues.
#[derive(Debug)]
pub struct Subtitles {
    writer: Writer,
    dialect: Dialect,
    headed: bool,
    cues: u64,
    /// End of the last cue, in milliseconds: cues never overlap.
    end: u64,
    handed: HandOver,
}

impl Subtitles {
    /// Cues of one recording.
    #[must_use]
    pub fn new(writer: Writer, dialect: Dialect) -> Self {
        Self {
            writer,
            dialect,
            headed: false,
            cues: 0,
            end: 0,
            handed: HandOver::default(),
        }
    }

    fn header(&mut self) -> &'static str {
        if self.dialect == Dialect::Vtt && !std::mem::replace(&mut self.headed, true) {
            "WEBVTT\n\n"
        } else {
            ""
        }
    }

    fn cues(&mut self, result: &Final) -> String {
        let pieces: Vec<Vec<String>> = wrap(&result.text)
            .chunks(LINES)
            .map(<[String]>::to_vec)
            .collect();
        let lengths: Vec<u64> = pieces
            .iter()
            .map(|lines| lines.iter().map(|line| line.chars().count() as u64).sum())
            .collect();
        let total: u64 = lengths.iter().sum::<u64>().max(1);
        let first = millis(result.start).max(self.end);
        let span = millis(result.end).saturating_sub(first);
        let mut text = String::new();
        let mut told = 0;
        for (lines, length) in pieces.iter().zip(lengths) {
            let start = (first + span * told / total).max(self.end);
            told += length;
            // A cue must last: WebVTT asks for an end after its start.
            let end = (first + span * told / total).max(start + 1);
            self.end = end;
            self.cues += 1;
            text.push_str(&self.cue(start, end, lines));
        }
        text
    }

    fn cue(&self, start: u64, end: u64, lines: &[String]) -> String {
        let body = lines.join("\n");
        match self.dialect {
            Dialect::Srt => format!(
                "{}\n{} --> {}\n{body}\n\n",
                self.cues,
                time(start, ','),
                time(end, ',')
            ),
            Dialect::Vtt => {
                let body = body
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;");
                format!(
                    "{}\n{} --> {}\n{body}\n\n",
                    self.cues,
                    time(start, '.'),
                    time(end, '.')
                )
            }
        }
    }
}

impl Sink for Subtitles {
    fn event(&mut self, stream: &Stream, event: &mut Event) -> Result<(), OutputError> {
        let Event::Final(result) = event else {
            return Ok(());
        };
        let text = format!("{}{}", self.header(), self.cues(result));
        self.writer.put(&text)?;
        self.handed.finish(stream, result, Stamp::now());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        // A recording without speech is still a WebVTT file.
        let header = self.header();
        self.writer.put(header)
    }
}

fn millis(at: Samples) -> u64 {
    // 16 samples per millisecond.
    at.0 / 16
}

/// `HH:MM:SS,mmm`; more than two digits of hours where needed.
fn time(millis: u64, point: char) -> String {
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let (seconds, rest) = (millis / 1000 % 60, millis % 1000);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{rest:03}")
}

/// Lines of at most [`LINE`] cells, broken between words; a word that is wider stands alone.
fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty());
    for word in words {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= LINE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Sheet, finished, stream};
    use super::*;

    fn written(dialect: Dialect, finals: Vec<Final>) -> String {
        let sheet = Sheet::default();
        let mut sink = Subtitles::new(sheet.writer(), dialect);
        for result in finals {
            sink.event(&stream("a.wav"), &mut Event::Final(Box::new(result)))
                .unwrap();
        }
        sink.finish().unwrap();
        sheet.text()
    }

    // SubRip has no standard; its layout is that of the program's own files: number, "HH:MM:SS,mmm --> …", text,
    // blank line. Times by hand: 19 040 samples are 1.19 s, 74 720 are 4.67 s, 57 600 000 are one hour.
    #[test]
    fn srt_as_written_by_hand() {
        let finals = vec![
            finished(0, "It was the best of times,", 19_040, 74_720),
            finished(1, "it was the worst of times.", 57_600_000, 57_616_000),
        ];
        assert_eq!(
            written(Dialect::Srt, finals),
            "1\n00:00:01,190 --> 00:00:04,670\nIt was the best of times,\n\n\
             2\n01:00:00,000 --> 01:00:01,000\nit was the worst of times.\n\n"
        );
    }

    // W3C WebVTT, section 4.1: the header line, then cues; "-->", "&" and "<" may not stand in cue text.
    #[test]
    fn vtt_escapes_what_its_grammar_forbids() {
        assert_eq!(
            written(Dialect::Vtt, vec![finished(0, "a --> b & <i>", 0, 16_000)]),
            "WEBVTT\n\n1\n00:00:00.000 --> 00:00:01.000\na --&gt; b &amp; &lt;i&gt;\n\n"
        );
    }

    #[test]
    fn a_recording_without_speech_is_a_valid_file() {
        assert_eq!(written(Dialect::Srt, vec![]), "");
        assert_eq!(written(Dialect::Vtt, vec![]), "WEBVTT\n\n");
    }

    // Dickens, A Tale of Two Cities. Counted by hand: the words fill lines of 42, 42 and 7 characters, so that
    // 91 s are shared as 84 s and 7 s.
    #[test]
    fn a_long_utterance_becomes_cues_of_two_short_lines() {
        let text = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age";
        assert_eq!(
            written(Dialect::Srt, vec![finished(0, text, 0, 91_000 * 16)]),
            "1\n00:00:00,000 --> 00:01:24,000\n\
             It was the best of times, it was the worst\nof times, it was the age of wisdom, it was\n\n\
             2\n00:01:24,000 --> 00:01:31,000\nthe age\n\n"
        );
    }

    #[test]
    fn cues_never_overlap_even_where_utterances_do() {
        let finals = vec![
            finished(0, "one", 0, 32_000),
            finished(1, "two", 16_000, 24_000),
        ];
        let all = written(Dialect::Srt, finals);
        assert!(all.contains("00:00:00,000 --> 00:00:02,000\none"), "{all}");
        assert!(all.contains("00:00:02,000 --> 00:00:02,001\ntwo"), "{all}");
    }
}
