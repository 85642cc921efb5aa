//! The parameters of `efficientrag`, with the paper's behaviour as defaults.

use super::bad_value;
use crate::machine::MethodError;
use crate::passage_lines::ChunkForm;
use crate::prompt::PassageForm;
use crate::registry::ParameterInfo;
use crate::reply_prompt::{JsonRule, own_system};
use crate::request::{ServiceName, SpanText};
use crate::sampling::TemperatureChoice;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EfficientRagParameters {
    pub(super) retriever: ServiceName,
    pub(super) labeler: ServiceName,
    pub(super) filter: ServiceName,
    #[serde(default)]
    pub(super) reader: Option<ServiceName>,
    #[serde(default)]
    pub(super) generator: Option<ServiceName>,
    #[serde(default = "default_k")]
    pub(super) k: u32,
    #[serde(default = "default_max_iterations")]
    pub(super) max_iterations: u32,
    #[serde(default = "default_tags")]
    pub(super) tags: u32,
    #[serde(default)]
    pub(super) label_query: QuerySource,
    #[serde(default)]
    pub(super) filter_query: QuerySource,
    #[serde(default)]
    pub(super) exclude_seen: bool,
    #[serde(default)]
    pub(super) stop_on_repeated_query: bool,
    #[serde(default)]
    pub(super) empty_query: EmptyQuery,
    #[serde(default)]
    pub(super) pool: PoolMembers,
    #[serde(default)]
    pub(super) order: PoolOrder,
    #[serde(default)]
    pub(super) chunk: ChunkForm,
    #[serde(default = "default_title_separator")]
    pub(super) title_separator: String,
    #[serde(default)]
    pub(super) read_passages: Option<u32>,
    #[serde(default)]
    pub(super) read_repeats: bool,
    #[serde(default)]
    pub(super) context_tokens: Option<u32>,
    #[serde(default = "default_yes_no")]
    pub(super) yes_no: bool,
    #[serde(default = "default_max_answer_tokens")]
    pub(super) max_answer_tokens: u32,
    #[serde(default)]
    pub(super) span_text: SpanText,
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
    #[serde(default = "default_json")]
    pub(super) json: bool,
}

/// The query shown to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QuerySource {
    #[default]
    Current,
    Original,
}

/// The step after an empty next query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EmptyQuery {
    #[default]
    Stop,
    Retrieve,
}

/// The chunks to rank and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PoolMembers {
    #[default]
    Kept,
    All,
}

/// The order of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PoolOrder {
    #[default]
    Found,
    Tag,
}

fn default_k() -> u32 {
    10
}

fn default_max_iterations() -> u32 {
    4
}

fn default_tags() -> u32 {
    2
}

fn default_title_separator() -> String {
    ": ".to_owned()
}

fn default_yes_no() -> bool {
    true
}

fn default_max_answer_tokens() -> u32 {
    30
}

fn default_max_tokens() -> u32 {
    256
}

fn default_attempts() -> u32 {
    3
}

fn default_json() -> bool {
    true
}

impl EfficientRagParameters {
    /// The written form of chunks, for every model.
    pub(super) fn chunk_form(&self) -> PassageForm {
        self.chunk.passage_form(&self.title_separator)
    }

    /// Refuses values for a generator or a reader where there is none: the points of a sweep over them would be equal.
    /// `as` sets the code's `system`, `temperature`, `answer_json` and `json`, also where a job has no generator.
    pub(super) fn check_new(&self) -> Result<(), MethodError> {
        let text = |value: Option<&str>| value.map(|text| serde_json::json!(text).to_string());
        let number = |value: u32, default: u32| (value != default).then(|| value.to_string());
        let of_generator = [
            ("system", text(own_system(self.system.as_deref()))),
            ("prompt", text(self.prompt.as_deref())),
            ("max_tokens", number(self.max_tokens, default_max_tokens())),
            ("attempts", number(self.attempts, default_attempts())),
        ];
        let of_reader = [("max_answer_tokens", number(self.max_answer_tokens, default_max_answer_tokens()))];
        let roles = [
            (&self.generator, &of_generator[..], "has no effect without a `generator`: name one, or leave this out"),
            (&self.reader, &of_reader[..], "has no effect without a `reader`: name one, or leave this out"),
        ];
        for (service, values, allowed) in roles {
            let set = values.iter().find_map(|(parameter, found)| Some((*parameter, found.as_ref()?)));
            if let (None, Some((parameter, found))) = (service, set) {
                return Err(bad_value(parameter, found, allowed));
            }
        }
        Ok(())
    }
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "retriever",
        values: "name of a retriever",
        default: None,
        documentation: "Finds chunks: a dense retriever in the paper (Contriever).",
    },
    ParameterInfo {
        name: "labeler",
        values: "name of a service",
        default: None,
        documentation: "Tags a chunk and keeps its useful tokens.",
    },
    ParameterInfo {
        name: "filter",
        values: "name of a service",
        default: None,
        documentation: "Makes the next query.",
    },
    ParameterInfo {
        name: "reader",
        values: "name of an extractive reader, or nothing",
        default: Some("null"),
        documentation: "Answers with a span of the chunks; without reader and generator there is no answer.",
    },
    ParameterInfo {
        name: "generator",
        values: "name of a language model, or nothing",
        default: Some("null"),
        documentation: "Writes the answer, as in the paper.",
    },
    ParameterInfo {
        name: "k",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "Chunks retrieved in each iteration.",
    },
    ParameterInfo {
        name: "max_iterations",
        values: "integer, at least 1",
        default: Some("4"),
        documentation: "Most iterations (the code's 4; the paper does not say).",
    },
    ParameterInfo {
        name: "tags",
        values: "2 or 3",
        default: Some("2"),
        documentation: "Tags of the labeler's checkpoint: with 3, <FINISH> keeps a chunk and ends its branch.",
    },
    ParameterInfo {
        name: "label_query",
        values: "\"current\" or \"original\"",
        default: Some("\"current\""),
        documentation: "Which query chunks are labelled for.",
    },
    ParameterInfo {
        name: "filter_query",
        values: "\"current\" or \"original\"",
        default: Some("\"current\""),
        documentation: "Which query the filter rewrites: the current one (section 3.1, code) or the question (figure \
                        3).",
    },
    ParameterInfo {
        name: "exclude_seen",
        values: "boolean",
        default: Some("false"),
        documentation: "Whether chunks labelled in an earlier iteration are passed over for the next best ones.",
    },
    ParameterInfo {
        name: "stop_on_repeated_query",
        values: "boolean",
        default: Some("false"),
        documentation: "Whether a query that was already asked ends the loop.",
    },
    ParameterInfo {
        name: "empty_query",
        values: "\"stop\" or \"retrieve\"",
        default: Some("\"stop\""),
        documentation: "What a next query without a word leads to; the code retrieves with it.",
    },
    ParameterInfo {
        name: "pool",
        values: "\"kept\" or \"all\"",
        default: Some("\"kept\""),
        documentation: "Whether terminated chunks are ranked and read too, after the kept ones.",
    },
    ParameterInfo {
        name: "order",
        values: "\"found\" or \"tag\"",
        default: Some("\"found\""),
        documentation: "Ranks by iteration and retrieval, or by the tag's logit less that of <TERMINATE>.",
    },
    ParameterInfo {
        name: "chunk",
        values: "\"title+text\" or \"text\"",
        default: Some("\"title+text\""),
        documentation: "What models see of a chunk.",
    },
    ParameterInfo {
        name: "title_separator",
        values: "text",
        default: Some("\": \""),
        documentation: "Stands between title and text.",
    },
    ParameterInfo {
        name: "read_passages",
        values: "integer, or nothing for all",
        default: Some("null"),
        documentation: "Passages read for the answer, the best ones.",
    },
    ParameterInfo {
        name: "read_repeats",
        values: "boolean",
        default: Some("false"),
        documentation: "A chunk that several iterations kept is read as often, in the order of the iterations, as in \
                        the authors' code; `pool` and `order` do not matter then.",
    },
    ParameterInfo {
        name: "context_tokens",
        values: "integer, or nothing for what the model takes",
        default: Some("null"),
        documentation: "Most tokens of the reader's context or the generator's prompt; passages are cut, the last \
                        ones first.",
    },
    ParameterInfo {
        name: "yes_no",
        values: "boolean",
        default: Some("true"),
        documentation: "Whether the extractive reader's context begins with yes and no, as in MDR's reader.",
    },
    ParameterInfo {
        name: "max_answer_tokens",
        values: "integer, at least 1",
        default: Some("30"),
        documentation: "Longest span of the extractive reader.",
    },
    ParameterInfo {
        name: "span_text",
        values: "\"tokens\", \"words\" or \"final_text\"",
        default: Some("\"tokens\""),
        documentation: "Whether an answer is its tokens' characters, their whole words, or what MDR's script makes of \
                        them.",
    },
    ParameterInfo {
        name: "system",
        values: "text, or nothing for no system message",
        default: Some("null"),
        documentation: "The system's message to the generator; the code has one.",
    },
    ParameterInfo {
        name: "prompt",
        values: "text with {knowledge} and {question}, or nothing for the project's own",
        default: Some("null"),
        documentation: "What the generator is asked; its answer is JSON with the key \"answer\".",
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
        documentation: "Samples drawn until one parses; a greedy text is asked for once.",
    },
    ParameterInfo {
        name: "answer_json",
        values: "\"object\" or \"braces\"",
        default: Some("\"object\""),
        documentation: "Takes the first JSON object, or, as the code, what the first braces hold, nested ones cut.",
    },
    ParameterInfo {
        name: "json",
        values: "boolean",
        default: Some("true"),
        documentation: "Whether the generator is asked to promise JSON (`response_format`); the code does not.",
    },
];

#[cfg(test)]
mod tests {
    use crate::machine::MethodSetting;
    use crate::methods::efficientrag::KIND;
    use crate::registry::{build_method, resolve_parameters};
    use serde_json::{Value, json};

    /// The refusal of these parameters in a new job, if they are refused. A stored run has them.
    fn refusal(more: &Value) -> Option<String> {
        let mut all = json!({"retriever": "r", "labeler": "l", "filter": "f"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let setting = MethodSetting::of_corpus(10);
        let resolved = resolve_parameters(KIND, &all, &setting).unwrap();
        build_method(KIND, &resolved, &setting).unwrap().check_new().err().map(|error| error.to_string())
    }

    #[test]
    fn values_for_who_answers_need_one() {
        let of_generator = [
            ("system", json!("Be brief.")),
            ("prompt", json!("{knowledge} {question}")),
            ("max_tokens", json!(24)),
            ("attempts", json!(1)),
        ];
        for (parameter, value) in &of_generator {
            for service in ["reader", "generator"] {
                let said = refusal(&json!({service: "s", *parameter: value}));
                let expected = format!("`{parameter}` = {value}: has no effect without a `generator`");
                assert_eq!(said.is_none(), service == "generator", "{parameter} with a {service}: {said:?}");
                assert!(said.is_none_or(|said| said.contains(&expected)), "{parameter}");
            }
        }
        let said = refusal(&json!({"generator": "g", "max_answer_tokens": 5})).unwrap();
        assert!(said.contains("`max_answer_tokens` = 5: has no effect without a `reader`"), "{said}");
        let fine = [
            json!({}),
            json!({"as": "code"}),
            json!({"as": "code", "reader": "r", "max_answer_tokens": 5}),
            json!({"as": "code", "generator": "g", "max_tokens": 24}),
        ];
        for parameters in fine {
            assert_eq!(refusal(&parameters), None, "{parameters}");
        }
    }
}
