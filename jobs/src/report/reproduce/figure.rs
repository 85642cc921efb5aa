//! The figure of a run that belongs to a published one.

use super::published::PublishedFigure;
use crate::job::sweep::Configuration;
use crate::report::show::RunFigures;
use crate::run::open::OpenRun;
use hopeval_results::tables::MeasureRow;
use std::collections::BTreeSet;

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
        let (name, measure) = (published.configuration.as_str(), published.own_name());
        Self::of_configuration(&run.resolved.configurations, shown, name, measure)
    }

    fn of_configuration(
        configurations: &[Configuration],
        shown: &RunFigures,
        name: &str,
        measure: &str,
    ) -> Option<Self> {
        let configuration = configurations.iter().position(|found| found.replicated_name() == name)?;
        // One configuration, or all replicates.
        let own: BTreeSet<&str> = configurations
            .iter()
            .filter(|found| found.replicated_name() == name)
            .map(|found| found.name.as_str())
            .collect();
        let rows: Vec<&MeasureRow> = shown
            .measures
            .iter()
            .filter(|row| row.stratum == STRATUM && row.measure == measure && own.contains(row.configuration.as_str()))
            .collect();
        let (value, low, high) = if configurations[configuration].replicate.is_some() {
            let spread = shown
                .replicates
                .iter()
                .find(|spread| spread.configuration == name && spread.stratum == STRATUM && spread.measure == measure);
            spread.map_or((None, None, None), |spread| (Some(spread.mean), spread.low, spread.high))
        } else {
            rows.first().map_or((None, None, None), |row| (row.value, row.low, row.high))
        };
        // The conditions are those of the worst replicate: the mean has its gaps.
        Some(Self {
            configuration,
            value,
            low,
            high,
            questions: rows.iter().map(|row| row.n).min().unwrap_or(0),
            coverage: rows.iter().filter_map(|row| row.coverage).min_by(f64::total_cmp),
            ranked: rows.iter().filter_map(|row| row.ranked).min(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::replicates::replicate_spreads;

    fn configuration(name: &str, replicate: Option<u32>) -> Configuration {
        let (name, kind) = (name.to_owned(), "random".to_owned());
        Configuration { name, kind, parameters: serde_json::Value::Null, control: None, replicate }
    }

    fn row(
        configuration: &str,
        measure: &str,
        value: f64,
        (n, coverage): (u64, f64),
        ranked: Option<u32>,
    ) -> MeasureRow {
        MeasureRow {
            configuration: configuration.to_owned(),
            stratum: STRATUM.to_owned(),
            measure: measure.to_owned(),
            value: Some(value),
            low: Some(value - 0.25),
            high: Some(value + 0.25),
            n,
            coverage: Some(coverage),
            ranked,
            ..MeasureRow::default()
        }
    }

    fn figures(configurations: &[Configuration], measures: Vec<MeasureRow>) -> RunFigures {
        let replicates = replicate_spreads(configurations, &measures);
        RunFigures {
            note: None,
            finished: true,
            outcomes: 0,
            expected: 0,
            commits: 0,
            measures,
            replicates,
            costs: Vec::new(),
        }
    }

    #[test]
    fn conditions_of_replicates_are_those_of_the_worst_one() {
        let configurations = [
            configuration("a", None),
            configuration("r#1", Some(1)),
            configuration("r#2", Some(2)),
            configuration("r#3", Some(3)),
        ];
        let shown = figures(
            &configurations,
            vec![
                row("a", "em", 0.5, (400, 0.5), Some(1)),
                row("r#1", "em", 0.25, (500, 1.0), None),
                row("r#1", "f1", 0.75, (400, 0.1), None),
                row("r#2", "em", 0.5, (480, 1.0), Some(20)),
                MeasureRow { stratum: "type=x".to_owned(), ..row("r#2", "em", 0.5, (1, 0.0), Some(2)) },
                row("r#3", "em", 0.75, (500, 0.75), Some(10)),
            ],
        );
        let found = FoundFigure::of_configuration(&configurations, &shown, "r", "em").unwrap();
        assert_eq!((found.configuration, found.value, found.low), (1, Some(0.5), None), "the mean of all replicates");
        assert_eq!((found.questions, found.coverage, found.ranked), (480, Some(0.75), Some(10)));
        let alone = FoundFigure::of_configuration(&configurations, &shown, "a", "em").unwrap();
        assert_eq!((alone.value, alone.low, alone.high), (Some(0.5), Some(0.25), Some(0.75)));
        assert_eq!((alone.questions, alone.coverage, alone.ranked), (400, Some(0.5), Some(1)));
        let unmeasured = FoundFigure::of_configuration(&configurations, &shown, "r", "mrr").unwrap();
        assert_eq!((unmeasured.value, unmeasured.questions, unmeasured.coverage), (None, 0, None));
        assert!(FoundFigure::of_configuration(&configurations, &shown, "r#1", "em").is_none());
    }
}
