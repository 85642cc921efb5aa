//! The one model of a question that every dataset is read into.
//!
//! Plain data: it serialises to one JSON object (the `world` format is exactly this, one per line) and to formats that
//! do not name their fields, so no field is ever left out. An absent list is empty, an absent text is null.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::passage::PassageRecord;

/// A question with everything that its dataset says about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// Unique in the dataset. A dataset without ids (NQ-open, TriviaQA TSV, IIRC pipeline rows) gets
    /// `<format>-<n>`, n being the row's position over all files, from 0, bad rows counted.
    pub id: String,
    /// The question, verbatim.
    pub text: String,
    /// The gold answer first, then its aliases (MuSiQue's `answer_aliases`; NQ, TriviaQA, FlashRAG: the list's order).
    /// Empty where the file does not tell (test sets, most BEIR sets). StrategyQA's booleans are `yes` and `no`; an
    /// IIRC question without an answer has `none`, which is what its evaluation expects.
    pub answers: Vec<String>,
    /// The parts of an answer that is a set of spans (IIRC), of which `answers[0]` is the list joined by `, `. Empty
    /// where the answer has one part.
    pub answer_spans: Vec<String>,
    /// 2WikiMultihopQA: the answer's Wikidata id, the key into the official alias file.
    pub answer_id: Option<String>,
    /// What sort of answer it is: IIRC's `span`, `binary`, `value`, `none` (pipeline rows: `spans`, `number`).
    pub answer_kind: Option<String>,
    /// Whether there is an answer, where the dataset says (MuSiQue, IIRC).
    pub answerable: Option<bool>,
    /// The passages that a perfect retrieval finds, in path order where the dataset has one: HotpotQA and 2Wiki by
    /// title in the order of the supporting facts, MuSiQue and the world in the order of the hops, StrategyQA the union of its
    /// annotators' evidence, IIRC the linked articles that the answer needs, BEIR by grade and id.
    pub gold: Vec<GoldPassage>,
    /// Alternative sets of indices into `gold`, any of which is enough (StrategyQA: one for each annotator). Empty:
    /// all of `gold` is needed.
    pub gold_sets: Vec<Vec<u32>>,
    /// The passages that the dataset gives with the question, in its order (HotpotQA, 2Wiki, MuSiQue, DPR's and
    /// Contriever's retrieved lists, the world).
    pub candidates: Vec<PassageRecord>,
    /// HotpotQA, 2Wiki, the world: (title, index of the sentence in that passage, from 0). Some of HotpotQA's name a
    /// sentence that the passage does not have; they are kept, for the official script counts them.
    pub supporting_facts: Vec<(String, u32)>,
    /// 2Wiki, the world: the reasoning as (subject, relation, object) triples, in path order.
    pub evidences: Vec<[String; 3]>,
    /// 2Wiki: the same triples with Wikidata ids.
    pub evidences_id: Vec<[String; 3]>,
    /// 2Wiki: Wikidata ids of the entities that the question is about.
    pub entity_ids: Vec<String>,
    /// MuSiQue, StrategyQA, the world: sub-questions in order; `#n` in one stands for the answer of the n-th.
    pub decomposition: Vec<SubQuestion>,
    /// StrategyQA: the facts that decide the answer, as its writer noted them.
    pub facts: Vec<String>,
    /// The world: a chain of thought that ends in the answer.
    pub rationale: Option<String>,
    /// HotpotQA: `bridge`, `comparison`; 2Wiki: `compositional`, `inference`, `comparison`, `bridge_comparison`; MuSiQue:
    /// the shape of the reasoning, `2hop`, `3hop1`, …; the world: its own.
    pub kind: Option<String>,
    /// HotpotQA: `easy`, `medium`, `hard`.
    pub level: Option<String>,
    /// Number of hops: distinct gold titles (HotpotQA, 2Wiki), sub-questions (MuSiQue, StrategyQA), the world's own.
    pub hops: Option<u32>,
    /// Further strata that figures may be broken down by, e.g. the world's `held_out`.
    pub strata: BTreeMap<String, String>,
    /// IIRC: the introductory paragraph that the question was asked about, with its hyperlinks.
    pub context: Option<PassageRecord>,
    /// IIRC: titles of the linked articles that the question's writer followed.
    pub links: Vec<String>,
    /// What else the row says (StrategyQA's `term` and `description`, FlashRAG's and BEIR's metadata): text as it is, other
    /// values as JSON.
    pub notes: BTreeMap<String, String>,
}

/// A gold passage, by whatever the dataset knows of it. What makes a retrieved passage equal to it (id, title, or title
/// and text) is the evaluation's choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GoldPassage {
    /// Its id in the corpus (BEIR, StrategyQA, DPR, the world).
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its text: the candidate's of that title (HotpotQA, 2Wiki), the paragraph's (MuSiQue), the snippet's (IIRC).
    pub text: Option<String>,
    /// Graded relevance, at least 1 (BEIR); 1 elsewhere.
    pub grade: u32,
}

impl Default for GoldPassage {
    fn default() -> Self {
        Self { id: None, title: None, text: None, grade: 1 }
    }
}

/// A step of a decomposition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubQuestion {
    /// The sub-question, with `#n` for the answer of the n-th step.
    pub question: String,
    /// Its answer (MuSiQue, the world).
    pub answer: Option<String>,
    /// The position in `candidates` of the passage that answers it (MuSiQue, the world).
    pub support: Option<u32>,
    /// Ids of the passages that answer it, all annotators together (StrategyQA), or of the one that does (the world).
    pub evidence: Vec<String>,
}
