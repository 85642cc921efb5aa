//! The parameters of `one_step_qa`.

use crate::demonstration::DemonstrationSet;
use crate::few_shot::{self, AnswerStyle, PackingRule};
use crate::machine::ContextMode;
use crate::reasoning::QueryWords;
use crate::registry::ParameterInfo;
use crate::request::ServiceName;
use crate::title_scope;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneStepQaParameters {
    #[serde(default)]
    pub(super) retriever: Option<ServiceName>,
    pub(super) generator: ServiceName,
    #[serde(default = "default_context")]
    pub(super) context: ContextMode,
    #[serde(default = "ServiceName::corpus")]
    pub(super) corpus: ServiceName,
    #[serde(default = "default_k")]
    pub(super) k: u32,
    #[serde(default)]
    pub(super) style: AnswerStyle,
    #[serde(default = "few_shot::default_demonstrations")]
    pub(super) demonstrations: DemonstrationSet,
    #[serde(default)]
    pub(super) demonstration_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(super) title_demonstrations: Option<DemonstrationSet>,
    #[serde(default = "few_shot::default_distractors")]
    pub(super) distractors: u32,
    #[serde(default)]
    pub(super) instruction: String,
    #[serde(default = "few_shot::default_title_label")]
    pub(super) title_label: String,
    #[serde(default)]
    pub(super) title_retriever: Option<ServiceName>,
    #[serde(default = "title_scope::default_titles")]
    pub(super) titles: u32,
    #[serde(default)]
    pub(super) title_prompt: Option<String>,
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

fn default_context() -> ContextMode {
    ContextMode::Open
}

fn default_k() -> u32 {
    10
}

impl OneStepQaParameters {
    pub(super) fn retrieves(&self) -> bool {
        matches!(self.context, ContextMode::Open | ContextMode::Mixed)
    }

    pub(super) fn looks_up(&self) -> bool {
        self.context != ContextMode::Open
    }
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "retriever",
        values: "name of a retriever",
        default: None,
        documentation: "Finds the passages; need not be given for given and oracle contexts.",
    },
    few_shot::GENERATOR,
    ParameterInfo {
        name: "context",
        values: "\"open\", \"given\", \"oracle\" or \"mixed\"",
        default: Some("\"open\""),
        documentation: "Reads what is retrieved, the dataset's candidates, gold, or gold and what is retrieved.",
    },
    ParameterInfo {
        name: "corpus",
        values: "name of a service",
        default: Some("\"corpus\""),
        documentation: "Knows the texts of given and gold passages.",
    },
    ParameterInfo {
        name: "k",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "Passages retrieved (K: 5, 7, 9, 11, 13 or 15).",
    },
    few_shot::STYLE,
    few_shot::DEMONSTRATIONS,
    few_shot::DEMONSTRATION_IDS,
    title_scope::TITLE_DEMONSTRATIONS,
    few_shot::DISTRACTORS,
    few_shot::INSTRUCTION,
    few_shot::TITLE_LABEL,
    title_scope::TITLE_RETRIEVER,
    title_scope::TITLES,
    title_scope::TITLE_PROMPT,
    few_shot::QUERY_WORDS,
    few_shot::SHOWN_WORDS,
    few_shot::LONGEST_PASSAGE,
    few_shot::NEAR_DUPLICATES,
    few_shot::CONTEXT_TOKENS,
    few_shot::PACKING,
    few_shot::MAX_TOKENS,
];
