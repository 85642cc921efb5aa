//! Reads a table, whole or by row groups: one request for the footer, one for each stretch of row groups.

use super::cell::Columns;
use super::writer::{TABLE_KEY, VERSION_KEY};
use super::{Row, SCHEMA_VERSION, TableError};
use crate::check::{FileCheck, FileRemedy};
use crate::layout;
use crate::log::FinalRecord;
use crate::store::Store;
use arrow::datatypes::{DataType, Field, Schema};
use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the first read, from the end of a file, before the footer's size is known.
const TAIL_BYTES: u64 = 64 << 10;

/// The most rows of neighbouring row groups read with one request.
const STRETCH_ROWS: u64 = 8192;

/// Rows decoded at once.
const BATCH_ROWS: usize = 1024;

/// An open table.
pub struct TableReader<R: Row> {
    store: Store,
    name: String,
    path: String,
    size: u64,
    metadata: ArrowReaderMetadata,
    /// All its bytes, if they were read to compare them with a check.
    whole: Option<Bytes>,
    rows: PhantomData<fn() -> R>,
}

impl<R: Row> TableReader<R> {
    /// Opens the object `name` and checks its table and version.
    ///
    /// # Errors
    /// An absent, foreign or corrupt file, another version, or an error of the store.
    pub fn open(store: &Store, name: &str) -> Result<Self, TableError> {
        Self::open_whole(store, name, None)
    }

    /// As [`TableReader::open`]. If the file has a check, all of it is compared before anything is decoded.
    ///
    /// # Errors
    /// As [`TableReader::open`], and a damaged file.
    pub fn open_checked(
        store: &Store,
        name: &str,
        check: Option<&FileCheck>,
        remedy: FileRemedy,
    ) -> Result<Self, TableError> {
        let whole = check.map(|check| check.verify_file(store, name, remedy)).transpose()?.flatten();
        Self::open_whole(store, name, whole)
    }

    /// Opens a table of a finished run: the one that its record names.
    ///
    /// # Errors
    /// As [`TableReader::open_checked`].
    pub fn open_final(store: &Store, run: &str, finished: &FinalRecord) -> Result<Self, TableError> {
        match finished.find_table(R::TABLE.name) {
            Some(table) => Self::open_checked(store, &table.path, Some(&table.file_check()), FileRemedy::Rewrite),
            None => Self::open(store, &layout::final_table(run, R::TABLE.name)),
        }
    }

    fn open_whole(store: &Store, name: &str, whole: Option<Bytes>) -> Result<Self, TableError> {
        let path = store.full_name(name);
        let size = match &whole {
            Some(bytes) => bytes.len() as u64,
            None => store.size(name)?,
        };
        let (start, bytes) = match &whole {
            Some(bytes) => (0, bytes.clone()),
            None => {
                let start = size.saturating_sub(TAIL_BYTES);
                (start, store.get_range(name, start..size)?)
            }
        };
        let tail = FileWindow { store, name, size, start, bytes }.into_fixed();
        let metadata = ArrowReaderMetadata::load(&tail, ArrowReaderOptions::new())
            .map_err(|source| TableError::reading(&path, source))?;
        check_identity::<R>(&path, &metadata)?;
        check_columns::<R>(&path, metadata.schema())?;
        Ok(Self { store: store.clone(), name: name.to_owned(), path, size, metadata, whole, rows: PhantomData })
    }

    /// Rows in the table.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Row groups in the table.
    pub fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// The row groups with possible values from `low` to `high`, both included, in `column`, an unsigned number.
    pub fn groups_where(&self, column: &str, low: u64, high: u64) -> Vec<usize> {
        let metadata = self.metadata.metadata();
        let may_hold = |group: &RowGroupMetaData| {
            let chunk = group.columns().iter().find(|chunk| chunk.column_path().string() == column);
            let bounds = chunk.and_then(|chunk| column_bounds(chunk.statistics()?));
            bounds.is_none_or(|(least, greatest)| least <= high && low <= greatest)
        };
        (0..metadata.num_row_groups()).filter(|&group| may_hold(metadata.row_group(group))).collect()
    }

    /// Cuts a list of row groups into lists for one request each, with a bounded number of rows.
    pub(crate) fn request_groups<'a>(&self, groups: &'a [usize]) -> Vec<&'a [usize]> {
        let rows = |group: usize| self.metadata.metadata().row_group(group).num_rows().unsigned_abs();
        let mut held = groups.first().map_or(0, |&first| rows(first));
        let together = |_: &usize, next: &usize| {
            held += rows(*next);
            let fits = held <= STRETCH_ROWS;
            if !fits {
                held = rows(*next);
            }
            fits
        };
        groups.chunk_by(together).collect()
    }

    /// The rows of the given row groups, in the given order.
    ///
    /// # Errors
    /// A corrupt file, or an error of the store.
    pub fn read_groups(&self, groups: &[usize]) -> Result<Vec<R>, TableError> {
        let mut rows = Vec::new();
        self.decode_fetched(self.fetch_groups(groups)?, &|_| true, &mut rows)?;
        Ok(rows)
    }

    /// The bytes of the given row groups, for [`TableReader::decode_fetched`]; they hold no other bytes of the file.
    ///
    /// # Errors
    /// A corrupt file, or an error of the store.
    pub(crate) fn fetch_groups(&self, groups: &[usize]) -> Result<FetchedGroups, TableError> {
        let range = self.group_bytes(groups)?.unwrap_or(0..0);
        let bytes = match &self.whole {
            Some(bytes) => Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize]),
            None if range.is_empty() => Bytes::new(),
            None => self.store.get_range(&self.name, range.clone())?,
        };
        Ok(FetchedGroups { groups: groups.to_vec(), start: range.start, bytes })
    }

    /// Lets go of the bytes that were read to compare them with a check.
    pub(crate) fn forget_whole(&mut self) {
        self.whole = None;
    }

    /// Appends the `wanted` rows of fetched row groups to `rows`.
    ///
    /// # Errors
    /// A corrupt file, or an error of the store.
    pub(crate) fn decode_fetched(
        &self,
        fetched: FetchedGroups,
        wanted: &dyn Fn(&R) -> bool,
        rows: &mut Vec<R>,
    ) -> Result<(), TableError> {
        let FetchedGroups { groups, start, bytes } = fetched;
        if groups.is_empty() {
            return Ok(());
        }
        let corrupt = |source| TableError::reading(&self.path, source);
        let window = FileWindow { store: &self.store, name: &self.name, size: self.size, start, bytes }.into_fixed();
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(window, self.metadata.clone())
            .with_row_groups(groups)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(corrupt)?;
        for batch in batches {
            let batch = batch.map_err(|error| corrupt(error.into()))?;
            let read = R::rows(batch.columns(), batch.num_rows(), None).and_then(|read| read.into_iter().collect());
            let read: Vec<R> = read.ok_or_else(|| corrupt(ParquetError::General("a null where none may be".into())))?;
            rows.extend(read.into_iter().filter(wanted));
        }
        Ok(())
    }

    /// As [`TableReader::byte_range`], with the file's name in an error.
    fn group_bytes(&self, groups: &[usize]) -> Result<Option<Range<u64>>, TableError> {
        self.byte_range(groups).map_err(|source| TableError::reading(&self.path, source))
    }

    /// All rows from row group `first` on, read a row group at a time.
    pub fn rows_from(self, first: usize) -> impl Iterator<Item = Result<R, TableError>> + Send + use<R> {
        (first..self.row_groups()).flat_map(move |group| match self.read_groups(&[group]) {
            Ok(rows) => rows.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        })
    }

    /// The byte range from the first of `groups` to the last, or `None` if there are no groups.
    fn byte_range(&self, groups: &[usize]) -> Result<Option<Range<u64>>, ParquetError> {
        let mut covered: Option<Range<u64>> = None;
        for &group in groups {
            for chunk in self.metadata.metadata().row_group(group).columns() {
                let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
                let ends = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
                let range = ends.and_then(|(start, length)| Some(start..start.checked_add(length)?));
                let range = range.filter(|range| range.end <= self.size);
                let range = range.ok_or_else(|| ParquetError::EOF("a column lies outside the file".to_owned()))?;
                covered = Some(match covered {
                    Some(all) => all.start.min(range.start)..all.end.max(range.end),
                    None => range,
                });
            }
        }
        Ok(covered)
    }
}

/// Encoded row groups in memory.
pub(crate) struct FetchedGroups {
    groups: Vec<usize>,
    start: u64,
    bytes: Bytes,
}

/// Reads a whole table.
///
/// # Errors
/// As [`TableReader::open`].
pub fn read_table<R: Row>(store: &Store, name: &str) -> Result<Vec<R>, TableError> {
    TableReader::open(store, name)?.rows_from(0).collect()
}

/// Reads a whole table of a finished run: the one that its record names.
///
/// # Errors
/// As [`TableReader::open_final`].
pub fn read_final<R: Row>(store: &Store, run: &str, finished: &FinalRecord) -> Result<Vec<R>, TableError> {
    TableReader::open_final(store, run, finished)?.rows_from(0).collect()
}

/// The least and the greatest value of an unsigned column chunk.
fn column_bounds(statistics: &Statistics) -> Option<(u64, u64)> {
    match statistics {
        Statistics::Int32(s) => Some((u64::from(*s.min_opt()? as u32), u64::from(*s.max_opt()? as u32))),
        Statistics::Int64(s) => Some((*s.min_opt()? as u64, *s.max_opt()? as u64)),
        _ => None,
    }
}

fn check_identity<R: Row>(path: &str, metadata: &ArrowReaderMetadata) -> Result<(), TableError> {
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    let get = |key: &str| pairs?.iter().find(|pair| pair.key == key)?.value.clone();
    let foreign = |found: String| TableError::Foreign { path: path.to_owned(), found, expected: R::TABLE.name };
    let table = get(TABLE_KEY).ok_or_else(|| foreign("a table of another program".to_owned()))?;
    if table != R::TABLE.name {
        return Err(foreign(format!("the table `{table}`")));
    }
    match get(VERSION_KEY) {
        Some(version) if version == SCHEMA_VERSION.to_string() => Ok(()),
        version => Err(TableError::Version {
            path: path.to_owned(),
            found: version.unwrap_or_else(|| "none".to_owned()),
            supported: SCHEMA_VERSION,
        }),
    }
}

/// Compares names, types and nullability. Within a version descriptions may change, and nullable columns may be added
/// at the end of a table or of a struct in it.
fn check_columns<R: Row>(path: &str, found: &Schema) -> Result<(), TableError> {
    let describe = |data_type: &DataType, nullable: bool| {
        format!("{data_type}{}", if nullable { " with nulls" } else { " without nulls" })
    };
    let fields = <R as Columns>::fields();
    for (i, field) in fields.iter().enumerate() {
        if i >= found.fields().len() && field.is_nullable() {
            continue;
        }
        let got = found.fields().get(i).filter(|got| got.name() == field.name());
        if got
            .is_some_and(|got| is_type(got.data_type(), field.data_type()) && got.is_nullable() == field.is_nullable())
        {
            continue;
        }
        return Err(TableError::Column {
            path: path.to_owned(),
            column: field.name().clone(),
            found: got.map_or("absent".to_owned(), |got| describe(got.data_type(), got.is_nullable())),
            expected: describe(field.data_type(), field.is_nullable()),
        });
    }
    Ok(())
}

/// True if the found type equals the expected one except for descriptions and later fields.
fn is_type(found: &DataType, expected: &DataType) -> bool {
    let is_field = |found: &Field, expected: &Field| {
        found.is_nullable() == expected.is_nullable() && is_type(found.data_type(), expected.data_type())
    };
    match (found, expected) {
        (DataType::List(found), DataType::List(expected)) => is_field(found, expected),
        (DataType::Struct(found), DataType::Struct(expected)) => {
            found.len() <= expected.len()
                && found.iter().zip(expected).all(|(a, b)| a.name() == b.name() && is_field(a, b))
                && expected.iter().skip(found.len()).all(|added| added.is_nullable())
        }
        _ => found == expected,
    }
}

/// A byte range of a file in memory. Other bytes are read on demand.
struct FileWindow<'a> {
    store: &'a Store,
    name: &'a str,
    size: u64,
    start: u64,
    bytes: Bytes,
}

/// A [`FileWindow`] that owns its store and name.
struct FixedWindow {
    store: Store,
    name: Arc<str>,
    size: u64,
    start: u64,
    bytes: Bytes,
}

impl FileWindow<'_> {
    fn into_fixed(self) -> FixedWindow {
        let (store, name) = (self.store.clone(), Arc::from(self.name));
        FixedWindow { store, name, size: self.size, start: self.start, bytes: self.bytes }
    }
}

impl FixedWindow {
    fn read_slice(&self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        if range.start > range.end || range.end > self.size {
            return Err(ParquetError::EOF(format!("bytes {} to {} lie outside the file", range.start, range.end)));
        }
        let end = self.start + self.bytes.len() as u64;
        if self.start <= range.start && range.end <= end {
            return Ok(self.bytes.slice((range.start - self.start) as usize..(range.end - self.start) as usize));
        }
        self.store.get_range(&self.name, range).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

impl Length for FixedWindow {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for FixedWindow {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let end = self.start + self.bytes.len() as u64;
        let end = if (self.start..end).contains(&start) { end } else { (start + TAIL_BYTES).min(self.size) };
        Ok(self.read_slice(start..end)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.checked_add(length as u64);
        self.read_slice(start..end.ok_or_else(|| ParquetError::EOF("a length overflows".to_owned()))?)
    }
}
