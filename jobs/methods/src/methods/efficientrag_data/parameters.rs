//! The parameters of `efficientrag_data`.

use crate::registry::ParameterInfo;
use crate::request::ServiceName;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnnotationParameters {
    pub(super) generator: ServiceName,
    pub(super) retriever: ServiceName,
    #[serde(default = "default_k")]
    pub(super) k: u32,
    #[serde(default = "default_most_steps")]
    pub(super) most_steps: u32,
    #[serde(default = "default_title_separator")]
    pub(super) title_separator: String,
    #[serde(default)]
    pub(super) decomposition_prompt: Option<String>,
    #[serde(default)]
    pub(super) labelling_prompt: Option<String>,
    #[serde(default)]
    pub(super) filtering_prompt: Option<String>,
    #[serde(default = "default_max_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) temperature: f64,
    #[serde(default = "default_attempts")]
    pub(super) attempts: u32,
}

impl AnnotationParameters {
    /// The most requests for one text. A greedy text is requested once, since it would be the same again.
    pub(super) fn most_draws(&self) -> u32 {
        if self.temperature > 0.0 { self.attempts } else { 1 }
    }
}

fn default_k() -> u32 {
    10
}

fn default_most_steps() -> u32 {
    8
}

fn default_title_separator() -> String {
    ": ".to_owned()
}

fn default_max_tokens() -> u32 {
    1024
}

fn default_attempts() -> u32 {
    3
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "generator",
        values: "name of a service",
        default: None,
        documentation: "Writes decompositions, copies words, and shortens queries.",
    },
    ParameterInfo {
        name: "retriever",
        values: "name of a service",
        default: None,
        documentation: "Finds the negatives of each hop's query.",
    },
    ParameterInfo {
        name: "k",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "Passages kept for each hop that are not gold; as many more are asked for as are gold.",
    },
    ParameterInfo {
        name: "most_steps",
        values: "integer, at least 1",
        default: Some("8"),
        documentation: "A decomposition into more single-hop questions counts as one that does not parse.",
    },
    ParameterInfo {
        name: "title_separator",
        values: "text",
        default: Some("\": \""),
        documentation: "Stands between a passage's title and text.",
    },
    ParameterInfo {
        name: "decomposition_prompt",
        values: "text with {documents}, {question} and perhaps {evidence}, or nothing for the project's own",
        default: Some("null"),
        documentation: "Asks for JSON with the key \"decomposed_questions\".",
    },
    ParameterInfo {
        name: "labelling_prompt",
        values: "text with {passage}, {question} and {answer}, or nothing for the project's own",
        default: Some("null"),
        documentation: "Asks for JSON with the key \"extracted_words\".",
    },
    ParameterInfo {
        name: "filtering_prompt",
        values: "text with {question} and {information}, or nothing for the project's own",
        default: Some("null"),
        documentation: "Asks for JSON with the key \"filtered_query\".",
    },
    ParameterInfo {
        name: "max_tokens",
        values: "integer, at least 1",
        default: Some("1024"),
        documentation: "Most tokens that the generator writes.",
    },
    ParameterInfo {
        name: "temperature",
        values: "number, 0 for greedy",
        default: Some("0.0"),
        documentation: "The generator's.",
    },
    ParameterInfo {
        name: "attempts",
        values: "integer, at least 1",
        default: Some("3"),
        documentation: "Samples drawn until one parses; a greedy text is asked for once.",
    },
];
