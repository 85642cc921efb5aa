//! A mapped hash table from 64-bit keys to numbers, sorted to keep equal things side by side.
//!
//! ```text
//! magic "hopelook", entries u64, directory bits u32, zero to 64 bytes
//! directory  u32 x (2^bits + 1)   start of the keys with these leading bits
//! keys       u64 x entries        ascending
//! values     u32 x entries        under one key: in the order of their strings, then ascending
//! ```
//!
//! Each part starts at a multiple of 64 bytes. A look-up reads the directory and one or two keys, then compares the
//! strings, because two strings may share a key. An entry takes 12 bytes and its part of the directory 1 to 2.

use std::{
    fs::File,
    io::{BufWriter, Write},
    ops::Range,
    path::Path,
};

use arrow::buffer::{Buffer, ScalarBuffer};

use crate::{
    digest,
    error::{BuildError, CorpusError},
    info::FileInfo,
    mapped,
};

pub(crate) const IDS_FILE: &str = "ids.lookup";
pub(crate) const TITLES_FILE: &str = "titles.lookup";
pub(crate) const FOLDED_FILE: &str = "folded.lookup";
pub(crate) const CONTENTS_FILE: &str = "contents.lookup";

const MAGIC: &[u8; 8] = b"hopelook";
const ALIGNMENT: usize = 64;

/// The table, mapped or in memory.
pub(crate) struct LookupTable {
    directory: ScalarBuffer<u32>,
    keys: ScalarBuffer<u64>,
    values: ScalarBuffer<u32>,
}

/// The byte ranges of a table's parts.
struct TableLayout {
    directory: Range<usize>,
    keys: Range<usize>,
    values: Range<usize>,
}

impl TableLayout {
    fn new(entries: usize, bits: u32) -> Option<Self> {
        let after =
            |start: usize, width: usize, count: usize| Some(start..width.checked_mul(count)?.checked_add(start)?);
        let next = |range: &Range<usize>| range.end.checked_next_multiple_of(ALIGNMENT);
        let directory = after(ALIGNMENT, 4, (1usize << bits) + 1)?;
        let keys = after(next(&directory)?, 8, entries)?;
        let values = after(next(&keys)?, 4, entries)?;
        Some(Self { directory, keys, values })
    }
}

/// Bits of a directory with two to four keys under each entry.
fn directory_bits(entries: usize) -> u32 {
    entries.checked_ilog2().unwrap_or(0).saturating_sub(1)
}

#[inline]
fn directory_slot(key: u64, bits: u32) -> usize {
    // A shift by 64 would be no shift at all.
    if bits == 0 { 0 } else { (key >> (64 - bits)) as usize }
}

/// Sorts entries by key, by the string of their value, and by value.
pub(crate) fn sort_entries<S: Ord>(entries: &mut [(u64, u32)], string: impl Fn(u32) -> S) {
    entries.sort_unstable();
    for run in entries.chunk_by_mut(|a, b| a.0 == b.0) {
        // Nearly always all strings are equal, and then the order of the values is right.
        let first = string(run[0].1);
        if run[1..].iter().any(|entry| string(entry.1) != first) {
            run.sort_by_cached_key(|entry| (string(entry.1), entry.1));
        }
    }
}

fn directory_starts(entries: &[(u64, u32)], bits: u32) -> Vec<u32> {
    let mut starts = vec![0u32; (1 << bits) + 1];
    for entry in entries {
        starts[directory_slot(entry.0, bits) + 1] += 1;
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    starts
}

/// Writes sorted entries as a table, durably.
pub(crate) fn write_table(path: &Path, entries: &[(u64, u32)]) -> Result<(), BuildError> {
    let mut out = BufWriter::new(File::create(path).map_err(BuildError::io(path))?);
    write_to(&mut out, entries).map_err(BuildError::io(path))?;
    let file = out.into_inner().map_err(|error| BuildError::io(path)(error.into_error()))?;
    file.sync_all().map_err(BuildError::io(path))
}

fn write_to(out: &mut impl Write, entries: &[(u64, u32)]) -> std::io::Result<()> {
    fn pad(out: &mut impl Write, written: usize) -> std::io::Result<()> {
        out.write_all(&[0; ALIGNMENT][..written.next_multiple_of(ALIGNMENT) - written])
    }
    let bits = directory_bits(entries.len());
    out.write_all(MAGIC)?;
    out.write_all(&(entries.len() as u64).to_le_bytes())?;
    out.write_all(&bits.to_le_bytes())?;
    pad(out, 20)?;
    let directory = directory_starts(entries, bits);
    for start in &directory {
        out.write_all(&start.to_le_bytes())?;
    }
    pad(out, 4 * directory.len())?;
    for (key, _) in entries {
        out.write_all(&key.to_le_bytes())?;
    }
    pad(out, 8 * entries.len())?;
    for (_, value) in entries {
        out.write_all(&value.to_le_bytes())?;
    }
    Ok(())
}

impl LookupTable {
    /// A table in memory, from sorted entries: 13 to 14 bytes each.
    pub(crate) fn in_memory(entries: &[(u64, u32)]) -> Self {
        Self {
            directory: directory_starts(entries, directory_bits(entries.len())).into(),
            keys: entries.iter().map(|entry| entry.0).collect(),
            values: entries.iter().map(|entry| entry.1).collect(),
        }
    }

    /// Maps a table; its values must stay below `bound`.
    pub(crate) fn open(dir: &Path, listed: &FileInfo, bound: usize) -> Result<Self, CorpusError> {
        let path = dir.join(&listed.name);
        let buffer = mapped::map_listed(dir, listed)?;
        mapped::check_structure(&path, listed, structure_digest(&path, &buffer)?)?;
        let lookup = Self::from_buffer(&path, &buffer)?;
        match lookup.values.iter().max() {
            Some(&largest) if largest as usize >= bound => Err(CorpusError::Damaged {
                path,
                detail: format!("it holds {largest} where values stay below {bound}"),
            }),
            _ => Ok(lookup),
        }
    }

    /// Maps a table just written.
    pub(crate) fn read_back(path: &Path) -> Result<Self, CorpusError> {
        Self::from_buffer(path, &mapped::map_file(path)?)
    }

    fn from_buffer(path: &Path, buffer: &Buffer) -> Result<Self, CorpusError> {
        let (layout, entries) = read_layout(path, buffer)?;
        let part = |range: &Range<usize>| buffer.slice_with_length(range.start, range.len());
        let lookup = Self {
            directory: part(&layout.directory).into(),
            keys: part(&layout.keys).into(),
            values: part(&layout.values).into(),
        };
        let ascends = lookup.directory.is_sorted() && lookup.directory.last() == Some(&(entries as u32));
        if ascends {
            return Ok(lookup);
        }
        Err(CorpusError::Damaged { path: path.to_owned(), detail: "its directory does not ascend".to_owned() })
    }

    /// The values under `key`.
    #[inline]
    pub(crate) fn values_under(&self, key: u64) -> &[u32] {
        let bits = (self.directory.len() - 1).trailing_zeros();
        let slot = directory_slot(key, bits);
        let (start, end) = (self.directory[slot] as usize, self.directory[slot + 1] as usize);
        let keys = &self.keys[start..end];
        let first = keys.partition_point(|&other| other < key);
        let count = keys[first..].partition_point(|&other| other == key);
        &self.values[start + first..start + first + count]
    }

    /// The values under `key` that stand for the wanted string, by `is_equal`.
    pub(crate) fn equal_values(&self, key: u64, is_equal: impl Fn(u32) -> bool) -> &[u32] {
        let under = self.values_under(key);
        // Equal strings lie side by side: if the outermost are right, all are.
        if let [first, .., last] = under
            && is_equal(*first)
            && is_equal(*last)
        {
            return under;
        }
        let Some(start) = under.iter().position(|&value| is_equal(value)) else { return &[] };
        let count = under[start..].iter().take_while(|&&value| is_equal(value)).count();
        &under[start..start + count]
    }

    /// Runs of values with the same string; `same` compares two values' strings.
    pub(crate) fn value_groups(&self, same: impl Fn(u32, u32) -> bool) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let (&key, &first) = (self.keys.get(start)?, self.values.get(start)?);
            let mut end = start + 1;
            while end < self.keys.len() && self.keys[end] == key && same(first, self.values[end]) {
                end += 1;
            }
            let group = &self.values[start..end];
            start = end;
            Some(group)
        })
    }
}

/// Reads the header and checks that the parts fit the file.
fn read_layout(path: &Path, buffer: &[u8]) -> Result<(TableLayout, usize), CorpusError> {
    let damaged = |detail: &str| CorpusError::Damaged { path: path.to_owned(), detail: detail.to_owned() };
    let Some(header) = buffer.first_chunk::<ALIGNMENT>() else { return Err(damaged("it is too short")) };
    let [m0, m1, m2, m3, m4, m5, m6, m7, e0, e1, e2, e3, e4, e5, e6, e7, b0, b1, b2, b3, ..] = *header;
    if [m0, m1, m2, m3, m4, m5, m6, m7] != *MAGIC {
        return Err(damaged("it is not a look-up table"));
    }
    let entries = u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7]);
    let bits = u32::from_le_bytes([b0, b1, b2, b3]);
    let entries = u32::try_from(entries).map_err(|_| damaged("it states too many entries"))? as usize;
    if bits != directory_bits(entries) {
        return Err(damaged("its directory has the wrong size"));
    }
    match TableLayout::new(entries, bits) {
        Some(layout) if layout.values.end == buffer.len() => Ok((layout, entries)),
        _ => Err(damaged("its parts do not fit its length")),
    }
}

/// BLAKE3 over header and directory.
fn structure_digest(path: &Path, buffer: &[u8]) -> Result<String, CorpusError> {
    let (layout, _) = read_layout(path, buffer)?;
    Ok(digest::of_bytes(&buffer[..layout.directory.end]))
}

/// The description of a table just completed.
pub(crate) fn describe_table(dir: &Path, name: &str) -> Result<FileInfo, CorpusError> {
    let path = dir.join(name);
    let buffer = mapped::map_file(&path)?;
    Ok(FileInfo {
        name: name.to_owned(),
        bytes: buffer.len() as u64,
        structure: structure_digest(&path, &buffer)?,
        digest: digest::of_bytes(&buffer),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few keys, to make different strings share them.
    fn weak_key(string: &str) -> u64 {
        ((string.len() as u64 % 3) << 62) | (string.len() as u64 % 2)
    }

    fn build(strings: &[String]) -> (tempfile::TempDir, LookupTable) {
        let mut entries: Vec<(u64, u32)> = strings.iter().zip(0..).map(|(s, i)| (weak_key(s), i)).collect();
        sort_entries(&mut entries, |value| strings[value as usize].as_str());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.lookup");
        write_table(&path, &entries).unwrap();
        let lookup =
            LookupTable::open(dir.path(), &describe_table(dir.path(), "t.lookup").unwrap(), strings.len()).unwrap();
        (dir, lookup)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn finds_all_equal_strings_in_order_whatever_shares_their_key(
            strings in prop::collection::vec("[ab]{0,3}", 0..60), asked in "[ab]{0,4}",
        ) {
            let (_dir, lookup) = build(&strings);
            let found = lookup.equal_values(weak_key(&asked), |value| strings[value as usize] == asked);
            let expected: Vec<u32> = (0..).zip(&strings).filter(|(_, s)| **s == asked).map(|(i, _)| i).collect();
            prop_assert_eq!(found, expected);
            let mut grouped = 0;
            for group in lookup.value_groups(|a, b| strings[a as usize] == strings[b as usize]) {
                prop_assert!(group.is_sorted());
                prop_assert_eq!(group.len(), strings.iter().filter(|s| **s == strings[group[0] as usize]).count());
                grouped += group.len();
            }
            prop_assert_eq!(grouped, strings.len());
        }
    }

    #[test]
    fn a_value_out_of_bounds_is_damage() {
        let (dir, _lookup) = build(&["a".to_owned(), "b".to_owned()]);
        let listed = describe_table(dir.path(), "t.lookup").unwrap();
        assert!(matches!(LookupTable::open(dir.path(), &listed, 1), Err(CorpusError::Damaged { .. })));
    }
}
