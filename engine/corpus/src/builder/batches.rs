//! Writes Arrow IPC files in batches of a fixed number of rows.

use std::{
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{
        ArrayRef, LargeListArray, LargeStringBuilder, ListBuilder, RecordBatch, StringBuilder, StructArray,
        UInt32Array, UInt32Builder,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, SchemaRef},
    error::ArrowError,
    ipc::writer::FileWriter,
};

use crate::{error::BuildError, schema};

/// An Arrow file being written.
pub(super) struct BatchFile {
    path: PathBuf,
    schema: SchemaRef,
    writer: FileWriter<BufWriter<File>>,
}

impl BatchFile {
    pub(super) fn create(dir: &Path, name: &str, schema: SchemaRef) -> Result<Self, BuildError> {
        let path = dir.join(name);
        let file = BufWriter::new(File::create(&path).map_err(BuildError::io(&path))?);
        let writer = FileWriter::try_new(file, &schema).map_err(BuildError::arrow(&path))?;
        Ok(Self { path, schema, writer })
    }

    pub(super) fn write_batch(&mut self, columns: Vec<ArrayRef>) -> Result<(), BuildError> {
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(BuildError::arrow(&self.path))
    }

    /// Completes the file, durably.
    pub(super) fn finish(mut self) -> Result<(), BuildError> {
        self.writer.finish().map_err(BuildError::arrow(&self.path))?;
        let buffered = self.writer.into_inner().map_err(BuildError::arrow(&self.path))?;
        let file = buffered.into_inner().map_err(|error| BuildError::io(&self.path)(error.into_error()))?;
        file.sync_all().map_err(BuildError::io(&self.path))
    }
}

/// The passages of the current batch: the only text that a build holds in memory.
pub(super) struct PassageRows {
    rows: usize,
    ids: StringBuilder,
    titles: StringBuilder,
    texts: LargeStringBuilder,
    sentences: ListBuilder<UInt32Builder>,
}

impl PassageRows {
    pub(super) fn new() -> Self {
        Self {
            rows: 0,
            ids: StringBuilder::new(),
            titles: StringBuilder::new(),
            texts: LargeStringBuilder::new(),
            sentences: ListBuilder::new(UInt32Builder::new()).with_field(schema::list_item(DataType::UInt32)),
        }
    }

    pub(super) fn push(&mut self, id: &str, title: &str, text: &str, sentences: &[u32]) {
        self.rows += 1;
        self.ids.append_value(id);
        self.titles.append_value(title);
        self.texts.append_value(text);
        self.sentences.values().append_slice(sentences);
        self.sentences.append(true);
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Takes the columns gathered so far.
    pub(super) fn take_columns(&mut self) -> Vec<ArrayRef> {
        self.rows = 0;
        vec![
            Arc::new(self.ids.finish()),
            Arc::new(self.titles.finish()),
            Arc::new(self.texts.finish()),
            Arc::new(self.sentences.finish()),
        ]
    }
}

/// The links of the current batch.
#[derive(Default)]
pub(super) struct LinkRows {
    lengths: Vec<usize>,
    /// Targets, starts and ends.
    columns: [Vec<u32>; 3],
}

impl LinkRows {
    pub(super) fn push(&mut self, links: &[[u32; 3]]) {
        self.lengths.push(links.len());
        for link in links {
            for (column, number) in self.columns.iter_mut().zip(link) {
                column.push(*number);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Takes the column gathered so far.
    pub(super) fn take_columns(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        let Self { lengths, columns } = std::mem::take(self);
        let columns = columns.into_iter().map(|column| Arc::new(UInt32Array::from(column)) as ArrayRef).collect();
        let links = StructArray::try_new(schema::link_fields(), columns, None)?;
        let item = schema::list_item(DataType::Struct(schema::link_fields()));
        let lists = LargeListArray::try_new(item, OffsetBuffer::from_lengths(lengths), Arc::new(links), None)?;
        Ok(vec![Arc::new(lists)])
    }
}

/// A column of plain lists with these lengths.
pub(super) fn list_column(
    lengths: impl IntoIterator<Item = usize>,
    values: &[u32],
) -> Result<Vec<ArrayRef>, ArrowError> {
    let values = Arc::new(UInt32Array::from(values.to_vec()));
    let lists = LargeListArray::try_new(
        schema::list_item(DataType::UInt32),
        OffsetBuffer::from_lengths(lengths),
        values,
        None,
    )?;
    Ok(vec![Arc::new(lists)])
}
