//! Runs the CUDA kernels on the CPU: a [`Runtime`] for tests, never for results.
//!
//! ```text
//!   kernels/*.cu     the files that a GPU runs, unchanged
//!   cpp/emulator.h   a GPU in C++: threads are fibres, shared memory is heap memory of its exact size
//!   ------------------------------------------------------------------------ the machine's C++ compiler, at first use
//!   library          one shared library, kept in a folder under a hash of its sources
//!   Emulator         buffers, launches; products in plain loops, where a GPU has its library
//! ```
//!
//! The same launch in another [`ThreadOrder`] of threads gives the same bits, unless a barrier is missing. With
//! [`Sanitizer::Address`], an index outside a buffer or a shared array ends the process and names its line; with
//! [`Sanitizer::Thread`], two accesses that no barrier orders, in whatever order they happened.
//!
//! [`libraries`] builds stand-ins for CUDA's own libraries. They run the same kernels, for tests of the driver and of
//! the whole program.
//!
//! [`ptx`] executes NVRTC's code for the same kernels, with its inline assembly, and compares it launch by launch.
//!
//! It does not show speed or the rounding of a GPU's functions.

#[cfg(target_os = "linux")]
pub mod libraries;
mod library;
mod memory;
mod product;
pub mod ptx;
mod sanitizer;
mod sources;

pub use library::BuildError;
pub use memory::EmulatorBuffer;
pub use sanitizer::Sanitizer;
pub use sources::{KernelSource, KernelSources};

use hopeval_cuda::runtime::{KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use hopeval_device::{DeviceEnergy, DeviceError};
use library::{ArgumentValue, KernelLibrary, LaunchParameters};
use memory::MemoryBudget;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The order of blocks, of warps within a block, and of lanes within a warp, from one barrier to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadOrder {
    /// By index.
    Ascending,
    /// The last one first.
    Descending,
    /// A random order from this seed.
    Shuffled(u64),
}

/// The settings of an emulator.
#[derive(Clone, Debug)]
pub struct EmulatorOptions {
    /// The folder of built libraries; processes may share it.
    pub folder: PathBuf,
    /// The kernels to build: [`KernelSources::device_kernels`], or a copy with a planted fault.
    pub sources: KernelSources,
    /// The order of threads.
    pub order: ThreadOrder,
    /// Bytes that buffers may take together.
    pub memory: Option<u64>,
    /// The device is lost at the launch after this number of launches.
    pub launches: Option<u64>,
    /// A counter of simulated energy: a millijoule for each launch, nothing for a copy. It counts a launch when someone
    /// waits for it, as if nothing were done before.
    pub energy: Option<Arc<AtomicU64>>,
    /// Builds with a sanitizer. It must be loaded before the process begins; see [`Sanitizer::run_again`].
    pub sanitizer: Option<Sanitizer>,
}

impl EmulatorOptions {
    /// The kernels as they are, in ascending order, without limits. Where `EMULATED_KERNELS` names a folder of changed
    /// kernels, they are built into its subfolder `built`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let sources = KernelSources::device_kernels();
        let folder = sources::changed_folder().map_or_else(|| folder.into(), |changed| changed.join("built"));
        let order = ThreadOrder::Ascending;
        Self { folder, sources, order, memory: None, launches: None, energy: None, sanitizer: None }
    }

    /// Sets the order of threads.
    #[must_use]
    pub fn order(self, order: ThreadOrder) -> Self {
        Self { order, ..self }
    }
}

/// A CUDA device without a GPU.
#[derive(Debug)]
pub struct Emulator {
    library: Arc<KernelLibrary>,
    memory: Arc<MemoryBudget>,
    order: ThreadOrder,
    launches: AtomicU64,
    most_launches: u64,
    simulated: Option<(Arc<AtomicU64>, DeviceEnergy)>,
    /// Launches that have not been waited for.
    under_way: AtomicU64,
    lost: OnceLock<String>,
    read: Mutex<blake3::Hasher>,
}

const NAME: &str = "emulator";

impl Emulator {
    /// Builds the kernels unless they are built already.
    ///
    /// # Errors
    /// [`BuildError`]: there is no compiler, or it rejects a source.
    pub fn new(options: EmulatorOptions) -> Result<Self, BuildError> {
        let library = KernelLibrary::build(&options.folder, &options.sources, options.sanitizer)?;
        let simulated = options.energy.map(|counter| {
            let read = Arc::clone(&counter);
            (counter, DeviceEnergy::new(move || Some(read.load(Ordering::Relaxed))))
        });
        Ok(Self {
            library,
            memory: MemoryBudget::with_limit(options.memory.unwrap_or(u64::MAX)),
            order: options.order,
            launches: AtomicU64::new(0),
            most_launches: options.launches.unwrap_or(u64::MAX),
            simulated,
            under_way: AtomicU64::new(0),
            lost: OnceLock::new(),
            read: Mutex::default(),
        })
    }

    /// A hash of everything downloaded so far. For the same work, the hashes of two emulators differ if a single number
    /// differs.
    pub fn digest(&self) -> String {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).finalize().to_hex().to_string()
    }

    /// Kernels and products launched so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    fn lost_error(&self, reason: &str) -> DeviceError {
        DeviceError::Lost { device: NAME.into(), reason: self.lost.get_or_init(|| reason.into()).clone() }
    }

    /// A lost device stays lost.
    fn ensure_alive(&self) -> Result<(), DeviceError> {
        self.lost.get().map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    fn count_launch(&self) -> Result<(), DeviceError> {
        self.ensure_alive()?;
        if self.launches.fetch_add(1, Ordering::Relaxed) < self.most_launches {
            self.under_way.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        Err(self.lost_error(&format!("it was to fail after {} launches", self.most_launches)))
    }

    /// Memory of zeros that takes room only where it is touched, by pages: for tensors larger than this machine's
    /// memory.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]: the system refuses the addresses, too, or the emulator's limit is reached.
    pub fn allocate_sparse(&self, bytes: usize) -> Result<EmulatorBuffer, DeviceError> {
        self.ensure_alive()?;
        self.memory.allocate_sparse(bytes).map_err(|available| out_of_memory(bytes, available))
    }

    /// Runs the blocks of a launch from `first` on, in x and in y: the last rows of a tensor of
    /// [`Emulator::allocate_sparse`], whose other rows are left alone.
    ///
    /// # Errors
    /// As [`Runtime::launch`].
    pub fn launch_blocks_from(
        &self,
        launch: KernelLaunch,
        first: (u32, u32),
        arguments: &[KernelArgument<'_, EmulatorBuffer>],
    ) -> Result<(), DeviceError> {
        self.count_launch()?;
        let (kinds, mut values): (Vec<u8>, Vec<ArgumentValue>) = arguments
            .iter()
            .map(|argument| match argument {
                KernelArgument::Buffer(buffer) => (b'p', ArgumentValue { address: buffer.address() }),
                KernelArgument::Null => (b'p', ArgumentValue { address: std::ptr::null_mut() }),
                KernelArgument::U32(word) => (b'u', ArgumentValue { word: *word }),
                KernelArgument::F32(number) => (b'f', ArgumentValue { number: *number }),
            })
            .unzip();
        let (order, seed) = match self.order {
            ThreadOrder::Ascending => (0, 0),
            ThreadOrder::Descending => (1, 0),
            ThreadOrder::Shuffled(seed) => (2, seed),
        };
        let parameters = LaunchParameters {
            grid: [launch.grid.0, launch.grid.1],
            threads: launch.threads,
            shared: launch.shared,
            order,
            arguments: kinds.len() as u32,
            kinds: kinds.as_ptr(),
            seed,
            first: [first.0, first.1],
        };
        self.library.launch(launch.kernel.name, &parameters, &mut values).map_err(|reason| self.lost_error(&reason))
    }
}

fn out_of_memory(wanted: usize, available: u64) -> DeviceError {
    DeviceError::OutOfMemory { device: NAME.into(), wanted: wanted as u64, available }
}

impl Runtime for Emulator {
    type Buffer = EmulatorBuffer;

    fn name(&self) -> String {
        "CUDA kernels on the CPU".into()
    }

    fn numerics(&self) -> String {
        NAME.into()
    }

    fn energy(&self) -> Option<&DeviceEnergy> {
        self.simulated.as_ref().map(|(_, energy)| energy)
    }

    fn allocate(&self, bytes: usize) -> Result<EmulatorBuffer, DeviceError> {
        self.ensure_alive()?;
        self.memory.allocate(bytes).map_err(|available| out_of_memory(bytes, available))
    }

    fn upload(&self, bytes: &[u8]) -> Result<EmulatorBuffer, DeviceError> {
        let buffer = self.allocate(bytes.len())?;
        buffer.write(bytes);
        Ok(buffer)
    }

    fn download(&self, from: &EmulatorBuffer, into: &mut [u8]) -> Result<(), DeviceError> {
        self.synchronize()?;
        if into.len() > from.len() {
            return Err(self.lost_error(&format!("{} bytes read of a buffer of {}", into.len(), from.len())));
        }
        from.read(into);
        self.read.lock().unwrap_or_else(PoisonError::into_inner).update(into);
        Ok(())
    }

    /// Work is done as soon as it is requested; only the energy counter shows the wait.
    fn synchronize(&self) -> Result<(), DeviceError> {
        self.ensure_alive()?;
        let done = self.under_way.swap(0, Ordering::Relaxed);
        if let Some((counter, _)) = &self.simulated {
            counter.fetch_add(done, Ordering::Relaxed);
        }
        Ok(())
    }

    fn launch(
        &self,
        launch: KernelLaunch,
        arguments: &[KernelArgument<'_, EmulatorBuffer>],
    ) -> Result<(), DeviceError> {
        self.launch_blocks_from(launch, (0, 0), arguments)
    }

    fn multiply_matrices(&self, product: &MatrixProduct<'_, EmulatorBuffer>) -> Result<(), DeviceError> {
        self.count_launch()?;
        product::multiply_matrices(product).map_err(|reason| self.lost_error(&reason))
    }
}
