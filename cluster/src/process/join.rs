//! Joins a generation: forms the mesh, starts the heartbeats, opens the run in every process.

use super::Process;
use super::supervise::ProcessEvent;
use crate::committer::new_committer_id;
use crate::print;
use anyhow::{Context, Result};
use hopeval_cluster::heartbeat::{Heartbeat, HeartbeatSettings, HeartbeatSockets, StepSampler, WorkerSteps};
use hopeval_cluster::mesh::{self, FormingRole, SocketThreads};
use hopeval_jobs::run::commits::CommitThreadHandle;
use hopeval_jobs::run::generation::{self, Generation};
use hopeval_jobs::run::open::OpenRun;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use timely::communication::allocator::AllocatorBuilder;

/// The message of process 0 to the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct GenerationWelcome {
    run: String,
    generation: u64,
}

/// This process's part in a generation, before its workers start.
pub(super) struct GenerationPart {
    /// Sockets of the mesh.
    pub(super) socket_threads: SocketThreads,
    /// For the workers.
    pub(super) allocators: Vec<AllocatorBuilder>,
    /// The running heartbeats.
    pub(super) heartbeat: Heartbeat,
    /// For the workers to count their steps.
    pub(super) steps: WorkerSteps,
    /// The generation, its run open.
    pub(super) generation: Arc<Generation>,
    /// The committing thread, in process 0.
    pub(super) commit_thread: Option<CommitThread>,
}

/// The committing thread, and its committer's name.
pub(super) struct CommitThread {
    /// The thread.
    pub(super) handle: CommitThreadHandle,
    /// The name.
    pub(super) committer: String,
}

impl Process<'_> {
    /// Joins the generation begun by process 0. Process 0 passes its run as `lead`.
    pub(super) fn join_generation(
        &self,
        lead: Option<String>,
        events: &Sender<ProcessEvent>,
    ) -> Result<GenerationPart> {
        let committer = new_committer_id();
        let (role, opened) = match lead {
            Some(run) => self.lead_generation(run, &committer).map(|(role, open)| (role, Some(open)))?,
            None => (FormingRole::Follow, None),
        };
        let leads = opened.is_some();
        if self.membership.hosts.len() > 1 {
            (self.report)("mesh", 0);
        }
        let formed = mesh::form(&self.membership.mesh_settings(), role).context("the mesh was not formed")?;
        let welcome: GenerationWelcome = serde_json::from_slice(&formed.welcome)?;
        // Heartbeats start before the run is opened: opening and preparing may build an index, and only silence counts
        // as a stall until the first step.
        let steps = WorkerSteps::new(self.membership.workers);
        let heartbeat = self.start_heartbeat(formed.heartbeat_sockets, &steps, events)?;
        let open = match opened {
            Some(open) => open,
            None => OpenRun::open(self.places, &welcome.run, self.report)?,
        };
        if !leads {
            open.check_versions()?;
        }
        // Services are opened in this thread, because only it can show progress.
        open.open_services(self.report)?;
        open.open_on_devices(self.membership.workers)?;
        let (generation, handle) = Generation::join(open, welcome.generation, leads.then_some(committer.as_str()))?;
        let generation = Arc::new(generation);
        let commit_thread = handle.map(|handle| CommitThread { handle, committer });
        Ok(GenerationPart {
            socket_threads: formed.socket_threads,
            allocators: formed.allocators,
            heartbeat,
            steps,
            generation,
            commit_thread,
        })
    }

    /// Opens the run and begins a generation of it.
    fn lead_generation(&self, run: String, committer: &str) -> Result<(FormingRole, OpenRun)> {
        self.interrupts.set_run(&run);
        let mut open = OpenRun::open(self.places, &run, self.report)?;
        open.raised_cap = self.raised_cap;
        open.check_versions()?;
        if !open.has_method_versions() {
            print::note(&format!(
                "note: run {} is of an earlier version, and its record carries no versions of its methods: outcomes of \
                 other versions cannot be told apart",
                open.id()
            ));
        }
        let processes = self.membership.hosts.len();
        let workers = self.membership.workers;
        let generation = generation::fence_log(&self.places.store, &open.record, committer, processes, workers)?;
        let welcome = serde_json::to_vec(&GenerationWelcome { run, generation })?;
        Ok((FormingRole::Lead(welcome), open))
    }

    fn start_heartbeat(
        &self,
        heartbeat_sockets: HeartbeatSockets,
        steps: &WorkerSteps,
        events: &Sender<ProcessEvent>,
    ) -> Result<Heartbeat> {
        let (mut sampler, verdicts) = (StepSampler::new(steps.clone()), events.clone());
        let heartbeat = Heartbeat::start(
            heartbeat_sockets,
            HeartbeatSettings { stall_bound: self.membership.stall_bound },
            move || sampler.sample_beats(),
            move |verdict| drop(verdicts.send(ProcessEvent::Verdict(verdict))),
        )?;
        Ok(heartbeat)
    }
}
