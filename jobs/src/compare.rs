//! Configurations of a finished run beside each other, question by question.
//!
//! A configuration that has replicates stands for all of them: each question has the mean of its values over them. So what another
//! draw of demonstrations would change (the deviation between replicates, [`crate::replicates`]) and what other questions would change
//! (the intervals here) are told apart, and neither is in the other.

use crate::error::JobError;
use crate::replicates::Spread;
use crate::run::Open;
use crate::sweep::Configuration;
use hopeval_measures::aggregate::Summary;
use hopeval_measures::paired::{Difference, holm};
use hopeval_results::log::Final;
use hopeval_results::tables::{ScoreRow, TableReader};
use hopeval_results::{Log, layout};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::HashMap;

/// How a configuration differs from another in a measure, paired by question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The configuration's name, without the replicate's number.
    pub configuration: String,
    /// The one that it is compared with.
    pub against: String,
    /// The stratum.
    pub stratum: String,
    /// The measure.
    pub measure: String,
    /// Questions where both have a value; failed ones are among them.
    pub n: u64,
    /// The share of the stratum's questions that they are.
    pub coverage: f64,
    /// The mean of the configuration's value less the other's; none below two questions, as all that follows.
    pub difference: Option<f64>,
    /// Lower end of its 95 % interval, of a bootstrap over questions.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Two-sided p value, of exchanging the two within questions.
    pub p: Option<f64>,
    /// The same, adjusted by Holm for all configurations that were compared in this measure.
    pub p_holm: Option<f64>,
}

/// How all configurations but `against` itself differ from it, in those measures that are `wanted`, over the questions of one stratum.
/// Configurations of another context mode are left out: figures of different modes are never ranked together.
///
/// # Errors
/// A run that is not finished, a configuration or a stratum that it does not have, or tables that cannot be read.
pub fn compare(
    run: &Open,
    against: &str,
    stratum: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Comparison>, JobError> {
    let groups = Groups::of(&run.resolved.configurations);
    let base = groups.known(run, against)?;
    let log = Log::open(&run.places.store, run.id())?;
    let finished =
        log.state().finished.as_ref().ok_or_else(|| unfit(run, "differences are of finished runs only".to_owned()))?;
    let within = members(run, &log, stratum)?;
    let measures: Vec<&str> = run.judge.set().names().iter().map(String::as_str).filter(|name| wanted(name)).collect();
    let values = Values::read(run, finished, &groups, &measures)?;
    let mode = |group: usize| run.company.methods[groups.first[group]].context_mode();
    let compared: Vec<usize> = (0..groups.names.len()).filter(|&g| g != base && mode(g) == mode(base)).collect();
    let questions = within.iter().filter(|&&is| is).count();
    let pairs: Vec<(usize, usize)> = compared.iter().flat_map(|&g| (0..measures.len()).map(move |m| (g, m))).collect();
    let mut found: Vec<Comparison> = pairs
        .par_iter()
        .map(|&(group, measure)| {
            let both = values.of(group, measure).iter().zip(values.of(base, measure)).zip(&within);
            let differences: Vec<f64> =
                both.filter(|(_, is)| **is).map(|((own, other), _)| own - other).filter(|d| !d.is_nan()).collect();
            let told = Difference::of(&differences);
            Comparison {
                configuration: groups.names[group].to_owned(),
                against: against.to_owned(),
                stratum: stratum.to_owned(),
                measure: measures[measure].to_owned(),
                n: differences.len() as u64,
                coverage: differences.len() as f64 / questions.max(1) as f64,
                difference: told.map(|told| told.mean),
                low: told.map(|told| told.low),
                high: told.map(|told| told.high),
                p: told.map(|told| told.p),
                p_holm: None,
            }
        })
        .collect();
    for measure in &measures {
        let mut of: Vec<&mut Comparison> =
            found.iter_mut().filter(|found| found.measure == *measure && found.p.is_some()).collect();
        let adjusted = holm(&of.iter().filter_map(|found| found.p).collect::<Vec<_>>());
        of.iter_mut().zip(adjusted).for_each(|(found, p)| found.p_holm = Some(p));
    }
    Ok(found)
}

/// Sees that others of a run's configurations can be compared with `against`.
///
/// # Errors
/// There is no such configuration.
pub fn check(run: &Open, against: &str) -> Result<(), JobError> {
    Groups::of(&run.resolved.configurations).known(run, against).map(|_| ())
}

fn unfit(run: &Open, reason: String) -> JobError {
    JobError::Unfit { run: run.id().to_owned(), reason }
}

/// Fills in the intervals of `spreads`: how far the mean over replicates would wander with other questions. Leaves them as they are
/// where the run is not finished.
///
/// # Errors
/// Tables that cannot be read.
pub fn intervals(run: &Open, log: &Log, spreads: &mut [Spread]) -> Result<(), JobError> {
    let Some(finished) = log.state().finished.as_ref().filter(|_| !spreads.is_empty()) else { return Ok(()) };
    let groups = Groups::of(&run.resolved.configurations);
    let measures: Vec<&str> = run.judge.set().names().iter().map(String::as_str).collect();
    let values = Values::read(run, finished, &groups, &measures)?;
    let mut strata: HashMap<String, Vec<bool>> = HashMap::new();
    for spread in spreads {
        if !strata.contains_key(&spread.stratum) {
            strata.insert(spread.stratum.clone(), members(run, log, &spread.stratum)?);
        }
        let within = &strata[&spread.stratum];
        let (Some(group), Some(measure)) =
            (groups.position(&spread.configuration), measures.iter().position(|name| *name == spread.measure))
        else {
            continue;
        };
        let of = values.of(group, measure).iter().zip(within).filter(|(value, is)| **is && !value.is_nan());
        let of: Vec<Option<f64>> = of.map(|(&value, _)| Some(value)).collect();
        let interval = Summary::of(&of, of.iter().map(|_| true)).interval;
        (spread.low, spread.high) = (interval.map(|(low, _)| low), interval.map(|(_, high)| high));
    }
    Ok(())
}

/// Which questions of a run belong to a stratum, by position.
fn members(run: &Open, log: &Log, stratum: &str) -> Result<Vec<bool>, JobError> {
    let strata = run.judge.strata();
    let wanted = strata.iter().position(|name| name == stratum);
    let wanted = wanted
        .ok_or_else(|| unfit(run, format!("it has no stratum `{stratum}`; its strata are {}", strata.join(", "))))?;
    let belongs = |row| {
        let question = run.judge.answerable(&row);
        run.judge.strata_of(&question).iter().any(|&of| usize::from(of) == wanted)
    };
    run.questions(log, 0)?.map(|row| row.map(belongs)).collect()
}

/// Configurations, with replicates under one name.
struct Groups<'a> {
    /// In the job's order.
    names: Vec<&'a str>,
    /// A configuration of each.
    first: Vec<usize>,
    /// How many configurations each has.
    size: Vec<u32>,
    /// The group of each configuration, by the configuration's own name.
    of: HashMap<&'a str, usize>,
}

impl<'a> Groups<'a> {
    fn of(configurations: &'a [Configuration]) -> Self {
        let mut groups = Self { names: Vec::new(), first: Vec::new(), size: Vec::new(), of: HashMap::new() };
        for (at, configuration) in configurations.iter().enumerate() {
            let name = configuration.replicated();
            let group = groups.position(name).unwrap_or_else(|| {
                groups.names.push(name);
                groups.first.push(at);
                groups.size.push(0);
                groups.names.len() - 1
            });
            groups.size[group] += 1;
            groups.of.insert(&configuration.name, group);
        }
        groups
    }

    /// The group of this name, which must be one.
    fn known(&self, run: &Open, name: &str) -> Result<usize, JobError> {
        let names = || self.names.join(", ");
        self.position(name)
            .ok_or_else(|| unfit(run, format!("it has no configuration `{name}`; its configurations are {}", names())))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }
}

/// Values of some measures of all questions, means over replicates: 8 bytes for each group, measure and question.
struct Values {
    measures: usize,
    questions: usize,
    /// By group, measure, question; NaN where one of the replicates has no value.
    values: Vec<f64>,
}

impl Values {
    fn read(run: &Open, finished: &Final, groups: &Groups<'_>, measures: &[&str]) -> Result<Self, JobError> {
        let place =
            finished.path_of("scores").map_or_else(|| layout::final_table(run.id(), "scores"), ToOwned::to_owned);
        let questions = run.resolved.prepared.questions as usize;
        let mut all = Self {
            measures: measures.len(),
            questions,
            values: vec![0.0; groups.names.len() * measures.len() * questions],
        };
        let measure_of: HashMap<&str, usize> = measures.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let table = TableReader::<ScoreRow>::open(&run.places.store, &place)?;
        let expected = run.resolved.outcomes() * run.judge.set().names().len() as u64;
        if table.rows() != expected {
            return Err(unfit(run, format!("its scores have {} rows in place of {expected}", table.rows())));
        }
        for row in table.rows_from(0) {
            let row = row?;
            let Some(&measure) = measure_of.get(row.measure.as_str()) else { continue };
            let known = groups.of.get(row.configuration.as_str()).zip(usize::try_from(row.index).ok());
            let (&group, at) = known.filter(|&(_, at)| at < questions).ok_or_else(|| {
                unfit(
                    run,
                    format!(
                        "its scores have a row of `{}`, question {}, which it has not",
                        row.configuration, row.index
                    ),
                )
            })?;
            all.values[(group * all.measures + measure) * questions + at] += row.value.unwrap_or(f64::NAN);
        }
        for (group, &size) in groups.size.iter().enumerate() {
            let of = group * all.measures * questions..(group + 1) * all.measures * questions;
            all.values[of].iter_mut().for_each(|value| *value /= f64::from(size));
        }
        Ok(all)
    }

    fn of(&self, group: usize, measure: usize) -> &[f64] {
        let from = (group * self.measures + measure) * self.questions;
        &self.values[from..from + self.questions]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicates_stand_under_one_name() {
        let configuration = |name: &str, replicate| Configuration {
            name: name.into(),
            kind: "random".into(),
            parameters: serde_json::Value::Null,
            control: None,
            replicate,
        };
        let configurations = [
            configuration("a", None),
            configuration("r#1", Some(1)),
            configuration("r#2", Some(2)),
            configuration("z", None),
        ];
        let groups = Groups::of(&configurations);
        assert_eq!(
            (groups.names.as_slice(), groups.first.as_slice(), groups.size.as_slice()),
            (&["a", "r", "z"][..], &[0, 1, 3][..], &[1, 2, 1][..])
        );
        assert_eq!((groups.of["r#2"], groups.of["z"], groups.position("r#2")), (1, 2, None));
    }
}
