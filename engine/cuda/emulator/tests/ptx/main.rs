//! NVRTC's PTX leaves the same bits as the emulator's C++: the inline assembly of `mma.cuh`, and all kernels.
//!
//! NVRTC comes from the Python package index; where it cannot be had, these tests are skipped with a message.

#![expect(clippy::print_stderr, reason = "a log says what was compared, and a test that is skipped says so")]

mod kernels;
#[path = "../../../tests/nvrtc/packages.rs"]
mod packages;
mod wrappers;

use hopeval_cuda::runtime::ElementType;
use hopeval_cuda_emulator::ptx::{NumberTolerance, PtxCompiler, PtxOptions};
use hopeval_cuda_emulator::{Emulator, EmulatorOptions, KernelSources};
use packages::{NVRTC, install};
use std::sync::OnceLock;

/// Products and sums by themselves, as the emulator's C++ has them.
const PLAIN: PtxOptions = PtxOptions { architecture: 90, contracted: false };

/// As shipped.
const SHIPPED: PtxOptions = PtxOptions { architecture: 90, contracted: true };

/// The same bits, but for NaN.
const fn exactly(element: ElementType) -> NumberTolerance {
    NumberTolerance { element, units: 0, absolute: 0.0 }
}

/// NVRTC, or nothing and a message.
fn compiler() -> Option<&'static PtxCompiler> {
    static COMPILER: OnceLock<Result<PtxCompiler, String>> = OnceLock::new();
    let found = COMPILER.get_or_init(|| {
        let library = install(NVRTC, "nvrtc")?.join("cu13/lib");
        Ok(PtxCompiler::load(&library).unwrap_or_else(|error| panic!("{error:?}")))
    });
    found.as_ref().inspect_err(|reason| eprintln!("SKIPPED: ptx: {NVRTC} cannot be installed: {reason}")).ok()
}

fn emulator(sources: KernelSources) -> Emulator {
    let options = EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"));
    Emulator::new(EmulatorOptions { sources, ..options }).expect("kernels that compile")
}
