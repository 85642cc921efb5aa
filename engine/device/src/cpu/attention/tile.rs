//! Products of a few rows with panels: each number is one chain of fused multiply-adds over the inner dimension.
//!
//! A panel holds up to [`panel_vectors`] vectors of columns, the inner dimension outermost, so a tile reads it from
//! start to end:
//!
//! ```text
//!   columns  | v v v v | v v v v | v v |        vectors of lanes; the last panel is narrower
//!   panel 0:  depth 0: v v v v, depth 1: v v v v, ...
//! ```

use crate::cpu::simd::{Simd, SimdKernel, prefetch};
use std::ops::Range;

/// Rows of a tile.
pub(super) const ROWS: usize = 6;

/// Vectors in a panel, and at most in a tile: with [`ROWS`] rows they fill the registers.
pub(super) const fn panel_vectors<S: Simd>() -> usize {
    if S::LANES == 16 { 4 } else { 2 }
}

/// Rows of `b` in [`by_rows`] used by all rows of `a` before the next ones: with a panel's width they take half of the
/// first-level cache.
const CHUNK: usize = 64;

/// `c[row][column] (+)= Σ a[row][i] b[i][column]`, for `ROWS` rows and `VECTORS` vectors of columns at most.
struct TileProduct<const M: usize, const N: usize> {
    at: TileOperands,
}

/// The addresses of a tile's numbers; strides in numbers.
#[derive(Clone, Copy)]
struct TileOperands {
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    b_stride: usize,
    c: *mut f32,
    c_stride: usize,
    depth: usize,
    /// True if `c` is set; else its chains are continued.
    first: bool,
}

impl<const M: usize, const N: usize> SimdKernel for TileProduct<M, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let TileOperands { a, a_stride, b, b_stride, c, c_stride, depth, first } = self.at;
        let mut sums = [[s.splat(0.0); N]; M];
        if !first {
            for (m, sums) in sums.iter_mut().enumerate() {
                for (n, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as below.
                    *sum = unsafe { s.load_at(c.add(m * c_stride + n * S::LANES)) };
                }
            }
        }
        for i in 0..depth {
            let mut columns = [s.splat(0.0); N];
            for (n, column) in columns.iter_mut().enumerate() {
                // SAFETY: the callers of `by_panels` and `by_rows` vouch for the rows of a, b and c, here and below.
                *column = unsafe { s.load_at(b.add(i * b_stride + n * S::LANES)) };
            }
            for (m, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let x = s.splat(unsafe { *a.add(m * a_stride + i) });
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = s.fma(x, column, *sum);
                }
            }
        }
        for (m, sums) in sums.into_iter().enumerate() {
            for (n, sum) in sums.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { s.store_at(sum, c.add(m * c_stride + n * S::LANES)) };
            }
        }
    }
}

impl TileOperands {
    fn multiply_tile<S: Simd>(self, s: S, rows: usize, vectors: usize) {
        match rows {
            1 => self.of_width::<S, 1>(s, vectors),
            2 => self.of_width::<S, 2>(s, vectors),
            3 => self.of_width::<S, 3>(s, vectors),
            4 => self.of_width::<S, 4>(s, vectors),
            5 => self.of_width::<S, 5>(s, vectors),
            6 => self.of_width::<S, 6>(s, vectors),
            _ => unreachable!("{rows} rows of a tile; this is a bug"),
        }
    }

    fn of_width<S: Simd, const M: usize>(self, s: S, vectors: usize) {
        match vectors {
            1 => s.vectorize(TileProduct::<M, 1> { at: self }),
            2 => s.vectorize(TileProduct::<M, 2> { at: self }),
            3 if S::LANES == 16 => s.vectorize(TileProduct::<M, 3> { at: self }),
            4 if S::LANES == 16 => s.vectorize(TileProduct::<M, 4> { at: self }),
            _ => unreachable!("{vectors} vectors of a tile; this is a bug"),
        }
    }
}

/// Columns of scattered rows, in panels.
#[derive(Clone, Copy)]
pub(super) struct ColumnPanels<'a> {
    /// [`ColumnPanels::len`] numbers.
    pub(super) numbers: &'a [f32],
    /// The inner dimension.
    pub(super) depth: usize,
    /// Vectors of columns.
    pub(super) vectors: usize,
}

impl ColumnPanels<'_> {
    /// Numbers in the panels of `columns` columns.
    pub(super) fn len<S: Simd>(columns: usize, depth: usize) -> usize {
        columns.next_multiple_of(S::LANES) * depth
    }
}

/// A row-major factor or result: its address and its stride in numbers.
#[derive(Clone, Copy)]
pub(super) struct StridedMatrix<P> {
    pub(super) at: P,
    pub(super) stride: usize,
}

/// `c[row][column] = a[row] · panel[column]`. For each tile of rows, `columns(rows)` is the wanted range; whole vectors
/// are computed.
///
/// # Safety
/// `a` has `rows` rows of `panels.depth` numbers; `c` has room for `rows` rows of the wanted columns, to whole vectors.
pub(super) unsafe fn by_panels<S: Simd>(
    s: S,
    a: StridedMatrix<*const f32>,
    rows: usize,
    panels: ColumnPanels<'_>,
    c: StridedMatrix<*mut f32>,
    columns: impl Fn(Range<usize>) -> Range<usize>,
) {
    let most = panel_vectors::<S>();
    assert!(panels.vectors * S::LANES * panels.depth <= panels.numbers.len(), "numbers of panels; this is a bug");
    for start in (0..panels.vectors).step_by(most) {
        let width = most.min(panels.vectors - start);
        let panel = panels.numbers[start * S::LANES * panels.depth..].as_ptr();
        for first in (0..rows).step_by(ROWS) {
            let tile = first..rows.min(first + ROWS);
            let wanted = columns(tile.clone());
            let from = (wanted.start / S::LANES).max(start);
            let to = wanted.end.div_ceil(S::LANES).min(start + width);
            if from >= to {
                continue;
            }
            // SAFETY: within the panel by the assertion, within `a` and `c` by the caller.
            let at = unsafe {
                TileOperands {
                    a: a.at.add(first * a.stride),
                    a_stride: a.stride,
                    b: panel.add((from - start) * S::LANES),
                    b_stride: width * S::LANES,
                    c: c.at.add(first * c.stride + from * S::LANES),
                    c_stride: c.stride,
                    depth: panels.depth,
                    first: true,
                }
            };
            at.multiply_tile(s, tile.len(), to - from);
        }
    }
}

/// `c[row] = Σ a[row][i] b[i]`, over the `i` in `depths(rows)` for each tile of rows.
///
/// # Safety
/// `a` has `rows` rows with numbers at those `i`; `b` has rows of `vectors` whole vectors there; `c` has room for
/// `rows` rows of this width.
pub(super) unsafe fn by_rows<S: Simd>(
    s: S,
    a: StridedMatrix<*const f32>,
    rows: usize,
    b: StridedMatrix<*const f32>,
    vectors: usize,
    c: StridedMatrix<*mut f32>,
    depths: impl Fn(Range<usize>) -> Range<usize>,
) {
    let most = panel_vectors::<S>();
    let tiles = || (0..rows).step_by(ROWS).map(|first| first..rows.min(first + ROWS));
    let end = tiles().map(|tile| depths(tile).end).max().unwrap_or(0);
    for chunk in (0..end.max(1)).step_by(CHUNK) {
        for start in (0..vectors).step_by(most) {
            for tile in tiles() {
                let depth = depths(tile.clone());
                let from = depth.start.max(chunk);
                let count = depth.end.min(chunk + CHUNK).saturating_sub(from);
                // Without any `i` the result is 0; otherwise chains continue from the last chunk.
                let nothing = depth.is_empty() && chunk == 0;
                if count == 0 && !nothing {
                    continue;
                }
                // SAFETY: by the caller.
                let at = unsafe {
                    TileOperands {
                        a: a.at.add(tile.start * a.stride + from),
                        a_stride: a.stride,
                        b: b.at.add(from * b.stride + start * S::LANES),
                        b_stride: b.stride,
                        c: c.at.add(tile.start * c.stride + start * S::LANES),
                        c_stride: c.stride,
                        depth: count,
                        first: nothing || from == depth.start,
                    }
                };
                at.multiply_tile(s, tile.len(), most.min(vectors - start));
            }
        }
    }
}

/// Lays out rows of `depth` numbers, beginning at `rows` of `from`, as columns of panels.
pub(super) struct PackPanels<'a> {
    pub(super) from: &'a [f32],
    pub(super) rows: &'a [usize],
    pub(super) depth: usize,
    pub(super) to: &'a mut [f32],
}

impl SimdKernel for PackPanels<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let most = panel_vectors::<S>();
        let vectors = self.rows.len().div_ceil(S::LANES);
        for (vector, rows) in self.rows.chunks(S::LANES).enumerate() {
            let start = vector / most * most;
            let width = most.min(vectors - start) * S::LANES;
            let panel = &mut self.to[start * S::LANES * self.depth..][..width * self.depth];
            for row in self.rows[vector * S::LANES..].iter().skip(S::LANES).take(S::LANES) {
                prefetch(&self.from[*row..][..self.depth]);
            }
            for depth in (0..self.depth).step_by(S::LANES) {
                let count = S::LANES.min(self.depth - depth);
                let mut block = s.zeros();
                for (lane, row) in block.as_mut().iter_mut().zip(rows) {
                    *lane = s.load_part(&self.from[row + depth..][..count]);
                }
                let block = s.transpose(block);
                for (i, lanes) in block.as_ref().iter().take(count).enumerate() {
                    s.store(*lanes, &mut panel[(depth + i) * width + (vector - start) * S::LANES..]);
                }
            }
        }
    }
}

/// Lays out rows of `depth` numbers, beginning at `rows` of `from`, one after the other, each filled up with zeros to
/// `width`.
pub(super) struct GatherRows<'a> {
    pub(super) from: &'a [f32],
    pub(super) rows: &'a [usize],
    pub(super) depth: usize,
    pub(super) to: &'a mut [f32],
    pub(super) width: usize,
}

impl SimdKernel for GatherRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        /// Rows between the prefetched one and the one being read.
        const AHEAD: usize = 12;
        for (i, to) in self.to.chunks_exact_mut(self.width).take(self.rows.len()).enumerate() {
            if let Some(row) = self.rows.get(i + AHEAD) {
                prefetch(&self.from[*row..][..self.depth]);
            }
            let from = &self.from[self.rows[i]..][..self.depth];
            for (to, from) in to.chunks_mut(S::LANES).zip(from.chunks(S::LANES)) {
                s.store_part(s.load_part(from), to);
            }
        }
    }
}
