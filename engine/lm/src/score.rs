//! Scores targets after prompts: logits at target positions only, nothing computed twice within a batch.
//!
//! A decoder reads `prompt + target` without its last token, laid out as a [`PrefixForest`]. The head is applied only
//! to the rows that predict a target token. An encoder-decoder encodes each prompt outside the pool once, and decodes
//! every target over the pooled states.

use crate::model::{Decoder, EncoderDecoder, EncoderMemory, LmHead, Operations, PackedBatch};
use crate::prefix::PrefixForest;
use crate::request::{RequestWork, ScoreRequest, ScoreResult, TokenIds};
use crate::states_pool::StatesPool;
use hopeval_device::{Device, DeviceError, LogProbs, Packing, PendingRead};
use std::collections::{BTreeMap, BTreeSet};

/// Results of a batch, in its order, and the number of computed tokens.
#[derive(Debug)]
pub struct BatchResults<T> {
    /// One for each request.
    pub results: Vec<T>,
    /// Rows computed by the model.
    pub computed_tokens: u64,
}

/// The decoder's input for scoring a target: all but the last token, because its prediction is not needed.
pub fn decoder_sequence(score: &ScoreRequest) -> Vec<u32> {
    let target = &score.target[..score.target.len() - 1];
    [&score.prompt[..], target].concat()
}

/// Scores with a causal decoder. With `share`, requests should come sorted by [`decoder_sequence`] to share prefixes.
///
/// # Errors
/// [`DeviceError::OutOfMemory`].
pub fn with_decoder<D: Device>(
    device: &D,
    model: &dyn Decoder<D>,
    requests: &[&ScoreRequest],
    share: bool,
) -> Result<PendingRead<BatchResults<ScoreResult>>, DeviceError> {
    let sequences = requests.iter().map(|score| decoder_sequence(score)).collect::<Vec<_>>();
    let sequences = sequences.iter().map(Vec::as_slice).collect::<Vec<_>>();
    let forest =
        if share { PrefixForest::from_sequences(&sequences) } else { PrefixForest::without_sharing(&sequences) };
    let batch = PackedBatch { ids: &forest.ids, positions: &forest.positions, type_ids: &[], packing: &forest.packing };
    let hidden = model.forward(device, &batch, None)?;
    let predicting = |(score, rows): (&&ScoreRequest, &Vec<u32>)| rows[score.prompt.len() - 1..].to_vec();
    let rows = requests.iter().zip(&forest.rows).flat_map(predicting).collect::<Vec<_>>();
    let hidden = device.gather(&hidden, &rows)?;
    let computed_tokens = forest.ids.len() as u64;
    let results = request_head(device, model.head(), &hidden, requests)?;
    Ok(results.map(move |results| BatchResults { results, computed_tokens }))
}

/// Scores with an encoder-decoder, over the pool's states if they are there.
///
/// # Errors
/// [`DeviceError::OutOfMemory`].
pub fn with_encoder_decoder<D: Device>(
    device: &D,
    model: &dyn EncoderDecoder<D>,
    pool: &mut StatesPool<D>,
    requests: &[&ScoreRequest],
) -> Result<PendingRead<BatchResults<ScoreResult>>, DeviceError> {
    let prompts = requests.iter().map(|score| &score.prompt).collect::<BTreeSet<_>>();
    let EncodedPrompts { states, spans, computed } = encode_prompts(device, model, pool, &prompts)?;
    let mut decoder = PackedSequences::default();
    let mut cross = Packing::new();
    for score in requests {
        let input =
            std::iter::once(model.decoder_start()).chain(score.target[..score.target.len() - 1].iter().copied());
        decoder.push(input);
        cross.push(score.target.len(), [spans[&score.prompt]]);
    }
    let hidden = model.decode(device, &decoder.batch(), EncoderMemory::States(&states), &cross, None)?;
    let computed_tokens = computed + decoder.ids.len() as u64;
    let results = request_head(device, model.head(), &hidden, requests)?;
    Ok(results.map(move |results| BatchResults { results, computed_tokens }))
}

/// States of a batch's prompts.
#[derive(Debug)]
pub(crate) struct EncodedPrompts<'a, D: Device> {
    /// `[rows, hidden]`.
    pub(crate) states: D::Tensor,
    /// Each prompt's `(first row, rows)`.
    pub(crate) spans: BTreeMap<&'a TokenIds, (u32, u32)>,
    /// Tokens outside the pool.
    pub(crate) computed: u64,
}

/// Encodes the prompts outside the pool, and gathers the states of all.
pub(crate) fn encode_prompts<'a, D: Device>(
    device: &D,
    model: &dyn EncoderDecoder<D>,
    pool: &mut StatesPool<D>,
    prompts: &BTreeSet<&'a TokenIds>,
) -> Result<EncodedPrompts<'a, D>, DeviceError> {
    let mut rows_of: BTreeMap<&TokenIds, Vec<u32>> = BTreeMap::new();
    rows_of.extend(prompts.iter().filter_map(|prompt| Some((*prompt, pool.find(prompt)?))));
    let missing = prompts.iter().copied().filter(|prompt| !rows_of.contains_key(prompt)).collect::<Vec<_>>();
    let keep = prompts.iter().map(|prompt| (*prompt).clone()).collect::<BTreeSet<_>>();
    let mut fresh = PackedSequences::default();
    for prompt in &missing {
        fresh.push(prompt.iter().copied());
    }
    if !missing.is_empty() {
        let states = model.encode(device, &fresh.batch())?;
        let mut all = Vec::with_capacity(fresh.ids.len());
        for prompt in &missing {
            let rows = pool.make_room(prompt, &keep).expect("a pool holds a whole batch; this is a bug");
            all.extend(&rows);
            rows_of.insert(prompt, rows);
        }
        if let Err(error) = pool.store(device, &all, &states) {
            missing.iter().for_each(|prompt| pool.forget(prompt));
            return Err(error);
        }
    }
    let mut spans = BTreeMap::new();
    let mut gathered = Vec::new();
    for (prompt, rows) in rows_of {
        spans.insert(prompt, (gathered.len() as u32, rows.len() as u32));
        gathered.extend(rows);
    }
    Ok(EncodedPrompts { states: pool.gather(device, &gathered)?, spans, computed: fresh.ids.len() as u64 })
}

/// Packed sequences during their construction.
#[derive(Debug, Default)]
pub(crate) struct PackedSequences {
    pub(crate) ids: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) type_ids: Vec<u32>,
    packing: Option<Packing>,
}

impl PackedSequences {
    /// Adds a sequence with attention to itself only.
    pub(crate) fn push(&mut self, ids: impl IntoIterator<Item = u32>) {
        let start = self.ids.len();
        self.ids.extend(ids);
        let length = self.ids.len() - start;
        self.positions.extend(0..length as u32);
        self.packing.get_or_insert_with(Packing::new).push(length, [(start as u32, length as u32)]);
    }

    /// The batch for a model.
    pub(crate) fn batch(&self) -> PackedBatch<'_> {
        let packing = self.packing.as_ref().expect("at least one sequence; this is a bug");
        PackedBatch { ids: &self.ids, positions: &self.positions, type_ids: &self.type_ids, packing }
    }

    /// The layout of the sequences.
    pub(crate) fn packing(&self) -> &Packing {
        self.packing.as_ref().expect("at least one sequence; this is a bug")
    }
}

/// Applies the head to `hidden`, one row for each target token of all requests.
fn request_head<D: Device>(
    device: &D,
    head: &LmHead<D>,
    hidden: &D::Tensor,
    requests: &[&ScoreRequest],
) -> Result<PendingRead<Vec<ScoreResult>>, DeviceError> {
    let targets = requests.iter().flat_map(|score| score.target.iter().copied()).collect::<Vec<_>>();
    // One grid for the batch: positive floats sort as their bits do.
    let grid =
        requests.iter().flat_map(|score| score.temperatures.iter().map(|t| t.to_bits())).collect::<BTreeSet<_>>();
    let grid = grid.into_iter().map(f32::from_bits).collect::<Vec<_>>();
    let of_grid = |temperature: &f32| {
        grid.iter().position(|g| g == temperature).expect("the grid holds all temperatures; this is a bug")
    };
    let parts = requests
        .iter()
        .map(|score| (score.target.len(), score.temperatures.iter().map(of_grid).collect::<Vec<_>>()))
        .collect::<Vec<_>>();
    let width = grid.len();
    let found = device.request_log_probs(hidden, &head.weight, head.bias.as_ref(), head.scale, &targets, &grid)?;
    Ok(found.map(move |found| divide_rows(&found, &parts, width)))
}

/// The result of each request: `parts` are its number of rows and its temperatures among the `width` of the batch.
fn divide_rows(found: &LogProbs, parts: &[(usize, Vec<usize>)], width: usize) -> Vec<ScoreResult> {
    let mut first = 0;
    let scored = |(rows, temperatures): &(usize, Vec<usize>)| {
        let rows = first..first + rows;
        first = rows.end;
        let of = |t: &usize| rows.clone().map(|row| found.log_sum_exps[row * width + t]).collect();
        ScoreResult {
            target_logits: found.target_logits[rows.clone()].to_vec(),
            log_sum_exps: temperatures.iter().map(of).collect(),
        }
    };
    parts.iter().map(scored).collect()
}

/// Operations of the head for `rows` rows.
pub(crate) fn head_operations<D: Device>(head: &LmHead<D>, hidden: usize, rows: usize) -> u64 {
    2 * hidden as u64 * head.vocabulary as u64 * rows as u64
}

/// Operations of `queries` tokens after `before` others; each attends to all tokens before it.
pub(crate) fn causal_operations(operations: Operations, before: usize, queries: usize) -> u64 {
    let (before, queries) = (before as u64, queries as u64);
    queries * operations.per_token + (queries * before + queries * (queries + 1) / 2) * operations.per_pair
}

/// The work of a score with a decoder, alone.
pub fn decoder_work<D: Device>(model: &dyn Decoder<D>, score: &ScoreRequest) -> RequestWork {
    let (prompt, target) = (score.prompt.len(), score.target.len());
    let body = causal_operations(model.operations(), 0, prompt + target - 1);
    let head = head_operations(model.head(), model.sizes().hidden, target);
    score_work(score, body + head)
}

/// The work of a score with an encoder-decoder, alone.
pub fn encoder_decoder_work<D: Device>(model: &dyn EncoderDecoder<D>, score: &ScoreRequest) -> RequestWork {
    let (prompt, target) = (score.prompt.len() as u64, score.target.len());
    let encoder = model.encoder_operations();
    let encoding = prompt * encoder.per_token + prompt * prompt * encoder.per_pair;
    let cross = model.cross_operations();
    let crossing = prompt * cross.per_token + prompt * target as u64 * cross.per_pair;
    let decoding = causal_operations(model.decoder_operations(), 0, target);
    score_work(score, encoding + crossing + decoding + head_operations(model.head(), model.sizes().hidden, target))
}

fn score_work(score: &ScoreRequest, operations: u64) -> RequestWork {
    let tokens = score.target.len() as u64;
    RequestWork { prompt_tokens: score.prompt.len() as u64, completion_tokens: 0, scored_tokens: tokens, operations }
}
