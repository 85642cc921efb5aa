//! Checks requests on submission, and decides which requests are equal.

use super::{EngineOptions, Refusal};
use crate::loaded_model::LoadedModel;
use crate::pack::PackItem;
use crate::prefix::common_prefix;
use crate::request::{
    EncodeRequest, EncoderOutput, GenerateRequest, Request, RequestWork, Sampling, ScoreRequest, TokenIds,
};
use crate::score::{decoder_sequence, decoder_work, encoder_decoder_work};
use hopeval_device::Device;

/// Checks a request. Returns the work of the request alone.
pub(super) fn check_request<D: Device>(
    model: &LoadedModel<D>,
    request: &Request,
    options: &EngineOptions,
    has_text: bool,
) -> Result<RequestWork, Refusal> {
    let task = match request {
        Request::Score(_) => "score",
        Request::Encode(encode) => encode.want.task(),
        Request::Generate(_) => "generate",
    };
    let tasks = model.tasks();
    if !tasks.contains(&task) {
        return Err(Refusal::Unsupported { task, offers: tasks.join(", ") });
    }
    match request {
        Request::Score(score) => check_score(model, score, options),
        Request::Encode(encode) => check_encode(model, encode, options),
        Request::Generate(generate) => check_generate(model, generate, options, has_text),
    }
}

fn check_score<D: Device>(
    model: &LoadedModel<D>,
    score: &ScoreRequest,
    options: &EngineOptions,
) -> Result<RequestWork, Refusal> {
    let joined = matches!(model, LoadedModel::Decoder(_));
    if joined || score.prompt.is_empty() {
        not_empty("prompt", &score.prompt)?;
    }
    not_empty("target", &score.target)?;
    for ids in [&score.prompt, &score.target] {
        check_ids(model, ids)?;
    }
    if score.temperatures.is_empty() {
        let allowed = "at least one is needed";
        return Err(Refusal::Parameter { name: "temperatures", value: "[]".into(), allowed });
    }
    score.temperatures.iter().try_for_each(|t| check_positive("temperature", *t))?;
    let (prompt, target) = (score.prompt.len(), score.target.len());
    check_positions(model, if joined { prompt + target - 1 } else { prompt.max(target) })?;
    check_length(prompt + target, options)?;
    Ok(match model {
        LoadedModel::Decoder(model) => decoder_work(&**model, score),
        LoadedModel::EncoderDecoder(model) => encoder_decoder_work(&**model, score),
        LoadedModel::Encoder(_) => unreachable!("encoders do not score; this is a bug"),
    })
}

fn check_encode<D: Device>(
    model: &LoadedModel<D>,
    encode: &EncodeRequest,
    options: &EngineOptions,
) -> Result<RequestWork, Refusal> {
    not_empty("text", &encode.ids)?;
    check_ids(model, &encode.ids)?;
    if !encode.type_ids.is_empty() && encode.type_ids.len() != encode.ids.len() {
        let value = format!("{} of them", encode.type_ids.len());
        let allowed = "one for each token, or none";
        return Err(Refusal::Parameter { name: "token_type_ids", value, allowed });
    }
    // Without types in the model they mean nothing, as in transformers.
    let types = model.token_types();
    if let Some(id) = encode.type_ids.iter().find(|id| types > 0 && **id as usize >= types) {
        let value = format!("{id} of {types} types");
        let allowed = "below the model's type_vocab_size";
        return Err(Refusal::Parameter { name: "token_type_ids", value, allowed });
    }
    check_positions(model, encode.ids.len())?;
    check_length(encode.ids.len(), options)?;
    let tokens = encode.ids.len() as u64;
    let operations = model.encoder_operations();
    let operations = tokens * operations.per_token + tokens * tokens * operations.per_pair;
    Ok(RequestWork { prompt_tokens: tokens, operations, ..RequestWork::default() })
}

fn check_generate<D: Device>(
    model: &LoadedModel<D>,
    generate: &GenerateRequest,
    options: &EngineOptions,
    has_text: bool,
) -> Result<RequestWork, Refusal> {
    not_empty("prompt", &generate.prompt)?;
    check_ids(model, &generate.prompt)?;
    if generate.max_tokens == 0 {
        return Err(Refusal::Parameter { name: "max_tokens", value: "0".into(), allowed: "at least 1" });
    }
    if !generate.stop.is_empty() && !has_text {
        let value = format!("{:?}", generate.stop);
        let allowed = "needs a tokenizer, and the folder has none";
        return Err(Refusal::Parameter { name: "stop", value, allowed });
    }
    if let Sampling::Sample { temperature, top_p, .. } = generate.sampling {
        check_positive("temperature", temperature)?;
        if !(top_p > 0.0 && top_p <= 1.0) {
            let value = top_p.to_string();
            return Err(Refusal::Parameter { name: "top_p", value, allowed: "above 0 and at most 1" });
        }
    }
    let (prompt, new) = (generate.prompt.len(), generate.max_tokens);
    let joined = matches!(model, LoadedModel::Decoder(_));
    check_positions(model, if joined { prompt.saturating_add(new - 1) } else { prompt.max(new) })?;
    check_length(prompt, options)?;
    let limit = options.cache_tokens.least;
    let tokens = prompt.saturating_add(new);
    if tokens > limit {
        return Err(Refusal::TooLong { tokens, limit, what: "the cache" });
    }
    // The number of its tokens is known when it has ended.
    Ok(RequestWork { prompt_tokens: prompt as u64, ..RequestWork::default() })
}

fn not_empty(part: &'static str, ids: &TokenIds) -> Result<(), Refusal> {
    if ids.is_empty() { Err(Refusal::Empty { part }) } else { Ok(()) }
}

fn check_ids<D: Device>(model: &LoadedModel<D>, ids: &TokenIds) -> Result<(), Refusal> {
    let vocabulary = model.sizes().vocabulary;
    match ids.iter().find(|id| **id as usize >= vocabulary) {
        Some(&id) => Err(Refusal::Token { id, vocabulary }),
        None => Ok(()),
    }
}

fn check_positive(name: &'static str, value: f32) -> Result<(), Refusal> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Refusal::Parameter { name, value: value.to_string(), allowed: "a finite number above 0" })
}

fn check_positions<D: Device>(model: &LoadedModel<D>, tokens: usize) -> Result<(), Refusal> {
    match model.sizes().max_positions {
        Some(positions) if tokens > positions => Err(Refusal::Positions { tokens, positions }),
        _ => Ok(()),
    }
}

fn check_length(tokens: usize, options: &EngineOptions) -> Result<(), Refusal> {
    let limit = options.batch_tokens;
    if tokens > limit { Err(Refusal::TooLong { tokens, limit, what: "a batch" }) } else { Ok(()) }
}

/// The identity of a request. Temperatures are left out, because one answer can hold those of all equal requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RequestIdentity {
    Score(TokenIds, TokenIds),
    Encode(TokenIds, TokenIds, EncoderOutput),
    Generate(TokenIds, usize, [u64; 5], Vec<String>, Vec<u32>),
}

impl RequestIdentity {
    pub(super) fn from_request(request: &Request) -> Self {
        match request {
            Request::Score(score) => Self::Score(score.prompt.clone(), score.target.clone()),
            Request::Encode(encode) => Self::Encode(encode.ids.clone(), encode.type_ids.clone(), encode.want),
            Request::Generate(generate) => {
                let sampling = match generate.sampling {
                    Sampling::Greedy => [0; 5],
                    Sampling::Sample { temperature, top_k, top_p, seed, draw } => [
                        u64::from(temperature.to_bits()),
                        top_k as u64,
                        u64::from(top_p.to_bits()),
                        seed,
                        // Never equal to a greedy one, for any draw.
                        u64::from(draw) + 1,
                    ],
                };
                let (stop, ends) = (generate.stop.clone(), generate.ends.clone());
                Self::Generate(generate.prompt.clone(), generate.max_tokens, sampling, stop, ends)
            }
        }
    }
}

/// A waiting request, as the packer sees it.
#[derive(Clone, Debug)]
pub(super) struct QueueItem {
    pub(super) request: Request,
    /// The group of submissions that wait for it.
    pub(super) group: u64,
    /// Sorts it next to the requests with shared work.
    key: (usize, TokenIds),
    cost: usize,
    /// The part of the key that need not be computed again if it is shared.
    sharing: SharedWork,
}

#[derive(Clone, Copy, Debug)]
enum SharedWork {
    Nothing,
    /// Any common prefix.
    Prefix,
    /// The whole prompt or nothing: this many tokens.
    Prompt(usize),
}

impl QueueItem {
    pub(super) fn new<D: Device>(model: &LoadedModel<D>, request: Request, group: u64, share: bool) -> Self {
        let (key, cost, sharing) = match &request {
            Request::Score(score) if matches!(model, LoadedModel::Decoder(_)) => {
                let sequence: TokenIds = decoder_sequence(score).into();
                let cost = sequence.len();
                ((0, sequence), cost, SharedWork::Prefix)
            }
            Request::Score(score) => {
                let cost = score.prompt.len() + score.target.len();
                ((0, score.prompt.clone()), cost, SharedWork::Prompt(score.prompt.len()))
            }
            // Near lengths together: nothing is padded, but accelerators balance equal sequences best.
            Request::Encode(encode) => ((encode.ids.len(), TokenIds::default()), encode.ids.len(), SharedWork::Nothing),
            Request::Generate(generate) => {
                let tokens = generate.prompt.len();
                // An encoder's state depends on the whole prompt.
                let whole = matches!(model, LoadedModel::EncoderDecoder(_));
                (
                    (0, generate.prompt.clone()),
                    tokens,
                    if whole { SharedWork::Prompt(tokens) } else { SharedWork::Prefix },
                )
            }
        };
        Self { request, group, key, cost, sharing: if share { sharing } else { SharedWork::Nothing } }
    }
}

impl PackItem for QueueItem {
    type Key = (usize, TokenIds);

    fn sort_key(&self) -> Self::Key {
        self.key.clone()
    }

    fn cost(&self) -> usize {
        self.cost
    }

    fn added_cost(&self, before: &Self) -> usize {
        match self.sharing {
            SharedWork::Nothing => self.cost,
            // At least one: a fully shared sequence still has its own rows at the head.
            SharedWork::Prefix => (self.cost - common_prefix(&self.key.1, &before.key.1).min(self.cost)).max(1),
            SharedWork::Prompt(tokens) if self.key == before.key => (self.cost - tokens).max(1),
            SharedWork::Prompt(_) => self.cost,
        }
    }
}
