//! Prompts as parts: machines have no tokenizer, so the answering service puts a prompt together.
//!
//! A prompt is a list of [`PromptPart`]s, each a text, a fragment, a passage or a sentence with its own truncation. If
//! the whole exceeds the token `budget`, the [`OverflowRule`]s are applied in order until it fits. Parts without a rule
//! are never cut. [`crate::PromptReport`] lists the cuts.
//!
//! # Continuing one's own text
//! A trailing part of [`ChatRole::Assistant`] is *continued*: the model writes on where the part ends, and its answer
//! holds the new text alone. Methods that interleave their own text with found passages (self-ask, ReAct) need this. A
//! model that reads plain text continues whatever it reads; a chat endpoint may or may not. So a method that sends such
//! prompts says so by [`crate::ServiceAbility::Continue`] in its [`crate::ServiceUse`]s, and a job with a service that
//! lacks the ability is refused before its first request. Without the ability a service refuses the request; it never
//! sends the part as a finished message.

use crate::fragment::FragmentDigest;
use crate::request::PassageId;
use serde::{Deserialize, Serialize};

/// A prompt, put together by the answering service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Its parts in order, with nothing between them.
    pub parts: Vec<PromptPart>,
    /// Most tokens of the whole; `None` for the model's own limit.
    pub budget: Option<u32>,
    /// Rules to apply, in order, until the whole fits the budget. If it still does not, the request fails as
    /// [`crate::FailureKind::ContextOverflow`].
    pub overflow: Vec<OverflowRule>,
    /// Whether the report counts the tokens of each part ([`crate::PromptReport::part_tokens`]).
    #[serde(default)]
    pub count_parts: bool,
    /// Leaves out demonstrations before the rules of `overflow` apply.
    #[serde(default)]
    pub packing: Option<ShotPacking>,
}

/// Leaves out demonstrations by the tokens of each one alone, as IRCoT's code does. The code keeps the tokens of prompt
/// and answer below a context, and neither counts the spaces between demonstrations nor those behind the last one. The
/// rest of the prompt is counted alone, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShotPacking {
    /// The number of demonstrations: the first parts of the prompt, one each.
    pub shots: u32,
    /// Tokens of the context. Demonstrations, rest and answer take fewer, or no demonstration is left.
    pub context_tokens: u32,
    /// Tokens of the answer.
    pub answer_tokens: u32,
    /// Whether demonstrations are left out from the last one on, until one more that is as long as the longest fits
    /// the context with them and an answer. After that they are left out from the first one on, until all fits.
    pub spares_longest: bool,
}

/// One part of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptPart {
    /// The speaker. Adjacent parts of one role make one chat message; completion models ignore it.
    pub role: ChatRole,
    /// Its content.
    pub content: Content,
    /// Cuts this part from the right, with any budget.
    pub truncate: Option<LengthLimit>,
}

/// A speaker of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

/// The content of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Content {
    /// Literal text.
    Text(String),
    /// A literal text that many requests share: the request holds its digest, and every process of the run has the text
    /// ([`crate::Method::fragments`]).
    Fragment(FragmentDigest),
    /// A passage of the corpus, looked up by the answering service.
    Passage {
        /// The passage.
        passage: PassageId,
        /// Its written form.
        form: PassageForm,
    },
    /// One sentence of a passage.
    Sentence {
        /// Its passage.
        passage: PassageId,
        /// Index of the sentence, from 0.
        sentence: u32,
    },
}

/// The written form of a passage. Its JSON names are part of the names of dense indexes and of their services'
/// fingerprints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassageForm {
    /// The text alone.
    Text,
    /// Title, `between`, text.
    TitleAndText {
        /// The text between title and text.
        between: String,
    },
    /// Title, `between`, title, `between`, text.
    TitleTwice {
        /// The text between each two of them.
        between: String,
    },
    /// `before`, title, `between`, text.
    Labelled {
        /// The text before the title.
        before: String,
        /// The text between title and text.
        between: String,
    },
    /// The title and a space, if `titled`, then the passage's sentences with a space between them, each behind `mark`
    /// and a space. White space around title and sentences is left out.
    MarkedSentences {
        /// The text before each sentence.
        mark: String,
        /// Whether the title stands first.
        titled: bool,
    },
}

impl PassageForm {
    /// Title and sentences as [`Self::MarkedSentences`].
    pub fn mark_sentences<'a>(mark: &str, title: Option<&str>, sentences: impl IntoIterator<Item = &'a str>) -> String {
        let sentences = sentences.into_iter().map(|sentence| format!("{mark} {}", sentence.trim()));
        title.map(|title| title.trim().to_owned()).into_iter().chain(sentences).collect::<Vec<_>>().join(" ")
    }
}

/// A length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthLimit {
    /// Tokens of the model's tokenizer.
    Tokens(u32),
    /// Words between white space.
    Words(u32),
    /// Pieces between single spaces, where two spaces have an empty one between them: Python's `text.split(" ")`, as
    /// IRCoT's code counts.
    SpacedWords(u32),
}

/// A rule for too long a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverflowRule {
    /// Leave the part out.
    Drop {
        /// Index in [`Prompt::parts`].
        part: u32,
    },
    /// Leave out adjacent parts together, as of a demonstration that is several parts.
    DropParts {
        /// Index of the first one in [`Prompt::parts`].
        first: u32,
        /// The number of parts.
        count: u32,
    },
    /// Cut the part from the right, no further than to `to`.
    Cut {
        /// Index in [`Prompt::parts`].
        part: u32,
        /// The least length to keep.
        to: LengthLimit,
    },
}

impl OverflowRule {
    /// The same rule, in a prompt with `before` further parts at its beginning.
    #[must_use]
    pub fn shifted(&self, before: u32) -> Self {
        match *self {
            Self::Drop { part } => Self::Drop { part: part + before },
            Self::DropParts { first, count } => Self::DropParts { first: first + before, count },
            Self::Cut { part, to } => Self::Cut { part: part + before, to },
        }
    }
}

impl Prompt {
    /// A prompt of one literal text of the user, without budget.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![PromptPart::text(text)], ..Self::default() }
    }

    /// The first passage of the prompt.
    pub fn first_passage(&self) -> Option<PassageId> {
        self.parts.iter().find_map(|part| match part.content {
            Content::Passage { passage, .. } | Content::Sentence { passage, .. } => Some(passage),
            Content::Text(_) | Content::Fragment(_) => None,
        })
    }

    /// Whether its last part is the model's own text, to be continued.
    pub fn is_continued(&self) -> bool {
        self.parts.last().is_some_and(|part| part.role == ChatRole::Assistant)
    }
}

impl PromptPart {
    /// A literal text of the user.
    pub fn text(text: impl Into<String>) -> Self {
        Self { role: ChatRole::User, content: Content::Text(text.into()), truncate: None }
    }

    /// A shared literal text of the user.
    pub fn fragment(digest: FragmentDigest) -> Self {
        Self { role: ChatRole::User, content: Content::Fragment(digest), truncate: None }
    }

    /// A passage, written as `form`.
    pub fn passage(passage: PassageId, form: PassageForm, truncate: Option<LengthLimit>) -> Self {
        Self { role: ChatRole::User, content: Content::Passage { passage, form }, truncate }
    }
}
