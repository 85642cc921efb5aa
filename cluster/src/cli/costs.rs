//! `costs`: shows the cost of a question of a run under each configuration.

use super::options::PlaceArguments;
use super::tables::costs::cost_tables;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::report::accounting::read_run_costs;
use hopeval_jobs::report::show;

#[derive(Debug, Args)]
pub(crate) struct CostsArguments {
    /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`; it must be finished.
    #[arg(default_value = "latest")]
    run: String,
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn costs(places: &PlaceArguments, arguments: CostsArguments) -> Result<u8> {
    let store = places.open_existing()?.store;
    let run = hopeval_results::run::resolve_run(&store, &arguments.run)?;
    let accounting = read_run_costs(&store, &run)?;
    if arguments.json {
        let mut document = serde_json::to_value(&accounting)?;
        document["incurred"] = accounting.incurred.iter().map(show::cost_document).collect();
        print::line(&serde_json::to_string(&document)?);
    } else {
        print::line(cost_tables(&accounting).trim_end());
    }
    Ok(exit::DONE)
}
