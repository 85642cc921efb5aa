//! The parameters of `self_ask`, with the paper's behaviour as defaults.

use super::KIND;
use crate::machine::MethodError;
use crate::passage_lines::ChunkForm;
use crate::registry::ParameterInfo;
use crate::reply_prompt::{JsonRule, own_system};
use crate::request::ServiceName;
use crate::sampling::TemperatureChoice;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelfAskParameters {
    pub(super) generator: ServiceName,
    pub(super) retriever: ServiceName,
    #[serde(default)]
    pub(super) reader: Option<ServiceName>,
    #[serde(default)]
    pub(super) evidence: Evidence,
    #[serde(default = "default_k")]
    pub(super) k: u32,
    #[serde(default = "default_most_follow_ups")]
    pub(super) most_follow_ups: u32,
    #[serde(default = "default_snippet_sentences")]
    pub(super) snippet_sentences: u32,
    #[serde(default)]
    pub(super) first_retrieval: bool,
    #[serde(default)]
    pub(super) shown: ShownDocuments,
    #[serde(default)]
    pub(super) stops: StopHandling,
    #[serde(default)]
    pub(super) extraction: ExtractionRule,
    #[serde(default)]
    pub(super) last_text: LastText,
    #[serde(default = "default_final_marker")]
    pub(super) final_marker: String,
    #[serde(default)]
    pub(super) chunk: ChunkForm,
    #[serde(default = "default_title_separator")]
    pub(super) title_separator: String,
    #[serde(default)]
    pub(super) context_tokens: Option<u32>,
    #[serde(default)]
    pub(super) prompt: Option<String>,
    #[serde(default)]
    pub(super) system: Option<String>,
    #[serde(default)]
    pub(super) reader_prompt: Option<String>,
    #[serde(default = "default_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default = "default_tokens")]
    pub(super) reader_tokens: u32,
    #[serde(default)]
    pub(super) temperature: TemperatureChoice,
    #[serde(default = "default_attempts")]
    pub(super) attempts: u32,
    #[serde(default)]
    pub(super) answer_json: JsonRule,
    #[serde(default)]
    pub(super) json: bool,
}

/// The way of what is retrieved into the model's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Evidence {
    #[default]
    Snippet,
    Documents,
    Reader,
}

/// The documents in front of the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShownDocuments {
    #[default]
    All,
    Newest,
}

/// The party that ends texts at stop strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StopHandling {
    #[default]
    Sent,
    Cut,
}

/// The place of a question or an answer in the model's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExtractionRule {
    #[default]
    Marker,
    LastColon,
}

/// The fate of the text before a forced ending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LastText {
    #[default]
    Kept,
    Dropped,
}

fn default_k() -> u32 {
    10
}

fn default_most_follow_ups() -> u32 {
    10
}

fn default_snippet_sentences() -> u32 {
    2
}

fn default_final_marker() -> String {
    "\nSo the final answer is:".to_owned()
}

fn default_title_separator() -> String {
    ": ".to_owned()
}

fn default_tokens() -> u32 {
    256
}

fn default_attempts() -> u32 {
    3
}

impl SelfAskParameters {
    /// Refuses words for the reader where there is none: the points of a sweep over them would be equal. `as` sets the
    /// code's `system`, also where a job has another `evidence`.
    pub(super) fn check_new(&self) -> Result<(), MethodError> {
        if self.evidence == Evidence::Reader {
            return Ok(());
        }
        let system = own_system(self.system.as_deref());
        let unused = [("system", system), ("reader_prompt", self.reader_prompt.as_deref())];
        match unused.into_iter().find_map(|(parameter, found)| Some((parameter, found?))) {
            None => Ok(()),
            Some((parameter, found)) => {
                let found = serde_json::json!(found).to_string();
                let allowed = "has no effect without `evidence = \"reader\"`: set that, or leave this out";
                Err(MethodError::Value { kind: KIND, parameter, found, allowed })
            }
        }
    }
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "generator",
        values: "name of a service",
        default: None,
        documentation: "Writes follow-up questions and the final answer; it must continue its own text.",
    },
    ParameterInfo {
        name: "retriever",
        values: "name of a service",
        default: None,
        documentation: "Finds passages for each follow-up question.",
    },
    ParameterInfo {
        name: "reader",
        values: "name of a service, or nothing for the generator",
        default: Some("null"),
        documentation: "Answers follow-up questions with `evidence = \"reader\"`.",
    },
    ParameterInfo {
        name: "evidence",
        values: "\"snippet\", \"documents\" or \"reader\"",
        default: Some("\"snippet\""),
        documentation: "What comes of the passages: the intermediate answer, documents before the question, or a \
                        reader's answer as in the code.",
    },
    ParameterInfo {
        name: "k",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "Passages retrieved for each follow-up question.",
    },
    ParameterInfo {
        name: "most_follow_ups",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "Follow-up questions before the ending is forced; the code has 5, the paper no bound.",
    },
    ParameterInfo {
        name: "snippet_sentences",
        values: "integer, at least 1",
        default: Some("2"),
        documentation: "Sentences of the best passage that are a snippet.",
    },
    ParameterInfo {
        name: "first_retrieval",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether documents for the question itself stand before the first text.",
    },
    ParameterInfo {
        name: "shown",
        values: "\"all\" or \"newest\"",
        default: Some("\"all\""),
        documentation: "The documents before the question: the newest first and then the earlier ones, or the newest.",
    },
    ParameterInfo {
        name: "stops",
        values: "\"sent\" or \"cut\"",
        default: Some("\"sent\""),
        documentation: "Whether stop strings are sent, or, as in the code, texts are cut at them and those without one \
                        are drawn again.",
    },
    ParameterInfo {
        name: "extraction",
        values: "\"marker\" or \"last_colon\"",
        default: Some("\"marker\""),
        documentation: "Questions and answers stand behind their marker, or, as in the code, behind the last colon.",
    },
    ParameterInfo {
        name: "last_text",
        values: "\"kept\" or \"dropped\"",
        default: Some("\"kept\""),
        documentation: "Whether the text before a forced ending stays in the prompt; in the code it does not.",
    },
    ParameterInfo {
        name: "final_marker",
        values: "text",
        default: Some("\"\\nSo the final answer is:\""),
        documentation: "Stands before the final answer; the code's has no line break.",
    },
    ParameterInfo {
        name: "chunk",
        values: "\"title+text\" or \"text\"",
        default: Some("\"title+text\""),
        documentation: "What models see of a passage.",
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
        name: "prompt",
        values: "text with {question}, with documents also {knowledge}, or nothing for the project's own",
        default: Some("null"),
        documentation: "Stands before the model's text, which begins with `Are follow up questions needed here:`.",
    },
    ParameterInfo {
        name: "system",
        values: "text, or nothing",
        default: Some("null"),
        documentation: "The system's message to the reader, with `evidence = \"reader\"`; the code has one.",
    },
    ParameterInfo {
        name: "reader_prompt",
        values: "text with {knowledge} and {question}, or nothing for the project's own",
        default: Some("null"),
        documentation: "Asks the reader for JSON with the key \"answer\", with `evidence = \"reader\"`.",
    },
    ParameterInfo {
        name: "max_tokens",
        values: "integer, at least 1",
        default: Some("256"),
        documentation: "Most tokens of a piece of the model's text; the code has 100.",
    },
    ParameterInfo {
        name: "reader_tokens",
        values: "integer, at least 1",
        default: Some("256"),
        documentation: "Most tokens of the reader's reply; the code sets no bound.",
    },
    ParameterInfo {
        name: "temperature",
        values: "number, 0 for greedy, or \"server\"",
        default: Some("0.0"),
        documentation: "The models'; the code leaves it to the server.",
    },
    ParameterInfo {
        name: "attempts",
        values: "integer, at least 1",
        default: Some("3"),
        documentation: "Samples drawn until one can be used; a greedy one is drawn once.",
    },
    ParameterInfo {
        name: "answer_json",
        values: "\"object\" or \"braces\"",
        default: Some("\"object\""),
        documentation: "Takes the reader's first JSON object, or, as the code, what the first braces hold.",
    },
    ParameterInfo {
        name: "json",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether the reader must promise JSON; the prompt asks for it anyway.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MethodSetting;
    use crate::registry::{build_method, resolve_parameters};
    use serde_json::{Value, json};

    /// The refusal of these parameters in a new job, if they are refused. A stored run has them.
    fn refusal(more: &Value) -> Option<String> {
        let mut all = json!({"generator": "g", "retriever": "r"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let setting = MethodSetting::of_corpus(10);
        build_method(KIND, &resolve_parameters(KIND, &all, &setting).unwrap(), &setting)
            .unwrap()
            .check_new()
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn words_for_the_reader_need_one() {
        for (parameter, value) in [("system", "Be brief."), ("reader_prompt", "{knowledge} {question}")] {
            for evidence in ["snippet", "documents", "reader"] {
                let said = refusal(&json!({"evidence": evidence, parameter: value}));
                assert_eq!(said.is_none(), evidence == "reader", "{parameter} with {evidence}: {said:?}");
                let expected = format!("`{parameter}` = \"{value}\": has no effect without `evidence = \"reader\"`");
                assert!(said.is_none_or(|said| said.contains(&expected)), "{parameter}");
            }
        }
        for fine in [json!({}), json!({"as": "code"}), json!({"as": "code", "evidence": "documents"})] {
            assert_eq!(refusal(&fine), None, "{fine}");
        }
    }
}
