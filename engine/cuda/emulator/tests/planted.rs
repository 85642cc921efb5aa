//! Faults planted in copies of the kernels are found: a missing barrier, and an index beside its array.
//!
//! Every `__syncthreads()`, `__syncwarp()` and wait for copies is left out in turn. A fault is found if an operation
//! fails, differs from the reference, or gives other bits than the unchanged kernels, in one of two orders of threads.
//! Indices are planted in four places: a load and a store, of a buffer and of shared memory; the sanitizer must name
//! the line.
//!
//! Here no test can detect the absence of one barrier of `attention.cu`: see `UNSEEN`.

#![expect(clippy::print_stderr, reason = "a log says how each fault was found, and a test that is skipped says so")]

use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, EmulatorOptions, KernelSources, ThreadOrder, sanitizer};
use hopeval_device::conformance::{Arithmetic, Operation, check};
use hopeval_device::{
    Attention, AttentionBias, AttentionMask, Device, DeviceError, DisentangledBias, DistanceBuckets, Epilogue,
    HostTensor, Packing, TensorColumns, WeightLayout,
};
use std::error::Error;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Barriers of threads, and waits for their own copies.
const BARRIERS: [&str; 3] = ["__syncthreads();", "__syncwarp();", "copy_wait<0>();"];

/// The text behind a barrier whose absence cannot be detected here: lanes wait for each other in the products with
/// positions before they store. On a GPU those products promise nothing about memory.
const UNSEEN: [&str; 1] = ["__syncwarp();\n            }\n            if (o.position_queries != nullptr) {"];

/// Work for a family's kernels.
type Exercise = fn(&Cuda<Emulator>) -> Result<(), String>;

/// An error with its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error: &&dyn Error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn conforms(operation: Operation) -> impl Fn(&Cuda<Emulator>) -> Result<(), String> {
    move |device| check(device, Arithmetic::F32, operation).map(|_| ()).map_err(|failure| chain(&failure))
}

fn exercise(family: &str) -> Exercise {
    match family {
        "norm" => |device| conforms(Operation::Norm)(device),
        "log_probs" => |device| conforms(Operation::LogProbs)(device),
        "product" => |device| product(device).map_err(|failure| chain(&failure)),
        "attention" => |device| attention(device).map_err(|failure| chain(&failure)),
        other => panic!("{other}.cu has a barrier, and no exercise here that would miss it"),
    }
}

/// Products over several tiles in each direction, none of them full, and one of a single number.
fn product(device: &Cuda<Emulator>) -> Result<(), DeviceError> {
    for (rows, inner, outputs) in [(1, 1, 1), (3, 33, 17), (40, 70, 50)] {
        let numbers = |count: usize, step: f32| (0..count).map(|i| (i as f32 * step).sin()).collect::<Vec<_>>();
        let x = device.upload(rows, inner, &numbers(rows * inner, 0.7))?;
        let weight = HostTensor::from_f32("weight", &[outputs, inner], &numbers(outputs * inner, 0.3));
        let weight = device.load_matrix(&[weight], WeightLayout::OutIn)?;
        device.read_tensor(&device.linear(&x, &weight, Epilogue::default())?)?;
    }
    Ok(())
}

/// Heads of 32 numbers, with each kind of bias, over several tiles of queries and keys.
fn attention(device: &Cuda<Emulator>) -> Result<(), DeviceError> {
    let (heads, head_dim) = (2, 32);
    let buckets = DistanceBuckets::Log { span: 40, max_position: 120 };
    let packing = Packing::of_lengths([150, 70]);
    let numbers = |count: usize, step: f32| (0..count).map(|i| (i as f32 * step).sin()).collect::<Vec<_>>();
    let fused = device.upload(packing.rows(), 3 * 64, &numbers(packing.rows() * 3 * 64, 0.7))?;
    let [keys, queries] =
        [0.3, 0.9].map(|step| device.upload(buckets.table_rows(), 64, &numbers(buckets.table_rows() * 64, step)));
    let (keys, queries) = (keys?, queries?);
    let table =
        HostTensor::from_f32("table", &[buckets.table_rows(), heads], &numbers(buckets.table_rows() * heads, 1.1));
    let table = device.load_matrix(&[table], WeightLayout::OutIn)?;
    let disentangled = |position_keys, position_queries| {
        AttentionBias::Disentangled(DisentangledBias { position_keys, position_queries, buckets })
    };
    let biases = [
        AttentionBias::None,
        AttentionBias::Relative { table: &table, buckets },
        disentangled(Some(&keys), None),
        disentangled(Some(&keys), Some(&queries)),
    ];
    for bias in biases {
        let attention = Attention {
            heads,
            kv_heads: heads,
            head_dim,
            scale: 0.5,
            mask: AttentionMask::Full,
            bias,
            packing: &packing,
        };
        let at = |start| TensorColumns { tensor: &fused, start };
        device.read_tensor(&device.attention(at(0), at(64), at(128), &attention)?)?;
    }
    Ok(())
}

/// The kernels launched by the exercise of a family; those of attention in part.
fn sources_for(family: &str) -> KernelSources {
    let launched: &[&str] = match family {
        "log_probs" => &["log_probs", "product", "rows"],
        "product" => &["product", "activation"],
        "attention" => &["attention"],
        other => &[other],
    };
    let mut sources = KernelSources::device_kernels();
    sources.families.retain(|source| launched.contains(&source.name.as_str()));
    for source in sources.families.iter_mut().filter(|source| source.name == "attention") {
        source.kernels.retain(|kernel| kernel.ends_with("_32"));
    }
    sources
}

/// The text of a file of `sources`.
fn file<'a>(sources: &'a mut KernelSources, name: &str) -> &'a mut String {
    let headers = sources.headers.iter_mut().map(|(name, text)| (name.clone(), text));
    let families = sources.families.iter_mut().map(|family| (format!("{}.cu", family.name), &mut family.text));
    headers.chain(families).find(|(found, _)| found == name).map(|(_, text)| text).expect("a file of kernels")
}

/// The exercise's result with these kernels, or its failure.
fn outcome(sources: &KernelSources, family: &str, order: ThreadOrder) -> Result<String, String> {
    let options = EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")).order(order);
    let arithmetic = if family == "attention" { Arithmetic::Bf16 } else { Arithmetic::F32 };
    let device = Cuda::new(
        Emulator::new(EmulatorOptions { sources: sources.clone(), ..options }).expect("kernels that compile"),
        arithmetic,
    );
    exercise(family)(&device)?;
    Ok(device.runtime().digest())
}

/// The mutant for this process, and the result of the unchanged kernels.
fn planted() -> Option<(usize, String)> {
    let which = std::env::var("PLANTED").ok()?;
    Some((which.parse().expect("a number"), std::env::var("EXPECTED").unwrap_or_default()))
}

/// Ends with a message if the mutant is found.
fn find(mutant: &KernelSources, family: &str, expected: &str) {
    for order in [ThreadOrder::Ascending, ThreadOrder::Descending] {
        match outcome(mutant, family, order) {
            Ok(digest) if digest == expected => {}
            Ok(_) => panic!("{order:?}: other bits"),
            Err(message) => panic!("{order:?}: {message}"),
        }
    }
}

/// Leaves out the barriers of one file, each in turn, as included by one family. Mutants run in processes of their own:
/// without a barrier a number may be read as an index to anywhere.
fn every_barrier_counts(test: &str, name: &str, family: &str) {
    let sources = sources_for(family);
    let text = file(&mut sources.clone(), name).clone();
    let barriers = BARRIERS.iter().flat_map(|barrier| text.match_indices(barrier)).collect::<Vec<_>>();
    if let Some((which, expected)) = planted() {
        let (at, barrier) = barriers[which];
        let mut mutant = sources;
        file(&mut mutant, name).replace_range(at..at + barrier.len(), ";");
        return find(&mutant, family, &expected);
    }
    let [expected, descending] = [ThreadOrder::Ascending, ThreadOrder::Descending]
        .map(|order| outcome(&sources, family, order).unwrap_or_else(|e| panic!("{order:?}: {e}")));
    assert_eq!(expected, descending, "the unchanged kernels do not depend on the order of threads");
    // A mutant at a time for each core: one test alone would keep the other core waiting.
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    let search = || {
        while let Some((which, (at, barrier))) = barriers.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            let fault = format!("{name}:{} without {barrier} in {family}.cu", text[..*at].matches('\n').count() + 1);
            match found_by(test, which, &expected, &fault) {
                Some(how) => eprintln!("{fault}: {how}"),
                None if UNSEEN.iter().any(|unseen| text[*at..].starts_with(unseen)) => {
                    eprintln!("{fault}: cannot be seen here");
                }
                None => missed.lock().expect("no search panicked").push(fault),
            }
        }
    };
    let searches = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..searches).for_each(|_| _ = scope.spawn(search)));
    let missed = missed.into_inner().expect("no search panicked");
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// The symptom by which this test, in another process, found a mutant; `None` without any.
fn found_by(test: &str, which: usize, expected: &str, fault: &str) -> Option<String> {
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    again.args(["--exact", test, "--nocapture"]).env("PLANTED", which.to_string()).env("EXPECTED", expected);
    let ran = again.env("RUST_BACKTRACE", "0").output().expect("this test again");
    let report = String::from_utf8_lossy(&ran.stderr);
    let how = report.lines().find(|line| line.contains("cending: ")).map(String::from);
    // There is no exit code: a signal ended it.
    let how = how.or_else(|| ran.status.code().is_none().then(|| ran.status.to_string()));
    assert!(how.is_some() != ran.status.success(), "{fault}: {}\n{report}", ran.status);
    how
}

#[test]
fn barriers_of_reductions() {
    every_barrier_counts("barriers_of_reductions", "prelude.cuh", "log_probs");
}

#[test]
fn barriers_of_products() {
    every_barrier_counts("barriers_of_products", "product.cu", "product");
}

#[test]
fn barriers_of_attention() {
    every_barrier_counts("barriers_of_attention", "attention.cu", "attention");
}

/// Barriers stand only where the tests above look.
#[test]
fn every_file_with_a_barrier_is_tested() {
    let KernelSources { headers, families } = KernelSources::device_kernels();
    let families = families.into_iter().map(|family| (format!("{}.cu", family.name), family.text));
    let with = headers.into_iter().chain(families);
    let with = with.filter(|(_, text)| BARRIERS.iter().any(|barrier| text.contains(barrier)));
    assert_eq!(with.map(|(name, _)| name).collect::<Vec<_>>(), ["prelude.cuh", "product.cu", "attention.cu"]);
}

/// An index changed to one array further.
struct Index {
    file: &'static str,
    family: &'static str,
    /// Occurs once in the file.
    was: &'static str,
    becomes: &'static str,
    report: &'static str,
}

const INDICES: [Index; 5] = [
    Index {
        file: "norm.cu",
        family: "norm",
        was: "sum += to_float(some.at[i]);",
        becomes: "sum += to_float(some.at[i]) + to_float(from[part + parts].at[i]);",
        report: "READ of size",
    },
    Index {
        file: "norm.cu",
        family: "norm",
        was: "to[part] = done;",
        becomes: "to[part + 1] = done;",
        report: "WRITE of size",
    },
    Index {
        file: "prelude.cuh",
        family: "norm",
        was: "x = warp_sum(threadIdx.x % WARP < blockDim.x / WARP ? scratch[threadIdx.x % WARP] : 0.0f);",
        becomes: "x = warp_sum(scratch[threadIdx.x % WARP + 1]);",
        report: "READ of size 4",
    },
    Index {
        file: "product.cu",
        family: "product",
        was: "const float factor = right[across * PITCH + k];",
        becomes: "const float factor = right[(across + 1) * PITCH + k];",
        report: "index 1056 out of bounds for type 'float [1056]'",
    },
    Index {
        file: "product.cu",
        family: "product",
        was: "            left[line * PITCH + across] =",
        becomes: "            (&left[0])[(line + 1) * PITCH + across] =",
        report: "WRITE of size 4",
    },
];

#[test]
fn indices() {
    if sanitizer::is_loaded() {
        let (which, _) = planted().unwrap();
        let Index { file: name, family, was, becomes, .. } = &INDICES[which];
        let mut sources = sources_for(family);
        let text = file(&mut sources, name);
        *text = text.replace(was, becomes);
        let options = EmulatorOptions { sources, sanitized: true, ..EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")) };
        // The process ends here.
        exercise(family)(&Cuda::new(Emulator::new(options).unwrap(), Arithmetic::F32)).unwrap();
        return;
    }
    for (which, Index { file: name, family, was, report, .. }) in INDICES.iter().enumerate() {
        let mut sources = sources_for(family);
        let text = file(&mut sources, name);
        assert_eq!(text.matches(was).count(), 1, "{name}: {was}");
        let line = text[..text.find(was).unwrap()].matches('\n').count() + 1;
        let Some(ran) = sanitizer::run_again("indices", &[("PLANTED", &which.to_string())]) else {
            eprintln!("SKIPPED: indices: the C++ compiler has no address sanitizer, or it does not start here");
            return;
        };
        let found = String::from_utf8_lossy(&ran.stderr);
        let place = format!("{name}:{line}");
        assert!(
            !ran.status.success() && found.contains(report) && found.contains(&place),
            "{place}: {}\n{found}",
            ran.status
        );
        let lines = found.lines().filter(|text| text.contains(&place) || text.contains("Sanitizer:"));
        eprintln!("{}", lines.take(2).collect::<Vec<_>>().join("\n"));
    }
}
