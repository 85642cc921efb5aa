//! The parameters of `decompose`.

use crate::passage_lines::ChunkForm;
use crate::registry::ParameterInfo;
use crate::reply_prompt::JsonRule;
use crate::request::ServiceName;
use crate::sampling::TemperatureChoice;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecomposeParameters {
    pub(super) generator: ServiceName,
    pub(super) retriever: ServiceName,
    #[serde(default)]
    pub(super) mode: DecomposeMode,
    #[serde(default = "default_k")]
    pub(super) k: u32,
    #[serde(default = "default_most_questions")]
    pub(super) most_questions: u32,
    #[serde(default)]
    pub(super) chunk: ChunkForm,
    #[serde(default = "default_title_separator")]
    pub(super) title_separator: String,
    #[serde(default)]
    pub(super) context_tokens: Option<u32>,
    #[serde(default)]
    pub(super) system: Option<String>,
    #[serde(default)]
    pub(super) decomposition_prompt: Option<String>,
    #[serde(default)]
    pub(super) prompt: Option<String>,
    #[serde(default = "default_max_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) temperature: TemperatureChoice,
    #[serde(default = "default_attempts")]
    pub(super) attempts: u32,
    #[serde(default)]
    pub(super) answer_json: JsonRule,
    #[serde(default)]
    pub(super) json: bool,
}

/// The order in which single-hop questions are worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DecomposeMode {
    #[default]
    Parallel,
    Sequential,
}

fn default_k() -> u32 {
    10
}

fn default_most_questions() -> u32 {
    10
}

fn default_title_separator() -> String {
    ": ".to_owned()
}

fn default_max_tokens() -> u32 {
    256
}

fn default_attempts() -> u32 {
    3
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "generator",
        values: "name of a service",
        default: None,
        documentation: "Lists the single-hop questions, and answers.",
    },
    ParameterInfo {
        name: "retriever",
        values: "name of a service",
        default: None,
        documentation: "Finds passages for each single-hop question.",
    },
    ParameterInfo {
        name: "mode",
        values: "\"parallel\" or \"sequential\"",
        default: Some("\"parallel\""),
        documentation: "All single-hop questions beside each other, or one after the other with their answers.",
    },
    ParameterInfo {
        name: "k",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "Passages retrieved for each single-hop question.",
    },
    ParameterInfo {
        name: "most_questions",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "Single-hop questions used, the first ones.",
    },
    ParameterInfo {
        name: "chunk",
        values: "\"title+text\" or \"text\"",
        default: Some("\"title+text\""),
        documentation: "What the generator sees of a passage.",
    },
    ParameterInfo {
        name: "title_separator",
        values: "text",
        default: Some("\": \""),
        documentation: "Stands between title and text.",
    },
    ParameterInfo {
        name: "context_tokens",
        values: "integer, or nothing for what the model takes",
        default: Some("null"),
        documentation: "Most tokens of a prompt with passages; they are cut, the last ones first.",
    },
    ParameterInfo {
        name: "system",
        values: "text, or nothing",
        default: Some("null"),
        documentation: "The system's message, of the decomposition and of the reader; the code has one.",
    },
    ParameterInfo {
        name: "decomposition_prompt",
        values: "text with {question}, or nothing for the project's own of the mode",
        default: Some("null"),
        documentation: "Asks for JSON with the key \"decomposed_questions\".",
    },
    ParameterInfo {
        name: "prompt",
        values: "text with {knowledge} and {question}, in the sequential mode also {answered}, or nothing",
        default: Some("null"),
        documentation: "Asks for JSON with the key \"answer\".",
    },
    ParameterInfo {
        name: "max_tokens",
        values: "integer, at least 1",
        default: Some("256"),
        documentation: "Most tokens that the generator writes; the code sets no bound.",
    },
    ParameterInfo {
        name: "temperature",
        values: "number, 0 for greedy, or \"server\"",
        default: Some("0.0"),
        documentation: "The generator's; the code leaves it to the server.",
    },
    ParameterInfo {
        name: "attempts",
        values: "integer, at least 1",
        default: Some("3"),
        documentation: "Samples drawn until one has the JSON; a greedy one is drawn once.",
    },
    ParameterInfo {
        name: "answer_json",
        values: "\"object\" or \"braces\"",
        default: Some("\"object\""),
        documentation: "Takes the first JSON object, or, as the code, what the first braces hold, nested ones cut.",
    },
    ParameterInfo {
        name: "json",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether the service must promise JSON; the prompt asks for it anyway.",
    },
];
