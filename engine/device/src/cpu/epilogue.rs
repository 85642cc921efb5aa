//! What happens to a product's numbers before they leave the cache: `activation(scale * product + bias) + residual`.

use crate::cpu::simd::{Kernel, Simd};
use crate::cpu::{Cpu, Tensor, math};
use crate::{Activation, Epilogue};

/// An [`Epilogue`] whose parts are checked against the shape of the product.
#[derive(Clone, Copy)]
pub(super) struct Finish<'a> {
    scale: f32,
    bias: Option<&'a [f32]>,
    activation: Activation,
    /// `[rows, columns]`.
    residual: Option<&'a [f32]>,
    columns: usize,
}

impl<'a> Finish<'a> {
    pub(super) fn new(epilogue: Epilogue<'a, Cpu>, rows: usize, columns: usize) -> Self {
        let bias = epilogue.bias.map(|bias| &**bias);
        assert!(bias.is_none_or(|bias| bias.len() == columns), "a bias as long as a row; this is a bug");
        let fits = |r: &Tensor| (r.rows(), r.columns()) == (rows, columns);
        assert!(epilogue.residual.is_none_or(fits), "a residual of the product's shape; this is a bug");
        let residual = epilogue.residual.map(Tensor::values);
        Self { scale: epilogue.scale, bias, activation: epilogue.activation, residual, columns }
    }

    /// Finishes columns `column..column + values.len()` of row `row`.
    pub(super) fn row(&self, cpu: &Cpu, row: usize, column: usize, values: &mut [f32]) {
        let bias = self.bias.map(|bias| &bias[column..column + values.len()]);
        let residual = self.residual.map(|r| &r[row * self.columns + column..][..values.len()]);
        if self.scale != 1.0 || bias.is_some() || residual.is_some() || self.activation != Activation::Identity {
            cpu.run(Piece { scale: self.scale, bias, activation: self.activation, residual, values });
        }
    }
}

/// A piece of a row; all slices are as long as `values`.
struct Piece<'a> {
    scale: f32,
    bias: Option<&'a [f32]>,
    activation: Activation,
    residual: Option<&'a [f32]>,
    values: &'a mut [f32],
}

impl Kernel for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let scale = s.splat(self.scale);
        let part = |from: &[f32], at: usize| {
            let from = &from[at..];
            if from.len() >= S::LANES { s.load(from) } else { s.load_part(from) }
        };
        for at in (0..self.values.len()).step_by(S::LANES) {
            let mut y = s.mul(scale, part(self.values, at));
            if let Some(bias) = self.bias {
                y = s.add(y, part(bias, at));
            }
            y = math::activate(s, self.activation, y);
            if let Some(residual) = self.residual {
                y = s.add(y, part(residual, at));
            }
            let to = &mut self.values[at..];
            if to.len() >= S::LANES { s.store(y, to) } else { s.store_part(y, to) }
        }
    }
}
