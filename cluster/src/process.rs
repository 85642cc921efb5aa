//! One process of a run in one generation, with its workers. No other module knows both a mesh and a run.
//!
//! ```text
//!   join           process 0: find the run, fence --welcome--> the others open it; all: services, the generation
//!   start_workers  make missing dense indexes, build, step until the dataflow is done
//!   supervise      act upon the events of workers, heartbeat and generation
//!   close          wait until the other sides close their sockets too
//!   finish         process 0: final tables, goodbye; the others: goodbye, watch process 0 until its goodbye
//!
//!   drain: begin no work, be quiet --all are--> flush computed answers --all have--> exit
//!   ends early, as resumable: a peer is lost or stalled, a fault that may pass, or all have drained
//! ```
//!
//! A process ending early exits without unwinding: dropping a capability says "complete", and this would be false.

mod boards;
mod close;
mod departure;
mod early_end;
mod finish;
mod interrupts;
mod join;
mod membership;
mod operator_times;
mod supervise;
mod telemetry;
mod workers;

use anyhow::Result;
use early_end::EarlyEnd;
use hopeval_cluster::heartbeat::HeartbeatHandle;
use hopeval_jobs::cache::ProgressReporter;
use hopeval_jobs::places::Places;
use hopeval_jobs::run::generation::Generation;
use hopeval_jobs::services::service::WaitingBatch;
use hopeval_jobs::spending::cap::SpendingCap;
use join::GenerationPart;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use supervise::Supervision;
use workers::WorkerPart;

pub(crate) use interrupts::Interrupts;
pub(crate) use membership::Membership;
pub(crate) use telemetry::serve_metrics;

/// Longest wait for an event.
const LOOK: Duration = Duration::from_millis(20);

/// A process taking part in generations of runs.
pub(crate) struct Process<'a> {
    /// Its places.
    pub(crate) places: &'a Places,
    /// Its part in the mesh.
    pub(crate) membership: Membership,
    /// Its signals.
    pub(crate) interrupts: &'a Interrupts,
    /// Changes of the run's cap.
    pub(crate) raised_cap: SpendingCap,
    /// Shows the progress of a stage.
    pub(crate) report: ProgressReporter<'a>,
    /// Called once, when the first worker is ready to build its dataflow.
    pub(crate) on_ready: &'a dyn Fn(&Generation),
}

/// The result of a process that completed its part.
#[derive(Clone, Debug)]
pub(crate) struct ProcessEnd {
    /// Its run.
    pub(crate) run: String,
    /// Failed outcomes and all outcomes, in process 0, the writer of the tables; `None` if some wait.
    pub(crate) outcomes: Option<(u64, u64)>,
    /// The batch files of its services, in process 0.
    pub(crate) batches: Vec<WaitingBatch>,
}

impl Process<'_> {
    /// Runs one generation of a run to its end. Process 0 gets the run as `lead`.
    ///
    /// # Errors
    /// Any fault before the dataflow runs. Afterwards an early end exits the process.
    pub(crate) fn run_generation(&self, lead: Option<String>) -> Result<ProcessEnd> {
        let (events, happened) = channel();
        let GenerationPart { socket_threads, allocators, heartbeat, steps, generation, commit_thread } =
            self.join_generation(lead, &events)?;
        let handle = heartbeat.handle();
        self.drain_on_signal(&generation, &handle);
        let early = EarlyEnd { run: generation.run.id().to_owned(), leads: commit_thread.is_some() };
        let part = WorkerPart::new(&generation, self.interrupts, &self.membership, steps, events);
        let workers = part.start_workers(allocators)?;
        Supervision::new(self, &generation, &handle, &early).supervise(&happened);
        close::close_mesh(workers, socket_threads, &happened, &early)?;
        boards::log();
        match commit_thread {
            Some(thread) => {
                let ended = self.finish_run(&generation, thread, &early)?;
                heartbeat.goodbye();
                Ok(ended)
            }
            None => {
                close::watch_lead(&heartbeat, &happened, &early);
                Ok(ProcessEnd { run: early.run, outcomes: None, batches: Vec::new() })
            }
        }
    }

    /// From now on the first signal stops admission here, and the heartbeat tells the other processes.
    fn drain_on_signal(&self, generation: &Arc<Generation>, handle: &HeartbeatHandle) {
        // A process may run several generations, one after the other. It must not hold on to finished ones.
        let (generation, handle) = (Arc::downgrade(generation), handle.clone());
        self.interrupts.signals().on_drain(move || {
            if let Some(generation) = generation.upgrade() {
                generation.drain();
                handle.drain();
            }
        });
    }
}
