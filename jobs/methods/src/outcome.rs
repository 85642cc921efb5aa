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
    /// Sentences given as support that the method could not find in a passage: a title that was never found, an index
    /// beyond the last sentence, a text in place of an index. Each counts as a wrong sentence.
    #[serde(default)]
    pub named_support: Vec<NamedSentence>,
    /// Evidence triples (subject, relation, object).
    pub evidences: Vec<[String; 3]>,
    /// Rounds of the method's own loop (hops, iterations), counted as in its paper.
    pub iterations: u32,
    /// The method's trace, for people and for tables of its paper; no measure reads it.
    #[serde(default)]
    pub notes: Vec<OutcomeNote>,
    /// Whether the model kept to the required form without repairs; `None` for methods without such a form.
    #[serde(default)]
    pub format: Option<bool>,
    /// Repairs of the model's texts, as the method's paper counts them.
    #[serde(default)]
    pub repairs: u32,
}

/// Whether a question was worked through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutcomeStatus {
    /// Yes.
    #[default]
    Ok,
    /// No: a request failed and the method could not continue.
    Failed(Failure),
    /// No: the file of another system's outcomes has none of this question.
    NotInFile,
}

impl OutcomeStatus {
    /// The name in tables: `ok`, the kind of failure, or `not_in_file`.
    pub fn name(&self) -> &'static str {
        match self {
            OutcomeStatus::Ok => "ok",
            OutcomeStatus::Failed(failure) => failure.kind.name(),
            OutcomeStatus::NotInFile => "not_in_file",
        }
    }

    /// The message of one that failed.
    pub fn message(&self) -> Option<&str> {
        match self {
            OutcomeStatus::Ok => None,
            OutcomeStatus::Failed(failure) => Some(&failure.message),
            OutcomeStatus::NotInFile => Some("the file has no row of this question"),
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

/// A sentence given as support by name, as the model wrote it, because no passage has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamedSentence {
    /// The title in the model's words.
    pub title: String,
    /// The index or text of the sentence in the model's words.
    pub sentence: String,
}

/// A piece of a method's trace: a chain of thought, a sub-question with its answer, an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeNote {
    /// Its kind, in the method's own small vocabulary, such as `thought` or `sub_question`. Names may repeat; the order
    /// is that of the trace.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Outcome {
    /// The outcome of a failed method.
    pub fn failed(failure: Failure) -> Self {
        Self { status: OutcomeStatus::Failed(failure), ..Self::default() }
    }

    /// Adds a piece to the trace.
    pub fn add_note(&mut self, name: &str, text: impl Into<String>) {
        self.notes.push(OutcomeNote { name: name.to_owned(), text: text.into() });
    }

    /// The outcome after an answer of another kind than requested: a fault of the service.
    pub fn wrong_kind(asked: crate::RequestKind, got: crate::RequestKind) -> Self {
        Self::failed(Failure::wrong_kind(asked, got))
    }
}
