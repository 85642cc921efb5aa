//! Operations that the CPU still does as the [`Reference`] device does them, number by number.

use crate::cpu::{Cpu, Matrix, Tensor, Vector};
use crate::reference::{Plain, Reference};
use crate::{
    Activation, Attention, Bias, Columns, Device, DeviceError, Disentangled, Epilogue, LogProbs, Lookup, Norm, Rotary,
};

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

/// Owned copies of a norm's weights.
struct Weights(Option<(Vec<f32>, Vec<f32>, f32)>, Option<(Vec<f32>, f32)>);

impl Weights {
    fn of(norm: Norm<'_, Cpu>) -> Self {
        match norm {
            Norm::Layer { weight, bias, eps } => Self(Some((weight.to_vec(), bias.to_vec(), eps)), None),
            Norm::Rms { weight, eps } => Self(None, Some((weight.to_vec(), eps))),
        }
    }

    fn norm(&self) -> Norm<'_, Reference> {
        match (&self.0, &self.1) {
            (Some((weight, bias, eps)), _) => Norm::Layer { weight, bias, eps: *eps },
            (None, Some((weight, eps))) => Norm::Rms { weight, eps: *eps },
            (None, None) => unreachable!("one of the two was made; this is a bug"),
        }
    }
}

pub(crate) fn embed(cpu: &Cpu, lookups: &[Lookup<'_, Cpu>], scale: f32) -> Result<Tensor, DeviceError> {
    let tables = lookups.iter().map(|l| plain_matrix(l.table)).collect::<Vec<_>>();
    let lookups = lookups.iter().zip(&tables).map(|(l, table)| Lookup { table, ids: l.ids }).collect::<Vec<_>>();
    back(cpu, Reference.embed(&lookups, scale)?)
}

pub(crate) fn norm(cpu: &Cpu, x: &Tensor, norm: Norm<'_, Cpu>) -> Result<Tensor, DeviceError> {
    back(cpu, Reference.norm(&plain(x), Weights::of(norm).norm())?)
}

pub(crate) fn norm_groups(
    _: &Cpu,
    x: &mut Tensor,
    start: usize,
    groups: usize,
    width: usize,
    norm: Norm<'_, Cpu>,
) -> Result<(), DeviceError> {
    let mut there = plain(x);
    Reference.norm_groups(&mut there, start, groups, width, Weights::of(norm).norm())?;
    x.values_mut().copy_from_slice(&there.values);
    Ok(())
}

pub(crate) fn linear(
    cpu: &Cpu,
    x: &Tensor,
    weight: &Matrix,
    epilogue: Epilogue<'_, Cpu>,
) -> Result<Tensor, DeviceError> {
    let bias = epilogue.bias.map(|b| b.to_vec());
    let residual = epilogue.residual.map(plain);
    let epilogue = Epilogue {
        scale: epilogue.scale,
        bias: bias.as_ref(),
        activation: epilogue.activation,
        residual: residual.as_ref(),
    };
    back(cpu, Reference.linear(&plain(x), &plain_matrix(weight), epilogue)?)
}

pub(crate) fn gate(cpu: &Cpu, x: &Tensor, activation: Activation) -> Result<Tensor, DeviceError> {
    back(cpu, Reference.gate(&plain(x), activation)?)
}

pub(crate) fn rotate(
    _: &Cpu,
    x: &mut Tensor,
    start: usize,
    heads: usize,
    head_dim: usize,
    positions: &[u32],
    rotary: &Rotary<'_, Cpu>,
) -> Result<(), DeviceError> {
    let mut there = plain(x);
    let table = plain_matrix(rotary.table);
    let rotary = Rotary { table: &table, pairs: rotary.pairs, style: rotary.style };
    Reference.rotate(&mut there, start, heads, head_dim, positions, &rotary)?;
    x.values_mut().copy_from_slice(&there.values);
    Ok(())
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

pub(crate) fn gather(cpu: &Cpu, x: &Tensor, rows: &[u32]) -> Result<Tensor, DeviceError> {
    back(cpu, Reference.gather(&plain(x), rows)?)
}

pub(crate) fn scatter(_: &Cpu, into: &mut Tensor, to: &[u32], from: Columns<'_, Tensor>) -> Result<(), DeviceError> {
    let mut there = plain(into);
    Reference.scatter(&mut there, to, Columns { tensor: &plain(from.tensor), start: from.start })?;
    into.values_mut().copy_from_slice(&there.values);
    Ok(())
}

pub(crate) fn average(cpu: &Cpu, x: &Tensor, cu_seqlens: &[u32]) -> Result<Tensor, DeviceError> {
    back(cpu, Reference.average(&plain(x), cu_seqlens)?)
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
