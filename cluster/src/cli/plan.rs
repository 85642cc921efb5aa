//! `plan`: shows the size of a job before it runs.

use super::options::{JobArguments, MeshArguments, PlaceArguments, question_count};
use super::session::EvaluationSession;
use super::tables::probe::probe_table;
use super::tables::requests::request_table;
use crate::print;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::DrainNotice;
use hopeval_jobs::Job;
use hopeval_jobs::report::plan as planning;
use hopeval_jobs::report::probe::{ProbedCosts, probe_job, read_probe};
use hopeval_jobs::run::make::make_run;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::spending::cap::SpendingCap;
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
    let plan = planning::plan_job(&job, &places.open_to_compute()?, arguments.quarantine.as_deref(), &report)?;
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
    if let Some(probed) = &probed {
        print::line(&format!("\n{}", probe_table(probed)));
    }
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
