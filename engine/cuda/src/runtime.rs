//! [`Runtime`]: the device's demands on a machine: memory, copies, launches of kernels, products of matrices.
//!
//! It separates the parts testable without a GPU (everything above it, and the kernels themselves) from the rest.
//! [`Driver`](crate::Driver) stands on the CUDA driver and cuBLASLt; the emulator of the tests runs the same kernels on
//! the CPU. A runtime does all work in the order of the requests.

use crate::kernels::Kernel;
use hopeval_device::{DeviceEnergy, DeviceError, PendingRead};
use std::fmt;
use std::time::Duration;

/// How numbers lie in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 32-bit IEEE.
    F32,
    /// The upper half of 32-bit IEEE.
    Bf16,
}

impl ElementType {
    /// Bytes of one number.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// One argument of a kernel, as in its parameter list.
#[derive(Debug)]
pub enum KernelArgument<'a, B> {
    /// The address of a buffer.
    Buffer(&'a B),
    /// The address 0: an absent operand.
    Null,
    /// `unsigned int`.
    U32(u32),
    /// `float`.
    F32(f32),
}

impl<B> Clone for KernelArgument<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for KernelArgument<'_, B> {}

/// The parameters of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLaunch {
    /// The kernel.
    pub kernel: Kernel,
    /// Blocks in x and y, both above 0.
    pub grid: (u32, u32),
    /// Threads of a block: a multiple of 32, at most the number in the kernel's `KERNEL(threads)`.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// A function that a product may apply to a number before storing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusedFunction {
    /// Nothing.
    Nothing,
    /// `max(x, 0)`.
    Relu,
    /// The approximation of GELU by `tanh`.
    GeluTanh,
}

/// `output [rows, out] = fused(scale * x [rows, inner] · weight[first..first + out, inner]ᵀ + bias) + residual`,
/// row-major, summed in `f32`. `residual` only if `fused` is [`FusedFunction::Nothing`].
#[derive(Clone, Copy, Debug)]
pub struct MatrixProduct<'a, B> {
    /// Rows of `x`.
    pub rows: usize,
    /// Columns of `x` and of `weight`.
    pub inner: usize,
    /// Columns of the output.
    pub out: usize,
    /// Element of `x` and `weight`.
    pub element: ElementType,
    /// `[rows, inner]`.
    pub x: &'a B,
    /// `[at least first + out, inner]`.
    pub weight: &'a B,
    /// The first used row of `weight`.
    pub first: usize,
    /// Factor of the product.
    pub scale: f32,
    /// `[out]`, of the output's element.
    pub bias: Option<&'a B>,
    /// Applied next.
    pub fused: FusedFunction,
    /// `[rows, out]`, of the output's element; not the output itself.
    pub residual: Option<&'a B>,
    /// Element of the output: `element`, or [`ElementType::F32`].
    pub output_element: ElementType,
    /// `[rows, out]`.
    pub output: &'a B,
}

/// A machine that runs kernels.
///
/// # Contract
/// * A buffer's address is a multiple of 256, and a dropped buffer is freed after the work that uses it.
/// * [`Runtime::multiply_matrices`] gives a row the same bits in any batch: its summation depends on `inner`, `out` and
///   the elements only, never on `rows`.
/// * Exhausted memory is [`DeviceError::OutOfMemory`], an unsupported request is [`DeviceError::Unsupported`], and both
///   leave everything usable. Any other failure is [`DeviceError::Lost`], and so is every request after it.
pub trait Runtime: Send + Sync + 'static {
    /// Memory of the device. Kernels write through shared references: the order of the work is the lock.
    type Buffer: Send + Sync + fmt::Debug;

    /// For people: "NVIDIA H100 80GB HBM3 (cuda:0)".
    fn name(&self) -> String;

    /// Everything about the machine that can change a bit of a result: its architecture, its library of products. No
    /// spaces.
    fn numerics(&self) -> String;

    /// Chooses the algorithms of all products so far for every number of rows up to `most_rows`, so that no later
    /// product does. Without it they are chosen when a product comes up.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn tune_products(&self, most_rows: usize) -> Result<(), DeviceError> {
        let _ = most_rows;
        Ok(())
    }

    /// The time since the last call that went into choosing algorithms, and so into no request.
    fn take_tuning(&self) -> Duration {
        Duration::ZERO
    }

    /// Bytes of free memory, with what it holds unused; `None` if nobody knows.
    fn free_memory(&self) -> Option<u64> {
        None
    }

    /// The account of its energy; `None` if nothing counts it.
    fn energy(&self) -> Option<&DeviceEnergy> {
        None
    }

    /// Memory of any content; 0 bytes are allowed.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    fn allocate(&self, bytes: usize) -> Result<Self::Buffer, DeviceError>;

    /// Memory with this content.
    ///
    /// # Errors
    /// As [`Runtime::allocate`].
    fn upload(&self, bytes: &[u8]) -> Result<Self::Buffer, DeviceError>;

    /// The first bytes of a buffer, after all earlier work.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn download(&self, from: &Self::Buffer, into: &mut [u8]) -> Result<(), DeviceError>;

    /// The first bytes of a buffer as they are after all earlier work, without a wait for that work if the machine does
    /// it beside the host.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    fn request_bytes(&self, from: &Self::Buffer, bytes: usize) -> Result<PendingRead<Vec<u8>>, DeviceError> {
        let mut into = vec![0; bytes];
        self.download(from, &mut into)?;
        Ok(PendingRead::ready(into))
    }

    /// Waits until all earlier work is done.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if any of it failed.
    fn synchronize(&self) -> Result<(), DeviceError>;

    /// Launches a kernel.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Unsupported`], [`DeviceError::Lost`].
    fn launch(&self, launch: KernelLaunch, arguments: &[KernelArgument<'_, Self::Buffer>]) -> Result<(), DeviceError>;

    /// Multiplies. `inner` and `out` are multiples of 8 ([`Cuda`](crate::Cuda) handles other sizes itself); `rows`,
    /// `inner` and `out` are not 0.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Unsupported`], [`DeviceError::Lost`].
    fn multiply_matrices(&self, product: &MatrixProduct<'_, Self::Buffer>) -> Result<(), DeviceError>;
}
