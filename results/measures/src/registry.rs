//! The measures of a job: from its `[measures]` table to named, versioned values for each outcome. The measures
//! themselves are in [`crate::measures`].
//!
//! A [`MeasureSet`] fixes names and order once. [`MeasureSet::evaluate_outcome`] then gives the values of every outcome
//! in that order, `None` for undefined ones. Definedness depends on the question and the configuration, never on the
//! outcome's success: a failed outcome scores 0 for every measure defined for a good one. The names of the exceptions
//! say so: `em_answered` and `f1_answered` are means over answered questions, and `chunks` and `chunks_with_repeats`
//! count the retrieved chunks.
//!
//! | names | defined when |
//! | --- | --- |
//! | `em`, `f1`, `precision`, `recall` (or `has_answer`, `accuracy`) | gold answers, and the configuration answers |
//! | `em_answered`, `f1_answered` | as above, and this outcome is ok and has an answer |
//! | `recall_frac@k` … `map`, `budget_recall@k`, `chunk_recall` | gold passages, and the configuration ranks |
//! | `chunks_with_repeats` | the configuration tells its retrievals apart, and this outcome is ok |
//! | `answer_recall@k` | the first gold answer is not yes or no; texts at hand; the configuration ranks |
//! | `bridge_answer_recall@k` | as `answer_recall@k`, and the question's type is no comparison |
//! | `answer_hit@k` | gold answers; texts at hand; the configuration ranks |
//! | `sp_*`, `evidence_*` | gold facts (evidences), and the configuration predicts such |
//! | `joint_*` | all parts multiplied by the profile's script |
//! | `format` | the configuration has a form to keep to |
//! | `fsm_joint_*` | as `evidence_*`, under every profile |
//! | `acc_migres`, `acc_efficientrag` | gold answers, and the configuration is a judge of that rule |

use std::fmt;
use std::sync::Arc;

use crate::aggregate::ValueRange;
use crate::answer::{AnswerScorer, Profile};
use crate::drop::answer_spans;
use crate::facts::{
    EvidenceTriple, SetScore, SupportingFact, evidences, joint, supporting_facts, supporting_facts_lowered,
};
use crate::has_answer::AnswerMatcher;
use crate::judging::JudgedAnswer;
pub use crate::measures::Settings;
use crate::measures::answers;
use crate::normalize::normalize;
use crate::ranked::{GoldGroups, GoldRanks, RankedMeasure};

/// A setting not allowed for any measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("measures.{field}: {value} is not allowed; every k must be at least 1 and occur once")]
pub struct BadSetting {
    /// The setting.
    pub field: &'static str,
    /// Its offending entry.
    pub value: u32,
}

/// One outcome with the gold of its question: the input of the measures.
#[derive(Clone, Copy)]
pub struct OutcomeWithGold<'a> {
    /// Whether the outcome's status is ok.
    pub ok: bool,
    /// The method's answer.
    pub answer: Option<&'a str>,
    /// Whether the configuration gives answers.
    pub answers_expected: bool,
    /// The question's gold answers, aliases included, the canonical one first.
    pub answers: &'a [String],
    /// The dataset's type of the question, if it has one.
    pub question_type: Option<&'a str>,
    /// The passages ranked by the method, best first.
    pub ranked: &'a [u32],
    /// Whether the configuration ranks passages.
    pub ranking_expected: bool,
    /// The question's gold passages.
    pub gold: &'a GoldGroups,
    /// The number of passages that the method's retrievals found, each as often as it was found; `None` if the
    /// configuration's outcomes do not have it.
    pub chunks: Option<u64>,
    /// Predicted supporting facts; `None` if the configuration does not predict them (otherwise a failed outcome has an
    /// empty list).
    pub predicted_facts: Option<&'a [SupportingFact]>,
    /// Gold supporting facts.
    pub gold_facts: &'a [SupportingFact],
    /// Predicted evidences; `None` if the configuration does not predict them, as for facts.
    pub predicted_evidences: Option<&'a [EvidenceTriple]>,
    /// Gold evidences.
    pub gold_evidences: &'a [EvidenceTriple],
    /// Whether the method's texts kept to the required form; `None` if the configuration has none (otherwise a failed
    /// outcome has `false`).
    pub kept_form: Option<bool>,
    /// The judged prediction with the judge's word; `None` if the configuration is no judge.
    pub judged: Option<JudgedAnswer<'a>>,
    /// The texts of passages, for answer recall.
    pub text: Option<&'a dyn PassageText>,
}

/// Provides the texts of passages for answer recall.
pub trait PassageText {
    /// The text of passage `id`; empty if it has no text.
    fn text(&self, id: u32) -> &str;
}

impl<S: AsRef<str>> PassageText for Vec<S> {
    fn text(&self, id: u32) -> &str {
        self.get(id as usize).map_or("", AsRef::as_ref)
    }
}

/// Buffers of [`MeasureSet::evaluate_outcome`]; one per thread.
#[derive(Clone, Debug, Default)]
pub struct MeasureBuffers {
    scorer: AnswerScorer,
    matcher: AnswerMatcher,
    found: GoldRanks,
}

/// The inputs of a measure: an outcome with its gold, and intermediate results shared by several measures.
pub(crate) struct MeasureInput<'a> {
    pub(crate) outcome: &'a OutcomeWithGold<'a>,
    /// The answer's score under the profile; `None` if undefined.
    pub(crate) answer: Option<SetScore>,
    /// The ranks of the golds; `None` without gold, or if the configuration does not rank.
    pub(crate) found: Option<&'a GoldRanks>,
    pub(crate) facts: FactScores,
    pub(crate) answer_ranks: AnswerRanks,
}

/// Scores of predicted sets; each `None` if undefined.
pub(crate) struct FactScores {
    pub(crate) sentences: Option<SetScore>,
    pub(crate) evidences: Option<SetScore>,
    /// The product defined by the profile's script.
    pub(crate) joint: Option<SetScore>,
}

/// Ranks (from 1) of the first passage whose text has an answer; `u32::MAX` if no text in the searched depth has one.
/// `None` if undefined.
#[derive(Default)]
pub(crate) struct AnswerRanks {
    /// Of the first gold answer, unless it is yes or no.
    pub(crate) first: Option<u32>,
    /// Of any gold answer.
    pub(crate) any: Option<u32>,
}

type MeasureFn = dyn Fn(&MeasureInput<'_>) -> Option<f64> + Send + Sync;

/// One measure of a set.
#[derive(Clone)]
pub(crate) struct Column {
    name: String,
    version: &'static str,
    value: Arc<MeasureFn>,
    /// The number of top passages whose texts it searches.
    text_depth: u32,
    /// The last rank that can change the value; `None` if every rank counts.
    cut_off: Option<u32>,
    /// Whether a failed outcome has no value. Otherwise it scores 0 if a good outcome has a value.
    none_if_failed: bool,
    /// Whether its values are made of a judge's words, so that the judge is part of its version.
    of_judges: bool,
    range: ValueRange,
    /// The version that takes every grade for 1; `None` if grades do not count.
    binary_version: Option<&'static str>,
}

impl Column {
    /// A measure computed by `value`; `None` if undefined.
    pub(crate) fn new(
        name: String,
        version: &'static str,
        value: impl Fn(&MeasureInput<'_>) -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            version,
            value: Arc::new(value),
            text_depth: 0,
            cut_off: None,
            none_if_failed: false,
            of_judges: false,
            range: ValueRange::Share,
            binary_version: None,
        }
    }

    /// A measure of the ranking alone.
    pub(crate) fn of_ranking(measure: RankedMeasure) -> Self {
        let column = Self::new(measure.to_string(), measure.version(), move |input| measure.value(input.found?));
        Self { cut_off: measure.cut(), ..column }
    }

    /// Says that only the first `k` passages count.
    pub(crate) fn cut_at(self, k: u32) -> Self {
        Self { cut_off: Some(k), ..self }
    }

    /// Searches the texts of the first `depth` passages for the gold answers ([`MeasureInput::answer_ranks`]).
    pub(crate) fn reading_texts(self, depth: u32) -> Self {
        Self { text_depth: depth, cut_off: Some(depth), ..self }
    }

    /// Leaves failed outcomes out, instead of scoring them 0.
    pub(crate) fn none_if_failed(self) -> Self {
        Self { none_if_failed: true, ..self }
    }

    /// Says that the values are made of a judge's words.
    pub(crate) fn of_judges(self) -> Self {
        Self { of_judges: true, ..self }
    }

    /// Says that the values are counts.
    pub(crate) fn of_counts(self) -> Self {
        Self { range: ValueRange::Count, ..self }
    }

    /// Says that grades of gold count, and which version takes each for 1.
    pub(crate) fn of_grades(self, binary_version: &'static str) -> Self {
        Self { binary_version: Some(binary_version), ..self }
    }

    fn value_for(&self, input: &MeasureInput<'_>) -> Option<f64> {
        let value = (self.value)(input);
        match (input.outcome.ok, self.none_if_failed) {
            (true, _) => value,
            (false, true) => None,
            (false, false) => value.map(|_| 0.0),
        }
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A job's measures in their order.
#[derive(Clone, Debug)]
pub struct MeasureSet {
    profile: Profile,
    columns: Vec<Column>,
    names: Vec<String>,
    /// The largest depth of the columns.
    text_depth: u32,
    /// Whether every grade of gold is taken for 1.
    is_binary: bool,
}

impl MeasureSet {
    /// The measures requested by `settings`. `default_profile` applies if they name no profile.
    ///
    /// # Errors
    /// A k of 0, or one that occurs twice.
    pub fn new(settings: &Settings, default_profile: Profile) -> Result<Self, BadSetting> {
        let profile = settings.profile.unwrap_or(default_profile);
        let mut columns = answers::answer_columns(profile);
        columns.extend(settings.columns(profile)?);
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let text_depth = columns.iter().map(|column| column.text_depth).max().unwrap_or(0);
        Ok(Self { profile, columns, names, text_depth, is_binary: false })
    }

    /// Takes every grade of gold for 1, as for questions that were recorded without grades. The measures in which
    /// grades count have the version that does so.
    #[must_use]
    pub fn with_binary_gold(mut self) -> Self {
        for column in &mut self.columns {
            column.version = column.binary_version.unwrap_or(column.version);
        }
        Self { is_binary: true, ..self }
    }

    /// The profile with the scoring rules.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The names, in the order of [`Self::evaluate_outcome`].
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The version of each measure's definition, in the order of [`Self::names`].
    pub fn versions(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.version)
    }

    /// Whether the values of each measure are made of a judge's words, in the order of [`Self::names`]. Then the judge
    /// is part of the measure's version.
    pub fn of_judges(&self) -> impl Iterator<Item = bool> {
        self.columns.iter().map(|column| column.of_judges)
    }

    /// The values that each measure can have, in the order of [`Self::names`].
    pub fn ranges(&self) -> impl Iterator<Item = ValueRange> {
        self.columns.iter().map(|column| column.range)
    }

    /// Whether failed outcomes score 0 in the measure of this name. Other measures are means over good outcomes alone.
    pub fn counts_failures(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name && !column.none_if_failed)
    }

    /// The measures that can decide which configuration of a run is the best: shares, since more of them is better, in
    /// which failed outcomes count. Those of judges' words are none, since their words are made after the run.
    pub fn deciding_names(&self) -> Vec<&str> {
        let decides =
            |column: &&Column| column.range == ValueRange::Share && !column.none_if_failed && !column.of_judges;
        self.columns.iter().filter(decides).map(|column| column.name.as_str()).collect()
    }

    /// The last rank that can change each measure, in the order of [`Self::names`]; `None` where every rank counts. A
    /// value over rankings that are always shorter is not measured to its cut-off.
    pub fn cut_offs(&self) -> impl Iterator<Item = Option<u32>> {
        self.columns.iter().map(|column| column.cut_off)
    }

    /// Whether any measure needs [`OutcomeWithGold::text`].
    pub fn needs_text(&self) -> bool {
        self.text_depth > 0
    }

    /// Writes the values of one outcome into `out`, in the order of [`Self::names`].
    pub fn evaluate_outcome(
        &self,
        outcome: &OutcomeWithGold<'_>,
        buffers: &mut MeasureBuffers,
        out: &mut Vec<Option<f64>>,
    ) {
        out.clear();
        let answer = self.answer_score(outcome, &mut buffers.scorer);
        let facts = self.fact_scores(outcome, answer);
        let ranks = outcome.ranking_expected && !outcome.gold.is_empty();
        if ranks {
            let groups = outcome.gold.groups.iter().map(Vec::as_slice);
            let grades = if self.is_binary { &[] } else { outcome.gold.grades.as_slice() };
            buffers.found.set_ranking(outcome.ranked, groups, grades);
        }
        let answer_ranks = self.answer_ranks(outcome, &mut buffers.matcher);
        let input = MeasureInput { outcome, answer, found: ranks.then_some(&buffers.found), facts, answer_ranks };
        out.extend(self.columns.iter().map(|column| column.value_for(&input)));
    }

    fn answer_score(&self, outcome: &OutcomeWithGold<'_>, scorer: &mut AnswerScorer) -> Option<SetScore> {
        if !outcome.answers_expected || outcome.answers.is_empty() {
            return None;
        }
        // An outcome without an answer is a missing prediction: 0 in every script, even if "" would score.
        let Some(answer) = outcome.answer.filter(|_| outcome.ok) else { return Some(SetScore::default()) };
        Some(scorer.score(self.profile, answer, outcome.answers).into())
    }

    fn fact_scores(&self, outcome: &OutcomeWithGold<'_>, answer: Option<SetScore>) -> FactScores {
        let two_wiki = self.profile == Profile::TwoWiki;
        let sentences = outcome.predicted_facts.filter(|_| !outcome.gold_facts.is_empty()).map(|predicted| {
            if two_wiki {
                supporting_facts_lowered(predicted, outcome.gold_facts)
            } else {
                supporting_facts(predicted, outcome.gold_facts)
            }
        });
        let triples = outcome.predicted_evidences.filter(|_| !outcome.gold_evidences.is_empty()).map(|predicted| {
            let gold: Vec<Vec<EvidenceTriple>> = outcome.gold_evidences.iter().map(|e| vec![e.clone()]).collect();
            evidences(predicted, &gold)
        });
        let joint = match (answer, sentences, triples) {
            (Some(answer), Some(sentences), Some(triples)) if two_wiki => Some(joint(&[answer, sentences, triples])),
            (Some(answer), Some(sentences), _) if !two_wiki => Some(joint(&[answer, sentences])),
            _ => None,
        };
        FactScores { sentences, evidences: triples, joint }
    }

    fn answer_ranks(&self, outcome: &OutcomeWithGold<'_>, matcher: &mut AnswerMatcher) -> AnswerRanks {
        let Some(text) = outcome.text.filter(|_| outcome.ranking_expected && self.needs_text()) else {
            return AnswerRanks::default();
        };
        let Some(first_answer) = outcome.answers.first() else { return AnswerRanks::default() };
        let top = &outcome.ranked[..outcome.ranked.len().min(self.text_depth as usize)];
        let mut rank_any = |answers: &[String]| {
            matcher.set_answers(answers);
            top.iter().position(|&id| matcher.is_in(text.text(id))).map_or(u32::MAX, |at| at as u32 + 1)
        };
        let mut rank = |answers: &[String]| match self.profile {
            // An answer of several spans is found with the last of them, whichever texts have them.
            Profile::Drop => {
                let mut of_spans = |spans: Vec<String>| {
                    let ranks = spans.into_iter().map(|span| rank_any(&[span]));
                    ranks.max().unwrap_or(u32::MAX)
                };
                answers.iter().map(|answer| of_spans(answer_spans(answer))).min().unwrap_or(u32::MAX)
            }
            _ => rank_any(answers),
        };
        let any = rank(outcome.answers);
        let first = if outcome.answers.len() == 1 || any == u32::MAX { any } else { rank(&outcome.answers[..1]) };
        let gate = normalize(first_answer);
        AnswerRanks { first: (gate != "yes" && gate != "no").then_some(first), any: Some(any) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &Settings, profile: Profile) -> MeasureSet {
        MeasureSet::new(settings, profile).unwrap()
    }

    fn value(set: &MeasureSet, outcome: &OutcomeWithGold<'_>, name: &str) -> Option<f64> {
        let mut out = Vec::new();
        set.evaluate_outcome(outcome, &mut MeasureBuffers::default(), &mut out);
        assert_eq!(out.len(), set.names().len());
        out[set.names().iter().position(|n| n == name).unwrap_or_else(|| panic!("no {name} in {:?}", set.names()))]
    }

    struct Question {
        answers: Vec<String>,
        gold: GoldGroups,
        facts: Vec<SupportingFact>,
        evidences: Vec<EvidenceTriple>,
        texts: Vec<&'static str>,
    }

    fn question() -> Question {
        Question {
            answers: vec!["Paris".to_owned(), "City of Light".to_owned()],
            gold: GoldGroups::of_ids(&[1, 2]),
            facts: vec![("Paris".to_owned(), 0)],
            evidences: vec![["a".to_owned(), "b".to_owned(), "c".to_owned()]],
            texts: vec!["nothing", "It is the city of light.", "Paris!"],
        }
    }

    fn outcome_of<'a>(q: &'a Question, answer: Option<&'a str>, ranked: &'a [u32]) -> OutcomeWithGold<'a> {
        OutcomeWithGold {
            ok: true,
            answer,
            answers_expected: true,
            answers: &q.answers,
            question_type: Some("bridge"),
            ranked,
            ranking_expected: true,
            gold: &q.gold,
            chunks: Some(3),
            predicted_facts: Some(&q.facts),
            gold_facts: &q.facts,
            predicted_evidences: Some(&[]),
            gold_evidences: &q.evidences,
            kept_form: Some(true),
            judged: None,
            text: Some(&q.texts),
        }
    }

    #[test]
    fn shares_in_which_failures_count_decide() {
        let settings = r#"{"recall_at": [2], "mrr": false, "map": false, "facts": false, "migres": true, "format": true,
            "judged": true, "chunk_recall": true, "chunks_with_repeats": true}"#;
        let set = set(&serde_json::from_str(settings).unwrap(), Profile::Squad);
        let decide = set.deciding_names();
        let others: Vec<&str> = set.names().iter().map(String::as_str).filter(|name| !decide.contains(name)).collect();
        assert!(
            ["em", "cem_migres", "recall_all@2", "chunk_recall", "format"].iter().all(|name| decide.contains(name))
        );
        let of_judges = ["acc_migres", "acc_efficientrag"];
        let counts = ["chunks", "chunks_with_repeats"];
        let answered = ["em_answered", "f1_answered", "em_migres_answered", "cem_migres_answered"];
        let known = [&of_judges[..], &counts, &answered].concat();
        assert!(others.iter().all(|name| known.contains(name)) && others.len() == known.len(), "{others:?}");
        assert!(decide.iter().chain(&of_judges).all(|name| set.counts_failures(name)));
        assert!(counts.iter().chain(&answered).all(|name| !set.counts_failures(name)));
    }

    #[test]
    fn binary_gold_has_the_version_of_its_values() {
        let settings = Settings { ndcg_at: vec![2], ..Settings::default() };
        let graded = set(&settings, Profile::Squad);
        let binary = graded.clone().with_binary_gold();
        let mut q = question();
        let of = |set: &MeasureSet, q: &Question| {
            let at = set.names().iter().position(|name| name == "ndcg@2").unwrap();
            (value(set, &outcome_of(q, None, &[1, 0]), "ndcg@2").unwrap(), set.versions().nth(at).unwrap())
        };
        let (plain, _) = of(&graded, &q);
        q.gold.grades = vec![1, 3];
        assert!(of(&graded, &q).0 < plain && of(&graded, &q).1 == "2");
        assert_eq!(of(&binary, &q), (plain, "1"), "grades that only an edit has do not count");
        let changed = graded.versions().zip(binary.versions()).filter(|(one, other)| one != other);
        assert_eq!(changed.count(), 1, "the other measures know no grades");
    }

    #[test]
    fn names_are_in_order_and_settings_are_strict() {
        let settings: Settings = serde_json::from_str(r#"{"recall_at": [2, 5], "ndcg_at": [], "map": false}"#).unwrap();
        let names = set(&settings, Profile::Squad).names().join(" ");
        assert_eq!(
            names,
            "em f1 precision recall em_answered f1_answered recall_frac@2 recall_frac@5 recall_all@2 recall_all@5 \
             hit@2 hit@5 mrr"
        );
        assert!(serde_json::from_str::<Settings>(r#"{"recal_at": [2]}"#).is_err());
        assert!(serde_json::from_str::<Settings>(r#"{"profile": "trivia"}"#).is_err());
        let bad = Settings { ndcg_at: vec![5, 0], ..Settings::default() };
        assert_eq!(MeasureSet::new(&bad, Profile::Squad).unwrap_err(), BadSetting { field: "ndcg_at", value: 0 });
        let set = set(&Settings::default(), Profile::TwoWiki);
        assert_eq!(set.versions().count(), set.names().len());
        assert!(set.names().contains(&"evidence_f1".to_owned()));
    }

    #[test]
    fn values_of_a_good_outcome() {
        let q = question();
        let settings = Settings {
            answer_recall_at: vec![1, 2, 3],
            answer_hit_at: vec![1, 2],
            budget_recall_at: vec![2],
            chunk_recall: true,
            ..Settings::default()
        };
        let set = set(&settings, Profile::HotpotQa);
        let outcome = outcome_of(&q, Some("paris."), &[0, 1, 2]);
        for (name, expected) in [
            ("em", 1.0),
            ("f1_answered", 1.0),
            ("recall_frac@2", 0.5),
            ("recall_all@2", 0.0),
            ("hit@2", 1.0),
            ("mrr", 0.5),
            ("map", (0.5 + 2.0 / 3.0) / 2.0),
            ("answer_recall@2", 0.0),
            ("answer_recall@3", 1.0),
            ("answer_hit@1", 0.0),
            ("answer_hit@2", 1.0),
            ("budget_recall@2", 0.5),
            ("chunk_recall", 1.0),
            ("chunks", 3.0),
            ("sp_f1", 1.0),
            ("joint_em", 1.0),
        ] {
            assert_eq!(value(&set, &outcome, name), Some(expected), "{name}");
        }
    }

    #[test]
    fn failed_outcomes_score_zero_where_good_ones_have_a_value() {
        let q = question();
        let set = set(&Settings { chunk_recall: true, ..Settings::default() }, Profile::HotpotQa);
        let good = outcome_of(&q, Some("Paris"), &[1, 2]);
        let failed = OutcomeWithGold { ok: false, ..good };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        set.evaluate_outcome(&good, &mut MeasureBuffers::default(), &mut a);
        set.evaluate_outcome(&failed, &mut MeasureBuffers::default(), &mut b);
        for ((name, good), failed) in set.names().iter().zip(a).zip(b) {
            let expected = if name.ends_with("_answered") || name == "chunks" { None } else { good.map(|_| 0.0) };
            assert_eq!(failed, expected, "{name}");
        }
    }

    #[test]
    fn fsm_has_measures_of_its_own() {
        let mut q = question();
        let triple = |object: &str| ["Up".to_owned(), "director".to_owned(), object.to_owned()];
        q.evidences = vec![triple("Pete Docter"), triple("Bob Peterson")];
        let settings: Settings = serde_json::from_str(r#"{"format": true, "fsm_joint": true}"#).unwrap();
        let found = [triple("pete docter."), triple("Walt"), triple("Disney")];
        // By hand from the script's definitions: one of three is right, one of two gold ones is found.
        let (precision, recall) = (1.0 / 3.0, 1.0 / 2.0);
        for profile in [Profile::HotpotQa, Profile::TwoWiki, Profile::Musique] {
            let set = set(&settings, profile);
            let good = OutcomeWithGold { predicted_evidences: Some(&found), ..outcome_of(&q, None, &[]) };
            assert_eq!(value(&set, &good, "fsm_joint_em"), Some(0.0));
            assert_eq!(value(&set, &good, "fsm_joint_f1"), Some(2.0 * precision * recall / (precision + recall)));
            let all = OutcomeWithGold { predicted_evidences: Some(&q.evidences), ..good };
            assert_eq!(value(&set, &all, "fsm_joint_em"), Some(1.0));
            assert_eq!(value(&set, &good, "format"), Some(1.0));
            assert_eq!(value(&set, &OutcomeWithGold { kept_form: Some(false), ..good }, "format"), Some(0.0));
            assert_eq!(value(&set, &OutcomeWithGold { ok: false, ..good }, "format"), Some(0.0));
            let formless = OutcomeWithGold { kept_form: None, predicted_evidences: None, ..good };
            assert_eq!((value(&set, &formless, "format"), value(&set, &formless, "fsm_joint_f1")), (None, None));
        }
    }

    #[test]
    fn an_answer_of_several_spans_is_found_with_the_last_of_them() {
        let mut q = question();
        q.texts = vec!["nothing", "It was Ali.", "Joe Frazier lost to Ali.", "In Manila."];
        let settings = Settings { answer_hit_at: vec![1, 2, 3], answer_recall_at: vec![2, 3], ..Settings::default() };
        let drop = set(&settings, Profile::Drop);
        let mut found = |answers: &[&str], ranked: &[u32], names: &[&str]| {
            q.answers = answers.iter().map(|&answer| answer.to_owned()).collect();
            let outcome = outcome_of(&q, None, ranked);
            names.iter().map(|name| value(&drop, &outcome, name).unwrap()).collect::<Vec<_>>()
        };
        let hits = ["answer_hit@1", "answer_hit@2", "answer_hit@3"];
        let (ali_frazier, in_order) = (r#"["Ali", "Frazier"]"#, [1, 0, 2]);
        assert_eq!(found(&[ali_frazier], &in_order, &hits), [0.0, 0.0, 1.0]);
        assert_eq!(found(&[ali_frazier], &[2], &hits), [1.0; 3], "one text can have all of them");
        assert_eq!(found(&[r#"["Ali", "Foreman"]"#], &in_order, &hits), [0.0; 3]);
        assert_eq!(found(&[ali_frazier, "Ali"], &in_order, &hits), [1.0; 3], "each alternative is right");
        let recalls = ["answer_recall@2", "answer_recall@3"];
        assert_eq!(found(&[ali_frazier, "Ali"], &in_order, &recalls), [0.0, 1.0], "the first one counts");
        assert_eq!(found(&["Ali"], &in_order, &hits), [1.0; 3]);
        let version = |profile| {
            let set = set(&settings, profile);
            let named = set.names().iter().zip(set.versions()).find(|(name, _)| *name == "answer_hit@1");
            named.map(|(_, version)| version)
        };
        assert_eq!((version(Profile::Drop), version(Profile::Squad)), (Some("2"), Some("1")));
    }

    #[test]
    fn comparisons_are_left_out_of_the_paper_s_answer_recall() {
        let q = question();
        let settings =
            Settings { answer_recall_at: vec![3], bridge_answer_recall_at: vec![2, 3], ..Settings::default() };
        let set = set(&settings, Profile::HotpotQa);
        let bridge = outcome_of(&q, None, &[0, 1, 2]);
        assert_eq!(value(&set, &bridge, "bridge_answer_recall@2"), Some(0.0));
        assert_eq!(value(&set, &bridge, "bridge_answer_recall@3"), Some(1.0));
        for (question_type, expected) in
            [(None, Some(1.0)), (Some("comparison"), None), (Some("bridge_comparison"), None)]
        {
            let outcome = OutcomeWithGold { question_type, ..bridge };
            assert_eq!(value(&set, &outcome, "bridge_answer_recall@3"), expected, "{question_type:?}");
            assert_eq!(value(&set, &outcome, "answer_recall@3"), Some(1.0));
        }
    }

    #[test]
    fn undefined_is_not_zero() {
        let mut q = question();
        q.answers = vec!["yes".to_owned()];
        q.gold = GoldGroups::default();
        let settings = Settings { answer_recall_at: vec![2], answer_hit_at: vec![2], ..Settings::default() };
        let set = set(&settings, Profile::HotpotQa);
        let silent = OutcomeWithGold { answers_expected: false, predicted_facts: None, ..outcome_of(&q, None, &[1]) };
        for name in ["em", "em_answered", "recall_frac@2", "mrr", "map", "answer_recall@2", "sp_em", "joint_f1"] {
            assert_eq!(value(&set, &silent, name), None, "{name}");
        }
        assert_eq!(value(&set, &silent, "answer_hit@2"), Some(0.0));
        let speechless = outcome_of(&q, None, &[1]);
        assert_eq!((value(&set, &speechless, "em"), value(&set, &speechless, "em_answered")), (Some(0.0), None));
    }
}
