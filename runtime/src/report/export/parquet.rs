//! Parquet: columns of optional values, compressed with Snappy; instants are TIMESTAMP(MICROS, UTC).

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::{COLUMNS, Cell, Kind, Rows};

/// Rows of one group: some 30 MB of memory while it is filled.
const GROUP: usize = 65_536;

/// Writes Parquet.
pub struct Parquet<W: Write + Send> {
    out: Option<SerializedFileWriter<W>>,
    rows: Vec<Vec<Cell>>,
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn new(out: W) -> io::Result<Self> {
        let mut message = String::from("message record {\n");
        for column in COLUMNS {
            let kind = match column.kind {
                Kind::Text => "BYTE_ARRAY",
                Kind::Whole | Kind::Instant => "INT64",
                Kind::Real => "DOUBLE",
                Kind::Truth => "BOOLEAN",
            };
            let logical = match column.kind {
                Kind::Text => " (UTF8)",
                Kind::Instant => " (TIMESTAMP(MICROS,true))",
                _ => "",
            };
            message.push_str(&format!("  OPTIONAL {kind} {}{logical};\n", column.name));
        }
        message.push('}');
        let schema = parse_message_type(&message).map_err(other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("firstword {}", env!("CARGO_PKG_VERSION")))
            .build();
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
            .map_err(other)?;
        Ok(Self {
            out: Some(out),
            rows: Vec::new(),
        })
    }

    fn group(&mut self) -> Result<(), ParquetError> {
        let Some(out) = self.out.as_mut().filter(|_| !self.rows.is_empty()) else {
            return Ok(());
        };
        let mut group = out.next_row_group()?;
        let mut at = 0;
        while let Some(mut writer) = group.next_column()? {
            let cells = || {
                self.rows
                    .iter()
                    .map(move |row| row.get(at).unwrap_or(&Cell::Null))
            };
            let levels: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Null)).collect();
            match COLUMNS[at].kind {
                Kind::Text => {
                    let values: Vec<ByteArray> = cells()
                        .filter_map(|cell| match cell {
                            Cell::Text(text) => Some(ByteArray::from(text.as_str())),
                            _ => None,
                        })
                        .collect();
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Kind::Whole | Kind::Instant => {
                    let values: Vec<i64> = cells()
                        .filter_map(|cell| match cell {
                            Cell::Whole(number) | Cell::Instant(number) => Some(*number),
                            _ => None,
                        })
                        .collect();
                    writer
                        .typed::<Int64Type>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Kind::Real => {
                    let values: Vec<f64> = cells()
                        .filter_map(|cell| match cell {
                            Cell::Real(number) => Some(*number),
                            _ => None,
                        })
                        .collect();
                    writer
                        .typed::<DoubleType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Kind::Truth => {
                    let values: Vec<bool> = cells()
                        .filter_map(|cell| match cell {
                            Cell::Truth(value) => Some(*value),
                            _ => None,
                        })
                        .collect();
                    writer
                        .typed::<BoolType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
            }
            writer.close()?;
            at += 1;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

impl<W: Write + Send> Rows for Parquet<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        self.rows.push(cells);
        if self.rows.len() >= GROUP {
            self.group().map_err(other)
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.group().map_err(other)?;
        match self.out.take() {
            Some(out) => out.close().map(drop).map_err(other),
            None => Ok(()),
        }
    }
}

/// What went wrong while writing is in there.
fn other(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}
