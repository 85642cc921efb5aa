//! [`Driver`]: the runtime on a real device, through the CUDA driver, NVRTC and cuBLASLt.
//!
//! ```text
//!   Driver --- DeviceContext    the device's primary context, one stream, one pool of memory; permanent failures
//!          |-- CublasProducts   cuBLASLt: one algorithm for each shape of weights
//!          |-- StagingMemory    pinned memory, through which lists are uploaded without waiting
//!          '-- DownloadMemory   pinned memory, to which results come while the host does other things
//! ```
//!
//! Everything runs on the one stream. The order of the calls is therefore the order of the work, and freed memory is
//! available to later requests. Any thread may call: each call first makes the context current on its thread.

mod context;
mod downloads;
mod memory;
mod modules;
mod products;
mod staging;

use crate::boards::{self, Board};
use crate::compile::{self, CompileError, Compiler};
use crate::machine::{self, CUBLASLT_NAME, GpuArchitecture, LibraryVersion, MissingRequirement, NVRTC_NAME};
use crate::runtime::{KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use context::DeviceContext;
use downloads::DownloadMemory;
use hopeval_device::{DeviceEnergy, DeviceError, PendingRead};
pub use memory::DriverBuffer;
use modules::KernelModules;
use products::CublasProducts;
use staging::StagingMemory;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A CUDA device.
// Fields are dropped in this order: everything inside the context goes before it.
#[derive(Debug)]
pub struct Driver {
    staging: StagingMemory,
    downloads: Arc<DownloadMemory>,
    products: CublasProducts,
    modules: Arc<KernelModules>,
    context: Arc<DeviceContext>,
    identity: DriverIdentity,
    /// `None` if NVML does not know it.
    board: Option<Arc<Board>>,
}

/// The identity of the device and its libraries.
#[derive(Clone, Debug)]
struct DriverIdentity {
    /// "NVIDIA H100 80GB HBM3".
    model: String,
    architecture: GpuArchitecture,
    multiprocessors: u32,
    uuid: String,
    /// The digest of all kernels' machine code.
    kernels: String,
    cublaslt: LibraryVersion,
}

impl DriverIdentity {
    /// cuBLASLt chooses algorithms by architecture, number of multiprocessors, and perhaps model. For kernels only the
    /// machine code counts, whichever compiler made it.
    fn numerics(&self) -> String {
        let Self { model, architecture, multiprocessors, kernels, cublaslt, .. } = self;
        let GpuArchitecture { major, minor } = architecture;
        let rules = products::RULES;
        format!(
            "sm{major}{minor}x{multiprocessors}-{}-kernels{kernels}-cublaslt{cublaslt}-rules{rules}",
            compact_name(model)
        )
    }
}

impl Driver {
    /// Opens the device with the driver's number `ordinal` and loads all kernels, so a kernel that does not compile or
    /// load fails here, before there is work. Machine code and tuned choices of products are kept in `cache`; without a
    /// cache, kernels are compiled and products tuned each time a device is opened.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`], with the missing part and a remedy.
    pub fn open(ordinal: usize, cache: Option<&Path>) -> Result<Self, DeviceError> {
        let name = format!("cuda:{ordinal}");
        let unavailable = |reason: String| DeviceError::Unavailable { name: name.clone(), reason };
        let missing = |missing: MissingRequirement| unavailable(missing.to_string());

        let device = machine::describe_device(ordinal).map_err(missing)?;
        if let Some(unfit) = device.unfit {
            return Err(missing(unfit));
        }
        // Before anything is allocated on the device.
        let uncompiled = |error: CompileError| unavailable(error.to_string());
        let driver = machine::driver_version().map_err(missing)?;
        let served = |library, found| driver.check_served(library, found).map_err(missing);
        let cublaslt = served(CUBLASLT_NAME, machine::cublaslt_version().map_err(missing)?)?;
        let compiler = Compiler::find().map_err(uncompiled)?;
        served(NVRTC_NAME, compiler.version())?;
        let target = compiler.target_for(device.architecture).map_err(missing)?;
        let cubins = compile::load_families(&compiler, cache, target).map_err(uncompiled)?;
        let identity = DriverIdentity {
            model: device.name,
            architecture: device.architecture,
            multiprocessors: device.multiprocessors,
            uuid: device.uuid,
            kernels: code_digest(&cubins),
            cublaslt,
        };

        let unusable = |error: DeviceError| match error {
            DeviceError::Unavailable { .. } => error,
            DeviceError::Lost { reason, .. } | DeviceError::Unsupported { what: reason, .. } => {
                unavailable(format!("{reason}{HINT}"))
            }
            other => unavailable(format!("{other}{HINT}")),
        };
        let context = DeviceContext::new(ordinal, name.clone()).map_err(missing)?;
        let modules = Arc::new(KernelModules::new(Arc::clone(&context), &cubins).map_err(unusable)?);
        let kernels = Arc::clone(&modules);
        let products = CublasProducts::new(Arc::clone(&context), kernels, cublaslt, cache, &identity.numerics());
        let products = products.map_err(unusable)?;
        let staging = StagingMemory::new(Arc::clone(&context)).map_err(unusable)?;
        let downloads = DownloadMemory::new(Arc::clone(&context));
        let board = boards::board_of(&name, &identity.uuid);
        Ok(Self { staging, downloads, products, modules, context, identity, board })
    }

    /// The device's UUID in NVML's form, for [`EnergyMeter`](crate::energy::EnergyMeter).
    pub fn uuid(&self) -> &str {
        &self.identity.uuid
    }
}

/// The remedy for a device that exists but does not work.
const HINT: &str = "\nhint: see whether `nvidia-smi` lists the device, and which processes use it; \
                    the driver must be of release 550 or later";

/// A digest of all machine code, to distinguish builds.
fn code_digest(cubins: &[Vec<u8>]) -> String {
    let mut hasher = blake3::Hasher::new();
    for cubin in cubins {
        hasher.update(&(cubin.len() as u64).to_le_bytes()).update(cubin);
    }
    hasher.finalize().to_hex()[..12].to_owned()
}

/// A device's name without spaces and maker: "H100_80GB_HBM3".
fn compact_name(model: &str) -> String {
    model.split_whitespace().filter(|word| *word != "NVIDIA").collect::<Vec<_>>().join("_")
}

impl Runtime for Driver {
    type Buffer = DriverBuffer;

    fn name(&self) -> String {
        format!("{} ({})", self.identity.model, self.context.name())
    }

    fn numerics(&self) -> String {
        self.identity.numerics()
    }

    fn tune_products(&self, most_rows: usize) -> Result<(), DeviceError> {
        self.products.tune_products(most_rows)
    }

    fn free_memory(&self) -> Option<u64> {
        self.context.make_current().ok().and_then(|()| self.context.free_memory())
    }

    fn take_tuning(&self) -> Duration {
        self.products.take_tuning()
    }

    fn energy(&self) -> Option<&DeviceEnergy> {
        self.board.as_deref().map(Board::energy)
    }

    fn allocate(&self, bytes: usize) -> Result<DriverBuffer, DeviceError> {
        DriverBuffer::new(&self.context, bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<DriverBuffer, DeviceError> {
        let buffer = DriverBuffer::new(&self.context, bytes.len())?;
        self.staging.upload(bytes, &buffer)?;
        Ok(buffer)
    }

    fn download(&self, from: &DriverBuffer, into: &mut [u8]) -> Result<(), DeviceError> {
        from.read(into)
    }

    fn request_bytes(&self, from: &DriverBuffer, bytes: usize) -> Result<PendingRead<Vec<u8>>, DeviceError> {
        if bytes == 0 {
            return Ok(PendingRead::ready(Vec::new()));
        }
        let download = self.downloads.request_bytes(from, bytes)?;
        Ok(PendingRead::pending(move || download.read()))
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.context.make_current()?;
        self.context.synchronize()
    }

    fn launch(&self, launch: KernelLaunch, arguments: &[KernelArgument<'_, DriverBuffer>]) -> Result<(), DeviceError> {
        self.modules.launch(launch, arguments)
    }

    fn multiply_matrices(&self, product: &MatrixProduct<'_, DriverBuffer>) -> Result<(), DeviceError> {
        self.products.multiply_matrices(product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_compact_and_a_digest_is_of_each_code_apart() {
        assert_eq!(compact_name("NVIDIA H100 80GB HBM3"), "H100_80GB_HBM3");
        let digests =
            [&[vec![1, 2], vec![3]], &[vec![1], vec![2, 3]], &[vec![1, 2], vec![4]]].map(|all| code_digest(all));
        assert!(digests[0] != digests[1] && digests[0] != digests[2], "{digests:?}");
        assert!(digests.iter().all(|digest| digest.len() == 12), "{digests:?}");
    }
}
