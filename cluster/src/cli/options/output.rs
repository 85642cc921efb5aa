//! Options for the printed figures of a run.

use crate::cli::tables::incurred::incurred_table;
use crate::cli::tables::measures::{MeasureChoice, measure_tables};
use crate::cli::tables::{differences, replicates};
use crate::print;
use anyhow::{Result, anyhow};
use clap::Args;
use hopeval_jobs::report::show;
use hopeval_jobs::run::make::RunNames;
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::layout;

#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArguments {
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows this measure instead of the headline ones; may be repeated.
    #[arg(long = "measure", value_name = "NAME")]
    measures: Vec<String>,
    /// Shows this stratum instead of `all`, e.g. type=bridge.
    #[arg(long, value_name = "NAME")]
    stratum: Option<String>,
    /// Shows 95 % intervals in place of standard errors. Figures over fewer than 30 questions, and of 0 and 1, always
    /// have theirs.
    #[arg(long)]
    interval: bool,
    /// Shows how every configuration differs from this one, paired by question; replicates count as one configuration.
    #[arg(long, value_name = "CONFIGURATION")]
    against: Option<String>,
}

impl OutputArguments {
    /// Whether a name is given, which may be missing in a run.
    pub(crate) fn names_something(&self) -> bool {
        !self.measures.is_empty() || self.stratum.is_some() || self.against.is_some()
    }

    /// Checks that a run with these names has the named measures, stratum and configuration.
    pub(crate) fn check_names(&self, names: &RunNames) -> Result<(), String> {
        let missing = |what: &str, name: &str, known: &[String]| {
            Err(format!("no {what} `{name}`; the run has {}", known.join(", ")))
        };
        if let Some(stratum) = &self.stratum
            && !names.strata.contains(stratum)
        {
            return missing("stratum", stratum, &names.strata);
        }
        if let Some(unknown) = self.measures.iter().find(|name| !names.measures.contains(name)) {
            return missing("measure", unknown, &names.measures);
        }
        if let Some(against) = &self.against
            && !names.configurations.contains(against)
        {
            return missing("configuration", against, &names.configurations);
        }
        Ok(())
    }

    /// As [`OutputArguments::check_names`], for a run that is made.
    pub(crate) fn check_run(&self, run: &OpenRun) -> Result<()> {
        self.check_names(&run.names()).map_err(|error| anyhow!(error))
    }

    /// Prints a run's figures.
    pub(crate) fn print_figures(&self, run: &OpenRun) -> Result<()> {
        self.check_run(run)?;
        let shown = show::read_figures(run)?;
        let stratum = self.stratum.as_deref().unwrap_or("all");
        let compare = |against: &String| differences::comparisons(run, against, &self.measures, stratum);
        let compared = self.against.as_ref().map(compare).transpose()?;
        if self.json {
            let mut document = show::figures_document(run, &shown);
            if let Some(compared) = compared {
                document["differences"] = serde_json::to_value(compared.differences)?;
                document["differences_left_out"] = serde_json::to_value(compared.left_out)?;
            }
            print::line(&serde_json::to_string(&document)?);
            return Ok(());
        }
        let choice =
            MeasureChoice { measures: self.measures.clone(), stratum: self.stratum.clone(), intervals: self.interval };
        print::line(measure_tables(run, &shown, &choice).trim_end());
        if let Some(table) = replicates::replicate_table(&shown, &self.measures, stratum) {
            print::line(&table);
        }
        if let Some((against, compared)) = self.against.as_ref().zip(compared) {
            print::line(&differences::difference_tables(against, &compared));
        }
        print::line(&incurred_table(&shown.costs));
        let out = run.places.store.full_name(&layout::run_folder(run.id()));
        print::line(&format!("results: {out}"));
        Ok(())
    }
}
