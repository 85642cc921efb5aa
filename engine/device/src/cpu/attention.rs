//! Attention of packed queries over spans of key rows.
//!
//! ```text
//!   distance    the part that depends on distance only, once per call: bias rows, panels of relative positions
//!   head        one sequence (or several over the same keys), one key head: panels, scores, softmax, values
//!   in_place    the same products for one query, with keys and values where they lie
//!   softmax     rows of scores to rows of weights
//!   tile        the products: a few rows times a few vectors, the sum running over the inner dimension in order
//! ```
//!
//! # Inputs that a result depends on
//! A score is one chain of fused multiply-adds over the dimensions of a head. The softmax takes its sum in lanes by the
//! key's place in its sequence; lanes without a visible key add zero. The values are one chain over the keys, in their
//! order; invisible keys weigh zero, which changes no sum of finite numbers. So neither the other queries, nor the cut
//! of keys into spans, nor keys after the last visible one change a bit, and a step of generation gives the same bits
//! as a prompt.

mod distance;
mod head;
mod in_place;
mod softmax;
mod tile;

use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor};
use crate::{Attention, AttentionBias, AttentionMask, DeviceError, Packing, TensorColumns};
use distance::DistanceTables;
use head::{HeadColumns, HeadGroup};
use std::ops::Range;

/// `softmax(scale * q·k + bias) · v`.
pub(super) fn attention(
    cpu: &Cpu,
    q: TensorColumns<'_, Tensor>,
    k: TensorColumns<'_, Tensor>,
    v: TensorColumns<'_, Tensor>,
    attention: &Attention<'_, Cpu>,
) -> Result<Tensor, DeviceError> {
    let Attention { heads, kv_heads, head_dim, packing, .. } = *attention;
    check_shapes(q, k, v, attention);
    let mut out = cpu.new_tensor(packing.rows(), heads * head_dim)?;
    let call = AttentionCall {
        q: HeadColumns::from_columns(q),
        k: HeadColumns::from_columns(k),
        v: HeadColumns::from_columns(v),
        attention,
        distances: DistanceTables::new(cpu, attention)?,
        groups: key_groups(attention),
    };
    let work = (0..packing.len()).map(|s| packing.query_rows(s).len() * packing.key_count(s)).sum::<usize>();
    let address = ResultAddress(out.values_mut().as_mut_ptr());
    cpu.run_parallel(call.groups.len() * kv_heads, 2 * work * heads * head_dim, |task| {
        let (group, kv_head) = (call.groups[task / kv_heads].clone(), task % kv_heads);
        cpu.run(AttentionTask { cpu, call: &call, group, kv_head, out: &address })
    })?;
    Ok(out)
}

/// The shared operands of a call's tasks.
pub(crate) struct AttentionCall<'a> {
    q: HeadColumns<'a>,
    k: HeadColumns<'a>,
    v: HeadColumns<'a>,
    attention: &'a Attention<'a, Cpu>,
    distances: DistanceTables,
    groups: Vec<Range<usize>>,
}

impl AttentionCall<'_> {
    /// The visible keys, out of `keys`, for the query at `position` of its sequence.
    fn visible_keys(&self, position: usize, keys: usize) -> Range<usize> {
        match self.attention.mask {
            AttentionMask::Full => 0..keys,
            AttentionMask::Causal => 0..position + 1,
            AttentionMask::Window(width) => (position + 1).saturating_sub(width as usize)..position + 1,
        }
    }
}

/// The address of the result; each task has rows and columns of its own.
pub(crate) struct ResultAddress(*mut f32);

// SAFETY: tasks write to disjoint places: the rows of their sequences, the columns of their heads.
unsafe impl Sync for ResultAddress {}

struct AttentionTask<'a> {
    cpu: &'a Cpu,
    call: &'a AttentionCall<'a>,
    group: Range<usize>,
    kv_head: usize,
    out: &'a ResultAddress,
}

impl SimdKernel for AttentionTask<'_> {
    type Output = Result<(), DeviceError>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        HeadGroup::new(s, self.cpu, self.call, self.group, self.kv_head)?.attend_group(self.out);
        Ok(())
    }
}

fn check_shapes(
    q: TensorColumns<'_, Tensor>,
    k: TensorColumns<'_, Tensor>,
    v: TensorColumns<'_, Tensor>,
    attention: &Attention<'_, Cpu>,
) {
    let Attention { heads, kv_heads, head_dim, packing, .. } = *attention;
    assert!(kv_heads > 0 && heads % kv_heads == 0 && head_dim > 0, "heads of attention; this is a bug");
    assert!(q.start + heads * head_dim <= q.tensor.columns(), "columns of queries; this is a bug");
    assert!(k.start + kv_heads * head_dim <= k.tensor.columns(), "columns of keys; this is a bug");
    assert!(v.start + kv_heads * head_dim <= v.tensor.columns(), "columns of values; this is a bug");
    assert!(packing.rows() <= q.tensor.rows(), "rows of queries; this is a bug");
    let rows = k.tensor.rows().min(v.tensor.rows());
    for (start, count) in &packing.spans {
        assert!(*start as usize + *count as usize <= rows, "rows of keys and values; this is a bug");
    }
    let by_position = attention.mask != AttentionMask::Full || !matches!(attention.bias, AttentionBias::None);
    let enough = |s| packing.query_rows(s).len() <= packing.key_count(s);
    assert!(!by_position || (0..packing.len()).all(enough), "positions of queries; this is a bug");
}

/// Groups neighbouring sequences over the same keys; each group shares panels of keys.
fn key_groups(attention: &Attention<'_, Cpu>) -> Vec<Range<usize>> {
    let packing: &Packing = attention.packing;
    // Terms that belong to a key and a position are computed for one sequence.
    let shares = !matches!(attention.bias, AttentionBias::Disentangled(_));
    let mut groups: Vec<Range<usize>> = Vec::new();
    for sequence in 0..packing.len() {
        match groups.last_mut() {
            Some(last) if shares && packing.key_spans(last.start) == packing.key_spans(sequence) => {
                last.end = sequence + 1
            }
            _ => groups.push(sequence..sequence + 1),
        }
    }
    groups
}
