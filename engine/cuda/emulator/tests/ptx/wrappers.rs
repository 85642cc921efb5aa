//! Each function of `mma.cuh` and `vectors.cuh` by itself, in PTX and by its twin, on the same numbers.
//!
//! Results that can be stated without a twin are stated here, too, in plain loops. Wrong assembly, planted in the part
//! that NVRTC alone reads, must be found.

use crate::{SHIPPED, compiler, exactly};
use half::bf16;
use hopeval_cuda::kernels::{Kernel, KernelFamily};
use hopeval_cuda::runtime::{ElementType, KernelArgument, KernelLaunch, Runtime};
use hopeval_cuda_emulator::ptx::{ComparedRuntime, PtxCompiler, PtxModule, PtxOptions};
use hopeval_cuda_emulator::{EmulatorBuffer, KernelSource, KernelSources};
use hopeval_device::DeviceError;
use std::collections::HashMap;
use std::sync::Arc;

/// A kernel for each function of `mma.cuh` and `vectors.cuh`.
static WRAPPERS: KernelFamily = KernelFamily {
    name: "wrappers",
    text: r#"
#include "vectors.cuh"

constexpr u32 PITCH = 24;

KERNEL(32) pairs(u32* out, const float* x) {
    const u32 at = blockIdx.x * WARP + threadIdx.x;
    out[at] = round_pair(x[2 * at], x[2 * at + 1]);
}

KERNEL(32) powers(float* out, const float* x) {
    const u32 at = blockIdx.x * WARP + threadIdx.x;
    out[at] = exp2_approximately(x[at]);
}

// out [16, 16] = add + left [16, 16] times right [16, 16], whose rows are columns unless it is `transposed`.
KERNEL(32) matrices(float* out, const bf16* left, const bf16* right, const float* add, u32 transposed) {
    SHARED(bf16, a, 16 * PITCH);
    SHARED(bf16, b, 16 * PITCH);
    const u32 lane = threadIdx.x, first = blockIdx.x * 256;
    for (u32 i = lane; i < 256; i += WARP) {
        a[i / 16 * PITCH + i % 16] = left[first + i];
        b[i / 16 * PITCH + i % 16] = right[first + i];
    }
    __syncwarp();
    u32 of_left[4], of_right[4];
    load_tiles(of_left, a + lane % 16 * PITCH + lane / 16 * CHUNK);
    if (transposed != 0) {
        load_tiles_transposed(of_right, b + lane % 16 * PITCH + lane / 16 * CHUNK);
    } else {
        load_tiles(of_right, b + (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * CHUNK);
    }
    float sums[2][4];
    for (u32 i = 0; i < 8; i++) {
        const u32 row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        sums[i / 4][i % 4] = add[first + row * 16 + column];
    }
    multiply_add(sums[0], of_left, of_right[0], of_right[1]);
    multiply_add(sums[1], of_left, of_right[2], of_right[3]);
    for (u32 i = 0; i < 8; i++) {
        const u32 row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        out[first + row * 16 + column] = sums[i / 4][i % 4];
    }
}

// What a lane finds of its own chunks of four groups, after each of three waits. The last chunks are not there.
KERNEL(32) copies(bf16* out, const bf16* x, u32 count) {
    SHARED(bf16, held, 4 * WARP * CHUNK);
    for (u32 group = 0; group < 4; group++) {
        const u32 chunk = group * WARP + threadIdx.x;
        copy_async(held + chunk * CHUNK, x + (chunk < count ? chunk * CHUNK : 0), chunk < count);
        copy_commit();
    }
    const auto show = [&](u32 wait) {
        for (u32 group = 0; group < 4; group++) {
            const u32 chunk = group * WARP + threadIdx.x;
            for (u32 i = 0; i < CHUNK; i++) out[(wait * 4 * WARP + chunk) * CHUNK + i] = held[chunk * CHUNK + i];
        }
    };
    copy_wait<2>();
    show(0);
    copy_wait<1>();
    show(1);
    copy_wait<0>();
    show(2);
}

KERNEL(32) vectors(float* out, bf16* rounded, const bf16* x, const float* y) {
    const u32 at = (blockIdx.x * WARP + threadIdx.x) * 8;
    float first[8], second[8];
    load_vector(first, x + at);
    load_vector(second, y + at);
    for (u32 i = 0; i < 8; i++) first[i] += second[i];
    store_vector(rounded + at, first);
    float upper[4];
    load_vector(upper, y + at + 4);
    for (u32 i = 0; i < 4; i++) upper[i] = -upper[i];
    store_vector(out + at, upper);
    store_vector(out + at + 4, upper);
}
"#,
    kernels: &["pairs", "powers", "matrices", "copies", "vectors"],
};

/// The wrappers' kernels with the device's headers.
fn wrappers() -> KernelSources {
    let KernelSources { headers, .. } = KernelSources::device_kernels();
    let kernels = WRAPPERS.kernels.iter().map(ToString::to_string).collect();
    KernelSources {
        headers,
        families: vec![KernelSource { name: WRAPPERS.name.into(), text: WRAPPERS.text.into(), kernels }],
    }
}

/// Launches on wrappers, in C++ and in PTX.
struct WrapperTrial {
    runtime: ComparedRuntime,
}

impl WrapperTrial {
    /// `changed` are the sources for NVRTC alone.
    fn new(compiler: &PtxCompiler, changed: &KernelSources, architecture: u32) -> Result<Self, String> {
        let options = PtxOptions { architecture, ..SHIPPED };
        let text = compiler.compile(changed, WRAPPERS.name, options).unwrap_or_else(|error| panic!("{error}"));
        let module = PtxModule::parse(&text).map_err(|error| error.to_string())?;
        let modules = Arc::new(HashMap::from([(WRAPPERS.name.to_owned(), module)]));
        let tolerance = |kernel: &str| exactly(if kernel == "pairs" { ElementType::Bf16 } else { ElementType::F32 });
        Ok(Self { runtime: ComparedRuntime::new(crate::emulator(wrappers()), modules, tolerance) })
    }

    fn upload(&self, bytes: impl IntoIterator<Item = u8>) -> EmulatorBuffer {
        self.runtime.upload(&bytes.into_iter().collect::<Vec<u8>>()).expect("memory")
    }

    fn floats(&self, numbers: &[f32]) -> EmulatorBuffer {
        self.upload(numbers.iter().flat_map(|number| number.to_le_bytes()))
    }

    fn halves(&self, numbers: &[f32]) -> EmulatorBuffer {
        self.upload(numbers.iter().flat_map(|number| bf16::from_f32(*number).to_le_bytes()))
    }

    /// Launches a kernel, and returns the first argument's content.
    fn launch(
        &self,
        name: &'static str,
        blocks: u32,
        out: &EmulatorBuffer,
        rest: &[KernelArgument<'_, EmulatorBuffer>],
    ) -> Result<Vec<u8>, String> {
        let kernel = Kernel { family: &WRAPPERS, name };
        let arguments = [&[KernelArgument::Buffer(out)], rest].concat();
        let launch = KernelLaunch { kernel, grid: (blocks, 1), threads: 32, shared: 0 };
        let message = |error: DeviceError| match error {
            DeviceError::Lost { reason, .. } => reason,
            other => other.to_string(),
        };
        self.runtime.launch(launch, &arguments).map_err(message)?;
        let mut bytes = vec![0; out.len()];
        self.runtime.download(out, &mut bytes).map_err(message)?;
        Ok(bytes)
    }
}

fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Numbers of all sizes, with signs, zeros, ties, subnormal numbers, infinities and NaN.
fn many_numbers(count: usize) -> Vec<f32> {
    let mut state = 0x2545_f491_u32;
    let special = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
        -1e-45,
        f32::MAX,
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
    ];
    let random = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f32::from_bits(state)
    });
    special.into_iter().chain(random).take(count).collect()
}

/// Numbers between -2 and 2.
fn small_numbers(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|i| 2.0 * (i as f32 * step).sin()).collect()
}

/// Rounding to the nearest, ties to even, stated by the distances.
fn check_pairs(trial: &WrapperTrial) -> Result<(), String> {
    let numbers = many_numbers(4096);
    let out = trial.upload(vec![0; 2 * numbers.len()]);
    let found = trial.launch("pairs", 64, &out, &[KernelArgument::Buffer(&trial.floats(&numbers))])?;
    for (number, bytes) in numbers.iter().zip(found.as_chunks().0) {
        let rounded = f64::from(f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16));
        if !number.is_finite() || number.abs() > 3.38e38 {
            assert!(rounded.is_nan() == number.is_nan() && (rounded.is_nan() || rounded.is_infinite()), "{number:e}");
            continue;
        }
        let bits = u32::from(u16::from_le_bytes(*bytes));
        let [below, above] = [bits.wrapping_sub(1), bits + 1].map(|bits| f64::from(f32::from_bits(bits << 16)));
        let distance = |candidate: f64| (candidate - f64::from(*number)).abs();
        let nearest = [below, above]
            .into_iter()
            .filter(|x| x.is_finite())
            .all(|x| distance(rounded) < distance(x) || distance(rounded) == distance(x) && bits % 2 == 0);
        assert!(nearest, "{number:e} became {rounded:e}");
    }
    Ok(())
}

fn check_powers(trial: &WrapperTrial) -> Result<(), String> {
    let numbers: Vec<f32> = (0..4096).map(|i| (i as f32 - 3072.0) / 16.0).chain([-125.99, -126.0, -126.01]).collect();
    let numbers = [numbers, many_numbers(4096 - 3)].concat();
    let out = trial.upload(vec![0; 4 * numbers.len()]);
    let found = trial.launch("powers", 256, &out, &[KernelArgument::Buffer(&trial.floats(&numbers))])?;
    for (number, power) in numbers.iter().zip(floats_of(&found)) {
        let exact = f64::from(*number).exp2();
        let expected = if exact < f64::from(f32::MIN_POSITIVE) { 0.0 } else { exact };
        let close = (f64::from(power) - expected).abs() <= expected * 3e-7 || f64::from(power) == expected;
        let overflows = expected > f64::from(f32::MAX) && power == f32::INFINITY;
        assert!(close || overflows || number.is_nan() && power.is_nan(), "2^{number}: {power:e}, not {expected:e}");
    }
    Ok(())
}

/// Whole numbers, so that each order of a sum gives the same bits, and then others, for the twins' order.
fn check_matrices(trial: &WrapperTrial) -> Result<(), String> {
    for transposed in [0, 1] {
        let whole = |step: usize| (0..512).map(|i| ((i * step) % 31) as f32 - 15.0).collect::<Vec<f32>>();
        let (left, right, add) = (whole(7), whole(11), whole(23));
        let out = trial.upload(vec![0; 4 * 512]);
        let launch = |left: &[f32], right: &[f32], add: &[f32]| {
            let (left, right, add) = (trial.halves(left), trial.halves(right), trial.floats(add));
            let [left, right, add] = [&left, &right, &add].map(KernelArgument::Buffer);
            trial.launch("matrices", 2, &out, &[left, right, add, KernelArgument::U32(transposed)])
        };
        let found = floats_of(&launch(&left, &right, &add)?);
        for (matrix, row, column) in (0..512).map(|i| (i / 256, i / 16 % 16, i % 16)) {
            let first = matrix * 256;
            let factor = |k: usize| right[first + if transposed == 1 { k * 16 + column } else { column * 16 + k }];
            let expected: f32 = (0..16).map(|k| left[first + row * 16 + k] * factor(k)).sum();
            let expected = expected + add[first + row * 16 + column];
            let found = found[first + row * 16 + column];
            assert_eq!(found, expected, "row {row}, column {column} of {matrix}, transposed: {transposed}");
        }
        launch(&small_numbers(512, 0.7), &small_numbers(512, 0.3), &small_numbers(512, 1.1))?;
        launch(&many_numbers(512), &many_numbers(700)[188..], &many_numbers(900)[388..])?;
    }
    Ok(())
}

/// Chunks of 16 bytes in four groups; those from 100 on are zeros.
fn check_copies(trial: &WrapperTrial) -> Result<(), String> {
    let (chunks, there) = (128, 100);
    let x: Vec<u8> = (0..there * 16).map(|i| (i * 37 % 251) as u8).collect();
    let out = trial.upload(vec![0; 3 * chunks * 16]);
    let x_buffer = trial.upload(x.clone());
    let arguments = [KernelArgument::Buffer(&x_buffer), KernelArgument::U32(there as u32)];
    let found = trial.launch("copies", 1, &out, &arguments)?;
    for (at, chunk) in found.chunks_exact(16).enumerate() {
        let (wait, at) = (at / chunks, at % chunks);
        // The waits leave out two groups, one and none.
        let expected = match at {
            _ if at / 32 > wait + 1 => [0xff; 16],
            _ if at >= there => [0; 16],
            _ => x[at * 16..][..16].try_into().expect("16 bytes"),
        };
        assert_eq!(chunk, expected, "chunk {at} after wait {wait}");
    }
    Ok(())
}

fn check_vectors(trial: &WrapperTrial) -> Result<(), String> {
    let (x, y) = (small_numbers(512, 0.7), small_numbers(512, 0.3));
    let [out, rounded] = [trial.upload(vec![0; 4 * 512]), trial.upload(vec![0; 2 * 512])];
    let (halves, floats) = (trial.halves(&x), trial.floats(&y));
    let rest = [&rounded, &halves, &floats].map(KernelArgument::Buffer);
    let found = floats_of(&trial.launch("vectors", 2, &out, &rest)?);
    let expected: Vec<f32> = (0..512).map(|i| -y[i / 8 * 8 + 4 + i % 4]).collect();
    assert_eq!(found, expected);
    let mut bytes = vec![0; rounded.len()];
    trial.runtime.download(&rounded, &mut bytes).map_err(|error| error.to_string())?;
    let sum = |(x, y): (&f32, &f32)| bf16::from_f32(bf16::from_f32(*x).to_f32() + y);
    let expected: Vec<u8> = x.iter().zip(&y).map(sum).flat_map(bf16::to_le_bytes).collect();
    assert_eq!(bytes, expected);
    Ok(())
}

fn check_wrappers(trial: &WrapperTrial) -> Result<(), String> {
    check_pairs(trial)?;
    check_powers(trial)?;
    check_matrices(trial)?;
    check_copies(trial)?;
    check_vectors(trial)
}

#[test]
fn inline_assembly_does_what_its_twins_do() {
    let Some(compiler) = compiler() else { return };
    for architecture in [80, 90] {
        let trial = WrapperTrial::new(compiler, &wrappers(), architecture).unwrap_or_else(|error| panic!("{error}"));
        check_wrappers(&trial).unwrap_or_else(|error| panic!("compute_{architecture}: {error}"));
        eprintln!("compute_{architecture}: {:?}", trial.runtime.comparisons());
    }
}

/// A change of `mma.cuh` in what NVRTC reads, and a part of the message by which it is found.
struct WrongAssembly {
    was: &'static str,
    becomes: &'static str,
    message: &'static str,
}

const fn wrong(was: &'static str, becomes: &'static str, message: &'static str) -> WrongAssembly {
    WrongAssembly { was, becomes, message }
}

const WRONG: [WrongAssembly; 16] = [
    wrong("m8n8.x4.trans.shared", "m8n8.x4.shared", "matrices, (2, 1) blocks: buffer 0: number"),
    wrong(
        "m8n8.x4.shared.b16 {%0, %1, %2, %3}",
        "m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}",
        "matrices, (2, 1) blocks",
    ),
    wrong("m8n8.x4.shared.b16 {%0, %1, %2, %3}", "m8n8.x4.shared.b16 {%0, %2, %1, %3}", "matrices, (2, 1) blocks"),
    wrong("m8n8.x4.trans.shared.b16 {%0, %1,", "m8n8.x4.trans.shared.b16 {%1, %0,", "matrices, (2, 1) blocks"),
    wrong("\"f\"(high), \"f\"(low)", "\"f\"(low), \"f\"(high)", "pairs, (64, 1) blocks: buffer 0: number"),
    wrong("cvt.rn.bf16x2", "cvt.rz.bf16x2", "unknown instruction cvt.rz.bf16x2.f32 in `cvt.rz.bf16x2.f32 %r"),
    wrong("ex2.approx.ftz", "ex2.approx", "powers, (256, 1) blocks: buffer 0: number"),
    wrong("{%4, %5, %6, %7}", "{%4, %6, %5, %7}", "matrices, (2, 1) blocks"),
    wrong("{%8, %9}", "{%9, %8}", "matrices, (2, 1) blocks"),
    wrong("{%0, %1, %2, %3};", "{%0, %1, %3, %2};", "matrices, (2, 1) blocks"),
    wrong("wait_group %0", "wait_group 1", "copies, (1, 1) blocks: buffer 0: number"),
    wrong("wait_group %0", "wait_all", "unknown instruction cp.async.wait_all in"),
    wrong("cp.async.commit_group;", "", "copies, (1, 1) blocks: buffer 0: number"),
    wrong("16, %2;", "16;", "copies, (1, 1) blocks: buffer 0: number"),
    wrong("\"r\"(there ? CHUNK_BYTES : 0u)", "\"r\"(CHUNK_BYTES / 2)", "copies, (1, 1) blocks: buffer 0: number"),
    wrong("__cvta_generic_to_shared(shared)", "reinterpret_cast<size_t>(shared) + 8", "is no multiple of 16 bytes"),
];

#[test]
fn wrong_assembly_is_found() {
    let Some(compiler) = compiler() else { return };
    for WrongAssembly { was, becomes, message } in WRONG {
        let mut sources = wrappers();
        let (_, text) = sources.headers.iter_mut().find(|(name, _)| name == "mma.cuh").expect("a header");
        assert_eq!(text.matches(was).count(), 1, "{was}");
        *text = text.replace(was, becomes);
        let found = WrapperTrial::new(compiler, &sources, 90).and_then(|trial| check_wrappers(&trial));
        let Err(found) = found else { panic!("{was} -> {becomes}: not found") };
        assert!(found.contains(message), "{was} -> {becomes}: {found}");
        eprintln!("{was} -> {becomes}: {found}");
    }
}
