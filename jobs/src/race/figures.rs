//! The figures of a finished run that a search or a race decides by.

use super::decision::RungFigures;
use crate::error::JobError;
use crate::prepare::questions::ALL;
use crate::report::{compare, show};
use crate::run::open::OpenRun;
use hopeval_results::tables::MeasureRow;
use std::collections::BTreeMap;

/// The rows of a measure over all questions of a finished run: one for each of the named configurations, in their
/// order.
///
/// # Errors
/// The run is not finished, its measure is undefined for every question, or it lacks a configuration.
pub(crate) fn measure_rows(
    run: &OpenRun,
    measure: &str,
    configurations: &[String],
) -> Result<Vec<MeasureRow>, JobError> {
    let unfit = |reason: String| JobError::Unfit { run: run.id().to_owned(), reason };
    let shown = show::read_figures(run)?;
    if !shown.finished {
        return Err(unfit("it is not finished, so nothing is chosen from it".to_owned()));
    }
    let wanted = |row: &MeasureRow| row.stratum == ALL && row.measure == measure;
    let mut rows: BTreeMap<String, MeasureRow> =
        shown.measures.into_iter().filter(wanted).map(|row| (row.configuration.clone(), row)).collect();
    if rows.values().all(|row| row.value.is_none()) {
        return Err(unfit(format!("`{measure}` is not defined for any of its questions")));
    }
    let row_of = |name: &String| rows.remove(name).ok_or_else(|| unfit(format!("it has no configuration `{name}`")));
    configurations.iter().map(row_of).collect()
}

/// The figures of a rung's finished run, one for each of the named configurations, in their order.
///
/// # Errors
/// As [`measure_rows`]; its outcomes cannot be read.
pub(crate) fn rung_figures(
    run: &OpenRun,
    measure: &str,
    configurations: &[String],
) -> Result<Vec<RungFigures>, JobError> {
    let rows = measure_rows(run, measure, configurations)?;
    let mut values = compare::question_values(run, measure)?;
    let figures = |row: &MeasureRow| RungFigures {
        mean: row.value,
        stderr: row.stderr,
        n: row.n,
        values: values.remove(&row.configuration).expect("values of each candidate; this is a bug"),
    };
    Ok(rows.iter().map(figures).collect())
}
