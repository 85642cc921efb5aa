//! The file of an index: a header, a table of sections, the sections.
//!
//! ```text
//!  0  magic  "hopeval\x1a"                    8 bytes
//!  8  format version                          u32
//! 12  sections                                u32
//! 16  length of the file                      u64
//! 24  BLAKE3 of bytes 0..24 and of the table  32 bytes
//! 56  table: for each section kind u32, field u32, offset u64, length u64, BLAKE3 of the section
//!     sections, each at a multiple of 64 and followed by at least 64 zero bytes
//! ```
//!
//! All integers are little-endian. Opening checks magic, version, length, header checksum, the bounds of every
//! section, and the checksum of the description; [`Container::verify`] checks every byte. A file is written beside
//! its place and moved there when it is complete and on disk, so readers never see a partial file.

use std::{
    fs::{self, File, TryLockError},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use memmap2::Mmap;

use crate::error::IndexError;

/// Changes whenever the bytes of an index change their meaning.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"hopeval\x1a";
const HEADER: usize = 56;
const ENTRY: usize = 56;
/// Every section begins at a multiple of this.
pub(crate) const ALIGN: u64 = 64;
/// Minimum number of zero bytes after each section: a vector load may begin at a section's last byte.
pub(crate) const SLACK: u64 = 64;
/// More sections than any version writes.
const MOST_SECTIONS: u32 = 64;

/// Kinds of sections. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SectionKind {
    /// JSON: corpus digest, layout, numbers of the fields.
    Description = 0,
    /// u32 for each passage: its length in tokens.
    Lengths = 1,
    /// The vocabulary's hash table.
    Slots = 2,
    /// The terms' bytes, one after the other.
    TermText = 3,
    /// Fixed-size records of the terms.
    Terms = 4,
    /// Posting lists.
    Postings = 5,
    /// The vectors of a dense index, one after the other, each at a multiple of 64 bytes.
    Vectors = 6,
}

struct SectionEntry {
    kind: u32,
    field: u32,
    offset: u64,
    length: u64,
    digest: [u8; 32],
}

/// Writes a container. Sections are written one after the other, each in any number of pieces.
pub(crate) struct ContainerWriter {
    out: BufWriter<File>,
    place: PathBuf,
    temporary: TemporaryPath,
    sections: Vec<SectionEntry>,
    reserved: u64,
    at: u64,
    hasher: blake3::Hasher,
}

/// A file name; the file is removed on drop unless it was moved away.
struct TemporaryPath(PathBuf);

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A name beside `place`, unique among the writers of this process.
fn path_beside(place: &Path, what: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = place.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.{}.{what}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    place.with_file_name(name)
}

/// Creates an empty file beside `place`, with a name ending in `what`, locked while it is open. Removes the files of
/// killed writers there: their locks are gone. On file systems without locks these files stay.
pub(crate) fn create_locked(place: &Path, what: &str) -> Result<(PathBuf, File), IndexError> {
    loop {
        let path = path_beside(place, what);
        let file = match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => file,
            // From a writer with the same process id: on another host, or in an earlier life of this container.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(io_error("create", &path)(error)),
        };
        let taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        // A sweep between the two calls above takes the new file for an abandoned one.
        if taken || file.metadata().map_err(io_error("read", &path))?.nlink() == 0 {
            continue;
        }
        sweep_abandoned(place, what, &path);
        return Ok((path, file));
    }
}

/// Removes the abandoned files beside `place`, except `own`. Unreadable ones stay.
fn sweep_abandoned(place: &Path, what: &str, own: &Path) {
    let (Some(folder), Some(name)) = (place.parent(), place.file_name().and_then(|name| name.to_str())) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let numbers = file_name.to_str().and_then(|found| found.strip_prefix(name)?.strip_suffix(what));
        let path = entry.path();
        if numbers.is_none_or(|numbers| !numbers.starts_with('.')) || path.file_name() == own.file_name() {
            continue;
        }
        // Removed under the lock: a writer that has just created it finds it locked or gone, and creates another.
        if let Ok(file) = File::options().write(true).open(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> IndexError + 'a {
    move |source| IndexError::Io { action, path: path.to_owned(), source }
}

impl ContainerWriter {
    /// Begins a file with at most `sections` sections.
    pub(crate) fn create(place: &Path, sections: usize) -> Result<Self, IndexError> {
        let (path, file) = create_locked(place, "part")?;
        let mut writer = Self {
            out: BufWriter::with_capacity(1 << 20, file),
            place: place.to_owned(),
            temporary: TemporaryPath(path),
            sections: Vec::new(),
            reserved: (HEADER + sections * ENTRY) as u64,
            at: 0,
            hasher: blake3::Hasher::new(),
        };
        writer.write_zeros(writer.reserved)?;
        writer.pad_section()?;
        Ok(writer)
    }

    fn write_raw(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).map_err(io_error("write", &self.temporary.0))
    }

    fn write_zeros(&mut self, mut count: u64) -> Result<(), IndexError> {
        while count > 0 {
            let now = count.min(ALIGN);
            self.write_raw(&[0; ALIGN as usize][..now as usize])?;
            count -= now;
        }
        Ok(())
    }

    fn pad_section(&mut self) -> Result<(), IndexError> {
        self.write_zeros(SLACK + (ALIGN - (self.at + SLACK) % ALIGN) % ALIGN)
    }

    /// Begins a section.
    pub(crate) fn begin_section(&mut self, kind: SectionKind, field: u32) {
        self.hasher.reset();
        self.sections.push(SectionEntry { kind: kind as u32, field, offset: self.at, length: 0, digest: [0; 32] });
    }

    /// Appends to the current section.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        self.hasher.update(bytes);
        self.write_raw(bytes)
    }

    /// Leaves `length` bytes of the current section to [`ContainerWriter::place_bytes`]. Returns their offset in the
    /// file.
    pub(crate) fn leave_space(&mut self, length: u64) -> Result<u64, IndexError> {
        let offset = self.at;
        self.at += length;
        self.out.seek(SeekFrom::Start(self.at)).map_err(io_error("write", &self.temporary.0))?;
        Ok(offset)
    }

    /// Writes bytes anywhere within the part left by [`ContainerWriter::leave_space`].
    pub(crate) fn place_bytes(&mut self, offset: u64, bytes: &[u8]) -> Result<(), IndexError> {
        self.out.get_ref().write_all_at(bytes, offset).map_err(io_error("write", &self.temporary.0))
    }

    /// Reads the placed bytes again and adds them to the section's checksum.
    pub(crate) fn seal_placed(&mut self, placed: Range<u64>) -> Result<(), IndexError> {
        let mut piece = vec![0; 1 << 20];
        let mut at = placed.start;
        while at < placed.end {
            let length = (placed.end - at).min(piece.len() as u64);
            let piece = &mut piece[..length as usize];
            self.out.get_ref().read_exact_at(piece, at).map_err(io_error("read", &self.temporary.0))?;
            self.hasher.update(piece);
            at += length;
        }
        Ok(())
    }

    /// Ends the current section.
    pub(crate) fn end_section(&mut self) -> Result<(), IndexError> {
        let (at, digest) = (self.at, *self.hasher.finalize().as_bytes());
        if let Some(section) = self.sections.last_mut() {
            section.length = at - section.offset;
            section.digest = digest;
        }
        self.pad_section()
    }

    /// Writes the header, syncs the file to disk and moves it to its place.
    pub(crate) fn finish(mut self) -> Result<(), IndexError> {
        let mut table = Vec::with_capacity(self.sections.len() * ENTRY);
        for section in &self.sections {
            table.extend_from_slice(&section.kind.to_le_bytes());
            table.extend_from_slice(&section.field.to_le_bytes());
            table.extend_from_slice(&section.offset.to_le_bytes());
            table.extend_from_slice(&section.length.to_le_bytes());
            table.extend_from_slice(&section.digest);
        }
        debug_assert!((HEADER + table.len()) as u64 <= self.reserved, "more sections than were announced");
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(self.sections.len() as u32).to_le_bytes());
        header.extend_from_slice(&self.at.to_le_bytes());
        let digest = header_digest(&header, &table);
        header.extend_from_slice(&digest);
        let path = self.temporary.0.clone();
        let write = |out: &mut BufWriter<File>| {
            out.flush()?;
            let file = out.get_mut();
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header)?;
            file.write_all(&table)?;
            file.sync_all()
        };
        write(&mut self.out).map_err(io_error("write", &path))?;
        fs::rename(&path, &self.place).map_err(io_error("move into place", &self.place))?;
        // The rename is durable once the folder is synced. Some systems cannot open folders; then nothing can be
        // done.
        let folder = self.place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(folder) = File::open(folder) {
            folder.sync_all().map_err(io_error("write", &self.place))?;
        }
        Ok(())
    }
}

fn header_digest(header: &[u8], table: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(header).update(table).finalize().as_bytes()
}

/// An opened container.
pub(crate) struct Container {
    map: Mmap,
    path: PathBuf,
    sections: Vec<SectionEntry>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// The digest of the corpus of the index at `path`, whatever its kind.
///
/// # Errors
/// The file cannot be read, is no index, or is damaged.
pub fn indexed_corpus(path: &Path) -> Result<String, IndexError> {
    /// The part of a description common to all kinds.
    #[derive(serde::Deserialize)]
    struct IndexedCorpus {
        corpus: String,
    }
    let container = Container::open(path)?;
    let section = container.section(SectionKind::Description, 0)?;
    let described: IndexedCorpus = serde_json::from_slice(&container.bytes()[section])
        .map_err(|e| container.corrupt_error(format!("the description cannot be read: {e}")))?;
    Ok(described.corpus)
}

impl Container {
    /// Maps a file and checks its header.
    pub(crate) fn open(path: &Path) -> Result<Self, IndexError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let length = file.metadata().map_err(io_error("read", path))?.len();
        if length < HEADER as u64 {
            return Err(IndexError::NotAnIndex { path: path.to_owned() });
        }
        // SAFETY: index files are never changed in place. Writers replace them by renaming, so the mapped pages keep
        // the bytes of the opened file. Truncating a file under a reader breaks this contract, as with any
        // memory-mapped database.
        let map = unsafe { Mmap::map(&file) }.map_err(io_error("map", path))?;
        let sections = read_table(&map, path)?;
        let container = Self { map, path: path.to_owned(), sections };
        if let Some(section) = container.sections.iter().find(|s| s.kind == SectionKind::Description as u32) {
            container.verify_section(section)?;
        }
        Ok(container)
    }

    /// The byte range of a section.
    pub(crate) fn section(&self, kind: SectionKind, field: u32) -> Result<Range<usize>, IndexError> {
        let found = self.sections.iter().find(|s| s.kind == kind as u32 && s.field == field);
        let section =
            found.ok_or_else(|| self.corrupt_error(format!("section {kind:?} of field {field} is missing")))?;
        // `read_table` has checked the bounds of the section.
        Ok(section.offset as usize..(section.offset + section.length) as usize)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn corrupt_error(&self, what: String) -> IndexError {
        IndexError::Corrupt { path: self.path.clone(), what }
    }

    /// Checks the checksum of every section.
    pub(crate) fn verify(&self) -> Result<(), IndexError> {
        self.sections.iter().try_for_each(|section| self.verify_section(section))
    }

    fn verify_section(&self, section: &SectionEntry) -> Result<(), IndexError> {
        let bytes = &self.map[section.offset as usize..(section.offset + section.length) as usize];
        if *blake3::hash(bytes).as_bytes() == section.digest {
            return Ok(());
        }
        Err(self
            .corrupt_error(format!("section {} of field {} does not match its checksum", section.kind, section.field)))
    }
}

fn read_table(map: &[u8], path: &Path) -> Result<Vec<SectionEntry>, IndexError> {
    let corrupt = |what: &str| IndexError::Corrupt { path: path.to_owned(), what: what.to_owned() };
    if map.get(..8) != Some(&MAGIC[..]) {
        return Err(IndexError::NotAnIndex { path: path.to_owned() });
    }
    let version = u32_at(map, 8);
    if version != VERSION {
        return Err(IndexError::ForeignVersion { path: path.to_owned(), found: version, supported: VERSION });
    }
    let (count, length) = (u32_at(map, 12), u64_at(map, 16));
    if length != map.len() as u64 {
        return Err(IndexError::Truncated { path: path.to_owned(), expected: length, found: map.len() as u64 });
    }
    if count > MOST_SECTIONS {
        return Err(corrupt("the header names too many sections"));
    }
    let end = HEADER + count as usize * ENTRY;
    let table = map.get(HEADER..end).ok_or_else(|| corrupt("the section table does not fit into the file"))?;
    if header_digest(&map[..24], table) != map[24..HEADER] {
        return Err(corrupt("the header does not match its checksum"));
    }
    let mut sections = Vec::with_capacity(count as usize);
    for entry in table.chunks_exact(ENTRY) {
        let (offset, size) = (u64_at(entry, 8), u64_at(entry, 16));
        let fits = offset.checked_add(size).and_then(|e| e.checked_add(SLACK)).is_some_and(|e| e <= length);
        if !fits || offset < end as u64 {
            return Err(corrupt("a section lies outside the file"));
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(&entry[24..56]);
        sections.push(SectionEntry { kind: u32_at(entry, 0), field: u32_at(entry, 4), offset, length: size, digest });
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path) -> PathBuf {
        let path = folder.join("file");
        let mut writer = ContainerWriter::create(&path, 2).unwrap();
        writer.begin_section(SectionKind::Description, 0);
        writer.write(b"{}").unwrap();
        writer.end_section().unwrap();
        writer.begin_section(SectionKind::Postings, 3);
        writer.write(&[7; 1000]).unwrap();
        writer.write(&[8; 1000]).unwrap();
        writer.end_section().unwrap();
        writer.finish().unwrap();
        path
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let container = Container::open(&written(folder.path())).unwrap();
        container.verify().unwrap();
        let range = container.section(SectionKind::Postings, 3).unwrap();
        assert_eq!(range.start % 64, 0);
        assert_eq!(container.bytes()[range][999..1001], [7, 8]);
        assert!(matches!(container.section(SectionKind::Terms, 0), Err(IndexError::Corrupt { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the temporary file is gone");
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(ContainerWriter::create(&folder.path().join("file"), 1).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let good = fs::read(written(folder.path())).unwrap();
        let path = folder.path().join("bad");
        let open = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Container::open(&path).err()
        };
        assert!(matches!(open(b"PK"), Some(IndexError::NotAnIndex { .. })));
        assert!(matches!(open(&good[..good.len() - 1]), Some(IndexError::Truncated { .. })));
        let mut bad = good.clone();
        bad[8] = 9;
        assert!(matches!(open(&bad), Some(IndexError::ForeignVersion { found: 9, supported: VERSION, .. })));
        for at in [12, 24, 60, 70, HEADER + ENTRY + 8] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(matches!(open(&bad), Some(IndexError::Corrupt { .. })), "byte {at}");
        }
        let mut bad = good.clone();
        bad[good.len() - 1100] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert!(matches!(Container::open(&path).unwrap().verify(), Err(IndexError::Corrupt { .. })));
    }
}
