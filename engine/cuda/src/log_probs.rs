//! Log-probabilities of targets: the product with the vocabulary tile by tile; only sums are kept.
//!
//! The library of products makes a tile's logits in `f32`. A kernel reads them once and leaves their maximum and, for
//! each temperature, a sum of exponentials. The tiles' parts are joined here, in their order, in `f64`. For each row
//! and vocabulary entry this takes 8 bytes of traffic beside the `2 * inner` operations of the product.

use crate::device::kernel_size;
use crate::kernels::Kernel;
use crate::product::multiply_matrices;
use crate::runtime::{ElementType, FusedFunction, KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use crate::tensor::{from_bytes, to_bytes};
use crate::{Cuda, Tensor, WeightMatrix, WeightVector};
use KernelArgument::{Buffer, Null, U32};
use hopeval_device::{DeviceError, LogProbs};

/// Entries of a tile, all in the kernel's registers: 32 for each of its threads.
const TILE: usize = 8192;
const THREADS: u32 = 256;

/// Rows with logits in memory at once: 128 MiB of them. Results do not depend on it.
const ROWS: usize = 4096;

/// The conformance suite compares rows in one chunk with the same rows in two.
const _: () =
    assert!(ROWS < hopeval_device::conformance::MANY_ROWS && 2 * ROWS > hopeval_device::conformance::MANY_ROWS);

/// See [`hopeval_device::Device::log_probs`].
pub(crate) fn log_probs<R: Runtime>(
    cuda: &Cuda<R>,
    x: &Tensor<R::Buffer>,
    weight: &WeightMatrix<R::Buffer>,
    bias: Option<&WeightVector<R::Buffer>>,
    scale: f32,
    targets: &[u32],
    temperatures: &[f32],
) -> Result<LogProbs, DeviceError> {
    let (rows, entries) = (x.rows, weight.rows);
    assert!(x.columns == weight.columns && x.columns > 0, "inner sizes of a product; this is a bug");
    assert!(bias.is_none_or(|bias| bias.len == entries), "a bias for each entry; this is a bug");
    assert!(targets.len() == rows && targets.iter().all(|id| (*id as usize) < entries), "targets; this is a bug");
    assert!(temperatures.iter().all(|t| *t > 0.0 && t.is_finite()), "temperatures above 0; this is a bug");
    if rows == 0 {
        return Ok(LogProbs { target_logits: Vec::new(), log_sum_exps: Vec::new() });
    }
    let converted = cuda.convert_tensor(x)?;
    let x = converted.as_ref().unwrap_or(x);
    let inverses = temperatures.iter().map(|t| 1.0 / t).collect::<Vec<_>>();
    let tiles = entries.div_ceil(TILE);
    let each = 1 + temperatures.len();
    let head = VocabularyHead {
        cuda,
        x,
        weight,
        bias: bias.map_or(Null, |bias| Buffer(&bias.exact)),
        scale,
        inverses: cuda.runtime.upload(&to_bytes(&inverses, ElementType::F32))?,
        temperatures: temperatures.len(),
        tiles,
    };
    let mut found = LogProbs { target_logits: Vec::new(), log_sum_exps: Vec::new() };
    for first in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - first);
        let (parts, target_logits) = head.row_parts(first, &targets[first..first + count])?;
        found.target_logits.extend(target_logits);
        found.log_sum_exps.extend(parts.chunks_exact(tiles * each).flat_map(|parts| join_tiles(parts, temperatures)));
    }
    Ok(found)
}

/// The operands of all tiles.
struct VocabularyHead<'a, R: Runtime> {
    cuda: &'a Cuda<R>,
    x: &'a Tensor<R::Buffer>,
    weight: &'a WeightMatrix<R::Buffer>,
    bias: KernelArgument<'a, R::Buffer>,
    scale: f32,
    inverses: R::Buffer,
    temperatures: usize,
    tiles: usize,
}

impl<R: Runtime> VocabularyHead<'_, R> {
    /// The parts `[rows, tiles, 1 + temperatures]` and the targets' logits of the rows from `first` on.
    fn row_parts(&self, first: usize, targets: &[u32]) -> Result<(Vec<f32>, Vec<f32>), DeviceError> {
        let (cuda, runtime, rows) = (self.cuda, &self.cuda.runtime, targets.len());
        let each = 1 + self.temperatures;
        let some = (self.x.rows != rows)
            .then(|| {
                let list = (first as u32..(first + rows) as u32).collect::<Vec<_>>();
                hopeval_device::Device::gather(cuda, self.x, &list)
            })
            .transpose()?;
        let x = some.as_ref().unwrap_or(self.x);
        let width = TILE.min(self.weight.padded_rows());
        let logits = runtime.allocate(rows * width * ElementType::F32.size())?;
        let parts = runtime.allocate(rows * self.tiles * each * ElementType::F32.size())?;
        let target_logits = runtime.allocate(rows * ElementType::F32.size())?;
        let targets = cuda.lists.get(runtime, targets)?;
        for tile in 0..self.tiles {
            let start = tile * TILE;
            let stride = TILE.min(self.weight.padded_rows() - start);
            let count = TILE.min(self.weight.rows - start);
            multiply_matrices(
                cuda,
                &MatrixProduct {
                    rows,
                    inner: x.columns,
                    out: stride,
                    element: cuda.element,
                    x: &x.buffer,
                    weight: &self.weight.buffer,
                    first: start,
                    scale: self.scale,
                    bias: None,
                    fused: FusedFunction::Nothing,
                    residual: None,
                    output_element: ElementType::F32,
                    output: &logits,
                },
            )?;
            let arguments = [
                Buffer(&parts),
                Buffer(&target_logits),
                Buffer(&logits),
                self.bias,
                Buffer(&*targets),
                Buffer(&self.inverses),
                U32(kernel_size(stride)),
                U32(kernel_size(start)),
                U32(kernel_size(count)),
                U32(kernel_size(self.temperatures)),
                U32(kernel_size(tile * each)),
                U32(kernel_size(self.tiles * each)),
            ];
            let kernel = Kernel::named("log_probs", "log_probs_tile");
            runtime.launch(
                KernelLaunch { kernel, grid: (kernel_size(rows), 1), threads: THREADS, shared: 0 },
                &arguments,
            )?;
        }
        let read = |buffer: &R::Buffer, numbers: usize| {
            let mut bytes = vec![0; numbers * ElementType::F32.size()];
            runtime.download(buffer, &mut bytes)?;
            Ok::<_, DeviceError>(from_bytes(&bytes, ElementType::F32))
        };
        Ok((read(&parts, rows * self.tiles * each)?, read(&target_logits, rows)?))
    }
}

/// `log Σ exp(logit / T)` for each temperature, from one row's parts `[tiles, 1 + temperatures]`. A tile's maximum
/// ignores NaN; its sums are NaN if any logit is NaN, and 0 if all are minus infinity.
fn join_tiles<'a>(parts: &'a [f32], temperatures: &'a [f32]) -> impl Iterator<Item = f32> + use<'a> {
    let each = 1 + temperatures.len();
    let highest = parts.chunks_exact(each).map(|tile| tile[0]).fold(f32::NEG_INFINITY, f32::max);
    temperatures.iter().enumerate().map(move |(index, temperature)| {
        if highest == f32::NEG_INFINITY && parts.chunks_exact(each).all(|tile| tile[1 + index] == 0.0) {
            return highest;
        }
        let temperature = f64::from(*temperature);
        let part =
            |tile: &[f32]| f64::from(tile[1 + index]) * ((f64::from(tile[0]) - f64::from(highest)) / temperature).exp();
        (f64::from(highest) / temperature + parts.chunks_exact(each).map(part).sum::<f64>().ln()) as f32
    })
}
