//! The lines of the two files, field for field as `hopeval-datasets` reads them (`Question` and `PassageRecord`); fields that a
//! world never fills are left out, and read there as empty.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A passage of the corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Unique over worlds of other seeds and splits too.
    pub id: String,
    /// Unique in the corpus.
    pub title: String,
    /// The sentences, joined by spaces.
    pub text: String,
    /// Where each sentence ends, in bytes; the space between two belongs to the later.
    pub sentences: Vec<u32>,
    /// The hyperlinks in the order of the text; each leads to a title of the corpus.
    pub links: Vec<Link>,
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
pub struct Link {
    /// The target's title.
    pub title: String,
    /// Where the anchor begins in the text, in bytes.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Unique over worlds of other seeds and splits too.
    pub id: String,
    /// The question.
    pub text: String,
    /// The answer, then its aliases.
    pub answers: Vec<String>,
    /// The gold path: the passages in the order of the hops. Of a bridge comparison: first bridge, its end, second bridge,
    /// its end.
    pub gold: Vec<Gold>,
    /// Gold passages and distractors, in no order.
    pub candidates: Vec<Candidate>,
    /// The sentences that state the facts, in the order of the evidences.
    pub supporting_facts: Vec<(String, u32)>,
    /// The facts as (title, relation, title or value), in path order.
    pub evidences: Vec<[String; 3]>,
    /// One sub-question for each fact; `#n` in one stands for the answer of the n-th.
    pub decomposition: Vec<SubQuestion>,
    /// A chain of thought, one sentence for each fact and the conclusion.
    pub rationale: String,
    /// `bridge`, `comparison` or `bridge_comparison`.
    pub kind: String,
    /// The number of gold passages.
    pub hops: u32,
    /// `relations`, `templates`, `paraphrases`: `seen` or `held_out`; `comparison`: `same`, `first` or `last` where it is one.
    pub strata: BTreeMap<String, String>,
}

/// A gold passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gold {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
}

/// A passage given with a question; text, sentences and links are left out where the settings say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Candidate {
    /// With its text.
    Whole(Passage),
    /// To be looked up in the corpus.
    Reference(Gold),
}

/// A step of the decomposition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubQuestion {
    /// The sub-question.
    pub question: String,
    /// Its answer.
    pub answer: String,
    /// The position in `candidates` of the passage that answers it.
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
