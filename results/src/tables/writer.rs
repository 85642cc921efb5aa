//! Writes a table as Parquet, row group by row group. The same rows give the same bytes.

use super::{Row, SCHEMA_VERSION, TableError};
use crate::log::FinalTable;
use crate::store::{ObjectWriter, Store};
use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;

/// The file's key for the table's name.
pub(super) const TABLE_KEY: &str = "hopeval.table";

/// The file's key for the schema's version.
pub(super) const VERSION_KEY: &str = "hopeval.schema_version";

/// Writes one table. Rows of a row group are held in memory; nothing is visible before [`TableWriter::finish`].
pub struct TableWriter<R: Row> {
    parquet: ArrowWriter<Vec<u8>>,
    object: ObjectWriter,
    hasher: blake3::Hasher,
    path: String,
    full_name: String,
    rows: Vec<R>,
    written: u64,
}

impl<R: Row> TableWriter<R> {
    /// A writer of the object `path`.
    ///
    /// # Errors
    /// If `path` is not a valid name.
    pub fn new(store: &Store, path: &str) -> Result<Self, TableError> {
        Self::with_properties(store, path, properties_builder::<R>().set_compression(zstd()).build())
    }

    /// A writer of the object `path`, of whose columns only those at the Parquet paths `compressed` are compressed: for
    /// many small objects. For a compressed column two contexts of zstd are made whenever it is written or read.
    ///
    /// # Errors
    /// If `path` is not a valid name.
    pub(super) fn with_compressed(store: &Store, path: &str, compressed: &[&[&str]]) -> Result<Self, TableError> {
        let plain = properties_builder::<R>().set_compression(Compression::UNCOMPRESSED);
        let column = |path: &&[&str]| ColumnPath::new(path.iter().map(|&name| name.to_owned()).collect());
        let properties =
            compressed.iter().map(column).fold(plain, |made, column| made.set_column_compression(column, zstd()));
        Self::with_properties(store, path, properties.build())
    }

    fn with_properties(store: &Store, path: &str, properties: WriterProperties) -> Result<Self, TableError> {
        let full_name = store.full_name(path);
        let parquet = ArrowWriter::try_new(Vec::new(), R::schema(), Some(properties))
            .map_err(|source| TableError::Encode { path: full_name.clone(), source })?;
        Ok(Self {
            parquet,
            object: store.writer(path)?,
            hasher: blake3::Hasher::new(),
            path: path.to_owned(),
            full_name,
            rows: Vec::new(),
            written: 0,
        })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// An error of the store.
    pub fn push(&mut self, row: R) -> Result<(), TableError> {
        self.rows.push(row);
        if self.rows.len() >= R::TABLE.row_group { self.end_row_group() } else { Ok(()) }
    }

    /// Rows in the unfinished row group.
    pub fn pending_rows(&self) -> usize {
        self.rows.len()
    }

    /// Ends a row group before it is full.
    ///
    /// # Errors
    /// An error of the store.
    pub fn end_row_group(&mut self) -> Result<(), TableError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let cells: Vec<Option<&R>> = self.rows.iter().map(Some).collect();
        let written = RecordBatch::try_new(R::schema(), R::columns(&cells))
            .map_err(ParquetError::from)
            .and_then(|batch| self.parquet.write(&batch))
            .and_then(|()| self.parquet.flush());
        written.map_err(|source| TableError::Encode { path: self.full_name.clone(), source })?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        let bytes = std::mem::take(self.parquet.inner_mut());
        self.send_bytes(bytes)
    }

    /// Writes the remaining rows and makes the object visible.
    ///
    /// # Errors
    /// An error of the store.
    pub fn finish(mut self) -> Result<FinalTable, TableError> {
        self.end_row_group()?;
        let Self { parquet, mut object, mut hasher, path, full_name, written, .. } = self;
        let rest = parquet.into_inner().map_err(|source| TableError::Encode { path: full_name, source })?;
        hasher.update(&rest);
        object.write(Bytes::from(rest))?;
        let bytes = object.finish()?;
        let digest = hasher.finalize().to_hex().to_string();
        Ok(FinalTable { table: R::TABLE.name.to_owned(), path, rows: written, bytes, digest })
    }

    fn send_bytes(&mut self, bytes: Vec<u8>) -> Result<(), TableError> {
        self.hasher.update(&bytes);
        Ok(self.object.write(Bytes::from(bytes))?)
    }
}

/// Writes a whole table.
///
/// # Errors
/// An error of the store.
pub fn write_table<R: Row>(
    store: &Store,
    path: &str,
    rows: impl IntoIterator<Item = R>,
) -> Result<FinalTable, TableError> {
    let mut writer = TableWriter::new(store, path)?;
    for row in rows {
        writer.push(row)?;
    }
    writer.finish()
}

/// The Parquet settings but for the compression. They depend on the table only.
fn properties_builder<R: Row>() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by("hopeval".to_owned())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(R::TABLE.row_group))
        .set_key_value_metadata(Some(vec![
            KeyValue::new(TABLE_KEY.to_owned(), R::TABLE.name.to_owned()),
            KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string()),
        ]))
}

fn zstd() -> Compression {
    Compression::ZSTD(ZstdLevel::default())
}
