//! Runs one generation of a run to its end, in this process or in children.

mod batches;
mod children;
mod watch;

use super::judge::JudgingStage;
use super::options::{MeshArguments, OutputArguments, PlaceArguments, metrics_error};
use crate::print;
use crate::process::{Interrupts, Process, ProcessEnd, serve_metrics};
use crate::stages::CommandStages;
use anyhow::Result;
use hopeval_cluster::exit;
use hopeval_cluster::metrics::MetricsListener;
use hopeval_jobs::places::Places;
use hopeval_jobs::report::failures;
use hopeval_jobs::run::generation::Generation;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::run::settings::ResolvedSettings;
use hopeval_jobs::spending::cap::SpendingCap;
use hopeval_results::{RunRecord, layout};
use std::path::Path;
use std::sync::Mutex;
use watch::{EndClock, watch_generation};

/// Everything needed for an evaluation besides its run.
pub(super) struct EvaluationSession<'a> {
    /// The user's names of the places, for the child processes.
    pub(super) arguments: &'a PlaceArguments,
    /// The places, open.
    pub(super) places: &'a Places,
    /// The processes and workers.
    pub(super) mesh: &'a MeshArguments,
    /// Signals of this process.
    pub(super) interrupts: &'a Interrupts,
    /// Shows progress.
    pub(super) progress: CommandStages,
    /// The file with the progress.
    pub(super) progress_log: Option<&'a Path>,
    /// Changes of the run's cap.
    pub(super) raised_cap: SpendingCap,
}

impl EvaluationSession<'_> {
    /// Checks the output options of a run that is made, before hours of evaluation.
    pub(super) fn check_output(&self, run: &str, output: &OutputArguments) -> Result<()> {
        if output.names_something() {
            let report = |stage: &str, done: u64| self.progress.tick(stage, done);
            output.check_run(&OpenRun::open(self.places, run, &report)?)?;
        }
        Ok(())
    }

    /// Runs one generation to its end and prints the figures. Process 0 gets the run.
    pub(super) fn evaluate(&self, run: Option<String>, output: &OutputArguments) -> Result<u8> {
        self.evaluate_then(run, &|run, code| {
            output.print_figures(&OpenRun::open_figures(self.places, run, &|_, _| ())?)?;
            Ok(code)
        })
    }

    /// Runs one generation to its end and judges the answers if the job has judges. Prints the figures.
    pub(super) fn evaluate_and_judge(&self, run: Option<String>, output: &OutputArguments) -> Result<u8> {
        let EvaluationSession { arguments, places, mesh, interrupts, .. } = *self;
        self.evaluate_then(run, &|run, code| {
            JudgingStage { arguments, places, mesh, interrupts, output }.judge(run, code)
        })
    }

    /// Runs one generation to its end. A finished run goes on with `rest`, which gets its id and its exit code.
    fn evaluate_then(&self, run: Option<String>, rest: &dyn Fn(&str, u8) -> Result<u8>) -> Result<u8> {
        let Some(run) = run else { return self.take_part(None) };
        let code = self.complete(&run)?;
        if code != exit::DONE && code != exit::FAILED_QUESTIONS {
            return Ok(code);
        }
        self.progress.clear();
        rest(&run, code)
    }

    /// Runs one generation to its end, in this process or in children, and returns the exit code. [`exit::DONE`] and
    /// [`exit::FAILED_QUESTIONS`] mean a finished run.
    pub(super) fn complete(&self, run: &str) -> Result<u8> {
        if self.mesh.supervises() { self.start_children(run) } else { self.take_part(Some(run.to_owned())) }
    }

    /// Does this process's part in one generation, and returns the exit code. Process 0 gets the run as `lead`.
    pub(super) fn take_part(&self, lead: Option<String>) -> Result<u8> {
        let membership = self.mesh.membership()?;
        let processes = membership.hosts.len() as u64;
        let end = EndClock::default();
        let report = |stage: &str, done: u64| end.show_stage(&self.progress, stage, done);
        let listener = Mutex::new(self.mesh.metrics.map(MetricsListener::open).transpose().map_err(metrics_error)?);
        let on_ready = |generation: &Generation| {
            if let Some(listener) = listener.lock().ok().and_then(|mut listener| listener.take())
                && let Err(error) = serve_metrics(listener, generation)
            {
                print::note(&format!("warning: --metrics: {error}"));
            }
            let workers = u64::from(self.mesh.workers);
            if let Err(error) = watch_generation(&self.progress, generation, processes, workers, &end) {
                print::note(&format!("warning: the progress is not shown: {error}"));
            }
        };
        let (places, interrupts, raised_cap) = (self.places, self.interrupts, self.raised_cap);
        let process = Process { places, membership, interrupts, raised_cap, report: &report, on_ready: &on_ready };
        let end = process.run_generation(lead)?;
        self.finished_code(&end)
    }

    /// The exit code of a run's end: it tells whether requests wait, or more outcomes failed than the job allows.
    fn finished_code(&self, end: &ProcessEnd) -> Result<u8> {
        let (store, run) = (&self.places.store, &end.run);
        if !end.batches.is_empty() {
            self.progress.clear();
        }
        if batches::print_batches(run, &end.batches) {
            return Ok(exit::RESUMABLE);
        }
        let Some((failed, outcomes)) = end.outcomes else { return Ok(exit::DONE) };
        let record = RunRecord::load(store, run)?;
        let resolved: ResolvedSettings = serde_json::from_value(record.settings)?;
        let allowed = resolved.job.run.allowed_failed;
        let too_many = failed as f64 > allowed * outcomes as f64;
        if !too_many {
            return Ok(exit::DONE);
        }
        print::note(&format!("{failed} of {outcomes} outcomes failed; the job allows a share of {allowed}"));
        for failure in failures::read_failures(store, run)? {
            print::note(&format!("  {failure}"));
        }
        let outcomes = store.full_name(&layout::final_table(run, "outcomes"));
        print::note(&format!(
            "hint: `status` and `message` in {outcomes} say more; `run.allowed_failed` is the share that may fail"
        ));
        Ok(exit::FAILED_QUESTIONS)
    }
}
