//! Faults planted in copies of the kernels are found: a missing barrier, and an index beside its array.
//!
//! Every `__syncthreads()`, `__syncwarp()` and wait for copies is left out in turn. A fault is found if an operation
//! fails, differs from the reference, or gives other bits than the unchanged kernels, in one of two orders of threads.
//! Indices are planted in four places: a load and a store, of a buffer and of shared memory; the sanitizer must name
//! the line.
//!
//! A shuffle or a vote lets lanes wait for each other, and orders no memory on a GPU. In place of a barrier it is found
//! by thread sanitizer alone, which must find nothing in the unchanged kernels.

#![expect(clippy::print_stderr, reason = "a log says how each fault was found, and a test that is skipped says so")]

use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, EmulatorOptions, KernelSources, Sanitizer, ThreadOrder};
use hopeval_device::conformance::{Arithmetic, Operation, check};
use hopeval_device::{
    Attention, AttentionBias, AttentionMask, Device, DeviceError, DisentangledBias, DistanceBuckets, Epilogue,
    HostTensor, Norm, Packing, TensorColumns, TokenRule, WeightLayout,
};
use std::error::Error;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Barriers of threads, and waits for their own copies.
const BARRIERS: [&str; 3] = ["__syncthreads();", "__syncwarp();", "copy_wait<0>();"];

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
        "draw" => |device| draw(device).map_err(|failure| chain(&failure)),
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

/// Tokens drawn in each way from a few words more than a block has threads.
fn draw(device: &Cuda<Emulator>) -> Result<(), DeviceError> {
    let (words, inner) = (696, 8);
    let numbers = |count: usize, step: f32| (0..count).map(|i| 3.0 * (i as f32 * step).sin()).collect::<Vec<_>>();
    let weight = HostTensor::from_f32("weight", &[words, inner], &numbers(words * inner, 0.3));
    let weight = device.load_matrix(&[weight], WeightLayout::OutIn)?;
    let bias = device.load_vector(&[HostTensor::from_f32("bias", &[words], &numbers(words, 1.1))])?;
    let rule = |(top_k, top_p, at)| TokenRule::Drawn { temperature: 2.0, top_k, top_p, at };
    let rules = [(0, 1.0, 0.7), (30, 1.0, 0.2), (0, 0.8, 0.5), (200, 0.5, 0.9)].map(rule);
    let x = device.upload(rules.len(), inner, &numbers(rules.len() * inner, 0.7))?;
    device.next_tokens(&x, &weight, Some(&bias), 0.1, &rules)?;
    Ok(())
}

/// Heads of 32 numbers, with each kind of bias, over several tiles of queries and keys, and in short blocks.
fn attention(device: &Cuda<Emulator>) -> Result<(), DeviceError> {
    let (heads, head_dim) = (2, 32);
    let buckets = DistanceBuckets::Log { span: 40, max_position: 120 };
    let mut short = Packing::new();
    short.push(20, [(0, 150)]);
    short.push(7, [(150, 70)]);
    let packings = [Packing::of_lengths([150, 70]), short];
    let numbers = |count: usize, step: f32| (0..count).map(|i| (i as f32 * step).sin()).collect::<Vec<_>>();
    let fused = device.upload(220, 3 * 64, &numbers(220 * 3 * 64, 0.7))?;
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
        let [long, short] = &packings;
        let mask = AttentionMask::Full;
        let mut attention = Attention { heads, kv_heads: heads, head_dim, scale: 0.5, mask, bias, packing: long };
        let at = |start| TensorColumns { tensor: &fused, start };
        device.read_tensor(&device.attention(at(0), at(64), at(128), &attention)?)?;
        attention.packing = short;
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
fn barriers_of_draws() {
    every_barrier_counts("barriers_of_draws", "draw.cu", "draw");
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
    assert_eq!(
        with.map(|(name, _)| name).collect::<Vec<_>>(),
        ["prelude.cuh", "product.cu", "draw.cu", "attention.cu"]
    );
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
    if Sanitizer::Address.is_loaded() {
        let (which, _) = planted().unwrap();
        let Index { file: name, family, was, becomes, .. } = &INDICES[which];
        let mut sources = sources_for(family);
        let text = file(&mut sources, name);
        *text = text.replace(was, becomes);
        let options = EmulatorOptions {
            sources,
            sanitizer: Some(Sanitizer::Address),
            ..EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"))
        };
        // The process ends here.
        exercise(family)(&Cuda::new(Emulator::new(options).unwrap(), Arithmetic::F32)).unwrap();
        return;
    }
    for (which, Index { file: name, family, was, report, .. }) in INDICES.iter().enumerate() {
        let mut sources = sources_for(family);
        let text = file(&mut sources, name);
        assert_eq!(text.matches(was).count(), 1, "{name}: {was}");
        let line = text[..text.find(was).unwrap()].matches('\n').count() + 1;
        let Some(ran) = Sanitizer::Address.run_again("indices", &[("PLANTED", &which.to_string())]) else {
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

/// Work for the kernels of a family that takes seconds with thread sanitizer.
fn short_exercise(family: &str) -> Exercise {
    match family {
        "norm" => |device| norm(device).map_err(|failure| chain(&failure)),
        "log_probs" => |device| log_probs(device).map_err(|failure| chain(&failure)),
        other => exercise(other),
    }
}

/// Rows of a warp and of a block each, with and without a mean.
fn norm(device: &Cuda<Emulator>) -> Result<(), DeviceError> {
    for columns in [64, 1003, 8192] {
        let numbers = (0..3 * columns).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<_>>();
        let x = device.upload(3, columns, &numbers)?;
        let weight = device.load_vector(&[HostTensor::from_f32("weight", &[columns], &numbers[..columns])])?;
        let (weight, bias) = (&weight, &weight);
        device.read_tensor(&device.norm(&x, Norm::Layer { weight, bias, eps: 1e-5 })?)?;
        device.read_tensor(&device.norm(&x, Norm::Rms { weight, eps: 1e-5 })?)?;
    }
    Ok(())
}

/// Two tiles of the vocabulary, two temperatures.
fn log_probs(device: &Cuda<Emulator>) -> Result<(), DeviceError> {
    let (words, inner) = (8195, 8);
    let numbers = (0..words * inner).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<_>>();
    let weight =
        device.load_matrix(&[HostTensor::from_f32("weight", &[words, inner], &numbers)], WeightLayout::OutIn)?;
    let x = device.upload(2, inner, &numbers[..2 * inner])?;
    device.log_probs(&x, &weight, None, 1.0, &[3, 8194], &[1.0, 0.7])?;
    Ok(())
}

/// A change after which no barrier orders two accesses, though the threads still wait for each other between them.
struct Race {
    file: &'static str,
    family: &'static str,
    /// Occurs once in the file.
    was: &'static str,
    becomes: &'static str,
    /// The line of one of the two accesses.
    access: &'static str,
    /// The file of that line.
    within: &'static str,
}

const RACES: [Race; 5] = [
    // Every lane has come to the vote, but its stores need not have come anywhere.
    Race {
        file: "attention.cu",
        family: "attention",
        was: "__syncwarp();",
        becomes: "__any_sync(EVERY_LANE, 1);",
        access: "line[n * 4] = round_pair(sums[n][2 * h] * factor",
        within: "attention.cu",
    },
    // A copy is there for the others after a barrier that follows its wait.
    Race {
        file: "attention.cu",
        family: "attention",
        was: "copy_wait<0>();\n            __syncthreads();\n            if (more) {",
        becomes: "__syncthreads();\n            copy_wait<0>();\n            if (more) {",
        access: "const uint4 mine = *reinterpret_cast<const uint4*>(row);",
        within: "mma.cuh",
    },
    Race {
        file: "attention.cu",
        family: "attention",
        was: "copy_wait<0>();\n        __syncthreads();\n        if (STAGES == 1) {",
        becomes: "__syncthreads();\n        copy_wait<0>();\n        if (STAGES == 1) {",
        access: "const uint4 mine = *reinterpret_cast<const uint4*>(row);",
        within: "mma.cuh",
    },
    // The first warp's sums are read by the others.
    Race {
        file: "prelude.cuh",
        family: "log_probs",
        was: "if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = x;\n    __syncthreads();\n    x = warp_sum",
        becomes: "if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = x;\n    x = warp_sum",
        access: "x = warp_sum(threadIdx.x % WARP < blockDim.x / WARP ? scratch[threadIdx.x % WARP] : 0.0f);",
        within: "prelude.cuh",
    },
    // Two blocks write the same row of the result.
    Race {
        file: "norm.cu",
        family: "norm",
        was: "norm_group<T, 1>(out + first,",
        becomes: "norm_group<T, 1>(out,",
        access: "to[part] = done;",
        within: "norm.cu",
    },
];

/// The families with barriers, as they are.
const SOUND: [&str; 4] = ["attention", "product", "norm", "log_probs"];

fn raced(race: &Race) -> KernelSources {
    let mut sources = sources_for(race.family);
    let text = file(&mut sources, race.file);
    assert_eq!(text.matches(race.was).count(), 1, "{}: {}", race.file, race.was);
    *text = text.replace(race.was, race.becomes);
    sources
}

/// Runs a family's kernels under thread sanitizer, which ends the process at the first race.
fn run_watched(which: usize) {
    let (sources, family) = match which.checked_sub(SOUND.len()) {
        None => (sources_for(SOUND[which]), SOUND[which]),
        Some(race) => (raced(&RACES[race]), RACES[race].family),
    };
    let arithmetic = if family == "attention" { Arithmetic::Bf16 } else { Arithmetic::F32 };
    let options = EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"));
    let options = EmulatorOptions { sources, sanitizer: Some(Sanitizer::Thread), ..options };
    let device = Cuda::new(Emulator::new(options).expect("kernels that compile"), arithmetic);
    short_exercise(family)(&device).unwrap_or_else(|e| panic!("{e}"));
}

/// The places of `access` in the changed text of its file.
fn places_of(race: &Race) -> Vec<String> {
    let mut sources = raced(race);
    let lines = file(&mut sources, race.within).lines().enumerate();
    let lines = lines.filter(|(_, line)| line.contains(race.access));
    lines.map(|(line, _)| format!("{}:{}", race.within, line + 1)).collect()
}

#[test]
fn races() {
    if Sanitizer::Thread.is_loaded() {
        return run_watched(planted().unwrap().0);
    }
    let watched = |which: usize| {
        let ran = Sanitizer::Thread.run_again("races", &[("PLANTED", &which.to_string())])?;
        Some((ran.status, String::from_utf8_lossy(&ran.stderr).into_owned()))
    };
    for (which, family) in SOUND.iter().enumerate() {
        let Some((status, report)) = watched(which) else {
            eprintln!("SKIPPED: races: the C++ compiler has no thread sanitizer, or it does not start here");
            return;
        };
        assert!(status.success(), "{family}: {status}\n{report}");
    }
    for (which, race) in RACES.iter().enumerate() {
        let places = places_of(race);
        assert!(!places.is_empty(), "{}: {}", race.within, race.access);
        let (status, report) = watched(SOUND.len() + which).expect("it ran before");
        let named = report.contains("data race") && places.iter().any(|place| report.contains(place));
        assert!(!status.success() && named, "{}, {places:?}: {status}\n{report}", race.becomes);
        eprintln!("{}: {}: a race with {}", race.file, race.becomes.replace('\n', ""), places.join(" or "));
    }
}

/// Races need thread sanitizer where threads wait for each other by other means: no order of threads shows this one.
#[test]
fn a_vote_in_place_of_a_barrier_gives_the_same_bits_in_all_orders() {
    let race = &RACES[0];
    for order in [ThreadOrder::Ascending, ThreadOrder::Descending, ThreadOrder::Shuffled(3)] {
        assert_eq!(outcome(&raced(race), race.family, order), outcome(&sources_for(race.family), race.family, order));
    }
}
