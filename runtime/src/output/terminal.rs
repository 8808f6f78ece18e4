//! Text on a terminal with partials: the words so far are rewritten in place, those that may change dimmed.

use firstword_audio::clock::Stamp;
use unicode_width::UnicodeWidthChar;

use super::handed::HandOver;
use super::{OutputError, Sink, Stream, Writer, one_line};
use crate::exit::say;
use crate::speech::transcript::{Event, Partial};

// ECMA-48: SGR 2 (faint), SGR 0 (default), CUU (cursor up), ED 0 (erase to the end of the display).
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
const ERASE_BELOW: &str = "\x1b[J";

/// The size of a terminal, in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Cells in a row.
    pub columns: usize,
    /// Rows on the screen.
    pub rows: usize,
}

/// Writes finals as lines, and the current partial below them.
#[derive(Debug)]
pub struct Terminal {
    writer: Writer,
    size: fn() -> Size,
    /// Rows that the partial on the screen takes; 0 when there is none.
    rows: usize,
    announce: bool,
    handed: HandOver,
}

impl Terminal {
    /// On the terminal of standard output. With `announce`, the name of each stream goes to standard error
    /// when it begins.
    #[must_use]
    pub fn new(writer: Writer, announce: bool) -> Self {
        Self {
            announce,
            ..Self::sized(writer, size_of_stdout)
        }
    }

    fn sized(writer: Writer, size: fn() -> Size) -> Self {
        Self {
            writer,
            size,
            rows: 0,
            announce: false,
            handed: HandOver::default(),
        }
    }

    /// The sequence that takes the partial off the screen and leaves the cursor where it began.
    fn erase(&mut self) -> String {
        let rows = std::mem::take(&mut self.rows);
        match rows {
            0 => String::new(),
            1 => format!("\r{ERASE_BELOW}"),
            more => format!("\r\x1b[{}A{ERASE_BELOW}", more - 1),
        }
    }

    fn partial(&mut self, partial: &Partial) -> Result<(), OutputError> {
        let mut text = self.erase();
        let size = (self.size)();
        let committed = one_line(&partial.committed);
        let tentative = one_line(&partial.tentative);
        let (committed, tentative) = fit(&committed, &tentative, size);
        let rows = rows(committed.chars().chain(tentative.chars()), size.columns);
        text.push_str(&committed);
        if !tentative.is_empty() {
            text.push_str(&format!("{DIM}{tentative}{PLAIN}"));
        }
        self.rows = if committed.is_empty() && tentative.is_empty() {
            0
        } else {
            rows
        };
        self.writer.put(&text)
    }
}

impl Sink for Terminal {
    fn begin(&mut self, stream: &Stream) -> Result<(), OutputError> {
        let left = self.erase();
        self.writer.put(&left)?;
        self.handed.forget(stream);
        if self.announce {
            say(&stream.name);
        }
        Ok(())
    }

    fn event(&mut self, stream: &Stream, event: &mut Event) -> Result<(), OutputError> {
        match event {
            Event::Partial(partial) => {
                self.partial(partial)?;
                self.handed.partial(stream, partial, Stamp::now());
            }
            Event::Final(result) => {
                let mut text = self.erase();
                let line = one_line(result.text.trim());
                if !line.trim().is_empty() {
                    text.push_str(&line);
                    text.push('\n');
                }
                self.writer.put(&text)?;
                self.handed.finish(stream, result, Stamp::now());
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        let left = self.erase();
        self.writer.put(&left)
    }
}

/// Rows that a text takes when it starts at the left edge. A row that is just full does not wrap yet.
fn rows(text: impl Iterator<Item = char>, columns: usize) -> usize {
    let mut rows = 1;
    let mut column = 0;
    for width in text.filter_map(UnicodeWidthChar::width) {
        if column + width > columns {
            rows += 1;
            column = 0;
        }
        column += width;
    }
    rows
}

/// Drops the beginning of a partial that is taller than the screen, because the cursor can't go back to what
/// has scrolled away. One row stays free.
fn fit(committed: &str, tentative: &str, size: Size) -> (String, String) {
    let most = size.rows.saturating_sub(1).max(1);
    let whole: Vec<char> = committed.chars().chain(tentative.chars()).collect();
    if rows(whole.iter().copied(), size.columns) <= most {
        return (committed.to_owned(), tentative.to_owned());
    }
    let fits = |from: usize| {
        rows(
            std::iter::once('…').chain(whole[from..].iter().copied()),
            size.columns,
        ) <= most
    };
    // Dropping more never makes it taller, so the first cut that fits is found by halving.
    let (mut low, mut high) = (0, whole.len());
    while low < high {
        let middle = low.midpoint(high);
        if fits(middle) {
            high = middle
        } else {
            low = middle + 1
        }
    }
    let split = committed.chars().count().max(low);
    let committed = std::iter::once('…')
        .chain(whole[low..split].iter().copied())
        .collect();
    (committed, whole[split..].iter().collect())
}

fn size_of_stdout() -> Size {
    // 80 × 24 is what terminals have been since the VT100.
    let (columns, rows) = rustix::termios::tcgetwinsize(rustix::stdio::stdout())
        .map_or((80, 24), |size| {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        });
    Size {
        columns: if columns == 0 { 80 } else { columns },
        rows: if rows == 0 { 24 } else { rows },
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Sheet, finished, partial, stream};
    use super::*;

    const SMALL: Size = Size {
        columns: 10,
        rows: 3,
    };

    #[test]
    fn rows_follow_the_width_of_the_characters() {
        let count = |text: &str| rows(text.chars(), 10);
        assert_eq!(count(""), 1);
        assert_eq!(count("0123456789"), 1, "a full row has not wrapped yet");
        assert_eq!(count("0123456789a"), 2);
        // A wide character (2 cells, Unicode Standard Annex #11) does not fit into the last cell of a row.
        assert_eq!(count("012345678漢"), 2);
        assert_eq!(
            count("e\u{301}0123456789"),
            2,
            "a combining accent takes no cell"
        );
    }

    #[test]
    fn the_partial_is_rewritten_in_place_and_the_final_takes_its_place() {
        let sheet = Sheet::default();
        let mut sink = Terminal::sized(sheet.writer(), || SMALL);
        let stream = stream("a.wav");
        sink.begin(&stream).unwrap();
        sink.event(&stream, &mut Event::Partial(partial(0, "", "Ever")))
            .unwrap();
        sink.event(
            &stream,
            &mut Event::Partial(partial(0, "Ever", " tried fai")),
        )
        .unwrap();
        let mut last = Event::Final(Box::new(finished(0, "Ever tried.", 0, 16_000)));
        sink.event(&stream, &mut last).unwrap();
        sink.finish().unwrap();
        assert_eq!(
            sheet.text(),
            "\x1b[2mEver\x1b[0m\
             \r\x1b[JEver\x1b[2m tried fai\x1b[0m\
             \r\x1b[1A\x1b[JEver tried.\n"
        );
    }

    #[test]
    fn a_partial_taller_than_the_screen_shows_its_end() {
        // Two rows of ten cells are usable: "…" and the last 19 characters.
        let (committed, tentative) = fit("abcdefghijklmnopqrst", "uvwxyz", SMALL);
        assert_eq!(
            (committed.as_str(), tentative.as_str()),
            ("…hijklmnopqrst", "uvwxyz")
        );
        let (committed, tentative) = fit("abc", "defghijklmnopqrstuvwxyz", SMALL);
        assert_eq!(
            (committed.as_str(), tentative.as_str()),
            ("…", "hijklmnopqrstuvwxyz")
        );
    }

    #[test]
    fn a_stream_that_ends_without_a_final_leaves_no_partial_behind() {
        let sheet = Sheet::default();
        let mut sink = Terminal::sized(sheet.writer(), || SMALL);
        sink.event(&stream("a"), &mut Event::Partial(partial(0, "", "Ev")))
            .unwrap();
        sink.finish().unwrap();
        assert!(sheet.text().ends_with("\r\x1b[J"));
    }
}
