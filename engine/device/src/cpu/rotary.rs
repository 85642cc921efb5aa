//! Rotary position embedding, in place.

use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor};
use crate::{DeviceError, RotaryAngles, RotaryStyle};

/// Turns `heads` heads of `head_dim` columns from column `start` on by the angles of each row's position.
pub(super) fn rotate(
    cpu: &Cpu,
    x: &mut Tensor,
    start: usize,
    heads: usize,
    head_dim: usize,
    positions: &[u32],
    rotary: &RotaryAngles<'_, Cpu>,
) -> Result<(), DeviceError> {
    assert_eq!(positions.len(), x.rows(), "a position for each row; this is a bug");
    assert!(2 * rotary.pairs <= head_dim, "pairs of a head; this is a bug");
    let mut angles = cpu.new_tensor(x.rows(), 2 * rotary.pairs)?;
    cpu.for_rows(&mut angles, 2 * rotary.pairs, |row, out| rotary.table.read_row(positions[row] as usize, 0, out));
    cpu.for_rows(x, 4 * heads * head_dim, |row, numbers| {
        let (cosines, sines) = angles.row(row).split_at(rotary.pairs);
        for head in numbers[start..][..heads * head_dim].chunks_exact_mut(head_dim) {
            let head = &mut head[..2 * rotary.pairs];
            match rotary.style {
                RotaryStyle::Half => {
                    let (left, right) = head.split_at_mut(rotary.pairs);
                    cpu.run(RotatePairs { left, right, cosines, sines });
                }
                RotaryStyle::Interleaved => {
                    for ((pair, cosine), sine) in head.as_chunks_mut::<2>().0.iter_mut().zip(cosines).zip(sines) {
                        let [left, right] = *pair;
                        *pair = [left * cosine - right * sine, right * cosine + left * sine];
                    }
                }
            }
        }
    });
    Ok(())
}

struct RotatePairs<'a> {
    left: &'a mut [f32],
    right: &'a mut [f32],
    cosines: &'a [f32],
    sines: &'a [f32],
}

impl SimdKernel for RotatePairs<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let parts = self.left.chunks_mut(S::LANES).zip(self.right.chunks_mut(S::LANES));
        let angles = self.cosines.chunks(S::LANES).zip(self.sines.chunks(S::LANES));
        for ((left, right), (cosine, sine)) in parts.zip(angles) {
            let (a, b) = (s.load_part(left), s.load_part(right));
            let (cosine, sine) = (s.load_part(cosine), s.load_part(sine));
            s.store_part(s.fnma(b, sine, s.mul(a, cosine)), left);
            s.store_part(s.fma(a, sine, s.mul(b, cosine)), right);
        }
    }
}
