//! `plan`: shows the size of a job before it runs.

use super::options::{JobArguments, PlaceArguments};
use super::tables::requests::request_table;
use crate::print;
use crate::stages::CommandStages;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::report::plan as planning;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    job: JobArguments,
    /// Sets bad rows of the dataset aside in this file instead of failing.
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
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
    if arguments.json {
        print::line(&serde_json::to_string(&plan)?);
        return Ok(exit::DONE);
    }
    if plan.quarantined > 0 {
        print::note(&format!("{} rows set aside", plan.quarantined));
    }
    print::line(&format!(
        "{} questions x {} configurations = {} outcomes over {} passages; indexes {} bytes; journal {} entries",
        plan.questions, plan.configurations, plan.outcomes, plan.passages, plan.index_bytes, plan.journal_entries
    ));
    for (service, passages) in &plan.passages_to_embed {
        print::line(&format!(
            "`{service}` has no index of this corpus: a run embeds {passages} passages first; \
             its rankings are made up here, so later rounds are rough"
        ));
    }
    print::line(&request_table(&plan));
    print::line(&format!(
        "the estimate comes from {} questions that were driven through here, with the journal's answers where it has \
         them; it counts each request as asked, and equal requests are computed once",
        plan.sample
    ));
    for (name, estimate) in &plan.estimated_money {
        print::line(&format!(
            "`{name}` costs at most {:.6} {}, with every text as long as it may be and no answer from the journal",
            estimate.money, estimate.currency
        ));
    }
    if !plan.bounds.is_empty() {
        print::line(
            "`at most`: these requests follow guessed answers of models, so that questions go on as long as they may",
        );
    }
    Ok(exit::DONE)
}
