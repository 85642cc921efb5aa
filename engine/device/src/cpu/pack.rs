//! Weights in the layout of products: panels of one tile's width in outputs, padded with zeros.
//!
//! ```text
//!   panel p of weights [out, in]:   in rows of WIDTH numbers; row i is weights[p * WIDTH ..][i]
//! ```
//!
//! Mapped weights of any type and layout become the same panels, because conversion to `f32` is exact.

use crate::cpu::tensor::WeightMatrix;
use crate::{Dtype, HostTensor, WeightLayout};
use std::arch::x86_64::{
    _mm_loadu_si128, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_loadu_ps,
    _mm256_permute2f128_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_storeu_ps,
    _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

/// Inputs transposed at a time: those of every row of a panel fit the first-level cache.
const STRIP: usize = 128;
/// The most outputs of a panel.
const WIDEST: usize = 32;

/// Packs panel `panel` of `width` outputs into `out [weight.columns, width]`.
///
/// The processor has AVX2 and F16C: without them no [`super::Cpu`] is made.
pub(super) fn pack_panel(weight: &WeightMatrix, width: usize, panel: usize, out: &mut [f32]) {
    assert!(out.len() == weight.columns() * width && width <= WIDEST, "the size of a panel; this is a bug");
    let rows = panel * width..weight.rows().min((panel + 1) * width);
    if rows.len() < width {
        out.fill(0.0);
    }
    let mut lane = 0;
    for (part, its_rows) in weight.parts_of(rows) {
        let lanes = lane..lane + its_rows.len();
        lane = lanes.end;
        match weight.layout() {
            WeightLayout::InOut => {
                for (i, row) in out.chunks_exact_mut(width).enumerate() {
                    convert_part(part, i * part.shape[1] + its_rows.start, &mut row[lanes.clone()]);
                }
            }
            WeightLayout::OutIn => transpose_rows(part, its_rows.start, lanes.len(), &mut out[lanes.start..], width),
        }
    }
}

/// Writes rows `first..first + lanes` of a part as columns of `out`, whose rows are `width` apart.
fn transpose_rows(part: &HostTensor, first: usize, lanes: usize, out: &mut [f32], width: usize) {
    let inputs = part.shape[1];
    let mut strip = [[0.0; STRIP]; WIDEST];
    for start in (0..inputs).step_by(STRIP) {
        let count = STRIP.min(inputs - start);
        for (row, numbers) in strip[..lanes].iter_mut().enumerate() {
            convert_part(part, (first + row) * inputs + start, &mut numbers[..count]);
        }
        let out = &mut out[start * width..];
        let (blocks, deep) = (strip[..lanes].as_chunks::<8>(), count / 8 * 8);
        for (block, rows) in blocks.0.iter().enumerate() {
            for i in (0..deep).step_by(8) {
                transpose_block(rows, i, &mut out[i * width + block * 8..], width);
            }
            for (row, numbers) in rows.iter().enumerate() {
                for i in deep..count {
                    out[i * width + block * 8 + row] = numbers[i];
                }
            }
        }
        for (row, numbers) in blocks.1.iter().enumerate() {
            for (i, number) in numbers[..count].iter().enumerate() {
                out[i * width + lanes / 8 * 8 + row] = *number;
            }
        }
    }
}

/// `out[j * width + row] = rows[row][start + j]` for eight rows and eight `j`.
fn transpose_block(rows: &[[f32; STRIP]; 8], start: usize, out: &mut [f32], width: usize) {
    assert!(start + 8 <= STRIP && out.len() >= 7 * width + 8, "a block of eight; this is a bug");
    #[target_feature(enable = "avx2")]
    unsafe fn run(rows: &[[f32; STRIP]; 8], start: usize, out: *mut f32, width: usize) {
        let mut r = [_mm256_setzero_ps(); 8];
        for (r, row) in r.iter_mut().zip(rows) {
            // SAFETY: eight numbers from `start` on, as the caller checked.
            *r = unsafe { _mm256_loadu_ps(row.as_ptr().add(start)) };
        }
        // Pairs of rows, then fours, then halves of registers.
        let mut t = r;
        for i in 0..4 {
            t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for half in 0..2 {
            let t = &t[4 * half..];
            r[4 * half] = _mm256_shuffle_ps::<0x44>(t[0], t[2]);
            r[4 * half + 1] = _mm256_shuffle_ps::<0xEE>(t[0], t[2]);
            r[4 * half + 2] = _mm256_shuffle_ps::<0x44>(t[1], t[3]);
            r[4 * half + 3] = _mm256_shuffle_ps::<0xEE>(t[1], t[3]);
        }
        for j in 0..4 {
            // SAFETY: eight numbers in each of eight rows of `out`, as the caller checked.
            unsafe {
                _mm256_storeu_ps(out.add(j * width), _mm256_permute2f128_ps::<0x20>(r[j], r[j + 4]));
                _mm256_storeu_ps(out.add((j + 4) * width), _mm256_permute2f128_ps::<0x31>(r[j], r[j + 4]));
            }
        }
    }
    // SAFETY: the processor has AVX2; bounds are checked above.
    unsafe { run(rows, start, out.as_mut_ptr(), width) }
}

/// Numbers `start..start + out.len()` of a part, the same as from [`HostTensor::read_into`].
fn convert_part(part: &HostTensor, start: usize, out: &mut [f32]) {
    #[target_feature(enable = "avx2,f16c")]
    fn halves(from: &[[u8; 16]], out: &mut [[f32; 8]], bf16: bool) {
        for (from, to) in from.iter().zip(out) {
            // SAFETY: sixteen bytes are read and eight numbers written.
            unsafe {
                let halves = _mm_loadu_si128(from.as_ptr().cast());
                let wide = if bf16 {
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
                } else {
                    _mm256_cvtph_ps(halves)
                };
                _mm256_storeu_ps(to.as_mut_ptr(), wide);
            }
        }
    }
    if part.dtype == Dtype::F32 {
        return part.read_into(start, out);
    }
    let bytes = &part.bytes[start * 2..(start + out.len()) * 2];
    let (eights, rest) = out.as_chunks_mut::<8>();
    // SAFETY: the processor has AVX2 and F16C.
    unsafe { halves(bytes.as_chunks::<16>().0, eights, part.dtype == Dtype::Bf16) };
    part.read_into(start + eights.len() * 8, rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// Finite numbers of every magnitude in a type.
    fn bytes(dtype: Dtype, count: usize) -> Vec<u8> {
        let bits = |i: usize| (i as u32).wrapping_mul(0x9E37_79B9);
        let number = |i: usize| match dtype {
            Dtype::F32 => (bits(i) as i32 as f32 / 7.0).to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_bits((bits(i) >> 16) as u16 & 0xBBFF).to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_bits((bits(i) >> 16) as u16 & 0xBFFF).to_le_bytes().to_vec(),
        };
        (0..count).flat_map(number).collect()
    }

    #[test]
    fn panels_hold_the_stored_numbers_in_every_type_and_layout() {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
                let inputs = 3 * STRIP / 2 + 5;
                let part = |name: &str, out: usize| {
                    let shape = if layout == WeightLayout::OutIn { vec![out, inputs] } else { vec![inputs, out] };
                    HostTensor { name: name.into(), dtype, shape, bytes: bytes(dtype, out * inputs).into() }
                };
                let weight = WeightMatrix::new(&[part("a", 21), part("b", 30)], layout).unwrap();
                for width in [16, 32] {
                    for panel in 0..weight.rows().div_ceil(width) {
                        let mut packed = vec![f32::NAN; inputs * width];
                        pack_panel(&weight, width, panel, &mut packed);
                        for lane in 0..width {
                            let mut row = vec![0.0; inputs];
                            if panel * width + lane < weight.rows() {
                                weight.read_row(panel * width + lane, 0, &mut row);
                            }
                            let column = packed.iter().skip(lane).step_by(width).copied().collect::<Vec<_>>();
                            assert_eq!(column, row, "{dtype:?} {layout:?} {width} panel {panel} lane {lane}");
                        }
                    }
                }
            }
        }
    }
}
