//! The variation of a figure between replicates of a configuration: other seeds, other sets of demonstrations.
//!
//! Two sources of uncertainty are kept apart. The *deviation* is the sample deviation of the replicates' figures (n -
//! 1), as papers report "mean (std)": the effect of another draw. The *standard error* is the root mean square of the
//! replicates' own standard errors over questions: the effect of other questions. Neither includes the other. The
//! *interval* is the interval of the mean over replicates, each question with its mean over them
//! ([`crate::report::compare`]): the sampling unit is the question, not a row of question and replicate.

use crate::job::sweep::Configuration;
use hopeval_results::tables::MeasureRow;
use serde::Serialize;
use std::collections::BTreeMap;

/// A measure over the replicates of one configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplicateSpread {
    /// The configuration's name without the replicate's number.
    pub configuration: String,
    /// The stratum.
    pub stratum: String,
    /// The measure.
    pub measure: String,
    /// Replicates with a value.
    pub replicates: u64,
    /// The mean of their figures.
    pub mean: f64,
    /// The sample deviation of their figures; `None` for a single one.
    pub deviation: Option<f64>,
    /// The standard error over questions of one replicate, on the root mean square.
    pub stderr: Option<f64>,
    /// Lower end of the 95 % interval of the mean over questions of their means over replicates. `None` before the run
    /// is finished, if a question has a value in some replicates only, and after `rescore`, which computes measures
    /// anew from outcomes.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
    /// The most passages that an outcome of one of the replicates ranks, the smallest number, where the measure's
    /// cut-off is beyond.
    pub ranked: Option<u32>,
}

/// Configuration, stratum, measure.
type FigureName<'a> = (&'a str, &'a str, &'a str);

/// The spreads of all configurations with replicates, in the order of the rows.
pub fn replicate_spreads(configurations: &[Configuration], measures: &[MeasureRow]) -> Vec<ReplicateSpread> {
    let replicated: BTreeMap<&str, &str> = configurations
        .iter()
        .filter(|configuration| configuration.replicate.is_some())
        .map(|configuration| (configuration.name.as_str(), configuration.replicated_name()))
        .collect();
    let mut groups: Vec<(FigureName<'_>, Vec<&MeasureRow>)> = Vec::new();
    let mut places: BTreeMap<FigureName<'_>, usize> = BTreeMap::new();
    for row in measures.iter().filter(|row| row.value.is_some()) {
        let Some(name) = replicated.get(row.configuration.as_str()) else { continue };
        let key = (*name, row.stratum.as_str(), row.measure.as_str());
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[place].1.push(row);
    }
    groups.into_iter().map(|((name, stratum, measure), rows)| figure_spread(name, stratum, measure, &rows)).collect()
}

fn figure_spread(name: &str, stratum: &str, measure: &str, rows: &[&MeasureRow]) -> ReplicateSpread {
    let n = rows.len() as f64;
    let values = || rows.iter().filter_map(|row| row.value);
    let mean = values().sum::<f64>() / n;
    let squares = values().map(|value| (value - mean).powi(2)).sum::<f64>();
    let errors: Option<Vec<f64>> = rows.iter().map(|row| row.stderr).collect();
    ReplicateSpread {
        configuration: name.to_owned(),
        stratum: stratum.to_owned(),
        measure: measure.to_owned(),
        replicates: rows.len() as u64,
        mean,
        deviation: (rows.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
        stderr: errors.map(|errors| (errors.iter().map(|error| error * error).sum::<f64>() / n).sqrt()),
        low: None,
        high: None,
        ranked: rows.iter().filter_map(|row| row.ranked).min(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::measure_means::measure_row;
    use hopeval_measures::aggregate::ValueRange;

    fn configuration(name: &str, replicate: Option<u32>) -> Configuration {
        Configuration {
            name: name.into(),
            kind: "random".into(),
            parameters: serde_json::Value::Null,
            control: None,
            replicate,
        }
    }

    fn row(configuration: &str, stratum: &str, value: Option<f64>, stderr: Option<f64>) -> MeasureRow {
        let names = (configuration, stratum, "mrr", "1", "hotpotqa", "open");
        MeasureRow { value, stderr, ..measure_row(names, ValueRange::Share, (0, 0), (0.0, 0.0)) }
    }

    #[test]
    fn deviation_and_standard_error_are_told_apart() {
        let configurations = [configuration("a", None), configuration("r#1", Some(1)), configuration("r#2", Some(2))];
        let rows = [
            row("a", "all", Some(0.9), Some(0.1)),
            row("r#1", "all", Some(0.4), Some(0.03)),
            row("r#1", "type=x", None, None),
            row("r#2", "all", Some(0.6), Some(0.05)),
            row("r#2", "type=x", Some(0.5), None),
        ];
        let found = replicate_spreads(&configurations, &rows);
        assert_eq!(found.len(), 2);
        let all = &found[0];
        assert_eq!((all.configuration.as_str(), all.stratum.as_str(), all.replicates), ("r", "all", 2));
        assert!((all.mean - 0.5).abs() < 1e-12);
        assert!((all.deviation.unwrap() - 0.02f64.sqrt()).abs() < 1e-12);
        assert!((all.stderr.unwrap() - 0.0017f64.sqrt()).abs() < 1e-12);
        assert_eq!((found[1].replicates, found[1].deviation, found[1].stderr), (1, None, None));
        assert!(replicate_spreads(&configurations[..1], &rows).is_empty());
    }
}
