//! Compares configurations of a finished run, question by question.
//!
//! Replicates are compared as one configuration: each question has the mean of its values over them. The effect of
//! another draw of demonstrations (the deviation between replicates, [`crate::report::replicates`]) and the effect of
//! other questions (the intervals here) are kept apart, and neither includes the other.

use crate::error::JobError;
use crate::job::sweep::Configuration;
use crate::report::measure_means::ranked_short;
use crate::report::replicates::ReplicateSpread;
use crate::run::open::OpenRun;
use hopeval_measures::aggregate::{MeasureSummary, ValueRange};
use hopeval_measures::paired::{PairedDifference, adjust_families};
use hopeval_results::Log;
use hopeval_results::log::FinalRecord;
use hopeval_results::tables::{Row, ScoreRow, TableReader};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// The difference of two configurations in a measure, paired by question.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The configuration's name, without the replicate's number.
    pub configuration: String,
    /// The controlled configuration, if this one is a control.
    pub control: Option<String>,
    /// The other configuration of the comparison.
    pub against: String,
    /// The stratum.
    pub stratum: String,
    /// The measure.
    pub measure: String,
    /// Questions where both have a value, in all their replicates; failed ones are included.
    pub n: u64,
    /// These questions' share of the stratum.
    pub share: f64,
    /// The mean of the configuration's value less the other's. This and the following figures are `None` below two
    /// questions.
    pub difference: Option<f64>,
    /// Lower end of its 95 % interval, of a bootstrap over questions.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Two-sided p value, of exchanging the two within questions.
    pub p: Option<f64>,
    /// `exact` if all exchanges are counted (McNemar's exact test), `drawn` if 10,000 of them are drawn.
    pub p_kind: Option<&'static str>,
    /// Two-sided p value of Student's paired t test, not adjusted; `None` if all differences are equal.
    pub p_t: Option<f64>,
    /// The same, adjusted by Holm for all configurations compared in this measure; controls are a family of their own.
    pub p_holm: Option<f64>,
    /// The most passages that an outcome of one of the two ranks, the smaller number, where the measure's cut-off is
    /// beyond: that one is not measured to the cut-off.
    pub ranked: Option<u32>,
}

impl Comparison {
    /// The same with the figures of the differences of all questions with a value of both, out of `questions` of the
    /// stratum. The adjusted p value is made once all comparisons of its family are known.
    pub(crate) fn with_differences(self, differences: &[f64], questions: usize) -> Self {
        let told = PairedDifference::of(differences);
        Self {
            n: differences.len() as u64,
            share: differences.len() as f64 / questions.max(1) as f64,
            difference: told.map(|told| told.mean),
            low: told.map(|told| told.low),
            high: told.map(|told| told.high),
            p: told.map(|told| told.p.value()),
            p_kind: told.map(|told| told.p.kind()),
            p_t: told.and_then(|told| told.t_test),
            ..self
        }
    }
}

/// The results of [`compare_configurations`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonResults {
    /// The configuration that the others are compared with.
    pub against: String,
    /// The compared questions.
    pub stratum: String,
    /// By configuration, in the job's order, and measure.
    pub differences: Vec<Comparison>,
    /// Configurations of another context mode: figures of different modes are never ranked together.
    pub left_out: Vec<String>,
}

/// Compares all other configurations with `against`, in the `wanted` measures, over the questions of one stratum.
///
/// # Errors
/// The run is not finished; it lacks the configuration or the stratum; a table cannot be read.
pub fn compare_configurations(
    run: &OpenRun,
    against: &str,
    stratum: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<ComparisonResults, JobError> {
    let configurations = &run.resolved.configurations;
    let groups = ReplicateGroups::from_configurations(configurations);
    let base = groups.known_position(run, against)?;
    let log = Log::open(&run.places.store, run.id())?;
    let finished =
        log.state().finished.as_ref().ok_or_else(|| unfit(run, "differences are of finished runs only".to_owned()))?;
    let within = stratum_members(run, &log, stratum)?;
    let named = run.evaluator.measure_set().names().iter().map(String::as_str).enumerate();
    let (positions, measures): (Vec<usize>, Vec<&str>) = named.filter(|(_, name)| wanted(name)).unzip();
    let short = |group: usize, measure: usize| ranked_short(run, groups.first[group], positions[measure]);
    let mode = |group: usize| run.methods[groups.first[group]].context_mode();
    let (compared, left_out): (Vec<usize>, Vec<usize>) =
        (0..groups.names.len()).filter(|&group| group != base).partition(|&group| mode(group) == mode(base));
    let values = GroupValues::read_scores(run, finished, &groups, &measures, &|group| {
        group == base || compared.contains(&group)
    })?;
    let questions = within.iter().filter(|&&is| is).count();
    let pairs: Vec<(usize, usize)> = compared.iter().flat_map(|&g| (0..measures.len()).map(move |m| (g, m))).collect();
    let mut differences: Vec<Comparison> = pairs
        .par_iter()
        .map(|&(group, measure)| {
            let differences = values.paired_differences((group, base), measure, &within);
            let named = Comparison {
                configuration: groups.names[group].to_owned(),
                control: configurations[groups.first[group]].control.clone(),
                against: against.to_owned(),
                stratum: stratum.to_owned(),
                measure: measures[measure].to_owned(),
                ranked: short(group, measure).into_iter().chain(short(base, measure)).min(),
                ..Comparison::default()
            };
            named.with_differences(&differences, questions)
        })
        .collect();
    adjust_p_values(&mut differences);
    let left_out = left_out.into_iter().map(|group| groups.names[group].to_owned()).collect();
    Ok(ComparisonResults { against: against.to_owned(), stratum: stratum.to_owned(), differences, left_out })
}

/// Fills in the adjusted p values: a family is a measure, with controls apart.
pub(crate) fn adjust_p_values(differences: &mut [Comparison]) {
    adjust_families(
        differences.iter_mut(),
        |found| (found.measure.clone(), found.control.is_some()),
        |found| found.p,
        |found, p| found.p_holm = Some(p),
    );
}

fn unfit(run: &OpenRun, reason: String) -> JobError {
    JobError::Unfit { run: run.id().to_owned(), reason }
}

/// Fills in the intervals of `spreads`: the uncertainty of the mean over replicates due to the choice of questions.
/// Leaves them unchanged if the run is not finished.
///
/// # Errors
/// A table cannot be read.
pub fn fill_intervals(run: &OpenRun, log: &Log, spreads: &mut [ReplicateSpread]) -> Result<(), JobError> {
    let Some(finished) = log.state().finished.as_ref().filter(|_| !spreads.is_empty()) else { return Ok(()) };
    let configurations = &run.resolved.configurations;
    let groups = ReplicateGroups::from_configurations(configurations);
    let measures: Vec<&str> = run.evaluator.measure_set().names().iter().map(String::as_str).collect();
    let replicated = |group: usize| configurations[groups.first[group]].replicate.is_some();
    let values = GroupValues::read_scores(run, finished, &groups, &measures, &replicated)?;
    let ranges: Vec<ValueRange> = run.evaluator.measure_set().ranges().collect();
    let mut strata: HashMap<String, Vec<bool>> = HashMap::new();
    for spread in spreads {
        if !strata.contains_key(&spread.stratum) {
            strata.insert(spread.stratum.clone(), stratum_members(run, log, &spread.stratum)?);
        }
        let group = groups.position(&spread.configuration);
        let measure = measures.iter().position(|name| *name == spread.measure);
        let within = &strata[&spread.stratum];
        let interval =
            group.zip(measure).and_then(|(group, measure)| values.interval(group, measure, ranges[measure], within));
        (spread.low, spread.high) = (interval.map(|(low, _)| low), interval.map(|(_, high)| high));
    }
    Ok(())
}

/// Membership of each question of a run in a stratum, by position.
fn stratum_members(run: &OpenRun, log: &Log, stratum: &str) -> Result<Vec<bool>, JobError> {
    let strata = run.evaluator.strata();
    let wanted = strata.iter().position(|name| name == stratum);
    let wanted = wanted
        .ok_or_else(|| unfit(run, format!("it has no stratum `{stratum}`; its strata are {}", strata.join(", "))))?;
    let belongs = |row| {
        let question = run.evaluator.question_gold(&row);
        run.evaluator.strata_of(&question).iter().any(|&of| of as usize == wanted)
    };
    run.questions_from(log, 0)?.map(|row| row.map(belongs)).collect()
}

/// The values of one measure in a finished run without replicates, by the configuration's name: a value for each
/// question, `None` where it is undefined.
///
/// # Errors
/// The run is not finished, or has no such measure; a table cannot be read.
pub(crate) fn question_values(run: &OpenRun, measure: &str) -> Result<HashMap<String, Vec<Option<f64>>>, JobError> {
    let log = Log::open(&run.places.store, run.id())?;
    let finished =
        log.state().finished.as_ref().ok_or_else(|| unfit(run, "it has no values before its end".to_owned()))?;
    let groups = ReplicateGroups::from_configurations(&run.resolved.configurations);
    let values = GroupValues::read_scores(run, finished, &groups, &[measure], &|_| true)?;
    let of_group = |group| values.cells(group, 0).iter().map(|&cell| values.mean(group, cell)).collect();
    Ok(groups.names.iter().enumerate().map(|(group, name)| ((*name).to_owned(), of_group(group))).collect())
}

/// Configurations, with replicates under one name.
struct ReplicateGroups<'a> {
    /// In the job's order.
    names: Vec<&'a str>,
    /// A configuration of each.
    first: Vec<usize>,
    /// How many configurations each has.
    size: Vec<u32>,
    /// The group of each configuration, by the configuration's own name.
    group_of: HashMap<&'a str, usize>,
}

impl<'a> ReplicateGroups<'a> {
    fn from_configurations(configurations: &'a [Configuration]) -> Self {
        let mut groups = Self { names: Vec::new(), first: Vec::new(), size: Vec::new(), group_of: HashMap::new() };
        for (at, configuration) in configurations.iter().enumerate() {
            let name = configuration.replicated_name();
            let group = groups.position(name).unwrap_or_else(|| {
                groups.names.push(name);
                groups.first.push(at);
                groups.size.push(0);
                groups.names.len() - 1
            });
            groups.size[group] += 1;
            groups.group_of.insert(&configuration.name, group);
        }
        groups
    }

    /// The group of this name, or an error with the names of all groups.
    fn known_position(&self, run: &OpenRun, name: &str) -> Result<usize, JobError> {
        let names = || self.names.join(", ");
        self.position(name)
            .ok_or_else(|| unfit(run, format!("it has no configuration `{name}`; its configurations are {}", names())))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }
}

/// Values of some measures of all questions, by group: 16 bytes for each needed value.
struct GroupValues {
    measures: usize,
    questions: usize,
    /// The place of each group among the needed ones.
    slots: Vec<Option<usize>>,
    /// Configurations of each group.
    size: Vec<u32>,
    /// By slot, measure, question: the sum over replicates, and the number of replicates with a value.
    cells: Vec<(f64, u32)>,
}

impl GroupValues {
    fn new(groups: &ReplicateGroups<'_>, measures: usize, questions: usize, needed: &dyn Fn(usize) -> bool) -> Self {
        let kept: Vec<usize> = (0..groups.names.len()).filter(|&group| needed(group)).collect();
        let slots = (0..groups.names.len()).map(|group| kept.iter().position(|&kept| kept == group)).collect();
        let cells = vec![(0.0, 0); kept.len() * measures * questions];
        Self { measures, questions, slots, size: groups.size.clone(), cells }
    }

    /// Reads the values from the table `scores`. Skips the row groups without any needed configuration.
    fn read_scores(
        run: &OpenRun,
        finished: &FinalRecord,
        groups: &ReplicateGroups<'_>,
        measures: &[&str],
        needed: &dyn Fn(usize) -> bool,
    ) -> Result<Self, JobError> {
        let questions = run.resolved.prepared.questions as usize;
        let mut all = Self::new(groups, measures.len(), questions, needed);
        let measure_of: HashMap<&str, usize> = measures.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let table = TableReader::<ScoreRow>::open_final(&run.places.store, run.id(), finished)?;
        let configurations = &run.resolved.configurations;
        let rows_each = (questions * run.evaluator.measure_set().names().len()) as u64;
        let expected = rows_each * configurations.len() as u64;
        if table.rows() != expected {
            return Err(unfit(run, format!("its scores have {} rows in place of {expected}", table.rows())));
        }
        // Sorted by configuration, in the job's order.
        let per_group = ScoreRow::TABLE.row_group as u64;
        let mut row_groups = BTreeSet::new();
        for (at, configuration) in configurations.iter().enumerate() {
            if all.slots[groups.group_of[configuration.name.as_str()]].is_some() && rows_each > 0 {
                let first = at as u64 * rows_each;
                row_groups.extend(first / per_group..=(first + rows_each - 1) / per_group);
            }
        }
        for row_group in row_groups {
            for row in table.read_groups(&[row_group as usize])? {
                let Some(&measure) = measure_of.get(&*row.measure) else { continue };
                let known = groups.group_of.get(&*row.configuration).zip(usize::try_from(row.index).ok());
                let (&group, at) = known.filter(|&(_, at)| at < questions).ok_or_else(|| {
                    let (configuration, index) = (&row.configuration, row.index);
                    unfit(
                        run,
                        format!("its scores have a row of `{configuration}`, question {index}, which it has not"),
                    )
                })?;
                all.add(group, measure, at, row.value);
            }
        }
        Ok(all)
    }

    fn add(&mut self, group: usize, measure: usize, question: usize, value: Option<f64>) {
        if let Some((slot, value)) = self.slots[group].zip(value) {
            let cell = &mut self.cells[(slot * self.measures + measure) * self.questions + question];
            *cell = (cell.0 + value, cell.1 + 1);
        }
    }

    /// By question: the sum over replicates, and the number of replicates with a value. Empty for a group not needed.
    fn cells(&self, group: usize, measure: usize) -> &[(f64, u32)] {
        let from = |slot: usize| (slot * self.measures + measure) * self.questions;
        self.slots[group].map_or(&[], |slot| &self.cells[from(slot)..from(slot) + self.questions])
    }

    /// The mean over replicates, if all of them have a value.
    fn mean(&self, group: usize, (sum, count): (f64, u32)) -> Option<f64> {
        (count == self.size[group]).then(|| sum / f64::from(count))
    }

    /// The differences between two groups, for questions with values in both.
    fn paired_differences(&self, (own, other): (usize, usize), measure: usize, within: &[bool]) -> Vec<f64> {
        let both = self.cells(own, measure).iter().zip(self.cells(other, measure)).zip(within);
        both.filter(|(_, is)| **is)
            .filter_map(|((&a, &b), _)| Some(self.mean(own, a)? - self.mean(other, b)?))
            .collect()
    }

    /// The 95 % interval of the mean over questions of their means over replicates. `None` if a question has a value in
    /// some replicates only: then the mean of the replicates' figures is not a mean over questions.
    fn interval(&self, group: usize, measure: usize, range: ValueRange, within: &[bool]) -> Option<(f64, f64)> {
        let cells = || self.cells(group, measure).iter().zip(within).filter(|(cell, is)| **is && cell.1 > 0);
        let means: Option<Vec<Option<f64>>> = cells().map(|(&cell, _)| self.mean(group, cell).map(Some)).collect();
        let means = means?;
        MeasureSummary::of(&means, means.iter().map(|_| true), range).interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_measures::aggregate::mean_interval;

    fn configurations() -> Vec<Configuration> {
        let one = |name: &str, replicate| Configuration {
            name: name.into(),
            kind: "random".into(),
            parameters: serde_json::Value::Null,
            control: None,
            replicate,
        };
        vec![one("a", None), one("r#1", Some(1)), one("r#2", Some(2)), one("z", None)]
    }

    #[test]
    fn replicates_stand_under_one_name() {
        let configurations = configurations();
        let groups = ReplicateGroups::from_configurations(&configurations);
        assert_eq!((groups.names.as_slice(), groups.first.as_slice()), (&["a", "r", "z"][..], &[0, 1, 3][..]));
        assert_eq!(groups.size, [1, 2, 1]);
        assert_eq!((groups.group_of["r#2"], groups.group_of["z"], groups.position("r#2")), (1, 2, None));
    }

    #[test]
    fn a_question_counts_where_all_replicates_have_a_value() {
        let configurations = configurations();
        let mut values =
            GroupValues::new(&ReplicateGroups::from_configurations(&configurations), 2, 4, &|group| group < 2);
        let (whole, partly) = (0, 1);
        for (question, a, r) in [(0, 1.0, [1.0, 0.0]), (1, 0.0, [1.0, 1.0]), (2, 0.5, [0.0, 0.0]), (3, 1.0, [1.0, 1.0])]
        {
            for measure in [whole, partly] {
                values.add(0, measure, question, Some(a));
                values.add(1, measure, question, Some(r[0]));
                values.add(1, measure, question, Some(r[1]).filter(|_| measure == whole || question != 1));
                values.add(2, measure, question, Some(7.0));
            }
        }
        let all = [true; 4];
        assert_eq!(values.paired_differences((1, 0), whole, &all), [-0.5, 1.0, -0.5, 0.0]);
        assert_eq!(values.paired_differences((1, 0), whole, &[true, false, false, true]), [-0.5, 0.0]);
        assert_eq!(values.paired_differences((1, 0), partly, &all), [-0.5, -0.5, 0.0], "one replicate has no value");
        assert!(values.paired_differences((1, 2), whole, &all).is_empty(), "that group is not needed");
        // Means .5, 1, 0, 1: squares of deviations .015625, .140625, .390625, .140625.
        let (low, high) = values.interval(1, whole, ValueRange::Share, &all).unwrap();
        let stderr = (0.6875f64 / 3.0 / 4.0).sqrt();
        let expected = mean_interval(ValueRange::Share, 0.625, Some(stderr), 4).unwrap();
        assert!((low - expected.0).abs() < 1e-12 && (high - expected.1).abs() < 1e-12, "{low} {high} {expected:?}");
        let interval = |measure, within: &[bool]| values.interval(1, measure, ValueRange::Share, within);
        assert_eq!(interval(partly, &all), None);
        assert!(interval(partly, &[true, false, true, true]).is_some(), "what is missing lies outside");
        // All replicates agree on 1 or on 0 for each question, but other questions may still differ.
        let (low, high) = interval(whole, &[false, true, false, true]).unwrap();
        assert!(low > 0.3 && low < 0.4 && high == 1.0, "{low} {high}");
    }

    #[test]
    fn controls_are_a_family_of_their_own() {
        let one = |measure: &str, control: Option<&str>, p: Option<f64>| Comparison {
            configuration: String::new(),
            control: control.map(ToOwned::to_owned),
            against: String::new(),
            stratum: "all".into(),
            measure: measure.into(),
            n: 9,
            share: 1.0,
            difference: None,
            low: None,
            high: None,
            p,
            p_kind: None,
            p_t: None,
            p_holm: None,
            ranked: None,
        };
        let mut found = [
            one("em", None, Some(0.01)),
            one("f1", None, Some(0.01)),
            one("em", Some("labels shuffled"), Some(0.02)),
            one("em", None, Some(0.03)),
            one("em", None, None),
        ];
        adjust_p_values(&mut found);
        let adjusted: Vec<Option<f64>> = found.iter().map(|found| found.p_holm).collect();
        assert_eq!(adjusted, [Some(0.02), Some(0.01), Some(0.02), Some(0.03), None]);
    }
}
