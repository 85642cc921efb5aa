//! `requests`: writes the table of a run's journalled requests.

use super::options::PlaceArguments;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::report::requests::write_requests;
use hopeval_results::Log;

#[derive(Debug, Args)]
pub(crate) struct RequestsArguments {
    /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`.
    #[arg(default_value = "latest")]
    run: String,
}

pub(crate) fn requests(places: &PlaceArguments, arguments: RequestsArguments) -> Result<u8> {
    let run = places.open_figures(&arguments.run)?;
    let log = Log::open(&run.places.store, run.id())?;
    let table = write_requests(&run, &log)?;
    print::line(&format!("{}: {} requests", run.places.store.full_name(&table.path), table.rows));
    Ok(exit::DONE)
}
