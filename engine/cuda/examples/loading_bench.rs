//! Times the host's part of loading weights: conversion, transposition and stacking, without a device.
//!
//! Why: a model's load is paid by every run, and its host part depends on the types of the checkpoint.
//! What: matrices of GPT2-XL's size in the forms of checkpoints, loaded to a bf16 device whose runtime drops the bytes
//! that it is given. The median of the rounds, and the bytes made for the device in a second. The first row is of
//! bytes that need no change.
//! Knobs: `loading_bench [--rounds 9] [--threads N]`; by default as many threads as the machine has.

use half::{bf16, f16};
use hopeval_cuda::Cuda;
use hopeval_cuda::runtime::{KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use hopeval_device::conformance::Arithmetic;
use hopeval_device::{Device, DeviceError, Dtype, HostTensor, WeightLayout};
use std::time::Instant;

/// A machine without memory: it knows the number of bytes of a buffer.
#[derive(Debug)]
struct CountingRuntime;

impl Runtime for CountingRuntime {
    type Buffer = usize;

    fn name(&self) -> String {
        "nothing".to_owned()
    }

    fn numerics(&self) -> String {
        "nothing".to_owned()
    }

    fn allocate(&self, bytes: usize) -> Result<usize, DeviceError> {
        Ok(bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<usize, DeviceError> {
        Ok(std::hint::black_box(bytes).len())
    }

    fn download(&self, _: &usize, _: &mut [u8]) -> Result<(), DeviceError> {
        unreachable!("nothing is computed")
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn launch(&self, _: KernelLaunch, _: &[KernelArgument<'_, usize>]) -> Result<(), DeviceError> {
        unreachable!("nothing is computed")
    }

    fn multiply_matrices(&self, _: &MatrixProduct<'_, usize>) -> Result<(), DeviceError> {
        unreachable!("nothing is computed")
    }
}

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let (mut rounds, mut threads) = (9, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let knob = match argument.as_str() {
            "--rounds" => &mut rounds,
            "--threads" => &mut threads,
            _ => panic!("loading_bench [--rounds N] [--threads N]"),
        };
        *knob = arguments.next().and_then(|value| value.parse().ok()).expect("a number after the knob");
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("the first pool");
    println!("{} threads, median of {rounds}", rayon::current_num_threads());
    let (into, out) = (1600, 6400);
    for (dtype, layout, parts, name) in [
        (Dtype::Bf16, WeightLayout::OutIn, 1, "bf16 as stored"),
        (Dtype::Bf16, WeightLayout::OutIn, 3, "bf16, 3 stacked"),
        (Dtype::F32, WeightLayout::OutIn, 1, "f32 converted"),
        (Dtype::F16, WeightLayout::OutIn, 1, "f16 converted"),
        (Dtype::Bf16, WeightLayout::InOut, 1, "bf16 transposed"),
        (Dtype::F32, WeightLayout::InOut, 1, "f32 transposed"),
    ] {
        let parts = vec![tensor(dtype, into, out); parts];
        let device = Cuda::new(CountingRuntime, Arithmetic::Bf16);
        let mut seconds: Vec<f64> = (0..rounds)
            .map(|_| {
                let begun = Instant::now();
                let matrix = device.load_matrix(&parts, layout).expect("a matrix");
                std::hint::black_box(matrix);
                begun.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        let (median, bytes) = (seconds[rounds / 2], parts.len() * into * out * 2);
        println!("{name:<16} {:9.3} ms {:8.2} GB/s", median * 1e3, bytes as f64 / median / 1e9);
    }
}

/// Numbers around 0.
fn tensor(dtype: Dtype, rows: usize, columns: usize) -> HostTensor {
    let numbers = (0..rows * columns).map(|n| (n % 1999) as f32 / 999.0 - 1.0);
    let bytes: Vec<u8> = match dtype {
        Dtype::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        Dtype::F16 => numbers.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
        Dtype::Bf16 => numbers.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
    };
    HostTensor { name: "weight".into(), dtype, shape: vec![rows, columns], bytes: bytes.into() }
}
