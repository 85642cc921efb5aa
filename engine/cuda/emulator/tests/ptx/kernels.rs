//! All kernels in PTX and in C++, launch by launch on the same memory, in the device's conformance cases and in others.
//!
//! Without contraction of products and sums NVRTC's code has the bits of the C++ compiler's, but for the functions of
//! the C library: exponentials, hyperbolic tangents and error functions. The code that is shipped is contracted, and is
//! held to a tolerance.

use crate::{PLAIN, SHIPPED, compiler, emulator, exactly};
use hopeval_cuda::Cuda;
use hopeval_cuda::kernels::{FAMILIES, Kernel};
use hopeval_cuda::runtime::{ElementType, KernelArgument, KernelLaunch, Runtime as _};
use hopeval_cuda_emulator::KernelSources;
use hopeval_cuda_emulator::ptx::{
    ComparedRuntime, KernelComparison, NumberTolerance, PtxCompiler, PtxModule, PtxOptions,
};
use hopeval_device::conformance::{Arithmetic, Operation, check};
use hopeval_device::{
    Activation, Attention, AttentionBias, AttentionMask, Device, DeviceError, DisentangledBias, DistanceBuckets,
    Epilogue, HostTensor, Packing, TensorColumns, TokenRule, WeightLayout,
};
use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::sync::Arc;

/// Operations whose conformance cases are small. Products and attention have work of their own below.
const CONFORMING: [Operation; 8] = [
    Operation::Embed,
    Operation::Norm,
    Operation::NormGroups,
    Operation::Gate,
    Operation::Rotate,
    Operation::Gather,
    Operation::Scatter,
    Operation::Average,
];

/// The type of the numbers that a kernel writes.
fn written(kernel: &str) -> ElementType {
    let tensor_cores = kernel.starts_with("attention_") && !kernel.starts_with("attention_plain");
    let halves = (kernel.ends_with("_bf16") || tensor_cores) && !kernel.starts_with("average");
    if halves { ElementType::Bf16 } else { ElementType::F32 }
}

/// The same bits, but where functions of the C library are called.
fn plain_tolerance(kernel: &str) -> NumberTolerance {
    let exact = exactly(written(kernel));
    match kernel {
        "gate_f32" | "finish_f32" | "attention_plain_f32" => NumberTolerance { units: 16, absolute: 1e-6, ..exact },
        "gate_bf16" | "finish_bf16" | "attention_plain_bf16" => NumberTolerance { units: 1, absolute: 1e-6, ..exact },
        _ => exact,
    }
}

/// Roundings of `f32` that are left out, or one of bf16 that goes the other way.
fn shipped_tolerance(kernel: &str) -> NumberTolerance {
    let exact = exactly(written(kernel));
    let within = |units, absolute| NumberTolerance { units, absolute, ..exact };
    // Nothing is contracted in these, or a fused operation is the only one.
    let uncontracted = ["embed", "gather", "scatter", "round", "average", "product", "log_probs", "highest"];
    // Sums of f64, of which all are rounded to f32 and the token must not differ.
    let rounded = kernel.starts_with("draw");
    match exact.element {
        _ if rounded || uncontracted.iter().any(|name| kernel.starts_with(name)) => exact,
        // Weights of keys are rounded to bf16.
        ElementType::Bf16 if kernel.starts_with("attention") => within(2, 2e-3),
        ElementType::Bf16 => within(1, 1e-5),
        ElementType::F32 => within(16, 2e-6),
    }
}

/// The PTX of all kernels.
fn compile_kernels(
    compiler: &PtxCompiler,
    sources: &KernelSources,
    options: PtxOptions,
) -> Arc<HashMap<String, PtxModule>> {
    let module = |family: &str| {
        let text = compiler.compile(sources, family, options).unwrap_or_else(|error| panic!("{error}"));
        PtxModule::parse(&text).unwrap_or_else(|error| panic!("{family}.cu: {error}"))
    };
    let families = sources.families.iter().map(|family| family.name.as_str());
    Arc::new(families.map(|family| (family.to_owned(), module(family))).collect())
}

/// Sine waves.
fn numbers(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|i| 3.0 * (i as f32 * step).sin()).collect()
}

type ComparedDevice = Cuda<ComparedRuntime>;

fn matrix(
    device: &ComparedDevice,
    rows: usize,
    columns: usize,
    step: f32,
) -> Result<<ComparedDevice as Device>::Matrix, DeviceError> {
    let host = HostTensor::from_f32("weight", &[rows, columns], &numbers(rows * columns, step));
    device.load_matrix(&[host], WeightLayout::OutIn)
}

/// Products of a size for the library and of another, with each epilogue that a kernel has to finish.
fn multiply(device: &ComparedDevice) -> Result<(), DeviceError> {
    for (rows, inner, outputs) in [(3, 16, 264), (35, 33, 17)] {
        let x = device.upload(rows, inner, &numbers(rows * inner, 0.7))?;
        let weight = matrix(device, outputs, inner, 0.3)?;
        let bias = device.load_vector(&[HostTensor::from_f32("bias", &[outputs], &numbers(outputs, 1.1))])?;
        let residual = device.upload(rows, outputs, &numbers(rows * outputs, 0.9))?;
        for activation in [
            Activation::Identity,
            Activation::Relu,
            Activation::Gelu,
            Activation::GeluTanh,
            Activation::Silu,
            Activation::Tanh,
        ] {
            for epilogue in
                [Epilogue::default(), Epilogue::bias(Some(&bias)), Epilogue::bias(Some(&bias)).residual(&residual)]
            {
                device.linear(&x, &weight, epilogue.activation(activation))?;
            }
        }
    }
    Ok(())
}

/// Logits of a size for a kernel, and averages of a text, which are `f32`, as rows of the device's own numbers.
fn convert(device: &ComparedDevice) -> Result<(), DeviceError> {
    let x = device.upload(9, 33, &numbers(9 * 33, 0.7))?;
    device.project(&x, &matrix(device, 5, 33, 0.3)?, None, 0.5)?;
    let mut rows = device.reserve(3, 33)?;
    let averages = device.average(&x, &[0, 4, 9])?;
    device.scatter(&mut rows, &[2, 0], TensorColumns { tensor: &averages, start: 0 })
}

/// Two tiles of the vocabulary, two temperatures, the highest tokens, and some that are drawn in each way.
fn score(device: &ComparedDevice) -> Result<(), DeviceError> {
    let (words, inner) = (8195, 8);
    let weight = matrix(device, words, inner, 0.7)?;
    let x = device.upload(2, inner, &numbers(2 * inner, 0.4))?;
    device.log_probs(&x, &weight, None, 1.0, &[3, 8194], &[1.0, 0.7])?;
    device.next_tokens(&x, &weight, None, 0.5, &[TokenRule::Highest; 2])?;
    let bias = device.load_vector(&[HostTensor::from_f32("bias", &[words], &numbers(words, 1.1))])?;
    for (top_k, top_p, bias) in [(0, 1.0, None), (40, 1.0, Some(&bias)), (0, 0.6, None), (500, 0.3, Some(&bias))] {
        let rule = |at| TokenRule::Drawn { temperature: 0.8, top_k, top_p, at };
        device.next_tokens(&x, &weight, bias, 0.5, &[0.2, 0.93].map(rule))?;
    }
    Ok(())
}

/// Numbers of two lists that differ in one place, or nowhere, as the driver compares results of algorithms.
fn compare_results(device: &ComparedDevice) -> Result<(), DeviceError> {
    let runtime = device.runtime();
    let family = FAMILIES.iter().find(|family| family.name == "rows").expect("a family");
    let kernel = Kernel { family, name: "find_differences" };
    let mut list = numbers(4 * 700, 0.7);
    let bytes = |list: &[f32]| list.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    let first = runtime.upload(&bytes(&list))?;
    list[4 * 513 + 3] = 0.0;
    let second = runtime.upload(&bytes(&list))?;
    for (other, expected) in [(&first, [0, 0]), (&second, [1, 0])] {
        let found = runtime.allocate(8)?;
        let arguments = [KernelArgument::Buffer(&found), KernelArgument::Buffer(&first), KernelArgument::Buffer(other)];
        let launch = KernelLaunch { kernel, grid: (2, 1), threads: 256, shared: 0 };
        runtime.launch(launch, &[&arguments[..], &[KernelArgument::U32(700)]].concat())?;
        let mut into = [0xff; 8];
        runtime.download(&found, &mut into)?;
        assert_eq!(into, [expected[0], 0, 0, 0, expected[1], 0, 0, 0]);
    }
    Ok(())
}

/// Heads of each size, with each kind of bias and mask, over several tiles of queries and keys, in short blocks, and as
/// steps of two heads with the same keys.
fn attend(device: &ComparedDevice, head_dims: &[usize]) -> Result<(), DeviceError> {
    let heads = 2;
    let buckets = DistanceBuckets::Log { span: 40, max_position: 120 };
    let mut short = Packing::new();
    short.push(20, [(0, 70)]);
    short.push(3, [(70, 9)]);
    let long = Packing::of_lengths([70, 9]);
    let mut steps = Packing::new();
    steps.push(1, [(0, 70)]);
    steps.push(1, [(70, 9)]);
    for &head_dim in head_dims {
        let width = heads * head_dim;
        let fused = device.upload(long.rows(), 3 * width, &numbers(long.rows() * 3 * width, 0.7))?;
        let [keys, queries] = [0.3, 0.9]
            .map(|step| device.upload(buckets.table_rows(), width, &numbers(buckets.table_rows() * width, step)));
        let (keys, queries) = (keys?, queries?);
        let table = matrix(device, buckets.table_rows(), heads, 1.1)?;
        let disentangled = |position_keys, position_queries| {
            AttentionBias::Disentangled(DisentangledBias { position_keys, position_queries, buckets })
        };
        let (full, causal, window) = (AttentionMask::Full, AttentionMask::Causal, AttentionMask::Window(20));
        let mut kinds = vec![
            (AttentionBias::None, full),
            (AttentionBias::None, causal),
            (AttentionBias::None, window),
            (AttentionBias::Relative { table: &table, buckets }, full),
        ];
        if head_dim <= 64 {
            kinds.extend([(disentangled(Some(&keys), None), full), (disentangled(Some(&keys), Some(&queries)), full)]);
        }
        for (bias, mask) in kinds {
            let packing = &long;
            let mut attention = Attention { heads, kv_heads: heads, head_dim, scale: 0.1, mask, bias, packing };
            let at = |start| TensorColumns { tensor: &fused, start };
            device.attention(at(0), at(width), at(2 * width), &attention)?;
            attention.packing = &short;
            device.attention(at(0), at(width), at(2 * width), &attention)?;
            attention.packing = &steps;
            attention.kv_heads = 1;
            device.attention(at(0), at(width), at(2 * width), &attention)?;
        }
    }
    Ok(())
}

/// Runs all kernels of one arithmetic, and returns their comparisons.
fn compare_kernels(
    arithmetic: Arithmetic,
    modules: &Arc<HashMap<String, PtxModule>>,
    tolerance: fn(&str) -> NumberTolerance,
) -> BTreeMap<&'static str, KernelComparison> {
    let runtime = ComparedRuntime::new(emulator(KernelSources::device_kernels()), Arc::clone(modules), tolerance);
    let device = Cuda::new(runtime, arithmetic);
    for operation in CONFORMING {
        check(&device, arithmetic, operation).unwrap_or_else(|error| panic!("{error}: {:?}", error.source()));
    }
    let head_dims: &[usize] = if arithmetic == Arithmetic::Bf16 { &[32, 64, 96, 128, 136, 12] } else { &[12, 64] };
    multiply(&device)
        .and_then(|()| convert(&device))
        .and_then(|()| score(&device))
        .and_then(|()| compare_results(&device))
        .and_then(|()| attend(&device, head_dims))
        .unwrap_or_else(|error| panic!("{error}"));
    device.runtime().comparisons()
}

fn report(comparisons: &BTreeMap<&'static str, KernelComparison>) {
    for (kernel, KernelComparison { launches, bytes, differing, units }) in comparisons {
        eprintln!("{kernel}: {launches} launches, {bytes} bytes, {differing} numbers differ, by {units} units at most");
    }
}

#[test]
fn kernels_have_the_emulators_bits() {
    let Some(compiler) = compiler() else { return };
    let sources = KernelSources::device_kernels();
    let modules = compile_kernels(compiler, &sources, PLAIN);
    let mut all = BTreeMap::new();
    for arithmetic in [Arithmetic::F32, Arithmetic::Bf16] {
        let compared = compare_kernels(arithmetic, &modules, plain_tolerance);
        report(&compared);
        all.extend(compared);
    }
    let kernels = sources.families.iter().flat_map(|family| &family.kernels);
    let missing: Vec<_> = kernels.filter(|kernel| !all.contains_key(kernel.as_str())).collect();
    assert!(missing.is_empty(), "not run: {missing:?}");
}

#[test]
fn shipped_kernels_are_within_the_tolerance() {
    let Some(compiler) = compiler() else { return };
    let modules = compile_kernels(compiler, &KernelSources::device_kernels(), SHIPPED);
    for arithmetic in [Arithmetic::F32, Arithmetic::Bf16] {
        report(&compare_kernels(arithmetic, &modules, shipped_tolerance));
    }
}

/// A change of a kernel in what NVRTC reads, and the kernel that differs.
const CHANGED: [(&str, &str, &str, &str); 4] = [
    ("rotary", "left * cosine - right * sine", "left * cosine + right * sine", "rotate_f32, "),
    ("norm", "if (number >= count) return;", "if (number > count) return;", "norm_short_f32, "),
    ("prelude", "step /= 2) x += ", "step /= 4) x += ", "norm_f32, "),
    ("pool", "static_cast<float>(end - first)", "static_cast<float>(end - first + 1)", "average_f32, "),
];

#[test]
fn a_changed_kernel_is_found() {
    let Some(compiler) = compiler() else { return };
    for (file, was, becomes, kernel) in CHANGED {
        let mut sources = KernelSources::device_kernels();
        let families = sources.families.iter_mut().map(|family| (family.name.as_str(), &mut family.text));
        let headers = sources.headers.iter_mut().map(|(name, text)| (name.trim_end_matches(".cuh"), text));
        let (_, text) = families.chain(headers).find(|(name, _)| *name == file).expect("a file");
        assert_eq!(text.matches(was).count(), 1, "{file}: {was}");
        *text = text.replace(was, becomes);
        sources.families.retain(|family| ["norm", "pool", "rotary"].contains(&family.name.as_str()));
        let modules = compile_kernels(compiler, &sources, PLAIN);
        let runtime = ComparedRuntime::new(emulator(KernelSources::device_kernels()), modules, plain_tolerance);
        let device = Cuda::new(runtime, Arithmetic::F32);
        let operations = [Operation::Norm, Operation::Rotate, Operation::Average];
        let failures = operations.map(|operation| check(&device, Arithmetic::F32, operation).err());
        let found = failures.iter().flatten().filter_map(|failure| failure.source().map(ToString::to_string));
        let found: Vec<String> = found.filter(|reason| reason.contains(kernel)).collect();
        assert!(!found.is_empty(), "{file}: {becomes}: {failures:?}");
        eprintln!("{file}: {becomes}: {}", found[0]);
    }
}
