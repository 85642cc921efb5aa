//! Searches rows: multiplies queries and rows tile by tile, and keeps scores above a query's `k`-th best so far.
//!
//! ```text
//! for each block of rows        its scores: one row of scores per query
//!   for some of the queries     as many as stay in the second-level cache
//!     for each 6 rows           widened first if stored in half precision; then their products
//!   for each query              the block's scores against the k-th best of the previous rows
//! ```

use std::ops::Range;

use super::{DenseIndex, DenseQuery, MappedRows};
use crate::{
    error::IndexError,
    query::{BestHits, Hit},
    simd::products::{self, LANES, ProductLevel, QUERIES, ROWS, TileChains, VectorLine},
};

/// Rows whose scores are compared together.
const BLOCK: usize = 16 * ROWS;

/// Bytes of queries that stay in the second-level cache while rows pass.
const RESIDENT: usize = 256 << 10;

/// Working memory, reused from batch to batch.
#[derive(Default)]
pub(crate) struct DenseScratch {
    /// Queries, one after the other, padded to whole lines.
    queries: Vec<VectorLine>,
    /// Scores of a block, [`BLOCK`] for each query.
    scores: Vec<f32>,
    tiles: TileBuffers,
}

/// Buffers for multiplying [`ROWS`] rows with some queries.
#[derive(Default)]
struct TileBuffers {
    /// The rows in single precision.
    wide: Vec<VectorLine>,
    chains: Vec<TileChains>,
    products: Vec<[f32; ROWS]>,
}

/// Answers queries over a range of rows; the index must have all of them.
pub(super) fn search(
    index: &DenseIndex,
    rows: Range<u32>,
    queries: &[DenseQuery<'_>],
    scratch: &mut DenseScratch,
) -> Vec<Result<Vec<Hit>, IndexError>> {
    let view =
        RowMultiplier { rows: index.mapped_rows(), depth: index.dimension().div_ceil(LANES), level: index.level };
    let mut unrestricted = Vec::new();
    let mut answers: Vec<_> = queries
        .iter()
        .enumerate()
        .map(|(at, query)| {
            index.check(query.vector)?;
            Ok(match query.within {
                _ if query.k == 0 => Vec::new(),
                Some(ids) => view.search_among(&row_members(ids, &rows), query, scratch),
                None => {
                    unrestricted.push(at);
                    Vec::new()
                }
            })
        })
        .collect();
    let together: Vec<&DenseQuery<'_>> = unrestricted.iter().map(|&at| &queries[at]).collect();
    for (at, hits) in unrestricted.into_iter().zip(view.search_all(rows, &together, scratch)) {
        answers[at] = Ok(hits);
    }
    answers
}

/// The numbers within a range, ascending and without repetition.
fn row_members(ids: &[u32], rows: &Range<u32>) -> Vec<u32> {
    let mut ids: Vec<u32> = ids.iter().copied().filter(|id| rows.contains(id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Copies vectors into lines.
fn pack_queries(queries: &[&DenseQuery<'_>], out: &mut Vec<VectorLine>) {
    out.clear();
    for query in queries {
        for numbers in query.vector.chunks(LANES) {
            let mut line = VectorLine::ZERO;
            line.0[..numbers.len()].copy_from_slice(numbers);
            out.push(line);
        }
    }
}

/// Keeps the scores that may be among the best. The passages of `scores` ascend.
fn keep_best(best: &mut BestHits, ids: impl Iterator<Item = u32>, scores: &[f32]) {
    // One test without branches: nearly always no score is high enough.
    let least = best.least_score() as f32;
    if scores.iter().fold(false, |any, &score| any | (score > least)) {
        for (id, &score) in ids.zip(scores) {
            if score > least {
                // `+ 0.0`: a total order would put -0.0 after 0.0.
                best.push(Hit { id, score: f64::from(score) + 0.0 });
            }
        }
    }
}

/// The vectors, and the processor's way to multiply them.
struct RowMultiplier<'a> {
    rows: MappedRows<'a>,
    /// Lines per vector.
    depth: usize,
    level: ProductLevel,
}

impl RowMultiplier<'_> {
    /// The best of all rows of a range, for each query.
    fn search_all(&self, rows: Range<u32>, queries: &[&DenseQuery<'_>], scratch: &mut DenseScratch) -> Vec<Vec<Hit>> {
        let mut best: Vec<BestHits> = queries.iter().map(|query| BestHits::new(query.k, Hit::ranking)).collect();
        if !queries.is_empty() {
            let DenseScratch { queries: packed, scores, tiles } = scratch;
            pack_queries(queries, packed);
            scores.resize(queries.len() * BLOCK, 0.0);
            // Whole tiles of queries.
            let resident = (RESIDENT / (self.depth * size_of::<VectorLine>())).max(1).next_multiple_of(QUERIES);
            let mut block = Vec::with_capacity(BLOCK);
            for start in rows.clone().step_by(BLOCK) {
                block.clear();
                block.extend(start..rows.end.min(start.saturating_add(BLOCK as u32)));
                for (packed, scores) in packed.chunks(resident * self.depth).zip(scores.chunks_mut(resident * BLOCK)) {
                    self.multiply_rows(&block, packed, scores, tiles);
                }
                for (best, scores) in best.iter_mut().zip(scores.chunks(BLOCK)) {
                    keep_best(best, start.., &scores[..block.len()]);
                }
            }
        }
        best.into_iter().map(BestHits::finish).collect()
    }

    /// The best of some rows, by ascending number, for one query.
    fn search_among(&self, ids: &[u32], query: &DenseQuery<'_>, scratch: &mut DenseScratch) -> Vec<Hit> {
        let DenseScratch { queries: packed, scores, tiles } = scratch;
        pack_queries(&[query], packed);
        scores.resize(BLOCK, 0.0);
        let mut best = BestHits::new(query.k, Hit::ranking);
        for block in ids.chunks(BLOCK) {
            self.multiply_rows(block, packed, scores, tiles);
            keep_best(&mut best, block.iter().copied(), &scores[..block.len()]);
        }
        best.finish()
    }

    /// Scores of at most [`BLOCK`] rows: `scores[query * BLOCK + at]` belongs to row `ids[at]`.
    fn multiply_rows(&self, ids: &[u32], queries: &[VectorLine], scores: &mut [f32], tiles: &mut TileBuffers) {
        let TileBuffers { wide, chains, products } = tiles;
        products.resize(queries.len() / self.depth, [0.0; ROWS]);
        for (group, six) in ids.chunks(ROWS).enumerate() {
            let count = six.len();
            // The last row fills the places of missing rows in the last group.
            let six: [u32; ROWS] = std::array::from_fn(|at| six[at.min(count - 1)]);
            let rows = self.rows.single_rows(six, self.level, wide);
            // Consecutive rows are followed by the next ones. After rows of a restriction the next ones are unknown
            // here.
            let consecutive = six[ROWS - 1] - six[0] == ROWS as u32 - 1;
            let next = if consecutive { self.rows.rows_after(six[ROWS - 1]) } else { &[] };
            products::products(self.level, queries, rows, next, chains, products);
            for (products, scores) in products.iter().zip(scores.chunks_mut(BLOCK)) {
                scores[group * ROWS..][..count].copy_from_slice(&products[..count]);
            }
        }
    }
}

impl<'a> MappedRows<'a> {
    /// Rows in single precision.
    fn single_rows<'b>(
        &'b self,
        ids: [u32; ROWS],
        level: ProductLevel,
        wide: &'b mut Vec<VectorLine>,
    ) -> [&'b [VectorLine]; ROWS] {
        match self {
            Self::Single(rows) => ids.map(|id| rows.get(id)),
            Self::Half(rows) => {
                wide.resize(ROWS * rows.depth, VectorLine::ZERO);
                for (id, wide) in ids.iter().zip(wide.chunks_mut(rows.depth)) {
                    products::widen(level, rows.get(*id), wide);
                }
                std::array::from_fn(|at| &wide[at * rows.depth..][..rows.depth])
            }
        }
    }

    /// The bytes of the [`ROWS`] rows after `row`, or of fewer at the end.
    fn rows_after(&self, row: u32) -> &'a [u8] {
        match self {
            Self::Single(rows) => rows.row_bytes(row as usize + 1, ROWS),
            Self::Half(rows) => rows.row_bytes(row as usize + 1, ROWS),
        }
    }
}
