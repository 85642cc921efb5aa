//! The official scripts over whole files: the same figures, under the same names, unrounded and in their unit.
//!
//! | profile | script | files | unit |
//! | --- | --- | --- | --- |
//! | `hotpotqa` | `hotpot_evaluate_v1.py` | `{"answer": {id: text}, "sp": {id: [[title, sentence]]}}` | fraction |
//! | `2wikimultihopqa` | `2wikimultihop_evaluate_v1.1.py` | the same with `evidence`; `id_aliases.json` | percent |
//! | `musique` | `evaluate_v1.0.py` | JSON Lines, as many and in the order of the gold's | fraction |
//!
//! Sums run in the gold's order, so even the last bit agrees. The scripts round 2Wiki's figures to two digits and
//! MuSiQue's to three; here the reader rounds. Without an alias file 2Wiki's answers are only those of the question. A
//! gold file may be a JSON array or JSON Lines, with any name.

mod form;
mod hotpotqa;
mod input;
mod musique;
mod pairs;
mod two_wiki;

use std::fmt;
use std::io::Read;

pub use form::has_official_form;
pub use pairs::{EmF1, PairScore, PairScorer};

use crate::answer::Profile;

/// The file of a problem, among the given files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// The predictions.
    Predictions,
    /// The gold questions.
    Gold,
    /// 2WikiMultihopQA's aliases.
    Aliases,
    /// Prediction and gold pairs.
    Pairs,
}

impl fmt::Display for FileRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Predictions => "predictions",
            Self::Gold => "gold",
            Self::Aliases => "aliases",
            Self::Pairs => "pairs",
        })
    }
}

/// Why a file cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The file cannot be read.
    #[error("{role}: cannot be read")]
    Read {
        /// The file.
        role: FileRole,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The file is not JSON, or ends too early.
    #[error("{role}, line {line}: not valid JSON")]
    Json {
        /// The file.
        role: FileRole,
        /// The line, from 1.
        line: u64,
        /// The parser's reason.
        #[source]
        source: serde_json::Error,
    },
    /// A field is missing or of the wrong type.
    #[error("{role}, {at}: field \"{field}\" {problem}")]
    Field {
        /// The file.
        role: FileRole,
        /// The row: its line or number, and its id where known.
        at: String,
        /// The field.
        field: String,
        /// The problem and the allowed values.
        problem: String,
    },
    /// Predictions and gold do not belong together.
    #[error("predictions do not fit the gold: {problem}")]
    Mismatch {
        /// How they differ.
        problem: String,
    },
    /// There is nothing to score.
    #[error("{role}: has no rows")]
    Empty {
        /// The file.
        role: FileRole,
    },
    /// The profile has no official script for whole files.
    #[error(
        "profile \"{profile}\" has no official script for whole files; allowed: hotpotqa, 2wikimultihopqa, musique"
    )]
    NoScript {
        /// The profile.
        profile: Profile,
    },
    /// The profile's script takes no aliases.
    #[error("profile \"{profile}\" takes no alias file; only 2wikimultihopqa does")]
    NoAliases {
        /// The profile.
        profile: Profile,
    },
}

/// The figures of an official script for a prediction file, and the predictions' coverage of the gold file.
#[derive(Clone, Debug, PartialEq)]
pub struct OfficialFigures {
    /// The figures by name, in the script's order. Missing predictions count in their denominators, as in the script.
    pub figures: Vec<(&'static str, f64)>,
    /// Rows of the gold file.
    pub questions: u64,
    /// Number of them with a prediction, by the part of the prediction file.
    pub predicted: Vec<(&'static str, u64)>,
}

/// Scores a prediction file as the profile's official script does.
///
/// # Errors
/// The file cannot be read, or the script does not accept it, see [`MeasureError`].
pub fn score_files(
    profile: Profile,
    predictions: impl Read,
    gold: impl Read,
    aliases: Option<impl Read>,
) -> Result<OfficialFigures, MeasureError> {
    if aliases.is_some() && profile != Profile::TwoWiki {
        return Err(MeasureError::NoAliases { profile });
    }
    match profile {
        Profile::HotpotQa => hotpotqa::score_files(predictions, gold),
        Profile::TwoWiki => two_wiki::score_files(predictions, gold, aliases),
        Profile::Musique => musique::score_files(predictions, gold),
        _ => Err(MeasureError::NoScript { profile }),
    }
}

/// EM, F1, precision and recall summed over questions, under a prefix (`sp_` …).
#[derive(Clone, Copy, Debug, Default)]
struct ScoreSums {
    em: f64,
    f1: f64,
    precision: f64,
    recall: f64,
}

impl ScoreSums {
    fn add(&mut self, score: crate::facts::SetScore) {
        self.em += score.em;
        self.f1 += score.f1;
        self.precision += score.precision;
        self.recall += score.recall;
    }

    /// The sums in the scripts' order: em, f1, prec, recall.
    fn values(self) -> [f64; 4] {
        [self.em, self.f1, self.precision, self.recall]
    }
}
