//! The CPU: `f32`, AVX2 or AVX-512, on threads of its own.
//!
//! ```text
//!   device      the seam's operations, one line each
//!   simd        the instruction sets under one trait; math: functions of vectors
//!   attention   queries over spans of keys
//!   embed, norm, gate, rotary, rows      operations on rows
//!   gemm        products: blocks, tasks, threads; their inner loops in kernel_avx512 and kernel_avx2
//!   log_probs, next_tokens      products with the vocabulary, of which little is kept
//!   pack        weights of any type and layout as products read them; interleave: activations
//!   epilogue    the last step of a product, before it leaves the cache
//!   tensor      tensors, matrices (mapped, and packed from their first product on), vectors
//!   memory      aligned, counted, recycled
//!   clocks      running time of threads
//! ```
//!
//! # Contract
//! A numerics class is an instruction set. Within it every number results from a sequence of operations fixed by the
//! shapes of one row's inputs. Threads, other rows, the edges of tiles and the storage of weights change nothing.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the CPU device is written for x86_64 with AVX2");

mod attention;
mod clocks;
mod device;
mod embed;
mod epilogue;
mod gate;
mod gemm;
mod interleave;
mod kernel_avx2;
mod kernel_avx512;
mod log_probs;
mod math;
mod memory;
mod next_tokens;
mod norm;
mod pack;
mod rotary;
mod rows;
mod simd;
mod tensor;

pub use tensor::{Tensor, WeightMatrix, WeightVector};

use crate::DeviceError;
use clocks::ThreadClocks;
use memory::MemoryPool;
use rayon::prelude::*;
use simd::{SimdKernel, SimdLevel};
use std::sync::Mutex;

/// The vector instructions in use; each set is a numerics class of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// 256 bits: AVX2, FMA and F16C.
    Avx2,
    /// 512 bits: AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl InstructionSet {
    /// The sets of this processor, best first.
    pub fn available() -> Vec<Self> {
        let avx2 =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        [(avx512, Self::Avx512), (avx2, Self::Avx2)]
            .into_iter()
            .filter_map(|(there, isa)| there.then_some(isa))
            .collect()
    }

    /// The name in the numerics class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// How a [`Cpu`] is set up.
#[derive(Clone, Debug, Default)]
pub struct CpuOptions {
    /// Threads; by default as many as the machine offers.
    pub threads: Option<usize>,
    /// Instructions; by default the processor's best.
    pub isa: Option<InstructionSet>,
    /// Limit in bytes of activations and scratch memory; beyond it an operation is refused. Unlimited by default.
    pub memory: Option<u64>,
    /// Limit in bytes of packed copies of weights; by default 8 GiB, but no more than 40 % of the machine's memory.
    /// Weights without room are converted inside each product instead, with the same result to the bit.
    pub packed: Option<u64>,
    /// Packs weights of 16-bit types too, at twice their size; by default they stay as they lie in the file.
    pub pack_half: bool,
}

/// The CPU: `f32`, all cores.
#[derive(Debug)]
pub struct Cpu {
    isa: InstructionSet,
    level: SimdLevel,
    pool: rayon::ThreadPool,
    /// Of its threads, if they can be read.
    clocks: Option<ThreadClocks>,
    /// Held while a batch is computed.
    busy: Mutex<()>,
    /// Threads that can run at once.
    processors: u32,
    memory: MemoryPool,
    /// The memory of packed weights.
    packed: MemoryPool,
    pack_half: bool,
}

/// Operations of fewer multiply-adds than this run on the calling thread: waking another costs more.
const WORTH_A_THREAD: usize = 1 << 17;

impl Cpu {
    /// The CPU with the best instructions it has.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] on a processor without AVX2 and FMA, or for no threads or too many.
    pub fn new(threads: Option<usize>) -> Result<Self, DeviceError> {
        Self::with_options(CpuOptions { threads, ..CpuOptions::default() })
    }

    /// The CPU with given instructions.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] if the processor lacks them, or for no threads or too many.
    pub fn with_isa(isa: InstructionSet, threads: Option<usize>) -> Result<Self, DeviceError> {
        Self::with_options(CpuOptions { threads, isa: Some(isa), ..CpuOptions::default() })
    }

    /// The CPU, set up in every detail.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] if the processor lacks the instructions, or for no threads or too many
    /// ([`Self::most_threads`]).
    pub fn with_options(options: CpuOptions) -> Result<Self, DeviceError> {
        let unavailable = |reason: String| DeviceError::Unavailable { name: "cpu".into(), reason };
        let available = InstructionSet::available();
        let isa = match options.isa {
            None => *available.first().ok_or_else(|| unavailable("the processor lacks AVX2, FMA or F16C".into()))?,
            Some(isa) if available.contains(&isa) => isa,
            Some(isa) => return Err(unavailable(format!("the processor lacks {}", isa.name()))),
        };
        let most = Self::most_threads();
        if let Some(threads) = options.threads.filter(|threads| !(1..=most).contains(threads)) {
            return Err(unavailable(format!("{threads} threads; 1 to {most} are allowed on this machine")));
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or(processors);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("cpu-{i}"))
            .build()
            .map_err(|e| unavailable(format!("{threads} threads could not be started: {e}")))?;
        let packed =
            options.packed.unwrap_or_else(|| (8 << 30).min(memory::machine_memory().map_or(0, |all| all / 5 * 2)));
        Ok(Self {
            isa,
            level: SimdLevel::detect(isa).expect("an available instruction set; this is a bug"),
            clocks: ThreadClocks::of_pool(&pool),
            busy: Mutex::new(()),
            processors: threads.min(processors) as u32,
            pool,
            memory: MemoryPool::new(options.memory.unwrap_or(u64::MAX)),
            packed: MemoryPool::without_reuse(packed),
            pack_half: options.pack_half,
        })
    }

    /// The most allowed threads: four for each core, and 64 on any machine. Thousands would only wait for one another.
    pub fn most_threads() -> usize {
        (std::thread::available_parallelism().map_or(1, usize::from) * 4).max(64)
    }

    /// Limits activations and scratch memory to `bytes` from now on; for tests of exhausted memory.
    pub fn limit_memory(&self, bytes: u64) {
        self.memory.set_limit(bytes);
    }

    /// Bytes of activations and scratch memory in use.
    pub fn memory_in_use(&self) -> u64 {
        self.memory.live_bytes()
    }

    /// The instructions in use.
    pub fn isa(&self) -> InstructionSet {
        self.isa
    }

    /// Number of working threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs a kernel with the CPU's instructions, on this thread.
    pub(crate) fn run<K: SimdKernel>(&self, kernel: K) -> K::Output {
        self.level.run(kernel)
    }

    /// A tensor of any content.
    pub(crate) fn new_tensor(&self, rows: usize, columns: usize) -> Result<Tensor, DeviceError> {
        Ok(Tensor { buffer: self.memory.take(rows * columns)?, rows, columns })
    }

    /// Runs `task(0..tasks)` on all threads, in any order; `work` is about the number of multiply-adds of all tasks
    /// together.
    pub(crate) fn run_parallel<E: Send>(
        &self,
        tasks: usize,
        work: usize,
        task: impl Fn(usize) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        if tasks <= 1 || self.threads() == 1 || work < WORTH_A_THREAD {
            return (0..tasks).try_for_each(task);
        }
        self.pool.install(|| (0..tasks).into_par_iter().with_max_len(1).try_for_each(task))
    }

    /// Calls `fill(row, its numbers)` for every row of `out` on all threads; `work` is about the number of
    /// multiply-adds of a row.
    pub(crate) fn for_rows(&self, out: &mut Tensor, work: usize, fill: impl Fn(usize, &mut [f32]) + Sync + Send) {
        let columns = out.columns;
        self.for_pieces(out.values_mut(), columns, work, fill);
    }

    /// As [`Self::for_rows`], for pieces of `size` numbers.
    pub(crate) fn for_pieces(
        &self,
        out: &mut [f32],
        size: usize,
        work: usize,
        fill: impl Fn(usize, &mut [f32]) + Sync + Send,
    ) {
        if out.is_empty() || size == 0 {
            return;
        }
        let each = |(piece, numbers): (usize, &mut [f32])| fill(piece, numbers);
        if self.threads() == 1 || out.len() / size * work < WORTH_A_THREAD {
            return out.chunks_exact_mut(size).enumerate().for_each(each);
        }
        let least = (WORTH_A_THREAD / 4 / work.max(1)).max(1);
        self.pool.install(|| out.par_chunks_exact_mut(size).enumerate().with_min_len(least).for_each(each));
    }
}
