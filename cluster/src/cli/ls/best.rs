//! The best figure of each listed run, and the time that it took: from its final tables.

use crate::cli::tables::UNKNOWN;
use anyhow::{Error, Result};
use hopeval_jobs::prepare::questions::ALL;
use hopeval_results::tables::{ConfigurationRow, MeasureRow, RunRow, read_final};
use hopeval_results::{Log, Store};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The best configuration of a finished run by a measure.
#[derive(Clone, Debug)]
pub(super) struct BestFigure {
    /// Seconds from the making of the run to its tables, interruptions included.
    seconds: f64,
    /// The highest mean over all questions, with its configuration; `None` if the run has none. Controls and figures
    /// that are not measured to their cut-off are left out.
    best: Option<(f64, String)>,
}

impl BestFigure {
    /// Reads a run; `None` for one that is not finished.
    ///
    /// # Errors
    /// Its log or a table cannot be read.
    pub(super) fn read(store: &Store, run: &str, measure: &str) -> Result<Option<Self>> {
        let log = Log::open(store, run)?;
        let Some(finished) = &log.state().finished else { return Ok(None) };
        let row = read_final::<RunRow>(store, run, finished)?.pop();
        let row = row.ok_or_else(|| Error::msg(format!("run {run}: its table `runs` has no row")))?;
        let controls: BTreeSet<String> = read_final::<ConfigurationRow>(store, run, finished)?
            .into_iter()
            .filter(|row| row.control.is_some())
            .map(|row| row.configuration)
            .collect();
        let figures = read_final::<MeasureRow>(store, run, finished)?.into_iter().filter(|row| {
            row.stratum == ALL
                && row.measure == measure
                && row.ranked.is_none()
                && !controls.contains(&row.configuration)
        });
        // Of equal ones the first in the job's order.
        let values = figures.filter_map(|row| Some((row.value?, row.configuration)));
        let best = values.reduce(|best, next| if next.0 > best.0 { next } else { best });
        Ok(Some(Self { seconds: row.finished_ms.saturating_sub(row.created_ms) as f64 / 1000.0, best }))
    }

    /// Whether the run has a figure.
    pub(super) fn is_known(&self) -> bool {
        self.best.is_some()
    }

    /// The cells of its columns: the time and the best figure.
    pub(super) fn cells(figure: Option<&Self>) -> [String; 2] {
        let unknown = || UNKNOWN.to_owned();
        let best = figure.and_then(|figure| figure.best.as_ref());
        [
            figure.map_or_else(unknown, |figure| format!("{:.1}", figure.seconds)),
            best.map_or_else(unknown, |(value, name)| format!("{value:.4} {name}")),
        ]
    }

    /// Its part of a run's document.
    pub(super) fn document(&self, measure: &str) -> Value {
        let best = self.best.as_ref().map(|(value, name)| json!({"value": value, "configuration": name}));
        json!({"measure": measure, "seconds": self.seconds, "best": best})
    }
}
