//! The runs of one command that follow each other: those of a search, and the rungs of a race.

use super::options::{MeshArguments, PlaceArguments};
use super::session::EvaluationSession;
use crate::print;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::Result;
use hopeval_cluster::exit;
use hopeval_jobs::Job;
use hopeval_jobs::places::Places;
use hopeval_jobs::run::make::make_run;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::spending::cap::SpendingCap;
use std::cell::Cell;
use std::path::Path;

/// Everything needed for the runs of a command.
pub(super) struct RunSequence<'a> {
    arguments: &'a PlaceArguments,
    places: &'a Places,
    mesh: &'a MeshArguments,
    interrupts: &'a Interrupts,
    /// The file for wrong rows, if they are set aside.
    quarantine: Option<&'a Path>,
    /// Whether this command had a run before.
    has_run: Cell<bool>,
}

impl<'a> RunSequence<'a> {
    pub(super) fn new(
        arguments: &'a PlaceArguments,
        places: &'a Places,
        mesh: &'a MeshArguments,
        interrupts: &'a Interrupts,
        quarantine: Option<&'a Path>,
    ) -> Self {
        Self { arguments, places, mesh, interrupts, quarantine, has_run: Cell::new(false) }
    }

    /// The places.
    pub(super) fn places(&self) -> &'a Places {
        self.places
    }

    /// The file for wrong rows, if they are set aside.
    pub(super) fn quarantine(&self) -> Option<&'a Path> {
        self.quarantine
    }

    /// The exit code if a signal has come between two runs, which `what` names.
    pub(super) fn interrupted(&self, what: &str) -> Option<u8> {
        self.interrupts.signals().is_draining().then(|| {
            print::note(&format!("interrupted between two {what}; the same command goes on from there"));
            exit::RESUMABLE
        })
    }

    /// The processes and workers of the next run. In one process the address for metrics shows the first run alone.
    pub(super) fn next_mesh(&self) -> MeshArguments {
        let mut mesh = self.mesh.clone();
        if self.has_run.replace(true) && !mesh.supervises() && mesh.metrics.take().is_some() {
            print::note("--metrics goes on showing the first run of this command");
        }
        mesh
    }

    /// Makes a run and runs it to its end; an exit code if it ended otherwise than well.
    pub(super) fn complete_run(&self, job: &Job) -> Result<Result<OpenRun, u8>> {
        let mesh = self.next_mesh();
        // Each run has its own stages.
        let session = EvaluationSession {
            arguments: self.arguments,
            places: self.places,
            mesh: &mesh,
            interrupts: self.interrupts,
            progress: CommandStages::new(None),
            progress_log: None,
            raised_cap: SpendingCap::default(),
        };
        let report = |stage: &str, done: u64| session.progress.tick(stage, done);
        let run = make_run(job, self.places, self.quarantine, &|_| Ok(()), &report)?;
        let code = session.complete(&run)?;
        session.progress.clear();
        if code == exit::FAILED_QUESTIONS {
            print::note(
                "hint: nothing was chosen from a run with so many failures; `run.allowed_failed` says how many may be",
            );
        }
        if code == exit::RESUMABLE {
            print::note("hint: that run is one of several; the same command as before goes on with all of them");
        }
        if code != exit::DONE {
            return Ok(Err(code));
        }
        Ok(Ok(OpenRun::open(self.places, &run, &|_, _| ())?))
    }
}
