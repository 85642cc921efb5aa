//! `plan`: shows the size of a job before it runs.

use super::options::{JobArguments, MeshArguments, PlaceArguments, question_count};
use super::session::EvaluationSession;
use super::tables::probe::probe_table;
use super::tables::races::race_text;
use super::tables::requests::request_table;
use crate::print;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::DrainNotice;
use hopeval_jobs::report::plan as planning;
use hopeval_jobs::report::plan::races::{RacePlan, plan_races, plan_sweep_races};
use hopeval_jobs::report::probe::{ProbedCosts, probe_job, read_probe};
use hopeval_jobs::run::make::make_run;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::spending::cap::SpendingCap;
use hopeval_jobs::{Job, JobError};
use serde_json::json;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    job: JobArguments,
    /// Sets bad rows of the dataset aside in this file instead of failing.
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
    /// Asks so many of the questions for real, drawn at random, in a run of their own under the job's cap, and says
    /// what all of them would cost. Its answers are journalled: a later run does not pay for them again.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = question_count)]
    probe: Option<u64>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn plan(places: &PlaceArguments, arguments: PlanArguments) -> Result<u8> {
    let job = arguments.job.load()?;
    let progress = CommandStages::new(None);
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let opened = places.open_to_compute()?;
    let lenient = arguments.quarantine.is_some();
    let mut races = plan_races(&job, &opened, lenient, &report)?;
    let plan = match planning::plan_job(&job, &opened, arguments.quarantine.as_deref(), &report) {
        // Before its searches, a job with races is planned as far as it is known.
        Err(JobError::NoSelection { name, .. }) if !races.is_empty() && makes_selection(&job, &name) => {
            progress.clear();
            return print_races_alone(&races, &name, arguments.json);
        }
        plan => plan?,
    };
    races.extend(plan_sweep_races(&job, plan.questions, &opened, lenient, &report)?);
    progress.clear();
    let probed = match arguments.probe {
        None => None,
        Some(questions) => match run_probe(places, &arguments, &job, questions, plan.questions)? {
            Ok(probed) => Some(probed),
            Err(code) => return Ok(code),
        },
    };
    if arguments.json {
        let mut document = serde_json::to_value(&plan)?;
        if let Some(probed) = &probed {
            document["probe"] = serde_json::to_value(probed)?;
        }
        if !races.is_empty() {
            document["races"] = serde_json::to_value(&races)?;
        }
        print::line(&serde_json::to_string(&document)?);
        return Ok(exit::DONE);
    }
    if plan.quarantined > 0 {
        print::note(&format!("{} rows set aside", plan.quarantined));
    }
    print::paragraph(&format!(
        "{} questions x {} configurations = {} outcomes over {} passages; indexes {} bytes; journal {} entries",
        plan.questions, plan.configurations, plan.outcomes, plan.passages, plan.index_bytes, plan.journal_entries
    ));
    for (service, passages) in &plan.passages_to_embed {
        print::paragraph(&format!(
            "`{service}` has no index of this corpus: a run embeds {passages} passages first; \
             its rankings are made up here, so later rounds are rough"
        ));
    }
    print::line(&request_table(&plan));
    print::paragraph(&format!(
        "the estimate comes from {} questions that were driven through here, with the journal's answers where it has \
         them; it counts each request as asked, and equal requests are computed once",
        plan.sample
    ));
    let bound = if plan.guessed.is_empty() { "at most" } else { "about" };
    for (name, estimate) in &plan.estimated_money {
        print::paragraph(&format!(
            "`{name}` costs {bound} {:.6} {}: each request as asked, each new text as long as it may be",
            estimate.money, estimate.currency
        ));
    }
    if !plan.guessed.is_empty() {
        print::paragraph(
            "`about`: some of these requests follow guessed answers of models; a run may make more of them, or fewer",
        );
    }
    for race in &races {
        print::paragraph(&race_text(race));
    }
    if let Some(probed) = &probed {
        print::line(&format!("\n{}", probe_table(probed)));
    }
    Ok(exit::DONE)
}

/// Whether a search of the job makes the selection.
fn makes_selection(job: &Job, name: &str) -> bool {
    job.tune.iter().flat_map(|tune| &tune.select).any(|select| select.name == name)
}

/// Prints the races of a job whose own requests are not known, since its selection `missing` is not made.
fn print_races_alone(races: &[RacePlan], missing: &str, json: bool) -> Result<u8> {
    if json {
        print::line(&serde_json::to_string(&json!({"races": races, "waits_for": missing}))?);
        return Ok(exit::DONE);
    }
    for race in races {
        print::paragraph(&race_text(race));
    }
    print::paragraph(&format!(
        "selection `{missing}` is not in the store, so the requests of the job itself are not known yet; \
         `hopeval tune` makes it"
    ));
    Ok(exit::DONE)
}

/// Runs a probe of the job; an exit code if it ended otherwise than well.
fn run_probe(
    places: &PlaceArguments,
    arguments: &PlanArguments,
    job: &Job,
    questions: u64,
    all: u64,
) -> Result<Result<ProbedCosts, u8>> {
    let (job, drawn) = probe_job(job, questions.min(all));
    let opened = places.open_to_compute()?;
    let interrupts = Interrupts::install(DrainNotice::Print)?;
    interrupts.end_patience(&opened.store);
    opened.store.check_conditions()?;
    let mesh = MeshArguments::alone();
    let session = EvaluationSession {
        arguments: places,
        places: &opened,
        mesh: &mesh,
        interrupts: &interrupts,
        progress: CommandStages::new(None),
        progress_log: None,
        raised_cap: SpendingCap::default(),
    };
    let report = |stage: &str, done: u64| session.progress.tick(stage, done);
    let run = make_run(&job, &opened, arguments.quarantine.as_deref(), &|_| Ok(()), &report)?;
    let code = session.complete(&run)?;
    session.progress.clear();
    if code != exit::DONE && code != exit::FAILED_QUESTIONS {
        return Ok(Err(code));
    }
    let run = OpenRun::open_outcomes(&opened, &run, &|_, _| ())?;
    Ok(Ok(read_probe(&run, all, drawn)?))
}
