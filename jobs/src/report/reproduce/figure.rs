//! The figure of a run that belongs to a published one.

use super::published::PublishedFigure;
use crate::report::show::RunFigures;
use crate::run::open::OpenRun;

/// The stratum of published figures.
const STRATUM: &str = "all";

/// A figure of a run, in hopeval's own unit.
pub(super) struct FoundFigure {
    /// The position of its configuration; of the first replicate, for a mean over replicates.
    pub(super) configuration: usize,
    /// The mean; `None` if the run does not measure it, or no question defines it.
    pub(super) value: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    /// Questions of the mean.
    pub(super) questions: u64,
    /// The share of them whose outcome is ok.
    pub(super) coverage: Option<f64>,
    /// The most passages that it ranks, if the measure's cut-off is beyond.
    pub(super) ranked: Option<u32>,
}

impl FoundFigure {
    /// Finds the figure of the published one's configuration and measure; `None` if the run has no such configuration.
    /// Replicates give their mean.
    pub(super) fn find(run: &OpenRun, shown: &RunFigures, published: &PublishedFigure) -> Option<Self> {
        let name = published.configuration.as_str();
        let configurations = &run.resolved.configurations;
        let configuration = configurations.iter().position(|found| found.replicated_name() == name)?;
        let is_replicated = configurations[configuration].replicate.is_some();
        let first = configurations[configuration].name.as_str();
        let row = shown
            .measures
            .iter()
            .find(|row| row.configuration == first && row.stratum == STRATUM && row.measure == published.own_name());
        let none =
            Self { configuration, value: None, low: None, high: None, questions: 0, coverage: None, ranked: None };
        let Some(row) = row else { return Some(none) };
        let found = Self {
            value: row.value,
            low: row.low,
            high: row.high,
            questions: row.n,
            coverage: row.coverage,
            ranked: row.ranked,
            ..none
        };
        if !is_replicated {
            return Some(found);
        }
        let spread = shown.replicates.iter().find(|spread| {
            spread.configuration == name && spread.stratum == STRATUM && spread.measure == published.own_name()
        });
        let (value, low, high) = match spread {
            Some(spread) => (Some(spread.mean), spread.low, spread.high),
            None => (None, None, None),
        };
        // The conditions are those of the worst replicate: the mean has its gaps.
        let replicates: Vec<_> = configurations.iter().filter(|found| found.replicated_name() == name).collect();
        let rows = shown.measures.iter().filter(|row| {
            let is_own = replicates.iter().any(|found| found.name == row.configuration);
            is_own && row.stratum == STRATUM && row.measure == published.own_name()
        });
        let rows: Vec<_> = rows.collect();
        Some(Self {
            value,
            low,
            high,
            questions: rows.iter().map(|row| row.n).min().unwrap_or(found.questions),
            coverage: rows.iter().filter_map(|row| row.coverage).min_by(f64::total_cmp),
            ranked: rows.iter().filter_map(|row| row.ranked).min(),
            ..found
        })
    }
}
