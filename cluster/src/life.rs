//! The life of one process of a run, and of its workers: the one file that knows both a mesh and a run.
//!
//! ```text
//!   process 0: make or find the run, fence --welcome--> the others open it
//!   all: join the generation, make the dense indexes that a host lacks, build, step until the dataflow is done ----> goodbye
//!   process 0: final tables
//!
//!   drain: admit no more, be quiet --all are--> flush what was computed --all have--> exit
//!   ends early, as resumable: a peer is lost or stalled, a fault that may pass, or all have drained
//! ```
//!
//! A process that ends early exits without unwinding: dropping a capability says "complete", which would be a lie.

use anyhow::{Context, Result, anyhow};
use hopeval_cluster::exit;
use hopeval_cluster::mesh::{self, MeshSettings, Role};
use hopeval_cluster::metrics::{self, Metrics, MetricsError};
use hopeval_cluster::pulse::{Pulse, PulseSettings, Verdict};
use hopeval_cluster::signals::Signals;
use hopeval_cuda::boards;
use hopeval_jobs::JobError;
use hopeval_jobs::corpora::Report;
use hopeval_jobs::run::{self, Generation, Open, Places};
use hopeval_jobs::tables;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use timely::WorkerConfig;

use crate::print;

/// How a process takes part.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// Index of this process.
    pub(crate) process: usize,
    /// Addresses of all processes; one alone needs none.
    pub(crate) hosts: Vec<String>,
    /// Workers of each process.
    pub(crate) workers: usize,
    /// After so long without a sign a process counts as stalled.
    pub(crate) stall_bound: Duration,
    /// How long forming the mesh may take.
    pub(crate) deadline: Duration,
}

/// What process 0 tells the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Welcome {
    run: String,
    generation: u64,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Its run.
    pub(crate) run: String,
    /// Failed outcomes and all outcomes; for process 0, which wrote the tables.
    pub(crate) outcomes: Option<(u64, u64)>,
}

/// Whether this process has something that a signal lets finish: its part of a dataflow, or children that have one.
static JOINED: AtomicBool = AtomicBool::new(false);

/// The run, once process 0 has it: what an early end says how to go on with.
static RUN: OnceLock<String> = OnceLock::new();

/// From now on the first signal drains.
pub(crate) fn joined() {
    JOINED.store(true, Ordering::SeqCst);
}

/// What the first signal does before that: builds and meshes have nothing to drain, and are begun again as they were.
pub(crate) fn leave_before_joining() {
    if !JOINED.load(Ordering::SeqCst) {
        print::note("interrupted before any question was admitted");
        if let Some(run) = RUN.get() {
            print::note(&format!("hint: `hopeval resume {run}` goes on"));
        }
        std::process::exit(i32::from(exit::RESUMABLE));
    }
}

/// How often the process looks whether something happened.
const LOOK: Duration = Duration::from_millis(20);

enum Event {
    Verdict(Verdict),
    WorkerReady,
    WorkerDone,
    WorkerFailed(JobError),
}

/// Lives through one generation of a run. Process 0 is given the run, `lead`.
///
/// # Errors
/// What is wrong before the dataflow runs. Afterwards an early end exits the process.
pub(crate) fn live(
    places: &Places,
    membership: &Membership,
    lead: Option<String>,
    signals: &Signals,
    report: Report<'_>,
    watch: &dyn Fn(&Generation),
) -> Result<Ended> {
    let committer = committer();
    let (role, opened) = match lead {
        Some(run) => {
            let _ = RUN.set(run.clone());
            let open = Open::open(places, &run, report)?;
            let processes = membership.hosts.len();
            let generation = run::fence(&places.store, &open.record, &committer, processes, membership.workers)?;
            let welcome = serde_json::to_vec(&Welcome { run, generation })?;
            (Role::Lead(welcome), Some(open))
        }
        None => (Role::Follow, None),
    };
    let settings = MeshSettings {
        process: membership.process,
        hosts: membership.hosts.clone(),
        workers: membership.workers,
        token: token(&membership.hosts),
        deadline: membership.deadline,
    };
    let formed = mesh::form(&settings, role).context("the mesh was not formed")?;
    let welcome: Welcome = serde_json::from_slice(&formed.welcome)?;
    let leads = opened.is_some();
    let (events, happened) = channel();
    // The beat starts before the run is opened: opening and preparing may build an index, and only silence counts until the
    // first step.
    let beats: Arc<OnceLock<Arc<hopeval_operators::Counters>>> = Arc::default();
    let sampled = Arc::clone(&beats);
    let verdicts = events.clone();
    let pulse = Pulse::start(
        formed.pulse,
        PulseSettings { stall_bound: membership.stall_bound },
        move || sampled.get().map_or(0, |counters| counters.beats.load(Ordering::Relaxed)),
        move |verdict| drop(verdicts.send(Event::Verdict(verdict))),
    )?;
    let open = match opened {
        Some(open) => open,
        None => Open::open(places, &welcome.run, report)?,
    };
    // Here, where progress can be shown.
    open.open_services(report)?;
    open.spread_services(membership.workers)?;
    let (generation, ledger) = Generation::join(open, welcome.generation, leads.then_some(committer.as_str()))?;
    let generation = Arc::new(generation);
    let _ = beats.set(Arc::clone(&generation.counters));

    let voice = pulse.voice();
    // A process that lives through several generations, one after the other, must not hold on to those that are over.
    let (draining, told) = (Arc::downgrade(&generation), voice.clone());
    signals.on_drain(move || {
        if let Some(generation) = draining.upgrade() {
            generation.drain();
            told.drain();
        }
    });
    let park = PulseSettings { stall_bound: membership.stall_bound }.interval();
    let shared = Arc::clone(&generation);
    let worker_events = std::sync::Mutex::new(events);
    let guards =
        timely::execute::execute_from(formed.allocators, Box::new(()), WorkerConfig::default(), move |worker| {
            let events = worker_events.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
            let ready = |()| {
                joined();
                drop(events.send(Event::WorkerReady));
            };
            let built = shared.prepare(worker).map(ready).and_then(|()| shared.build(worker));
            if let Err(error) = built {
                let _ = events.send(Event::WorkerFailed(error));
                // The process is about to exit; nothing may be dropped until then.
                loop {
                    std::thread::park();
                }
            }
            while worker.has_dataflows() {
                worker.step_or_park(Some(park));
                shared.counters.beats.fetch_add(1, Ordering::Relaxed);
            }
            let _ = events.send(Event::WorkerDone);
        })
        .map_err(|message| anyhow!("the workers cannot be started: {message}"))?;

    let mut running = membership.workers;
    let (mut ready, mut quiet, mut drained) = (false, false, false);
    while running > 0 {
        match happened.recv_timeout(LOOK) {
            Ok(Event::WorkerReady) if ready => {}
            Ok(Event::WorkerReady) => {
                ready = true;
                watch(&generation);
            }
            Ok(Event::WorkerDone) => running -= 1,
            Ok(Event::WorkerFailed(error)) => leave(&generation, &error),
            Ok(Event::Verdict(Verdict::Drain)) => signals.drain(),
            Ok(Event::Verdict(Verdict::Flush)) => generation.flush(),
            Ok(Event::Verdict(Verdict::StopNow)) => interrupted(&generation, "stopped as asked", leads),
            Ok(Event::Verdict(verdict)) => interrupted(&generation, &verdict.to_string(), leads),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if let Some(error) = generation.fault.take() {
            leave(&generation, &error);
        }
        if !ready {
            generation.building.tell(report);
        }
        if !quiet && generation.is_quiet() {
            quiet = true;
            voice.quiet();
        }
        if !drained && generation.is_flushed() {
            drained = true;
            voice.drained();
        }
    }
    // Closing the sockets waits for the other sides, so also now a peer may be lost, or stop for good.
    let (closed, closing) = channel();
    let comms = formed.comms;
    std::thread::Builder::new().name("closing".to_owned()).spawn(move || {
        let workers: Result<Vec<()>, String> = guards.join().into_iter().collect();
        drop(closed.send((workers, comms.close())));
    })?;
    let (workers, sockets) = loop {
        if let Ok(ended) = closing.recv_timeout(LOOK) {
            break ended;
        }
        if let Ok(Event::Verdict(verdict @ (Verdict::PeerLost { .. } | Verdict::PeerStalled { .. }))) =
            happened.try_recv()
        {
            interrupted(&generation, &verdict.to_string(), leads);
        }
    };
    workers.map_err(|message| anyhow!("a worker ended badly: {message}"))?;
    if let Err(error) = sockets {
        tracing::warn!(%error, "a socket thread ended badly after the work was done");
    }
    pulse.goodbye();
    log_boards();
    let run = generation.run.id().to_owned();
    let Some(ledger) = ledger else { return Ok(Ended { run, outcomes: None }) };
    let log = ledger.join().map_err(|_| anyhow!("the ledger's thread panicked"))?;
    if let Some(error) = generation.fault.take() {
        leave(&generation, &error);
    }
    let mut log = log.context("the ledger ended without its log")?;
    let mesh = (membership.hosts.len() as u32, (membership.hosts.len() * membership.workers) as u32);
    let finished =
        tables::finish(&generation.run, &mut log, generation.number, &committer, mesh, &|done| report("tables", done))
            .unwrap_or_else(|error| leave(&generation, &error));
    Ok(Ended { run, outcomes: Some((finished.failed, finished.outcomes)) })
}

/// Says how busy and how full the boards of this process were; they are CUDA's.
fn log_boards() {
    for board in boards::all() {
        let seen = board.seen();
        // Less than a second of work was not looked at.
        if seen.memory > 0 {
            let utilisation = seen.utilisation().map(|percent| percent.round());
            let (memory_peak, memory) = (seen.memory_peak, seen.memory);
            tracing::info!(device = board.name(), utilisation, memory_peak, memory, "the GPU while it was used");
        }
    }
}

/// Ends the process after a fault: as resumable if it may pass.
fn leave(generation: &Generation, error: &JobError) -> ! {
    let transient = error.is_transient();
    print::error(error);
    let run = generation.run.id();
    if transient {
        print::note(&format!("hint: `hopeval resume {run}` goes on from the last commit"));
    } else if error.is_full() {
        print::note(&format!("hint: make space; then `hopeval resume {run}` goes on from the last commit"));
    }
    std::process::exit(i32::from(if transient { exit::RESUMABLE } else { exit::USAGE }))
}

fn interrupted(generation: &Generation, why: &str, leads: bool) -> ! {
    if leads {
        let run = generation.run.id();
        print::note(&format!("interrupted: {why}; `hopeval resume {run}` goes on from the last commit"));
    }
    std::process::exit(i32::from(exit::RESUMABLE))
}

/// An id that no other process has.
pub(crate) fn committer() -> String {
    let mut bytes = [0u8; 16];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    if read.is_err() {
        let seed = format!("{}-{:?}", std::process::id(), std::time::SystemTime::now());
        return format!(
            "{:016x}",
            seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
        );
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The mesh's secret: `HOPEVAL_MESH_TOKEN` if it is set, else what tells this mesh from others.
fn token(hosts: &[String]) -> [u8; 32] {
    let secret = std::env::var("HOPEVAL_MESH_TOKEN").unwrap_or_default();
    hopeval_jobs::digest_of(&[secret.as_str(), hosts.join(",").as_str()])
}

/// Serves what this process counts, until it ends.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn serve_metrics(address: std::net::SocketAddr, generation: &Generation) -> Result<(), MetricsError> {
    let mut metrics = metrics::of_run(&generation.counters);
    // Models are open by now, and with them all devices of this process.
    metrics.extend(metrics::of_boards());
    let server = Metrics::serve(address, metrics)?;
    tracing::info!(address = %server.address(), "serving metrics");
    // It lives as long as the process: a scrape after the end finds the final counts.
    std::mem::forget(server);
    Ok(())
}
