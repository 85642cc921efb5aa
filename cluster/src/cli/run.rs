//! `run`: makes a run of a job and evaluates it.

use super::options::{JobArguments, MeshArguments, OutputArguments, PlaceArguments, ProgressArguments};
use super::run_sequence::RunSequence;
use super::session::EvaluationSession;
use super::sweep_races::race_sweeps;
use crate::print;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::DrainNotice;
use hopeval_jobs::mode::TimingMode;
use hopeval_jobs::run::make::{RunNames, make_run};
use hopeval_jobs::spending::cap::SpendingCap;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    mesh: MeshArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    progress: ProgressArguments,
    /// What the run is timed for: `throughput`, or `latency`: one question at a time, nothing shared. Figures are the
    /// same [default: the job's `run.mode`].
    #[arg(long, value_name = "MODE")]
    mode: Option<TimingMode>,
    /// Sets bad rows of the dataset aside in this file instead of failing.
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
    /// Prints the job as it was understood, overrides applied, and does nothing.
    #[arg(long)]
    show_settings: bool,
}

pub(crate) fn run(places: &PlaceArguments, arguments: RunArguments) -> Result<u8> {
    let mut job = arguments.job.load()?;
    job.run.mode = arguments.mode.unwrap_or(job.run.mode);
    if arguments.show_settings {
        print::line(toml::to_string_pretty(&job)?.trim_end());
        return Ok(exit::DONE);
    }
    arguments.mesh.check_options()?;
    if arguments.mesh.is_one_of_several() && job.method.values().any(|method| method.race.is_some()) {
        bail!("--process: a race has several runs, and starts its processes itself, as --processes says");
    }
    arguments.output.check_marks(!job.judge.is_empty())?;
    let opened = places.open_to_compute()?;
    let interrupts = Interrupts::install(DrainNotice::Print)?;
    interrupts.end_patience(&opened.store);
    if arguments.mesh.leads() {
        opened.store.check_conditions()?;
    }
    let racing: Vec<&str> =
        job.method.iter().filter(|(_, method)| method.race.is_some()).map(|(name, _)| name.as_str()).collect();
    let check = |names: &RunNames| {
        arguments.output.check_races(&racing)?;
        arguments.output.check_names(names)
    };
    let quarantine = arguments.quarantine.as_deref();
    let sequence = RunSequence::new(places, &opened, &arguments.mesh, &interrupts, quarantine);
    let job = match race_sweeps((&job, arguments.job.path()), &sequence, &check)? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    let mesh = sequence.next_mesh();
    let session = EvaluationSession {
        arguments: places,
        places: &opened,
        mesh: &mesh,
        interrupts: &interrupts,
        progress: CommandStages::new(arguments.progress.open_log()?),
        progress_log: arguments.progress.progress_log.as_deref(),
        raised_cap: SpendingCap::default(),
    };
    let report = |stage: &str, done: u64| session.progress.tick(stage, done);
    let make = || make_run(&job, &opened, quarantine, &check, &report);
    let run = arguments.mesh.leads().then(make).transpose()?;
    session.evaluate_and_judge(run, &arguments.output)
}
