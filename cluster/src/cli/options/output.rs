//! Options for the printed figures of a run.

use crate::cli::tables::agreement::agreement_table;
use crate::cli::tables::differences;
use crate::cli::tables::formats::document_tables;
use crate::cli::tables::incurred::incurred_table;
use crate::cli::tables::measures::{MeasureChoice, measure_tables, run_heading};
use crate::cli::tables::raced::raced_tables;
use crate::cli::tables::replicates::{self, is_wanted};
use crate::cli::tables::view::TableView;
use crate::print;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use hopeval_jobs::job::sweep::numbered_position;
use hopeval_jobs::report::agreement::{AgreementReport, HumanMarks, judge_agreement};
use hopeval_jobs::report::compare::{Comparison, ComparisonResults, compare_configurations};
use hopeval_jobs::report::show;
use hopeval_jobs::run::make::RunNames;
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::layout;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArguments {
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows this measure instead of the headline ones; may be repeated.
    #[arg(long = "measure", value_name = "NAME")]
    measures: Vec<String>,
    /// Shows this stratum instead of `all`, e.g. type=bridge; may be repeated.
    #[arg(long = "stratum", value_name = "NAME", id = "stratum")]
    strata: Vec<String>,
    /// Shows 95 % intervals in place of standard errors. Figures over fewer than 30 questions, and of 0 and 1, always
    /// have theirs.
    #[arg(long)]
    interval: bool,
    /// Compares judges with people: a file of marks, JSON Lines with `question`, `configuration` or `prediction`, and
    /// `mark`.
    #[arg(long, value_name = "FILE")]
    marks: Option<PathBuf>,
    /// Shows how every configuration differs from this one, paired by question; replicates count as one configuration.
    /// It is named, or numbered as in the table of a sweep. `show` has the differences alone then.
    #[arg(long, value_name = "CONFIGURATION")]
    against: Option<String>,
}

impl OutputArguments {
    /// Whether a name is given, which may be missing in a run.
    pub(crate) fn names_something(&self) -> bool {
        !self.measures.is_empty() || !self.strata.is_empty() || self.against.is_some()
    }

    /// The measure that is named; none by default.
    pub(crate) fn only_measure(&self) -> Result<Option<&str>> {
        match &self.measures[..] {
            [] => Ok(None),
            [measure] => Ok(Some(measure)),
            more => bail!("--measure: one is compared here, and {} are named", more.len()),
        }
    }

    /// Checks that a run with these names has the named measures, stratum and configuration.
    pub(crate) fn check_names(&self, names: &RunNames) -> Result<(), String> {
        let missing = |what: &str, name: &str, known: &[String]| {
            Err(format!("no {what} `{name}`; the run has {}", known.join(", ")))
        };
        if let Some(unknown) = self.strata.iter().find(|name| !names.strata.contains(name)) {
            return missing("stratum", unknown, &names.strata);
        }
        if let Some(unknown) = self.measures.iter().find(|name| !names.measures.contains(name)) {
            return missing("measure", unknown, &names.measures);
        }
        if let Some(against) = &self.against
            && names.find_configuration(against).is_none()
        {
            return missing("configuration", against, &names.configurations);
        }
        Ok(())
    }

    /// Refuses a point of a racing method, which the race may stop, and a number, which means another configuration
    /// once points are stopped.
    pub(crate) fn check_races(&self, racing: &[&str]) -> Result<(), String> {
        let Some(against) = self.against.as_deref().filter(|_| !racing.is_empty()) else { return Ok(()) };
        let is_point = racing.iter().any(|name| against.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
        if is_point || numbered_position(against).is_some() {
            return Err(format!(
                "--against: `{against}` is known when the race is over; `hopeval show --against {against}` compares \
                 then"
            ));
        }
        Ok(())
    }

    /// As [`OutputArguments::check_names`], for a run that is made.
    pub(crate) fn check_run(&self, run: &OpenRun) -> Result<()> {
        self.check_names(&run.names()).map_err(|error| anyhow!(error))
    }

    /// Whether judges are to be compared with people.
    pub(crate) fn has_marks(&self) -> bool {
        self.marks.is_some()
    }

    /// Checks that the file of marks can be read and is of use, before hours of evaluation.
    pub(crate) fn check_marks(&self, has_judges: bool) -> Result<()> {
        if self.marks.is_some() && !has_judges {
            bail!("--marks compares judges with people, and the job has no [judge.NAME]");
        }
        self.read_marks().map(drop)
    }

    fn read_marks(&self) -> Result<Option<HumanMarks>> {
        Ok(self.marks.as_ref().map(|path| HumanMarks::read(path)).transpose()?)
    }

    /// Prints a run's figures.
    pub(crate) fn print_figures(&self, run: &OpenRun) -> Result<()> {
        let figures = self.read_figures(run, &TableView::default())?;
        match self.json {
            true => print::line(&serde_json::to_string(&figures.document(run)?)?),
            false => self.print_tables(run, &figures, &TableView::default())?,
        }
        Ok(())
    }

    /// Prints a view of a run's figures; with `--against` the differences alone.
    pub(crate) fn print_view(&self, run: &OpenRun, view: &TableView) -> Result<()> {
        if let Some(sort) = &view.sort
            && !run.names().measures.contains(sort)
        {
            bail!("--sort: no measure `{sort}`; the run has {}", run.names().measures.join(", "));
        }
        if self.against.is_some() && view.format.is_none() && view.is_chosen() {
            bail!("--against: --sort, --top and --filter are for tables of figures; with --format they go together");
        }
        let figures = self.read_figures(run, view)?;
        match self.json {
            true => print::line(&serde_json::to_string(&figures.document(run)?)?),
            false if self.against.is_some() && view.format.is_none() => self.print_differences(run, &figures, view),
            false => self.print_tables(run, &figures, view)?,
        }
        Ok(())
    }

    /// Prints the run's heading and the differences from the configuration of `--against`.
    fn print_differences(&self, run: &OpenRun, figures: &PrintedFigures, view: &TableView) {
        let strata = self.choice(view).strata().join(", ");
        print::line(print::wrapped(&run_heading(run, &figures.shown, &strata)).trim_end());
        for found in &figures.compared {
            print::line(&differences::difference_tables(found, run.evaluator.measure_set()));
        }
        if let Some(agreement) = &figures.agreement {
            print::line(&agreement_table(agreement));
        }
    }

    /// Prints the figures of a run and those of the judges of its answers: with `--json` one document, with the judges'
    /// own under `judging`.
    pub(crate) fn print_judged(&self, run: &OpenRun, judging: &OpenRun) -> Result<()> {
        let (of_run, of_judges) = (self.without_marks(), self.for_judges());
        let (figures, words) =
            (of_run.read_figures(run, &TableView::default())?, of_judges.read_figures(judging, &TableView::default())?);
        if self.json {
            let mut document = figures.document(run)?;
            document["judging"] = words.document(judging)?;
            print::line(&serde_json::to_string(&document)?);
            return Ok(());
        }
        of_run.print_tables(run, &figures, &TableView::default())?;
        print::line("");
        of_judges.print_tables(judging, &words, &TableView::default())
    }

    /// The same without marks of people, for a run without judges.
    pub(crate) fn without_marks(&self) -> Self {
        Self { marks: None, ..self.clone() }
    }

    /// The options for a run of judges: it has other measures and configurations.
    fn for_judges(&self) -> Self {
        Self { measures: Vec::new(), against: None, ..self.clone() }
    }

    fn read_figures(&self, run: &OpenRun, view: &TableView) -> Result<PrintedFigures> {
        self.check_run(run)?;
        let shown = show::read_figures(run)?;
        let names = run.names();
        let mut compared = Vec::new();
        if let Some(against) = self.against.as_ref().and_then(|against| names.find_configuration(against)) {
            // Tables for documents mark what differs: they need a test of each measure that they show.
            let choice = self.choice(view);
            let is_shown = |measure: &str| match view.format {
                Some(_) if self.measures.is_empty() => choice.is_headline(measure),
                _ => is_wanted(measure, &self.measures),
            };
            for stratum in choice.strata() {
                compared.push(compare_configurations(run, against, stratum, &is_shown)?);
            }
        }
        let marks = self.read_marks()?;
        if marks.is_some() && run.resolved.judged.is_none() {
            bail!("--marks: run {} has no judges to compare with people", run.id());
        }
        let has_words = run.resolved.judged.is_some() && shown.finished;
        let agreement = has_words.then(|| judge_agreement(run, marks.as_ref())).transpose()?;
        Ok(PrintedFigures { shown, compared, agreement })
    }

    /// The shown measures and strata, each stratum once.
    fn choice(&self, view: &TableView) -> MeasureChoice {
        let mut strata: Vec<String> = Vec::new();
        for stratum in &self.strata {
            if !strata.contains(stratum) {
                strata.push(stratum.clone());
            }
        }
        MeasureChoice { measures: self.measures.clone(), strata, intervals: self.interval, view: view.clone() }
    }

    fn print_tables(&self, run: &OpenRun, figures: &PrintedFigures, view: &TableView) -> Result<()> {
        let PrintedFigures { shown, compared, agreement } = figures;
        let choice = self.choice(view);
        let so_far = if shown.finished { "" } else { " so far" };
        for name in self.measures.iter().collect::<BTreeSet<_>>() {
            if !shown.measures.iter().any(|row| row.n > 0 && row.measure == *name) {
                print::note(&format!("`{name}` has no value{so_far}"));
            }
        }
        if let Some(format) = view.format {
            print::line(&document_tables(run, shown, &choice, format, compared)?);
            return Ok(());
        }
        print::line(measure_tables(run, shown, &choice)?.trim_end());
        raced_tables(run).iter().for_each(|table| print::line(table));
        for stratum in choice.strata() {
            if let Some(table) = replicates::replicate_table(shown, &self.measures, stratum) {
                print::line(&table);
            }
        }
        for found in compared {
            print::line(&differences::difference_tables(found, run.evaluator.measure_set()));
        }
        if let Some(agreement) = agreement {
            print::line(&agreement_table(agreement));
        }
        print::line(&incurred_table(&shown.costs));
        let out = run.places.store.full_name(&layout::run_folder(run.id()));
        print::line(&format!("results: {out}"));
        Ok(())
    }
}

/// The figures of a run, as these options ask for them.
struct PrintedFigures {
    shown: show::RunFigures,
    /// By shown stratum, if `--against` is given.
    compared: Vec<ComparisonResults>,
    /// Of a finished run of judges.
    agreement: Option<AgreementReport>,
}

impl PrintedFigures {
    fn document(&self, run: &OpenRun) -> Result<Value> {
        let mut document = show::figures_document(run, &self.shown);
        if let [first, ..] = &self.compared[..] {
            let differences: Vec<&Comparison> = self.compared.iter().flat_map(|found| &found.differences).collect();
            document["differences"] = serde_json::to_value(differences)?;
            document["differences_left_out"] = serde_json::to_value(&first.left_out)?;
        }
        if let Some(judged) = &run.resolved.judged {
            document["judged"] = judged.run.clone().into();
            document["agreement"] = serde_json::to_value(&self.agreement)?;
        }
        Ok(document)
    }
}
