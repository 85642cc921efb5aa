//! The parameters of `iter_retgen`, with the paper's behaviour as defaults.

use crate::passage_lines::ChunkForm;
use crate::registry::ParameterInfo;
use crate::reply_prompt::JsonRule;
use crate::request::ServiceName;
use crate::sampling::TemperatureChoice;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IterRetGenParameters {
    pub(super) retriever: ServiceName,
    pub(super) generator: ServiceName,
    #[serde(default = "default_k")]
    pub(super) k: u32,
    #[serde(default = "default_iterations")]
    pub(super) iterations: u32,
    #[serde(default)]
    pub(super) form: ReplyForm,
    #[serde(default)]
    pub(super) query_part: GenerationPart,
    #[serde(default)]
    pub(super) query_order: QueryOrder,
    #[serde(default)]
    pub(super) chunk: ChunkForm,
    #[serde(default = "default_title_separator")]
    pub(super) title_separator: String,
    #[serde(default)]
    pub(super) context_tokens: Option<u32>,
    #[serde(default)]
    pub(super) system: Option<String>,
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

/// The form of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReplyForm {
    #[default]
    Text,
    Json,
}

/// The part of a generation that is in the next query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GenerationPart {
    #[default]
    Generation,
    Thought,
    Answer,
}

/// The order of question and generation in a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum QueryOrder {
    #[default]
    #[serde(rename = "question+generation")]
    QuestionFirst,
    #[serde(rename = "generation+question")]
    GenerationFirst,
}

fn default_k() -> u32 {
    5
}

fn default_iterations() -> u32 {
    2
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
        name: "retriever",
        values: "name of a service",
        default: None,
        documentation: "Finds the passages of each iteration.",
    },
    ParameterInfo {
        name: "generator",
        values: "name of a service",
        default: None,
        documentation: "Writes a chain of thought and the answer in each iteration.",
    },
    ParameterInfo {
        name: "k",
        values: "integer, at least 1",
        default: Some("5"),
        documentation: "Passages of an iteration; they replace those of the last one. The code has 10.",
    },
    ParameterInfo {
        name: "iterations",
        values: "integer, at least 1",
        default: Some("2"),
        documentation: "Iterations; the code has 3.",
    },
    ParameterInfo {
        name: "form",
        values: "\"text\" or \"json\"",
        default: Some("\"text\""),
        documentation: "A chain of thought with the answer behind it, or JSON with `thought` and `answer` as the code.",
    },
    ParameterInfo {
        name: "query_part",
        values: "\"generation\", \"thought\" or \"answer\"",
        default: Some("\"generation\""),
        documentation: "What of the last generation is in the next query; the code has its thought alone.",
    },
    ParameterInfo {
        name: "query_order",
        values: "\"question+generation\" or \"generation+question\"",
        default: Some("\"question+generation\""),
        documentation: "The order of the two in a query.",
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
        documentation: "Most tokens of the prompt; passages are cut, the last ones first.",
    },
    ParameterInfo {
        name: "system",
        values: "text, or nothing",
        default: Some("null"),
        documentation: "The system's message; the code has one.",
    },
    ParameterInfo {
        name: "prompt",
        values: "text with {knowledge} and {question}, or nothing for the project's own of the form",
        default: Some("null"),
        documentation: "What the generator is asked.",
    },
    ParameterInfo {
        name: "max_tokens",
        values: "integer, at least 1",
        default: Some("256"),
        documentation: "Most tokens of a generation; the code sets no bound.",
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
        documentation: "With `form = \"json\"`, whether the service must promise JSON; the prompt asks for it anyway.",
    },
];
