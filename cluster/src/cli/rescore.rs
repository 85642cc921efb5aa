//! `rescore`: the measures of a run's committed outcomes, computed anew.

use super::options::PlaceArguments;
use super::tables::measures::{MeasureChoice, measure_tables};
use crate::print;
use crate::rewrite::rewrite_tables;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::report::measure_means;
use hopeval_jobs::report::replicates::replicate_spreads;
use hopeval_jobs::report::show as showing;
use hopeval_results::Log;

#[derive(Debug, Args)]
pub(crate) struct RescoreArguments {
    /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`.
    #[arg(default_value = "latest")]
    run: String,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
    /// Writes the final tables anew; the run must be finished.
    #[arg(long)]
    write: bool,
}

pub(crate) fn rescore(places: &PlaceArguments, arguments: RescoreArguments) -> Result<u8> {
    let run = places.open_outcomes(&arguments.run)?;
    let mut log = Log::open(&run.places.store, run.id())?;
    if arguments.write {
        rewrite_tables(&run, &mut log)?;
    }
    let state = log.state();
    let figures = measure_means::mean_measures(&run, &log)?;
    let shown = showing::RunFigures {
        note: showing::readable_note(&run.places.store, run.id()),
        finished: state.finished.is_some(),
        outcomes: state.total_outcomes(),
        expected: run.resolved.outcome_count(),
        commits: state.commits.len() as u64,
        replicates: replicate_spreads(&run.resolved.configurations, &figures),
        measures: figures,
        costs: Vec::new(),
    };
    if arguments.json {
        print::line(&serde_json::to_string(&showing::figures_document(&run, &shown))?);
    } else {
        print::line(measure_tables(&run, &shown, &MeasureChoice::default())?.trim_end());
    }
    Ok(exit::DONE)
}
