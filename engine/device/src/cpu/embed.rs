//! Rows of embedding tables, added up.

use crate::cpu::{Cpu, Tensor};
use crate::{DeviceError, TableLookup};

/// `scale * Σ table[id]`, in the order of the lookups.
pub(super) fn embed(cpu: &Cpu, lookups: &[TableLookup<'_, Cpu>], scale: f32) -> Result<Tensor, DeviceError> {
    let (rows, columns) = (lookups[0].ids.len(), lookups[0].table.columns());
    for lookup in lookups {
        assert_eq!((lookup.ids.len(), lookup.table.columns()), (rows, columns), "shape of a lookup; this is a bug");
    }
    let mut out = cpu.new_tensor(rows, columns)?;
    cpu.for_rows(&mut out, columns * lookups.len(), |row, out| {
        let mut piece = [0.0; PIECE];
        for (start, out) in out.chunks_mut(PIECE).enumerate().map(|(i, out)| (i * PIECE, out)) {
            out.fill(0.0);
            let piece = &mut piece[..out.len()];
            for lookup in lookups {
                lookup.table.read_row(lookup.ids[row] as usize, start, piece);
                for (sum, number) in out.iter_mut().zip(&*piece) {
                    *sum += number;
                }
            }
            for sum in out {
                *sum *= scale;
            }
        }
    });
    Ok(out)
}

/// Numbers read at a time.
const PIECE: usize = 256;
