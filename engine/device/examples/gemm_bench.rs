//! Times the CPU's matrix products.
//!
//! Why: they are nine tenths of a language model's work, so their rate is the floor under everything else.
//! What: `x [m, k] · weightᵀ [n, k]` at the shapes of GPT-2 and of squares, packed and mapped; wall and CPU seconds
//! of the best and the median of several repeats. One JSON line for each; `ops/bench/lm/gemm.py` sets them beside
//! numpy's.
//! Knobs: `gemm_bench [--threads N] [--isa avx2|avx512] [--repeats N] [--dtype f32|bf16] [--mapped] [MxNxK..]`.

use hopeval_device::cpu::{CpuOptions, InstructionSet};
use hopeval_device::{Cpu, Device, Dtype, Epilogue, HostTensor, WeightLayout};
use nix::time::{ClockId, clock_gettime};
use std::time::Instant;

const SHAPES: [&str; 5] = ["2048x2048x2048", "2048x3072x768", "2048x768x3072", "256x50257x768", "8x3072x768"];

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let (mut options, mut repeats, mut dtype, mut shapes) = (CpuOptions::default(), 5, Dtype::F32, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value after the option");
        match argument.as_str() {
            "--threads" => options.threads = Some(value().parse().expect("a number of threads")),
            "--repeats" => repeats = value().parse().expect("a number of repeats"),
            "--isa" => {
                options.isa = Some(if value() == "avx2" { InstructionSet::Avx2 } else { InstructionSet::Avx512 })
            }
            "--dtype" => dtype = if value() == "bf16" { Dtype::Bf16 } else { Dtype::F32 },
            "--mapped" => options.packed = Some(0),
            shape => shapes.push(shape.to_owned()),
        }
    }
    if shapes.is_empty() {
        shapes = SHAPES.map(String::from).to_vec();
    }
    options.pack_half = options.packed != Some(0);
    let cpu = Cpu::with_options(options.clone()).expect("a CPU");
    for shape in shapes {
        let sizes = shape.split('x').map(|n| n.parse().expect("MxNxK")).collect::<Vec<usize>>();
        let [m, n, k] = sizes[..] else { panic!("MxNxK, not {shape}") };
        let numbers = |count: usize| (0..count).map(|i| (i % 1009) as f32 / 1009.0 - 0.5).collect::<Vec<_>>();
        let x = cpu.upload(m, k, &numbers(m * k)).expect("memory");
        let weight = HostTensor::from_f32("w", &[n, k], &numbers(n * k));
        let weight = match dtype {
            Dtype::F32 => weight,
            _ => {
                let halves = weight.bytes.chunks_exact(4).flat_map(|four| [four[2], four[3]]).collect::<Vec<_>>();
                HostTensor { dtype, bytes: halves.into(), ..weight }
            }
        };
        let weight = cpu.load_matrix(&[weight], WeightLayout::OutIn).expect("a matrix");
        let flops = 2.0 * (m * n * k) as f64;
        let inner = (2e8 / flops).ceil().clamp(1.0, 1000.0) as usize;
        let once = || drop(cpu.linear(&x, &weight, Epilogue::default()).expect("memory"));
        once();
        let mut times = Vec::new();
        for _ in 0..repeats {
            let (wall, busy) = (Instant::now(), cpu_seconds());
            (0..inner).for_each(|_| once());
            let (wall, busy) = (wall.elapsed().as_secs_f64(), cpu_seconds() - busy);
            times.push((busy / inner as f64, wall / inner as f64));
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (busy, wall) = times[repeats / 2];
        println!(
            "{{\"engine\":\"hopeval\",\"isa\":\"{}\",\"threads\":{},\"m\":{m},\"n\":{n},\"k\":{k},\"dtype\":\"{}\",\
             \"packed\":{},\"gflops_cpu\":{:.1},\"gflops_cpu_best\":{:.1},\"gflops_wall\":{:.1}}}",
            cpu.isa().name(),
            cpu.threads(),
            dtype.name(),
            options.packed != Some(0),
            flops / busy / 1e9,
            flops / times[0].0 / 1e9,
            flops / wall / 1e9,
        );
    }
}

/// CPU seconds of all threads of this process.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}
