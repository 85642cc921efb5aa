//! Scores a predicted answer against gold answers, in profiles that each follow one official script.
//!
//! | profile | script | what is its own |
//! | --- | --- | --- |
//! | `hotpotqa` | `hotpot_evaluate_v1.py` | yes/no/noanswer gate; nothing left after normalisation: EM 1, F1 0 |
//! | `2wikimultihopqa` | `2wikimultihop_evaluate_v1.1.py` | the same; precision and recall are maximised on their own |
//! | `musique`, `squad` | `evaluate_v1.0.py` (MuSiQue), SQuAD 2.0 | no gate; nothing left on both sides: F1 1 |
//! | `triviaqa` | `triviaqa_evaluation.py` | punctuation becomes space; no gate; nothing left: F1 0 |
//! | `dpr` | `qa_validation.py`, `has_answer` | the prediction contains a gold answer; one number |
//! | `drop` | `drop_eval.py` (DROP, IIRC, IRCoT) | numbers, several spans, F1 rounded to two digits |
//! | `strategyqa` | accuracy of yes/no | the normalised answer must be yes, no, true or false |
//! | `efficientrag` | EfficientRAG's `correctness.py` | EM: the normalised answer stands in the gold answer; one gold |
//!
//! EM may exceed F1 (HotpotQA with the gold `The The`): both are reported as in the scripts. With several golds EM and
//! F1 are maximised independently. Precision and recall are those of the gold with the highest F1 (the first of
//! equals), unless the script maximises them, too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::drop::DropScorer;
use crate::has_answer::AnswerMatcher;
use crate::normalize::{NormalizationRules, NormalizedText, common_tokens};

/// The official script with the scoring rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Profile {
    /// HotpotQA.
    HotpotQa,
    /// 2WikiMultihopQA, script v1.1.
    TwoWiki,
    /// MuSiQue.
    Musique,
    /// SQuAD 2.0.
    Squad,
    /// DPR's answer containment.
    Dpr,
    /// TriviaQA.
    TriviaQa,
    /// DROP, also IIRC's and IRCoT's.
    Drop,
    /// StrategyQA.
    StrategyQa,
    /// EfficientRAG's evaluation: HotpotQA's F1 and an EM that is containment, of the first gold answer alone.
    EfficientRag,
}

/// A name of no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown measure profile \"{name}\"; allowed: {}", Profile::ALL.map(Profile::name).join(", "))]
pub struct UnknownProfile {
    /// The given name.
    pub name: String,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 9] = [
        Self::HotpotQa,
        Self::TwoWiki,
        Self::Musique,
        Self::Squad,
        Self::Dpr,
        Self::TriviaQa,
        Self::Drop,
        Self::StrategyQa,
        Self::EfficientRag,
    ];

    /// The name in jobs and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HotpotQa => "hotpotqa",
            Self::TwoWiki => "2wikimultihopqa",
            Self::Musique => "musique",
            Self::Squad => "squad",
            Self::Dpr => "dpr",
            Self::TriviaQa => "triviaqa",
            Self::Drop => "drop",
            Self::StrategyQa => "strategyqa",
            Self::EfficientRag => "efficientrag",
        }
    }

    /// The version of the rules. It grows with every change that can change a figure.
    pub const fn version(self) -> &'static str {
        "1"
    }

    /// The version of the rule by which a text has an answer (`answer_hit@k`, `answer_recall@k`). DROP's answers of
    /// several spans were one text in version 1.
    pub(crate) const fn finding_version(self) -> &'static str {
        match self {
            Self::Drop => "2",
            _ => "1",
        }
    }

    /// The names of the measures of [`AnswerScorer::score`] under this profile: `em` and `f1` first, or the single
    /// number of a containment or accuracy profile.
    pub const fn measures(self) -> &'static [&'static str] {
        match self {
            Self::Dpr => &["has_answer"],
            Self::StrategyQa => &["accuracy"],
            _ => &["em", "f1", "precision", "recall"],
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| UnknownProfile { name: name.to_owned() })
    }
}

impl TryFrom<String> for Profile {
    type Error = UnknownProfile;

    fn try_from(name: String) -> Result<Self, UnknownProfile> {
        name.parse()
    }
}

impl From<Profile> for &'static str {
    fn from(profile: Profile) -> Self {
        profile.name()
    }
}

/// The scores of one answer, each a fraction in 0..=1.
///
/// Profiles of one number (`dpr`, `strategyqa`) give it in all four fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AnswerScore {
    /// Exact match: 0 or 1.
    pub em: f64,
    /// Token F1.
    pub f1: f64,
    /// Token precision.
    pub precision: f64,
    /// Token recall.
    pub recall: f64,
}

impl AnswerScore {
    /// The same number in every field.
    const fn uniform(value: f64) -> Self {
        Self { em: value, f1: value, precision: value, recall: value }
    }
}

/// Scores answers. It holds the buffers, so keep one per thread.
#[derive(Clone, Debug, Default)]
pub struct AnswerScorer {
    prediction: NormalizedText,
    gold: NormalizedText,
    tokens: Vec<(u32, u32)>,
    matcher: AnswerMatcher,
    drop: DropScorer,
}

impl AnswerScorer {
    /// A scorer with empty buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The score of `prediction` against the best of `golds`. All 0 if `golds` is empty (a table treats that as
    /// undefined, and some scripts fail).
    pub fn score<S: AsRef<str>>(&mut self, profile: Profile, prediction: &str, golds: &[S]) -> AnswerScore {
        match profile {
            Profile::Dpr => {
                self.matcher.set_answers(golds);
                AnswerScore::uniform(f64::from(u8::from(self.matcher.is_in(prediction))))
            }
            Profile::Drop => self.drop.score_best(prediction, golds),
            Profile::StrategyQa => self.score_accuracy(prediction, golds),
            Profile::HotpotQa | Profile::TwoWiki | Profile::Musique | Profile::Squad | Profile::TriviaQa => {
                self.score_tokens(profile, prediction, golds)
            }
            // The script knows one answer, which may be no alias.
            Profile::EfficientRag => self.score_tokens(profile, prediction, &golds[..golds.len().min(1)]),
        }
    }

    /// [`NormalizationRules::Squad`] of `text`, in this scorer's buffer.
    pub fn normalize(&mut self, text: &str) -> &str {
        self.prediction.set_text(NormalizationRules::Squad, text);
        self.prediction.text()
    }

    fn score_tokens<S: AsRef<str>>(&mut self, profile: Profile, prediction: &str, golds: &[S]) -> AnswerScore {
        let rules = if profile == Profile::TriviaQa { NormalizationRules::TriviaQa } else { NormalizationRules::Squad };
        self.prediction.set_text(rules, prediction);
        let mut best = AnswerScore::default();
        for gold in golds {
            self.gold.set_text(rules, gold.as_ref());
            let score = self.score_normalized(profile);
            best.em = best.em.max(score.em);
            if profile == Profile::TwoWiki {
                best.f1 = best.f1.max(score.f1);
                best.precision = best.precision.max(score.precision);
                best.recall = best.recall.max(score.recall);
            } else if score.f1 > best.f1 {
                best = AnswerScore { em: best.em, ..score };
            }
        }
        best
    }

    /// The normalised prediction against the normalised gold.
    fn score_normalized(&mut self, profile: Profile) -> AnswerScore {
        let (prediction, gold) = (&self.prediction, &self.gold);
        let equal = prediction.text() == gold.text();
        // `prediction in gold` of two strings: an empty prediction stands in every answer.
        let matches = if profile == Profile::EfficientRag { gold.text().contains(prediction.text()) } else { equal };
        let em = f64::from(u8::from(matches));
        let zero = AnswerScore { em, ..AnswerScore::default() };
        match profile {
            Profile::HotpotQa | Profile::TwoWiki | Profile::EfficientRag
                if !equal && (is_gate(prediction.text()) || is_gate(gold.text())) =>
            {
                return zero;
            }
            Profile::Musique | Profile::Squad if prediction.is_empty() || gold.is_empty() => {
                return AnswerScore::uniform(em);
            }
            _ => {}
        }
        let common = if equal { gold.len() } else { common_tokens(prediction, gold, &mut self.tokens) };
        if common == 0 {
            return zero;
        }
        // The scripts' order of operations, to the last bit.
        let precision = common as f64 / prediction.len() as f64;
        let recall = common as f64 / gold.len() as f64;
        AnswerScore { em, f1: (2.0 * precision * recall) / (precision + recall), precision, recall }
    }

    /// StrategyQA: whether both are yes, or both no. An answer that is neither is wrong.
    fn score_accuracy<S: AsRef<str>>(&mut self, prediction: &str, golds: &[S]) -> AnswerScore {
        self.prediction.set_text(NormalizationRules::Squad, prediction);
        let Some(said) = yes_or_no(self.prediction.text()) else { return AnswerScore::default() };
        let right = golds.iter().any(|gold| {
            self.gold.set_text(NormalizationRules::Squad, gold.as_ref());
            yes_or_no(self.gold.text()) == Some(said)
        });
        AnswerScore::uniform(f64::from(u8::from(right)))
    }
}

/// Scores one answer. [`AnswerScorer`] is faster for many.
///
/// ```
/// use hopeval_measures::{Profile, score_answer};
/// let score = score_answer(Profile::HotpotQa, "Paris", &["Paris, France".to_owned()]);
/// assert_eq!((score.em, score.precision, score.recall), (0.0, 1.0, 0.5));
/// ```
pub fn score_answer(profile: Profile, prediction: &str, golds: &[String]) -> AnswerScore {
    AnswerScorer::new().score(profile, prediction, golds)
}

fn is_gate(normalized: &str) -> bool {
    matches!(normalized, "yes" | "no" | "noanswer")
}

fn yes_or_no(normalized: &str) -> Option<bool> {
    match normalized {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Prediction, gold, HotpotQA's EM and F1, MuSiQue's EM and F1 (to two digits): figures of the official scripts.
    const TABLE: [(&str, &str, [f64; 4]); 27] = [
        ("yes, they are", "yes", [0.0, 0.0, 0.0, 0.5]),
        ("yes", "yes, both are American", [0.0, 0.0, 0.0, 0.4]),
        ("no", "no one", [0.0, 0.0, 0.0, 0.67]),
        ("", "Paris", [0.0, 0.0, 0.0, 0.0]),
        ("Paris", "Paris, France", [0.0, 0.67, 0.0, 0.67]),
        ("", "The The", [1.0, 0.0, 1.0, 1.0]),
        ("A", "The", [1.0, 0.0, 1.0, 1.0]),
        ("!!!", "!!!", [1.0, 0.0, 1.0, 1.0]),
        ("U.S.", "US", [1.0, 1.0, 1.0, 1.0]),
        ("U.S.", "United States", [0.0, 0.0, 0.0, 0.0]),
        ("Jean-Luc", "Jean Luc", [0.0, 0.0, 0.0, 0.0]),
        ("state-of-the-art", "state of the art", [0.0, 0.0, 0.0, 0.0]),
        ("New York New York", "New York", [0.0, 0.67, 0.0, 0.67]),
        ("1,000", "1000", [1.0, 1.0, 1.0, 1.0]),
        ("5", "5.0", [0.0, 0.0, 0.0, 0.0]),
        ("Beyoncé", "Beyonce", [0.0, 0.0, 0.0, 0.0]),
        ("Beyoncé", "Beyoncé", [1.0, 1.0, 1.0, 1.0]),
        ("Beyonce\u{301}", "Beyoncé", [0.0, 0.0, 0.0, 0.0]),
        ("France Paris", "Paris France", [0.0, 1.0, 0.0, 1.0]),
        ("True", "yes", [0.0, 0.0, 0.0, 0.0]),
        ("Rock ’n’ Roll", "Rock 'n' Roll", [0.0, 0.67, 0.0, 0.67]),
        ("George W. Bush", "George W Bush", [1.0, 1.0, 1.0, 1.0]),
        ("3rd century", "3rd Century AD", [0.0, 0.8, 0.0, 0.8]),
        ("Vitamin A", "Vitamin", [1.0, 1.0, 1.0, 1.0]),
        ("Tom_Hanks", "Tom Hanks", [0.0, 0.0, 0.0, 0.0]),
        ("noanswer", "the", [0.0, 0.0, 0.0, 0.0]),
        ("No.", "no", [1.0, 1.0, 1.0, 1.0]),
    ];

    fn score(profile: Profile, prediction: &str, golds: &[&str]) -> AnswerScore {
        AnswerScorer::new().score(profile, prediction, golds)
    }

    #[test]
    fn the_scripts_on_strings_where_implementations_differ() {
        for (prediction, gold, figures) in TABLE {
            let hotpot = score(Profile::HotpotQa, prediction, &[gold]);
            let squad = score(Profile::Musique, prediction, &[gold]);
            let got = [hotpot.em, hotpot.f1, squad.em, squad.f1];
            assert_eq!(got.map(|v| (v * 100.0).round() / 100.0), figures, "{prediction:?} {gold:?}");
        }
    }

    #[test]
    fn two_wiki_maximises_each_figure_on_its_own() {
        let golds = ["alpha beta gamma delta", "alpha zeta"];
        let score = score(Profile::TwoWiki, "alpha beta", &golds);
        assert_eq!((score.em, score.precision, score.recall), (0.0, 1.0, 0.5));
        let best = AnswerScorer::new().score(Profile::HotpotQa, "alpha", &golds);
        assert_eq!((best.precision, best.recall), (1.0, 0.5));
    }

    #[test]
    fn trivia_qa_strategy_qa_and_dpr() {
        assert_eq!(score(Profile::TriviaQa, "Jean-Luc", &["Jean Luc"]).em, 1.0);
        assert_eq!(score(Profile::TriviaQa, "The", &["A"]), AnswerScore { em: 1.0, ..AnswerScore::default() });
        assert_eq!(score(Profile::TriviaQa, "yes, they are", &["yes"]).f1, 0.5);
        assert_eq!(score(Profile::StrategyQa, "Yes.", &["True"]).em, 1.0);
        assert_eq!(score(Profile::StrategyQa, "perhaps", &["no"]).em, 0.0);
        assert_eq!(score(Profile::Dpr, "born in Québec City, 1931", &["Quebec", "QUE\u{301}BEC CITY"]).em, 1.0);
    }

    /// Values of `exact_match` and `f1_score` in EfficientRAG's `correctness.py`.
    #[test]
    fn efficientrag_matches_what_stands_in_the_first_answer() {
        let of = |prediction, golds: &[&str]| {
            let score = score(Profile::EfficientRag, prediction, golds);
            (score.em, (score.f1 * 100.0).round() / 100.0)
        };
        assert_eq!(of("Paris", &["Paris, France"]), (1.0, 0.67));
        assert_eq!(of("Paris, France", &["Paris"]), (0.0, 0.67));
        assert_eq!(of("ran", &["Paris, France"]), (1.0, 0.0));
        assert_eq!(of("the", &["Paris, France"]), (1.0, 0.0));
        assert_eq!(of("no", &["no one"]), (1.0, 0.0));
        assert_eq!(of("yes", &["yes"]), (1.0, 1.0));
        assert_eq!(of("City of Light", &["Paris", "City of Light"]), (0.0, 0.0));
        assert_eq!(of("Paris", &[]), (0.0, 0.0));
    }

    #[test]
    fn names_round_trip_and_unknown_names_list_the_allowed() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            let json = serde_json::to_string(&profile).unwrap();
            assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
        }
        let error = "hotpot".parse::<Profile>().unwrap_err().to_string();
        assert!(error.contains("\"hotpot\"") && error.contains("2wikimultihopqa"), "{error}");
    }

    proptest! {
        #[test]
        fn scores_are_fractions_and_an_answer_matches_itself(p in any::<String>(), g in any::<String>()) {
            for profile in Profile::ALL {
                let s = score(profile, &p, &[&g, &p]);
                for value in [s.em, s.f1, s.precision, s.recall] {
                    prop_assert!((0.0..=1.0).contains(&value), "{profile} {s:?}");
                }
                if !matches!(profile, Profile::Dpr | Profile::StrategyQa | Profile::EfficientRag) {
                    prop_assert_eq!(s.em, 1.0);
                }
            }
        }

        #[test]
        fn f1_is_symmetric(p in "[a-d ]{0,12}", g in "[a-d ]{0,12}") {
            let (a, b) = (score(Profile::Squad, &p, &[&g]), score(Profile::Squad, &g, &[&p]));
            prop_assert_eq!(a.f1, b.f1);
            prop_assert_eq!((a.precision, a.recall), (b.recall, b.precision));
        }
    }
}
