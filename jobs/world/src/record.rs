//! The lines of the two files, field for field as read by `hopeval-datasets` (`Question` and `PassageRecord`). Fields
//! that a world never fills are left out, and read there as empty.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A passage of the corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Unique, also across worlds of other seeds and splits.
    pub id: String,
    /// Unique in the corpus.
    pub title: String,
    /// The sentences, joined by spaces.
    pub text: String,
    /// End of each sentence, in bytes. The space between two sentences belongs to the later one.
    pub sentences: Vec<u32>,
    /// The hyperlinks in the order of the text. Each leads to a title of the corpus.
    pub links: Vec<PassageLink>,
}

impl Passage {
    /// Sentence `index`, without the space before it.
    pub fn sentence(&self, index: usize) -> Option<&str> {
        let (start, end) = self.sentence_span(index)?;
        self.text.get(start..end).map(str::trim_start)
    }

    /// The bytes of sentence `index`.
    pub(crate) fn sentence_span(&self, index: usize) -> Option<(usize, usize)> {
        let end = *self.sentences.get(index)? as usize;
        Some((if index == 0 { 0 } else { self.sentences[index - 1] as usize }, end))
    }
}

/// A hyperlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageLink {
    /// The target's title.
    pub title: String,
    /// Start of the anchor in the text, in bytes.
    pub start: u32,
    /// End of the anchor.
    pub end: u32,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Unique, also across worlds of other seeds and splits.
    pub id: String,
    /// The question.
    pub text: String,
    /// The answer, then its aliases.
    pub answers: Vec<String>,
    /// The gold path: the passages in the order of the hops. For a bridge comparison: first bridge, its end, second
    /// bridge, its end.
    pub gold: Vec<GoldReference>,
    /// Gold passages and distractors, in random order.
    pub candidates: Vec<Candidate>,
    /// The sentences with the facts, in the order of the evidences.
    pub supporting_facts: Vec<(String, u32)>,
    /// The facts as (title, relation, title or value), in path order.
    pub evidences: Vec<[String; 3]>,
    /// One sub-question per fact; `#n` stands for the answer of the n-th.
    pub decomposition: Vec<SubQuestion>,
    /// A chain of thought, one sentence for each fact and the conclusion.
    pub rationale: String,
    /// `bridge`, `comparison` or `bridge_comparison`.
    pub kind: String,
    /// The number of gold passages.
    pub hops: u32,
    /// `relations`, `templates`, `paraphrases`: `seen` or `held_out`; `comparison`, for comparisons: `same`, `first` or
    /// `last`.
    pub strata: BTreeMap<String, String>,
}

/// A gold passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoldReference {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
}

/// A passage given with a question. Text, sentences and links are left out if the settings say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Candidate {
    /// With its text.
    Whole(Passage),
    /// To be looked up in the corpus.
    Reference(GoldReference),
}

/// A step of the decomposition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubQuestion {
    /// The sub-question.
    pub question: String,
    /// Its answer.
    pub answer: String,
    /// The position in `candidates` of the passage with the answer.
    pub support: u32,
    /// The id of that passage.
    pub evidence: Vec<String>,
}

impl Candidate {
    /// The passage's id.
    pub fn id(&self) -> &str {
        match self {
            Self::Whole(passage) => &passage.id,
            Self::Reference(gold) => &gold.id,
        }
    }

    /// The passage's title.
    pub fn title(&self) -> &str {
        match self {
            Self::Whole(passage) => &passage.title,
            Self::Reference(gold) => &gold.title,
        }
    }
}
