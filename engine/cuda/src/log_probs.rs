//! Log-probabilities of targets: the product with the vocabulary tile by tile; only sums are kept.
//!
//! The library of products makes a tile's logits in `f32`. A kernel reads them once and leaves their maximum and, for
//! each temperature, a sum of exponentials. The tiles' parts are joined here, in their order, in `f64`. For each row
//! and vocabulary entry this takes 8 bytes of traffic beside the `2 * inner` operations of the product.

use crate::kernels::{Kernel, kernel_size};
use crate::product::multiply_matrices;
use crate::runtime::{ElementType, FusedFunction, KernelArgument, MatrixProduct, Runtime};
use crate::tensor::{from_bytes, to_bytes};
use crate::{Cuda, Tensor, WeightMatrix, WeightVector};
use KernelArgument::{Buffer, Null, U32};
use hopeval_device::{DeviceError, LogProbs, PendingRead};

/// Entries of a tile, all in the kernel's registers: 32 for each of its threads.
const TILE: usize = 8192;
pub(crate) const THREADS: u32 = 256;

/// Rows with logits in memory at once: 128 MiB of them. Results do not depend on it.
const ROWS: usize = 4096;

/// Logits of a tile in memory at once.
pub(crate) const MOST_LOGITS: usize = ROWS * TILE;

/// The conformance suite compares rows in one chunk with the same rows in two.
const _: () =
    assert!(ROWS < hopeval_device::conformance::MANY_ROWS && 2 * ROWS > hopeval_device::conformance::MANY_ROWS);

/// See [`hopeval_device::Device::request_log_probs`].
pub(crate) fn request_log_probs<R: Runtime>(
    cuda: &Cuda<R>,
    x: &Tensor<R::Buffer>,
    weight: &WeightMatrix<R::Buffer>,
    bias: Option<&WeightVector<R::Buffer>>,
    scale: f32,
    targets: &[u32],
    temperatures: &[f32],
) -> Result<PendingRead<LogProbs>, DeviceError> {
    let (rows, entries) = (x.rows, weight.rows);
    assert!(x.columns == weight.columns && x.columns > 0, "inner sizes of a product; this is a bug");
    assert!(bias.is_none_or(|bias| bias.len == entries), "a bias for each entry; this is a bug");
    assert!(targets.len() == rows && targets.iter().all(|id| (*id as usize) < entries), "targets; this is a bug");
    assert!(temperatures.iter().all(|t| *t > 0.0 && t.is_finite()), "temperatures above 0; this is a bug");
    if rows == 0 {
        return Ok(PendingRead::ready(LogProbs { target_logits: Vec::new(), log_sum_exps: Vec::new() }));
    }
    let converted = cuda.convert_tensor(x)?;
    let x = converted.as_ref().unwrap_or(x);
    let inverses = temperatures.iter().map(|t| 1.0 / t).collect::<Vec<_>>();
    let tiles = tile_count(entries);
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
    let chunks = (0..rows).step_by(ROWS);
    let chunks = chunks.map(|first| head.request_parts(first, &targets[first..(first + ROWS).min(rows)]));
    let chunks = PendingRead::all(chunks.collect::<Result<Vec<_>, _>>()?);
    let temperatures = temperatures.to_vec();
    Ok(chunks.map(move |chunks| {
        let mut found = LogProbs { target_logits: Vec::new(), log_sum_exps: Vec::new() };
        for (parts, target_logits) in chunks {
            found.target_logits.extend(target_logits);
            let rows = parts.chunks_exact(tiles * each);
            found.log_sum_exps.extend(rows.flat_map(|parts| join_tiles(parts, &temperatures)));
        }
        found
    }))
}

/// The parts of some rows' tiles, and their targets' logits.
type RowParts = (Vec<f32>, Vec<f32>);

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
    fn request_parts(&self, first: usize, targets: &[u32]) -> Result<PendingRead<RowParts>, DeviceError> {
        let (cuda, runtime, rows) = (self.cuda, &self.cuda.runtime, targets.len());
        let each = 1 + self.temperatures;
        let some = (self.x.rows != rows)
            .then(|| {
                let list = (first as u32..(first + rows) as u32).collect::<Vec<_>>();
                hopeval_device::Device::gather(cuda, self.x, &list)
            })
            .transpose()?;
        let x = some.as_ref().unwrap_or(self.x);
        let parts = runtime.allocate(rows * self.tiles * each * ElementType::F32.size())?;
        let target_logits = runtime.allocate(rows * ElementType::F32.size())?;
        let targets = cuda.lists.get(runtime, targets)?;
        for_each_tile(cuda, x, self.weight, self.scale, |tile| {
            let arguments = [
                Buffer(&parts),
                Buffer(&target_logits),
                Buffer(tile.logits),
                self.bias,
                Buffer(&*targets),
                Buffer(&self.inverses),
                U32(kernel_size(tile.stride)),
                U32(kernel_size(tile.first)),
                U32(kernel_size(tile.count)),
                U32(kernel_size(self.temperatures)),
                U32(kernel_size(tile.nth * each)),
                U32(kernel_size(self.tiles * each)),
            ];
            cuda.launch_blocks(Kernel::named("log_probs", "log_probs_tile"), rows, THREADS, &arguments)
        })?;
        let parts = request_numbers(runtime, &parts, rows * self.tiles * each)?;
        Ok(parts.zip(request_numbers(runtime, &target_logits, rows)?))
    }
}

/// Logits of some entries of the vocabulary: `[rows, stride]`, of which `count` are entries from `first` on.
pub(crate) struct LogitTile<'a, B> {
    pub(crate) nth: usize,
    pub(crate) logits: &'a B,
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) stride: usize,
}

/// Tiles of a vocabulary.
pub(crate) fn tile_count(entries: usize) -> usize {
    entries.div_ceil(TILE)
}

/// Multiplies rows with a vocabulary, tile by tile in the same memory, and lets `reduce` launch what reads each tile.
pub(crate) fn for_each_tile<R: Runtime>(
    cuda: &Cuda<R>,
    x: &Tensor<R::Buffer>,
    weight: &WeightMatrix<R::Buffer>,
    scale: f32,
    mut reduce: impl FnMut(LogitTile<'_, R::Buffer>) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let (rows, padded) = (x.rows, weight.padded_rows());
    let logits = cuda.runtime.allocate(rows * TILE.min(padded) * ElementType::F32.size())?;
    for nth in 0..tile_count(weight.rows) {
        let first = nth * TILE;
        let stride = TILE.min(padded - first);
        let product = MatrixProduct {
            rows,
            inner: x.columns,
            out: stride,
            element: cuda.element,
            x: &x.buffer,
            weight: &weight.buffer,
            first,
            scale,
            bias: None,
            fused: FusedFunction::Nothing,
            residual: None,
            output_element: ElementType::F32,
            output: &logits,
        };
        multiply_matrices(cuda, &product)?;
        let count = TILE.min(weight.rows - first);
        reduce(LogitTile { nth, logits: &logits, first, count, stride })?;
    }
    Ok(())
}

/// Requests numbers of a buffer as they are after all earlier work.
pub(crate) fn request_numbers<R: Runtime>(
    runtime: &R,
    buffer: &R::Buffer,
    count: usize,
) -> Result<PendingRead<Vec<f32>>, DeviceError> {
    let bytes = runtime.request_bytes(buffer, count * ElementType::F32.size())?;
    Ok(bytes.map(|bytes| from_bytes(&bytes, ElementType::F32)))
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
