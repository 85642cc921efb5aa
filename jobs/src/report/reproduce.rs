//! A run's figures beside published ones: which of them compare, the differences of those, and why the others do not.
//!
//! ```text
//!   job file --> PAPER/NAME --> PublishedFigures::of_job -+
//!            --> the run: RunConditions, figures ---------+--> conditions, one by one --> ReproducedFigure
//! ```
//!
//! A published figure has its conditions (split, questions, corpus, links, models, prompts) in a table that ships with
//! the project, and a run has its own in its record. They are compared one by one. A condition that the paper does not
//! state, or that the run cannot show, is *unknown*, and what is unknown is never taken for equal. So a figure is
//! compared only if all of its conditions are known and equal.

mod conditions;
mod error;
mod figure;
mod published;

pub use conditions::{ConditionFinding, FoundCondition};
pub use error::ReproduceError;
pub use published::{PublishedFigure, PublishedFigures};

use crate::job::file::Job;
use crate::places::Places;
use crate::report::show::{RunFigures, read_figures};
use crate::run::open::OpenRun;
use conditions::RunConditions;
use figure::FoundFigure;
use hopeval_public_files::PublicFiles;
use hopeval_results::run::find_run;
use hopeval_results::{RunError, RunRecord, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A job of a paper: its file's content, and its name in the table of published figures.
pub struct PaperJob {
    job: Job,
    /// PAPER/NAME.
    pub key: String,
}

/// A published figure beside a run's. Values are in the unit of the published one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedFigure {
    /// The published figure.
    pub published: PublishedFigure,
    /// The run's mean; `None` if it has none.
    pub value: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Questions of the mean.
    pub questions: Option<u64>,
    /// Whether all conditions are known and equal.
    pub is_comparable: bool,
    /// The conditions that are not, in a fixed order.
    pub conditions: Vec<FoundCondition>,
    /// The difference, if it is told.
    pub difference: Option<FigureDifference>,
}

/// The run's figure less the published one. The interval is that of the run's questions alone: the published figure is
/// taken as exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigureDifference {
    /// The difference.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
}

/// The figures of a run beside the published ones of its job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduction {
    /// The job, PAPER/NAME.
    pub job: String,
    /// The run.
    pub run: String,
    /// Number of comparable figures.
    pub comparable: u64,
    /// All published figures of the job, in the order of the table.
    pub figures: Vec<ReproducedFigure>,
}

impl PaperJob {
    /// Reads the job's file. The folder that it lies in is the paper's name.
    ///
    /// # Errors
    /// The file is no job.
    pub fn load(path: &Path) -> Result<Self, ReproduceError> {
        let job = Job::load(path, &[])?;
        // A link to the job, as in a folder with the data, has the job's own place.
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = whole.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let key = format!("{}/{}", folder.unwrap_or_default(), job.name);
        Ok(Self { job, key })
    }

    /// The latest finished run of the job in the store, or the one named by `run`.
    ///
    /// # Errors
    /// No such run; it is of another job.
    pub fn find_run(&self, places: &Places, run: Option<&str>) -> Result<String, ReproduceError> {
        let store = &places.store;
        let Some(run) = run else {
            // A run that cannot be read does not hide the others.
            let counts = |run: &str| -> Result<bool, StoreError> {
                Ok(RunRecord::load(store, run).is_ok_and(|record| self.is_of(&record)))
            };
            return find_run(store, "latest", &counts).map_err(|error| match error {
                RunError::Unknown { store, .. } => ReproduceError::NoRun { job: self.key.clone(), store },
                error => error.into(),
            });
        };
        let run = hopeval_results::run::resolve_run(store, run)?;
        if !self.is_of(&RunRecord::load(store, &run)?) {
            return Err(ReproduceError::OtherJob { run, job: self.key.clone(), methods: self.method_names() });
        }
        Ok(run)
    }

    /// Whether a run is of this job: its name, and the names and kinds of its methods. Data and models may be others.
    fn is_of(&self, record: &RunRecord) -> bool {
        let kinds = |job: &Job| -> BTreeMap<String, String> {
            job.method.iter().map(|(name, method)| (name.clone(), method.kind.clone())).collect()
        };
        let job: Option<Job> = serde_json::from_value(record.settings["job"].clone()).ok();
        record.job == self.job.name && job.is_some_and(|job| kinds(&job) == kinds(&self.job))
    }

    fn method_names(&self) -> String {
        self.job.method.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Sets the figures of a finished run beside the published ones of `key`. With `anyway`, differences are told of
/// figures that do not compare, too.
///
/// # Errors
/// The table has no figure of the job; the run is not finished; a table or a file of the dataset cannot be read.
pub fn reproduce(
    run: &OpenRun,
    key: &str,
    published: &PublishedFigures,
    files: &PublicFiles,
    anyway: bool,
) -> Result<Reproduction, ReproduceError> {
    let rows = published.of_job(key);
    if rows.is_empty() {
        return Err(ReproduceError::NoFigures { job: key.to_owned(), allowed: published.job_names() });
    }
    let shown = read_figures(run)?;
    if !shown.finished {
        return Err(ReproduceError::Unfinished { run: run.id().to_owned() });
    }
    let conditions = RunConditions::read(run, files)?;
    let figures: Vec<ReproducedFigure> =
        rows.into_iter().map(|row| reproduce_figure(run, &shown, &conditions, row, anyway)).collect();
    let comparable = figures.iter().filter(|figure| figure.is_comparable).count() as u64;
    Ok(Reproduction { job: key.to_owned(), run: run.id().to_owned(), comparable, figures })
}

fn reproduce_figure(
    run: &OpenRun,
    shown: &RunFigures,
    conditions: &RunConditions,
    published: &PublishedFigure,
    anyway: bool,
) -> ReproducedFigure {
    let found = FoundFigure::find(run, shown, published);
    let differing = conditions.compare(run, published, found.as_ref());
    let is_comparable = differing.is_empty();
    let scale = published.scale();
    let scaled = |value: Option<f64>| value.map(|value| value * scale);
    let (value, low, high) = match &found {
        Some(found) => (scaled(found.value), scaled(found.low), scaled(found.high)),
        None => (None, None, None),
    };
    let difference = value.filter(|_| is_comparable || anyway).map(|value| FigureDifference {
        value: value - published.value,
        low: low.map(|low| low - published.value),
        high: high.map(|high| high - published.value),
    });
    ReproducedFigure {
        published: published.clone(),
        value,
        low,
        high,
        questions: found.map(|found| found.questions),
        is_comparable,
        conditions: differing,
        difference,
    }
}
