//! Sums over the journal without loading it, and the entries of one segment or of one run.

use super::entry::{BUCKETS, JournalKey};
use super::error::JournalError;
use super::format::{self, KeyRow, Lineage};
use super::reader;
use super::visit::{JournalVisit, SegmentPart, visit_segments};
use crate::layout::{self, SegmentId, SegmentName};
use crate::store::{Store, StoreError};
use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::sync::Arc;

/// The shared journal in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct JournalSummary {
    /// Readable segments. A segment that another one replaces does not count.
    pub segments: u64,
    /// Entries in them. A key in several segments counts in each.
    pub entries: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// An error for each corrupt segment. The other figures exclude them.
    pub damaged: Vec<String>,
}

/// Adds up the directories of all segments of the shared journal.
///
/// # Errors
/// [`JournalError::Version`], or an error of the store.
pub fn journal_summary(store: &Store) -> Result<JournalSummary, JournalError> {
    let mut summary = JournalSummary::default();
    let prefixes = [layout::JOURNAL.to_owned()];
    let visit = JournalVisit { store, prefixes: &prefixes, wanted: &|_| true };
    let read = |name: &str, size: u64| {
        let footer = reader::read_footer(store, name, size)?;
        Ok(SegmentPart { lineage: footer.lineage, content: footer.rows })
    };
    // Of merged segments alone: two processes that took each other for dead may have merged the same.
    let mut origins: FxHashMap<String, FxHashSet<SegmentId>> = FxHashMap::default();
    visit_segments(&visit, read, &mut |_, size, part| {
        match part {
            Ok(part) => {
                if let Some(Lineage { run, replaced, .. }) = part.lineage {
                    let seen = origins.entry(run).or_default();
                    if replaced.iter().filter(|it| it.id.merge == 0 && seen.insert(it.id)).count() == 0 {
                        return Ok(());
                    }
                }
                summary.segments += 1;
                summary.entries += part.content;
                summary.bytes += size;
            }
            Err(error @ JournalError::Corrupt { .. }) => summary.damaged.push(error.to_string()),
            Err(JournalError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    Ok(summary)
}

/// An entry of a segment, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// The bucket of its route.
    pub bucket: u16,
    /// The request's key.
    pub key: JournalKey,
    /// Bytes of its record in the segment.
    pub stored: u32,
    /// The segment in which it was first written: an object's name, possibly of an object that was merged with others.
    pub origin: Arc<str>,
    /// The answer.
    pub value: Bytes,
}

/// Reads a whole segment, sorted by bucket and key. The segment must fit in memory.
///
/// # Errors
/// [`JournalError::Version`], [`JournalError::Corrupt`], [`JournalError::Value`], or an error of the store.
pub fn scan_segment(store: &Store, name: &str) -> Result<Vec<SegmentEntry>, JournalError> {
    let (bytes, path) = (store.get(name)?, store.full_name(name));
    let (footer, rows) = reader::parse_segment(&path, &bytes)?;
    let version = if footer.lineage.is_some() { format::MERGED_VERSION } else { format::VERSION };
    // Readers of some buckets do not read the header, and nothing depends on it. Here every byte counts.
    if !bytes.starts_with(&format::segment_header(version)) {
        return Err(JournalError::Corrupt { path, what: "its header is damaged" });
    }
    let origins = origin_names(name, footer.lineage.as_ref());
    rows.iter().map(|row| entry_of_row(&path, &origins, row, &bytes, 0)).collect()
}

/// Reads all entries that a run has written, each once, also while its segments are merged. Entries of one segment, as
/// first written, come together, sorted by bucket and key. A large segment is read in pieces, small ones at once.
///
/// Returns the errors of damaged segments and values, whose entries are missing.
///
/// # Errors
/// [`JournalError::Version`], an error of the store, or of `see`.
pub fn scan_run(
    store: &Store,
    run: &str,
    see: &mut dyn FnMut(SegmentEntry) -> Result<(), JournalError>,
) -> Result<Vec<JournalError>, JournalError> {
    let prefixes = [layout::JOURNAL.to_owned(), layout::run_journal(run)];
    let of_run = |name: &str| layout::segment_writer(name).is_some_and(|(writer, _)| writer == run);
    let visit = JournalVisit { store, prefixes: &prefixes, wanted: &of_run };
    let read = |name: &str, size: u64| {
        let whole = (size <= WHOLE_BYTES).then(|| store.get(name)).transpose()?;
        let (footer, rows) = match &whole {
            Some(bytes) => reader::parse_segment(&store.full_name(name), bytes)?,
            None => reader::read_rows(store, name, size, &[true; BUCKETS as usize])?,
        };
        Ok(SegmentPart { lineage: footer.lineage, content: (rows, whole) })
    };
    let mut damaged = Vec::new();
    let mut done: FxHashSet<(String, SegmentId)> = FxHashSet::default();
    visit_segments(&visit, read, &mut |name, _, part| {
        let SegmentPart { lineage, content: (rows, whole) } = match part {
            Ok(part) => part,
            Err(error @ (JournalError::Corrupt { .. } | JournalError::Store(StoreError::NotFound { .. }))) => {
                damaged.push(error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let segment = ScannedSegment { store, name, lineage: lineage.as_ref(), rows, whole };
        segment.scan_origins(&mut done, &mut damaged, see)
    })?;
    Ok(damaged)
}

/// Segments up to this size are read by one request.
const WHOLE_BYTES: u64 = 256 << 10;

/// Bytes of larger segments read at once.
const PIECE_BYTES: u64 = 8 << 20;

/// A segment with its rows.
struct ScannedSegment<'a> {
    store: &'a Store,
    name: &'a str,
    lineage: Option<&'a Lineage>,
    rows: Vec<KeyRow>,
    /// Its bytes, if it is small.
    whole: Option<Bytes>,
}

impl ScannedSegment<'_> {
    /// Hands on the entries of origins that are not done. A segment has all entries of each of its origins, in one
    /// block; an origin's entries are handed on when all are read.
    fn scan_origins(
        mut self,
        done: &mut FxHashSet<(String, SegmentId)>,
        damaged: &mut Vec<JournalError>,
        see: &mut dyn FnMut(SegmentEntry) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let names = origin_names(self.name, self.lineage);
        let folder = self.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let own = SegmentName::parse(self.name).map(|name| name.id);
        self.rows.sort_by_key(|row| row.offset);
        let rows = std::mem::take(&mut self.rows);
        for block in rows.chunk_by(|a, b| a.origin == b.origin) {
            let id = self.lineage.map_or(own, |lineage| Some(lineage.replaced[block[0].origin as usize].id));
            let place = id.map(|id| (folder.to_owned(), id));
            if place.as_ref().is_some_and(|place| done.contains(place)) {
                continue;
            }
            let mut entries = Vec::with_capacity(block.len());
            for piece in pieces(block) {
                self.read_piece(piece, &names, &mut entries)?;
            }
            done.extend(place);
            for entry in entries {
                match entry {
                    Ok(entry) => see(entry)?,
                    Err(error) => damaged.push(error),
                }
            }
        }
        Ok(())
    }

    fn read_piece(
        &self,
        piece: &[KeyRow],
        names: &[Arc<str>],
        entries: &mut Vec<Result<SegmentEntry, JournalError>>,
    ) -> Result<(), JournalError> {
        let path = self.store.full_name(self.name);
        let (bytes, start) = match &self.whole {
            Some(bytes) => (bytes.clone(), 0),
            None => {
                let range = piece_range(piece);
                (self.store.get_range(self.name, range.clone())?, range.start)
            }
        };
        entries.extend(piece.iter().map(|row| entry_of_row(&path, names, row, &bytes, start)));
        Ok(())
    }
}

/// Cuts rows, sorted by offset, into pieces to be read at once.
fn pieces(rows: &[KeyRow]) -> Vec<&[KeyRow]> {
    let (mut pieces, mut first) = (Vec::new(), 0);
    for at in 1..=rows.len() {
        if at == rows.len() || rows[at].offset - rows[first].offset >= PIECE_BYTES {
            pieces.push(&rows[first..at]);
            first = at;
        }
    }
    pieces
}

fn piece_range(piece: &[KeyRow]) -> Range<u64> {
    let start = piece.first().map_or(0, |row| row.offset);
    start..piece.last().map_or(0, |row| row.offset + u64::from(row.length))
}

/// The names of a segment's origins: of its lineage, or its own.
fn origin_names(name: &str, lineage: Option<&Lineage>) -> Vec<Arc<str>> {
    match lineage {
        None => vec![Arc::from(name)],
        Some(lineage) => lineage.replaced.iter().map(|replaced| lineage.name_of(replaced).into()).collect(),
    }
}

/// The entry of a row, from bytes of its segment that begin at `start`.
fn entry_of_row(
    path: &str,
    origins: &[Arc<str>],
    row: &KeyRow,
    bytes: &[u8],
    start: u64,
) -> Result<SegmentEntry, JournalError> {
    let corrupt = || JournalError::Value { path: path.to_owned(), offset: row.offset };
    let at = usize::try_from(row.offset - start).map_err(|_| corrupt())?;
    let record = at.checked_add(row.length as usize).and_then(|end| bytes.get(at..end)).ok_or_else(corrupt)?;
    match format::read_record(record) {
        Some((key, value)) if key == row.key => Ok(SegmentEntry {
            bucket: row.bucket,
            key,
            stored: row.length,
            origin: Arc::clone(&origins[row.origin as usize]),
            value: Bytes::from(value),
        }),
        _ => Err(corrupt()),
    }
}
