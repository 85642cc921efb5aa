//! Operations that the CPU still does as the [`Reference`] device does them, number by number.

use crate::cpu::{Cpu, Matrix, Tensor, Vector};
use crate::reference::{Plain, Reference};
use crate::{Attention, Bias, Columns, Device, DeviceError, Disentangled, LogProbs};

fn plain(x: &Tensor) -> Plain {
    Plain { rows: x.rows(), columns: x.columns(), values: x.values().to_vec() }
}

fn plain_matrix(matrix: &Matrix) -> Plain {
    let mut values = vec![0.0; matrix.rows() * matrix.columns()];
    for (row, out) in values.chunks_exact_mut(matrix.columns().max(1)).enumerate() {
        matrix.read_row(row, 0, out);
    }
    Plain { rows: matrix.rows(), columns: matrix.columns(), values }
}

fn back(cpu: &Cpu, x: Plain) -> Result<Tensor, DeviceError> {
    cpu.upload(x.rows, x.columns, &x.values)
}

pub(crate) fn attention(
    cpu: &Cpu,
    q: Columns<'_, Tensor>,
    k: Columns<'_, Tensor>,
    v: Columns<'_, Tensor>,
    attention: &Attention<'_, Cpu>,
) -> Result<Tensor, DeviceError> {
    let table = match &attention.bias {
        Bias::Relative { table, .. } => Some(plain_matrix(table)),
        _ => None,
    };
    let (keys, queries) = match &attention.bias {
        Bias::Disentangled(terms) => (terms.position_keys.map(plain), terms.position_queries.map(plain)),
        _ => (None, None),
    };
    let bias = match (&attention.bias, &table) {
        (Bias::Relative { buckets, .. }, Some(table)) => Bias::Relative { table, buckets: *buckets },
        (Bias::Disentangled(terms), _) => Bias::Disentangled(Disentangled {
            position_keys: keys.as_ref(),
            position_queries: queries.as_ref(),
            buckets: terms.buckets,
        }),
        _ => Bias::None,
    };
    let (tq, tk, tv) = (plain(q.tensor), plain(k.tensor), plain(v.tensor));
    let there = Attention {
        heads: attention.heads,
        kv_heads: attention.kv_heads,
        head_dim: attention.head_dim,
        scale: attention.scale,
        mask: attention.mask,
        bias,
        packing: attention.packing,
    };
    let q = Columns { tensor: &tq, start: q.start };
    let k = Columns { tensor: &tk, start: k.start };
    let v = Columns { tensor: &tv, start: v.start };
    back(cpu, Reference.attention(q, k, v, &there)?)
}

pub(crate) fn log_probs(
    _: &Cpu,
    x: &Tensor,
    weight: &Matrix,
    bias: Option<&Vector>,
    scale: f32,
    targets: &[u32],
    temperatures: &[f32],
) -> Result<LogProbs, DeviceError> {
    let bias = bias.map(|b| b.to_vec());
    Reference.log_probs(&plain(x), &plain_matrix(weight), bias.as_ref(), scale, targets, temperatures)
}
