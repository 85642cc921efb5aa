//! `resume`: resumes an interrupted run.

use super::options::{MeshArguments, OutputArguments, PlaceArguments, ProgressArguments};
use super::session::EvaluationSession;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::{Result, anyhow};
use clap::Args;
use hopeval_cluster::signals::DrainNotice;
use hopeval_jobs::places::Places;
use hopeval_jobs::run::making::find_resumable;
use hopeval_jobs::run::ordered::make_ordered;
use hopeval_jobs::run::settings::ResolvedSettings;
use hopeval_jobs::spending::cap::SpendingCap;
use hopeval_results::RunRecord;

#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeArguments {
    /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`.
    run: String,
    /// Changes the run's cap from now on, as in `--set run.cap.money=20`; `tokens` and `calls` are the other keys.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    mesh: MeshArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    progress: ProgressArguments,
    /// Prints nothing at the end: for the processes that a supervisor starts.
    #[arg(long, hide = true)]
    quiet: bool,
}

pub(crate) fn resume(places: &PlaceArguments, arguments: ResumeArguments) -> Result<u8> {
    arguments.mesh.check_options()?;
    let raised_cap = SpendingCap::parse_changes(&arguments.sets)
        .map_err(|bad| anyhow!("{} = {}; allowed: {}", bad.key, bad.found, bad.allowed))?;
    let opened = places.open_existing_to_compute()?;
    let run = find_resumable(&opened.store, &arguments.run)?;
    let interrupts = Interrupts::install(if arguments.quiet { DrainNotice::Silent } else { DrainNotice::Print })?;
    interrupts.end_patience(&opened.store);
    let session = EvaluationSession {
        arguments: places,
        places: &opened,
        mesh: &arguments.mesh,
        interrupts: &interrupts,
        progress: if arguments.quiet && !arguments.mesh.leads() {
            CommandStages::silent()
        } else {
            CommandStages::new(arguments.progress.open_log()?)
        },
        progress_log: arguments.progress.progress_log.as_deref(),
        raised_cap,
    };
    let report = |stage: &str, done: u64| session.progress.tick(stage, done);
    if arguments.mesh.leads() {
        make_ordered(&run, &opened, &report)?;
        if arguments.output.has_marks() {
            arguments.output.check_marks(has_judges(&opened, &run)?)?;
        }
    }
    session.check_output(&run, &arguments.output)?;
    let lead = arguments.mesh.leads().then_some(run);
    if arguments.quiet { session.take_part(lead) } else { session.evaluate_and_judge(lead, &arguments.output) }
}

/// Whether a run is one of judges, or has some behind it.
fn has_judges(places: &Places, run: &str) -> Result<bool> {
    let resolved: ResolvedSettings = serde_json::from_value(RunRecord::load(&places.store, run)?.settings)?;
    Ok(resolved.judged.is_some() || !resolved.job.judge.is_empty())
}
