//! The driver on a real device: memory, uploads of every way, products against sums in `f64`, and failures.
//!
//! Without a device each test reports that it was skipped. The emulator's tests run all of this over simulated
//! libraries, too. The conformance suite tests `Cuda` on the driver. A device is lost in a process of its own, since
//! its context goes with it.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a panic is the report of a test, and skipping is said")]

use half::bf16;
use hopeval_cuda::driver::{Driver, DriverBuffer};
use hopeval_cuda::energy::EnergyMeter;
use hopeval_cuda::kernels::{FAMILIES, Kernel};
use hopeval_cuda::machine;
use hopeval_cuda::runtime::{ElementType, FusedFunction, KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use hopeval_device::DeviceError;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first device; one test has it at a time, since one of them takes all its memory.
struct Turn {
    driver: Driver,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

fn kernel_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")
}

fn device() -> Option<Turn> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let fit = || machine::describe_device(0)?.unfit.map_or(Ok(()), Err);
    let found = fit().and_then(|()| machine::nvrtc_version().and(machine::cublaslt_version()));
    if let Err(missing) = found {
        eprintln!("SKIPPED: {missing}");
        return None;
    }
    let driver = Driver::open(0, Some(&kernel_cache())).unwrap_or_else(|error| panic!("{error}"));
    Some(Turn { driver, _turn: turn })
}

/// Seeded numbers from -1 to 1, each a bf16 number, and of such different sizes that their sums are rounded.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (((state >> 40) % 255) as f32 / 128.0 - 127.0 / 128.0) / f32::from(1_u16 << (state % 13))
    };
    (0..count).map(|_| next()).collect()
}

fn bytes(numbers: &[f32], element: ElementType) -> Vec<u8> {
    let mut all = Vec::with_capacity(numbers.len() * element.size());
    for &x in numbers {
        match element {
            ElementType::F32 => all.extend_from_slice(&x.to_le_bytes()),
            ElementType::Bf16 => all.extend_from_slice(&bf16::from_f32(x).to_le_bytes()),
        }
    }
    all
}

fn from_bytes(bytes: &[u8], element: ElementType) -> Vec<f32> {
    match element {
        ElementType::F32 => bytes.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect(),
        ElementType::Bf16 => bytes.as_chunks().0.iter().map(|&x| bf16::from_le_bytes(x).to_f32()).collect(),
    }
}

fn download(driver: &Driver, from: &DriverBuffer, bytes: usize) -> Vec<u8> {
    let mut into = vec![0; bytes];
    driver.download(from, &mut into).unwrap();
    into
}

#[test]
fn what_is_uploaded_by_any_way_comes_back() {
    let Some(driver) = device() else { return };
    println!("{}, {}", driver.name(), driver.numerics());
    assert!(!driver.numerics().contains(char::is_whitespace), "{}", driver.numerics());
    let sizes = [0, 1, 4, 255, 64 << 10, (64 << 10) + 1, 300_000, 1 << 20, (1 << 20) + 1, 5_000_000];
    // More parts than there are slots, pending together.
    let uploads: Vec<(Vec<u8>, DriverBuffer)> = (0..60_u64)
        .map(|turn| {
            let size = sizes[turn as usize % sizes.len()];
            let content: Vec<u8> = numbers(turn + 1, size).iter().map(|x| (x * 128.0) as i8 as u8).collect();
            let mut given = content.clone();
            let buffer = driver.upload(&given).unwrap();
            // The caller's memory is free again.
            given.fill(0xff);
            (content, buffer)
        })
        .collect();
    for (content, buffer) in &uploads {
        assert!(download(&driver, buffer, content.len()) == *content, "{buffer:?}");
    }
    let (content, buffer) = &uploads[6];
    assert_eq!(download(&driver, buffer, 1000), content[..1000], "the first bytes");
}

#[test]
fn a_requested_read_is_of_the_time_of_the_request() {
    let Some(driver) = device() else { return };
    // More than the 64 MiB that are kept, of several sizes; some are dropped unread.
    for turn in 0..3_u8 {
        let sizes = [1, 70_000, 300, 4_000_000, 65_536].into_iter().cycle().take(100);
        let mut requested = Vec::new();
        for (n, size) in sizes.enumerate() {
            let content = vec![n as u8 ^ turn; size];
            let buffer = driver.upload(&content).unwrap();
            let read = driver.request_bytes(&buffer, size).unwrap();
            assert!(!read.is_ready(), "it waits for the device");
            // The buffer is freed before it is read, and its memory is used again.
            drop(buffer);
            if n % 7 > 0 {
                requested.push((content, read));
            }
        }
        for (content, read) in requested.into_iter().rev() {
            assert!(read.read().unwrap() == content, "{} bytes", content.len());
        }
    }
    let buffer = driver.upload(&[1, 2, 3]).unwrap();
    assert_eq!(driver.request_bytes(&buffer, 2).unwrap().read().unwrap(), [1, 2], "the first bytes");
    assert!(driver.request_bytes(&buffer, 0).unwrap().is_ready());
    // One that outlives the rest.
    let last = driver.request_bytes(&buffer, 3).unwrap();
    drop((buffer, driver));
    assert_eq!(last.read().unwrap(), [1, 2, 3]);
}

#[test]
fn memory_that_runs_out_leaves_the_device_usable() {
    let Some(driver) = device() else { return };
    let before = driver.upload(&[1, 2, 3]).unwrap();
    let meter = EnergyMeter::open(driver.uuid()).unwrap();
    let memory = meter.sample().unwrap().memory;
    let error = driver.allocate(2 * memory as usize).unwrap_err();
    println!("{error}");
    let DeviceError::OutOfMemory { wanted, available, .. } = error else { panic!("{error}") };
    assert_eq!(wanted, 2 * memory);
    assert!(available > 0 && available <= memory, "{available} of {memory}");
    assert_eq!(download(&driver, &before, 3), [1, 2, 3]);

    // Freed memory is available again, even if fragmented.
    let half = available as usize / 2;
    for _ in 0..8 {
        drop(driver.allocate(half).unwrap());
        let pieces: Vec<DriverBuffer> = (0..16).map(|_| driver.allocate(half / 16).unwrap()).collect();
        drop(pieces);
    }
    println!("{:?}", meter.sample().unwrap());
}

#[test]
fn a_kernel_runs_and_wrong_arguments_are_found() {
    let Some(driver) = device() else { return };
    let family = FAMILIES.iter().find(|family| family.name == "rows").unwrap();
    let launch =
        KernelLaunch { kernel: Kernel { family, name: "round_to_bf16" }, grid: (4, 1), threads: 256, shared: 0 };
    let content = numbers(5, 1000);
    let x = driver.upload(&bytes(&content, ElementType::F32)).unwrap();
    let out = driver.allocate(2 * content.len()).unwrap();
    let count = content.len() as u32;
    let arguments =
        [KernelArgument::Buffer(&out), KernelArgument::Buffer(&x), KernelArgument::U32(count), KernelArgument::U32(0)];
    driver.launch(launch, &arguments).unwrap();
    assert_eq!(from_bytes(&download(&driver, &out, 2 * content.len()), ElementType::Bf16), content);

    for wrong in [&arguments[..3], &[KernelArgument::Null; 4], &[arguments[0]; 5]] {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.launch(launch, wrong)));
        assert!(found.is_err(), "{} arguments", wrong.len());
    }
    driver.launch(launch, &arguments).unwrap();
}

/// The properties of a product beside its lengths.
#[derive(Clone, Copy, Debug)]
struct Asked {
    element: ElementType,
    output_element: ElementType,
    fused: FusedFunction,
    bias: bool,
    residual: bool,
    first: usize,
    scale: f32,
}

fn asked() -> Vec<Asked> {
    use ElementType::{Bf16, F32};
    let mut all = Vec::new();
    for (element, output_element) in [(F32, F32), (Bf16, Bf16), (Bf16, F32)] {
        for (fused, bias, residual) in [
            (FusedFunction::Nothing, false, false),
            (FusedFunction::Nothing, true, false),
            (FusedFunction::Nothing, false, true),
            (FusedFunction::Nothing, true, true),
            (FusedFunction::Relu, false, false),
            (FusedFunction::Relu, true, false),
            (FusedFunction::GeluTanh, false, false),
            (FusedFunction::GeluTanh, true, false),
        ] {
            // In f32 the caller applies this function itself.
            if (element, fused) != (F32, FusedFunction::GeluTanh) {
                let (first, scale) = if bias { (3, 1.0) } else { (0, 0.125) };
                all.push(Asked { element, output_element, fused, bias, residual, first, scale });
            }
        }
    }
    all
}

/// The operands of a product, the same for a seed.
struct Operands {
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

fn operands(rows: usize, inner: usize, out: usize, first: usize) -> Operands {
    Operands {
        x: numbers(1, rows * inner),
        weight: numbers(2, (first + out) * inner),
        bias: numbers(3, out),
        residual: numbers(4, rows * out),
    }
}

/// Weights on the device.
struct Weights {
    inner: usize,
    out: usize,
    weight: DriverBuffer,
    bias: Option<DriverBuffer>,
}

fn weights(driver: &Driver, asked: Asked, operands: &Operands, inner: usize, out: usize) -> Weights {
    let weight = driver.upload(&bytes(&operands.weight, asked.element)).unwrap();
    let bias = asked.bias.then(|| driver.upload(&bytes(&operands.bias, asked.output_element)).unwrap());
    Weights { inner, out, weight, bias }
}

/// The product of some of the rows, as bytes.
fn multiply(driver: &Driver, asked: Asked, operands: &Operands, weights: &Weights, of: Range<usize>) -> Vec<u8> {
    let Asked { element, output_element, fused, first, scale, .. } = asked;
    let &Weights { inner, out, ref weight, ref bias } = weights;
    let rows = of.len();
    let up = |numbers: &[f32], element| driver.upload(&bytes(numbers, element)).unwrap();
    let x = up(&operands.x[of.start * inner..of.end * inner], element);
    let residual = asked.residual.then(|| up(&operands.residual[of.start * out..of.end * out], output_element));
    let output = driver.upload(&vec![0xff; rows * out * output_element.size()]).unwrap();
    let product = MatrixProduct {
        rows,
        inner,
        out,
        element,
        x: &x,
        weight,
        first,
        scale,
        bias: bias.as_ref(),
        fused,
        residual: residual.as_ref(),
        output_element,
        output: &output,
    };
    driver
        .multiply_matrices(&product)
        .unwrap_or_else(|error| panic!("{asked:?}, {rows} rows, {inner} to {out}: {error}"));
    download(driver, &output, rows * out * output_element.size())
}

fn expected(asked: Asked, operands: &Operands, row: usize, column: usize, inner: usize, out: usize) -> (f64, f64) {
    let x = &operands.x[row * inner..][..inner];
    let weight = &operands.weight[(asked.first + column) * inner..][..inner];
    let terms = || x.iter().zip(weight).map(|(&x, &w)| f64::from(x) * f64::from(w));
    let scale = f64::from(asked.scale);
    let sum = scale * terms().sum::<f64>() + if asked.bias { f64::from(operands.bias[column]) } else { 0.0 };
    let size = scale * terms().map(f64::abs).sum::<f64>() + 1.0;
    let fused = match asked.fused {
        FusedFunction::Nothing => sum,
        FusedFunction::Relu => sum.max(0.0),
        FusedFunction::GeluTanh => {
            0.5 * sum * (1.0 + (0.797_884_560_802_865_4 * (sum + 0.044_715 * sum.powi(3))).tanh())
        }
    };
    (fused + if asked.residual { f64::from(operands.residual[row * out + column]) } else { 0.0 }, size)
}

#[test]
fn products_are_those_of_f64_up_to_rounding() {
    let Some(driver) = device() else { return };
    for asked in asked() {
        for (rows, inner, out) in [(1, 8, 8), (5, 64, 72), (33, 768, 256), (130, 40, 1000)] {
            let operands = operands(rows, inner, out, asked.first);
            let weights = weights(&driver, asked, &operands, inner, out);
            let found = multiply(&driver, asked, &operands, &weights, 0..rows);
            let found = from_bytes(&found, asked.output_element);
            for (at, &found) in found.iter().enumerate() {
                let (expected, size) = expected(asked, &operands, at / out, at % out, inner, out);
                let rounding = if asked.output_element == ElementType::Bf16 { 1.0 / 128.0 } else { 1e-6 };
                // cuBLASLt's tanh is the device's approximation.
                let fused = if asked.fused == FusedFunction::GeluTanh { 2e-3 } else { 0.0 };
                // Tensor cores truncate a sum's steps instead of rounding them.
                let steps = if asked.element == ElementType::Bf16 { 4e-6 } else { 1e-6 };
                let allowed = rounding * expected.abs() + (steps + fused) * size;
                let off = (f64::from(found) - expected).abs();
                assert!(off <= allowed, "{asked:?}, {rows} x {inner} to {out}, {at}: {found}, {expected} expected");
            }
        }
    }
}

#[test]
fn a_rows_product_has_the_same_bits_in_any_batch() {
    let Some(driver) = device() else { return };
    const ROWS: usize = 2100;
    let shapes = [(64, 64), (768, 3072), (3072, 768), (1600, 4800), (2048, 5120), (5120, 2048)];
    // Only the real library shows how sizes affect its choices.
    let is_simulated = driver.name().starts_with("Simulated");
    for &(inner, out) in if is_simulated { &shapes[..1] } else { &shapes } {
        // Once for all: to make tens of millions of numbers takes longer than to multiply them.
        let operands = operands(ROWS, inner, out, asked().iter().map(|asked| asked.first).max().unwrap());
        for asked in asked() {
            let weights = weights(&driver, asked, &operands, inner, out);
            let all = multiply(&driver, asked, &operands, &weights, 0..ROWS);
            let row = out * asked.output_element.size();
            for some in [0..1, 7..8, 5..13, 100..164, 999..1128, 1000..1500, 52..2100] {
                let found = multiply(&driver, asked, &operands, &weights, some.clone());
                let same = found == all[some.start * row..some.end * row];
                assert!(same, "{asked:?}, {inner} to {out}: rows {some:?}");
            }
        }
    }
}

/// Ranges of rows have algorithms of their own. The choices are kept, and the next device to be opened has them.
#[test]
fn a_tuned_product_has_the_same_bits_in_every_range_and_next_time() {
    let Some(turn) = device() else { return };
    let cache = tempfile::tempdir().unwrap();
    let file = cache.path().join(format!("products-{}.txt", turn.numerics()));
    let driver = Driver::open(0, Some(cache.path())).unwrap();
    let (inner, out) = (512, 1024);
    for asked in asked().into_iter().filter(|asked| asked.element == ElementType::Bf16) {
        let operands = operands(150, inner, out, asked.first);
        let all_of = |driver: &Driver| {
            let weights = weights(driver, asked, &operands, inner, out);
            let all = multiply(driver, asked, &operands, &weights, 0..150);
            let row = out * asked.output_element.size();
            // The second one has 37 rows, which the simulated library's fastest algorithm refuses.
            for some in [0..1, 3..40, 3..67, 70..150] {
                let found = multiply(driver, asked, &operands, &weights, some.clone());
                assert!(found == all[some.start * row..some.end * row], "{asked:?}, rows {some:?}");
            }
            all
        };
        let all = all_of(&driver);
        let written = std::fs::metadata(&file).unwrap().modified().unwrap();
        let again = Driver::open(0, Some(cache.path())).unwrap();
        assert!(all_of(&again) == all, "{asked:?}");
        assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written, "nothing was tuned again");
        assert!(again.take_tuning().is_zero() && driver.take_tuning() > Duration::ZERO);
    }
    // Algorithm 6, of one part, was chosen where its bits are the leader's: where a residual is added apart.
    let is_poor = std::env::var("SIMULATED_CUDA_POOR_PRODUCTS").as_deref() == Ok("1");
    let is_simulated = driver.name().starts_with("Simulated") && !is_poor;
    let faster = std::fs::read_to_string(&file).unwrap().matches(&format!(" {} ", 6_u64 | 1 << 32)).count();
    assert!(!is_simulated || faster > 0, "no faster algorithm was chosen");
}

/// A device that was warmed up chooses nothing more, but for products of more rows.
#[test]
fn products_are_tuned_before_they_come_up() {
    let Some(turn) = device() else { return };
    let (inner, out) = (256, 1024);
    let asked = asked().into_iter().find(|asked| asked.element == ElementType::Bf16 && asked.residual).unwrap();
    let operands = operands(300, inner, out, asked.first);
    // Without a folder nothing is known from earlier runs.
    let [warm, cold] = [(); 2].map(|()| Driver::open(0, None).unwrap());
    let rows = |driver: &Driver, some| {
        let weights = weights(driver, asked, &operands, inner, out);
        multiply(driver, asked, &operands, &weights, some)
    };
    rows(&warm, 0..2);
    warm.tune_products(200).unwrap();
    assert!(warm.take_tuning() > Duration::ZERO);
    for some in [0..3, 3..68, 40..290] {
        assert!(rows(&warm, some.clone()) == rows(&cold, some.clone()), "rows {some:?}");
        assert_eq!(warm.take_tuning(), Duration::ZERO, "rows {some:?}");
    }
    assert!(rows(&warm, 0..300) == rows(&cold, 0..300));
    assert!(warm.take_tuning() > Duration::ZERO && cold.take_tuning() > Duration::ZERO, "of more than 256 rows");
    drop(turn);
}

/// A full batch of real layers, and parts of it in every range of rows.
#[test]
fn a_full_batch_has_the_bits_of_its_parts() {
    let Some(driver) = device() else { return };
    const ROWS: usize = 16384;
    if driver.name().starts_with("Simulated") {
        // A product of this size takes minutes there.
        return;
    }
    let plain = Asked {
        element: ElementType::Bf16,
        output_element: ElementType::Bf16,
        fused: FusedFunction::Nothing,
        bias: false,
        residual: false,
        first: 0,
        scale: 1.0,
    };
    let biased = Asked { bias: true, ..plain };
    for (inner, out, asked) in [
        (2048, 10240, plain),
        (5120, 2048, Asked { residual: true, ..plain }),
        (1600, 6400, Asked { fused: FusedFunction::GeluTanh, ..biased }),
        (6400, 1600, Asked { residual: true, ..biased }),
        (4096, 1024, biased),
    ] {
        let operands = operands(ROWS, inner, out, asked.first);
        let weights = weights(&driver, asked, &operands, inner, out);
        let all = multiply(&driver, asked, &operands, &weights, 0..ROWS);
        let row = out * asked.output_element.size();
        for some in [5..6, 0..64, 70..300, 1000..1500, 2000..3000, 4000..6415, 0..4096, 4000..12000, 1..16384] {
            let found = multiply(&driver, asked, &operands, &weights, some.clone());
            assert!(found == all[some.start * row..some.end * row], "{asked:?}, {inner} to {out}: rows {some:?}");
        }
    }
}

#[test]
fn a_product_has_as_many_rows_as_are_asked_for() {
    let Some(driver) = device() else { return };
    const ROWS: usize = 1 << 16;
    for asked in asked() {
        let operands = operands(ROWS, 8, 8, asked.first);
        let weights = weights(&driver, asked, &operands, 8, 8);
        let all = multiply(&driver, asked, &operands, &weights, 0..ROWS);
        let last = multiply(&driver, asked, &operands, &weights, ROWS - 3..ROWS);
        assert!(all.ends_with(&last), "{asked:?}");
    }
}

fn round_to_bf16(threads: u32) -> KernelLaunch {
    let family = FAMILIES.iter().find(|family| family.name == "rows").unwrap();
    KernelLaunch { kernel: Kernel { family, name: "round_to_bf16" }, grid: (1, 1), threads, shared: 0 }
}

#[test]
fn what_cannot_be_is_refused_each_time_and_the_device_goes_on() {
    let Some(driver) = device() else { return };
    let x = driver.upload(&[0; 4096]).unwrap();
    let arguments =
        [KernelArgument::Buffer(&x), KernelArgument::Buffer(&x), KernelArgument::U32(1), KernelArgument::U32(0)];
    // More threads than a block can have, more shared memory than a multiprocessor has.
    let launches = [round_to_bf16(4096), KernelLaunch { shared: 1 << 30, ..round_to_bf16(32) }];
    for launch in launches.into_iter().cycle().take(4) {
        let error = driver.launch(launch, &arguments).unwrap_err();
        println!("{error}");
        let DeviceError::Unsupported { what, .. } = &error else { panic!("{error}") };
        assert!(what.contains("round_to_bf16"), "{error}");
    }
    driver.launch(round_to_bf16(32), &arguments).unwrap();
    assert_eq!(download(&driver, &x, 4096), [0; 4096]);
}

#[test]
fn a_lost_device_stays_lost() {
    let Some(Turn { driver, _turn }) = device() else { return };
    drop(driver);
    let mut child = Command::new(std::env::current_exe().unwrap());
    // This file may be a module of another test.
    let test = format!("{}::a_device_is_lost", module_path!());
    let test = test.split_once("::").unwrap().1;
    let output = child.args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{child:?}");
}

#[test]
#[ignore = "run by a_lost_device_stays_lost"]
fn a_device_is_lost() {
    let driver = device().unwrap();
    let x = driver.upload(&[0; 4096]).unwrap();
    // Writes to an invalid address; the next wait reports it.
    let arguments = [KernelArgument::Null, KernelArgument::Buffer(&x), KernelArgument::U32(1), KernelArgument::U32(0)];
    driver.launch(round_to_bf16(32), &arguments).unwrap();
    let error = driver.download(&x, &mut [0]).unwrap_err();
    println!("{error}");
    assert!(matches!(&error, DeviceError::Lost { reason, .. } if reason.contains("ILLEGAL_ADDRESS")), "{error}");
    let again = driver.allocate(16).unwrap_err();
    assert_eq!(again.to_string(), error.to_string(), "the first reason lasts");
    assert!(matches!(driver.launch(round_to_bf16(32), &arguments), Err(DeviceError::Lost { .. })));
}
