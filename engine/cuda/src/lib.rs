//! The device seam on CUDA, through `cudarc`.
//!
//! ```text
//!   hopeval-device    Device: the operations of architectures
//!   ------------------------------------------------------------
//!   Cuda              operations as launches: shapes, lists, tiles; no call into CUDA
//!   kernels/*.cu      CUDA C++, compiled for the device at hand
//!   ------------------------------------------------------- Runtime
//!   Driver            the CUDA driver, NVRTC, cuBLASLt        (the emulator of the tests: the same kernels on the CPU)
//! ```
//!
//! Libraries are looked up at first use. The same binary is built without a toolkit and runs without a driver; there,
//! opening a [`Driver`] is an error that names the missing part.
//!
//! # Numerics
//! With [`Arithmetic::Bf16`] weights and activations are bf16 and sums `f32`; with [`Arithmetic::F32`] all is `f32`,
//! for checks. A row's result does not depend on the rows beside it: reductions have one order, fixed by the model's
//! shapes, and a product's algorithm is chosen for a shape of weights, never for a number of rows.
//!
//! Forbidden here: models, tokenizers, queues.

mod attention;
pub mod boards;
pub mod compile;
mod device;
pub mod driver;
pub mod energy;
pub mod kernels;
mod lists;
mod log_probs;
pub mod machine;
mod next_tokens;
mod product;
pub mod runtime;
mod tensor;

pub use driver::Driver;
use hopeval_device::conformance::Arithmetic;
use lists::ListCache;
use runtime::{ElementType, Runtime};
pub use tensor::{Tensor, WeightMatrix, WeightVector};

/// A CUDA device: operations as launches of kernels of a runtime.
#[derive(Debug)]
pub struct Cuda<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) element: ElementType,
    pub(crate) lists: ListCache<R::Buffer>,
    pub(crate) plans: attention::PlanCache<R::Buffer>,
}

impl<R: Runtime> Cuda<R> {
    /// A device that computes on `runtime`; [`Arithmetic::Tf32`] is computed as [`Arithmetic::F32`].
    pub fn new(runtime: R, arithmetic: Arithmetic) -> Self {
        let element = match arithmetic {
            Arithmetic::F32 | Arithmetic::Tf32 => ElementType::F32,
            Arithmetic::Bf16 => ElementType::Bf16,
        };
        Self { runtime, element, lists: ListCache::default(), plans: attention::PlanCache::default() }
    }

    /// The runtime below it.
    pub fn runtime(&self) -> &R {
        &self.runtime
    }
}
