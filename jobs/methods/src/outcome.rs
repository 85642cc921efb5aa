//! The outcome of one question under one configuration.

use crate::request::PassageId;
use crate::response::Failure;
use serde::{Deserialize, Serialize};

/// The end of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether the method could do its work.
    pub status: OutcomeStatus,
    /// The answer, for methods with answers.
    pub answer: Option<String>,
    /// Passages, best first, each once; the method has already broken ties.
    pub ranked: Vec<RankedPassage>,
    /// Passages considered together, in path order; best path first. For methods with paths.
    pub paths: Vec<PassagePath>,
    /// Sentences given as support.
    pub supporting: Vec<SupportingSentence>,
    /// Evidence triples (subject, relation, object).
    pub evidences: Vec<[String; 3]>,
    /// Rounds of the method's own loop (hops, iterations), counted as in its paper.
    pub iterations: u32,
}

/// Whether a question was worked through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutcomeStatus {
    /// Yes.
    #[default]
    Ok,
    /// No: a request failed and the method could not continue.
    Failed(Failure),
}

impl OutcomeStatus {
    /// The name in tables: `ok` or the kind of failure.
    pub fn name(&self) -> &'static str {
        match self {
            OutcomeStatus::Ok => "ok",
            OutcomeStatus::Failed(failure) => failure.kind.name(),
        }
    }
}

/// A ranked passage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankedPassage {
    /// The passage.
    pub passage: PassageId,
    /// The method's score, higher is better.
    pub score: f64,
}

/// A reasoning path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassagePath {
    /// First hop first.
    pub passages: Vec<PassageId>,
    /// Higher is better.
    pub score: f64,
}

/// A sentence given as support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SupportingSentence {
    /// Its passage.
    pub passage: PassageId,
    /// Index of the sentence, from 0.
    pub sentence: u32,
}

impl Outcome {
    /// The outcome of a failed method.
    pub fn failed(failure: Failure) -> Self {
        Self { status: OutcomeStatus::Failed(failure), ..Self::default() }
    }

    /// The outcome after an answer of another kind than requested: a fault of the service.
    pub fn wrong_kind(asked: crate::RequestKind, got: crate::RequestKind) -> Self {
        Self::failed(Failure::wrong_kind(asked, got))
    }
}
