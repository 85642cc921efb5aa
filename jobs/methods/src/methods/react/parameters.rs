//! The parameters of `react`, with the paper's behaviour as defaults.

use crate::registry::ParameterInfo;
use crate::request::ServiceName;
use crate::sampling::TemperatureChoice;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReactParameters {
    pub(super) generator: ServiceName,
    pub(super) retriever: ServiceName,
    #[serde(default = "ServiceName::corpus")]
    pub(super) corpus: ServiceName,
    #[serde(default = "default_most_steps")]
    pub(super) most_steps: u32,
    #[serde(default)]
    pub(super) titles: TitleMatch,
    #[serde(default = "default_sentences")]
    pub(super) sentences: u32,
    #[serde(default)]
    pub(super) sentences_by: SentenceRule,
    #[serde(default = "default_similar")]
    pub(super) similar: u32,
    #[serde(default)]
    pub(super) blank_line: bool,
    #[serde(default)]
    pub(super) prompt: Option<String>,
    #[serde(default = "default_max_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) temperature: TemperatureChoice,
}

/// The comparison of a searched title with those of the corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TitleMatch {
    #[default]
    Folded,
    Exact,
}

/// The source of a page's sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SentenceRule {
    #[default]
    Corpus,
    Points,
}

fn default_most_steps() -> u32 {
    7
}

fn default_sentences() -> u32 {
    5
}

fn default_similar() -> u32 {
    5
}

fn default_max_tokens() -> u32 {
    100
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "generator",
        values: "name of a service",
        default: None,
        documentation: "Writes thoughts and actions; it must continue its own text.",
    },
    ParameterInfo {
        name: "retriever",
        values: "name of a service",
        default: None,
        documentation: "Finds pages with similar titles, if there is none with the title searched for.",
    },
    ParameterInfo {
        name: "corpus",
        values: "name of a service",
        default: Some("\"corpus\""),
        documentation: "Finds pages by title.",
    },
    ParameterInfo {
        name: "most_steps",
        values: "integer, at least 1",
        default: Some("7"),
        documentation: "Thoughts before the end with an empty answer; 7 for HotpotQA in the paper.",
    },
    ParameterInfo {
        name: "titles",
        values: "\"folded\" or \"exact\"",
        default: Some("\"folded\""),
        documentation: "Whether a title may differ in case, underscores and spaces.",
    },
    ParameterInfo {
        name: "sentences",
        values: "integer, at least 1",
        default: Some("5"),
        documentation: "Sentences of a page that a search shows.",
    },
    ParameterInfo {
        name: "sentences_by",
        values: "\"corpus\" or \"points\"",
        default: Some("\"corpus\""),
        documentation: "A page's sentences are the corpus's, or, as in the code, what points with a space cut.",
    },
    ParameterInfo {
        name: "similar",
        values: "integer, at least 1",
        default: Some("5"),
        documentation: "Most titles shown if there is no page with the title searched for.",
    },
    ParameterInfo {
        name: "blank_line",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether a blank line follows `No more results.`, as in the code.",
    },
    ParameterInfo {
        name: "prompt",
        values: "text with {question}, or nothing for the project's own",
        default: Some("null"),
        documentation: "Stands before the episode.",
    },
    ParameterInfo {
        name: "max_tokens",
        values: "integer, at least 1",
        default: Some("100"),
        documentation: "Most tokens of a thought with its action.",
    },
    ParameterInfo {
        name: "temperature",
        values: "number, 0 for greedy, or \"server\"",
        default: Some("0.0"),
        documentation: "The generator's.",
    },
];
