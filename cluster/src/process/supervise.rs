//! Supervises the workers of a process until all are done.
//!
//! | event | does |
//! | --- | --- |
//! | first worker ready | calls `on_ready`; building of indexes is no longer reported |
//! | worker done | one less to wait for |
//! | worker failed, fault of the generation | ends the process |
//! | fault of an endpoint | has paid answers written, then ends the process |
//! | verdict: drain | drains, as a signal does |
//! | verdict: flush | has everything computed written |
//! | verdict: stop now, peer lost, peer stalled | ends the process as resumable |
//! | the generation leaves for an error | drains; ends with the error once all have drained |
//! | generation quiet, or flushed | tells the heartbeat, once |

use super::departure::FaultDeparture;
use super::early_end::EarlyEnd;
use super::{LOOK, Process};
use hopeval_cluster::heartbeat::{HeartbeatHandle, MeshVerdict};
use hopeval_jobs::JobError;
use hopeval_jobs::run::generation::Generation;
use std::sync::mpsc::Receiver;

/// An event on another thread.
pub(super) enum ProcessEvent {
    /// News of the mesh from the heartbeat.
    Verdict(MeshVerdict),
    /// A worker has its indexes, and builds its dataflow.
    WorkerReady,
    /// A worker's dataflow is done.
    WorkerDone,
    /// A worker cannot begin.
    WorkerFailed(JobError),
}

/// The main thread while workers run.
pub(super) struct Supervision<'a> {
    process: &'a Process<'a>,
    generation: &'a Generation,
    heartbeat: &'a HeartbeatHandle,
    early: &'a EarlyEnd,
    /// Workers not done yet.
    running: usize,
    /// Some worker is ready.
    ready: bool,
    /// The heartbeat thread knows the generation is quiet.
    quiet: bool,
    /// The heartbeat thread knows everything is written.
    drained: bool,
    /// The error for which the run leaves when it has drained.
    leaves_for: Option<JobError>,
    /// The way out after the fault of an endpoint.
    departure: Option<FaultDeparture>,
}

impl<'a> Supervision<'a> {
    pub(super) fn new(
        process: &'a Process<'a>,
        generation: &'a Generation,
        heartbeat: &'a HeartbeatHandle,
        early: &'a EarlyEnd,
    ) -> Self {
        let running = process.membership.workers;
        let (ready, quiet, drained, leaves_for, departure) = (false, false, false, None, None);
        Self { process, generation, heartbeat, early, running, ready, quiet, drained, leaves_for, departure }
    }

    /// Returns when all workers are done.
    pub(super) fn supervise(mut self, happened: &Receiver<ProcessEvent>) {
        while self.running > 0 {
            if let Ok(event) = happened.recv_timeout(LOOK) {
                self.handle(event);
            }
            self.check_generation();
        }
    }

    fn handle(&mut self, event: ProcessEvent) {
        match event {
            ProcessEvent::WorkerReady if self.ready => {}
            ProcessEvent::WorkerReady => {
                self.ready = true;
                // The last counts: a look between two events would miss them.
                self.generation.building.report_progress(self.process.report);
                (self.process.on_ready)(self.generation);
            }
            ProcessEvent::WorkerDone => self.running -= 1,
            ProcessEvent::WorkerFailed(error) => self.early.exit_with_fault(&error),
            ProcessEvent::Verdict(MeshVerdict::Drain) => self.process.interrupts.signals().drain(),
            ProcessEvent::Verdict(MeshVerdict::Flush) => self.generation.flush(),
            ProcessEvent::Verdict(MeshVerdict::StopNow) => match &self.leaves_for {
                Some(error) => self.early.exit_with_fault(error),
                None => self.early.exit_interrupted("stopped as asked"),
            },
            ProcessEvent::Verdict(verdict @ (MeshVerdict::PeerLost { .. } | MeshVerdict::PeerStalled { .. })) => {
                self.early.exit_interrupted(&verdict.to_string())
            }
        }
    }

    /// Checks the state of the generation, for changes without an event.
    fn check_generation(&mut self) {
        match self.generation.fault.take() {
            // Dataflow and journal are sound, and hold answers that were paid for.
            Some(error @ JobError::EndpointFault { .. }) if self.departure.is_none() => {
                self.departure = Some(FaultDeparture::begin(error, self.generation));
            }
            Some(error) => self.early.exit_with_fault(&error),
            None => {}
        }
        if let Some(error) = self.departure.as_mut().and_then(|departure| departure.is_over(self.generation)) {
            self.early.exit_with_fault(error);
        }
        if let Some(error) = self.generation.leave.take() {
            // What is out is answered and written first.
            self.leaves_for = Some(error);
            self.process.interrupts.signals().drain();
        }
        if !self.ready {
            self.generation.building.report_progress(self.process.report);
        }
        if !self.quiet && self.generation.is_quiet() {
            self.quiet = true;
            self.heartbeat.quiet();
        }
        if !self.drained && self.generation.is_flushed() {
            self.drained = true;
            self.heartbeat.drained();
        }
    }
}
