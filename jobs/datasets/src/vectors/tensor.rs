//! The rows of a two-dimensional tensor in a file, read one at a time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};

use super::error::{VectorError, file_error};
use super::number::{WIDEST, check_number};
use crate::error::RecordPosition;
use crate::input::InputError;

/// Bytes read from the disk at a time.
const READ_AHEAD: usize = 1 << 20;

/// The type of a tensor's numbers, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberType {
    F16,
    Bf16,
    F32,
    F64,
}

impl NumberType {
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// The number in as many bytes as the type has.
    fn read(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (Self::F16, &[a, b]) => f16::from_le_bytes([a, b]).into(),
            (Self::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).into(),
            (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
            (_, bytes) => f64::from_le_bytes(bytes.try_into().unwrap_or_default()),
        }
    }
}

/// The place of a tensor in its file, by the file's heading.
pub(super) struct TensorPlace {
    pub(super) numbers: NumberType,
    /// As the heading has it.
    pub(super) shape: Vec<u64>,
    /// The field of the heading that has the shape.
    pub(super) shape_field: String,
    /// Its first byte.
    pub(super) start: u64,
    /// The byte behind its last one.
    pub(super) end: u64,
}

/// The rows that are still to come.
pub(super) struct TensorRows {
    path: PathBuf,
    reader: BufReader<File>,
    numbers: NumberType,
    width: usize,
    rows: u64,
    /// Rows returned.
    read: u64,
    bytes: Vec<u8>,
}

impl TensorRows {
    /// The rows of the tensor at `place` in `file`.
    ///
    /// # Errors
    /// Another shape than rows of numbers; other bytes than those of the shape.
    pub(super) fn new(path: &Path, mut file: File, place: &TensorPlace) -> Result<Self, VectorError> {
        let wrong = |allowed: &str| {
            let sizes: Vec<String> = place.shape.iter().map(u64::to_string).collect();
            file_error(path, &place.shape_field, format!("({})", sizes.join(", ")), allowed)
        };
        let &[rows, width] = &place.shape[..] else { return Err(wrong("two sizes, (rows, numbers of a vector)")) };
        if rows == 0 || !(1..=WIDEST).contains(&width) {
            return Err(wrong("at least one row, of 1 to 65536 numbers"));
        }
        let row_bytes = width * place.numbers.bytes();
        let found = place.end.saturating_sub(place.start);
        if rows.checked_mul(row_bytes) != Some(found) {
            let found = format!("{found} bytes of numbers for {rows} rows of {width} numbers");
            return Err(file_error(path, "", found, format!("{row_bytes} bytes for each row, and no others")));
        }
        let failed = |source| InputError::Open { path: path.to_owned(), source };
        file.seek(SeekFrom::Start(place.start)).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(READ_AHEAD, file),
            numbers: place.numbers,
            width: width as usize,
            rows,
            read: 0,
            bytes: vec![0; row_bytes as usize],
        })
    }

    pub(super) fn row_count(&self) -> u64 {
        self.rows
    }

    /// Reads the next row into `row`. False after the last one.
    pub(super) fn read_row(&mut self, row: &mut Vec<f32>) -> Result<bool, VectorError> {
        if self.read == self.rows {
            return Ok(false);
        }
        self.read += 1;
        let position = RecordPosition { record: self.read, line: 0 };
        self.reader.read_exact(&mut self.bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                file_error(&self.path, "", format!("the end of the file in row {}", self.read), "a file at rest")
            }
            _ => InputError::Open { path: self.path.clone(), source }.into(),
        })?;
        row.clear();
        row.reserve(self.width);
        for (at, bytes) in self.bytes.chunks(self.numbers.bytes() as usize).enumerate() {
            let number = check_number(self.numbers.read(bytes));
            row.push(number.map_err(|error| error.at_index(at).in_row(&self.path, position))?);
        }
        Ok(true)
    }
}
