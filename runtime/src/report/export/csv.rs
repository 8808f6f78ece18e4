//! CSV as RFC 4180 has it: a header, commas, quotes where needed; nothing known is an empty field.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::{COLUMNS, Cell, Rows};
use crate::log::read::Wall;

/// Writes CSV.
#[derive(Debug)]
pub struct Csv<W> {
    out: W,
    line: String,
}

impl<W: Write> Csv<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        out.write_all(format!("{}\n", names.join(",")).as_bytes())?;
        Ok(Self {
            out,
            line: String::new(),
        })
    }
}

impl<W: Write> Rows for Csv<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        self.line.clear();
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            match cell {
                Cell::Null => {}
                Cell::Text(text) => quoted(&mut self.line, text),
                Cell::Whole(number) => {
                    let _ = write!(self.line, "{number}");
                }
                Cell::Real(number) => {
                    let _ = write!(self.line, "{}", (number * 1e6).round() / 1e6);
                }
                Cell::Truth(value) => {
                    let _ = write!(self.line, "{value}");
                }
                Cell::Instant(micros) => {
                    self.line
                        .push_str(&Wall(micros.saturating_mul(1000)).rfc3339());
                }
            }
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// An empty text has quotes: it is something else than nothing known.
fn quoted(line: &mut String, text: &str) {
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        let _ = write!(line, "\"{}\"", text.replace('"', "\"\""));
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_need_it_are_quoted_and_nothing_known_is_empty() {
        let mut bytes = Vec::new();
        let mut csv = Csv::new(&mut bytes).unwrap();
        csv.row(vec![
            Cell::Instant(1_795_509_005_250_000),
            Cell::Null,
            Cell::Text("a \"b\", c".into()),
            Cell::Text(String::new()),
            Cell::Real(1.5),
            Cell::Truth(true),
        ])
        .unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text.lines().nth(1).unwrap(),
            r#"2026-11-24T08:30:05.250Z,,"a ""b"", c","",1.5,true"#
        );
    }
}
