//! The innermost loop of matrix products with AVX-512: up to 14 rows times 32 columns in 28 of the 32 registers.

use crate::cpu::gemm::AHEAD;
use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps, _mm512_fmadd_ps, _mm512_load_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

/// Columns of a panel.
pub(super) const COLUMNS: usize = 32;
/// The most rows of a tile.
pub(super) const ROWS: usize = 14;

/// A tile of each height.
pub(super) const TILES: [super::gemm::TileFunction; ROWS] = [
    multiply_tile::<1>,
    multiply_tile::<2>,
    multiply_tile::<3>,
    multiply_tile::<4>,
    multiply_tile::<5>,
    multiply_tile::<6>,
    multiply_tile::<7>,
    multiply_tile::<8>,
    multiply_tile::<9>,
    multiply_tile::<10>,
    multiply_tile::<11>,
    multiply_tile::<12>,
    multiply_tile::<13>,
    multiply_tile::<14>,
];

/// See [`super::gemm::TileFunction`] for the contract.
#[target_feature(enable = "avx512f")]
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
    let masks = [column_mask(columns), column_mask(columns.saturating_sub(16))];
    let mut sums = [[_mm512_setzero_ps(); 2]; M];
    // SAFETY: the caller's contract: `a` has `depth` rows of `M`, `b` has `depth` rows of 32 and is aligned, and in `c`
    // only the `columns` numbers under the masks are touched. Prefetching takes any address.
    unsafe {
        for row in 0..M {
            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(row * stride).cast());
            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(row * stride + columns - 1).cast());
        }
        // One loop of single steps, without branches: with more the compiler spills the sums.
        let (mut a, mut b, mut next) = (a, b, next);
        for _ in 0..depth {
            let left: __m512 = _mm512_load_ps(b);
            let right = _mm512_load_ps(b.add(16));
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(AHEAD * COLUMNS).cast());
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(AHEAD * COLUMNS + 16).cast());
            _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(2 * AHEAD * M).cast());
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            for (row, sum) in sums.iter_mut().enumerate() {
                let x = _mm512_set1_ps(*a.add(row));
                sum[0] = _mm512_fmadd_ps(x, left, sum[0]);
                sum[1] = _mm512_fmadd_ps(x, right, sum[1]);
            }
            (a, b, next) = (a.add(M), b.add(COLUMNS), next.wrapping_add(advance));
        }
        for (row, sum) in sums.iter().enumerate() {
            for (half, mask) in masks.into_iter().enumerate() {
                let to = c.add(row * stride + half * 16);
                let total = if first { sum[half] } else { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum[half]) };
                _mm512_mask_storeu_ps(to, mask, total);
            }
        }
    }
}

/// The first `columns` of 16 lanes.
fn column_mask(columns: usize) -> u16 {
    if columns >= 16 { u16::MAX } else { (1 << columns) - 1 }
}
