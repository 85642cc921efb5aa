//! The rows of a file, whatever its kind: JSON records, Parquet rows, or the lines of a table with named columns.
//!
//! Formats read a row as one [`JsonValue`]. The kind of a file is told by its content. Tables with named columns are
//! read for the mapped formats alone ([`RowReader::open_named`]); those of other formats have readers of their own.

use std::borrow::Cow;
use std::path::Path;

use crate::dataset_error::DatasetError;
use crate::error::{FieldError, RecordPosition};
use crate::input::{Compression, InputError};
use crate::parquet_file::{ParquetRows, is_parquet};
use crate::records::{RecordLayout, RecordReader};
use crate::table::{DelimitedReader, TableRow};
use crate::value::{FieldList, FieldResult, JsonValue, quoted};

/// The rows of one file.
pub(crate) enum RowReader {
    Json(RecordReader),
    Parquet(Box<ParquetRows>),
    Named(NamedTable),
}

/// One row.
pub(crate) struct SourceRow<'r> {
    pub(crate) position: RecordPosition,
    value: FieldResult<JsonValue<'r>>,
    written: WrittenRow<'r>,
}

/// A row as its file has it.
enum WrittenRow<'r> {
    Bytes(&'r [u8]),
    Line(&'r DelimitedReader, &'r TableRow),
    /// A Parquet file has no text of a row.
    Columns,
}

impl RowReader {
    /// Opens a file of JSON or Parquet.
    ///
    /// # Errors
    /// As [`RecordReader::open`] and [`ParquetRows::open`].
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        // A pipe is no regular file, and the reader of records says so.
        if is_parquet(path)? {
            return Ok(Self::Parquet(Box::new(ParquetRows::open(path)?)));
        }
        RecordReader::open(path).map(Self::Json)
    }

    /// Opens a file of JSON, Parquet, or comma- or tab-separated lines of which the first names the columns.
    ///
    /// # Errors
    /// As [`RowReader::open`], and for a first line without names.
    pub(crate) fn open_named(path: &Path) -> Result<Self, DatasetError> {
        match Self::open(path) {
            Err(InputError::Foreign { .. }) => NamedTable::open(path).map(Self::Named),
            opened => Ok(opened?),
        }
    }

    /// The next row; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<SourceRow<'_>>, InputError> {
        match self {
            Self::Json(records) => Ok(records.next()?.map(|record| SourceRow {
                position: record.position,
                value: JsonValue::parse(record.bytes),
                written: WrittenRow::Bytes(record.bytes),
            })),
            Self::Parquet(rows) => Ok(rows.next()?.map(|(position, value)| SourceRow {
                position,
                value: Ok(value),
                written: WrittenRow::Columns,
            })),
            Self::Named(table) => table.next(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Json(records) => records.path(),
            Self::Parquet(rows) => rows.path(),
            Self::Named(table) => table.lines.path(),
        }
    }

    /// Uncompressed bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Json(records) => records.bytes(),
            Self::Parquet(rows) => rows.bytes(),
            Self::Named(table) => table.lines.bytes(),
        }
    }

    /// Rows returned so far.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Json(records) => records.count(),
            Self::Parquet(rows) => rows.count(),
            Self::Named(table) => table.rows,
        }
    }

    /// The compression of the file as a whole. Parquet compresses its own pages.
    pub(crate) fn compression(&self) -> Compression {
        match self {
            Self::Json(records) => records.compression(),
            Self::Parquet(_) => Compression::None,
            Self::Named(table) => table.lines.compression(),
        }
    }

    /// The layout of JSON records.
    pub(crate) fn layout(&self) -> Option<RecordLayout> {
        if let Self::Json(records) = self { Some(records.layout()) } else { None }
    }
}

impl<'r> SourceRow<'r> {
    /// Reads the row.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&JsonValue<'r>) -> FieldResult<T>) -> FieldResult<T> {
        match &self.value {
            Ok(value) => read(value),
            Err(error) => Err(error.clone()),
        }
    }

    /// The row as its file has it, for the quarantine; of Parquet, as JSON. Bytes that are not UTF-8 are replaced.
    pub(crate) fn raw_text(&self) -> String {
        match (&self.written, &self.value) {
            (WrittenRow::Bytes(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
            (WrittenRow::Line(lines, row), _) => lines.raw_text(row),
            (WrittenRow::Columns, Ok(value)) => value.to_json().to_string(),
            (WrittenRow::Columns, Err(_)) => String::new(),
        }
    }
}

/// Comma- or tab-separated lines, of which the first names the columns. An empty cell is absent.
pub(crate) struct NamedTable {
    lines: DelimitedReader,
    names: Vec<String>,
    row: Option<TableRow>,
    rows: u64,
}

impl NamedTable {
    fn open(path: &Path) -> Result<Self, DatasetError> {
        let mut lines = DelimitedReader::open(path)?;
        let Some(header) = lines.next()? else { return Err(InputError::Empty { path: path.to_owned() }.into()) };
        let names: Vec<String> = header.fields.iter().map(|name| name.trim().to_owned()).collect();
        let wrong = |found: String, allowed: &str| {
            DatasetError::from(FieldError::new(found, allowed).in_row(path, header.position))
        };
        if header.damaged {
            return Err(wrong("bytes that are not UTF-8".to_owned(), "UTF-8"));
        }
        let repeated = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        if let Some((_, name)) = repeated {
            return Err(wrong(format!("the column {} twice", quoted(name)), "each name once"));
        }
        Ok(Self { lines, names, row: None, rows: 0 })
    }

    fn next(&mut self) -> Result<Option<SourceRow<'_>>, InputError> {
        self.row = self.lines.next()?;
        let Some(row) = &self.row else { return Ok(None) };
        self.rows += 1;
        let value = if row.damaged {
            Err(FieldError::new("bytes that are not UTF-8", "UTF-8"))
        } else if row.fields.len() != self.names.len() {
            let allowed = format!("{} cells, as in the first line", self.names.len());
            Err(FieldError::new(format!("a row of {} cells", row.fields.len()), allowed))
        } else {
            let entries = self.names.iter().zip(&row.fields).map(|(name, cell)| {
                let cell =
                    if cell.trim().is_empty() { JsonValue::Null } else { JsonValue::String(Cow::Borrowed(cell)) };
                (Cow::Borrowed(name.as_str()), cell)
            });
            Ok(JsonValue::Object(FieldList::new(entries.collect())))
        };
        // The first line is record 0: it has no data.
        let position = RecordPosition { record: self.rows, line: row.position.line };
        Ok(Some(SourceRow { position, value, written: WrittenRow::Line(&self.lines, row) }))
    }
}
