//! Cuts a stream of bytes into JSON records, in constant memory.
//!
//! ```text
//!   [ {…}, {…}, … ]            one array                     Layout::Array
//!   {"data": [ {…}, … ], …}    one array inside an object    Layout::Member
//!   {…}\n{…}\n                 JSON Lines                    Layout::Lines
//!   {\n … }\n{\n … }           values over several lines     Layout::Values
//! ```
//!
//! The layout is detected from the first bytes, never from the file's name. Lines end at `\n` alone: a line separator
//! (U+2028) or a next-line mark (U+0085) inside a string is text. A byte order mark is skipped. Records are cut, not
//! parsed. A record of invalid JSON is returned like any other, so that its reader can report it and continue with the
//! next.

mod layout;
mod scan;

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

pub use layout::RecordLayout;

use crate::error::RecordPosition;
use crate::input::{Compression, InputError, InputStream};
use crate::value::quoted;
use layout::FileStart;
use scan::ValueScanner;

/// Bytes read from the input at a time.
const CHUNK: usize = 256 << 10;
/// Least free space for a read. Decoders return their window in pieces, and each piece is worth a read.
const ROOM: usize = 16 << 10;
/// Largest number of bytes used to detect the layout.
const WINDOW: usize = 1 << 20;
/// A longer record is refused: it is not a row, but an unclosed string or a file with one single value. Its values may
/// take thirty times as much memory, so this bounds that, too.
const LONGEST: usize = 64 << 20;

/// One record, as written in its file.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'r> {
    /// Its position.
    pub position: RecordPosition,
    /// Its bytes, without the separators around it. They may be invalid JSON.
    pub bytes: &'r [u8],
}

/// The records of one file.
#[derive(Debug)]
pub struct RecordReader {
    path: PathBuf,
    input: InputStream,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were returned or skipped.
    start: usize,
    /// End of the bytes read into `buffer`. The rest is free.
    end: usize,
    /// Whether `input` is at its end.
    exhausted: bool,
    /// Bytes read from `input`.
    read: u64,
    layout: RecordLayout,
    /// Records returned.
    record: u64,
    /// The line of `buffer[start]`, from 1.
    line: u64,
    /// Whether the array of the records was closed.
    closed: bool,
}

impl RecordReader {
    /// Opens `path` and detects the layout of its records.
    ///
    /// # Errors
    /// The file cannot be read, or does not start like JSON. An empty file has no records and is not an error here.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        let mut records = Self {
            path: path.to_owned(),
            input: InputStream::open_file(path)?,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            exhausted: false,
            read: 0,
            layout: RecordLayout::Lines,
            record: 0,
            line: 1,
            closed: false,
        };
        while records.end < WINDOW && records.fill_buffer()? {}
        if records.unread_bytes().starts_with("\u{feff}".as_bytes()) {
            records.start = 3;
        }
        match layout::detect_layout(records.unread_bytes(), records.exhausted) {
            FileStart::Json { layout, skip } => {
                records.layout = layout;
                records.skip_bytes(skip);
                Ok(records)
            }
            FileStart::Empty => Ok(records),
            FileStart::Foreign => {
                let head = records.unread_bytes();
                let head = String::from_utf8_lossy(&head[..head.len().min(80)]);
                let head = head.lines().next().unwrap_or_default();
                Err(InputError::Foreign {
                    path: path.to_owned(),
                    found: quoted(head),
                    allowed: "JSON (an array, an object or lines), Parquet, or a table (TSV, CSV) where the format has \
                              one; `fields` reads tables whose first line names the columns",
                })
            }
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The layout of the records.
    pub fn layout(&self) -> RecordLayout {
        self.layout
    }

    /// The compression of the file.
    pub fn compression(&self) -> Compression {
        self.input.compression()
    }

    /// Uncompressed bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.read
    }

    /// Records returned so far.
    pub fn count(&self) -> u64 {
        self.record
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// The file is damaged or truncated, or the text between two records violates JSON.
    #[expect(
        clippy::should_implement_trait,
        reason = "the record borrows the reader's buffer, which an Iterator cannot say"
    )]
    pub fn next(&mut self) -> Result<Option<RawRecord<'_>>, InputError> {
        let found = match self.layout {
            RecordLayout::Lines => self.next_line()?,
            RecordLayout::Array | RecordLayout::Member => self.next_item()?,
            RecordLayout::Values => self.next_value()?,
        };
        let Some(length) = found else { return Ok(None) };
        self.check_length(length)?;
        self.record += 1;
        let position = RecordPosition { record: self.record, line: self.line };
        let from = self.start;
        self.skip_bytes(length);
        Ok(Some(RawRecord { position, bytes: self.buffer[from..from + length].trim_ascii() }))
    }

    /// The length of the next line that is not blank. Moves the buffer to its start.
    fn next_line(&mut self) -> Result<Option<usize>, InputError> {
        loop {
            let mut searched = 0;
            let length = loop {
                let rest = &self.buffer[self.start + searched..self.end];
                if let Some(found) = rest.iter().position(|&byte| byte == b'\n') {
                    break searched + found + 1;
                }
                searched += rest.len();
                self.check_length(searched)?;
                if !self.fill_buffer()? {
                    break searched;
                }
            };
            if length == 0 {
                return Ok(None);
            }
            let line = &self.buffer[self.start..self.start + length];
            if line.trim_ascii().is_empty() {
                self.skip_bytes(length);
            } else {
                return Ok(Some(length));
            }
        }
    }

    /// The length of the array's next item. Moves the buffer to its start.
    fn next_item(&mut self) -> Result<Option<usize>, InputError> {
        if self.closed {
            return self.after_array();
        }
        if self.record > 0 {
            match self.peek()? {
                Some(b',') => self.skip_bytes(1),
                Some(b']') => {
                    self.skip_bytes(1);
                    self.closed = true;
                    return self.after_array();
                }
                _ => return Err(self.layout_error("`,` or `]`")),
            }
        }
        match self.peek()? {
            Some(b']') if self.record == 0 => {
                self.skip_bytes(1);
                self.closed = true;
                self.after_array()
            }
            None | Some(b',' | b']' | b'}') => Err(self.layout_error("a JSON value")),
            Some(_) => self.scan_value(ValueScanner::in_array()),
        }
    }

    /// Only white space may follow a file's array. After a member, the rest of its object follows.
    fn after_array(&mut self) -> Result<Option<usize>, InputError> {
        if self.layout == RecordLayout::Member {
            // The object's other members are not used, but a truncated stream must be reported.
            loop {
                self.start = self.end;
                if !self.fill_buffer()? {
                    return Ok(None);
                }
            }
        }
        match self.peek()? {
            None => Ok(None),
            Some(_) => Err(self.layout_error("the end of the file")),
        }
    }

    /// The length of the next of several values. Moves the buffer to its start.
    fn next_value(&mut self) -> Result<Option<usize>, InputError> {
        match self.peek()? {
            None => Ok(None),
            Some(b'{' | b'[') => self.scan_value(ValueScanner::alone()),
            Some(_) => Err(self.layout_error("an object")),
        }
    }

    fn scan_value(&mut self, mut scanner: ValueScanner) -> Result<Option<usize>, InputError> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start + searched..self.end];
            if let Some(found) = scanner.end_of_value(rest) {
                return Ok(Some(searched + found));
            }
            searched += rest.len();
            self.check_length(searched)?;
            if !self.fill_buffer()? {
                self.skip_bytes(searched);
                return Err(self.layout_error("the rest of the record"));
            }
        }
    }

    /// The bytes read but not yet returned.
    fn unread_bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Refuses a record longer than `LONGEST`.
    fn check_length(&self, length: usize) -> Result<(), InputError> {
        if length > LONGEST { Err(self.layout_error("records of at most 64 MiB")) } else { Ok(()) }
    }

    /// The next byte that is not white space. It is not consumed.
    fn peek(&mut self) -> Result<Option<u8>, InputError> {
        loop {
            let rest = self.unread_bytes();
            if let Some(blank) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                let byte = rest[blank];
                self.skip_bytes(blank);
                return Ok(Some(byte));
            }
            let blank = rest.len();
            self.skip_bytes(blank);
            if !self.fill_buffer()? {
                return Ok(None);
            }
        }
    }

    /// Moves over `length` bytes and counts their lines.
    fn skip_bytes(&mut self, length: usize) {
        let passed = &self.buffer[self.start..self.start + length];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.start += length;
    }

    /// Reads more behind the unused bytes. False at the end of the input.
    fn fill_buffer(&mut self) -> Result<bool, InputError> {
        if self.exhausted {
            return Ok(false);
        }
        if self.start >= CHUNK || self.start == self.end {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.end + ROOM {
            self.buffer.resize(self.end + CHUNK, 0);
        }
        let taken = self.input.read(&mut self.buffer[self.end..]);
        match taken {
            Ok(0) => {
                self.exhausted = true;
                Ok(false)
            }
            Ok(taken) => {
                self.end += taken;
                self.read += taken as u64;
                Ok(true)
            }
            Err(source) => Err(self.read_error(source)),
        }
    }

    fn read_error(&self, source: std::io::Error) -> InputError {
        let ahead = self.unread_bytes().iter().filter(|&&byte| byte == b'\n').count() as u64;
        let (path, bytes, line) = (self.path.clone(), self.read, self.line + ahead);
        match self.input.compression() {
            compression if compression != Compression::None && source.kind() == ErrorKind::UnexpectedEof => {
                InputError::Truncated { path, compression, bytes, line }
            }
            _ => InputError::Read { path, bytes, line, source },
        }
    }

    fn layout_error(&self, allowed: &'static str) -> InputError {
        let rest = self.unread_bytes();
        let found = match rest.len() {
            0 => "the end of the file".to_owned(),
            length => quoted(&String::from_utf8_lossy(&rest[..length.min(20)])),
        };
        InputError::Layout { path: self.path.clone(), line: self.line, record: self.record, found, allowed }
    }
}
