//! The best figure of each listed run, and the time that it took: from its final tables.

use crate::cli::tables::UNKNOWN;
use anyhow::{Error, Result};
use hopeval_jobs::prepare::questions::ALL;
use hopeval_results::tables::{ConfigurationRow, MeasureRow, RunRow, read_final};
use hopeval_results::{Log, Store};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// The best configuration of a finished run by a measure.
#[derive(Clone, Debug)]
pub(super) struct BestFigure {
    /// Seconds from the making of the run to its tables, interruptions included.
    seconds: f64,
    /// By context mode, the highest mean over all questions with its configuration. Controls and figures that are not
    /// measured to their cut-off are left out.
    best: BTreeMap<String, (f64, String)>,
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
        let configurations: HashMap<String, ConfigurationRow> = read_final::<ConfigurationRow>(store, run, finished)?
            .into_iter()
            .map(|row| (row.configuration.clone(), row))
            .collect();
        // Figures of different context modes are never ranked together, and those of replicates are one.
        let mut means: Vec<(String, String, Vec<f64>)> = Vec::new();
        for row in read_final::<MeasureRow>(store, run, finished)? {
            let Some(configuration) = configurations.get(&row.configuration) else { continue };
            let is_meant = row.stratum == ALL && row.measure == measure && row.ranked.is_none();
            let Some(value) = row.value.filter(|_| is_meant && configuration.control.is_none()) else { continue };
            let name = match (&configuration.replicate, row.configuration.rsplit_once('#')) {
                (Some(_), Some((name, _))) => name.to_owned(),
                _ => row.configuration,
            };
            match means.iter_mut().find(|(known, mode, _)| *known == name && *mode == row.context_mode) {
                Some((.., values)) => values.push(value),
                None => means.push((name, row.context_mode, vec![value])),
            }
        }
        let mut best: BTreeMap<String, (f64, String)> = BTreeMap::new();
        for (name, mode, values) in means {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            // Of equal ones the first in the job's order.
            if best.get(&mode).is_none_or(|(known, _)| mean > *known) {
                best.insert(mode, (mean, name));
            }
        }
        Ok(Some(Self { seconds: row.finished_ms.saturating_sub(row.created_ms) as f64 / 1000.0, best }))
    }

    /// Whether the run has a figure.
    pub(super) fn is_known(&self) -> bool {
        !self.best.is_empty()
    }

    /// The cells of its columns: the time and the best figure.
    pub(super) fn cells(figure: Option<&Self>) -> [String; 2] {
        let unknown = || UNKNOWN.to_owned();
        let of_modes = |figure: &Self| {
            let one = figure.best.len() == 1;
            let of_mode = |(mode, (value, name)): (&String, &(f64, String))| match one {
                true => format!("{value:.4} {name}"),
                false => format!("{mode}: {value:.4} {name}"),
            };
            figure.best.iter().map(of_mode).collect::<Vec<_>>().join("; ")
        };
        [
            figure.map_or_else(unknown, |figure| format!("{:.1}", figure.seconds)),
            figure.filter(|figure| figure.is_known()).map_or_else(unknown, of_modes),
        ]
    }

    /// Its part of a run's document.
    pub(super) fn document(&self, measure: &str) -> Value {
        let best: Vec<Value> = self
            .best
            .iter()
            .map(|(mode, (value, name))| json!({"context_mode": mode, "value": value, "configuration": name}))
            .collect();
        json!({"measure": measure, "seconds": self.seconds, "best": best})
    }
}
