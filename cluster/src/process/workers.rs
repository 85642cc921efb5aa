//! The workers of a process: each prepares, builds its dataflow and steps until it is done.

use super::operator_times::OperatorTimes;
use super::supervise::ProcessEvent;
use super::{Interrupts, Membership};
use anyhow::{Result, anyhow};
use hopeval_cluster::heartbeat::{HeartbeatSettings, WorkerSteps};
use hopeval_jobs::JobError;
use hopeval_jobs::run::generation::Generation;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use timely::WorkerConfig;
use timely::communication::WorkerGuards;
use timely::communication::allocator::AllocatorBuilder;
use timely::worker::Worker;

/// The shared state of a process's workers.
pub(super) struct WorkerPart {
    generation: Arc<Generation>,
    interrupts: Interrupts,
    /// Longest pause between two steps: each worker must keep stepping.
    park: Duration,
    /// Workers of the process.
    workers: usize,
    steps: WorkerSteps,
    events: Mutex<Sender<ProcessEvent>>,
}

impl WorkerPart {
    pub(super) fn new(
        generation: &Arc<Generation>,
        interrupts: &Interrupts,
        membership: &Membership,
        steps: WorkerSteps,
        events: Sender<ProcessEvent>,
    ) -> Self {
        let park = HeartbeatSettings { stall_bound: membership.stall_bound }.interval();
        let (generation, interrupts, workers) = (Arc::clone(generation), interrupts.clone(), membership.workers);
        Self { generation, interrupts, park, workers, steps, events: Mutex::new(events) }
    }

    /// Starts a worker for each allocator.
    pub(super) fn start_workers(self, allocators: Vec<AllocatorBuilder>) -> Result<WorkerGuards<()>> {
        // What a worker waits for are models and servers, for milliseconds: polling before each wait is of no use.
        let config = WorkerConfig::default().idle_spin(Duration::ZERO);
        timely::execute::execute_from(allocators, Box::new(()), config, move |worker| self.run(worker))
            .map_err(|message| anyhow!("the workers cannot be started: {message}"))
    }

    fn run(&self, worker: &mut Worker) {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let times = OperatorTimes::watch(worker);
        if let Err(error) = self.build_dataflow(worker, &events) {
            let _ = events.send(ProcessEvent::WorkerFailed(error));
            // The process is about to exit; nothing may be dropped until then.
            loop {
                std::thread::park();
            }
        }
        // Timely numbers the workers of one process after those of the process before.
        let local = worker.index() % self.workers;
        while worker.has_dataflows() {
            worker.step_or_park(Some(self.park));
            self.steps.count_step(local);
            self.generation.counters.beats.fetch_add(1, Ordering::Relaxed);
        }
        self.steps.end_worker(local);
        if let Some(times) = times {
            times.log(worker);
        }
        let _ = events.send(ProcessEvent::WorkerDone);
    }

    fn build_dataflow(&self, worker: &mut Worker, events: &Sender<ProcessEvent>) -> Result<(), JobError> {
        self.generation.make_indexes(worker)?;
        self.interrupts.set_joined();
        drop(events.send(ProcessEvent::WorkerReady));
        self.generation.build_dataflow(worker)
    }
}
