//! Times the CPU's attention.
//!
//! Why: over long prompts it is most of an encoder's work.
//! What: sequences of equal length that attend to themselves, without a bias; CPU seconds of the best and the median of
//! several repeats, counted are the products of queries with keys and of weights with values. One JSON line for each
//! shape.
//! Knobs: `attention_bench [--threads N] [--isa avx2|avx512] [--repeats N] [--causal] [SEQUENCESxTOKENSxHEADSxDIM..]`.

use hopeval_device::cpu::{CpuOptions, InstructionSet};
use hopeval_device::{Attention, AttentionBias, AttentionMask, Cpu, Device, Packing, TensorColumns};
use nix::time::{ClockId, clock_gettime};

/// The small writer's encoder at a long prompt; encoders and GPT-2 of usual size.
const SHAPES: [&str; 4] = ["1x2800x6x32", "8x300x6x32", "4x512x12x64", "1x2048x12x64"];

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let (mut options, mut repeats, mut mask, mut shapes) = (CpuOptions::default(), 5, AttentionMask::Full, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value after the option");
        match argument.as_str() {
            "--threads" => options.threads = Some(value().parse().expect("a number of threads")),
            "--repeats" => repeats = value().parse().expect("a number of repeats"),
            "--isa" => {
                options.isa = Some(if value() == "avx2" { InstructionSet::Avx2 } else { InstructionSet::Avx512 })
            }
            "--causal" => mask = AttentionMask::Causal,
            shape => shapes.push(shape.to_owned()),
        }
    }
    if shapes.is_empty() {
        shapes = SHAPES.map(String::from).to_vec();
    }
    let cpu = Cpu::with_options(options).expect("a CPU");
    for shape in shapes {
        let sizes = shape.split('x').map(|n| n.parse().expect("a shape of four numbers")).collect::<Vec<usize>>();
        let [sequences, tokens, heads, head_dim] = sizes[..] else { panic!("four numbers, not {shape}") };
        let width = heads * head_dim;
        let numbers = (0..sequences * tokens * 3 * width).map(|i| (i % 1009) as f32 / 1009.0 - 0.5).collect::<Vec<_>>();
        let qkv = cpu.upload(sequences * tokens, 3 * width, &numbers).expect("memory");
        let columns = |part: usize| TensorColumns { tensor: &qkv, start: part * width };
        let packing = Packing::of_lengths(vec![tokens; sequences]);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let bias = AttentionBias::None;
        let attention = Attention { heads, kv_heads: heads, head_dim, scale, mask, bias, packing: &packing };
        let pairs = match mask {
            AttentionMask::Full => tokens * tokens,
            _ => tokens * (tokens + 1) / 2,
        };
        let flops = (4 * sequences * pairs * width) as f64;
        let inner = (2e9 / flops).ceil().clamp(1.0, 1000.0) as usize;
        let once = || drop(cpu.attention(columns(0), columns(1), columns(2), &attention).expect("memory"));
        once();
        let mut times = Vec::new();
        for _ in 0..repeats {
            let busy = cpu_seconds();
            (0..inner).for_each(|_| once());
            times.push((cpu_seconds() - busy) / inner as f64);
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{{\"isa\":\"{}\",\"threads\":{},\"shape\":\"{shape}\",\"causal\":{},\"gflops_cpu\":{:.1},\
             \"gflops_cpu_best\":{:.1}}}",
            cpu.isa().name(),
            cpu.threads(),
            mask == AttentionMask::Causal,
            flops / times[repeats / 2] / 1e9,
            flops / times[0] / 1e9,
        );
    }
}

/// CPU seconds of all threads of this process.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}
