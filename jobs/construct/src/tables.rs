//! The Parquet files: labeler, filter, encoder, and from gold annotations scorer and reader.
//!
//! Names, types and order of the columns are those of `ops/train/rows.py`. Rows stand in the order of the questions.
//! The same rows give the same bytes. Each file is written under a temporary name and renamed when all files are
//! complete.

mod columns;

use crate::error::ConstructError;
use crate::report::ConstructReport;
use crate::rows::{EncoderRow, FilterRow, LabelerRow, QuestionRows, ReaderRow, ScorerRow};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use columns::{flag_lists, grades, list_of, numbers, text_lists, texts};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterVersion};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a row group, and the most rows in memory.
const ROW_GROUP: usize = 1024;

/// A row of a table, with the table's name and columns.
trait TableRow: Sized {
    /// The file's name without its ending.
    const NAME: &'static str;

    /// Name and type of each column.
    fn fields() -> Vec<(&'static str, DataType)>;

    /// The columns of some rows.
    fn columns(rows: &[Self]) -> Vec<ArrayRef>;
}

macro_rules! table_row {
    ($row:ty, $name:literal, { $($field:ident: $type:expr, $build:expr;)* }) => {
        impl TableRow for $row {
            const NAME: &'static str = $name;

            fn fields() -> Vec<(&'static str, DataType)> {
                vec![$((stringify!($field), $type)),*]
            }

            fn columns(rows: &[Self]) -> Vec<ArrayRef> {
                vec![$($build(&mut rows.iter().map(|row| &row.$field))),*]
            }
        }
    };
}

table_row!(LabelerRow, "labeler", {
    question: DataType::Utf8, texts;
    chunk: DataType::Utf8, texts;
    matched: DataType::Utf8, texts;
    chunk_tokens: list_of(DataType::Utf8), text_lists;
    labels: list_of(DataType::Boolean), flag_lists;
    tag: DataType::Utf8, texts;
    question_id: DataType::Utf8, texts;
    passage: DataType::Utf8, texts;
    hop: DataType::Int32, numbers;
});

table_row!(FilterRow, "filter", {
    query_info_tokens: list_of(DataType::Utf8), text_lists;
    query_info_labels: list_of(DataType::Boolean), flag_lists;
    question_id: DataType::Utf8, texts;
    hop: DataType::Int32, numbers;
});

table_row!(ScorerRow, "scorer", {
    question_id: DataType::Utf8, texts;
    question: DataType::Utf8, texts;
    path: list_of(DataType::Utf8), text_lists;
    relevance: DataType::Int8, grades;
});

table_row!(ReaderRow, "reader", {
    question_id: DataType::Utf8, texts;
    question: DataType::Utf8, texts;
    passages: list_of(DataType::Utf8), text_lists;
    answer: DataType::Utf8, texts;
    relevance: DataType::Int8, grades;
});

table_row!(EncoderRow, "encoder", {
    question_id: DataType::Utf8, texts;
    query: DataType::Utf8, texts;
    positive: DataType::Utf8, texts;
    negatives: list_of(DataType::Utf8), text_lists;
    hop: DataType::Int32, numbers;
});

/// An incomplete file under a temporary name. Dropping it removes the file.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After a rename the file is gone, so errors are ignored; an orphan does no harm.
        drop(std::fs::remove_file(&self.0));
    }
}

/// One file being written.
struct TrainingTable<R: TableRow> {
    parquet: ArrowWriter<File>,
    schema: SchemaRef,
    temporary: TemporaryFile,
    path: PathBuf,
    rows: Vec<R>,
}

impl<R: TableRow> TrainingTable<R> {
    fn create(folder: &Path) -> Result<Self, ConstructError> {
        let path = folder.join(format!("{}.parquet", R::NAME));
        let temporary = TemporaryFile(folder.join(format!(".{}.parquet.{}", R::NAME, std::process::id())));
        let fields = R::fields().into_iter().map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let file = File::create(&temporary.0).map_err(|source| ConstructError::Io { path: path.clone(), source })?;
        let properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by("hopeval".to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .build();
        let parquet = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))
            .map_err(|source| ConstructError::Encode { path: path.clone(), source })?;
        Ok(Self { parquet, schema, temporary, path, rows: Vec::new() })
    }

    fn extend(&mut self, rows: Vec<R>) -> Result<(), ConstructError> {
        self.rows.extend(rows);
        if self.rows.len() >= ROW_GROUP { self.write_rows() } else { Ok(()) }
    }

    fn write_rows(&mut self) -> Result<(), ConstructError> {
        let written = RecordBatch::try_new(Arc::clone(&self.schema), R::columns(&self.rows))
            .map_err(ParquetError::from)
            .and_then(|batch| self.parquet.write(&batch));
        written.map_err(|source| ConstructError::Encode { path: self.path.clone(), source })?;
        self.rows.clear();
        Ok(())
    }

    /// Completes the file, still under its temporary name.
    fn close_file(mut self) -> Result<(TemporaryFile, PathBuf), ConstructError> {
        self.write_rows()?;
        let Self { parquet, temporary, path, .. } = self;
        parquet.close().map_err(|source| ConstructError::Encode { path: path.clone(), source })?;
        Ok((temporary, path))
    }
}

/// The files of one construction.
pub struct TrainingTables {
    labeler: TrainingTable<LabelerRow>,
    filter: TrainingTable<FilterRow>,
    encoder: TrainingTable<EncoderRow>,
    paths: Option<(TrainingTable<ScorerRow>, TrainingTable<ReaderRow>)>,
}

impl TrainingTables {
    /// `labeler`, `filter` and `encoder.parquet` in `folder`. A missing folder is created.
    ///
    /// # Errors
    /// The folder or a file cannot be made; `scorer` or `reader.parquet` are there, from other questions.
    pub fn create_for_hops(folder: &Path) -> Result<Self, ConstructError> {
        let others = [ScorerRow::NAME, ReaderRow::NAME].map(|name| folder.join(format!("{name}.parquet")));
        if let Some(path) = others.into_iter().find(|path| path.exists()) {
            return Err(ConstructError::Stale { path });
        }
        Self::create_hops(folder)
    }

    fn create_hops(folder: &Path) -> Result<Self, ConstructError> {
        std::fs::create_dir_all(folder).map_err(|source| ConstructError::Io { path: folder.into(), source })?;
        Ok(Self {
            labeler: TrainingTable::create(folder)?,
            filter: TrainingTable::create(folder)?,
            encoder: TrainingTable::create(folder)?,
            paths: None,
        })
    }

    /// The same, with `scorer` and `reader.parquet`.
    ///
    /// # Errors
    /// The folder or a file cannot be made.
    pub fn create_all(folder: &Path) -> Result<Self, ConstructError> {
        let hops = Self::create_hops(folder)?;
        Ok(Self { paths: Some((TrainingTable::create(folder)?, TrainingTable::create(folder)?)), ..hops })
    }

    /// Appends the rows of a question.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn extend(&mut self, rows: QuestionRows) -> Result<(), ConstructError> {
        self.labeler.extend(rows.labeler)?;
        self.filter.extend(rows.filter)?;
        self.encoder.extend(rows.encoder)?;
        match &mut self.paths {
            None => Ok(()),
            Some((scorer, reader)) => {
                scorer.extend(rows.scorer)?;
                reader.extend(rows.reader)
            }
        }
    }

    /// Completes the files if `report` counts labeler rows. Files of the same names are replaced.
    ///
    /// # Errors
    /// [`ConstructError::NoRows`]; a file cannot be written.
    pub fn finish_files(self, report: &ConstructReport) -> Result<(), ConstructError> {
        if report.rows.get(LabelerRow::NAME).is_none_or(|rows| *rows == 0) {
            return Err(ConstructError::NoRows { report: Box::new(report.clone()) });
        }
        let mut closed = vec![self.labeler.close_file()?, self.filter.close_file()?, self.encoder.close_file()?];
        if let Some((scorer, reader)) = self.paths {
            closed.extend([scorer.close_file()?, reader.close_file()?]);
        }
        for (temporary, path) in closed {
            std::fs::rename(&temporary.0, &path).map_err(|source| ConstructError::Io { path, source })?;
        }
        Ok(())
    }
}
