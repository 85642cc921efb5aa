//! The common model of a question, for all datasets.
//!
//! Plain data. It serialises to one JSON object (the `world` format is exactly this, one per line) and to formats
//! without field names, so every field is always written. An absent list is empty, an absent text is null.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::passage::PassageRecord;

/// A question with all data of its dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// Unique in the dataset. A dataset without ids (NQ-open, TriviaQA TSV, IIRC pipeline rows) gets `<format>-<n>`, n
    /// being the row's position over all files, from 0, including bad rows. MuSiQue-Full has each id twice: one of the
    /// two is marked, see [`crate::musique_official_id`].
    pub id: String,
    /// The question, verbatim.
    pub text: String,
    /// The gold answer first, then its aliases (MuSiQue's `answer_aliases`; NQ, TriviaQA, FlashRAG: the list's order).
    /// Empty if the file has no answer (test sets, most BEIR sets), and for MuSiQue's unanswerable questions, which its
    /// script does not score. StrategyQA's booleans are `yes` and `no`. An IIRC question without an answer has `none`,
    /// as its evaluation expects.
    pub answers: Vec<String>,
    /// The spans of an answer made of several (IIRC). `answers[0]` is their JSON array, `["Rome", "Bonn"]`. Empty if
    /// the answer has one span.
    pub answer_spans: Vec<String>,
    /// 2WikiMultihopQA: the answer's Wikidata id, the key into the official alias file.
    pub answer_id: Option<String>,
    /// The type of the answer: IIRC's `span`, `binary`, `value`, `none` (pipeline rows: `spans`, `number`).
    pub answer_kind: Option<String>,
    /// Whether the question has an answer, if the dataset says so (MuSiQue, IIRC).
    pub answerable: Option<bool>,
    /// The passages of a perfect retrieval, in path order if the dataset has one. HotpotQA and 2Wiki: by title, in the
    /// order of the supporting facts. MuSiQue and the world: in the order of the hops. StrategyQA: the union of its
    /// annotators' evidence. IIRC: the linked articles needed for the answer. BEIR: by grade and id. MuSiQue's
    /// unanswerable questions have none.
    pub gold: Vec<GoldPassage>,
    /// Alternative sets of indices into `gold`, each of them sufficient (StrategyQA: one per annotator). Empty: all of
    /// `gold` is needed.
    pub gold_sets: Vec<Vec<u32>>,
    /// The passages given with the question by the dataset, in its order (HotpotQA, 2Wiki, MuSiQue, DPR's and
    /// Contriever's retrieved lists, the world).
    pub candidates: Vec<PassageRecord>,
    /// HotpotQA, 2Wiki, the world: (title, index of the sentence in that passage, from 0). Some of HotpotQA's indices
    /// lie beyond the passage's last sentence. They are kept, since the official script counts them.
    pub supporting_facts: Vec<(String, u32)>,
    /// 2Wiki, the world: the reasoning as (subject, relation, object) triples, in path order.
    pub evidences: Vec<[String; 3]>,
    /// 2Wiki: the same triples with Wikidata ids.
    pub evidences_id: Vec<[String; 3]>,
    /// 2Wiki: Wikidata ids of the entities in the question.
    pub entity_ids: Vec<String>,
    /// MuSiQue, StrategyQA, the world: sub-questions in order; `#n` stands for the answer of the n-th.
    pub decomposition: Vec<SubQuestion>,
    /// StrategyQA: the facts that decide the answer, as its writer noted them.
    pub facts: Vec<String>,
    /// The world: a chain of thought that ends in the answer.
    pub rationale: Option<String>,
    /// HotpotQA: `bridge`, `comparison`; 2Wiki: `compositional`, `inference`, `comparison`, `bridge_comparison`;
    /// MuSiQue: the shape of the reasoning, `2hop`, `3hop1`, …; the world: its own.
    pub kind: Option<String>,
    /// HotpotQA: `easy`, `medium`, `hard`.
    pub level: Option<String>,
    /// Number of hops: distinct gold titles (HotpotQA, 2Wiki), sub-questions (MuSiQue, StrategyQA), the world's own.
    pub hops: Option<u32>,
    /// Further strata for breaking down figures: the world's `held_out`, or `answerable` = `false` of MuSiQue-Full.
    pub strata: BTreeMap<String, String>,
    /// IIRC: the introductory paragraph of the question, with its hyperlinks.
    pub context: Option<PassageRecord>,
    /// IIRC: titles of the linked articles followed by the question's writer.
    pub links: Vec<String>,
    /// All other fields of the row (StrategyQA's `term` and `description`, FlashRAG's and BEIR's metadata): text as it
    /// is, other values as JSON.
    pub notes: BTreeMap<String, String>,
}

/// A gold passage, with the fields known to the dataset. The evaluation chooses the rule for matching retrieved
/// passages (id, title, or title and text).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GoldPassage {
    /// Its id in the corpus (BEIR, StrategyQA, DPR, the world).
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its text: of the candidate with that title (HotpotQA, 2Wiki), the paragraph (MuSiQue) or the snippet (IIRC).
    pub text: Option<String>,
    /// The pieces of its text that the annotators marked (IIRC).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snippets: Vec<String>,
    /// Graded relevance, at least 1 (BEIR); 1 elsewhere.
    pub grade: u32,
}

impl Default for GoldPassage {
    fn default() -> Self {
        Self { id: None, title: None, text: None, snippets: Vec::new(), grade: 1 }
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
    /// The position in `candidates` of the passage with the answer (MuSiQue, the world).
    pub support: Option<u32>,
    /// Ids of the passages with the answer: of all annotators together (StrategyQA), or exactly one (the world).
    pub evidence: Vec<String>,
}
