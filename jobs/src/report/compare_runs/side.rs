//! One side of a comparison between runs: a configuration of a finished run, read from the run's own folder.

use crate::error::JobError;
use crate::job::sweep::numbered_position;
use crate::run::settings::ResolvedSettings;
use hopeval_results::log::FinalRecord;
use hopeval_results::tables::{ConfigurationRow, MeasureRow, Row, RunRow, ScoreRow, TableReader, read_final};
use hopeval_results::{Log, RunRecord, Store};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// A finished run, as its own folder tells it.
pub(super) struct ComparedRun {
    /// Its id.
    pub(super) id: String,
    pub(super) store: Store,
    pub(super) settings: ResolvedSettings,
    pub(super) log: Log,
    /// The row of its table `runs`.
    pub(super) row: RunRow,
    finished: FinalRecord,
    configurations: Vec<ConfigurationRow>,
    measures: Vec<MeasureRow>,
}

/// A configuration of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunConfiguration {
    /// The run's id.
    pub run: String,
    /// The configuration's name.
    pub configuration: String,
}

/// A side: a configuration of a finished run, opened.
pub(super) struct ComparedSide {
    /// Shared by the sides of one run.
    pub(super) run: Rc<ComparedRun>,
    pub(super) configuration: ConfigurationRow,
}

/// The scores of a configuration.
pub(super) struct SideScores {
    /// By question's id: its position, and the digest of the gold it was scored with.
    pub(super) questions: HashMap<Arc<str>, (u64, Arc<str>)>,
    /// By measure.
    pub(super) measures: BTreeMap<Arc<str>, MeasureScores>,
}

/// The values of a measure.
pub(super) struct MeasureScores {
    /// The name of the job's profile and the measure's own version.
    pub(super) version: Arc<str>,
    /// By question's position; `None` where the measure is not defined.
    pub(super) values: Vec<Option<f64>>,
}

impl MeasureScores {
    /// The value of the question at a position.
    pub(super) fn value(&self, position: u64) -> Option<f64> {
        usize::try_from(position).ok().and_then(|position| *self.values.get(position)?)
    }
}

impl ComparedRun {
    fn open(store: &Store, run: &str) -> Result<Self, JobError> {
        let record = RunRecord::load(store, run)?;
        let settings = serde_json::from_value(record.settings).map_err(|source| JobError::Stored {
            what: "the settings",
            run: run.to_owned(),
            source,
        })?;
        let log = Log::open(store, run)?;
        let Some(finished) = log.state().finished.clone() else {
            let reason = format!("only finished runs are compared; `hopeval resume {run}` goes on with it");
            return Err(unfit(run, reason));
        };
        let row = read_final::<RunRow>(store, run, &finished)?.pop();
        let row = row.ok_or_else(|| unfit(run, "its table `runs` has no row".to_owned()))?;
        Ok(Self {
            id: run.to_owned(),
            store: store.clone(),
            settings,
            row,
            configurations: read_final(store, run, &finished)?,
            measures: read_final(store, run, &finished)?,
            finished,
            log,
        })
    }

    fn names(&self) -> Vec<&str> {
        self.configurations.iter().map(|row| row.configuration.as_str()).collect()
    }

    /// The configuration of this name, or of this number in the run's tables.
    fn find_configuration(self: &Rc<Self>, name: &str) -> Result<ComparedSide, JobError> {
        let of_name = |name: &str| self.configurations.iter().find(|row| row.configuration == name);
        let of_number = || of_name(&self.settings.configurations.get(numbered_position(name)?)?.name);
        let found = of_name(name).or_else(of_number).cloned();
        let missing =
            || format!("it has no configuration `{name}`; its configurations are {}", self.names().join(", "));
        let configuration = found.ok_or_else(|| unfit(&self.id, missing()))?;
        Ok(ComparedSide { run: Rc::clone(self), configuration })
    }
}

impl ComparedSide {
    /// The pairs of configurations of two runs that `asked` names: the named ones, or all that have one name.
    pub(super) fn open_pairs(
        store: &Store,
        runs: [&str; 2],
        asked: [Option<&str>; 2],
    ) -> Result<Vec<(Self, Self)>, JobError> {
        let base = Rc::new(ComparedRun::open(store, runs[0])?);
        let other = if runs[0] == runs[1] { Rc::clone(&base) } else { Rc::new(ComparedRun::open(store, runs[1])?) };
        let named = match asked {
            [None, None] => {
                let theirs = other.names();
                let both: Vec<&str> = base.names().into_iter().filter(|name| theirs.contains(name)).collect();
                if both.is_empty() {
                    let (own, theirs) = (base.names().join(", "), theirs.join(", "));
                    let reason = format!(
                        "none of its configurations ({theirs}) has the name of one of run {} ({own}); name two: \
                         RUN:CONFIGURATION",
                        base.id
                    );
                    return Err(unfit(&other.id, reason));
                }
                both.into_iter().map(|name| (name, name)).collect()
            }
            [Some(own), theirs] => vec![(own, theirs.unwrap_or(own))],
            [None, Some(theirs)] => vec![(theirs, theirs)],
        };
        let mut pairs = Vec::new();
        for (own, theirs) in named {
            let pair = (base.find_configuration(own)?, other.find_configuration(theirs)?);
            if base.id == other.id && own == theirs {
                let reason = format!("`{own}` would be compared with itself; name two configurations, or two runs");
                return Err(unfit(&base.id, reason));
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    pub(super) fn name(&self) -> RunConfiguration {
        RunConfiguration { run: self.run.id.clone(), configuration: self.configuration.configuration.clone() }
    }

    /// The name for messages.
    pub(super) fn title(&self) -> String {
        format!("`{}` of run {}", self.configuration.configuration, self.run.id)
    }

    /// The passages of its longest ranking, where the measure's cut-off is beyond.
    pub(super) fn short_ranking(&self, measure: &str) -> Option<u32> {
        let of_measure = |row: &&MeasureRow| {
            row.configuration == self.configuration.configuration && row.measure == measure && row.stratum == "all"
        };
        self.run.measures.iter().find(of_measure)?.ranked
    }

    /// Reads its scores. Skips the row groups without any.
    pub(super) fn read_scores(&self) -> Result<SideScores, JobError> {
        let run = &self.run;
        let table = TableReader::<ScoreRow>::open_final(&run.store, &run.id, &run.finished)?;
        // Sorted by configuration, in the job's order, with equally many rows of each.
        let each = table.rows() / (run.configurations.len() as u64).max(1);
        let mut scores = SideScores { questions: HashMap::new(), measures: BTreeMap::new() };
        if each == 0 {
            return Ok(scores);
        }
        let (first, group) = (u64::from(self.configuration.position) * each, ScoreRow::TABLE.row_group as u64);
        let questions = usize::try_from(run.settings.prepared.questions).unwrap_or(usize::MAX);
        for group in first / group..=(first + each - 1) / group {
            for row in table.read_groups(&[usize::try_from(group).unwrap_or(usize::MAX)])? {
                if *row.configuration != *self.configuration.configuration {
                    continue;
                }
                let at = usize::try_from(row.index).unwrap_or(usize::MAX);
                if at >= questions {
                    let reason = format!("its scores have a row of question {at}, which it has not");
                    return Err(unfit(&run.id, reason));
                }
                scores.questions.entry(row.question).or_insert((row.index, row.gold_digest));
                let measure = scores
                    .measures
                    .entry(row.measure)
                    .or_insert_with(|| MeasureScores { version: row.version, values: vec![None; questions] });
                measure.values[at] = row.value;
            }
        }
        Ok(scores)
    }
}

/// A run that is not fit for the comparison.
pub(super) fn unfit(run: &str, reason: String) -> JobError {
    JobError::Unfit { run: run.to_owned(), reason }
}
