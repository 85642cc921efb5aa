//! The gated half of a feed-forward layer: one half of a row, activated, times the other.

use crate::cpu::math::activate;
use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor};
use crate::{Activation, DeviceError};

/// `activation(x[.., ..n]) * x[.., n..2n]`.
pub(super) fn gate(cpu: &Cpu, x: &Tensor, activation: Activation) -> Result<Tensor, DeviceError> {
    let width = x.columns() / 2;
    let mut out = cpu.new_tensor(x.rows(), width)?;
    cpu.for_rows(&mut out, WORK * width, |row, out| {
        let (left, right) = x.row(row)[..2 * width].split_at(width);
        cpu.run(GateRow { left, right, out, activation });
    });
    Ok(out)
}

/// Cost of a number, in multiply-adds.
const WORK: usize = 8;

struct GateRow<'a> {
    left: &'a [f32],
    right: &'a [f32],
    out: &'a mut [f32],
    activation: Activation,
}

impl SimdKernel for GateRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let whole = self.out.len() / S::LANES * S::LANES;
        let (body, rest) = self.out.split_at_mut(whole);
        for (i, chunk) in body.chunks_exact_mut(S::LANES).enumerate() {
            let left = activate(s, self.activation, s.load(&self.left[i * S::LANES..]));
            s.store(s.mul(left, s.load(&self.right[i * S::LANES..])), chunk);
        }
        let left = activate(s, self.activation, s.load_part(&self.left[whole..]));
        s.store_part(s.mul(left, s.load_part(&self.right[whole..])), rest);
    }
}
