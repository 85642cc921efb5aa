//! Means of all measures, by configuration and stratum, summed in one order.

use super::measure_versions::MeasureVersions;
use crate::error::JobError;
use crate::run::evaluation::evaluate_outcomes;
use crate::run::evaluator::{QuestionGold, is_ok};
use crate::run::open::OpenRun;
use hopeval_measures::MeasureSet;
use hopeval_measures::aggregate::{ValueRange, mean_interval};
use hopeval_results::Log;
use hopeval_results::tables::{MeasureRow, OutcomeRow};

/// Sums of one measure over one stratum of one configuration.
#[derive(Clone, Copy, Debug, Default)]
struct MeasureSums {
    n: u64,
    ok: u64,
    sum: f64,
    squares: f64,
}

impl MeasureSums {
    fn add(&mut self, value: f64, ok: bool) {
        self.n += 1;
        self.ok += u64::from(ok);
        self.sum += value;
        self.squares += value * value;
    }
}

/// A measure's mean with its error, for tables and `show`.
pub fn measure_row(
    names: (&str, &str, &str, &str, &str, &str),
    range: ValueRange,
    (n, ok): (u64, u64),
    (sum, squares): (f64, f64),
) -> MeasureRow {
    let (configuration, stratum, measure, version, profile, context_mode) = names;
    let count = n as f64;
    let value = (n > 0).then(|| sum / count);
    // The standard error of a mean by the central limit theorem, with n - 1.
    let stderr = (n > 1).then(|| ((squares - sum * sum / count).max(0.0) / (count - 1.0) / count).sqrt());
    let row = MeasureRow {
        configuration: configuration.to_owned(),
        stratum: stratum.to_owned(),
        measure: measure.to_owned(),
        version: version.to_owned(),
        profile: profile.to_owned(),
        context_mode: context_mode.to_owned(),
        value,
        stderr,
        low: None,
        high: None,
        n,
        coverage: (n > 0).then(|| ok as f64 / count),
        ranked: None,
    };
    with_interval(row, range)
}

/// The most passages ranked by a configuration, if the measure at position `measure` of the run's set has a cut-off
/// beyond: its value is not measured to that cut-off.
pub fn ranked_short(run: &OpenRun, configuration: usize, measure: usize) -> Option<u32> {
    let method = run.methods.get(configuration)?;
    let ranked = method.most_ranked().filter(|_| method.gives_ranking())?;
    let cut_off = run.evaluator.measure_set().cut_offs().nth(measure)??;
    (cut_off > ranked).then_some(ranked)
}

/// The coverage of figures that stand in one row of a table: the least of theirs. A measure of good outcomes alone
/// covers all of its questions, and says nothing of those that failed; `None` if there are no others.
pub fn row_coverage<'a>(figures: impl IntoIterator<Item = &'a MeasureRow>, set: &MeasureSet) -> Option<f64> {
    let counted = figures.into_iter().filter(|figure| set.counts_failures(&figure.measure));
    counted.filter_map(|figure| figure.coverage).min_by(f64::total_cmp)
}

/// A row with the interval of its mean and standard error. Rows of earlier versions have normal intervals, which can
/// leave the range.
pub fn with_interval(row: MeasureRow, range: ValueRange) -> MeasureRow {
    let interval = row.value.and_then(|mean| mean_interval(range, mean, row.stderr, row.n));
    MeasureRow { low: interval.map(|(low, _)| low), high: interval.map(|(_, high)| high), ..row }
}

/// Means of all measures of the outcomes committed in `log`, without writing anything.
///
/// # Errors
/// As [`evaluate_outcomes`].
pub fn mean_measures(run: &OpenRun, log: &Log) -> Result<Vec<MeasureRow>, JobError> {
    let mut totals = MeasureTotals::new(run);
    evaluate_outcomes(run, log, &mut |question, outcome, values| {
        totals.add(run, question, &outcome, values);
        Ok(())
    })?;
    Ok(totals.rows(run))
}

/// Sums of all configurations, strata and measures.
pub(super) struct MeasureTotals {
    sums: Vec<MeasureSums>,
    strata: usize,
    measures: usize,
}

impl MeasureTotals {
    pub(super) fn new(run: &OpenRun) -> Self {
        let (strata, measures) = (run.evaluator.strata().len(), run.evaluator.measure_set().names().len());
        Self {
            sums: vec![MeasureSums::default(); run.resolved.configurations.len() * strata * measures],
            strata,
            measures,
        }
    }

    pub(super) fn add(&mut self, run: &OpenRun, question: &QuestionGold, outcome: &OutcomeRow, values: &[Option<f64>]) {
        let ok = is_ok(outcome);
        for &stratum in run.evaluator.strata_of(question) {
            let base = (outcome.configuration as usize * self.strata + stratum as usize) * self.measures;
            for (sums, value) in self.sums[base..].iter_mut().zip(values) {
                if let Some(value) = value {
                    sums.add(*value, ok);
                }
            }
        }
    }

    pub(super) fn rows(&self, run: &OpenRun) -> Vec<MeasureRow> {
        let set = run.evaluator.measure_set();
        let (versions, ranges) = (MeasureVersions::new(run, ""), set.ranges().collect::<Vec<_>>());
        let profile = set.profile().to_string();
        let mut rows = Vec::new();
        for (c, configuration) in run.resolved.configurations.iter().enumerate() {
            let mode = run.methods[c].context_mode().name();
            for (s, stratum) in run.evaluator.strata().iter().enumerate() {
                for (m, (measure, version)) in set.names().iter().zip(versions.of_configuration(c)).enumerate() {
                    let sums = self.sums[(c * self.strata + s) * self.measures + m];
                    let names = (
                        configuration.name.as_str(),
                        stratum.as_str(),
                        measure.as_str(),
                        version.as_ref(),
                        profile.as_str(),
                        mode,
                    );
                    let row = measure_row(names, ranges[m], (sums.n, sums.ok), (sums.sum, sums.squares));
                    rows.push(MeasureRow { ranked: ranked_short(run, c, m), ..row });
                }
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_measures::{Profile, Settings};

    #[test]
    fn a_row_has_the_least_coverage_of_figures_in_which_failures_count() {
        let settings: Settings = serde_json::from_str(r#"{"chunk_recall": true}"#).unwrap();
        let set = MeasureSet::new(&settings, Profile::Squad).unwrap();
        let figure = |measure: &str, counts| {
            measure_row(("m", "all", measure, "1", "squad", "open"), ValueRange::Share, counts, (0.0, 0.0))
        };
        // Four of ten outcomes failed; of two questions without gold passages none did.
        let rows = [
            figure("em_answered", (6, 6)),
            figure("em", (10, 6)),
            figure("chunk_recall", (8, 4)),
            figure("chunks", (6, 6)),
            figure("mrr", (0, 0)),
        ];
        assert_eq!(row_coverage(&rows, &set), Some(0.5));
        assert_eq!(row_coverage(&rows[..2], &set), Some(0.6));
        for at in [0, 3, 4] {
            assert_eq!(row_coverage([&rows[at]], &set), None);
        }
    }
}
