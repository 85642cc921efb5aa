//! Rows of tab- or comma-separated files, read as Python's `csv` reads them.
//!
//! A field beginning with `"` ends with one and has its quotes doubled. Elsewhere quotes are text. The separator is a
//! tab if the first line has one, independent of the file's extension (DPR's `.csv` files are tab-separated).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::RecordPosition;
use crate::input::{Compression, InputError, InputStream};

/// Bytes searched for the first line's end.
const HEAD: u64 = 1 << 16;

/// A row's fields.
pub(crate) struct TableRow {
    pub(crate) position: RecordPosition,
    pub(crate) fields: Vec<String>,
    /// Whether a field had bytes that are not UTF-8.
    pub(crate) damaged: bool,
}

/// The rows of one file.
pub(crate) struct DelimitedReader {
    path: PathBuf,
    compression: Compression,
    separator: char,
    reader: csv::Reader<InputStream>,
    record: csv::ByteRecord,
    rows: u64,
}

impl DelimitedReader {
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        let mut head = Vec::new();
        let first = InputStream::open_file(path)?;
        let compression = first.compression();
        first.take(HEAD).read_to_end(&mut head).map_err(|source| {
            if compression != Compression::None && source.kind() == io::ErrorKind::UnexpectedEof {
                InputError::Truncated { path: path.to_owned(), compression, bytes: head.len() as u64, line: 1 }
            } else {
                InputError::Open { path: path.to_owned(), source }
            }
        })?;
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let separator = if line.contains(&b'\t') { b'\t' } else { b',' };
        let reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            .has_headers(false)
            .flexible(true)
            .from_reader(InputStream::open(path)?);
        let record = csv::ByteRecord::new();
        Ok(Self { path: path.to_owned(), compression, separator: separator.into(), reader, record, rows: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// Uncompressed bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.reader.position().byte()
    }

    /// The next row; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<TableRow>, InputError> {
        match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(self.read_error(error)),
        }
        self.rows += 1;
        let line = self.record.position().map_or(self.rows, csv::Position::line);
        let mut damaged = false;
        let mut fields: Vec<String> = self
            .record
            .iter()
            .map(|field| {
                let text = String::from_utf8_lossy(field);
                damaged |= matches!(text, std::borrow::Cow::Owned(_));
                text.into_owned()
            })
            .collect();
        if self.rows == 1
            && let Some(first) = fields.first_mut()
        {
            *first = first.trim_start_matches('\u{feff}').to_owned();
        }
        Ok(Some(TableRow { position: RecordPosition { record: self.rows, line }, fields, damaged }))
    }

    /// A row as text again, for the quarantine.
    pub(crate) fn raw_text(&self, row: &TableRow) -> String {
        row.fields.join(&self.separator.to_string())
    }

    fn read_error(&self, error: csv::Error) -> InputError {
        let at = self.reader.position();
        let (path, bytes, line) = (self.path.clone(), at.byte(), at.line());
        let source = match error.into_kind() {
            csv::ErrorKind::Io(source) => source,
            kind => io::Error::other(format!("{kind:?}")),
        };
        if self.compression != Compression::None && source.kind() == io::ErrorKind::UnexpectedEof {
            InputError::Truncated { path, compression: self.compression, bytes, line }
        } else {
            InputError::Read { path, bytes, line, source }
        }
    }
}
