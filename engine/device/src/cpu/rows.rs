//! Moves rows unchanged, and averages them.

use crate::cpu::{Cpu, Tensor};
use crate::{DeviceError, TensorColumns};

/// `x[rows]`.
pub(super) fn gather(cpu: &Cpu, x: &Tensor, rows: &[u32]) -> Result<Tensor, DeviceError> {
    let mut out = cpu.new_tensor(rows.len(), x.columns())?;
    cpu.for_rows(&mut out, x.columns(), |row, out| out.copy_from_slice(x.row(rows[row] as usize)));
    Ok(out)
}

/// Writes rows of `from` to the rows `to` of `into`; among several for one row the last one counts.
pub(super) fn scatter(cpu: &Cpu, into: &mut Tensor, to: &[u32], from: TensorColumns<'_, Tensor>) {
    let columns = into.columns();
    let source = |row: usize| &from.tensor.row(row)[from.start..][..columns];
    if to.len() < into.rows() / 4 {
        for (row, to) in to.iter().enumerate() {
            into.row_mut(*to as usize).copy_from_slice(source(row));
        }
        return;
    }
    let mut sources = vec![None; into.rows()];
    for (row, to) in to.iter().enumerate() {
        sources[*to as usize] = Some(row);
    }
    cpu.for_rows(into, columns, |row, out| {
        if let Some(from) = sources[row] {
            out.copy_from_slice(source(from));
        }
    });
}

/// The mean of each sequence's rows.
pub(super) fn average(cpu: &Cpu, x: &Tensor, cu_seqlens: &[u32]) -> Result<Tensor, DeviceError> {
    let mut out = cpu.new_tensor(cu_seqlens.len() - 1, x.columns())?;
    let longest = cu_seqlens.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as usize;
    cpu.for_rows(&mut out, longest * x.columns(), |sequence, out| {
        let rows = cu_seqlens[sequence] as usize..cu_seqlens[sequence + 1] as usize;
        let count = rows.len() as f32;
        out.fill(0.0);
        for row in rows {
            for (sum, number) in out.iter_mut().zip(x.row(row)) {
                *sum += number;
            }
        }
        for sum in out {
            *sum /= count;
        }
    });
    Ok(out)
}
