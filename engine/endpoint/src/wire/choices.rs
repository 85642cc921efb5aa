//! Reads the choices of a generation, from one JSON object or from a stream of events.

use super::envelope::{EnvelopeFields, ReadingFault, ReplyFacts, read_json};
use super::stops::find_stop;
use super::stream::StreamEvents;
use super::thoughts::split_thoughts;
use crate::answer::{FinishReason, GeneratedChoice};
use crate::call::GenerateCall;
use crate::settings::{EndpointSettings, ReasoningText};
use crate::verdict::AttemptCause;
use serde::Deserialize;
use serde_json::Value;

/// The reader of one call's choices.
pub(super) struct ChoiceReader {
    stops: Vec<String>,
    logprobs: bool,
    split_thoughts: bool,
    stream: bool,
}

#[derive(Deserialize)]
struct GenerationReply {
    #[serde(default)]
    choices: Option<Vec<ChoiceFields>>,
}

/// A choice; the fields of a stream's parts are added up.
#[derive(Default, Deserialize)]
struct ChoiceFields {
    #[serde(default)]
    index: u32,
    /// Of a chat, or of a chat's event.
    #[serde(default, alias = "delta")]
    message: Option<MessageFields>,
    /// Of a completion.
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    finish_reason: Option<String>,
    /// vLLM: the stop string, or the id of the stop token.
    #[serde(default)]
    stop_reason: Option<Value>,
    #[serde(default)]
    logprobs: Option<LogprobFields>,
}

#[derive(Default, Deserialize)]
struct MessageFields {
    #[serde(default)]
    content: Option<ContentField>,
    #[serde(default)]
    reasoning_content: Option<String>,
    /// The name of newer servers.
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

/// A content is a text or a list of parts.
#[derive(Deserialize)]
#[serde(untagged)]
enum ContentField {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
struct ContentPart {
    #[serde(default)]
    text: Option<String>,
}

#[derive(Default, Deserialize)]
struct LogprobFields {
    /// Of a chat.
    #[serde(default)]
    content: Option<Vec<TokenLogprob>>,
    /// Of a completion.
    #[serde(default)]
    tokens: Option<Vec<String>>,
    #[serde(default)]
    token_logprobs: Option<Vec<Option<f32>>>,
}

#[derive(Deserialize)]
struct TokenLogprob {
    #[serde(default)]
    token: String,
    #[serde(default)]
    bytes: Option<Vec<u8>>,
    logprob: f32,
}

impl ContentField {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
        }
    }
}

/// Appends a part of a text to what is there.
fn append_text(text: &mut Option<String>, part: Option<String>) {
    match (text.as_mut(), part) {
        (Some(text), Some(part)) => text.push_str(&part),
        (None, part) => *text = part,
        (Some(_), None) => {}
    }
}

impl ChoiceFields {
    /// Adds a later event's part of the same choice.
    fn add_part(&mut self, part: Self) {
        append_text(&mut self.text, part.text);
        if let Some(delta) = part.message {
            let message = self.message.get_or_insert_default();
            let mut content = message.content.take().map(ContentField::into_text);
            append_text(&mut content, delta.content.map(ContentField::into_text));
            message.content = content.map(ContentField::Text);
            let mut reasoning = message.reasoning_content.take().or(message.reasoning.take());
            append_text(&mut reasoning, delta.reasoning_content.or(delta.reasoning));
            message.reasoning_content = reasoning;
            append_text(&mut message.refusal, delta.refusal);
        }
        self.finish_reason = part.finish_reason.or(self.finish_reason.take());
        self.stop_reason = part.stop_reason.or(self.stop_reason.take());
        if let Some(later) = part.logprobs {
            let logprobs = self.logprobs.get_or_insert_default();
            append_list(&mut logprobs.content, later.content);
            append_list(&mut logprobs.tokens, later.tokens);
            append_list(&mut logprobs.token_logprobs, later.token_logprobs);
        }
    }
}

fn append_list<T>(list: &mut Option<Vec<T>>, part: Option<Vec<T>>) {
    if let Some(part) = part {
        list.get_or_insert_default().extend(part);
    }
}

impl LogprobFields {
    /// Each token's log-probability with the bytes of its text.
    fn into_tokens(self) -> Option<Vec<(usize, f32)>> {
        if let Some(content) = self.content {
            let length = |token: &TokenLogprob| token.bytes.as_ref().map_or(token.token.len(), Vec::len);
            return Some(content.iter().map(|token| (length(token), token.logprob)).collect());
        }
        let logprobs = self.token_logprobs?;
        let lengths = self.tokens.unwrap_or_default().into_iter().map(|token| token.len()).chain(std::iter::repeat(0));
        logprobs.into_iter().zip(lengths).map(|(logprob, length)| Some((length, logprob?))).collect()
    }
}

impl ChoiceReader {
    pub(super) fn new(settings: &EndpointSettings, call: GenerateCall) -> Self {
        Self {
            stops: call.stop,
            logprobs: call.logprobs,
            split_thoughts: settings.reasoning == ReasoningText::Split,
            stream: settings.stream,
        }
    }

    /// The choices of a reply's body, in order of their index. Choices without content are left out if others have
    /// some.
    pub(super) fn read_choices(
        &self,
        body: &[u8],
        model_known: bool,
    ) -> Result<(Vec<GeneratedChoice>, ReplyFacts), ReadingFault> {
        let is_stream = self.stream && body.first().is_some_and(|byte| *byte != b'{');
        let (facts, mut fields) = if is_stream {
            read_stream(body, model_known)?
        } else {
            let facts = read_json::<EnvelopeFields>(body)?.into_facts(model_known)?;
            (facts, read_json::<GenerationReply>(body)?.choices.unwrap_or_default())
        };
        if fields.is_empty() {
            return Err(ReadingFault::new(AttemptCause::NoChoices, "the answer has no choices").with_facts(facts));
        }
        fields.sort_by_key(|choice| choice.index);
        let mut choices = Vec::with_capacity(fields.len());
        let mut fault = None;
        for choice in fields {
            match self.read_choice(choice) {
                Ok(choice) => choices.push(choice),
                Err(found) => fault = fault.or(Some(found)),
            }
        }
        match fault {
            Some(fault) if choices.is_empty() => Err(fault.with_facts(facts)),
            _ => Ok((choices, facts)),
        }
    }

    /// One choice, cut at its stop strings, with its thoughts apart.
    fn read_choice(&self, choice: ChoiceFields) -> Result<GeneratedChoice, ReadingFault> {
        let message = choice.message.unwrap_or_default();
        let mut finish = finish_reason(choice.finish_reason.as_deref(), choice.stop_reason)?;
        let mut reasoning = message.reasoning_content.or(message.reasoning).filter(|text| !text.is_empty());
        let content = message.content.map(ContentField::into_text).or(choice.text);
        let refusal = message.refusal.filter(|text| !text.is_empty());
        let mut text = match (content, refusal) {
            (content, Some(refusal)) => {
                finish = FinishReason::Refused;
                content.filter(|text| !text.is_empty()).unwrap_or(refusal)
            }
            (Some(content), None) => content,
            (None, None) if reasoning.is_some() || !matches!(finish, FinishReason::Stop(_)) => String::new(),
            (None, None) => return Err(ReadingFault::new(AttemptCause::NullContent, "a choice has no content")),
        };
        let mut tokens = match choice.logprobs.and_then(LogprobFields::into_tokens) {
            Some(tokens) if tokens.iter().all(|(_, logprob)| logprob.is_finite()) => tokens,
            _ if self.logprobs && !text.is_empty() => {
                return Err(ReadingFault::new(AttemptCause::WrongShape, "a choice has no log-probabilities"));
            }
            _ => Vec::new(),
        };
        let mut before = 0;
        if self.split_thoughts && reasoning.is_none() {
            let whole = text.len();
            (text, reasoning) = split_thoughts(text, finish == FinishReason::Length);
            before = whole - text.len();
        }
        if let Some((end, place)) = find_stop(&text, &self.stops) {
            text.truncate(end);
            finish = FinishReason::Stop(Some(self.stops[place].clone()));
            drop_tokens_from(&mut tokens, before + end);
        }
        let logprobs =
            if self.logprobs { tokens.into_iter().map(|(_, logprob)| logprob).collect() } else { Vec::new() };
        Ok(GeneratedChoice { text, finish, reasoning, logprobs })
    }
}

/// Drops the tokens that begin at or behind a byte of the text.
fn drop_tokens_from(tokens: &mut Vec<(usize, f32)>, end: usize) {
    let mut begin = 0;
    let kept = tokens.iter().take_while(|(length, _)| {
        let stays = begin < end;
        begin += length;
        stays
    });
    let kept = kept.count();
    tokens.truncate(kept);
}

/// The reason for an end, by the names of several servers.
fn finish_reason(name: Option<&str>, stop: Option<Value>) -> Result<FinishReason, ReadingFault> {
    let stop = stop.and_then(|stop| stop.as_str().map(str::to_owned));
    match name {
        Some("length" | "max_tokens" | "model_length") => Ok(FinishReason::Length),
        Some("content_filter" | "content_filtered" | "safety" | "SAFETY") => Ok(FinishReason::Filtered),
        Some("abort" | "aborted" | "error" | "cancelled") => {
            Err(ReadingFault::new(AttemptCause::Aborted, "the server gave the answer up"))
        }
        // Servers that ran into a limit of their own leave the reason out; so do some at the sequence's end.
        _ => Ok(FinishReason::Stop(stop)),
    }
}

/// The answer of a stream: its events, added up by choice.
fn read_stream(body: &[u8], model_known: bool) -> Result<(ReplyFacts, Vec<ChoiceFields>), ReadingFault> {
    let mut envelope = EnvelopeFields::default();
    let mut choices: Vec<ChoiceFields> = Vec::new();
    let mut events = StreamEvents::new(body);
    for event in events.by_ref() {
        envelope.update_fields(read_json(&event)?);
        for part in read_json::<GenerationReply>(&event)?.choices.unwrap_or_default() {
            match choices.iter_mut().find(|choice| choice.index == part.index) {
                Some(choice) => choice.add_part(part),
                None => choices.push(part),
            }
        }
    }
    let facts = envelope.into_facts(model_known)?;
    if !events.is_done() && choices.iter().any(|choice| choice.finish_reason.is_none()) {
        return Err(ReadingFault::new(AttemptCause::CutBody, "the stream ended without its last event"));
    }
    Ok((facts, choices))
}

#[cfg(test)]
mod tests;
