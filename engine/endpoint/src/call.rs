//! Calls of an endpoint: plain data, one struct for each kind.

use crate::text::PromptText;

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointCall {
    /// Writes texts.
    Generate(GenerateCall),
    /// Scores a given text.
    Score(ScoreCall),
    /// Embeds texts.
    Embed(EmbedCall),
    /// Ranks texts by their relevance to a query.
    Rerank(RerankCall),
    /// Finds passages in the server's own index.
    Retrieve(RetrieveCall),
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the API's own names")]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

impl ChatRole {
    /// The name in bodies.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// The role.
    pub role: ChatRole,
    /// The text.
    pub text: PromptText,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptInput {
    /// Messages, for `api = "chat"`. A trailing assistant message is continued.
    Messages(Vec<ChatMessage>),
    /// One text, for `api = "completions"`.
    Text(PromptText),
    /// Token ids, for `api = "completions"`.
    Tokens(Vec<u32>),
}

/// Fields of sampling. A field is sent only if it is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingFields {
    /// Divides the logits; 0 is greedy.
    pub temperature: Option<f64>,
    /// Nucleus.
    pub top_p: Option<f64>,
    /// The likeliest tokens that are kept.
    pub top_k: Option<u32>,
    /// Multiplicative penalty of tokens that stand in the prompt or the answer.
    pub repetition_penalty: Option<f64>,
    /// Penalty of tokens that stand in the answer.
    pub presence_penalty: Option<f64>,
    /// Penalty of tokens by their number in the answer.
    pub frequency_penalty: Option<f64>,
    /// The seed. A choice that is asked again has the next one.
    pub seed: Option<u64>,
}

/// The form of the generated text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnswerFormat {
    /// Any.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// JSON of a schema: the text of a JSON Schema.
    Schema(String),
}

/// Writes one or several texts after a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateCall {
    /// The prompt.
    pub prompt: PromptInput,
    /// Tokens of its texts by the model's own tokenizer, if they were counted: then the bound of an attempt is close.
    pub counted_tokens: Option<u64>,
    /// Most tokens to write; the server's own bound without it.
    pub max_tokens: Option<u32>,
    /// Strings at which the text ends, without them.
    pub stop: Vec<String>,
    /// Sampling.
    pub sampling: SamplingFields,
    /// The number of texts, at least 1.
    pub choices: u32,
    /// The form of the text.
    pub format: AnswerFormat,
    /// Whether the tokens' log-probabilities are wanted.
    pub logprobs: bool,
}

impl GenerateCall {
    /// One text after a prompt, everything else as the server has it.
    pub fn new(prompt: PromptInput) -> Self {
        Self {
            prompt,
            counted_tokens: None,
            max_tokens: None,
            stop: Vec::new(),
            sampling: SamplingFields::default(),
            choices: 1,
            format: AnswerFormat::Text,
            logprobs: false,
        }
    }

    /// One text after a user's message.
    pub fn from_user(text: impl Into<PromptText>) -> Self {
        Self::new(PromptInput::Messages(vec![ChatMessage { role: ChatRole::User, text: text.into() }]))
    }
}

/// Scores a target after a prompt, both as token ids of the model's tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreCall {
    /// The condition, at least one token.
    pub prompt: Vec<u32>,
    /// The scored tokens, at least one.
    pub target: Vec<u32>,
}

/// Embeds texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedCall {
    /// The texts, at least one.
    pub texts: Vec<String>,
}

/// Ranks documents by their relevance to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RerankCall {
    /// The query.
    pub query: String,
    /// The documents, at least one.
    pub documents: Vec<String>,
}

/// Finds passages for a query in the index of a retriever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrieveCall {
    /// The query.
    pub query: String,
    /// The most passages, at least 1.
    pub k: u32,
    /// The ids of the only passages that may be found, if the query has such a bound.
    pub within: Option<Vec<String>>,
}
