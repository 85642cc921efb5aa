//! Joins a generation: forms the mesh, starts the heartbeats, opens the run in every process.

use super::Process;
use super::supervise::Event;
use crate::committer::committer;
use anyhow::{Context, Result};
use hopeval_cluster::mesh::{self, Comms, Role};
use hopeval_cluster::pulse::{Link, Pulse, PulseSettings};
use hopeval_jobs::run::commits::Ledger;
use hopeval_jobs::run::generation::{self, Generation};
use hopeval_jobs::run::open::Open;
use hopeval_operators::OperatorCounters;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use timely::communication::allocator::AllocatorBuilder;

/// The message of process 0 to the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Welcome {
    run: String,
    generation: u64,
}

/// This process's part in a generation, before its workers start.
pub(super) struct GenerationPart {
    /// Sockets of the mesh.
    pub(super) comms: Comms,
    /// For the workers.
    pub(super) allocators: Vec<AllocatorBuilder>,
    /// The running heartbeats.
    pub(super) pulse: Pulse,
    /// The generation, its run open.
    pub(super) generation: Arc<Generation>,
    /// The committing thread, in process 0.
    pub(super) ledger: Option<CommitThread>,
}

/// The committing thread, and its committer's name.
pub(super) struct CommitThread {
    /// The thread.
    pub(super) ledger: Ledger,
    /// The name.
    pub(super) committer: String,
}

/// The counters of this process, once it has a generation.
type Beats = Arc<OnceLock<Arc<OperatorCounters>>>;

impl Process<'_> {
    /// Joins the generation begun by process 0. Process 0 passes its run as `lead`.
    pub(super) fn join(&self, lead: Option<String>, events: &Sender<Event>) -> Result<GenerationPart> {
        let committer = committer();
        let (role, opened) = match lead {
            Some(run) => self.lead(run, &committer).map(|(role, open)| (role, Some(open)))?,
            None => (Role::Follow, None),
        };
        let leads = opened.is_some();
        let formed = mesh::form(&self.membership.settings(), role).context("the mesh was not formed")?;
        let welcome: Welcome = serde_json::from_slice(&formed.welcome)?;
        // Heartbeats start before the run is opened: opening and preparing may build an index, and only silence counts
        // as a stall until the first step.
        let beats = Beats::default();
        let pulse = self.start_pulse(formed.pulse, &beats, events)?;
        let open = match opened {
            Some(open) => open,
            None => Open::open(self.places, &welcome.run, self.report)?,
        };
        // Services are opened in this thread, because only it can show progress.
        open.open_services(self.report)?;
        open.open_on_devices(self.membership.workers)?;
        let (generation, ledger) = Generation::join(open, welcome.generation, leads.then_some(committer.as_str()))?;
        let generation = Arc::new(generation);
        let _ = beats.set(Arc::clone(&generation.counters));
        let ledger = ledger.map(|ledger| CommitThread { ledger, committer });
        Ok(GenerationPart { comms: formed.comms, allocators: formed.allocators, pulse, generation, ledger })
    }

    /// Opens the run and begins a generation of it.
    fn lead(&self, run: String, committer: &str) -> Result<(Role, Open)> {
        self.interrupts.found(&run);
        let open = Open::open(self.places, &run, self.report)?;
        let processes = self.membership.hosts.len();
        let workers = self.membership.workers;
        let generation = generation::fence(&self.places.store, &open.record, committer, processes, workers)?;
        let welcome = serde_json::to_vec(&Welcome { run, generation })?;
        Ok((Role::Lead(welcome), open))
    }

    fn start_pulse(&self, link: Link, beats: &Beats, events: &Sender<Event>) -> Result<Pulse> {
        let (sampled, verdicts) = (Arc::clone(beats), events.clone());
        let pulse = Pulse::start(
            link,
            PulseSettings { stall_bound: self.membership.stall_bound },
            move || sampled.get().map_or(0, |counters| counters.beats.load(Ordering::Relaxed)),
            move |verdict| drop(verdicts.send(Event::Verdict(verdict))),
        )?;
        Ok(pulse)
    }
}
