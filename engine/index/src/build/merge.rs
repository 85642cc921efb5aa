//! Spilled runs, and their merge into posting lists.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use rayon::prelude::*;

use super::run::{self, PassageRun};
use crate::{
    container::{self, ContainerWriter, SectionKind},
    error::IndexError,
    postings,
    vocabulary::{MOST_POSTING_BYTES, TermInterner, record_bytes},
};

/// Approximate number of postings merged at a time.
const BATCH: u64 = 1 << 22;

/// The file of spilled runs; it is removed when this value is dropped.
pub(super) struct SpillFile {
    path: PathBuf,
    out: BufWriter<File>,
    at: u64,
    runs: Vec<SpilledRun>,
}

/// The position of a run in the file.
struct SpilledRun {
    /// u32 for each term: its number in the index.
    terms: Range<usize>,
    /// u32 for each term: the end of its list.
    ends: Range<usize>,
    lists: Range<usize>,
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl SpillFile {
    pub(super) fn create(index: &Path) -> Result<Self, IndexError> {
        let (path, file) = container::create_locked(index, "runs")?;
        Ok(Self { path, out: BufWriter::with_capacity(1 << 20, file), at: 0, runs: Vec::new() })
    }

    fn io_error(&self, action: &'static str) -> impl FnOnce(std::io::Error) -> IndexError + use<> {
        let path = self.path.clone();
        move |source| IndexError::Io { action, path, source }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<Range<usize>, IndexError> {
        self.out.write_all(bytes).map_err(self.io_error("write"))?;
        let start = self.at as usize;
        self.at += bytes.len() as u64;
        Ok(start..self.at as usize)
    }

    /// Appends an encoded run.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`] if the run's offsets do not fit 32 bits; then nothing is written. Otherwise that the
    /// file cannot be written.
    pub(super) fn push_run(&mut self, run: &PassageRun) -> Result<(), IndexError> {
        run.check_size()?;
        let words = |words: &mut dyn Iterator<Item = u32>| words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let terms = self.write_bytes(&words(&mut run.terms()))?;
        let ends = self.write_bytes(&words(&mut run.ends.iter().copied()))?;
        let lists = self.write_bytes(&run.bytes)?;
        self.runs.push(SpilledRun { terms, ends, lists });
        Ok(())
    }

    /// Writes the section of postings. Returns the section of the terms' records.
    pub(super) fn merge_lists(
        mut self,
        terms: &TermInterner,
        frequencies: &[u32],
        lengths: &[u32],
        field: u32,
        writer: &mut ContainerWriter,
    ) -> Result<Vec<u8>, IndexError> {
        let map = self.map_runs()?;
        let bytes: &[u8] = map.as_deref().unwrap_or(&[]);
        let mut records = TermRecords::new(terms, frequencies);
        let mut positions = vec![0usize; self.runs.len()];
        let (mut from, mut offset) = (0, 0u64);
        writer.begin_section(SectionKind::Postings, field);
        while from < terms.len() {
            let to = batch_end(frequencies, from);
            let parts = self.list_parts(bytes, from as u32..to as u32, &mut positions);
            for (group, lists) in encode_terms(bytes, &parts, &frequencies[from..to], lengths) {
                records.push_lists(from + group, &lists, offset);
                writer.write(&lists.0)?;
                offset += lists.0.len() as u64;
            }
            if offset >= MOST_POSTING_BYTES {
                return Err(IndexError::TooLarge { what: "bytes of postings", limit: MOST_POSTING_BYTES });
            }
            from = to;
        }
        writer.end_section()?;
        Ok(records.close_table(offset))
    }

    /// The runs' bytes, once all are written; `None` if there are no runs.
    fn map_runs(&mut self) -> Result<Option<Mmap>, IndexError> {
        self.out.flush().map_err(self.io_error("write"))?;
        // An empty file cannot be mapped everywhere.
        if self.at == 0 {
            return Ok(None);
        }
        // SAFETY: this value created the file under a unique name, and nothing writes to it any more.
        unsafe { Mmap::map(self.out.get_ref()) }.map(Some).map_err(self.io_error("map"))
    }

    /// The positions of the lists of `terms`, in corpus order for each term. Moves the runs' `positions` past them.
    fn list_parts(&self, bytes: &[u8], terms: Range<u32>, positions: &mut [usize]) -> Vec<Vec<Range<usize>>> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut parts = vec![Vec::new(); terms.len()];
        for (run, position) in self.runs.iter().zip(positions) {
            let count = run.terms.len() / 4;
            let mut start = if *position == 0 { 0 } else { word(run.ends.start + (*position - 1) * 4) };
            while *position < count {
                let term = word(run.terms.start + *position * 4);
                if term >= terms.end {
                    break;
                }
                let end = word(run.ends.start + *position * 4);
                parts[(term - terms.start) as usize]
                    .push(run.lists.start + start as usize..run.lists.start + end as usize);
                start = end;
                *position += 1;
            }
        }
        parts
    }
}

/// The bytes of a group of lists; for each list its end in them and the facts for its record.
type EncodedLists = (Vec<u8>, Vec<(usize, postings::EncodedList)>);

/// The end of a batch of terms starting with `from`: at least one term, otherwise at most a batch of postings.
fn batch_end(frequencies: &[u32], from: usize) -> usize {
    let (mut to, mut postings) = (from, 0);
    while to < frequencies.len() && (to == from || postings + u64::from(frequencies[to]) <= BATCH) {
        postings += u64::from(frequencies[to]);
        to += 1;
    }
    to
}

/// The terms' records, in order.
struct TermRecords<'a> {
    terms: &'a TermInterner,
    frequencies: &'a [u32],
    bytes: Vec<u8>,
}

impl<'a> TermRecords<'a> {
    fn new(terms: &'a TermInterner, frequencies: &'a [u32]) -> Self {
        Self { terms, frequencies, bytes: Vec::with_capacity((terms.len() + 1) * 16) }
    }

    /// Adds a group of terms starting with `first`; their lists begin at `offset`.
    fn push_lists(&mut self, first: usize, lists: &EncodedLists, offset: u64) {
        let mut start = 0;
        for (term, &(end, encoded)) in (first..).zip(&lists.1) {
            let text = if term == 0 { 0 } else { self.terms.text_end(term - 1) as u32 };
            let postings::EncodedList { dense, shortest, highest } = encoded;
            let (df, at) = (self.frequencies[term], offset + start as u64);
            self.bytes.extend_from_slice(&record_bytes(text, df, at, dense, shortest, highest));
            start = end;
        }
    }

    /// All records, with a closing one for the end of the last term's text and list.
    fn close_table(mut self, offset: u64) -> Vec<u8> {
        let text = self.terms.text().len() as u32;
        self.bytes.extend_from_slice(&record_bytes(text, 0, offset, false, 0, 0));
        self.bytes
    }
}

/// Encodes the lists of consecutive terms, in groups shared among threads. Groups are in order, with their first
/// term.
fn encode_terms(
    bytes: &[u8],
    parts: &[Vec<Range<usize>>],
    frequencies: &[u32],
    lengths: &[u32],
) -> Vec<(usize, EncodedLists)> {
    const GROUP: u64 = BATCH / 64;
    let mut groups = vec![0];
    let mut held = 0;
    for (i, &df) in frequencies.iter().enumerate() {
        if held + u64::from(df) > GROUP && held > 0 {
            groups.push(i);
            held = 0;
        }
        held += u64::from(df);
    }
    let group_end = |g: usize| groups.get(g + 1).copied().unwrap_or(parts.len());
    (0..groups.len())
        .into_par_iter()
        .map(|g| {
            let (mut docs, mut counts, mut out, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for part in &parts[groups[g]..group_end(g)] {
                docs.clear();
                counts.clear();
                part.iter().for_each(|range| run::decode_postings(&bytes[range.clone()], &mut docs, &mut counts));
                let encoded = postings::encode_list(&docs, &counts, lengths, &mut out);
                ends.push((out.len(), encoded));
            }
            (groups[g], (out, ends))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets of a run's lists have 32 bits: passages like whole books go beyond.
    #[test]
    fn giant_runs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::create(&folder.path().join("index")).unwrap();
        let mut run = PassageRun::default();
        // Zeros that nobody reads take no memory.
        run.bytes = vec![0; 1 << 32];
        let pushed = spill.push_run(&run);
        assert!(matches!(pushed, Err(IndexError::TooLarge { limit: 4_294_967_295, .. })), "{pushed:?}");
        assert_eq!(spill.at, 0, "nothing was spilled");
        run.bytes = vec![7];
        spill.push_run(&run).unwrap();
        assert_eq!(spill.at, 1);
    }
}
