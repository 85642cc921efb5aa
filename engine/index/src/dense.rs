//! Exact dense retrieval: the inner products of queries with the vectors of all passages, or of some.
//!
//! An encoder makes a vector of each passage, and decides whether it is normalised (cosine). Rows lie in passage
//! order, in single or half precision, each at a multiple of 64 bytes. The search reads them directly from the map.
//!
//! ```text
//! vectors, in passage order --writer--> container (vectors, description)         writer, description
//!                                          |  rows lo..hi: a shard               search
//! query vectors --------------------------+--> products, 4 x 6 at a time         simd::products
//!                                               |  above the k-th best so far
//!                                               v
//!                                          a ranking for each query --Hit::merge--> of all shards
//! ```
//!
//! # Contract
//! A score is the inner product of the numbers as stored, in single precision and in one order (stated in
//! `simd/products.rs`). It is the same to the last bit for every batch, number of shards, restriction and processor.
//! Every ranking is the total order of [`Hit::ranking`] over all passages to be searched, including those with a
//! score of zero or less.

mod description;
mod search;
mod vector;
mod writer;

use std::{ops::Range, path::Path};

use crate::{
    SearchScratch as AllScratch,
    container::{Container, SectionKind},
    error::IndexError,
    query::Hit,
    simd::products::{self, HalfLine, ProductLevel, VectorLine},
};
use description::DenseDescription;
pub use vector::VectorDtype;
pub use writer::DenseWriter;

pub(crate) use search::DenseScratch;

/// The settings that decide the bytes of a dense index, together with the passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenseParameters {
    /// The fingerprint of the encoder: model, pooling, normalisation, input text, and all else that changes a vector.
    pub encoder: String,
    /// Number format of the stored vectors.
    pub dtype: VectorDtype,
}

/// One question to a dense index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DenseQuery<'a> {
    /// The question's vector, of the index's dimension.
    pub vector: &'a [f32],
    /// Maximum number of hits.
    pub k: usize,
    /// The passages to search, in any order; `None` means all. Numbers outside the index are ignored.
    pub within: Option<&'a [u32]>,
}

/// A dense index, memory-mapped. Cheap to share among threads by reference.
///
/// ```
/// use hopeval_index::{DenseIndex, DenseParameters, DenseQuery, DenseWriter, Hit, SearchScratch, VectorDtype};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let parameters = DenseParameters { encoder: "fingerprint of the encoder".into(), dtype: VectorDtype::F32 };
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join(DenseIndex::key("digest of the corpus", &parameters));
/// let mut writer = DenseWriter::create(&path, "digest of the corpus", &parameters, 2, 3)?;
/// writer.place(0, &[1.0, 0.0, 0.0, 1.0])?; // The vectors of passages 0 and 1,
/// writer.place(2, &[0.5, 0.5])?; // and of passage 2.
/// writer.finish()?;
///
/// let index = DenseIndex::open(&path, "digest of the corpus", &parameters)?;
/// let query = DenseQuery { vector: &[2.0, 1.0], k: 2, within: None };
/// let hits = index.search(&[query], &mut SearchScratch::default()).remove(0)?;
/// assert_eq!(hits, [Hit { id: 0, score: 2.0 }, Hit { id: 2, score: 1.5 }]);
/// # Ok(())
/// # }
/// ```
pub struct DenseIndex {
    container: Container,
    vectors: Range<usize>,
    description: DenseDescription,
    dtype: VectorDtype,
    dimension: usize,
    level: ProductLevel,
}

impl DenseIndex {
    /// The name of the index of a corpus under these parameters: 64 hexadecimal digits.
    pub fn key(corpus_digest: &str, parameters: &DenseParameters) -> String {
        description::key(corpus_digest, parameters)
    }

    /// Opens the index at `path`. It must have been built from the corpus of this digest with these parameters.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the file is missing, foreign, truncated, corrupt, or an index of something else. Header and
    /// sizes are checked here; [`DenseIndex::verify`] checks all bytes.
    pub fn open(path: &Path, corpus_digest: &str, parameters: &DenseParameters) -> Result<Self, IndexError> {
        let container = Container::open(path)?;
        let description = DenseDescription::read(&container, corpus_digest, parameters)?;
        let vectors = container.section(SectionKind::Vectors, 0)?;
        let dimension = description.dimension(&container)?;
        let dtype = parameters.dtype;
        let wanted = description.passages as usize * dtype.pitch(dimension);
        let aligned = vectors.start.is_multiple_of(align_of::<VectorLine>());
        if vectors.len() != wanted || !aligned {
            let what = format!(
                "{} vectors of {dimension} numbers are described, their section has {} bytes",
                description.passages,
                vectors.len()
            );
            return Err(container.corrupt_error(what));
        }
        Ok(Self { container, vectors, description, dtype, dimension, level: ProductLevel::detect() })
    }

    /// Checks every byte against its checksum.
    ///
    /// # Errors
    ///
    /// [`IndexError::Corrupt`] names the first section with a wrong checksum.
    pub fn verify(&self) -> Result<(), IndexError> {
        self.container.verify()
    }

    /// Number of passages in the index.
    pub fn len(&self) -> u32 {
        self.description.passages
    }

    /// Whether the index has no passages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers per vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number format of the stored vectors.
    pub fn dtype(&self) -> VectorDtype {
        self.dtype
    }

    /// The stored vector of a passage, if the index has the passage.
    pub fn vector(&self, id: u32) -> Option<Vec<f32>> {
        if id >= self.len() {
            return None;
        }
        let mut wide = vec![VectorLine::ZERO; self.dimension.div_ceil(products::LANES)];
        match self.mapped_rows() {
            MappedRows::Single(rows) => wide.copy_from_slice(rows.get(id)),
            MappedRows::Half(rows) => products::widen(self.level, rows.get(id), &mut wide),
        }
        Some(wide.iter().flat_map(|line| line.0).take(self.dimension).collect())
    }

    /// Checks that a vector is usable as a query.
    ///
    /// # Errors
    ///
    /// [`IndexError::Vector`] with the allowed dimension or numbers.
    pub fn check(&self, vector: &[f32]) -> Result<(), IndexError> {
        vector::check_vector(vector, self.dimension)
            .map_err(|what| IndexError::Vector { owner: "the query's vector".to_owned(), what })
    }

    /// Answers each query with the best `k` of all passages, or of its restriction; equal scores in corpus order. A
    /// query refused by [`DenseIndex::check`] does not affect the others.
    pub fn search(&self, queries: &[DenseQuery<'_>], scratch: &mut AllScratch) -> Vec<Result<Vec<Hit>, IndexError>> {
        self.shard(0..self.len()).search(queries, scratch)
    }

    /// The passages of a range, cut to the passages of the index.
    pub fn shard(&self, rows: Range<u32>) -> IndexShard<'_> {
        let end = rows.end.min(self.len());
        IndexShard { index: self, rows: rows.start.min(end)..end }
    }

    /// Part `part` of `parts` of nearly equal size, counted from 0, in passage order: the shard of a worker or
    /// thread. Together the parts have every passage once.
    pub fn part(&self, part: u32, parts: u32) -> IndexShard<'_> {
        let bound = |at: u32| (u64::from(self.len()) * u64::from(at) / u64::from(parts.max(1))) as u32;
        self.shard(bound(part)..bound(part.saturating_add(1)))
    }

    fn mapped_rows(&self) -> MappedRows<'_> {
        let bytes = &self.container.bytes()[self.vectors.clone()];
        let (depth, pitch) = (self.dimension.div_ceil(products::LANES), self.dtype.pitch(self.dimension));
        match self.dtype {
            VectorDtype::F32 => {
                MappedRows::Single(RowMatrix { bytes, units: products::aligned_lines(bytes), depth, pitch })
            }
            VectorDtype::F16 => MappedRows::Half(RowMatrix { bytes, units: products::half_lines(bytes), depth, pitch }),
        }
    }
}

/// Consecutive passages of an index.
pub struct IndexShard<'a> {
    index: &'a DenseIndex,
    rows: Range<u32>,
}

impl IndexShard<'_> {
    /// The range of passages.
    pub fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    /// As [`DenseIndex::search`], of the shard's passages only. The results of the shards of a whole index, merged by
    /// [`Hit::merge`], are the result of the index.
    pub fn search(&self, queries: &[DenseQuery<'_>], scratch: &mut AllScratch) -> Vec<Result<Vec<Hit>, IndexError>> {
        search::search(self.index, self.rows.clone(), queries, &mut scratch.dense)
    }
}

/// The mapped vectors.
enum MappedRows<'a> {
    Single(RowMatrix<'a, VectorLine>),
    Half(RowMatrix<'a, HalfLine>),
}

/// Rows of `depth` units, `pitch` bytes from one to the next.
struct RowMatrix<'a, T> {
    bytes: &'a [u8],
    /// The same bytes as units.
    units: &'a [T],
    depth: usize,
    pitch: usize,
}

impl<'a, T> RowMatrix<'a, T> {
    fn get(&self, row: u32) -> &'a [T] {
        &self.units[row as usize * (self.pitch / size_of::<T>())..][..self.depth]
    }

    /// The bytes of `count` rows from `row` on, or of fewer at the end.
    fn row_bytes(&self, row: usize, count: usize) -> &'a [u8] {
        let bound = |row: usize| (row * self.pitch).min(self.bytes.len());
        &self.bytes[bound(row)..bound(row + count)]
    }
}
