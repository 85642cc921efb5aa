//! [`Driver`]: the runtime on a device at hand, by the CUDA driver, NVRTC and cuBLASLt.
//!
//! ```text
//!   Driver --- Context    the device's primary context, one stream, one pool of memory; failures, which last
//!          |-- Modules    kernels: compiled or read from disk at a family's first use, launched
//!          |-- Products   cuBLASLt: one algorithm for each shape of weights
//!          '-- Staging    pinned memory, through which lists are uploaded without waiting
//! ```
//!
//! Everything runs on the one stream, so the order of the calls is the order of the work, and memory that is freed is free
//! for what is asked for later. Any thread may call: each call makes the context that of its thread.

mod context;
mod memory;
mod modules;
mod products;
mod staging;

use crate::boards::{self, Board};
use crate::compile::{CompileError, Compiler};
use crate::machine::{self, Architecture, Missing, Version};
use crate::runtime::{Argument, Launch, Product, Runtime};
use context::Context;
use hopeval_device::{DeviceError, Energy};
pub use memory::Buffer;
use modules::Modules;
use products::Products;
use staging::Staging;
use std::path::Path;
use std::sync::Arc;

/// A CUDA device.
// Fields are dropped in this order: what the context holds goes before it.
#[derive(Debug)]
pub struct Driver {
    staging: Staging,
    products: Products,
    modules: Modules,
    context: Arc<Context>,
    identity: Identity,
    /// Where NVML knows it.
    board: Option<Arc<Board>>,
}

/// What the device and its libraries are.
#[derive(Clone, Debug)]
struct Identity {
    /// "NVIDIA H100 80GB HBM3".
    model: String,
    architecture: Architecture,
    multiprocessors: u32,
    uuid: String,
    nvrtc: Version,
    cublaslt: Version,
}

impl Driver {
    /// The device that the driver numbers `ordinal`. Machine code of kernels is kept in `cache`; without one, each process
    /// compiles for itself.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`], which says what is missing and what to do.
    pub fn open(ordinal: usize, cache: Option<&Path>) -> Result<Self, DeviceError> {
        let name = format!("cuda:{ordinal}");
        let unavailable = |reason: String| DeviceError::Unavailable { name: name.clone(), reason };
        let missing = |missing: Missing| unavailable(missing.to_string());

        let device = machine::describe(ordinal).map_err(missing)?;
        if let Some(unfit) = device.unfit {
            return Err(missing(unfit));
        }
        // Before anything is taken of the device.
        let cublaslt = machine::cublaslt_version().map_err(missing)?;
        let compiler = Compiler::find().map_err(|error: CompileError| unavailable(error.to_string()))?;
        let target = compiler.target(device.architecture).map_err(missing)?;
        let identity = Identity {
            model: device.name,
            architecture: device.architecture,
            multiprocessors: device.multiprocessors,
            uuid: device.uuid,
            nvrtc: compiler.version(),
            cublaslt,
        };

        let unusable = |error: DeviceError| match error {
            DeviceError::Unavailable { .. } => error,
            other => unavailable(other.to_string()),
        };
        let context = Context::new(ordinal, name.clone()).map_err(missing)?;
        let modules = Modules::new(Arc::clone(&context), compiler, target, cache);
        let products = Products::new(Arc::clone(&context), cublaslt).map_err(unusable)?;
        let staging = Staging::new(Arc::clone(&context)).map_err(unusable)?;
        let board = boards::of(&name, &identity.uuid);
        Ok(Self { staging, products, modules, context, identity, board })
    }

    /// As NVML knows the device: for [`Meter`](crate::energy::Meter).
    pub fn uuid(&self) -> &str {
        &self.identity.uuid
    }
}

impl Runtime for Driver {
    type Buffer = Buffer;

    fn name(&self) -> String {
        format!("{} ({})", self.identity.model, self.context.name())
    }

    /// Algorithms of products are chosen for an architecture and a number of multiprocessors, kernels are the compiler's.
    fn numerics(&self) -> String {
        let Identity { architecture: Architecture { major, minor }, multiprocessors, nvrtc, cublaslt, .. } =
            &self.identity;
        format!("sm{major}{minor}x{multiprocessors}-nvrtc{nvrtc}-cublaslt{cublaslt}")
    }

    fn energy(&self) -> Option<&Energy> {
        self.board.as_deref().map(Board::energy)
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        Buffer::new(&self.context, bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer, DeviceError> {
        let buffer = Buffer::new(&self.context, bytes.len())?;
        self.staging.upload(bytes, &buffer)?;
        Ok(buffer)
    }

    fn download(&self, from: &Buffer, into: &mut [u8]) -> Result<(), DeviceError> {
        from.read(into)
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.context.enter()?;
        self.context.synchronize()
    }

    fn launch(&self, launch: Launch, arguments: &[Argument<'_, Buffer>]) -> Result<(), DeviceError> {
        self.modules.launch(launch, arguments)
    }

    fn product(&self, product: &Product<'_, Buffer>) -> Result<(), DeviceError> {
        self.products.multiply(product)
    }
}
