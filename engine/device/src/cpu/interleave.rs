//! Rows of activations in the layout of tiles: the rows of a tile side by side, so a tile reads one stream.
//!
//! ```text
//!   tile of rows r, r + 1, ..:   x[r][0] x[r + 1][0] ..  x[r][1] x[r + 1][1] ..  ..
//! ```

use crate::cpu::simd::{Simd, SimdKernel};
use std::ops::Range;

/// `to[i * rows + r] = x[r * stride + columns.start + i]`.
pub(super) struct Interleave<'a> {
    /// The tile's rows, `stride` apart.
    pub(super) x: &'a [f32],
    pub(super) stride: usize,
    /// Not more than a vector has lanes.
    pub(super) rows: usize,
    pub(super) columns: Range<usize>,
    /// Room for [`Interleave::room_for`] numbers; the last ones are left in any state.
    pub(super) to: &'a mut [f32],
}

impl Interleave<'_> {
    /// Numbers written for `numbers` numbers, since whole vectors are written.
    pub(super) const fn room_for(numbers: usize) -> usize {
        numbers + 16
    }
}

impl SimdKernel for Interleave<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { x, stride, rows, columns, to } = self;
        if rows == 1 {
            return to[..columns.len()].copy_from_slice(&x[columns]);
        }
        for start in columns.clone().step_by(S::LANES) {
            let count = S::LANES.min(columns.end - start);
            let mut block = s.zeros();
            for (row, lanes) in block.as_mut()[..rows].iter_mut().enumerate() {
                *lanes = s.load_part(&x[row * stride + start..][..count]);
            }
            let block = s.transpose(block);
            let to = &mut to[(start - columns.start) * rows..];
            for (i, lanes) in block.as_ref()[..count].iter().enumerate() {
                // The lanes beyond the rows are overwritten by what comes next.
                s.store(*lanes, &mut to[i * rows..]);
            }
        }
    }
}
