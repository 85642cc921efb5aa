//! The conformance suite with the kernels under address and undefined-behaviour sanitizers: no access beside a buffer
//! or a shared array, no misaligned address.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so, and a log says how long it took")]

use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, EmulatorOptions, Sanitizer, ThreadOrder};
use hopeval_device::conformance::{Arithmetic, Operation, check};
use std::time::Instant;

/// Runs this test again if the sanitizers are not loaded yet.
fn conforms(test: &str, arithmetic: Arithmetic) {
    if !Sanitizer::Address.is_loaded() {
        let Some(ran) = Sanitizer::Address.run_again(test, &[]) else {
            eprintln!("SKIPPED: {test}: the C++ compiler has no address sanitizer, or it does not start here");
            return;
        };
        let (report, log) = (String::from_utf8_lossy(&ran.stderr), String::from_utf8_lossy(&ran.stdout));
        assert!(ran.status.success() && log.contains("1 passed"), "{}\n{log}\n{report}", ran.status);
        eprintln!("{report}");
        return;
    }
    for operation in Operation::ALL {
        let options = EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")).order(ThreadOrder::Shuffled(3));
        let emulator = Emulator::new(EmulatorOptions { sanitizer: Some(Sanitizer::Address), ..options })
            .expect("kernels that compile");
        let start = Instant::now();
        let found = check(&Cuda::new(emulator, arithmetic), arithmetic, operation).unwrap_or_else(|e| panic!("{e}"));
        eprintln!("{arithmetic:?}, sanitized: {found:?}, {:.1?}", start.elapsed());
    }
}

#[test]
fn f32() {
    conforms("f32", Arithmetic::F32);
}

#[test]
fn bf16() {
    conforms("bf16", Arithmetic::Bf16);
}
