//! Abilities that a call needs and a dialect lacks: known before anything is sent or paid.

use crate::call::{AnswerFormat, ChatRole, EndpointCall, GenerateCall, PromptInput};
use crate::dialect::{RerankForm, SchemaForm};
use crate::settings::{ApiStyle, EndpointSettings};

/// The first thing that a call needs and the endpoint lacks, or that is wrong with the call itself; for people.
pub fn missing_ability(settings: &EndpointSettings, call: &EndpointCall) -> Option<String> {
    let facts = settings.facts();
    let lacks = |what: &str| Some(format!("the dialect {} has no {what}", facts.name));
    match call {
        EndpointCall::Generate(_) if !facts.generates => lacks("generation"),
        EndpointCall::Generate(call) => {
            missing_for_prompt(settings, call).or_else(|| missing_for_choices(settings, call))
        }
        EndpointCall::Score(_) if settings.score_form().is_none() => {
            lacks("scores of given texts; `score_by` may name them")
        }
        EndpointCall::Score(call) if call.prompt.is_empty() || call.target.is_empty() => {
            Some("a score needs at least one token of prompt and one of target".to_owned())
        }
        EndpointCall::Embed(_) if !facts.embeds => lacks("embeddings"),
        EndpointCall::Embed(call) if call.texts.is_empty() => Some("no text to embed".to_owned()),
        EndpointCall::Rerank(_) if facts.reranks == RerankForm::Absent => lacks("reranking"),
        EndpointCall::Rerank(call) if call.documents.is_empty() => Some("no document to rank".to_owned()),
        EndpointCall::Retrieve(_) if !settings.is_retriever() => lacks("retrieval"),
        EndpointCall::Score(_) | EndpointCall::Embed(_) | EndpointCall::Rerank(_) | EndpointCall::Retrieve(_) => None,
    }
}

fn missing_for_prompt(settings: &EndpointSettings, call: &GenerateCall) -> Option<String> {
    let facts = settings.facts();
    match (&call.prompt, settings.api) {
        (PromptInput::Messages(messages), ApiStyle::Chat) => match messages.last() {
            None => Some("a chat without a message".to_owned()),
            Some(last) if last.role == ChatRole::Assistant && !settings.continues() => {
                Some(format!("the dialect {} begins a new message, and continues none of the assistant's", facts.name))
            }
            Some(_) => None,
        },
        (PromptInput::Messages(_), ApiStyle::Completions) => {
            Some("`api = \"completions\"` takes a text or tokens, not messages".to_owned())
        }
        (_, ApiStyle::Chat) => Some("`api = \"chat\"` takes messages, not a text or tokens".to_owned()),
        (PromptInput::Text(_), ApiStyle::Completions) => None,
        (PromptInput::Tokens(tokens), ApiStyle::Completions) => match (facts.token_prompts, tokens.is_empty()) {
            (false, _) => Some(format!("the dialect {} takes no token ids as a prompt", facts.name)),
            (true, true) => Some("a prompt without a token".to_owned()),
            (true, false) => None,
        },
    }
}

fn missing_for_choices(settings: &EndpointSettings, call: &GenerateCall) -> Option<String> {
    let facts = settings.facts();
    let needs = [
        (call.sampling.top_k.is_some() && facts.top_k.is_none(), "top-k sampling"),
        (call.sampling.repetition_penalty.is_some() && facts.repetition_penalty.is_none(), "repetition penalty"),
        (call.logprobs && !facts.logprobs, "log-probabilities"),
        (call.format == AnswerFormat::Json && !facts.json_object, "promise of JSON"),
        (
            matches!(call.format, AnswerFormat::Schema(_)) && facts.schema == SchemaForm::Absent,
            "promise of a JSON schema",
        ),
    ];
    if let Some((_, what)) = needs.into_iter().find(|(needed, _)| *needed) {
        return Some(format!("the dialect {} has no {what}", facts.name));
    }
    if call.choices == 0 {
        return Some("a generation of no choice".to_owned());
    }
    match &call.format {
        AnswerFormat::Schema(text) => match serde_json::from_str::<serde_json::Value>(text) {
            Ok(value) if value.is_object() => None,
            _ => Some("the JSON schema is no JSON object".to_owned()),
        },
        _ => None,
    }
}
