//! The parameters of `ircot`, with the paper's behaviour as defaults.

use crate::demonstration::DemonstrationSet;
use crate::few_shot::{self, PackingRule};
use crate::reasoning::QueryWords;
use crate::registry::ParameterInfo;
use crate::request::ServiceName;
use crate::title_scope;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IrcotParameters {
    pub(super) retriever: ServiceName,
    pub(super) generator: ServiceName,
    #[serde(default)]
    pub(super) reader: Option<ServiceName>,
    #[serde(default)]
    pub(super) read: SeparateReading,
    #[serde(default = "default_k")]
    pub(super) k: u32,
    #[serde(default = "default_max_steps")]
    pub(super) max_steps: u32,
    #[serde(default = "default_max_passages")]
    pub(super) max_passages: u32,
    #[serde(default = "few_shot::default_demonstrations")]
    pub(super) demonstrations: DemonstrationSet,
    #[serde(default)]
    pub(super) demonstration_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(super) reading_demonstrations: Option<DemonstrationSet>,
    #[serde(default)]
    pub(super) title_demonstrations: Option<DemonstrationSet>,
    #[serde(default = "few_shot::default_distractors")]
    pub(super) distractors: u32,
    #[serde(default)]
    pub(super) instruction: String,
    #[serde(default)]
    pub(super) reading_instruction: String,
    #[serde(default = "few_shot::default_title_label")]
    pub(super) title_label: String,
    #[serde(default)]
    pub(super) title_retriever: Option<ServiceName>,
    #[serde(default = "title_scope::default_titles")]
    pub(super) titles: u32,
    #[serde(default)]
    pub(super) title_prompt: Option<String>,
    #[serde(default)]
    pub(super) query: QuerySentence,
    #[serde(default)]
    pub(super) end: ChainEnd,
    #[serde(default)]
    pub(super) query_words: QueryWords,
    #[serde(default)]
    pub(super) shown_words: Option<u32>,
    #[serde(default)]
    pub(super) longest_passage: Option<u32>,
    #[serde(default)]
    pub(super) near_duplicates: Option<u32>,
    #[serde(default)]
    pub(super) context_tokens: Option<u32>,
    #[serde(default = "few_shot::default_max_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) packing: PackingRule,
}

/// The reading after the last retrieval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SeparateReading {
    #[default]
    Cot,
    Direct,
    None,
}

/// The sentence that makes the next query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QuerySentence {
    #[default]
    LastSentence,
    LastFact,
}

/// The sentence that ends the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChainEnd {
    /// One that has the words `answer is:` (section 3.1), or an empty one.
    #[default]
    Words,
    /// One in which an answer stands behind `answer is`, with or without a colon, or an empty one, which the chain
    /// keeps (the code).
    Pattern,
}

fn default_k() -> u32 {
    4
}

fn default_max_steps() -> u32 {
    8
}

fn default_max_passages() -> u32 {
    15
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "retriever",
        values: "name of a retriever",
        default: None,
        documentation: "Finds passages: BM25 in the paper.",
    },
    few_shot::GENERATOR,
    ParameterInfo {
        name: "reader",
        values: "name of a language model, or nothing for the generator",
        default: Some("null"),
        documentation: "Reads all passages in the end and answers.",
    },
    ParameterInfo {
        name: "read",
        values: "\"cot\", \"direct\" or \"none\"",
        default: Some("\"cot\""),
        documentation: "How the reader is prompted; without one the chain of thought gives the answer (appendix F).",
    },
    ParameterInfo {
        name: "k",
        values: "integer, at least 1",
        default: Some("4"),
        documentation: "Passages retrieved at each step (K: 2, 4, 6 or 8).",
    },
    ParameterInfo {
        name: "max_steps",
        values: "integer, at least 1",
        default: Some("8"),
        documentation: "Most sentences of the chain; the code's 10.",
    },
    ParameterInfo {
        name: "max_passages",
        values: "integer, at least 1",
        default: Some("15"),
        documentation: "Most passages collected.",
    },
    few_shot::DEMONSTRATIONS,
    few_shot::DEMONSTRATION_IDS,
    ParameterInfo {
        name: "reading_demonstrations",
        values: "as of `demonstrations`, or nothing for those",
        default: Some("null"),
        documentation: "Those of the reader, with the same ids. The authors' files have other distractors for each \
                        style.",
    },
    title_scope::TITLE_DEMONSTRATIONS,
    few_shot::DISTRACTORS,
    few_shot::INSTRUCTION,
    ParameterInfo {
        name: "reading_instruction",
        values: "text",
        default: Some("\"\""),
        documentation: "Stands before each question of the reader.",
    },
    few_shot::TITLE_LABEL,
    title_scope::TITLE_RETRIEVER,
    title_scope::TITLES,
    title_scope::TITLE_PROMPT,
    ParameterInfo {
        name: "query",
        values: "\"last_sentence\" or \"last_fact\"",
        default: Some("\"last_sentence\""),
        documentation: "The code passes over sentences that only conclude; if all do, the question is the query.",
    },
    ParameterInfo {
        name: "end",
        values: "\"words\" or \"pattern\"",
        default: Some("\"words\""),
        documentation: "The chain ends with a sentence that has `answer is:`; in the code, with one that gives an \
                        answer behind `answer is`.",
    },
    few_shot::QUERY_WORDS,
    few_shot::SHOWN_WORDS,
    few_shot::LONGEST_PASSAGE,
    few_shot::NEAR_DUPLICATES,
    few_shot::CONTEXT_TOKENS,
    few_shot::PACKING,
    few_shot::MAX_TOKENS,
];
