//! The passages of a mapped corpus: every batch has the same number of rows, so a shift and a mask find a row.

use std::path::Path;

use arrow::{
    array::{AsArray, BinaryArray, LargeBinaryArray, RecordBatch},
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::UInt32Type,
};

use crate::{error::CorpusError, mapped, schema};

/// The columns of `passages.arrow`.
pub(crate) struct PassageColumns {
    batches: Vec<PassageBatch>,
    shift: u32,
    len: usize,
}

struct PassageBatch {
    id: BinaryArray,
    title: BinaryArray,
    text: LargeBinaryArray,
    sentence_offsets: OffsetBuffer<i32>,
    sentence_ends: ScalarBuffer<u32>,
}

impl PassageColumns {
    /// Takes the decoded batches of `path`. All but the last have `rows` rows.
    pub(crate) fn new(path: &Path, batches: Vec<RecordBatch>, rows: u32) -> Result<Self, CorpusError> {
        let len = check_rows(path, &batches, rows)?;
        let batches = batches
            .iter()
            .map(|batch| {
                let sentences = batch.column(3).as_list::<i32>();
                PassageBatch {
                    id: batch.column(0).as_binary().clone(),
                    title: batch.column(1).as_binary().clone(),
                    text: batch.column(2).as_binary().clone(),
                    sentence_offsets: sentences.offsets().clone(),
                    sentence_ends: sentences.values().as_primitive::<UInt32Type>().values().clone(),
                }
            })
            .collect();
        Ok(Self { batches, shift: rows.trailing_zeros(), len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn batch_row(&self, passage: u32) -> (&PassageBatch, usize) {
        let passage = passage as usize;
        (&self.batches[passage >> self.shift], passage & ((1 << self.shift) - 1))
    }

    pub(crate) fn id_bytes(&self, passage: u32) -> &[u8] {
        let (batch, row) = self.batch_row(passage);
        batch.id.value(row)
    }

    pub(crate) fn title_bytes(&self, passage: u32) -> &[u8] {
        let (batch, row) = self.batch_row(passage);
        batch.title.value(row)
    }

    pub(crate) fn text_bytes(&self, passage: u32) -> &[u8] {
        let (batch, row) = self.batch_row(passage);
        batch.text.value(row)
    }

    pub(crate) fn id(&self, passage: u32) -> &str {
        checked_text(self.id_bytes(passage), passage, "id")
    }

    pub(crate) fn title(&self, passage: u32) -> &str {
        checked_text(self.title_bytes(passage), passage, "title")
    }

    pub(crate) fn text(&self, passage: u32) -> &str {
        checked_text(self.text_bytes(passage), passage, "text")
    }

    pub(crate) fn sentence_ends(&self, passage: u32) -> &[u32] {
        let (batch, row) = self.batch_row(passage);
        let (start, end) = (batch.sentence_offsets[row], batch.sentence_offsets[row + 1]);
        &batch.sentence_ends[start as usize..end as usize]
    }
}

/// Text was UTF-8 when it was written. Checking it again costs far less than fetching it.
#[inline]
fn checked_text<'a>(bytes: &'a [u8], passage: u32, field: &str) -> &'a str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => panic!("passages.arrow is damaged: the {field} of passage {passage} is not UTF-8: {error}"),
    }
}

/// Lists of numbers, one for each passage, in batches like the passages.
pub(crate) struct PassageLists {
    batches: Vec<ListBatch>,
    shift: u32,
}

struct ListBatch {
    offsets: OffsetBuffer<i64>,
    /// Flat columns: one for plain lists, one for each part of lists of structures.
    columns: Vec<ScalarBuffer<u32>>,
}

impl PassageLists {
    /// Takes the decoded batches of `path`. The first column holds passages and must stay below `passages`.
    pub(crate) fn new(path: &Path, batches: Vec<RecordBatch>, rows: u32, passages: usize) -> Result<Self, CorpusError> {
        let len = check_rows(path, &batches, rows)?;
        let damaged = |detail: String| CorpusError::Damaged { path: path.to_owned(), detail };
        if len != passages {
            return Err(damaged(format!("it has {len} rows for {passages} passages")));
        }
        let batches: Vec<ListBatch> = batches
            .iter()
            .map(|batch| {
                let lists = batch.column(0).as_list::<i64>();
                let columns = match lists.values().as_struct_opt() {
                    Some(parts) => {
                        parts.columns().iter().map(|part| part.as_primitive::<UInt32Type>().values().clone()).collect()
                    }
                    None => vec![lists.values().as_primitive::<UInt32Type>().values().clone()],
                };
                ListBatch { offsets: lists.offsets().clone(), columns }
            })
            .collect();
        let largest = batches.iter().filter_map(|batch| batch.columns[0].iter().max()).max();
        if let Some(&largest) = largest.filter(|&&largest| largest as usize >= passages) {
            return Err(damaged(format!("it names passage {largest} of {passages}")));
        }
        Ok(Self { batches, shift: rows.trailing_zeros() })
    }

    /// Column `column` of a passage's list.
    #[inline]
    pub(crate) fn list_column(&self, passage: u32, column: usize) -> &[u32] {
        let passage = passage as usize;
        let (batch, row) = (&self.batches[passage >> self.shift], passage & ((1 << self.shift) - 1));
        &batch.columns[column][batch.offsets[row] as usize..batch.offsets[row + 1] as usize]
    }
}

/// The external ids of dropped duplicates.
pub(crate) struct AliasColumns {
    batches: Vec<(BinaryArray, ScalarBuffer<u32>)>,
    rows: u32,
    len: usize,
}

impl AliasColumns {
    /// Takes the decoded batches of `path`; their targets must stay below `passages`.
    pub(crate) fn new(path: &Path, batches: Vec<RecordBatch>, rows: u32, passages: usize) -> Result<Self, CorpusError> {
        let len = check_rows(path, &batches, rows)?;
        let batches: Vec<_> = batches
            .iter()
            .map(|batch| {
                (batch.column(0).as_binary().clone(), batch.column(1).as_primitive::<UInt32Type>().values().clone())
            })
            .collect();
        if batches.iter().any(|(_, targets)| targets.iter().any(|&target| target as usize >= passages)) {
            let detail = format!("it names a passage beyond the last of {passages}");
            return Err(CorpusError::Damaged { path: path.to_owned(), detail });
        }
        Ok(Self { batches, rows, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The id and the passage of alias `alias`.
    pub(crate) fn get(&self, alias: u32) -> (&[u8], u32) {
        let (ids, targets) = &self.batches[(alias / self.rows) as usize];
        let row = (alias % self.rows) as usize;
        (ids.value(row), targets[row])
    }
}

/// Checks that all batches but the last are full. Returns the number of rows.
fn check_rows(path: &Path, batches: &[RecordBatch], rows: u32) -> Result<usize, CorpusError> {
    let rows = rows as usize;
    for (number, batch) in batches.iter().enumerate() {
        let found = batch.num_rows();
        let fits = if number + 1 == batches.len() { (1..=rows).contains(&found) } else { found == rows };
        if !fits {
            let detail = format!("batch {number} has {found} rows where batches have {rows}");
            return Err(CorpusError::Damaged { path: path.to_owned(), detail });
        }
    }
    let len = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if len > schema::MAX_PASSAGES as usize {
        let detail = format!("it has {len} rows, more than {}", schema::MAX_PASSAGES);
        return Err(CorpusError::Damaged { path: path.to_owned(), detail });
    }
    Ok(len)
}

/// Maps the passages just written to `dir`.
pub(crate) fn read_back(dir: &Path, rows: u32) -> Result<PassageColumns, CorpusError> {
    let path = dir.join(schema::PASSAGES_FILE);
    let file = mapped::ArrowFile::new(path.clone(), mapped::map_file(&path)?)?;
    PassageColumns::new(&path, file.decode_batches(&schema::passages())?, rows)
}
