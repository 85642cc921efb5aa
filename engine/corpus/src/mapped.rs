//! Maps the files of a corpus and decodes their Arrow batches without copying.
//!
//! The structure digest in `corpus.json` covers a batch's metadata and is compared before anything is decoded,
//! because Arrow's decoder panics on metadata pointing outside of its file. Arrow itself checks offsets.
//!
//! A file truncated while it is mapped ends the process with SIGBUS, as with any memory map. Corpora are never
//! written in place, so only an outsider can cause this.

use std::{
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    datatypes::{FieldRef, Schema},
    error::ArrowError,
    ipc::{Block, Footer, convert, reader},
};
use memmap2::Mmap;

use crate::{digest, error::CorpusError, info::FileInfo, passage::PassageId, schema};

/// Maps the whole of `path`.
pub(crate) fn map_file(path: &Path) -> Result<Buffer, CorpusError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(CorpusError::Missing { path: path.to_owned() });
        }
        Err(source) => return Err(CorpusError::Io { path: path.to_owned(), source }),
    };
    // SAFETY: the map is read-only and private to this process's readers. Files of a finished corpus are never
    // written again, as the module's header requires.
    let map = unsafe { Mmap::map(&file) }.map_err(|source| CorpusError::Io { path: path.to_owned(), source })?;
    Ok(Buffer::from(bytes::Bytes::from_owner(map)))
}

/// Maps a file of a finished corpus and checks its length.
pub(crate) fn map_listed(dir: &Path, listed: &FileInfo) -> Result<Buffer, CorpusError> {
    let path = dir.join(&listed.name);
    let found = match path.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(CorpusError::Missing { path }),
        Err(source) => return Err(CorpusError::Io { path, source }),
    };
    if found != listed.bytes {
        return Err(CorpusError::Length { path, expected: listed.bytes, found });
    }
    map_file(&path)
}

/// Fails if a mapped file's structure differs from the written one.
pub(crate) fn check_structure(path: &Path, listed: &FileInfo, found: String) -> Result<(), CorpusError> {
    if found == listed.structure {
        return Ok(());
    }
    Err(CorpusError::Damaged {
        path: path.to_owned(),
        detail: "the parts that say where everything lies are not those that were written".to_owned(),
    })
}

/// A mapped Arrow IPC file with its footer located.
pub(crate) struct ArrowFile {
    path: PathBuf,
    buffer: Buffer,
    footer: std::ops::Range<usize>,
}

impl ArrowFile {
    /// Finds the footer of the file at `path`, mapped as `buffer`.
    pub(crate) fn new(path: PathBuf, buffer: Buffer) -> Result<Self, CorpusError> {
        let damaged = |detail: &str| CorpusError::Damaged { path: path.clone(), detail: detail.to_owned() };
        let Some(trailer) = buffer.last_chunk::<10>() else {
            return Err(damaged("it is too short for an Arrow file"));
        };
        let length =
            reader::read_footer_length(*trailer).map_err(|source| CorpusError::Arrow { path: path.clone(), source })?;
        let end = buffer.len() - trailer.len();
        let start = end.checked_sub(length).ok_or_else(|| damaged("its footer is longer than the file"))?;
        Ok(Self { path, buffer, footer: start..end })
    }

    /// BLAKE3 over the footer and the metadata of all batches.
    pub(crate) fn structure_digest(&self) -> Result<String, CorpusError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.buffer[self.footer.clone()]);
        for block in self.blocks()? {
            let metadata = self.block_bytes(&block)?.slice_with_length(0, block.metaDataLength() as usize);
            hasher.update(&metadata);
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// Decodes all batches without copying. They must have `schema`; strings come as bytes.
    pub(crate) fn decode_batches(&self, expected: &Schema) -> Result<Vec<RecordBatch>, CorpusError> {
        let footer = self.read_footer()?;
        let found = footer.schema().ok_or_else(|| self.damage_error("it has no schema".to_owned()))?;
        let found = convert::try_fb_to_schema(found).map_err(|source| self.arrow_error(source))?;
        if !same_layout(&found, expected) {
            return Err(self.damage_error(format!("it has schema {found}, expected {expected}")));
        }
        let decoder = reader::FileDecoder::new(schema::with_binary_strings(expected), footer.version())
            .with_require_alignment(true);
        self.blocks()?
            .iter()
            .map(|block| {
                let batch = decoder
                    .read_record_batch(block, &self.block_bytes(block)?)
                    .map_err(|source| self.arrow_error(source))?;
                batch.ok_or_else(|| self.damage_error("a block is not a record batch".to_owned()))
            })
            .collect()
    }

    fn read_footer(&self) -> Result<Footer<'_>, CorpusError> {
        arrow::ipc::root_as_footer(&self.buffer[self.footer.clone()])
            .map_err(|error| self.damage_error(format!("its footer cannot be read: {error}")))
    }

    fn blocks(&self) -> Result<Vec<Block>, CorpusError> {
        Ok(self.read_footer()?.recordBatches().iter().flatten().copied().collect())
    }

    /// The bytes of a block, if they lie within the file.
    fn block_bytes(&self, block: &Block) -> Result<Buffer, CorpusError> {
        let parts = (block.offset(), i64::from(block.metaDataLength()), block.bodyLength());
        let (Ok(offset), Ok(metadata), Ok(body)) =
            (usize::try_from(parts.0), usize::try_from(parts.1), usize::try_from(parts.2))
        else {
            return Err(self.damage_error("a block has a negative length".to_owned()));
        };
        let length = metadata
            .checked_add(body)
            .filter(|length| offset.checked_add(*length).is_some_and(|end| end <= self.footer.start));
        match length {
            Some(length) => Ok(self.buffer.slice_with_length(offset, length)),
            None => Err(self.damage_error("a block reaches beyond the end".to_owned())),
        }
    }

    fn damage_error(&self, detail: String) -> CorpusError {
        CorpusError::Damaged { path: self.path.clone(), detail }
    }

    fn arrow_error(&self, source: ArrowError) -> CorpusError {
        CorpusError::Arrow { path: self.path.clone(), source }
    }
}

/// Whether the columns have the same names and types; their metadata may differ.
fn same_layout(found: &Schema, expected: &Schema) -> bool {
    let same = |(a, b): (&FieldRef, &FieldRef)| a.name() == b.name() && a.data_type().equals_datatype(b.data_type());
    found.fields().len() == expected.fields().len() && found.fields().iter().zip(expected.fields()).all(same)
}

/// Maps and decodes an Arrow file of a finished corpus.
pub(crate) fn open_listed(dir: &Path, listed: &FileInfo, schema: &Schema) -> Result<Vec<RecordBatch>, CorpusError> {
    let path = dir.join(&listed.name);
    let file = ArrowFile::new(path.clone(), map_listed(dir, listed)?)?;
    check_structure(&path, listed, file.structure_digest()?)?;
    file.decode_batches(schema)
}

/// The description of an Arrow file just completed.
pub(crate) fn describe_arrow(dir: &Path, name: &str) -> Result<FileInfo, CorpusError> {
    let path = dir.join(name);
    let buffer = map_file(&path)?;
    let (bytes, digest) = (buffer.len() as u64, digest::of_bytes(&buffer));
    let structure = ArrowFile::new(path, buffer)?.structure_digest()?;
    Ok(FileInfo { name: name.to_owned(), bytes, structure, digest })
}

/// Reinterprets mapped numbers as passages.
pub(crate) fn as_passages(numbers: &[u32]) -> &[PassageId] {
    // SAFETY: `PassageId` is `repr(transparent)` over `u32`, and every bit pattern is a valid one.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast::<PassageId>(), numbers.len()) }
}
