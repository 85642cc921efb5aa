//! Operations that the CPU still does as the [`Reference`] device does them, number by number.

use crate::cpu::{Cpu, Matrix, Tensor, Vector};
use crate::reference::{Plain, Reference};
use crate::{Device, DeviceError, LogProbs};

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
