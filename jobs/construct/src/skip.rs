//! Why a question, or the rest of its hops, makes no training rows.

use std::fmt;

/// A reason to skip a question or its later hops. The construction continues and counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// The question has neither decomposition nor evidences.
    NoAnnotations,
    /// The question has no answer.
    NoAnswer,
    /// A step has no answer.
    StepWithoutAnswer,
    /// A step names no passage, or one outside the question.
    StepWithoutPassage,
    /// A step refers to a later step or to itself.
    BadReference,
    /// A gold passage is not in the corpus, and the question lacks its text.
    PassageNotFound,
    /// An answer needed by other steps is not in its passage. Its hop has labels; later hops have no rows.
    AnswerNotInPassage,
}

impl SkipReason {
    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoAnnotations => "no decomposition and no evidences (musique, 2wikimultihopqa and world have them)",
            Self::NoAnswer => "no answer",
            Self::StepWithoutAnswer => "a step without an answer",
            Self::StepWithoutPassage => "a step without a passage",
            Self::BadReference => "a step that refers to none before it",
            Self::PassageNotFound => "a gold passage without text",
            Self::AnswerNotInPassage => "an answer that its passage does not have",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
