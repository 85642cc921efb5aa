//! The simulated model: computes the answer to a body. It is a function of the settings and the body, but for prefixes
//! that were seen before.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::answering::{AnswerDraw, AnswerFormat, ReadPrompt, WrittenAnswer, read_prompt};
use crate::language::{ScoredToken, TokenCounts, score_tokens};
use crate::ledger::{BodyHash, CallTokens};
use crate::reading::PassageReader;
use crate::refusal::CallRefusal;
use crate::reply::{ReplyChoice, ReplyKind, SimulatedReply, StreamUsage};
use crate::settings::{FieldRule, ReasoningPlace, SimulationSettings};
use crate::similarity::{embed_text, relevance};
use crate::tokens::{count_tokens, cut_to_tokens, token_bytes, token_numbers};
use crate::wire::{
    DocumentField, EmbedBody, GENERATE_FIELDS, GenerateBody, OneOrMore, RerankBody, answer_format, chat_text,
};

/// The model's memory: passages that it read, prefixes that it saw.
pub(crate) struct SimulatedModel {
    reader: PassageReader,
    prefixes: PrefixMemory,
}

/// Choices of one call, at most.
const MOST_CHOICES: usize = 128;
/// Prompts, inputs or documents of one call, at most.
const MOST_INPUTS: usize = 4096;

impl SimulatedModel {
    pub(crate) fn new() -> Self {
        Self { reader: PassageReader::new(), prefixes: PrefixMemory::default() }
    }

    /// The answer to a call of `kind`.
    ///
    /// # Errors
    /// The refusal of a request that is wrong, too long or for another model.
    pub(crate) fn answer(
        &mut self,
        settings: &SimulationSettings,
        kind: ReplyKind,
        body: &[u8],
        hash: &BodyHash,
    ) -> Result<SimulatedReply, CallRefusal> {
        let id = format!("simulated-{}", &blake3::Hash::from_bytes(*hash).to_hex()[..24]);
        match kind {
            ReplyKind::Chat | ReplyKind::Completion => self.generate(settings, kind, body, id),
            ReplyKind::Embeddings => embed(settings, parse_body(body)?, id),
            ReplyKind::Rerank => rerank(settings, parse_body(body)?, id),
        }
    }

    fn generate(
        &mut self,
        settings: &SimulationSettings,
        kind: ReplyKind,
        bytes: &[u8],
        id: String,
    ) -> Result<SimulatedReply, CallRefusal> {
        if settings.unknown_fields == FieldRule::Refuse {
            refuse_unknown_fields(bytes)?;
        }
        let mut body: GenerateBody = parse_body(bytes)?;
        let model = served_model(settings, body.model.take())?;
        let prompts = take_prompts(kind, &mut body)?;
        let plan = GenerationPlan::new(kind, body)?;
        let mut reply = SimulatedReply {
            kind,
            id,
            model,
            fingerprint: settings.fingerprint.clone(),
            choices: vec![],
            items: vec![],
            tokens: CallTokens::default(),
            shows_cached: settings.prompt_cache,
            prompt_logprobs: None,
            stream: plan.stream,
        };
        for (prompt, is_continued) in &prompts {
            let tokens = count_tokens(prompt);
            reply.tokens.prompt += tokens;
            if settings.prompt_cache {
                reply.tokens.cached += self.prefixes.cached_tokens(prompt);
            }
            let most = plan.answer_tokens(settings, tokens)?;
            let read = read_prompt(&mut self.reader, prompt);
            let shown = ShownPrompt { text: prompt, read: &read, is_continued: *is_continued, most };
            reply.choices.extend((0..plan.choices).map(|choice| plan.write_choice(settings, &shown, choice)));
            if kind == ReplyKind::Chat {
                reply.prompt_logprobs = plan.prompt_scores(prompt);
            }
        }
        reply.tokens.completion = reply.choices.iter().map(|choice| choice.tokens).sum();
        if settings.reasoning != ReasoningPlace::None && kind == ReplyKind::Chat {
            reply.tokens.reasoning = plan.reasoning_tokens(&reply);
        }
        if settings.reasoning == ReasoningPlace::Hidden {
            reply.choices.iter_mut().for_each(|choice| choice.reasoning = None);
        }
        Ok(reply)
    }
}

/// A prompt that is answered, and the most tokens of an answer.
struct ShownPrompt<'a> {
    text: &'a str,
    read: &'a ReadPrompt,
    is_continued: bool,
    most: u64,
}

/// What a body asks for, checked.
struct GenerationPlan {
    kind: ReplyKind,
    choices: usize,
    most_tokens: Option<u64>,
    stops: Vec<String>,
    format: AnswerFormat,
    is_sampled: bool,
    /// The sampling fields, where they matter.
    sampling: String,
    echo: bool,
    /// Alternatives of each token of the answer; `None`: no log-probabilities.
    logprobs: Option<usize>,
    prompt_logprobs: Option<usize>,
    stream: Option<StreamUsage>,
}

impl GenerationPlan {
    fn new(kind: ReplyKind, body: GenerateBody) -> Result<Self, CallRefusal> {
        let choices = body.n.unwrap_or(1);
        if !(1..=MOST_CHOICES).contains(&choices) {
            return Err(CallRefusal::bad_request(format!("`n` is {choices}; allowed is 1 to {MOST_CHOICES}")));
        }
        let logprobs = match body.logprobs {
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(body.top_logprobs.unwrap_or(0)),
            Some(Value::Number(count)) if kind == ReplyKind::Completion => count.as_u64().map(|count| count as usize),
            Some(other) => return Err(CallRefusal::bad_request(format!("`logprobs` is {other}"))),
        };
        let temperature = body.temperature.unwrap_or(1.0);
        if !(0.0..=2.0).contains(&temperature) {
            return Err(CallRefusal::bad_request(format!("`temperature` is {temperature}; allowed is 0 to 2")));
        }
        let is_sampled = temperature > 0.0;
        let sampling = format!("{temperature} {:?} {:?} {:?}", body.top_p, body.top_k, body.seed);
        let format = answer_format(body.response_format).map_err(CallRefusal::bad_request)?;
        let usage = body.stream_options.unwrap_or_default().include_usage;
        let usage = if usage { StreamUsage::Included } else { StreamUsage::Omitted };
        let most_tokens = body.max_completion_tokens.or(body.max_tokens);
        Ok(Self {
            kind,
            choices,
            most_tokens,
            stops: body.stop.map(OneOrMore::into_list).unwrap_or_default(),
            format,
            is_sampled,
            sampling: if is_sampled { sampling } else { String::new() },
            echo: body.echo.unwrap_or(false),
            logprobs,
            prompt_logprobs: body.prompt_logprobs,
            stream: body.stream.unwrap_or(false).then_some(usage),
        })
    }

    /// The most tokens of an answer after a prompt.
    fn answer_tokens(&self, settings: &SimulationSettings, prompt: u64) -> Result<u64, CallRefusal> {
        let context = settings.context_tokens;
        let wanted = self.most_tokens.unwrap_or(1).max(u64::from(!self.echo));
        if prompt + wanted > context {
            return Err(CallRefusal::overflow(settings.overflow, context, prompt, wanted));
        }
        Ok(self.most_tokens.unwrap_or(settings.answer_tokens.min(context - prompt)))
    }

    fn write_choice(&self, settings: &SimulationSettings, prompt: &ShownPrompt<'_>, choice: usize) -> ReplyChoice {
        let identity = blake3::Hasher::new()
            .update(prompt.text.as_bytes())
            .update(b"\0")
            .update(self.sampling.as_bytes())
            .finalize();
        let draw = AnswerDraw { identity: identity.as_bytes(), is_sampled: self.is_sampled, choice };
        let WrittenAnswer { text, thought } = prompt.read.write_answer(settings, &self.format, draw);
        // A chat's answer begins a message of its own, unless it continues one.
        let text = match self.kind {
            ReplyKind::Chat if !(prompt.is_continued && settings.continues) => text.trim_start().to_owned(),
            _ => text,
        };
        let is_chat = self.kind == ReplyKind::Chat;
        let reasoning =
            (settings.reasoning != ReasoningPlace::None && is_chat && !thought.is_empty()).then_some(thought);
        let (text, reasoning) = match (settings.reasoning, reasoning) {
            (ReasoningPlace::Think, Some(thought)) => (format!("<think>\n{thought}\n</think>\n\n{text}"), None),
            (_, reasoning) => (text, reasoning),
        };
        let spent = reasoning.as_deref().map_or(0, count_tokens);
        let (text, stop_reason) = cut_at_stop(&text, &self.stops);
        let left = prompt.most.saturating_sub(spent);
        let cut = cut_to_tokens(text, left);
        let is_cut = cut.len() < text.len();
        let finish = if is_cut { "length" } else { "stop" };
        let tokens = spent.min(prompt.most) + count_tokens(cut);
        let logprobs = self.logprobs.map_or(Value::Null, |count| self.score_choice(prompt.text, cut, count));
        ReplyChoice {
            text: Some(if self.echo { format!("{}{cut}", prompt.text) } else { cut.to_owned() }),
            reasoning,
            finish,
            stop_reason: if is_cut { None } else { stop_reason },
            logprobs,
            prompt_logprobs: if is_chat { None } else { self.prompt_scores(prompt.text) },
            tokens,
        }
    }

    /// The log-probabilities of an answer's tokens, with `echo` those of the prompt before them.
    fn score_choice(&self, prompt: &str, answer: &str, alternatives: usize) -> Value {
        let mut counts = TokenCounts::default();
        let before = score_tokens(&mut counts, &token_numbers(prompt), if self.echo { alternatives } else { 0 });
        let own = score_tokens(&mut counts, &token_numbers(answer), alternatives);
        match self.kind {
            ReplyKind::Chat => json!({"content": own.iter().map(chat_score).collect::<Vec<_>>()}),
            _ if self.echo => completion_scores(before.into_iter().chain(own), 0),
            _ => completion_scores(own.into_iter(), prompt.len()),
        }
    }

    /// The log-probabilities of a prompt, as vLLM has them.
    fn prompt_scores(&self, prompt: &str) -> Option<Value> {
        let alternatives = self.prompt_logprobs?;
        let scored = score_tokens(&mut TokenCounts::default(), &token_numbers(prompt), alternatives);
        Some(Value::Array(scored.iter().map(prompt_score).collect()))
    }

    /// Tokens of the reasoning of all choices.
    fn reasoning_tokens(&self, reply: &SimulatedReply) -> u64 {
        let of = |choice: &ReplyChoice| match &choice.reasoning {
            Some(reasoning) => count_tokens(reasoning),
            None => {
                let text = choice.text.as_deref().unwrap_or_default();
                text.split_once("</think>").map_or(0, |(thought, _)| count_tokens(thought))
            }
        };
        reply.choices.iter().map(of).sum()
    }
}

/// A text up to the first stop sequence, and that sequence.
fn cut_at_stop<'t>(text: &'t str, stops: &[String]) -> (&'t str, Option<String>) {
    let found = stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| Some((text.find(stop)?, stop)));
    match found.min_by_key(|(at, _)| *at) {
        Some((at, stop)) => (&text[..at], Some(stop.clone())),
        None => (text, None),
    }
}

pub(crate) fn parse_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, CallRefusal> {
    serde_json::from_slice(body).map_err(|error| CallRefusal::bad_request(format!("the body cannot be read: {error}")))
}

fn refuse_unknown_fields(body: &[u8]) -> Result<(), CallRefusal> {
    let fields: Map<String, Value> = parse_body(body)?;
    match fields.keys().find(|field| !GENERATE_FIELDS.contains(&field.as_str())) {
        Some(field) => {
            let message = format!("the field `{field}` is not known");
            Err(CallRefusal::new(422, "invalid_request_error", Some("unknown_field"), message))
        }
        None => Ok(()),
    }
}

pub(crate) fn served_model(settings: &SimulationSettings, asked: Option<String>) -> Result<String, CallRefusal> {
    let Some(model) = asked else {
        return settings.models.first().cloned().ok_or_else(|| CallRefusal::bad_request("`model` is missing"));
    };
    if settings.models.is_empty() || settings.models.contains(&model) {
        Ok(model)
    } else {
        Err(CallRefusal::unknown_model(&model))
    }
}

/// The prompts of a body, and whether each ends in a text to be continued.
fn take_prompts(kind: ReplyKind, body: &mut GenerateBody) -> Result<Vec<(String, bool)>, CallRefusal> {
    if kind == ReplyKind::Chat {
        let messages = body.messages.take().filter(|messages| !messages.is_empty());
        let messages = messages.ok_or_else(|| CallRefusal::bad_request("`messages` is missing or empty"))?;
        return Ok(vec![chat_text(messages)]);
    }
    let prompt = body.prompt.take().ok_or_else(|| CallRefusal::bad_request("`prompt` is missing"))?;
    let texts = prompt.into_texts().map_err(unknown_token)?;
    check_count("prompt", texts.len())?;
    Ok(texts.into_iter().map(|text| (text, true)).collect())
}

fn unknown_token(number: u32) -> CallRefusal {
    CallRefusal::bad_request(format!("{number} is no token of this model"))
}

fn check_count(field: &str, count: usize) -> Result<(), CallRefusal> {
    match count {
        1..=MOST_INPUTS => Ok(()),
        _ => Err(CallRefusal::bad_request(format!("`{field}` has {count} entries; allowed is 1 to {MOST_INPUTS}"))),
    }
}

fn embed(settings: &SimulationSettings, body: EmbedBody, id: String) -> Result<SimulatedReply, CallRefusal> {
    let model = served_model(settings, body.model)?;
    let dimension = body.dimensions.unwrap_or(settings.embedding_dimension);
    if !(1..=settings.embedding_dimension).contains(&dimension) {
        let most = settings.embedding_dimension;
        return Err(CallRefusal::bad_request(format!("`dimensions` is {dimension}; allowed is 1 to {most}")));
    }
    let texts = body.input.into_texts().map_err(unknown_token)?;
    check_count("input", texts.len())?;
    let items = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": embed_text(text, dimension)}));
    list_reply(settings, ReplyKind::Embeddings, id, model, items.collect(), texts.iter().map(|t| count_tokens(t)))
}

fn rerank(settings: &SimulationSettings, body: RerankBody, id: String) -> Result<SimulatedReply, CallRefusal> {
    let model = served_model(settings, body.model)?;
    let documents: Vec<String> = body.documents.into_iter().map(DocumentField::into_text).collect();
    check_count("documents", documents.len())?;
    let mut scores: Vec<(usize, f64)> =
        documents.iter().map(|document| relevance(&body.query, document)).enumerate().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scores.truncate(body.top_n.unwrap_or(documents.len()));
    let shows_documents = body.return_documents.unwrap_or(false);
    let items = scores.into_iter().map(|(index, score)| {
        let mut item = json!({"index": index, "relevance_score": score});
        if shows_documents {
            item["document"] = json!({"text": documents[index]});
        }
        item
    });
    let query = count_tokens(&body.query);
    let tokens = documents.iter().map(|document| query + count_tokens(document));
    list_reply(settings, ReplyKind::Rerank, id, model, items.collect(), tokens)
}

fn list_reply(
    settings: &SimulationSettings,
    kind: ReplyKind,
    id: String,
    model: String,
    items: Vec<Value>,
    tokens: impl Iterator<Item = u64>,
) -> Result<SimulatedReply, CallRefusal> {
    let mut prompt = 0;
    for tokens in tokens {
        if tokens > settings.context_tokens {
            return Err(CallRefusal::overflow(settings.overflow, settings.context_tokens, tokens, 0));
        }
        prompt += tokens;
    }
    let tokens = CallTokens { prompt, ..CallTokens::default() };
    Ok(SimulatedReply {
        kind,
        id,
        model,
        fingerprint: settings.fingerprint.clone(),
        choices: vec![],
        items,
        tokens,
        shows_cached: false,
        prompt_logprobs: None,
        stream: None,
    })
}

/// The words of a token. One that cuts a character has U+FFFD for it.
fn token_text(token: u32) -> String {
    String::from_utf8_lossy(&token_bytes(token).unwrap_or_default()).into_owned()
}

fn chat_score(scored: &ScoredToken) -> Value {
    let entry = |token: u32, log_prob: f64| {
        let bytes = token_bytes(token);
        json!({"token": token_text(token), "logprob": log_prob, "bytes": bytes})
    };
    let mut score = entry(scored.token, scored.log_prob.unwrap_or(0.0));
    let likely = scored.likely.iter().map(|&(token, log_prob)| entry(token, log_prob));
    score["top_logprobs"] = Value::Array(likely.collect());
    score
}

fn completion_scores(scored: impl Iterator<Item = ScoredToken>, start: usize) -> Value {
    let (mut tokens, mut scores, mut tops, mut offsets) = (vec![], vec![], vec![], vec![]);
    let mut offset = start;
    for scored in scored {
        let mut top: Map<String, Value> =
            scored.likely.iter().map(|&(token, log_prob)| (token_text(token), json!(log_prob))).collect();
        if let Some(log_prob) = scored.log_prob {
            top.insert(token_text(scored.token), json!(log_prob));
        }
        tops.push(if scored.log_prob.is_some() { Value::Object(top) } else { Value::Null });
        tokens.push(token_text(scored.token));
        scores.push(scored.log_prob);
        offsets.push(offset);
        offset += token_bytes(scored.token).map_or(0, |bytes| bytes.len());
    }
    json!({"tokens": tokens, "token_logprobs": scores, "top_logprobs": tops, "text_offset": offsets})
}

fn prompt_score(scored: &ScoredToken) -> Value {
    let Some(own) = scored.log_prob else { return Value::Null };
    let entry = |token: u32, log_prob: f64, rank: usize| {
        let value = json!({"logprob": log_prob, "rank": rank, "decoded_token": token_text(token)});
        (token.to_string(), value)
    };
    let better = scored.likely.iter().filter(|(_, log_prob)| *log_prob > own).count();
    let likely = scored.likely.iter().enumerate().map(|(place, &(token, score))| entry(token, score, place + 1));
    let mut entries: Map<String, Value> = likely.collect();
    entries.extend([entry(scored.token, own, better + 1)]);
    Value::Object(entries)
}

/// Prefixes of prompts that were seen before, by whole blocks.
#[derive(Default)]
struct PrefixMemory {
    seen: FxHashSet<u64>,
    order: VecDeque<u64>,
}

/// Bytes of a block.
const BLOCK: usize = 256;
/// Blocks remembered; the oldest are forgotten first. A block takes about 24 bytes.
const BLOCKS_KEPT: usize = 1 << 20;

impl PrefixMemory {
    /// The tokens of the longest prefix that was seen before; afterwards all of the prompt was.
    fn cached_tokens(&mut self, prompt: &str) -> u64 {
        let mut hasher = blake3::Hasher::new();
        let mut known = 0;
        let mut is_known = true;
        for (number, block) in prompt.as_bytes().chunks_exact(BLOCK).enumerate() {
            hasher.update(block);
            let mut key = [0; 8];
            key.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
            let key = u64::from_le_bytes(key);
            let is_new = self.seen.insert(key);
            is_known &= !is_new;
            if is_known {
                known = (number + 1) * BLOCK;
            }
            if is_new {
                self.order.push_back(key);
            }
        }
        while self.order.len() > BLOCKS_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        while !prompt.is_char_boundary(known) {
            known -= 1;
        }
        count_tokens(&prompt[..known])
    }
}
