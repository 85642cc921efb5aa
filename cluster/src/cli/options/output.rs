//! Options for the printed figures of a run.

use crate::cli::tables::incurred::incurred_table;
use crate::cli::tables::measures::{MeasureChoice, measure_tables};
use crate::cli::tables::{differences, replicates};
use crate::print;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_jobs::report::show;
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

    /// Checks that the run has the named measures, stratum and configuration.
    pub(crate) fn check_names(&self, run: &OpenRun) -> Result<()> {
        if let Some(stratum) = &self.stratum
            && !run.evaluator.strata().contains(stratum)
        {
            bail!("no stratum `{stratum}`; the run has {}", run.evaluator.strata().join(", "));
        }
        let names = run.evaluator.measure_set().names();
        if let Some(unknown) = self.measures.iter().find(|name| !names.contains(name)) {
            bail!("no measure `{unknown}`; the run has {}", names.join(", "));
        }
        if let Some(against) = &self.against {
            hopeval_jobs::report::compare::check_against(run, against)?;
        }
        Ok(())
    }

    /// Prints a run's figures.
    pub(crate) fn print_figures(&self, run: &OpenRun) -> Result<()> {
        self.check_names(run)?;
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
