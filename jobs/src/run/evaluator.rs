//! Evaluates outcomes: the rows of a run become values of measures.

use crate::error::JobError;
use crate::job::scoring::profile_of;
use crate::prepare::questions::{PredictionRecord, QuestionDetails, row_strata};
use crate::run::passages::RunPassages;
use hopeval_datasets::Format;
use hopeval_measures::{
    AccuracyRule, GoldGroups, JudgedAnswer, LiveSummary, MeasureBuffers, MeasureSet, OutcomeWithGold, PassageText,
    score_answer,
};
use hopeval_methods::{ChunkList, JudgeTarget, JudgingRule, Method};
use hopeval_operators::tally::{KeyedChange, TallyChange};
use hopeval_results::tables::{OutcomeRow, QuestionRow};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The key of a live tally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TallyKey {
    /// The configuration.
    pub configuration: u32,
    /// The stratum, in the run's order.
    pub stratum: u32,
    /// The measure, in the set's order.
    pub measure: u16,
}

/// Live tallies that change together: those of all measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TallyGroup {
    /// The configuration.
    pub configuration: u32,
    /// The stratum, in the run's order.
    pub stratum: u32,
}

/// The tallies of a group, or changes of them, by measure in the set's order.
pub type GroupTally = Vec<TallyChange>;

/// The tallies of groups by their keys, in the keys' order. A measure without outcomes has none.
pub fn tallies_by_key(groups: &BTreeMap<TallyGroup, GroupTally>) -> Vec<(TallyKey, TallyChange)> {
    let of_group = |(group, tallies): (&TallyGroup, &GroupTally)| {
        let TallyGroup { configuration, stratum } = *group;
        let counted = (0..).zip(tallies.clone()).filter(|(_, tally)| *tally != TallyChange::default());
        counted.map(move |(measure, tally)| (TallyKey { configuration, stratum, measure }, tally))
    };
    groups.iter().flat_map(of_group).collect()
}

/// The kinds of results in a configuration's outcomes.
#[derive(Clone, Debug)]
struct OutcomeContents {
    answers: bool,
    ranking: bool,
    chunks: Option<ChunkList>,
    supporting: bool,
    evidences: bool,
    form: bool,
    judging: Option<JudgedContents>,
}

/// The subject of a judge, and the rule that makes an accuracy of its word.
#[derive(Clone, Debug)]
struct JudgedContents {
    configuration: String,
    rule: AccuracyRule,
}

impl JudgedContents {
    fn of_method(judging: JudgeTarget<'_>) -> Self {
        let rule = match judging.rule {
            JudgingRule::Migres => AccuracyRule::Migres { is_open_domain: judging.is_open_domain },
            JudgingRule::Efficientrag => AccuracyRule::EfficientRag,
        };
        Self { configuration: judging.configuration.to_owned(), rule }
    }
}

/// Evaluates the outcomes of a run.
pub struct OutcomeEvaluator {
    set: MeasureSet,
    contents: Vec<OutcomeContents>,
    strata: Vec<String>,
    stratum_ids: HashMap<String, u32>,
    passages: RunPassages,
}

/// The gold of a question, ready for evaluation.
#[derive(Clone, Debug)]
pub struct QuestionGold {
    /// Position in the dataset.
    pub index: u64,
    /// Digest of the gold.
    pub gold_digest: String,
    answers: Vec<String>,
    question_type: Option<String>,
    gold: GoldGroups,
    facts: Vec<(String, u32)>,
    evidences: Vec<[String; 3]>,
    predictions: BTreeMap<String, PredictionRecord>,
    strata: Vec<u32>,
}

/// A judge's word about an answer, with the exact match of the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedWord<'a> {
    /// The judged configuration.
    pub configuration: &'a str,
    /// The judged answer.
    pub prediction: &'a str,
    /// The word.
    pub says_yes: bool,
    /// Whether the answer is exactly a gold answer, by the run's profile.
    pub is_exact: bool,
}

impl PassageText for RunPassages {
    fn text(&self, id: u32) -> &str {
        RunPassages::text(self, id)
    }
}

/// Whether the texts of an outcome kept to their form. An outcome that does not say so, such as a failed one, has not.
fn kept_form(outcome: &OutcomeRow) -> bool {
    outcome.trace.as_ref().and_then(|trace| trace.format).unwrap_or(false)
}

/// The number of passages in an outcome's list of chunks, repeats included.
fn count_chunks(list: ChunkList, outcome: &OutcomeRow) -> u64 {
    match list {
        ChunkList::Ranking => outcome.ranked.len() as u64,
        ChunkList::Paths => outcome.paths.iter().map(|(passages, _)| passages.len() as u64).sum(),
    }
}

impl OutcomeEvaluator {
    /// An evaluator for a run's measures, strata and configurations.
    ///
    /// # Errors
    /// Settings invalid for every measure.
    pub fn new(
        settings: &hopeval_measures::Settings,
        format: Format,
        methods: &[Box<dyn Method>],
        strata: &[String],
        passages: &RunPassages,
    ) -> Result<Self, JobError> {
        let set = MeasureSet::new(settings, profile_of(format))?;
        let contents = methods
            .iter()
            .map(|method| OutcomeContents {
                answers: method.gives_answers(),
                ranking: method.gives_ranking(),
                chunks: method.chunk_list(),
                supporting: method.gives_support(),
                evidences: method.gives_evidences(),
                form: method.has_form(),
                judging: method.judging().map(JudgedContents::of_method),
            })
            .collect();
        Ok(Self {
            set,
            contents,
            strata: strata.to_vec(),
            stratum_ids: number_strata(strata),
            passages: passages.clone(),
        })
    }

    /// Takes every grade of gold for 1: [`MeasureSet::with_binary_gold`].
    #[must_use]
    pub fn with_binary_gold(self) -> Self {
        Self { set: self.set.with_binary_gold(), ..self }
    }

    /// The measures.
    pub fn measure_set(&self) -> &MeasureSet {
        &self.set
    }

    /// The strata.
    pub fn strata(&self) -> &[String] {
        &self.strata
    }

    /// Prepares a question's gold. A record of another version has neither supporting facts nor evidences.
    pub fn question_gold(&self, row: &QuestionRow) -> QuestionGold {
        let details = QuestionDetails::of_row(row);
        QuestionGold {
            index: row.index,
            gold_digest: row.gold_digest.clone(),
            answers: row.answers.clone(),
            question_type: row.kind.clone(),
            gold: GoldGroups { groups: row.gold.clone(), grades: details.gold_grades },
            facts: details.supporting_facts,
            evidences: details.evidences,
            predictions: details.predictions,
            strata: row_strata(row).iter().filter_map(|name| self.stratum_ids.get(name).copied()).collect(),
        }
    }

    /// Writes the value of each measure of the set into `values`.
    pub fn evaluate_outcome(
        &self,
        question: &QuestionGold,
        outcome: &OutcomeRow,
        buffers: &mut MeasureBuffers,
        values: &mut Vec<Option<f64>>,
    ) {
        let contents = &self.contents[outcome.configuration as usize];
        let title = |id: u32| self.passages.title(id).to_owned();
        let mut facts: Vec<(String, u32)> =
            outcome.supporting.iter().map(|&(id, sentence)| (title(id), sentence)).collect();
        // Sentences in no passage get indexes that no gold has. The scripts count equal predictions once.
        let named: BTreeSet<(&str, &str)> =
            outcome.named_support().iter().map(|named| (named.title.as_str(), named.sentence.as_str())).collect();
        facts.extend((0..).zip(named).map(|(n, (title, _))| (title.to_owned(), u32::MAX - n)));
        let with_gold = OutcomeWithGold {
            ok: is_ok(outcome),
            answer: outcome.answer.as_deref(),
            answers_expected: contents.answers,
            answers: &question.answers,
            question_type: question.question_type.as_deref(),
            ranked: &outcome.ranked,
            ranking_expected: contents.ranking,
            gold: &question.gold,
            chunks: contents.chunks.map(|list| count_chunks(list, outcome)),
            predicted_facts: contents.supporting.then_some(facts.as_slice()),
            gold_facts: &question.facts,
            predicted_evidences: contents.evidences.then_some(outcome.evidences.as_slice()),
            gold_evidences: &question.evidences,
            kept_form: contents.form.then(|| kept_form(outcome)),
            judged: contents.judging.as_ref().map(|judging| JudgedAnswer {
                prediction: question.prediction(&judging.configuration),
                says_yes: said_word(outcome),
                rule: judging.rule,
            }),
            text: self.set.needs_text().then_some(&self.passages as &dyn PassageText),
        };
        self.set.evaluate_outcome(&with_gold, buffers, values);
    }

    /// The word of a judge's outcome, with its subject; `None` for other outcomes, and without a word or an answer.
    pub fn judged_word<'a>(&'a self, question: &'a QuestionGold, outcome: &OutcomeRow) -> Option<JudgedWord<'a>> {
        let configuration = self.contents[outcome.configuration as usize].judging.as_ref()?.configuration.as_str();
        let says_yes = said_word(outcome).filter(|_| is_ok(outcome))?;
        let prediction = question.prediction(configuration)?;
        let is_exact = score_answer(self.set.profile(), prediction, &question.answers).em == 1.0;
        Some(JudgedWord { configuration, prediction, says_yes, is_exact })
    }

    /// Whether any measure of any configuration is defined for a question.
    pub fn is_measurable(&self, question: &QuestionGold) -> bool {
        let (mut buffers, mut values) = (MeasureBuffers::default(), Vec::new());
        (0..self.contents.len()).any(|configuration| {
            // A failed outcome scores 0 wherever a good one has a value.
            let failed = OutcomeRow { configuration: configuration as u32, ..OutcomeRow::default() };
            self.evaluate_outcome(question, &failed, &mut buffers, &mut values);
            values.iter().any(Option::is_some)
        })
    }

    /// The kinds of results that the configurations give.
    pub fn given_results(&self) -> Vec<&'static str> {
        let gives = |has: fn(&OutcomeContents) -> bool, name| self.contents.iter().any(has).then_some(name);
        let kinds = [
            gives(|contents| contents.answers, "answers"),
            gives(|contents| contents.ranking, "rankings"),
            gives(|contents| contents.supporting, "supporting facts"),
            gives(|contents| contents.evidences, "evidences"),
        ];
        kinds.into_iter().flatten().collect()
    }

    /// The change of the live tallies for an outcome with these values; `sign` is 1 to add and -1 to take back.
    pub fn tally_change(
        &self,
        question: &QuestionGold,
        outcome: &OutcomeRow,
        values: &[Option<f64>],
        sign: i64,
    ) -> KeyedChange<TallyGroup, GroupTally> {
        let ok = is_ok(outcome);
        let change = |value: &Option<f64>| match value.and_then(|value| LiveSummary::from_score(value, ok)) {
            Some(LiveSummary { sum, sum_sq, .. }) => {
                (sign, sign * i64::from(ok), i128::from(sign) * sum, i128::from(sign) * sum_sq)
            }
            None => TallyChange::default(),
        };
        let configuration = outcome.configuration;
        let groups = question.strata.iter().map(|&stratum| TallyGroup { configuration, stratum });
        (groups.collect(), values.iter().map(change).collect())
    }

    /// The strata of a question, by position in [`OutcomeEvaluator::strata`].
    pub fn strata_of<'a>(&self, question: &'a QuestionGold) -> &'a [u32] {
        &question.strata
    }
}

impl QuestionGold {
    /// The answer of a judged configuration, if it has one.
    fn prediction(&self, configuration: &str) -> Option<&str> {
        self.predictions.get(configuration)?.answer.as_deref()
    }
}

/// The word of a judge's outcome, if it has one.
fn said_word(outcome: &OutcomeRow) -> Option<bool> {
    match outcome.answer.as_deref()? {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// The position of each stratum. A dataset may have one for each question.
fn number_strata(strata: &[String]) -> HashMap<String, u32> {
    strata.iter().zip(0..).map(|(name, position)| (name.clone(), position)).collect()
}

/// The status of a successful outcome.
pub const OK: &str = "ok";

/// Whether an outcome's status is ok.
pub fn is_ok(outcome: &OutcomeRow) -> bool {
    outcome.status == OK
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::testing::EveryKind;
    use hopeval_results::tables::{NamedSentenceRow, OutcomeTrace};

    #[test]
    fn chunks_are_counted_as_often_as_the_list_has_them() {
        let paths = vec![(vec![1, 2], 1.0), (vec![2, 3, 1], 0.5)];
        let outcome = OutcomeRow { ranked: vec![1, 2, 3], paths, ..OutcomeRow::default() };
        assert_eq!(count_chunks(ChunkList::Ranking, &outcome), 3);
        assert_eq!(count_chunks(ChunkList::Paths, &outcome), 5);
    }

    #[test]
    fn support_in_no_passage_is_wrong_support() {
        let settings = hopeval_measures::Settings::default();
        let methods: Vec<Box<dyn Method>> = vec![Box::new(EveryKind::default())];
        let evaluator = OutcomeEvaluator::new(&settings, Format::HotpotQa, &methods, &[], &RunPassages::none())
            .expect("the default measures");
        // Without a table of passages every title is empty.
        let details = QuestionDetails { supporting_facts: vec![(String::new(), 0)], ..QuestionDetails::default() };
        let record = serde_json::to_string(&details).expect("plain data");
        let question = evaluator.question_gold(&QuestionRow { record, ..QuestionRow::default() });
        let measured = |named: &[(&str, &str)]| {
            let row = |(title, sentence): &(&str, &str)| NamedSentenceRow {
                title: (*title).to_owned(),
                sentence: (*sentence).to_owned(),
            };
            let named_support = named.iter().map(row).collect();
            let trace = Some(OutcomeTrace { named_support, ..OutcomeTrace::default() });
            let (status, supporting) = (OK.to_owned(), vec![(7, 0)]);
            let outcome = OutcomeRow { status, supporting, trace, ..OutcomeRow::default() };
            let (mut buffers, mut values) = (MeasureBuffers::default(), Vec::new());
            evaluator.evaluate_outcome(&question, &outcome, &mut buffers, &mut values);
            let value = |name: &str| {
                let at = evaluator.measure_set().names().iter().position(|measure| measure == name);
                values[at.unwrap_or_else(|| panic!("no measure {name}"))]
            };
            ["sp_em", "sp_precision", "sp_recall"].map(value)
        };
        assert_eq!(measured(&[]), [Some(1.0); 3]);
        assert_eq!(measured(&[("", "0")]), [Some(0.0), Some(0.5), Some(1.0)], "even a name that looks right");
        assert_eq!(measured(&[("A", "x"), ("A", "x")])[1], Some(0.5), "equal predictions count once");
        assert_eq!(measured(&[("A", "x"), ("A", "y")])[1], Some(1.0 / 3.0));
    }

    #[test]
    fn tallies_have_the_order_of_their_keys_and_no_empty_rows() {
        let one = (1, 1, 5, 25);
        let group = |configuration, stratum| TallyGroup { configuration, stratum };
        let groups = [
            (group(1, 0), vec![TallyChange::default(), one]),
            (group(0, 2), vec![one]),
            (group(0, 1), vec![one, TallyChange::default(), one]),
            (group(2, 0), Vec::new()),
        ];
        let found = tallies_by_key(&BTreeMap::from(groups));
        let keys = [(0, 1, 0), (0, 1, 2), (0, 2, 0), (1, 0, 1)];
        let keys = keys.map(|(configuration, stratum, measure)| TallyKey { configuration, stratum, measure });
        assert_eq!(found, keys.map(|key| (key, one)));
        assert!(found.is_sorted());
    }

    #[test]
    fn every_stratum_has_its_own_number() {
        let strata: Vec<String> = (0..70_000).map(|n| format!("type={n}")).collect();
        let numbers = number_strata(&strata);
        assert_eq!((numbers["type=65535"], numbers["type=65536"], numbers["type=69999"]), (65_535, 65_536, 69_999));
    }
}
