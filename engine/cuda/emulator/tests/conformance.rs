//! The kernels pass the device's conformance suite on the CPU, in both arithmetics and in three orders of threads with
//! the same bits.

#![expect(clippy::print_stderr, reason = "a log says how far the device was from the reference, and how long it took")]

use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, EmulatorOptions, ThreadOrder};
use hopeval_device::conformance::{Arithmetic, Operation, check};
use std::time::Instant;

const ORDERS: [ThreadOrder; 3] = [ThreadOrder::Ascending, ThreadOrder::Descending, ThreadOrder::Shuffled(20)];

fn conforms(arithmetic: Arithmetic, operation: Operation) {
    let digests = ORDERS.map(|order| {
        let emulator = Emulator::new(EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")).order(order))
            .expect("kernels that compile");
        let (device, start) = (Cuda::new(emulator, arithmetic), Instant::now());
        let found = check(&device, arithmetic, operation).unwrap_or_else(|e| panic!("{arithmetic:?}, {order:?}: {e}"));
        let launches = device.runtime().launches();
        assert!(found.cases > 0 && found.companies > 0 && launches > 0, "{found:?}, {launches} launches");
        eprintln!("{arithmetic:?}, {order:?}: {found:?}, {launches} launches, {:.1?}", start.elapsed());
        device.runtime().digest()
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{ORDERS:?} gave other bits: {digests:?}");
}

macro_rules! conforms {
    ($($name:ident $operation:ident,)*) => {
        const TESTED: &[Operation] = &[$(Operation::$operation),*];

        mod f32 {
            use super::*;
            $(#[test] fn $name() { conforms(Arithmetic::F32, Operation::$operation) })*
        }

        mod bf16 {
            use super::*;
            $(#[test] fn $name() { conforms(Arithmetic::Bf16, Operation::$operation) })*
        }
    };
}

conforms! {
    embed Embed,
    norm Norm,
    norm_groups NormGroups,
    linear Linear,
    project Project,
    gate Gate,
    rotate Rotate,
    attention Attention,
    gather Gather,
    scatter Scatter,
    average Average,
    log_probs LogProbs,
    next_tokens NextTokens,
}

#[test]
fn every_operation_is_tested() {
    assert_eq!(TESTED, Operation::ALL);
}
