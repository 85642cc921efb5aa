//! Rows of Parquet files, as writers of tables and the Hugging Face hub's exports have them.
//!
//! ```text
//!  footer -> row group by row group -> pages (decompressed, checked) -> Arrow batches -> one object for each row
//! ```
//!
//! Memory holds the pages under way and one batch. Whatever a file holds, reading it ends with rows or with an error
//! that names the file: see [`guard`]. The numbers of rows in the footer, of the file and of its row groups, must be
//! those of the pages, so rows are never missed. A changed value in a page without a checksum cannot be seen here.

mod cells;
mod delta;
mod guard;
mod pages;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::error::RecordPosition;
use crate::input::InputError;
use crate::value::JsonValue;
use guard::guarded;
use pages::GroupPages;

pub use guard::catches_panics;

/// The first bytes of a file.
const MAGIC: &[u8; 4] = b"PAR1";
/// Rows of a batch.
const BATCH_ROWS: usize = 256;

/// Whether `path` begins as Parquet files do.
pub(crate) fn is_parquet(path: &Path) -> Result<bool, InputError> {
    let failed = |source| InputError::Open { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(false);
    }
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut head)).map_err(failed)?;
    Ok(head == MAGIC)
}

/// The rows of one file.
pub(crate) struct ParquetRows {
    path: PathBuf,
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    levels: FieldLevels,
    /// The row group under way.
    group: Option<OpenGroup>,
    /// The number of the row group after it.
    next_group: usize,
    batch: Option<RecordBatch>,
    /// The next row of `batch`.
    at: usize,
    /// Rows returned.
    rows: u64,
    /// Uncompressed bytes of the row groups that were begun.
    bytes: u64,
}

struct OpenGroup {
    pages: GroupPages,
    reader: ParquetRecordBatchReader,
    /// Rows that are still to come.
    left: u64,
}

impl ParquetRows {
    /// Opens `path` and reads its footer.
    ///
    /// # Errors
    /// The file cannot be opened, or its footer is damaged.
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        let file = File::open(path).map_err(|source| InputError::Open { path: path.to_owned(), source })?;
        let (metadata, levels) = guarded(path, || {
            let metadata = ParquetMetaDataReader::new().parse_and_finish(&file)?;
            check_row_counts(&metadata)?;
            let schema = metadata.file_metadata().schema_descr();
            let levels = parquet_to_arrow_field_levels(schema, ProjectionMask::all(), None)?;
            Ok((metadata, levels))
        })?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            metadata: Arc::new(metadata),
            levels,
            group: None,
            next_group: 0,
            batch: None,
            at: 0,
            rows: 0,
            bytes: 0,
        })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Rows returned so far.
    pub(crate) fn count(&self) -> u64 {
        self.rows
    }

    /// Rows of the file, by its footer.
    pub(crate) fn row_count(&self) -> u64 {
        u64::try_from(self.metadata.file_metadata().num_rows()).unwrap_or(0)
    }

    /// The names of the columns, in their order.
    pub(crate) fn column_names(&self) -> Vec<&str> {
        let schema = self.metadata.file_metadata().schema_descr().root_schema();
        schema.get_fields().iter().map(|field| field.name()).collect()
    }

    /// Uncompressed bytes of the row groups that were begun.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next row; `None` at the end. Not to be called again after an error.
    pub(crate) fn next(&mut self) -> Result<Option<(RecordPosition, JsonValue<'_>)>, InputError> {
        while self.batch.as_ref().is_none_or(|batch| self.at == batch.num_rows()) {
            if !self.next_batch()? {
                return Ok(None);
            }
        }
        let Some(batch) = &self.batch else { return Ok(None) };
        let at = self.at;
        self.at += 1;
        self.rows += 1;
        let row = guarded(&self.path, || Ok(cells::read_row(batch, at)))?;
        // A row has no line.
        Ok(Some((RecordPosition { record: self.rows, line: 0 }, row)))
    }

    /// Reads the next batch. False after the last one.
    fn next_batch(&mut self) -> Result<bool, InputError> {
        (self.batch, self.at) = (None, 0);
        loop {
            if self.group.is_none() && !self.next_group()? {
                return Ok(false);
            }
            let Some(group) = &mut self.group else { return Ok(false) };
            self.batch = guarded(&self.path, || group.next_batch())?;
            if self.batch.is_some() {
                return Ok(true);
            }
            self.group = None;
        }
    }

    /// Opens the next row group. False after the last one.
    fn next_group(&mut self) -> Result<bool, InputError> {
        if self.next_group == self.metadata.num_row_groups() {
            return Ok(false);
        }
        let index = self.next_group;
        self.next_group += 1;
        self.bytes += u64::try_from(self.metadata.row_group(index).total_byte_size()).unwrap_or(0);
        self.group = Some(guarded(&self.path, || {
            let pages = GroupPages::new(Arc::clone(&self.file), Arc::clone(&self.metadata), index);
            let left = row_count(self.metadata.row_group(index).num_rows())?;
            let reader = ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &pages, BATCH_ROWS, None)?;
            Ok(OpenGroup { pages, reader, left })
        })?);
        Ok(true)
    }
}

impl OpenGroup {
    /// The next batch; `None` after the last row. Then all values of the footer were read.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ParquetError> {
        let batch = self.reader.next().transpose()?.filter(|batch| batch.num_rows() > 0);
        let rows = batch.as_ref().map_or(0, RecordBatch::num_rows) as u64;
        match (self.left.checked_sub(rows), rows) {
            (Some(0), 0) => self.pages.check_values()?,
            (Some(left), 1..) => self.left = left,
            _ => {
                return Err(ParquetError::General("its pages have fewer or more rows than its footer says".to_owned()));
            }
        }
        Ok(batch)
    }
}

/// Checks that the row groups have the rows of the file.
fn check_row_counts(metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    let mut sum = 0_u64;
    for group in metadata.row_groups() {
        let rows = row_count(group.num_rows())?;
        sum = sum.saturating_add(rows);
        for column in group.columns() {
            let is_flat = column.column_descr().max_rep_level() == 0;
            if is_flat && column.num_values() != group.num_rows() {
                let (name, values) = (column.column_path().string(), column.num_values());
                let reason = format!("column `{name}` has {values} values in a row group of {rows} rows");
                return Err(ParquetError::General(reason));
            }
        }
    }
    let rows = row_count(metadata.file_metadata().num_rows())?;
    if sum == rows {
        Ok(())
    } else {
        Err(ParquetError::General(format!("its row groups have {sum} rows, and its footer says {rows}")))
    }
}

fn row_count(rows: i64) -> Result<u64, ParquetError> {
    u64::try_from(rows).map_err(|_| ParquetError::General(format!("a row group of {rows} rows")))
}
