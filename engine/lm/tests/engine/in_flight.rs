//! Two batches in flight: a device that works beside the host, with time and energy of its own.

use super::*;
use hopeval_cuda::Cuda;
use hopeval_cuda::runtime::{KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use hopeval_cuda_emulator::{Emulator, EmulatorBuffer, EmulatorOptions};
use hopeval_device::conformance::Arithmetic;
use hopeval_device::{DeviceEnergy, DeviceError, PendingRead};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The simulated time of each launch and product: more than the emulator takes for one.
const EACH: Duration = Duration::from_millis(4);

/// The emulator, whose work is done later than it is requested, one piece after the other.
struct LateRuntime {
    emulator: Emulator,
    /// The time at which all requested work is done.
    done: Arc<Mutex<Instant>>,
    pieces: Arc<AtomicU64>,
    /// A millijoule for each millisecond.
    energy: DeviceEnergy,
}

impl LateRuntime {
    fn new(options: EmulatorOptions) -> (Self, Arc<AtomicU64>) {
        let (begun, pieces) = (Instant::now(), Arc::default());
        let energy = DeviceEnergy::new(move || Some(begun.elapsed().as_millis() as u64));
        let emulator = Emulator::new(options).unwrap();
        (Self { emulator, done: Arc::new(Mutex::new(begun)), pieces: Arc::clone(&pieces), energy }, pieces)
    }

    fn lock_done(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece of work, which begins now or behind the others.
    fn add_piece(&self) {
        self.pieces.fetch_add(1, Relaxed);
        let mut done = self.lock_done();
        *done = (*done).max(Instant::now()) + EACH;
    }

    fn wait(&self) {
        let done = *self.lock_done();
        sleep(done.saturating_duration_since(Instant::now()));
    }
}

impl Runtime for LateRuntime {
    type Buffer = EmulatorBuffer;

    fn name(&self) -> String {
        self.emulator.name()
    }

    fn numerics(&self) -> String {
        self.emulator.numerics()
    }

    fn energy(&self) -> Option<&DeviceEnergy> {
        Some(&self.energy)
    }

    fn allocate(&self, bytes: usize) -> Result<EmulatorBuffer, DeviceError> {
        self.emulator.allocate(bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<EmulatorBuffer, DeviceError> {
        self.emulator.upload(bytes)
    }

    fn download(&self, from: &EmulatorBuffer, into: &mut [u8]) -> Result<(), DeviceError> {
        self.wait();
        self.emulator.download(from, into)
    }

    fn request_bytes(&self, from: &EmulatorBuffer, bytes: usize) -> Result<PendingRead<Vec<u8>>, DeviceError> {
        let mut into = vec![0; bytes];
        self.emulator.download(from, &mut into)?;
        let done = *self.lock_done();
        Ok(PendingRead::pending(move || {
            sleep(done.saturating_duration_since(Instant::now()));
            Ok(into)
        }))
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.wait();
        self.emulator.synchronize()
    }

    fn launch(
        &self,
        launch: KernelLaunch,
        arguments: &[KernelArgument<'_, EmulatorBuffer>],
    ) -> Result<(), DeviceError> {
        self.add_piece();
        self.emulator.launch(launch, arguments)
    }

    fn multiply_matrices(&self, product: &MatrixProduct<'_, EmulatorBuffer>) -> Result<(), DeviceError> {
        self.add_piece();
        self.emulator.multiply_matrices(product)
    }
}

fn options() -> EmulatorOptions {
    EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Batches of few requests.
const SMALL: EngineOptions = EngineOptions {
    batch_tokens: 40,
    states_tokens: PoolTokens::exactly(200),
    cache_tokens: PoolTokens::exactly(400),
    share: true,
};

fn late(name: &str, options: EmulatorOptions) -> (Session, Arc<AtomicU64>) {
    let (runtime, pieces) = LateRuntime::new(options);
    (open(name, Cuda::new(runtime, Arithmetic::F32), SMALL), pieces)
}

/// Requests without the continuations, which have no two batches.
fn asked(name: &str) -> Vec<Request> {
    let whole = |request: &Request| !matches!(request, Request::Generate(_));
    cuda::asked(name).into_iter().filter(whole).collect()
}

#[test]
fn batches_in_flight_have_the_bits_and_the_accounts_of_the_device() {
    for name in ["gpt2", "t5-v1.1", "efficientrag-labeler"] {
        let device = Cuda::new(Emulator::new(options()).unwrap(), Arithmetic::F32);
        let expected = answers(open(name, device, SMALL).engine.ask(asked(name)));
        let (session, pieces) = late(name, options());
        let before = pieces.load(Relaxed);
        let completions = session.engine.ask(asked(name));
        let sum = |of: fn(&Completion) -> f64| completions.iter().map(of).sum::<f64>();
        let (device_s, joules) = (sum(|c| c.cost.device_s), sum(|c| c.cost.energy_j.unwrap()));
        let busy_s = (EACH * (pieces.load(Relaxed) - before) as u32).as_secs_f64();
        assert_eq!(answers(completions), expected, "{name}");
        let counters = session.engine.counters();
        assert!(counters.batches.load(Relaxed) > 1, "{name}: {counters:?}");
        let [counted_s, working_s, span_s] = [&counters.device_us, &counters.working_us, &counters.span_us]
            .map(|count| count.load(Relaxed) as f64 / 1e6);
        println!("{name}: {busy_s:.3} s of work, {device_s:.3} s told, {joules:.3} J, {span_s:.3} s in all");
        // All of the device's time is told, and no time twice.
        assert!((device_s - counted_s).abs() < 1e-3 && device_s > 0.99 * busy_s, "{name}: {device_s} of {busy_s}");
        assert!(device_s < span_s + 1e-3 && working_s < span_s + 1e-3, "{name}: {device_s} within {span_s}");
        // A joule for a second, read at the begin and at the end of each batch.
        assert!((joules - device_s).abs() < 0.02 * device_s + 0.01, "{name}: {joules} J in {device_s} s");
    }
}

#[test]
fn a_batch_on_an_idle_device_has_all_of_its_time() {
    let (session, pieces) = late("gpt2", options());
    let request = asked("gpt2").remove(0);
    for _ in 0..3 {
        let before = pieces.load(Relaxed);
        let completion = session.engine.ask([request.clone()]).remove(0);
        let busy_s = (EACH * (pieces.load(Relaxed) - before) as u32).as_secs_f64();
        let (device_s, joules) = (completion.cost.device_s, completion.cost.energy_j.unwrap());
        assert!(device_s > 0.99 * busy_s, "{device_s} of {busy_s}");
        assert!((joules - device_s).abs() < 0.02 * device_s + 0.005, "{joules} J in {device_s} s");
    }
}

#[test]
fn a_device_that_is_lost_with_two_batches_answers_each_request_once() {
    let (session, pieces) = late("gpt2", options());
    let before = pieces.load(Relaxed);
    let whole = session.engine.ask(asked("gpt2"));
    let all = pieces.load(Relaxed);
    let mut refused = Vec::new();
    for launches in [before + 1, u64::midpoint(before, all), all - 1] {
        let (session, _) = late("gpt2", EmulatorOptions { launches: Some(launches), ..options() });
        let found = session.engine.ask(asked("gpt2"));
        assert_eq!(found.len(), whole.len());
        for (a, b) in whole.iter().zip(&found) {
            assert!(a.result == b.result || matches!(b.result, Err(Refusal::Device { .. })), "{:?}", b.result);
        }
        refused.push(found.iter().filter(|completion| completion.result.is_err()).count());
    }
    assert!(refused[0] == whole.len() && refused[1] >= refused[2] && refused[2] > 0, "{refused:?}");
}

#[test]
fn memory_that_runs_out_beside_a_batch_loses_nothing() {
    let (full, _) = late("gpt2", options());
    let whole = full.engine.ask(asked("gpt2"));
    let with = |memory| {
        let (runtime, _) = LateRuntime::new(EmulatorOptions { memory: Some(memory), ..options() });
        Session::open(&fixture("gpt2"), Cuda::new(runtime, Arithmetic::F32), EngineOptions::default())
    };
    let (mut below, mut weights) = (0, 1 << 30);
    while weights - below > 4096 {
        let middle = u64::midpoint(below, weights);
        if with(middle).is_ok() { weights = middle } else { below = middle }
    }
    let mut halved = 0;
    for memory in (0..12).map(|n| weights + n * 24 * 1024) {
        let scarce = with(memory).unwrap();
        let found = scarce.engine.ask(asked("gpt2"));
        for (a, b) in whole.iter().zip(&found) {
            assert!(a.result == b.result || matches!(b.result, Err(Refusal::OutOfMemory { .. })), "{memory} bytes");
        }
        halved += u64::from(scarce.engine.counters().halved.load(Relaxed) > 0);
    }
    assert!(halved > 0, "no memory was too little for a batch");
}
