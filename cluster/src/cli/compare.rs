//! `compare`: configurations of several runs beside each other: set-up, quality, cost.

use super::options::PlaceArguments;
use super::tables::compared::comparison_text;
use super::tables::replicates::is_wanted;
use crate::print;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::report::compare_runs::{ComparedName, ComparedPair, compare_runs};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Two or more finished runs, each as RUN or RUN:CONFIGURATION, which is named or numbered as in the table of a
    /// sweep; the others are compared with the first. Without a configuration, those that both runs have are compared
    /// by name.
    #[arg(required = true, num_args = 2.., value_name = "RUN[:CONFIGURATION]")]
    sides: Vec<String>,
    /// Compares this measure instead of the headline ones; may be repeated.
    #[arg(long = "measure", value_name = "NAME")]
    measures: Vec<String>,
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn compare(places: &PlaceArguments, arguments: &CompareArguments) -> Result<u8> {
    let store = places.open_existing()?.store;
    let names: Vec<ComparedName> = arguments.sides.iter().map(|name| ComparedName::parse(name)).collect();
    let pairs = compare_runs(&store, &names, &|measure| is_wanted(measure, &arguments.measures))?;
    if let Some(missing) = arguments.measures.iter().find(|name| !is_told(&pairs, name)) {
        bail!("no compared pair has a value of `{missing}` on both sides");
    }
    if arguments.json {
        print::line(&serde_json::to_string(&json!({ "pairs": pairs }))?);
    } else {
        print::line(&print::wrapped(comparison_text(&pairs).trim_end()));
    }
    Ok(exit::DONE)
}

/// Whether a measure is compared over some question, or left out with a reason.
fn is_told<'a>(pairs: &'a [ComparedPair], measure: &str) -> bool {
    let with_value = |pair: &'a ComparedPair| pair.quality.iter().filter(|found| found.n > 0);
    let mut compared = pairs.iter().flat_map(with_value).map(|found| &found.measure);
    let mut left_out = pairs.iter().flat_map(|pair| &pair.measures_left_out).map(|(name, _)| name);
    compared.any(|name| name == measure) || left_out.any(|name| name == measure)
}
