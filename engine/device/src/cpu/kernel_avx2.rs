//! The innermost loop of matrix products with AVX2: up to 6 rows times 16 columns in 12 of the 16 registers.

use crate::cpu::gemm::AHEAD;
use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm256_add_ps, _mm256_fmadd_ps, _mm256_load_ps,
    _mm256_loadu_si256, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_set1_ps, _mm256_setzero_ps,
};

/// Columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// The most rows of a tile.
pub(super) const ROWS: usize = 6;

/// A tile of each height.
pub(super) const TILES: [super::gemm::TileFunction; ROWS] = [
    multiply_tile::<1>,
    multiply_tile::<2>,
    multiply_tile::<3>,
    multiply_tile::<4>,
    multiply_tile::<5>,
    multiply_tile::<6>,
];

/// See [`super::gemm::TileFunction`] for the contract.
#[target_feature(enable = "avx2,fma")]
#[expect(clippy::too_many_arguments, reason = "it is called through a table, for every tile")]
unsafe fn multiply_tile<const M: usize>(
    depth: usize,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    stride: usize,
    columns: usize,
    first: bool,
    next: *const f32,
    advance: usize,
) {
    let masks = [column_mask(columns), column_mask(columns.saturating_sub(8))];
    let mut sums = [[_mm256_setzero_ps(); 2]; M];
    // SAFETY: the caller's contract: `a` has `depth` rows of `M`, `b` has `depth` rows of 16 and is aligned, and in `c`
    // only the `columns` numbers under the masks are touched. Prefetching takes any address.
    unsafe {
        for row in 0..M {
            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(row * stride).cast());
            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(row * stride + columns - 1).cast());
        }
        // One loop of single steps, without branches: with more the compiler spills the sums.
        let (mut a, mut b, mut next) = (a, b, next);
        for _ in 0..depth {
            let left: __m256 = _mm256_load_ps(b);
            let right = _mm256_load_ps(b.add(8));
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(AHEAD * COLUMNS).cast());
            _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(2 * AHEAD * M).cast());
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            for (row, sum) in sums.iter_mut().enumerate() {
                let x = _mm256_set1_ps(*a.add(row));
                sum[0] = _mm256_fmadd_ps(x, left, sum[0]);
                sum[1] = _mm256_fmadd_ps(x, right, sum[1]);
            }
            (a, b, next) = (a.add(M), b.add(COLUMNS), next.wrapping_add(advance));
        }
        for (row, sum) in sums.iter().enumerate() {
            for (half, mask) in masks.into_iter().enumerate() {
                let to = c.add(row * stride + half * 8);
                let total = if first { sum[half] } else { _mm256_add_ps(_mm256_maskload_ps(to, mask), sum[half]) };
                _mm256_maskstore_ps(to, mask, total);
            }
        }
    }
}

/// The first `columns` of 8 lanes.
#[target_feature(enable = "avx2")]
fn column_mask(columns: usize) -> __m256i {
    const ONES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: eight numbers from 0..=8 on are within the sixteen.
    unsafe { _mm256_loadu_si256(ONES[8 - columns.min(8)..].as_ptr().cast()) }
}
