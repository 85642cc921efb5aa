//! Attention's speed, as a part of the speed of matrix products on the same machine in the same run.
//!
//! **Why**: attention is a few percent of a model's operations, and must stay a few percent of its time; where
//! products of DeBERTa's relative positions are added it is more.
//! **What**: packed sequences of one length, self-attention, all heads. Useful operations are the products of every
//! query with every visible key and of every weight with every value, and one more product of this size for each term
//! of relative positions. Beside them a square product by `linear`. Medians of the repeats, taken in turns, in seconds
//! of processor time, which a busy machine does not inflate.
//! **Knobs**: `attention [threads] [tokens] [sequences] [heads] [head_dim] [repeats]`; by default 1 200 8 12 64 9.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use hopeval_device::cpu::{Cpu, InstructionSet};
use hopeval_device::{
    Attention, AttentionBias, AttentionMask, Device, DeviceError, DisentangledBias, DistanceBuckets, Epilogue,
    HostTensor, Packing, TensorColumns, WeightLayout,
};
use nix::sys::resource::{UsageWho, getrusage};
use std::time::Duration;

struct Knobs {
    threads: usize,
    tokens: usize,
    sequences: usize,
    heads: usize,
    head_dim: usize,
    repeats: usize,
}

fn knobs() -> Knobs {
    let given = std::env::args().skip(1).map(|knob| knob.parse().unwrap_or(1)).collect::<Vec<usize>>();
    let knob = |i: usize, default: usize| given.get(i).copied().unwrap_or(default).max(1);
    Knobs {
        threads: knob(0, 1),
        tokens: knob(1, 200),
        sequences: knob(2, 8),
        heads: knob(3, 12),
        head_dim: knob(4, 64),
        repeats: knob(5, 9),
    }
}

/// Numbers between -1 and 1; their values do not matter.
fn numbers(n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn main() -> Result<(), DeviceError> {
    let knobs = knobs();
    println!(
        "{} threads, {} sequences of {} tokens, {} heads of {}",
        knobs.threads, knobs.sequences, knobs.tokens, knobs.heads, knobs.head_dim
    );
    for isa in InstructionSet::available() {
        measure(&Cpu::with_isa(isa, Some(knobs.threads))?, &knobs)?;
    }
    Ok(())
}

fn measure(cpu: &Cpu, knobs: &Knobs) -> Result<(), DeviceError> {
    let Knobs { tokens, sequences, heads, head_dim, .. } = *knobs;
    let width = heads * head_dim;
    let rows = tokens * sequences;
    let x = cpu.upload(rows, 3 * width, &numbers(rows * 3 * width))?;
    let positions = cpu.upload(512, width, &numbers(512 * width))?;
    let table =
        cpu.load_matrix(&[HostTensor::from_f32("table", &[32, heads], &numbers(32 * heads))], WeightLayout::OutIn)?;
    let buckets = DistanceBuckets::T5 { count: 32, max_distance: 128, bidirectional: true };
    let deberta = DistanceBuckets::Log { span: 256, max_position: 512 };
    let both = || {
        AttentionBias::Disentangled(DisentangledBias {
            position_keys: Some(&positions),
            position_queries: Some(&positions),
            buckets: deberta,
        })
    };
    let packing = Packing::of_lengths(std::iter::repeat_n(tokens, sequences));
    // Leaves of 30 tokens over a prefix: a prompt with several questions.
    let mut leaves = Packing::new();
    for _ in 0..rows / 30 {
        leaves.push(30, [(0, tokens as u32), (tokens as u32, 30)]);
    }
    let mut steps = Packing::new();
    for sequence in 0..sequences {
        steps.push(1, [((sequence * tokens) as u32, tokens as u32)]);
    }
    let full = |seen: usize, terms: usize| (2 * seen * width * (2 + terms)) as f64;
    let square = tokens * tokens * sequences;
    let half = tokens * (tokens + 1) / 2 * sequences;
    let leaf = (rows / 30) * (30 * tokens + 30 * 31 / 2);
    type MakeBias<'a> = &'a dyn Fn() -> AttentionBias<'a, Cpu>;
    let (none, relative) = (|| AttentionBias::None, || AttentionBias::Relative { table: &table, buckets });
    let cases: [(&str, AttentionMask, MakeBias<'_>, &Packing, f64); 6] = [
        ("full", AttentionMask::Full, &none, &packing, full(square, 0)),
        ("causal", AttentionMask::Causal, &none, &packing, full(half, 0)),
        ("T5", AttentionMask::Full, &relative, &packing, full(square, 0)),
        ("DeBERTa", AttentionMask::Full, &both, &packing, full(square, 2)),
        ("leaves of 30", AttentionMask::Causal, &none, &leaves, full(leaf, 0)),
        ("generation", AttentionMask::Causal, &none, &steps, full(rows, 0)),
    ];
    let side = 768;
    let weight =
        cpu.load_matrix(&[HostTensor::from_f32("weight", &[side, side], &numbers(side * side))], WeightLayout::OutIn)?;
    let factor = cpu.upload(side, side, &numbers(side * side))?;
    let mut products = Vec::new();
    let mut found = vec![Vec::new(); cases.len()];
    for _ in 0..knobs.repeats {
        products.push((2 * side.pow(3)) as f64 / seconds(|| cpu.linear(&factor, &weight, Epilogue::default()))? / 1e9);
        for ((_, mask, bias, packing, operations), found) in cases.iter().zip(&mut found) {
            let at = |start| TensorColumns { tensor: &x, start };
            let attention = Attention {
                heads,
                kv_heads: heads,
                head_dim,
                scale: (head_dim as f32).powf(-0.5),
                mask: *mask,
                bias: bias(),
                packing,
            };
            let once = seconds(|| cpu.attention(at(0), at(width), at(2 * width), &attention))?;
            found.push(operations / once / 1e9);
        }
    }
    let product = median(products);
    println!("{}: product of {side} x {side} x {side} {product:.1} GFLOP/s", cpu.isa().name());
    for ((name, ..), found) in cases.iter().zip(found) {
        let found = median(found);
        println!("  {name:<14} {found:>6.1} GFLOP/s, {:>3.0} % of the product", 100.0 * found / product);
    }
    Ok(())
}

/// Processor time of one call, of all threads: the mean over the calls of a twentieth of a second.
fn seconds<T>(mut call: impl FnMut() -> Result<T, DeviceError>) -> Result<f64, DeviceError> {
    let start = used();
    for calls in 1.. {
        call()?;
        let seconds = (used() - start).as_secs_f64();
        if seconds > 0.05 {
            return Ok(seconds / f64::from(calls));
        }
    }
    unreachable!("a call takes time")
}

fn used() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process knows what it used");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64))
        .sum()
}

fn median(mut found: Vec<f64>) -> f64 {
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}
