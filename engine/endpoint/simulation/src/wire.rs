//! The bodies of requests, as OpenAI's and vLLM's servers take them.

use serde::Deserialize;
use serde_json::Value;

use crate::answering::AnswerFormat;
use crate::tokens::text_of;

/// The body of `/v1/chat/completions` and `/v1/completions`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GenerateBody {
    pub(crate) model: Option<String>,
    pub(crate) messages: Option<Vec<ChatMessage>>,
    pub(crate) prompt: Option<PromptField>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_completion_tokens: Option<u64>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<i64>,
    pub(crate) n: Option<usize>,
    pub(crate) stop: Option<OneOrMore>,
    pub(crate) seed: Option<i64>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    /// `true` in chat, the number of alternatives in completions.
    pub(crate) logprobs: Option<Value>,
    pub(crate) top_logprobs: Option<usize>,
    pub(crate) prompt_logprobs: Option<usize>,
    pub(crate) echo: Option<bool>,
    pub(crate) response_format: Option<Value>,
}

/// The names that [`GenerateBody`] knows, and those that are accepted and change nothing.
pub(crate) const GENERATE_FIELDS: [&str; 34] = [
    "model",
    "messages",
    "prompt",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "n",
    "stop",
    "seed",
    "stream",
    "stream_options",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "echo",
    "response_format",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "user",
    "metadata",
    "store",
    "service_tier",
    "reasoning_effort",
    "min_tokens",
    "min_p",
    "best_of",
    "suffix",
    "continue_final_message",
    "add_generation_prompt",
    "chat_template_kwargs",
];

/// A message of a chat.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatMessage {
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) content: Option<ContentField>,
}

/// A message's text, whole or in parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ContentField {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A part of a message. Parts that are not text have none.
#[derive(Debug, Deserialize)]
pub(crate) struct ContentPart {
    #[serde(default)]
    pub(crate) text: String,
}

/// A prompt or several, as text or as numbers of tokens.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum PromptField {
    Text(String),
    Numbers(Vec<u32>),
    Texts(Vec<String>),
    ManyNumbers(Vec<Vec<u32>>),
}

/// A text or a list of texts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// Options of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StreamOptions {
    pub(crate) include_usage: bool,
}

/// The body of `/v1/embeddings`.
#[derive(Debug, Deserialize)]
pub(crate) struct EmbedBody {
    pub(crate) model: Option<String>,
    pub(crate) input: PromptField,
    #[serde(default)]
    pub(crate) dimensions: Option<usize>,
}

/// The body of `/v1/rerank`.
#[derive(Debug, Deserialize)]
pub(crate) struct RerankBody {
    pub(crate) model: Option<String>,
    pub(crate) query: String,
    pub(crate) documents: Vec<DocumentField>,
    #[serde(default)]
    pub(crate) top_n: Option<usize>,
    #[serde(default)]
    pub(crate) return_documents: Option<bool>,
}

/// A document, by itself or as an object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum DocumentField {
    Text(String),
    Object { text: String },
}

/// The body of `/tokenize`.
#[derive(Debug, Deserialize)]
pub(crate) struct TokenizeBody {
    #[serde(default)]
    pub(crate) prompt: Option<String>,
    /// llama.cpp's name.
    #[serde(default)]
    pub(crate) content: Option<String>,
    #[serde(default)]
    pub(crate) messages: Option<Vec<ChatMessage>>,
    #[serde(default)]
    pub(crate) return_token_strs: Option<bool>,
}

/// The body of `/detokenize`.
#[derive(Debug, Deserialize)]
pub(crate) struct DetokenizeBody {
    pub(crate) tokens: Vec<u32>,
}

impl ContentField {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().map(|part| part.text).collect::<Vec<_>>().join("\n"),
        }
    }
}

impl DocumentField {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Object { text } => text,
        }
    }
}

impl OneOrMore {
    pub(crate) fn into_list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        }
    }
}

impl PromptField {
    /// The texts.
    ///
    /// # Errors
    /// The first number that is no token's.
    pub(crate) fn into_texts(self) -> Result<Vec<String>, u32> {
        match self {
            Self::Text(text) => Ok(vec![text]),
            Self::Texts(texts) => Ok(texts),
            Self::Numbers(numbers) => Ok(vec![text_of(&numbers)?]),
            Self::ManyNumbers(many) => many.iter().map(|numbers| text_of(numbers)).collect(),
        }
    }
}

/// The words of a chat, one message after the other, and whether the last one is the assistant's.
pub(crate) fn chat_text(messages: Vec<ChatMessage>) -> (String, bool) {
    let is_continued = messages.last().is_some_and(|message| message.role == "assistant");
    let texts = messages.into_iter().map(|message| message.content.map(ContentField::into_text).unwrap_or_default());
    (texts.collect::<Vec<_>>().join("\n"), is_continued)
}

/// The format of a `response_format`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn answer_format(field: Option<Value>) -> Result<AnswerFormat, &'static str> {
    let Some(mut field) = field else { return Ok(AnswerFormat::Text) };
    match field["type"].as_str() {
        Some("text") => Ok(AnswerFormat::Text),
        Some("json_object") => Ok(AnswerFormat::Json),
        Some("json_schema") => match field.pointer_mut("/json_schema/schema").map(Value::take) {
            Some(schema @ Value::Object(_)) => Ok(AnswerFormat::Schema(schema)),
            _ => Err("`response_format.json_schema.schema` is missing or no object"),
        },
        _ => Err("`response_format.type` must be `text`, `json_object` or `json_schema`"),
    }
}
