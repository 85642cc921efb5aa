//! `rankings`: the rankings and answers of another system, brought in as a file.
//!
//! The host reads the file, finds its passages in the corpus, and puts the row of a question into
//! [`Question::prediction`]. So a figure depends on the file's content alone: its digest is a parameter.
//!
//! ```text
//! state | row of the question | next | asks or ends with
//! ------+---------------------+------+----------------------------------------------------------
//! Start | there is one        | end  | its answer, its ranking (the first k) and its supporting sentences
//! Start | none                | end  | NotInFile
//! ```

use crate::machine::{ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, Question, ServiceUse};
use crate::outcome::{Outcome, OutcomeStatus};
use crate::registry::{ConfigurableMethod, MethodInfo, ParameterInfo, at_least_one};
use crate::request::RequestKind;
use crate::response::Response;
use serde::{Deserialize, Serialize};

/// One configuration.
pub(crate) struct Rankings {
    parameters: RankingsParameters,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RankingsParameters {
    file: String,
    #[serde(default)]
    format: Option<FileFormat>,
    #[serde(default = "default_context")]
    context: ContextMode,
    #[serde(default)]
    k: Option<u32>,
    #[serde(default)]
    currency: Option<String>,
    #[serde(default)]
    contents: Option<FileContents>,
}

/// A format of the file, under its name in jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileFormat {
    Trec,
    Jsonl,
    Csv,
    Json,
}

/// Facts about the file, as the host found them when it read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileContents {
    /// BLAKE3 of its bytes; of that and the format, where it is read in another one than its beginning tells.
    digest: String,
    /// Its questions.
    rows: u64,
    /// Whether some row has an answer.
    answers: bool,
    /// Whether some row has ranked passages.
    rankings: bool,
    /// Whether some row has supporting sentences.
    supporting: bool,
    /// Passages of the longest ranking.
    longest: u32,
    /// The figures of its costs, by name: the same in each row.
    #[serde(default)]
    costs: Vec<String>,
}

fn default_context() -> ContextMode {
    ContextMode::Open
}

impl ConfigurableMethod for Rankings {
    const INFO: MethodInfo = MethodInfo {
        kind: "rankings",
        description: "The rankings and answers of another system, from a file",
        paper: "the file's own system",
        parameters: &[
            ParameterInfo {
                name: "file",
                values: "path of a file",
                default: None,
                documentation: "A TREC run; JSON Lines or CSV of id, answer, ranked, supporting and cost; or a JSON \
                                object of answers by id.",
            },
            ParameterInfo {
                name: "format",
                values: "\"trec\", \"jsonl\", \"csv\" or \"json\"",
                default: Some("null"),
                documentation: "The file's format; told from its beginning when left out.",
            },
            ParameterInfo {
                name: "context",
                values: "\"open\", \"given\", \"mixed\", \"oracle\" or \"closed\"",
                default: Some("\"open\""),
                documentation: "The source of the other system's passages.",
            },
            ParameterInfo {
                name: "k",
                values: "integer, at least 1",
                default: Some("null"),
                documentation: "Passages ranked, the first ones; all of the file when left out.",
            },
            ParameterInfo {
                name: "currency",
                values: "name of the money of the file's costs",
                default: Some("null"),
                documentation: "Stands beside the money of the file's costs.",
            },
            ParameterInfo {
                name: "contents",
                values: "not set by jobs",
                default: Some("null"),
                documentation: "Digest and counts of the file, which hopeval fills in.",
            },
        ],
    };

    type Parameters = RankingsParameters;

    fn new(parameters: RankingsParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        if let Some(k) = parameters.k {
            at_least_one(Self::INFO.kind, "k", k)?;
        }
        Ok(Self { parameters })
    }
}

impl Rankings {
    /// Whether a fact holds of the file; true before the file was read.
    fn has(&self, fact: impl Fn(&FileContents) -> bool) -> bool {
        self.parameters.contents.as_ref().is_none_or(fact)
    }
}

impl Method for Rankings {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        self.parameters.context
    }

    fn gives_answers(&self) -> bool {
        self.has(|contents| contents.answers)
    }

    fn most_ranked(&self) -> Option<u32> {
        let longest = self.parameters.contents.as_ref().map(|contents| contents.longest);
        longest.into_iter().chain(self.parameters.k).min()
    }

    fn gives_ranking(&self) -> bool {
        self.has(|contents| contents.rankings)
    }

    fn gives_support(&self) -> bool {
        self.has(|contents| contents.supporting)
    }

    fn brought_digest(&self) -> Option<&str> {
        self.parameters.contents.as_ref().map(|contents| contents.digest.as_str())
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        Vec::new()
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        Some(Vec::new())
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        let outcome = match &question.prediction {
            Some(row) => {
                let mut outcome = Outcome::clone(row);
                outcome.ranked.truncate(self.parameters.k.map_or(usize::MAX, |k| k as usize));
                outcome
            }
            None => Outcome { status: OutcomeStatus::NotInFile, ..Outcome::default() },
        };
        Box::new(RankingsMachine(outcome))
    }
}

struct RankingsMachine(Outcome);

impl Machine for RankingsMachine {
    fn step(&mut self, _: Vec<Response>) -> MachineStep {
        MachineStep::Done(std::mem::take(&mut self.0))
    }
}
