//! The last step of a product, before its numbers leave the cache: `activation(scale * product + bias) + residual`.

use crate::cpu::gemm::{ResultRows, TileFinisher};
use crate::cpu::simd::{Simd, SimdKernel, prefetch};
use crate::cpu::{Cpu, Tensor, math};
use crate::{Activation, Epilogue};
use std::ops::Range;

/// An [`Epilogue`] with its parts checked against the shape of the product.
#[derive(Clone, Copy)]
pub(super) struct CheckedEpilogue<'a> {
    scale: f32,
    bias: Option<&'a [f32]>,
    activation: Activation,
    /// `[rows, columns]`.
    residual: Option<&'a [f32]>,
    columns: usize,
}

impl<'a> CheckedEpilogue<'a> {
    pub(super) fn new(epilogue: Epilogue<'a, Cpu>, rows: usize, columns: usize) -> Self {
        let bias = epilogue.bias.map(|bias| &**bias);
        assert!(bias.is_none_or(|bias| bias.len() == columns), "a bias as long as a row; this is a bug");
        let fits = |r: &Tensor| (r.rows(), r.columns()) == (rows, columns);
        assert!(epilogue.residual.is_none_or(fits), "a residual of the product's shape; this is a bug");
        let residual = epilogue.residual.map(Tensor::values);
        Self { scale: epilogue.scale, bias, activation: epilogue.activation, residual, columns }
    }

    fn residual_row(&self, row: usize, columns: Range<usize>) -> Option<&'a [f32]> {
        self.residual.map(|r| &r[row * self.columns..][columns])
    }
}

impl TileFinisher for CheckedEpilogue<'_> {
    fn announce_tile(&self, rows: Range<usize>, columns: Range<usize>) {
        rows.filter_map(|row| self.residual_row(row, columns.clone())).for_each(prefetch);
    }

    fn finish_tile(&self, cpu: &Cpu, first: usize, columns: Range<usize>, rows: ResultRows<'_>) {
        let nothing = self.scale == 1.0 && self.bias.is_none() && self.residual.is_none();
        if !nothing || self.activation != Activation::Identity {
            cpu.run(EpilogueTile { epilogue: *self, first, columns, rows });
        }
    }
}

/// Columns of neighbouring rows.
struct EpilogueTile<'a> {
    epilogue: CheckedEpilogue<'a>,
    first: usize,
    columns: Range<usize>,
    rows: ResultRows<'a>,
}

impl SimdKernel for EpilogueTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { epilogue, first, columns, mut rows } = self;
        let scale = s.splat(epilogue.scale);
        let bias = epilogue.bias.map(|bias| &bias[columns.clone()]);
        let part = |from: &[f32], at: usize| {
            let from = &from[at..];
            if from.len() >= S::LANES { s.load(from) } else { s.load_part(from) }
        };
        for row in 0..rows.len() {
            let residual = epilogue.residual_row(first + row, columns.clone());
            let values = rows.row(row);
            for at in (0..values.len()).step_by(S::LANES) {
                let mut y = s.mul(scale, part(values, at));
                if let Some(bias) = bias {
                    y = s.add(y, part(bias, at));
                }
                y = math::activate(s, epilogue.activation, y);
                if let Some(residual) = residual {
                    y = s.add(y, part(residual, at));
                }
                let to = &mut values[at..];
                if to.len() >= S::LANES { s.store(y, to) } else { s.store_part(y, to) }
            }
        }
    }
}
