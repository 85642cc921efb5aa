//! Bodies and answers of the API: a call becomes bytes once, and each reply's bytes become an answer or a cause.

mod body;
mod choices;
mod embed;
mod envelope;
mod generate;
mod rerank;
mod retrieve;
mod score;
mod stops;
mod stream;
mod thoughts;

pub(crate) use envelope::{ReadingFault, ReplyFacts};

use crate::answer::{CallAnswer, GeneratedChoice};
use crate::call::{EndpointCall, PromptInput};
use crate::dialect::ScoreForm;
use crate::exchange::{BodyChunks, MOST_BYTES};
use crate::settings::EndpointSettings;
use crate::transport::ApiRoute;
use body::RequestBody;
use choices::ChoiceReader;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The bytes of a first message that decide its replica: servers cache prefixes, and the first message's end differs.
const PREFIX_BYTES: usize = 1024;

/// The answer of one reply.
pub(crate) enum PartAnswer {
    /// Choices, perhaps fewer than asked for.
    Choices(Vec<GeneratedChoice>),
    /// Any other answer, whole.
    Whole(CallAnswer),
}

/// A call in the form that is sent.
pub(crate) struct PreparedCall {
    /// Its path.
    pub(crate) route: ApiRoute,
    /// Choices that are wanted in all; 1 for other calls.
    pub(crate) choices: u32,
    /// Bytes of the prompt's texts.
    pub(crate) prompt_bytes: usize,
    /// Tokens of the prompt, where it is given as tokens.
    pub(crate) prompt_tokens: Option<u64>,
    /// Tokens of the prompt's texts, where the caller counted them.
    pub(crate) counted_tokens: Option<u64>,
    /// Texts that a server may wrap in tokens of its own: messages, documents.
    pub(crate) texts: usize,
    /// The most tokens of one choice, if the call bounds them.
    pub(crate) max_tokens: Option<u32>,
    /// A hash of the prompt's beginning.
    pub(crate) prefix: u64,
    body: RequestBody,
    reader: AnswerReader,
}

/// The reader of a call's answers.
enum AnswerReader {
    Choices(ChoiceReader),
    Score { prompt: usize, target: Vec<u32>, form: ScoreForm },
    Embed { texts: usize },
    Rerank { documents: usize },
    Retrieve { most: usize },
}

impl PreparedCall {
    /// Writes the body. The call needs nothing that the dialect lacks ([`crate::needs`]).
    pub(crate) fn prepare(settings: &EndpointSettings, call: EndpointCall) -> Self {
        // One replica takes all calls, whatever their prefix.
        let prefix = if settings.base_url.len() > 1 { prefix_hash(&call) } else { 0 };
        match call {
            EndpointCall::Generate(call) => {
                let (prompt_bytes, prompt_tokens) = match &call.prompt {
                    PromptInput::Messages(messages) => (messages.iter().map(|message| message.text.len()).sum(), None),
                    PromptInput::Text(text) => (text.len(), None),
                    PromptInput::Tokens(tokens) => (0, Some(tokens.len() as u64)),
                };
                let texts = match &call.prompt {
                    PromptInput::Messages(messages) => messages.len(),
                    _ => 1,
                };
                Self {
                    route: match call.prompt {
                        PromptInput::Messages(_) => ApiRoute::Chat,
                        _ => ApiRoute::Completions,
                    },
                    choices: call.choices,
                    prompt_bytes,
                    prompt_tokens,
                    counted_tokens: call.counted_tokens,
                    texts,
                    max_tokens: call.max_tokens,
                    prefix,
                    body: generate::generation_body(settings, &call),
                    reader: AnswerReader::Choices(ChoiceReader::new(settings, call)),
                }
            }
            EndpointCall::Score(call) => {
                let form = settings.score_form().unwrap_or(ScoreForm::Echo);
                Self {
                    route: ApiRoute::Completions,
                    choices: 1,
                    prompt_bytes: 0,
                    prompt_tokens: Some((call.prompt.len() + call.target.len()) as u64),
                    counted_tokens: None,
                    texts: 1,
                    max_tokens: Some(1),
                    prefix,
                    body: score::score_body(settings, &call, form),
                    reader: AnswerReader::Score { prompt: call.prompt.len(), target: call.target, form },
                }
            }
            EndpointCall::Embed(call) => Self {
                route: ApiRoute::Embeddings,
                choices: 1,
                prompt_bytes: call.texts.iter().map(String::len).sum(),
                prompt_tokens: None,
                counted_tokens: None,
                texts: call.texts.len(),
                max_tokens: Some(0),
                prefix,
                body: embed::embed_body(settings, &call),
                reader: AnswerReader::Embed { texts: call.texts.len() },
            },
            EndpointCall::Rerank(call) => Self {
                route: ApiRoute::Rerank,
                choices: 1,
                // The query is read with each document.
                prompt_bytes: call.documents.iter().map(|document| document.len() + call.query.len()).sum(),
                prompt_tokens: None,
                counted_tokens: None,
                texts: call.documents.len(),
                max_tokens: Some(0),
                prefix,
                body: rerank::rerank_body(settings, &call),
                reader: AnswerReader::Rerank { documents: call.documents.len() },
            },
            EndpointCall::Retrieve(call) => Self {
                route: ApiRoute::Retrieve,
                choices: 1,
                prompt_bytes: call.query.len(),
                // A retriever counts no tokens.
                prompt_tokens: Some(0),
                counted_tokens: None,
                texts: 1,
                max_tokens: Some(0),
                prefix,
                body: retrieve::retrieval_body(settings, &call),
                reader: AnswerReader::Retrieve { most: call.k as usize },
            },
        }
    }

    /// The choices that one request asks for, when `have` are there.
    pub(crate) fn asked_choices(&self, settings: &EndpointSettings, have: u32) -> u32 {
        if settings.facts().choices { self.choices - have } else { 1 }
    }

    /// The body that asks for `ask` choices, when `have` are there.
    pub(crate) fn body_for(&self, ask: u32, have: u32) -> BodyChunks {
        self.body.chunks_for(ask, have)
    }

    /// The longest body that is read of an answer.
    pub(crate) fn most_bytes(&self) -> usize {
        match self.reader {
            AnswerReader::Retrieve { .. } => retrieve::MOST_BYTES,
            _ => MOST_BYTES,
        }
    }

    /// Reads the body of a 200.
    pub(crate) fn read_answer(&self, body: &[u8], model_known: bool) -> Result<(PartAnswer, ReplyFacts), ReadingFault> {
        let whole = |(answer, facts)| (PartAnswer::Whole(answer), facts);
        match &self.reader {
            AnswerReader::Choices(reader) => {
                reader.read_choices(body, model_known).map(|(choices, facts)| (PartAnswer::Choices(choices), facts))
            }
            AnswerReader::Score { prompt, target, form } => {
                score::read_scores(body, *prompt, target, *form, model_known).map(whole)
            }
            AnswerReader::Embed { texts } => embed::read_vectors(body, *texts, model_known).map(whole),
            AnswerReader::Rerank { documents } => rerank::read_relevance(body, *documents, model_known).map(whole),
            AnswerReader::Retrieve { most } => retrieve::read_results(body, *most, model_known).map(whole),
        }
    }
}

/// A hash of the prompt's beginning, the same in every process.
fn prefix_hash(call: &EndpointCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    let head = |text: &str| text.as_bytes()[..text.len().min(PREFIX_BYTES)].to_vec();
    match call {
        EndpointCall::Generate(call) => match &call.prompt {
            PromptInput::Messages(messages) => {
                messages.first().map(|first| first.text.head(PREFIX_BYTES)).hash(&mut hasher)
            }
            PromptInput::Text(text) => text.head(PREFIX_BYTES).hash(&mut hasher),
            PromptInput::Tokens(tokens) => tokens[..tokens.len().min(PREFIX_BYTES / 4)].hash(&mut hasher),
        },
        EndpointCall::Score(call) => call.prompt[..call.prompt.len().min(PREFIX_BYTES / 4)].hash(&mut hasher),
        EndpointCall::Embed(call) => call.texts.first().map(|text| head(text)).hash(&mut hasher),
        EndpointCall::Rerank(call) => head(&call.query).hash(&mut hasher),
        EndpointCall::Retrieve(call) => head(&call.query).hash(&mut hasher),
    }
    hasher.finish()
}
