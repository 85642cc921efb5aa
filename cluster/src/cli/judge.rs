//! `judge`: judges the answers of a finished run, in a run of its own.

use super::options::{MeshArguments, OutputArguments, PlaceArguments, ProgressArguments};
use super::session::EvaluationSession;
use crate::print;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::DrainNotice;
use hopeval_jobs::Job;
use hopeval_jobs::places::Places;
use hopeval_jobs::run::judging::make_judging_run;
use hopeval_jobs::run::make::RunNames;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::run::settings::ResolvedSettings;
use hopeval_jobs::spending::cap::SpendingCap;
use hopeval_results::RunRecord;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct JudgeArguments {
    /// The judged run: its id or the beginning of it, its job, `latest`, or `latest~1`.
    run: String,
    /// A TOML file with the tables [judge.NAME] and [service.NAME], or a whole job [default: the run's own job].
    judges: Option<PathBuf>,
    /// Overrides a key of the file, as in `--set judge.gpt.temperature=0.5`.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "judges")]
    sets: Vec<String>,
    #[command(flatten)]
    mesh: MeshArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    progress: ProgressArguments,
}

pub(crate) fn judge(places: &PlaceArguments, arguments: JudgeArguments) -> Result<u8> {
    let given = arguments.judges.as_ref().map(|path| Job::load_judges(path, &arguments.sets)).transpose()?;
    if arguments.mesh.is_one_of_several() {
        bail!("--process: `judge` starts its processes itself, as --processes says");
    }
    arguments.mesh.check_options()?;
    arguments.output.check_marks(true)?;
    let opened = places.open_existing_to_compute()?;
    let judged = hopeval_results::run::resolve_run(&opened.store, &arguments.run)?;
    let judges = given.map_or_else(|| job_of(&opened, &judged), Ok)?;
    let interrupts = Interrupts::install(DrainNotice::Print)?;
    interrupts.end_patience(&opened.store);
    opened.store.check_conditions()?;
    let session = EvaluationSession {
        arguments: places,
        places: &opened,
        mesh: &arguments.mesh,
        interrupts: &interrupts,
        progress: CommandStages::new(arguments.progress.open_log()?),
        progress_log: arguments.progress.progress_log.as_deref(),
        raised_cap: SpendingCap::default(),
    };
    let report = |stage: &str, done: u64| session.progress.tick(stage, done);
    let check = |names: &RunNames| arguments.output.check_names(names);
    let run = make_judging_run(&judges, &judged, &opened, &check, &report)?;
    session.evaluate(Some(run), &arguments.output)
}

/// The job of a run.
fn job_of(places: &Places, run: &str) -> Result<Job> {
    let resolved: ResolvedSettings = serde_json::from_value(RunRecord::load(&places.store, run)?.settings)?;
    Ok(resolved.job)
}

/// The judges of a job, after its run: the command's last stage.
pub(super) struct JudgingStage<'a> {
    pub(super) arguments: &'a PlaceArguments,
    pub(super) places: &'a Places,
    pub(super) mesh: &'a MeshArguments,
    pub(super) interrupts: &'a Interrupts,
    pub(super) output: &'a OutputArguments,
}

impl JudgingStage<'_> {
    /// Judges the finished run `judged` by the judges of its own job, and prints the figures of both. `code` is the
    /// judged run's exit code.
    pub(super) fn judge(&self, judged: &str, code: u8) -> Result<u8> {
        let judges = job_of(self.places, judged)?;
        let run = OpenRun::open_figures(self.places, judged, &|_, _| ())?;
        if run.resolved.judged.is_some() {
            self.output.print_figures(&run)?;
            return Ok(code);
        }
        let alone = self.output.without_marks();
        if judges.judge.is_empty() {
            alone.print_figures(&run)?;
            return Ok(code);
        }
        if self.mesh.is_one_of_several() || self.interrupts.signals().is_draining() {
            alone.print_figures(&run)?;
            print::note(&format!("its judges have not judged; `hopeval judge {judged}` does it"));
            return Ok(if self.interrupts.signals().is_draining() { exit::RESUMABLE } else { code });
        }
        // The address for metrics still shows the run before.
        let mut mesh = self.mesh.clone();
        mesh.metrics = None;
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
        // Whatever comes of the judges, the figures of the judged run are there.
        let made = make_judging_run(&judges, judged, self.places, &|_| Ok(()), &report);
        let completed = made.map_err(anyhow::Error::from).and_then(|judging| {
            let code = session.complete(&judging)?;
            Ok((judging, code))
        });
        session.progress.clear();
        let (judging, judging_code) = match completed {
            Ok((judging, code)) if code == exit::DONE || code == exit::FAILED_QUESTIONS => (judging, code),
            Ok((_, code)) => {
                alone.print_figures(&run)?;
                return Ok(code);
            }
            Err(error) => {
                alone.print_figures(&run)?;
                return Err(error);
            }
        };
        let figures = OpenRun::open_figures(self.places, &judging, &|_, _| ())?;
        self.output.print_judged(&run, &figures)?;
        Ok(code.max(judging_code))
    }
}
