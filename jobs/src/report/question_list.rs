//! Lists questions of a run by what configurations made of them: those that one lost to another, and those that failed.

use crate::error::JobError;
use crate::run::evaluation::evaluate_outcomes;
use crate::run::evaluator::is_ok;
use crate::run::open::OpenRun;
use hopeval_results::Log;
use hopeval_results::tables::{OutcomeRow, QuestionRow};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The listed questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionChoice {
    /// Questions in which the first configuration has a lower value than the second.
    Lost {
        /// The configuration with the lower value.
        by: String,
        /// The one with the higher value.
        to: String,
    },
    /// Questions whose outcome under this configuration has another status than `ok`.
    Failing(String),
}

impl QuestionChoice {
    /// The configurations beside each other.
    fn configurations(&self) -> Vec<&str> {
        match self {
            Self::Lost { by, to } => vec![by, to],
            Self::Failing(configuration) => vec![configuration],
        }
    }
}

/// Questions of a run, with what configurations made of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuestionList {
    /// The measure that was compared; `None` for failing questions without a named one.
    pub measure: Option<String>,
    /// Questions that fit, listed or not.
    pub found: u64,
    /// Questions with committed outcomes of all configurations.
    pub questions: u64,
    /// The first of them: those with the largest difference, then in the dataset's order.
    pub listed: Vec<ListedQuestion>,
}

/// A question with what configurations made of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedQuestion {
    /// The dataset's id.
    pub question: String,
    /// The question.
    pub text: String,
    /// The dataset's type of question.
    pub kind: Option<String>,
    /// Hops, as the dataset counts them.
    pub hops: Option<u32>,
    /// Gold answers, the main one first.
    pub answers: Vec<String>,
    /// The titles of the gold passages; of equally good ones the first.
    pub gold: Vec<String>,
    /// By configuration.
    pub sides: Vec<QuestionSide>,
}

/// The outcome of a question under a configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuestionSide {
    /// The configuration.
    pub configuration: String,
    /// `ok`, or the kind of failure.
    pub status: String,
    /// The failure's message.
    pub message: Option<String>,
    /// The answer.
    pub answer: Option<String>,
    /// The measure's value.
    pub value: Option<f64>,
    /// The rank of each gold passage, from 1; `None` where it is not ranked.
    pub gold_ranks: Vec<Option<usize>>,
    /// The number of ranked passages.
    pub ranked: usize,
}

/// Lists at most `limit` questions. Without a `measure`, EM is compared, or for retrievers `recall_all@k` of the
/// largest k.
///
/// # Errors
/// No such configuration or measure; neither EM nor recall is defined for both; outcomes cannot be read.
pub fn list_questions(
    run: &OpenRun,
    log: &Log,
    choice: &QuestionChoice,
    measure: Option<&str>,
    limit: usize,
) -> Result<QuestionList, JobError> {
    let names = run.configuration_names();
    let unfit = |reason: String| JobError::Unfit { run: run.id().to_owned(), reason };
    let mut sides = Vec::new();
    for name in choice.configurations() {
        let found = names.iter().position(|known| known == name);
        let missing =
            || unfit(format!("it has no configuration `{name}`; its configurations are {}", names.join(", ")));
        sides.push(found.ok_or_else(missing)?);
    }
    let candidates = compared_measures(run, measure).map_err(unfit)?;
    let mut met: BTreeMap<u64, MetQuestion> = BTreeMap::new();
    evaluate_outcomes(run, log, &mut |_, outcome, values| {
        for (side, _) in sides.iter().enumerate().filter(|&(_, &at)| at == outcome.configuration as usize) {
            let question = met.entry(outcome.index).or_default();
            question.values.resize_with(sides.len(), Vec::new);
            question.values[side] = candidates.iter().map(|&(at, _)| values[at]).collect();
            question.has_failed |= !is_ok(&outcome);
            question.sides += 1;
        }
        Ok(())
    })?;
    met.retain(|_, question| question.sides == sides.len());
    let is_told = |candidate: usize| met.values().any(|question| question.difference(candidate).is_some());
    let candidate = (0..candidates.len()).find(|&candidate| is_told(candidate));
    let mut fitting: Vec<(u64, f64)> = match (choice, candidate) {
        (QuestionChoice::Failing(_), _) => {
            met.iter().filter(|(_, question)| question.has_failed).map(|(&index, _)| (index, 0.0)).collect()
        }
        (QuestionChoice::Lost { .. }, Some(candidate)) => {
            let lost = |question: &MetQuestion| question.difference(candidate).filter(|&difference| difference > 0.0);
            met.iter().filter_map(|(&index, question)| Some((index, lost(question)?))).collect()
        }
        (QuestionChoice::Lost { by, to }, None) => {
            let measures: Vec<&str> = candidates.iter().map(|(_, name)| name.as_str()).collect();
            let reason = format!("no question has a value of both `{by}` and `{to}` in {}", measures.join(" or "));
            return Err(unfit(format!("{reason}; `--measure NAME` compares another one")));
        }
    };
    fitting.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let found = fitting.len() as u64;
    fitting.truncate(limit);
    let compared = candidate.filter(|_| matches!(choice, QuestionChoice::Lost { .. }) || measure.is_some());
    let at = compared.map(|candidate| candidates[candidate].0);
    let order: Vec<u64> = fitting.into_iter().map(|(index, _)| index).collect();
    Ok(QuestionList {
        measure: compared.map(|candidate| candidates[candidate].1.clone()),
        found,
        questions: met.len() as u64,
        listed: read_listed(run, log, &order, &sides, at)?,
    })
}

/// The values of a question.
#[derive(Default)]
struct MetQuestion {
    /// By configuration and compared measure.
    values: Vec<Vec<Option<f64>>>,
    has_failed: bool,
    /// Configurations with an outcome.
    sides: usize,
}

impl MetQuestion {
    /// The second configuration's value less the first's.
    fn difference(&self, candidate: usize) -> Option<f64> {
        let [first, second] = &self.values[..] else { return None };
        Some(second[candidate]? - first[candidate]?)
    }
}

/// The measures that may be compared, the first choice first, with their places among all measures.
fn compared_measures(run: &OpenRun, named: Option<&str>) -> Result<Vec<(usize, String)>, String> {
    let names = run.evaluator.measure_set().names();
    let place = |name: &str| names.iter().position(|known| known == name).map(|at| (at, name.to_owned()));
    if let Some(named) = named {
        let missing = || format!("it has no measure `{named}`; its measures are {}", names.join(", "));
        return Ok(vec![place(named).ok_or_else(missing)?]);
    }
    let cut_off = |name: &&String| name.strip_prefix("recall_all@").and_then(|k| k.parse::<u32>().ok());
    let deepest = names.iter().filter(|name| cut_off(name).is_some()).max_by_key(cut_off);
    Ok([place("em"), deepest.and_then(|name| place(name))].into_iter().flatten().collect())
}

/// Reads the questions and outcomes at these indexes.
fn read_listed(
    run: &OpenRun,
    log: &Log,
    order: &[u64],
    sides: &[usize],
    measure: Option<usize>,
) -> Result<Vec<ListedQuestion>, JobError> {
    let mut rows: HashMap<u64, QuestionRow> = HashMap::new();
    for row in run.questions_from(log, 0)? {
        let row = row?;
        if order.contains(&row.index) {
            rows.insert(row.index, row);
        }
    }
    let mut outcomes: HashMap<(u64, usize), (OutcomeRow, Option<f64>)> = HashMap::new();
    evaluate_outcomes(run, log, &mut |_, outcome, values| {
        let configuration = outcome.configuration as usize;
        if sides.contains(&configuration) && order.contains(&outcome.index) {
            let value = measure.and_then(|at| values[at]);
            outcomes.insert((outcome.index, configuration), (outcome, value));
        }
        Ok(())
    })?;
    let listed = order.iter().filter_map(|index| {
        let row = rows.remove(index)?;
        let side = |&configuration: &usize| {
            let (outcome, value) = outcomes.remove(&(*index, configuration))?;
            Some(question_side(run, configuration, &row, outcome, value))
        };
        let sides = sides.iter().filter_map(side).collect();
        let gold = row.gold.iter().filter_map(|good| good.first()).map(|&id| run.passages.title(id).to_owned());
        Some(ListedQuestion {
            gold: gold.collect(),
            question: row.id,
            text: row.text,
            kind: row.kind,
            hops: row.hops,
            answers: row.answers,
            sides,
        })
    });
    Ok(listed.collect())
}

fn question_side(
    run: &OpenRun,
    configuration: usize,
    question: &QuestionRow,
    outcome: OutcomeRow,
    value: Option<f64>,
) -> QuestionSide {
    let rank = |good: &Vec<u32>| outcome.ranked.iter().position(|passage| good.contains(passage)).map(|at| at + 1);
    QuestionSide {
        configuration: run.resolved.configurations[configuration].name.clone(),
        gold_ranks: question.gold.iter().map(rank).collect(),
        ranked: outcome.ranked.len(),
        status: outcome.status,
        message: outcome.message,
        answer: outcome.answer,
        value,
    }
}
