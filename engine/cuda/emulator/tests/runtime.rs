//! The emulator keeps the contract of a runtime, reports the fault of a kernel, and passes its own test in C++.

use hopeval_cuda::kernels::{Kernel, KernelFamily};
use hopeval_cuda::runtime::{KernelArgument, KernelLaunch, Runtime};
use hopeval_cuda_emulator::{BuildError, Emulator, EmulatorOptions, KernelSource, KernelSources, ThreadOrder};
use hopeval_device::DeviceError;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers the threads of a grid; one warp of two may leave before a barrier; the halves of a warp may take the same
/// step from two places.
static FAMILY: KernelFamily = KernelFamily {
    name: "numbers",
    text: r#"
#include "mma.cuh"

KERNEL(64) number(u32* out, u32 first, float half) {
    SHARED(u32, numbers, 64);
    numbers[threadIdx.x] = first + blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = numbers[blockDim.x - 1 - threadIdx.x] + static_cast<u32>(2.0f * half);
}

KERNEL(64) leaves(u32 from) {
    if (threadIdx.x >= from) return;
    __syncthreads();
}

KERNEL(64) apart(u32 step) {
    const bool lower = threadIdx.x % WARP < WARP / 2;
    float sums[4] = {};
    const u32 left[4] = {};
    if (step == 0) {
        if (lower) sums[0] = __shfl_sync(EVERY_LANE, 1.0f, 0);
        else sums[0] = __shfl_sync(EVERY_LANE, 1.0f, 0);
    } else if (step == 1) {
        if (lower) __syncwarp();
        else __syncwarp();
    } else if (step == 2) {
        if (lower) multiply_add(sums, left, 0, 0);
        else multiply_add(sums, left, 0, 0);
    } else if (step == 3) {
        if (lower) sums[0] = warp_sum(1.0f);
        else sums[0] = warp_sum(1.0f);
    } else if (step == 4) {
        if (threadIdx.x < WARP) __syncthreads();
        else __syncthreads();
    } else {
        for (u32 i = 0; i < 3; i++) sums[0] += __shfl_sync(EVERY_LANE, lower && i < 2 ? 1.0f : 2.0f, 0);
    }
}
"#,
    kernels: &["number", "leaves", "apart"],
};

fn sources(text: &str) -> KernelSources {
    let KernelSources { headers, .. } = KernelSources::device_kernels();
    let kernels = FAMILY.kernels.iter().map(ToString::to_string).collect();
    KernelSources { headers, families: vec![KernelSource { name: FAMILY.name.into(), text: text.into(), kernels }] }
}

fn options() -> EmulatorOptions {
    EmulatorOptions { sources: sources(FAMILY.text), ..EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")) }
}

fn launch(name: &'static str, blocks: u32, threads: u32) -> KernelLaunch {
    KernelLaunch { kernel: Kernel { family: &FAMILY, name }, grid: (blocks, 1), threads, shared: 0 }
}

fn number(emulator: &Emulator, blocks: u32, threads: u32) -> Result<Vec<u32>, DeviceError> {
    let mut bytes = vec![0; (blocks * threads * 4) as usize];
    let out = emulator.allocate(bytes.len())?;
    let arguments = [KernelArgument::Buffer(&out), KernelArgument::U32(100), KernelArgument::F32(0.5)];
    emulator.launch(launch("number", blocks, threads), &arguments)?;
    emulator.download(&out, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect())
}

fn reason(result: Result<(), DeviceError>) -> String {
    match result {
        Err(DeviceError::Lost { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn kernels_run_in_every_order() {
    let expected = (0..6).flat_map(|block| (0..32).rev().map(move |i| 101 + block * 32 + i)).collect::<Vec<_>>();
    for order in [ThreadOrder::Ascending, ThreadOrder::Descending, ThreadOrder::Shuffled(1), ThreadOrder::Shuffled(2)] {
        assert_eq!(number(&Emulator::new(options().order(order)).unwrap(), 6, 32).unwrap(), expected, "{order:?}");
    }
}

#[test]
fn energy_is_counted_for_who_waits() {
    let counter = Arc::new(AtomicU64::new(0));
    let emulator = Emulator::new(EmulatorOptions { energy: Some(Arc::clone(&counter)), ..options() }).unwrap();
    let out = emulator.allocate(64 * 4).unwrap();
    let arguments = [KernelArgument::Buffer(&out), KernelArgument::U32(100), KernelArgument::F32(0.5)];
    for _ in 0..3 {
        emulator.launch(launch("number", 1, 64), &arguments).unwrap();
    }
    assert_eq!(counter.load(Relaxed), 0);
    emulator.synchronize().unwrap();
    assert_eq!(counter.load(Relaxed), 3);
    number(&emulator, 1, 64).unwrap();
    emulator.synchronize().unwrap();
    assert_eq!(counter.load(Relaxed), 4, "what was read was waited for");
}

#[test]
fn several_threads_launch_at_once() {
    let emulator = Emulator::new(options()).unwrap();
    let expected = number(&emulator, 200, 64).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(number(&emulator, 200, 64).unwrap(), expected));
        }
    });
}

#[test]
fn memory_that_runs_out_is_said_and_comes_back() {
    let emulator = Emulator::new(EmulatorOptions { memory: Some(1000), ..options() }).unwrap();
    let held = emulator.upload(&[1; 900]).unwrap();
    let wanted = number(&emulator, 1, 32).unwrap_err();
    assert!(matches!(wanted, DeviceError::OutOfMemory { wanted: 128, available: 100, .. }), "{wanted:?}");
    drop(held);
    assert!(number(&emulator, 1, 32).is_ok());
}

#[test]
fn a_lost_device_stays_lost() {
    let emulator = Emulator::new(EmulatorOptions { launches: Some(2), ..options() }).unwrap();
    for _ in 0..2 {
        number(&emulator, 1, 32).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(reason(number(&emulator, 1, 32).map(|_| ())), "it was to fail after 2 launches");
    }
    assert!(matches!(emulator.upload(&[1]), Err(DeviceError::Lost { .. })));
}

#[test]
fn a_wrong_launch_is_said() {
    let lost = |launched: KernelLaunch, arguments: &[KernelArgument<'_, hopeval_cuda_emulator::EmulatorBuffer>]| {
        reason(Emulator::new(options()).unwrap().launch(launched, arguments))
    };
    let swapped = [KernelArgument::Null, KernelArgument::F32(1.0), KernelArgument::U32(1)];
    assert_eq!(
        lost(launch("number", 1, 32), &swapped),
        "kernel number: its parameters are \"puf\" (p: address, u: u32, f: float)"
    );
    assert_eq!(
        lost(launch("leaves", 1, 128), &[KernelArgument::U32(64)]),
        "kernel leaves: 128 threads a block; it takes a multiple of 32 of at most 64"
    );
    assert_eq!(
        lost(launch("leaves", 3, 64), &[KernelArgument::U32(40)]),
        "kernel leaves, block (0, 0): thread 40 has come to its end, but thread 32 of its warp to __syncthreads at \
         numbers.cu:13"
    );
    assert_eq!(
        lost(launch("leaves", 3, 64), &[KernelArgument::U32(32)]),
        "kernel leaves, block (0, 0): the warp of thread 63 has come to its end, but the warp of thread 0 to \
         __syncthreads at numbers.cu:13"
    );
    assert_eq!(lost(launch("absent", 1, 32), &[]), "no kernel absent was built");
}

/// On a GPU they would be two instructions, each of which waits for the lanes that are at the other one.
#[test]
fn lanes_that_meet_from_two_places_are_named_with_both() {
    for (order, first) in [(ThreadOrder::Ascending, 0), (ThreadOrder::Descending, 1)] {
        let apart = |step| {
            let result = Emulator::new(options().order(order)).unwrap();
            result.launch(launch("apart", 1, 64), &[KernelArgument::U32(step)])
        };
        for (step, kind, [lower, upper]) in [
            (0, "a shuffle, vote or exchange at", ["numbers.cu:21", "numbers.cu:22"]),
            (1, "__syncwarp at", ["numbers.cu:24", "numbers.cu:25"]),
            (2, "a shuffle, vote or exchange at", ["numbers.cu:27", "numbers.cu:28"]),
            (3, ", called at", ["numbers.cu:30", "numbers.cu:31"]),
            (4, "__syncthreads at", ["numbers.cu:33", "numbers.cu:34"]),
        ] {
            let message = reason(apart(step));
            let (later, earlier) = message.split_once(", but ").unwrap_or_else(|| panic!("{message}"));
            let [here, there] = if first == 0 { [upper, lower] } else { [lower, upper] };
            assert!(later.ends_with(&format!("{kind} {here}")), "{order:?}, {step}: {message}");
            assert!(earlier.ends_with(&format!("{kind} {there}")), "{order:?}, {step}: {message}");
        }
        apart(5).unwrap();
    }
}

#[test]
fn a_source_that_does_not_compile_is_named_with_its_line() {
    let built = Emulator::new(EmulatorOptions {
        sources: sources("#include \"prelude.cuh\"\nKERNEL(32) number(u32 x) { y; }\n"),
        ..options()
    });
    let Err(BuildError::Compile { file, output }) = built else { panic!("{built:?}") };
    assert!(file == "numbers.cpp" && output.contains("numbers.cu:2:"), "{file}: {output}");
}

#[test]
fn its_own_test_passes() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let smoke = folder.path().join("smoke");
    let mut compiler = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    compiler.args(["-O2", "-std=c++17", "-fno-strict-aliasing", "-DHOPEVAL_EMULATED", "-I"]);
    compiler.arg(here.join("../kernels")).arg("-I").arg(here.join("cpp")).arg(here.join("cpp/smoke.cpp"));
    let built = compiler.arg(here.join("cpp/emulator.cpp")).arg("-o").arg(&smoke).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(&smoke).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}
