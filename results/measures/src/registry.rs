//! The measures of a job: from its `[measures]` table to named, versioned values for each outcome.
//!
//! A [`MeasureSet`] fixes names and order once; [`MeasureSet::score`] then gives a value, or none where the measure is
//! undefined, for every outcome in that order. What is undefined depends on the question and the configuration, never
//! on whether the outcome succeeded: a failed outcome scores 0 wherever a good one would have had a value. The
//! exceptions say so in their names: `em_answered` and `f1_answered` are means over answered questions, and `chunks`
//! counts what was retrieved.
//!
//! | names | defined when |
//! | --- | --- |
//! | `em`, `f1`, `precision`, `recall` (or `has_answer`, `accuracy`) | gold answers, and the configuration answers |
//! | `em_answered`, `f1_answered` | as above, and this outcome is ok and has an answer |
//! | `recall_frac@k` … `map`, `budget_recall@k`, `chunk_recall` | gold passages, and the configuration ranks |
//! | `answer_recall@k` | the first gold answer is not yes or no; texts at hand; the configuration ranks |
//! | `answer_hit@k` | gold answers; texts at hand; the configuration ranks |
//! | `sp_*`, `evidence_*` | gold facts (evidences), and the configuration predicts such |
//! | `joint_*` | all of the parts that the profile's script multiplies |

use serde::{Deserialize, Serialize};

use crate::answer::{Profile, Scorer};
use crate::facts::{Evidence, Fact, SetScore, evidences, joint, supporting_facts, supporting_facts_lowered};
use crate::has_answer::AnswerMatcher;
use crate::normalize::normalize;
use crate::ranked::{Found, Gold, RankedMeasure, budget_recall, chunk_recall};

/// The `[measures]` table of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whose rules answers are scored by; by default those of the dataset ([`Profile::for_dataset`]).
    pub profile: Option<Profile>,
    /// The k of `recall_frac@k`, `recall_all@k` and `hit@k`.
    pub recall_at: Vec<u32>,
    /// The k of `precision@k`.
    pub precision_at: Vec<u32>,
    /// The k of `ndcg@k`.
    pub ndcg_at: Vec<u32>,
    /// Whether to give `mrr`.
    pub mrr: bool,
    /// The k of `mrr@k`.
    pub mrr_at: Vec<u32>,
    /// Whether to give `map`.
    pub map: bool,
    /// The k of `answer_recall@k`: the first gold answer in a text of the top k, yes/no questions left out (PromptRank).
    pub answer_recall_at: Vec<u32>,
    /// The k of `answer_hit@k`: any gold answer in a text of the top k (DPR's top-k accuracy).
    pub answer_hit_at: Vec<u32>,
    /// The budgets of `budget_recall@k`: fractional recall in the first k distinct passages (IRCoT; 15 there).
    pub budget_recall_at: Vec<u32>,
    /// Whether to give `chunk_recall` and `chunks` (EfficientRAG).
    pub chunk_recall: bool,
    /// Whether to give supporting-fact, evidence and joint measures.
    pub facts: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: None,
            recall_at: vec![2, 5, 10, 20],
            precision_at: Vec::new(),
            ndcg_at: vec![10],
            mrr: true,
            mrr_at: Vec::new(),
            map: true,
            answer_recall_at: Vec::new(),
            answer_hit_at: Vec::new(),
            budget_recall_at: Vec::new(),
            chunk_recall: false,
            facts: true,
        }
    }
}

/// A setting that no measure can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("measures.{field}: {value} is not allowed; every k must be at least 1 and occur once")]
pub struct BadSetting {
    /// The setting.
    pub field: &'static str,
    /// Its offending entry.
    pub value: u32,
}

/// One outcome with the gold of its question: what measures look at.
#[derive(Clone, Copy)]
pub struct Judged<'a> {
    /// Whether the outcome's status is ok.
    pub ok: bool,
    /// What the method answered.
    pub answer: Option<&'a str>,
    /// Whether the configuration is one that answers.
    pub answers_expected: bool,
    /// The question's gold answers, aliases included, the canonical one first.
    pub answers: &'a [String],
    /// The passages that the method ranked, best first.
    pub ranked: &'a [u32],
    /// Whether the configuration is one that ranks passages.
    pub ranking_expected: bool,
    /// The question's gold passages.
    pub gold: &'a Gold,
    /// Predicted supporting facts; none where the configuration does not predict any (a failed outcome of one that does
    /// has an empty list).
    pub predicted_facts: Option<&'a [Fact]>,
    /// Gold supporting facts.
    pub gold_facts: &'a [Fact],
    /// Predicted evidences; none where the configuration does not predict any, as for facts.
    pub predicted_evidences: Option<&'a [Evidence]>,
    /// Gold evidences.
    pub gold_evidences: &'a [Evidence],
    /// The texts of passages, for answer recall.
    pub text: Option<&'a dyn PassageText>,
}

/// Gives passages' texts to answer recall.
pub trait PassageText {
    /// The text of passage `id`; empty if there is none.
    fn text(&self, id: u32) -> &str;
}

impl<S: AsRef<str>> PassageText for Vec<S> {
    fn text(&self, id: u32) -> &str {
        self.get(id as usize).map_or("", AsRef::as_ref)
    }
}

/// Buffers of [`MeasureSet::score`]; one per thread.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    scorer: Scorer,
    matcher: AnswerMatcher,
    found: Found,
}

/// One measure of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Index into the answer score's fields.
    Answer(usize),
    Answered(usize),
    Ranked(RankedMeasure),
    AnswerRecall(u32),
    AnswerHit(u32),
    BudgetRecall(u32),
    ChunkRecall,
    Chunks,
    /// Which set, which of its fields.
    Facts(FactSet, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FactSet {
    Sentences,
    Evidences,
    Joint,
}

/// A job's measures in their order.
#[derive(Clone, Debug)]
pub struct MeasureSet {
    profile: Profile,
    kinds: Vec<Kind>,
    names: Vec<String>,
}

const SET_FIELDS: [&str; 4] = ["em", "f1", "precision", "recall"];

impl MeasureSet {
    /// The measures that `settings` ask for; `default_profile` holds if they name none.
    ///
    /// # Errors
    /// A k of 0, or one that occurs twice.
    pub fn new(settings: &Settings, default_profile: Profile) -> Result<Self, BadSetting> {
        let profile = settings.profile.unwrap_or(default_profile);
        let mut set = Self { profile, kinds: Vec::new(), names: Vec::new() };
        for (field, name) in profile.measures().iter().enumerate() {
            set.add(Kind::Answer(field), (*name).to_owned());
        }
        for (field, name) in profile.measures().iter().enumerate().take(2) {
            set.add(Kind::Answered(field), format!("{name}_answered"));
        }
        set.add_at("recall_at", &settings.recall_at, |k| Kind::Ranked(RankedMeasure::RecallFrac(k)))?;
        set.add_at("recall_at", &settings.recall_at, |k| Kind::Ranked(RankedMeasure::RecallAll(k)))?;
        set.add_at("recall_at", &settings.recall_at, |k| Kind::Ranked(RankedMeasure::Hit(k)))?;
        set.add_at("precision_at", &settings.precision_at, |k| Kind::Ranked(RankedMeasure::Precision(k)))?;
        set.add_at("ndcg_at", &settings.ndcg_at, |k| Kind::Ranked(RankedMeasure::Ndcg(k)))?;
        if settings.mrr {
            set.add(Kind::Ranked(RankedMeasure::Mrr(None)), RankedMeasure::Mrr(None).to_string());
        }
        set.add_at("mrr_at", &settings.mrr_at, |k| Kind::Ranked(RankedMeasure::Mrr(Some(k))))?;
        if settings.map {
            set.add(Kind::Ranked(RankedMeasure::Map), RankedMeasure::Map.to_string());
        }
        set.add_at("answer_recall_at", &settings.answer_recall_at, Kind::AnswerRecall)?;
        set.add_at("answer_hit_at", &settings.answer_hit_at, Kind::AnswerHit)?;
        set.add_at("budget_recall_at", &settings.budget_recall_at, Kind::BudgetRecall)?;
        if settings.chunk_recall {
            set.add(Kind::ChunkRecall, "chunk_recall".to_owned());
            set.add(Kind::Chunks, "chunks".to_owned());
        }
        if settings.facts {
            set.add_facts();
        }
        Ok(set)
    }

    fn add(&mut self, kind: Kind, name: String) {
        self.kinds.push(kind);
        self.names.push(name);
    }

    fn add_at(&mut self, field: &'static str, ks: &[u32], kind: impl Fn(u32) -> Kind) -> Result<(), BadSetting> {
        for (i, &k) in ks.iter().enumerate() {
            if k == 0 || ks[..i].contains(&k) {
                return Err(BadSetting { field, value: k });
            }
            let kind = kind(k);
            let name = match kind {
                Kind::Ranked(measure) => measure.to_string(),
                Kind::AnswerRecall(k) => format!("answer_recall@{k}"),
                Kind::AnswerHit(k) => format!("answer_hit@{k}"),
                _ => format!("budget_recall@{k}"),
            };
            self.add(kind, name);
        }
        Ok(())
    }

    fn add_facts(&mut self) {
        let sets: &[(FactSet, &str)] = match self.profile {
            Profile::HotpotQa => &[(FactSet::Sentences, "sp"), (FactSet::Joint, "joint")],
            Profile::TwoWiki => {
                &[(FactSet::Sentences, "sp"), (FactSet::Evidences, "evidence"), (FactSet::Joint, "joint")]
            }
            _ => &[],
        };
        for &(set, prefix) in sets {
            for (field, name) in SET_FIELDS.iter().enumerate() {
                self.add(Kind::Facts(set, field), format!("{prefix}_{name}"));
            }
        }
    }

    /// Whose rules hold.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The names, in the order of [`Self::score`].
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The version of each measure's definition, in the order of [`Self::names`].
    pub fn versions(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().map(|kind| match kind {
            Kind::Ranked(measure) => measure.version(),
            _ => self.profile.version(),
        })
    }

    /// Whether any measure needs [`Judged::text`].
    pub fn needs_text(&self) -> bool {
        self.kinds.iter().any(|kind| matches!(kind, Kind::AnswerRecall(_) | Kind::AnswerHit(_)))
    }

    /// Writes the values of one outcome into `out`, in the order of [`Self::names`].
    pub fn score(&self, judged: &Judged<'_>, scratch: &mut Scratch, out: &mut Vec<Option<f64>>) {
        out.clear();
        let answer = self.answer(judged, &mut scratch.scorer);
        let facts = self.facts(judged, answer);
        let ranks = judged.ranking_expected && !judged.gold.is_empty();
        if ranks {
            scratch.found.set(judged.ranked, judged.gold.groups.iter().map(Vec::as_slice));
        }
        let (first, any) = self.answer_ranks(judged, &mut scratch.matcher);
        let failed = |value: Option<f64>| if judged.ok { value } else { value.map(|_| 0.0) };
        for &kind in &self.kinds {
            out.push(match kind {
                Kind::Answer(field) => failed(answer.map(|s| fields(s)[field])),
                Kind::Answered(field) => {
                    answer.filter(|_| judged.ok && judged.answer.is_some()).map(|s| fields(s)[field])
                }
                Kind::Ranked(measure) if ranks => failed(measure.value(&scratch.found)),
                Kind::BudgetRecall(k) if ranks => failed(budget_recall(judged.ranked, judged.gold, k as usize)),
                Kind::ChunkRecall if ranks => failed(chunk_recall(judged.ranked, judged.gold)),
                Kind::Chunks if judged.ranking_expected && judged.ok => Some(judged.ranked.len() as f64),
                Kind::Ranked(_) | Kind::BudgetRecall(_) | Kind::ChunkRecall | Kind::Chunks => None,
                Kind::AnswerRecall(k) => failed(first.map(|rank| f64::from(u8::from(rank <= k)))),
                Kind::AnswerHit(k) => failed(any.map(|rank| f64::from(u8::from(rank <= k)))),
                Kind::Facts(set, field) => failed(facts[set as usize].map(|s| fields(s)[field])),
            });
        }
    }

    fn answer(&self, judged: &Judged<'_>, scorer: &mut Scorer) -> Option<SetScore> {
        if !judged.answers_expected || judged.answers.is_empty() {
            return None;
        }
        // An outcome without an answer is a missing prediction: 0 in every script, also where "" would score.
        let Some(answer) = judged.answer.filter(|_| judged.ok) else { return Some(SetScore::default()) };
        Some(scorer.score(self.profile, answer, judged.answers).into())
    }

    /// Sentences, evidences and joint, by [`FactSet`].
    fn facts(&self, judged: &Judged<'_>, answer: Option<SetScore>) -> [Option<SetScore>; 3] {
        let two_wiki = self.profile == Profile::TwoWiki;
        let sentences = judged.predicted_facts.filter(|_| !judged.gold_facts.is_empty()).map(|predicted| {
            if two_wiki {
                supporting_facts_lowered(predicted, judged.gold_facts)
            } else {
                supporting_facts(predicted, judged.gold_facts)
            }
        });
        let triples = judged.predicted_evidences.filter(|_| !judged.gold_evidences.is_empty()).map(|predicted| {
            let gold: Vec<Vec<Evidence>> = judged.gold_evidences.iter().map(|e| vec![e.clone()]).collect();
            evidences(predicted, &gold)
        });
        let parts = match (answer, sentences, triples) {
            (Some(answer), Some(sentences), Some(triples)) if two_wiki => Some(joint(&[answer, sentences, triples])),
            (Some(answer), Some(sentences), _) if !two_wiki => Some(joint(&[answer, sentences])),
            _ => None,
        };
        [sentences, triples, parts]
    }

    /// The ranks (from 1) of the first text with the first answer, and with any; `u32::MAX` if there is none.
    fn answer_ranks(&self, judged: &Judged<'_>, matcher: &mut AnswerMatcher) -> (Option<u32>, Option<u32>) {
        let Some(text) = judged.text.filter(|_| judged.ranking_expected && self.needs_text()) else {
            return (None, None);
        };
        let Some(first_answer) = judged.answers.first() else { return (None, None) };
        let deepest = self.kinds.iter().map(|kind| match kind {
            Kind::AnswerRecall(k) | Kind::AnswerHit(k) => *k,
            _ => 0,
        });
        let top = &judged.ranked[..judged.ranked.len().min(deepest.max().unwrap_or(0) as usize)];
        let mut rank = |answers: &[String]| {
            matcher.set_answers(answers);
            top.iter().position(|&id| matcher.is_in(text.text(id))).map_or(u32::MAX, |at| at as u32 + 1)
        };
        let any = rank(judged.answers);
        let first = if judged.answers.len() == 1 || any == u32::MAX { any } else { rank(&judged.answers[..1]) };
        let gate = normalize(first_answer);
        ((gate != "yes" && gate != "no").then_some(first), Some(any))
    }
}

fn fields(score: SetScore) -> [f64; 4] {
    [score.em, score.f1, score.precision, score.recall]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &Settings, profile: Profile) -> MeasureSet {
        MeasureSet::new(settings, profile).unwrap()
    }

    fn value(set: &MeasureSet, judged: &Judged<'_>, name: &str) -> Option<f64> {
        let mut out = Vec::new();
        set.score(judged, &mut Scratch::default(), &mut out);
        assert_eq!(out.len(), set.names().len());
        out[set.names().iter().position(|n| n == name).unwrap_or_else(|| panic!("no {name} in {:?}", set.names()))]
    }

    struct Question {
        answers: Vec<String>,
        gold: Gold,
        facts: Vec<Fact>,
        evidences: Vec<Evidence>,
        texts: Vec<&'static str>,
    }

    fn question() -> Question {
        Question {
            answers: vec!["Paris".to_owned(), "City of Light".to_owned()],
            gold: Gold::of_ids(&[1, 2]),
            facts: vec![("Paris".to_owned(), 0)],
            evidences: vec![["a".to_owned(), "b".to_owned(), "c".to_owned()]],
            texts: vec!["nothing", "It is the city of light.", "Paris!"],
        }
    }

    fn judged<'a>(q: &'a Question, answer: Option<&'a str>, ranked: &'a [u32]) -> Judged<'a> {
        Judged {
            ok: true,
            answer,
            answers_expected: true,
            answers: &q.answers,
            ranked,
            ranking_expected: true,
            gold: &q.gold,
            predicted_facts: Some(&q.facts),
            gold_facts: &q.facts,
            predicted_evidences: Some(&[]),
            gold_evidences: &q.evidences,
            text: Some(&q.texts),
        }
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
        let judged = judged(&q, Some("paris."), &[0, 1, 2]);
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
            assert_eq!(value(&set, &judged, name), Some(expected), "{name}");
        }
    }

    #[test]
    fn a_failed_outcome_scores_zero_where_a_good_one_would_have_a_value() {
        let q = question();
        let set = set(&Settings { chunk_recall: true, ..Settings::default() }, Profile::HotpotQa);
        let good = judged(&q, Some("Paris"), &[1, 2]);
        let failed = Judged { ok: false, ..good };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        set.score(&good, &mut Scratch::default(), &mut a);
        set.score(&failed, &mut Scratch::default(), &mut b);
        for ((name, good), failed) in set.names().iter().zip(a).zip(b) {
            let expected = if name.ends_with("_answered") || name == "chunks" { None } else { good.map(|_| 0.0) };
            assert_eq!(failed, expected, "{name}");
        }
    }

    #[test]
    fn undefined_is_not_zero() {
        let mut q = question();
        q.answers = vec!["yes".to_owned()];
        q.gold = Gold::default();
        let settings = Settings { answer_recall_at: vec![2], answer_hit_at: vec![2], ..Settings::default() };
        let set = set(&settings, Profile::HotpotQa);
        let silent = Judged { answers_expected: false, predicted_facts: None, ..judged(&q, None, &[1]) };
        for name in ["em", "em_answered", "recall_frac@2", "mrr", "map", "answer_recall@2", "sp_em", "joint_f1"] {
            assert_eq!(value(&set, &silent, name), None, "{name}");
        }
        assert_eq!(value(&set, &silent, "answer_hit@2"), Some(0.0));
        let speechless = judged(&q, None, &[1]);
        assert_eq!((value(&set, &speechless, "em"), value(&set, &speechless, "em_answered")), (Some(0.0), None));
    }
}
