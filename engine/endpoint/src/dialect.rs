//! Dialects: facts about servers that speak OpenAI's HTTP API, as one table.
//!
//! A dialect is data: a new server is a line of [`FACTS`]. Facts are what the server's documentation or code promises;
//! [`crate::probe`] asks a server itself.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The server's dialect of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointDialect {
    /// api.openai.com, and servers that copy it exactly.
    #[default]
    #[serde(rename = "openai")]
    OpenAi,
    /// Azure OpenAI: another header for the key, and deployments in the path.
    Azure,
    /// vLLM's `vllm serve`.
    Vllm,
    /// SGLang's server.
    Sglang,
    /// llama.cpp's `llama-server`.
    LlamaCpp,
    /// Text Generation Inference.
    Tgi,
    /// Text Embeddings Inference.
    Tei,
    /// Ollama's `/v1`.
    Ollama,
    /// `transformers serve`.
    TransformersServe,
    /// The LiteLLM proxy.
    #[serde(rename = "litellm")]
    LiteLlm,
}

/// The header with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `api-key: KEY`.
    ApiKey,
}

/// The way a trailing assistant message is continued instead of answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinueForm {
    /// Not at all: the server begins a new message.
    Absent,
    /// By `continue_final_message` and `add_generation_prompt`.
    Fields,
    /// Always, without a field.
    Implicit,
}

/// The form of `response_format` with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaForm {
    /// None: no schema is promised.
    Absent,
    /// `{"type": "json_schema", "json_schema": {"name", "strict", "schema"}}`.
    JsonSchema,
}

/// The source of a given text's log-probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreForm {
    /// Completions with `echo` and `logprobs`.
    Echo,
    /// Completions with vLLM's `prompt_logprobs`, which names each token's id.
    PromptLogprobs,
}

/// The form of reranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RerankForm {
    /// None.
    Absent,
    /// `{base}/rerank` with `documents` (Cohere's and Jina's form).
    Documents,
    /// `/rerank` at the server's root with `texts` (Text Embeddings Inference).
    RootTexts,
}

/// The facts about one dialect.
#[derive(Clone, Copy, Debug)]
pub struct DialectFacts {
    /// The dialect.
    pub dialect: EndpointDialect,
    /// Its name in settings.
    pub name: &'static str,
    /// The header with the key.
    pub key_header: KeyHeader,
    /// The field for the most tokens of a chat's answer; completions always call it `max_tokens`.
    pub chat_max_tokens: &'static str,
    /// The field for top-k sampling.
    pub top_k: Option<&'static str>,
    /// The field for the multiplicative repetition penalty.
    pub repetition_penalty: Option<&'static str>,
    /// Whether one call may ask for several choices. Otherwise each choice is a call of its own.
    pub choices: bool,
    /// The most stop strings in a call; more are cut by the client.
    pub most_stops: usize,
    /// Whether tokens' log-probabilities are given.
    pub logprobs: bool,
    /// The continuation of a trailing assistant message.
    pub continues: ContinueForm,
    /// Whether `response_format` `json_object` is known.
    pub json_object: bool,
    /// `response_format` with a schema.
    pub schema: SchemaForm,
    /// Scores of given texts.
    pub scores: Option<ScoreForm>,
    /// Whether a completion's prompt may be token ids.
    pub token_prompts: bool,
    /// Whether texts are generated.
    pub generates: bool,
    /// Whether `{base}/embeddings` exists.
    pub embeds: bool,
    /// Reranking.
    pub reranks: RerankForm,
    /// The field, with its value, that asks for the model's own relevance instead of its logistic function. Thresholds,
    /// as MIGRES's, are of the model's own.
    pub own_relevance: Option<(&'static str, bool)>,
    /// Whether `/tokenize` exists at the server's root.
    pub tokenizes: bool,
}

/// Facts that most servers share.
const USUAL: DialectFacts = DialectFacts {
    dialect: EndpointDialect::OpenAi,
    name: "openai",
    key_header: KeyHeader::Bearer,
    chat_max_tokens: "max_tokens",
    top_k: None,
    repetition_penalty: None,
    choices: true,
    most_stops: 4,
    logprobs: true,
    continues: ContinueForm::Absent,
    json_object: true,
    schema: SchemaForm::JsonSchema,
    scores: None,
    token_prompts: true,
    generates: true,
    embeds: true,
    reranks: RerankForm::Absent,
    own_relevance: None,
    tokenizes: false,
};

/// No bound on stop strings.
const ANY: usize = usize::MAX;

/// Every dialect, in the order of [`EndpointDialect`].
pub const FACTS: [DialectFacts; 10] = [
    DialectFacts { chat_max_tokens: "max_completion_tokens", ..USUAL },
    DialectFacts {
        dialect: EndpointDialect::Azure,
        name: "azure",
        key_header: KeyHeader::ApiKey,
        chat_max_tokens: "max_completion_tokens",
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::Vllm,
        name: "vllm",
        top_k: Some("top_k"),
        repetition_penalty: Some("repetition_penalty"),
        most_stops: ANY,
        continues: ContinueForm::Fields,
        scores: Some(ScoreForm::PromptLogprobs),
        reranks: RerankForm::Documents,
        own_relevance: Some(("use_activation", false)),
        tokenizes: true,
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::Sglang,
        name: "sglang",
        top_k: Some("top_k"),
        repetition_penalty: Some("repetition_penalty"),
        most_stops: ANY,
        continues: ContinueForm::Fields,
        scores: Some(ScoreForm::Echo),
        reranks: RerankForm::Documents,
        tokenizes: true,
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::LlamaCpp,
        name: "llama_cpp",
        top_k: Some("top_k"),
        repetition_penalty: Some("repeat_penalty"),
        choices: false,
        most_stops: ANY,
        continues: ContinueForm::Implicit,
        reranks: RerankForm::Documents,
        tokenizes: true,
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::Tgi,
        name: "tgi",
        choices: false,
        token_prompts: false,
        embeds: false,
        tokenizes: true,
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::Tei,
        name: "tei",
        choices: false,
        logprobs: false,
        json_object: false,
        schema: SchemaForm::Absent,
        token_prompts: false,
        generates: false,
        reranks: RerankForm::RootTexts,
        own_relevance: Some(("raw_scores", true)),
        tokenizes: true,
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::Ollama,
        name: "ollama",
        choices: false,
        most_stops: ANY,
        continues: ContinueForm::Implicit,
        token_prompts: false,
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::TransformersServe,
        name: "transformers_serve",
        choices: false,
        logprobs: false,
        json_object: false,
        schema: SchemaForm::Absent,
        token_prompts: false,
        embeds: false,
        ..USUAL
    },
    DialectFacts {
        dialect: EndpointDialect::LiteLlm,
        name: "litellm",
        top_k: Some("top_k"),
        token_prompts: false,
        reranks: RerankForm::Documents,
        ..USUAL
    },
];

impl EndpointDialect {
    /// The facts about it.
    pub fn facts(self) -> &'static DialectFacts {
        &FACTS[self as usize]
    }
}

impl fmt::Display for EndpointDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_its_line_and_name() {
        for (place, facts) in FACTS.iter().enumerate() {
            assert_eq!(facts.dialect as usize, place, "{}", facts.name);
            let written = serde_json::to_value(facts.dialect).unwrap();
            assert_eq!(written, facts.name, "settings and messages use one name");
            assert_eq!(serde_json::from_value::<EndpointDialect>(written).unwrap(), facts.dialect);
            assert_eq!(facts.dialect.to_string(), facts.name);
        }
    }
}
