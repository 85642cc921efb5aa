//! Executes NVRTC's PTX on the CPU, inline assembly and all, and holds it against the emulator's results.
//!
//! ```text
//!   KernelSources --PtxCompiler (NVRTC)--> text --PtxModule--> instructions --run--> what a grid leaves in memory
//!        '-------- the C++ compiler ------------> Emulator ---------------- launch --------------' compared
//! ```
//!
//! The emulator runs C++ twins of the inline assembly. Here the assembly itself runs, as NVIDIA's compiler passes it on
//! among its own instructions. The meaning of an instruction is that of the PTX ISA's text, stated independently of the
//! twins. An instruction that is not known is an error that names it and its line; nothing is passed over.
//!
//! Lanes of a warp have a place in the code each. The group of lanes at the lowest place goes on; a shuffle, a vote, a
//! barrier, a load or a product of tiles waits until all 32 lanes are at that same instruction, and it is a fault if
//! they never are. An access must lie within one buffer of the launch or one shared array, at a multiple of its size.
//! Shared memory and registers begin as ones. An asynchronous copy takes effect when its group is waited for.
//!
//! A product of tiles is a chain of fused operations in the order of the inner index, as in the twins; a GPU's order is
//! not documented. `ex2.approx`, `rcp.approx` and `div.approx` are rounded correctly, or as the C library does. The
//! result of arithmetic with NaN is the canonical one. It does not show races, speed, or what ptxas makes of the PTX.

mod arithmetic;
mod compared;
mod compiler;
mod decoder;
mod instruction;
mod machine;
mod memory;
mod parser;
mod tiles;

pub use compared::{ComparedRuntime, KernelComparison, NumberTolerance};
pub use compiler::{PtxCompileError, PtxCompiler, PtxOptions};
pub use machine::{BlockGrid, KernelFault, PtxFault};
pub use memory::{MemoryBlock, MemoryBlocks};
pub use parser::PtxError;

use instruction::KernelCode;

/// Kernels, decoded from PTX.
#[derive(Debug)]
pub struct PtxModule {
    kernels: Vec<KernelCode>,
}

impl PtxModule {
    /// Reads the text that a compiler wrote.
    ///
    /// # Errors
    /// [`PtxError`] with the line: an unknown instruction, or text of another form.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        let parsed = parser::parse_module(text)?;
        let kernels = parsed.kernels.iter().map(|kernel| decoder::decode_kernel(kernel, parsed.dynamic.as_deref()));
        Ok(Self { kernels: kernels.collect::<Result<_, _>>()? })
    }

    /// Runs all blocks of a grid, one after the other. `arguments` are as the parameters are declared: addresses, or
    /// the bits of a word or a float.
    ///
    /// # Errors
    /// [`PtxFault`]: no such kernel, other parameters, or a fault of the kernel with its line.
    pub fn run_kernel(
        &self,
        name: &str,
        grid: &BlockGrid,
        arguments: &[u64],
        memory: &mut MemoryBlocks,
    ) -> Result<(), PtxFault> {
        let code = self.kernels.iter().find(|code| code.name == name);
        let code = code.ok_or_else(|| PtxFault::UnknownKernel { kernel: name.into() })?;
        machine::run_grid(code, grid, arguments, memory)
    }
}
