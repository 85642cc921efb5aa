//! The names of rows in a text file, one a line.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::error::{VectorError, file_error};
use crate::error::{FieldError, RecordPosition};
use crate::input::{InputError, InputStream};

/// The most bytes of a line.
const LONGEST: u64 = 1 << 20;

/// A row's name, and its line (0 in a file without lines).
pub(super) struct RowName {
    pub(super) text: String,
    pub(super) line: u64,
}

/// The lines of a file of names.
pub(super) struct NameLines {
    path: PathBuf,
    reader: BufReader<InputStream>,
    line: u64,
}

impl NameLines {
    pub(super) fn open(path: &Path) -> Result<Self, VectorError> {
        Ok(Self { path: path.to_owned(), reader: BufReader::new(InputStream::open_file(path)?), line: 0 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The next name, for the next row of the file `vectors` of `rows` rows. Behind its last row (`more` is false)
    /// there must be no name.
    pub(super) fn next_name(&mut self, more: bool, vectors: &Path, rows: u64) -> Result<Option<RowName>, VectorError> {
        let name = self.next_line()?;
        match (&name, more) {
            (Some(_), true) | (None, false) => Ok(name),
            (None, true) => Err(self.count_error(self.line, vectors, rows)),
            (Some(_), false) => {
                let mut lines = self.line;
                while self.next_line()?.is_some() {
                    lines = self.line;
                }
                Err(self.count_error(lines, vectors, rows))
            }
        }
    }

    fn count_error(&self, lines: u64, vectors: &Path, rows: u64) -> VectorError {
        let allowed = format!("{rows}, one for each row of {}", vectors.display());
        file_error(&self.path, "", format!("{lines} lines"), allowed)
    }

    fn next_line(&mut self) -> Result<Option<RowName>, VectorError> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut bytes);
        let line = self.line + 1;
        read.map_err(|source| InputError::Read { path: self.path.clone(), bytes: 0, line, source })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.line = line;
        let wrong = |found: &str, allowed: &str| {
            let position = RecordPosition { record: line, line };
            VectorError::from(FieldError::new(found, allowed).in_row(&self.path, position))
        };
        if bytes.len() as u64 == LONGEST && !bytes.ends_with(b"\n") {
            return Err(wrong("a line of a megabyte or more", "one name a line"));
        }
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong("bytes that are not UTF-8", "UTF-8"))?;
        let text = if line == 1 { text.trim_start_matches('\u{feff}').to_owned() } else { text };
        if text.is_empty() {
            return Err(wrong("an empty line", "one name a line"));
        }
        Ok(Some(RowName { text, line }))
    }
}
