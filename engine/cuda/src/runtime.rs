//! [`Runtime`]: what the device asks of a machine: memory, copies, launches of kernels, products of matrices.
//!
//! It is the seam between what can be proven without a GPU (everything above it, and the kernels themselves) and what cannot:
//! [`Driver`](crate::Driver) stands on the CUDA driver and cuBLASLt; the emulator of the tests runs the same kernels on
//! the CPU. All work of a runtime happens in the order in which it was asked for.

use crate::kernels::Kernel;
use hopeval_device::{DeviceError, Energy};
use std::fmt;

/// How numbers lie in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32-bit IEEE.
    F32,
    /// The upper half of 32-bit IEEE.
    Bf16,
}

impl Element {
    /// Bytes of one number.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// One argument of a kernel, as its parameter list has it.
#[derive(Debug)]
pub enum Argument<'a, B> {
    /// The address of a buffer.
    Buffer(&'a B),
    /// The address 0: an operand that is not there.
    Null,
    /// `unsigned int`.
    U32(u32),
    /// `float`.
    F32(f32),
}

impl<B> Clone for Argument<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Argument<'_, B> {}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which.
    pub kernel: Kernel,
    /// Blocks in x and y; none is 0.
    pub grid: (u32, u32),
    /// Threads of a block: a multiple of 32, at most what the kernel's `KERNEL(threads)` says.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// What a product may do to a number before it stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fused {
    /// Nothing.
    Nothing,
    /// `max(x, 0)`.
    Relu,
    /// The approximation of GELU by `tanh`.
    GeluTanh,
}

/// `output [rows, out] = fused(scale * x [rows, inner] · weight[first..first + out, inner]ᵀ + bias) + residual`, row-major,
/// summed in `f32`. `residual` only where `fused` is [`Fused::Nothing`].
#[derive(Clone, Copy, Debug)]
pub struct Product<'a, B> {
    /// Rows of `x`.
    pub rows: usize,
    /// Columns of `x` and of `weight`.
    pub inner: usize,
    /// Columns of the output.
    pub out: usize,
    /// Of `x` and `weight`.
    pub element: Element,
    /// `[rows, inner]`.
    pub x: &'a B,
    /// `[at least first + out, inner]`.
    pub weight: &'a B,
    /// The first row of `weight` that counts.
    pub first: usize,
    /// Times the product.
    pub scale: f32,
    /// `[out]`, of the output's element.
    pub bias: Option<&'a B>,
    /// Then.
    pub fused: Fused,
    /// `[rows, out]`, of the output's element; not the output itself.
    pub residual: Option<&'a B>,
    /// Of the output: `element`, or [`Element::F32`].
    pub output_element: Element,
    /// `[rows, out]`.
    pub output: &'a B,
}

/// A machine that kernels run on.
///
/// # Contract
/// * A buffer's address is a multiple of 256, and it is freed when it is dropped, after the work that uses it.
/// * [`Runtime::product`] gives a row the same bits in whatever company: how it sums depends on `inner`, `out` and the
///   elements only, never on `rows`.
/// * Memory that runs out is [`DeviceError::OutOfMemory`], what the machine cannot do is [`DeviceError::Unsupported`], and both
///   leave everything usable; anything else that fails is [`DeviceError::Lost`], and so is whatever is asked after that.
pub trait Runtime: Send + Sync + 'static {
    /// Memory of the device. Kernels write to what is given by a shared reference: the order of the work is its lock.
    type Buffer: Send + Sync + fmt::Debug;

    /// For people: "NVIDIA H100 80GB HBM3 (cuda:0)".
    fn name(&self) -> String;

    /// What of the machine can change a bit of a result: its architecture, the library of its products. No spaces.
    fn numerics(&self) -> String;

    /// The account of what it uses; none where nothing counts that.
    fn energy(&self) -> Option<&Energy> {
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

    /// The first bytes of a buffer, once all work asked for before is done.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn download(&self, from: &Self::Buffer, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Waits until all work asked for before is done.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] when any of it failed.
    fn synchronize(&self) -> Result<(), DeviceError>;

    /// Launches a kernel.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Unsupported`], [`DeviceError::Lost`].
    fn launch(&self, launch: Launch, arguments: &[Argument<'_, Self::Buffer>]) -> Result<(), DeviceError>;

    /// Multiplies. `inner` and `out` are multiples of 8 ([`Cuda`](crate::Cuda) sees to the others itself); `rows`, `inner`
    /// and `out` are not 0.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Unsupported`], [`DeviceError::Lost`].
    fn product(&self, product: &Product<'_, Self::Buffer>) -> Result<(), DeviceError>;
}
