//! Prompts as parts: machines have no tokenizer, so the service that answers puts a prompt together.
//!
//! A prompt is a list of [`Part`]s, each a text, a passage or a sentence with its own truncation. If the whole exceeds
//! the token `budget`, the [`Overflow`] rules are applied in order until it fits; what no rule names is never cut. What
//! was cut is reported in [`crate::PromptReport`].

use crate::request::PassageId;
use serde::{Deserialize, Serialize};

/// A prompt that is put together where it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// In order; nothing is put between them.
    pub parts: Vec<Part>,
    /// Most tokens of the whole; `None` for what the model takes.
    pub budget: Option<u32>,
    /// What to do, in order, until the whole fits the budget. If it still does not, the request fails as
    /// [`crate::FailureKind::ContextOverflow`].
    pub overflow: Vec<Overflow>,
}

/// One part of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Whose words they are; adjacent parts of one role make one chat message, and completion models ignore it.
    pub role: Role,
    /// What stands there.
    pub content: Content,
    /// Cuts this part from the right, whatever the budget.
    pub truncate: Option<Limit>,
}

/// A speaker of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum Role {
    System,
    User,
    Assistant,
}

/// What stands in a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Content {
    /// Literal text.
    Text(String),
    /// A passage of the corpus, looked up where the request is answered.
    Passage {
        /// Which.
        passage: PassageId,
        /// How it is written.
        form: PassageForm,
    },
    /// One sentence of a passage.
    Sentence {
        /// Which passage.
        passage: PassageId,
        /// Index of the sentence, from 0.
        sentence: u32,
    },
}

/// How a passage is written out. Its JSON names are part of the names of dense indexes and of their services' fingerprints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassageForm {
    /// The text alone.
    Text,
    /// Title, `between`, text.
    TitleAndText {
        /// What stands between title and text.
        between: String,
    },
    /// Title, `between`, title, `between`, text.
    TitleTwice {
        /// What stands between them.
        between: String,
    },
    /// `before`, title, `between`, text.
    Labelled {
        /// What stands before the title.
        before: String,
        /// What stands between title and text.
        between: String,
    },
}

/// A length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Of the model's tokenizer.
    Tokens(u32),
    /// Between spaces.
    Words(u32),
}

/// A rule for a prompt that is too long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overflow {
    /// Leave the part out.
    Drop {
        /// Index in [`Prompt::parts`].
        part: u32,
    },
    /// Cut the part from the right, no further than to `to`.
    Cut {
        /// Index in [`Prompt::parts`].
        part: u32,
        /// What remains at least.
        to: Limit,
    },
}

impl Prompt {
    /// A prompt of one literal text of the user, without budget.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], budget: None, overflow: Vec::new() }
    }

    /// The first passage that the prompt shows.
    pub fn first_passage(&self) -> Option<PassageId> {
        self.parts.iter().find_map(|part| match part.content {
            Content::Passage { passage, .. } | Content::Sentence { passage, .. } => Some(passage),
            Content::Text(_) => None,
        })
    }
}

impl Part {
    /// A literal text of the user.
    pub fn text(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: Content::Text(text.into()), truncate: None }
    }

    /// A passage, written as `form`.
    pub fn passage(passage: PassageId, form: PassageForm, truncate: Option<Limit>) -> Self {
        Self { role: Role::User, content: Content::Passage { passage, form }, truncate }
    }
}
