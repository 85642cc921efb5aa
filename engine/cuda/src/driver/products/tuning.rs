//! The fastest algorithm of a product for a range of rows, among those whose results have the same bits.
//!
//! cuBLASLt estimates which algorithm is fast, and offers others for other numbers of rows: on an H200 its first one
//! for 4,096 rows took up to 1.5 times as long as the best at 16,384 rows, and up to 1.6 times at 2,415. All but a few
//! of them sum in the same order. So for each [`RANGES`] of rows its offers multiply random numbers; those with the
//! bits of the plan's own algorithm, the leader, are timed, and the fastest serves the range. Results therefore do not
//! depend on the choice, and a choice is kept in a file ([`TuningFile`](super::tuning_file::TuningFile)), so that only
//! the first run on a device pays for it.

use super::{
    AlgorithmChoice, AlgorithmDescription, CublasProducts, DriverBuffer, ProductPlan, Shape, attempt_call, writes_apart,
};
use crate::kernels::{Kernel, kernel_size};
use crate::log_probs::MOST_LOGITS;
use crate::runtime::{ElementType, KernelArgument, KernelLaunch, MatrixProduct};
use half::bf16;
use hopeval_device::DeviceError;
use std::time::{Duration, Instant};

/// The most rows of each range. Beyond the last one the leader multiplies: nothing was compared there.
pub(super) const RANGES: [usize; 8] = [64, 256, 512, 1024, 2560, 4096, 8192, 16384];

/// Operations below which a product takes so little time that no algorithm is better.
const LEAST_OPERATIONS: usize = 50_000_000;

/// Timed products of an algorithm.
const ROUNDS: u32 = 4;

/// Bytes of memory beside the operands for a tuned algorithm: those of an H200 that need any need 4. Parts of sums
/// would need more, and how they are added could depend on the number of rows.
const MOST_WORKSPACE: usize = 4096;

/// A part of the leader's time that another algorithm must save: less is noise.
const LEAST_GAIN: f64 = 0.02;

/// Bytes that a thread compares at once, the threads of a block, and the most blocks.
const VECTOR: usize = 16;
const COMPARING: usize = 256;
const MOST_BLOCKS: usize = 1024;

/// Bytes of random numbers, which are repeated in larger operands.
const TILE: usize = 1 << 20;

/// The range of a number of rows.
pub(super) fn range_of(rows: usize) -> Option<usize> {
    RANGES.iter().position(|&most| rows <= most)
}

/// True if algorithms of a shape are compared for a range. Products in `f32` are for checks alone.
pub(super) fn is_tuned(shape: &Shape, range: usize) -> bool {
    shape.element == ElementType::Bf16 && 2 * RANGES[range] * shape.inner * shape.out >= LEAST_OPERATIONS
}

/// The ranges that products of a shape fall into if no batch has more rows. Results in `f32` are logits, of which a
/// vocabulary's come in pieces.
pub(super) fn ranges_in_use(shape: &Shape, most_rows: usize) -> impl Iterator<Item = usize> + use<> {
    let Shape { out, output_element, .. } = *shape;
    let is_whole = move |range: &usize| output_element == ElementType::Bf16 || RANGES[*range] * out <= MOST_LOGITS;
    (0..RANGES.len()).take_while(move |range| least_rows(*range) <= most_rows).filter(is_whole)
}

impl CublasProducts {
    /// The choice for a range of rows: the leader's, if no other with the same bits is faster.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the trial needs more memory than there is; [`DeviceError::Lost`].
    pub(super) fn tune(&self, plan: &ProductPlan, range: usize) -> Result<AlgorithmChoice, DeviceError> {
        let begun = Instant::now();
        let operands = TrialOperands::new(self, plan.shape, range)?;
        let mut candidates = self.candidates_of_range(plan, range)?;
        let others = candidates.len();
        for rows in compared_rows(range) {
            operands.keep_results(self, plan, rows)?;
            let mut equal = Vec::with_capacity(candidates.len());
            for candidate in candidates {
                match operands.has_kept_results(self, plan, &candidate, rows) {
                    // An algorithm that refuses this trial is none to use.
                    Err(DeviceError::Unsupported { .. }) => {}
                    is_equal => equal.extend(is_equal?.then_some(candidate)),
                }
            }
            candidates = equal;
        }
        let least = operands.time_of(self, plan, &plan.choice)?;
        let mut best = (plan.choice, least.mul_f64(1.0 - LEAST_GAIN));
        for candidate in &candidates {
            let taken = operands.time_of(self, plan, candidate)?;
            if taken < best.1 {
                best = (*candidate, taken);
            }
        }
        tracing::debug!(
            "{:?} of {} rows: {} in {:.1?}, the leader {} in {least:.1?}; {others} others, {} with its bits; {:.0?}",
            plan.shape,
            RANGES[range],
            AlgorithmDescription(&best.0.algorithm),
            best.1,
            AlgorithmDescription(&plan.choice.algorithm),
            candidates.len(),
            begun.elapsed()
        );
        Ok(best.0)
    }

    /// cuBLASLt's offers for the most rows of a range that serve all of it, but for the leader.
    fn candidates_of_range(&self, plan: &ProductPlan, range: usize) -> Result<Vec<AlgorithmChoice>, DeviceError> {
        let most = RANGES[range];
        let mut found = Vec::<AlgorithmChoice>::new();
        for workspace in [0, MOST_WORKSPACE] {
            let call = format_args!("cublasLtMatmulAlgoGetHeuristic of {:?}, {most} rows", plan.shape);
            let offered = attempt_call(&self.context, call, || self.find_candidates(plan, workspace, most as u64))?;
            for algorithm in offered {
                let mut known = std::iter::once(&plan.choice).chain(&found);
                let is_known = known.any(|at| at.algorithm.data == algorithm.data);
                let rows = [least_rows(range) as u64, most as u64];
                if !is_known && self.refusal_reason(plan, &algorithm, workspace, &rows).is_none() {
                    let is_apart = !plan.shape.residual || writes_apart(&algorithm);
                    found.push(AlgorithmChoice { algorithm, workspace, is_apart });
                }
            }
        }
        Ok(found)
    }
}

/// The fewest rows of a range.
fn least_rows(range: usize) -> usize {
    range.checked_sub(1).map_or(1, |before| RANGES[before] + 1)
}

/// The numbers of rows whose results are compared: the ends of a range, and one between with tiles that are partly
/// full.
fn compared_rows(range: usize) -> [usize; 3] {
    let (least, most) = (least_rows(range), RANGES[range]);
    [most, least, ((least + most) / 2) | 1]
}

/// Random operands of a product, and room for two results.
struct TrialOperands {
    range: usize,
    x: DriverBuffer,
    weight: DriverBuffer,
    bias: Option<DriverBuffer>,
    residual: Option<DriverBuffer>,
    output: DriverBuffer,
    /// The leader's result.
    kept: DriverBuffer,
    /// A number for each block that compares.
    differences: DriverBuffer,
}

impl TrialOperands {
    fn new(products: &CublasProducts, shape: Shape, range: usize) -> Result<Self, DeviceError> {
        let Shape { inner, out, element, output_element, .. } = shape;
        let rows = RANGES[range];
        let random = |seed, numbers, element| random_buffer(products, seed, numbers, element);
        let empty = |bytes| DriverBuffer::new(&products.context, bytes);
        let results = rows * out * output_element.size();
        Ok(Self {
            range,
            x: random(1, rows * inner, element)?,
            weight: random(2, inner * out, element)?,
            bias: shape.bias.then(|| random(3, out, output_element)).transpose()?,
            residual: shape.residual.then(|| random(4, rows * out, output_element)).transpose()?,
            output: empty(results)?,
            kept: empty(results)?,
            differences: empty(MOST_BLOCKS * size_of::<u32>())?,
        })
    }

    fn multiply(
        &self,
        products: &CublasProducts,
        plan: &ProductPlan,
        choice: &AlgorithmChoice,
        rows: usize,
        output: &DriverBuffer,
    ) -> Result<(), DeviceError> {
        let Shape { inner, out, element, output_element, fused, .. } = plan.shape;
        let product = MatrixProduct {
            rows,
            inner,
            out,
            element,
            x: &self.x,
            weight: &self.weight,
            first: 0,
            scale: 1.0,
            bias: self.bias.as_ref(),
            fused,
            residual: self.residual.as_ref(),
            output_element,
            output,
        };
        products.run_plan(plan, choice, &product)
    }

    /// Keeps the leader's results of so many rows.
    fn keep_results(&self, products: &CublasProducts, plan: &ProductPlan, rows: usize) -> Result<(), DeviceError> {
        self.multiply(products, plan, &plan.choice, rows, &self.kept)
    }

    /// True if an algorithm leaves the bits that were kept, where something else was before.
    fn has_kept_results(
        &self,
        products: &CublasProducts,
        plan: &ProductPlan,
        choice: &AlgorithmChoice,
        rows: usize,
    ) -> Result<bool, DeviceError> {
        self.output.set_bytes(0xff)?;
        self.multiply(products, plan, choice, rows, &self.output)?;
        // Whole vectors: a row has a multiple of 8 numbers.
        let vectors = rows * plan.shape.out * plan.shape.output_element.size() / VECTOR;
        assert!(vectors < 1 << 31, "{vectors} vectors; this is a bug");
        let blocks = vectors.div_ceil(COMPARING).min(MOST_BLOCKS);
        let launch = KernelLaunch {
            kernel: Kernel::named("rows", "find_differences"),
            grid: (kernel_size(blocks), 1),
            threads: COMPARING as u32,
            shared: 0,
        };
        let arguments = [
            KernelArgument::Buffer(&self.differences),
            KernelArgument::Buffer(&self.output),
            KernelArgument::Buffer(&self.kept),
            KernelArgument::U32(kernel_size(vectors)),
        ];
        products.kernels.launch(launch, &arguments)?;
        let mut found = vec![0; blocks * size_of::<u32>()];
        self.differences.read(&mut found)?;
        Ok(found.iter().all(|&byte| byte == 0))
    }

    /// The least time of a few products of the most rows: other engines may use the device meanwhile.
    fn time_of(
        &self,
        products: &CublasProducts,
        plan: &ProductPlan,
        choice: &AlgorithmChoice,
    ) -> Result<Duration, DeviceError> {
        let mut least = Duration::MAX;
        products.context.synchronize()?;
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            self.multiply(products, plan, choice, RANGES[self.range], &self.output)?;
            products.context.synchronize()?;
            least = least.min(begun.elapsed());
        }
        Ok(least)
    }
}

/// Random numbers on the device: a tile of them, again and again.
fn random_buffer(
    products: &CublasProducts,
    seed: u64,
    numbers: usize,
    element: ElementType,
) -> Result<DriverBuffer, DeviceError> {
    let bytes = numbers * element.size();
    let buffer = DriverBuffer::new(&products.context, bytes)?;
    buffer.fill_repeatedly(&random_tile(seed, element, bytes.min(TILE)))?;
    Ok(buffer)
}

/// Numbers from -2 to 2 of such different sizes that sums of their products are rounded in almost every step.
fn random_tile(seed: u64, element: ElementType, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mantissa = 1.0 + ((state >> 20) % 128) as f32 / 128.0;
        let size = mantissa / f32::from(1_u16 << ((state >> 40) % 6));
        if state >> 63 == 0 { size } else { -size }
    };
    match element {
        ElementType::F32 => (0..bytes / 4).flat_map(|_| next().to_le_bytes()).collect(),
        ElementType::Bf16 => (0..bytes / 2).flat_map(|_| bf16::from_f32(next()).to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::FusedFunction;

    #[test]
    fn a_range_ends_with_its_most_rows() {
        let of = [1, 64, 65, 2415, 2560, 2561, 16384].map(range_of);
        assert_eq!(of, [0, 0, 1, 4, 4, 5, 7].map(Some));
        assert_eq!(range_of(16385), None);
        assert_eq!(compared_rows(0), [64, 1, 33]);
        assert_eq!(compared_rows(7), [16384, 8193, 12289]);
    }

    #[test]
    fn the_ranges_of_a_shape_end_with_its_batches_and_with_pieces_of_logits() {
        let shape = |out, output_element| Shape {
            inner: 2048,
            out,
            element: ElementType::Bf16,
            output_element,
            fused: FusedFunction::Nothing,
            bias: false,
            residual: false,
        };
        let of = |shape, most_rows| ranges_in_use(&shape, most_rows).collect::<Vec<_>>();
        assert_eq!(of(shape(10240, ElementType::Bf16), 16384), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(shape(10240, ElementType::Bf16), 2560), [0, 1, 2, 3, 4]);
        assert_eq!(of(shape(10240, ElementType::Bf16), 2561), [0, 1, 2, 3, 4, 5]);
        assert_eq!(of(shape(8192, ElementType::F32), 16384), [0, 1, 2, 3, 4, 5], "pieces of 4,096 rows");
        assert_eq!(of(shape(8, ElementType::F32), 16384), [0, 1, 2, 3, 4, 5, 6, 7], "labels");
    }

    #[test]
    fn random_numbers_are_exact_in_bf16_and_of_both_signs() {
        let exact = random_tile(1, ElementType::F32, 4096);
        let numbers: Vec<f32> = exact.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        assert!(numbers.iter().all(|&x| x.abs() < 2.0 && bf16::from_f32(x).to_f32() == x));
        assert!(numbers.iter().any(|&x| x > 0.0) && numbers.iter().any(|&x| x < 0.0));
        let rounded = random_tile(1, ElementType::Bf16, 2048);
        let same = rounded.as_chunks().0.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32());
        assert!(same.eq(numbers));
    }
}
