//! Evaluation measures: pure functions that reproduce official scripts to the last digit.
//!
//! Nothing here reads a file, starts a thread or knows a table format. A measure takes strings, ids and numbers and
//! returns numbers. Surprising rules of a script are kept and documented beside the function. Python's rules for words,
//! whitespace and case come from `hopeval-pytext`. Summation is plain `f64` addition in the given order, as in the
//! scripts, so unrounded figures agree too.
//!
//! | content | module | source |
//! | --- | --- | --- |
//! | normalisation, EM, F1, precision, recall | [`answer`], [`normalize`] | SQuAD, HotpotQA, 2Wiki, MuSiQue, TriviaQA |
//! | answer containment | [`has_answer`] | DPR, `qa_validation.py` |
//! | numbers and several spans | [`mod@drop`] | DROP's evaluator, as in AllenNLP and IRCoT |
//! | supporting facts, evidences, joint | [`facts`] | HotpotQA, 2Wiki v1.1 and MuSiQue scripts |
//! | whole prediction files | [`official`] | the same, under their own names and units |
//! | rankings | [`ranked`], [`measures`] | trec_eval; PromptRank, IRCoT, EfficientRAG |
//! | means, errors, intervals | [`aggregate`], [`live`] | |
//! | answers right by MIGRES's rules and by judges | [`migres_rules`], [`judging`] | MIGRES, EfficientRAG |
//! | agreement of two raters | [`agreement`] | Cohen 1960 |
//! | differences paired by question | [`paired`] | Koehn 2004; Noreen 1989; Holm 1979 |
//! | a job's measures by name | [`registry`] | |

pub mod aggregate;
pub mod agreement;
pub mod answer;
mod beta;
pub mod drop;
pub mod facts;
pub mod has_answer;
pub mod judging;
pub mod live;
pub mod measures;
pub mod migres_rules;
pub mod normalize;
pub mod official;
pub mod paired;
pub mod ranked;
pub mod registry;

pub use answer::{AnswerScore, AnswerScorer, Profile, score_answer};
pub use judging::{AccuracyRule, JudgedAnswer};
pub use live::{FixedPoint, LiveSummary};
pub use official::MeasureError;
pub use ranked::GoldGroups;
pub use registry::{MeasureBuffers, MeasureSet, OutcomeWithGold, PassageText, Settings};
