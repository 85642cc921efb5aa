//! Generates continuations with a key/value cache: prompts join between steps, finished sequences leave at once.
//!
//! ```text
//!   waiting --admit--> prefill (one admission's prompts are a forest) --> active --step--> one token each --> finished
//! ```
//!
//! The keys of a sequence are the rows of its prompt, possibly shared with others of the same admission, and its own
//! rows. For encoder-decoders a second cache holds the projected keys and values of encoder states, likewise shared by
//! equal prompts.
//!
//! A step takes all sequences at once. If memory runs out, it takes half as many at a time, and after many good steps
//! more again. A sequence ends only if memory runs out for it alone.

use crate::blocks::{BlockAllocator, RowBlock};
use crate::model::{CacheSlots, Decoder, EncoderDecoder, EncoderMemory, KeyValueCache, LmHead, PackedBatch};
use crate::prefix::PrefixForest;
use crate::request::{FinishReason, GenerateRequest, GenerateResult, TokenIds};
use crate::sample::{ChosenToken, UnusableLogits, choose};
use crate::score;
use crate::states_pool::StatesPool;
use hopeval_device::{Device, DeviceError, Packing, TensorColumns};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Turns token ids into text, for stop strings.
pub type Detokeniser = dyn Fn(&[u32]) -> String + Send + Sync;

/// A model with continuations.
#[derive(Clone, Copy, Debug)]
pub enum GenerativeModel<'a, D: Device> {
    /// Continues the prompt.
    Decoder(&'a dyn Decoder<D>),
    /// Reads the prompt, then answers.
    EncoderDecoder(&'a dyn EncoderDecoder<D>),
}

impl<D: Device> GenerativeModel<'_, D> {
    fn head(&self) -> &LmHead<D> {
        match self {
            Self::Decoder(model) => model.head(),
            Self::EncoderDecoder(model) => model.head(),
        }
    }
}

/// The active sequences and their caches.
pub struct Generator<D: Device> {
    cache: KeyValueCache<D>,
    blocks: BlockAllocator,
    /// Keys and values of encoder states; no rows for decoders.
    cross: KeyValueCache<D>,
    cross_blocks: BlockAllocator,
    active: Vec<ActiveSequence>,
    limit: SequenceLimit,
    computed_tokens: u64,
}

impl<D: Device> std::fmt::Debug for Generator<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator").field("active", &self.active.len()).field("blocks", &self.blocks).finish()
    }
}

/// Rows shared by the sequences of one admission.
#[derive(Debug)]
struct SharedRows {
    own: RowBlock,
    cross: RowBlock,
}

#[derive(Debug)]
struct ActiveSequence {
    tag: u64,
    request: GenerateRequest,
    shared: Arc<SharedRows>,
    /// Key rows of the prompt (decoders), in order.
    prompt_spans: Vec<(u32, u32)>,
    /// Key rows of the encoder's states.
    cross_span: (u32, u32),
    /// Tokens before the first generated one, counted as positions.
    offset: u32,
    own: RowBlock,
    filled: u32,
    /// The next token to read.
    last: u32,
    ids: Vec<u32>,
    log_probs: Vec<f32>,
}

/// A finished sequence: its tag and its result.
pub type FinishedSequence = (u64, Result<GenerateResult, UnusableLogits>);

/// The result of an admission.
#[derive(Debug)]
pub struct AdmissionResult {
    /// Indexes of the admitted requests in the input, ascending.
    pub taken: Vec<usize>,
    /// Those of them that ended with their first token.
    pub finished: Vec<FinishedSequence>,
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct StepResult {
    /// Sequences with a normal end.
    pub finished: Vec<FinishedSequence>,
    /// Sequences that failed on the device, with the error: the device was lost, or memory ran out for one alone.
    pub failed: Vec<(Vec<u64>, DeviceError)>,
    /// Passes through the model.
    pub passes: u64,
    /// Passes split and made again because memory ran out.
    pub halved: u64,
}

impl StepResult {
    /// True if any sequence ended, so that rows of the caches are free.
    pub fn has_left(&self) -> bool {
        !self.finished.is_empty() || !self.failed.is_empty()
    }
}

/// Successful passes before twice as many sequences are tried.
const PATIENCE: u32 = 64;

/// The learnt limit of sequences per pass.
#[derive(Clone, Copy, Debug)]
struct SequenceLimit {
    most: usize,
    good: u32,
}

impl SequenceLimit {
    fn went_well(&mut self) {
        self.good += 1;
        if self.good >= PATIENCE {
            *self = Self { most: self.most.saturating_mul(2), good: 0 };
        }
    }

    fn halve(&mut self, tried: usize) {
        *self = Self { most: (tried / 2).max(1), good: 0 };
    }
}

impl<D: Device> Generator<D> {
    /// Reserves caches of `rows` tokens.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn new(device: &D, model: &GenerativeModel<'_, D>, rows: u32) -> Result<Self, DeviceError> {
        let (sizes, cross_rows) = match model {
            GenerativeModel::Decoder(model) => (model.sizes(), 0),
            GenerativeModel::EncoderDecoder(model) => (model.sizes(), rows),
        };
        Ok(Self {
            cache: KeyValueCache::reserve(device, sizes.layers, rows as usize, sizes.kv_width)?,
            blocks: BlockAllocator::new(rows),
            cross: KeyValueCache::reserve(device, sizes.layers, cross_rows as usize, sizes.kv_width)?,
            cross_blocks: BlockAllocator::new(cross_rows),
            active: Vec::new(),
            limit: SequenceLimit { most: usize::MAX, good: 0 },
            computed_tokens: 0,
        })
    }

    /// The largest number of rows for one request.
    pub fn capacity(&self) -> u32 {
        self.blocks.capacity()
    }

    /// The number of active sequences.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// True if no sequence is active.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// The tags of the active sequences.
    pub fn tags(&self) -> Vec<u64> {
        self.active.iter().map(|sequence| sequence.tag).collect()
    }

    /// Rows computed by the model since the last call.
    pub fn take_computed(&mut self) -> u64 {
        std::mem::take(&mut self.computed_tokens)
    }

    /// Admits the request at index `oldest` if it fits the caches, and the others that fit beside it. If `oldest` does
    /// not fit, it admits nothing, so that later requests cannot keep it out for ever. Prompts with a common beginning
    /// should be neighbours. A sequence may end with its first token.
    ///
    /// # Errors
    /// [`DeviceError`]: nothing was admitted.
    pub fn admit(
        &mut self,
        device: &D,
        model: &GenerativeModel<'_, D>,
        pool: Option<&mut StatesPool<D>>,
        detokenise: Option<&Detokeniser>,
        requests: &[(u64, GenerateRequest)],
        oldest: usize,
    ) -> Result<AdmissionResult, DeviceError> {
        let (taken, owns) = self.reserve_own(requests, oldest, matches!(model, GenerativeModel::EncoderDecoder(_)));
        let given_back = owns.clone();
        let begun = taken.iter().map(|n| &requests[*n]).collect::<Vec<_>>();
        let outcome = match (model, pool) {
            (GenerativeModel::Decoder(model), _) => self.prefill(device, *model, detokenise, &begun, owns),
            (GenerativeModel::EncoderDecoder(model), Some(pool)) => {
                self.encode_prompts(device, *model, pool, &begun, owns).map(|()| Vec::new())
            }
            (GenerativeModel::EncoderDecoder(_), None) => {
                panic!("an encoder-decoder has a pool of states; this is a bug")
            }
        };
        if outcome.is_err() {
            given_back.into_iter().for_each(|block| self.blocks.give_back(block));
        }
        Ok(AdmissionResult { taken, finished: outcome? })
    }

    /// Chooses the requests that fit, the oldest first, and reserves blocks for their continuations. Leaves room for
    /// their prompts.
    fn reserve_own(
        &mut self,
        requests: &[(u64, GenerateRequest)],
        oldest: usize,
        cross: bool,
    ) -> (Vec<usize>, Vec<RowBlock>) {
        let mut found: Vec<(usize, RowBlock)> = Vec::new();
        // The prompts of an admission, unshared, must fit as well. Sharing only leaves more room.
        let mut prompts = 0;
        let others = (0..requests.len()).filter(|n| *n != oldest);
        for n in std::iter::once(oldest).chain(others).take(requests.len()) {
            let request = &requests[n].1;
            let Some(own) = self.blocks.take(request.max_tokens as u32) else {
                if n == oldest { break } else { continue }
            };
            let wanted = prompts + request.prompt.len() as u32;
            let blocks = if cross { &mut self.cross_blocks } else { &mut self.blocks };
            match blocks.take(wanted) {
                Some(block) => {
                    blocks.give_back(block);
                    prompts = wanted;
                    found.push((n, own));
                }
                None => {
                    self.blocks.give_back(own);
                    if n == oldest {
                        break;
                    }
                }
            }
        }
        found.sort_by_key(|(n, _)| *n);
        found.into_iter().unzip()
    }

    /// Reads the prompts of decoders and chooses the first tokens.
    fn prefill(
        &mut self,
        device: &D,
        model: &dyn Decoder<D>,
        detokenise: Option<&Detokeniser>,
        requests: &[&(u64, GenerateRequest)],
        owns: Vec<RowBlock>,
    ) -> Result<Vec<FinishedSequence>, DeviceError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let forest = PrefixForest::from_sequences(&requests.iter().map(|(_, r)| &r.prompt[..]).collect::<Vec<_>>());
        let rows = forest.ids.len() as u32;
        let own = self.blocks.take(rows).expect("room was found for unshared prompts; this is a bug");
        let shifted = |&(start, rows): &(u32, u32)| (start + own.start, rows);
        let packing = Packing { spans: forest.packing.spans.iter().map(shifted).collect(), ..forest.packing.clone() };
        let batch = PackedBatch { ids: &forest.ids, positions: &forest.positions, type_ids: &[], packing: &packing };
        let slots = (own.start..own.start + rows).collect::<Vec<_>>();
        let slots = CacheSlots { cache: &mut self.cache, rows: &slots };
        let chosen = model.forward(device, &batch, Some(slots)).and_then(|hidden| {
            let last = forest.rows.iter().map(|rows| *rows.last().expect("a prompt has tokens; this is a bug"));
            let hidden = device.gather(&hidden, &last.collect::<Vec<_>>())?;
            read_logits(device, model.head(), &hidden)
        });
        let logits = match chosen {
            Ok(logits) => logits,
            Err(error) => {
                self.blocks.give_back(own);
                return Err(error);
            }
        };
        self.computed_tokens += u64::from(rows);
        let shared = Arc::new(SharedRows { own, cross: RowBlock { start: 0, rows: 0 } });
        let mut begun = Vec::with_capacity(requests.len());
        for (((tag, request), rows), own) in requests.iter().zip(&forest.rows).zip(owns) {
            begun.push(ActiveSequence {
                tag: *tag,
                request: request.clone(),
                shared: shared.clone(),
                prompt_spans: row_runs(rows).map(|(start, n)| (start + shared.own.start, n)).collect(),
                cross_span: (0, 0),
                offset: request.prompt.len() as u32,
                own,
                filled: 0,
                last: 0,
                ids: Vec::new(),
                log_probs: Vec::new(),
            });
        }
        drop(shared);
        Ok(self.advance_sequences(begun, &logits, detokenise))
    }

    /// Encodes the prompts of encoder-decoders and projects their states.
    fn encode_prompts(
        &mut self,
        device: &D,
        model: &dyn EncoderDecoder<D>,
        pool: &mut StatesPool<D>,
        requests: &[&(u64, GenerateRequest)],
        owns: Vec<RowBlock>,
    ) -> Result<(), DeviceError> {
        if requests.is_empty() {
            return Ok(());
        }
        let prompts = requests.iter().map(|(_, r)| &r.prompt).collect::<BTreeSet<&TokenIds>>();
        let encoded = score::encode_prompts(device, model, pool, &prompts)?;
        let projected = model.project(device, &encoded.states)?;
        let rows = device.shape(&encoded.states).0 as u32;
        let block = self.cross_blocks.take(rows).expect("room was found for unshared prompts; this is a bug");
        let to = (block.start..block.start + rows).collect::<Vec<_>>();
        let mut pairs =
            self.cross.keys.iter_mut().zip(&projected.keys).chain(self.cross.values.iter_mut().zip(&projected.values));
        let stored =
            pairs.try_for_each(|(into, from)| device.scatter(into, &to, TensorColumns { tensor: from, start: 0 }));
        // Nothing is read here. Without waiting, this work would count as part of the next step.
        if let Err(error) = stored.and_then(|()| device.finish_work()) {
            self.cross_blocks.give_back(block);
            return Err(error);
        }
        self.computed_tokens += encoded.computed;
        let spans: BTreeMap<&TokenIds, (u32, u32)> = encoded.spans;
        let shared = Arc::new(SharedRows { own: RowBlock { start: 0, rows: 0 }, cross: block });
        for ((tag, request), own) in requests.iter().zip(owns) {
            let (start, n) = spans[&request.prompt];
            self.active.push(ActiveSequence {
                tag: *tag,
                request: request.clone(),
                shared: shared.clone(),
                prompt_spans: Vec::new(),
                cross_span: (block.start + start, n),
                offset: 0,
                own,
                filled: 0,
                last: model.decoder_start(),
                ids: Vec::new(),
                log_probs: Vec::new(),
            });
        }
        Ok(())
    }

    /// Adds a token to every active sequence, in as few passes as memory allows.
    pub fn step(&mut self, device: &D, model: &GenerativeModel<'_, D>, detokenise: Option<&Detokeniser>) -> StepResult {
        let mut stepped = StepResult::default();
        let mut waiting = std::mem::take(&mut self.active);
        while !waiting.is_empty() {
            let count = waiting.len().min(self.limit.most);
            let logits = self.run_pass(device, model, &waiting[..count]);
            stepped.passes += 1;
            if count > 1 && matches!(logits, Err(DeviceError::OutOfMemory { .. })) {
                self.limit.halve(count);
                stepped.halved += 1;
                continue;
            }
            let rest = waiting.split_off(count);
            let mut moved = std::mem::replace(&mut waiting, rest);
            match logits {
                Ok(logits) => {
                    self.limit.went_well();
                    self.computed_tokens += count as u64;
                    moved.iter_mut().for_each(|sequence| sequence.filled += 1);
                    stepped.finished.extend(self.advance_sequences(moved, &logits, detokenise));
                }
                Err(error) => {
                    stepped.failed.push((moved.iter().map(|sequence| sequence.tag).collect(), error));
                    moved.into_iter().for_each(|sequence| self.release_sequence(sequence));
                }
            }
        }
        stepped
    }

    /// The logits of the next token of each sequence. Fills a row of the cache for each; a repeated pass fills it
    /// again.
    fn run_pass(
        &mut self,
        device: &D,
        model: &GenerativeModel<'_, D>,
        sequences: &[ActiveSequence],
    ) -> Result<Vec<f32>, DeviceError> {
        let mut packing = Packing::new();
        let mut cross = Packing::new();
        for sequence in sequences {
            let own = (sequence.own.start, sequence.filled + 1);
            packing.push(1, sequence.prompt_spans.iter().copied().chain([own]));
            cross.push(1, [sequence.cross_span]);
        }
        let ids = sequences.iter().map(|s| s.last).collect::<Vec<_>>();
        let positions = sequences.iter().map(|s| s.offset + s.filled).collect::<Vec<_>>();
        let rows = sequences.iter().map(|s| s.own.start + s.filled).collect::<Vec<_>>();
        let batch = PackedBatch { ids: &ids, positions: &positions, type_ids: &[], packing: &packing };
        let slots = Some(CacheSlots { cache: &mut self.cache, rows: &rows });
        let hidden = match model {
            GenerativeModel::Decoder(model) => model.forward(device, &batch, slots)?,
            GenerativeModel::EncoderDecoder(model) => {
                model.decode(device, &batch, EncoderMemory::Projected(&self.cross), &cross, slots)?
            }
        };
        read_logits(device, model.head(), &hidden)
    }

    /// Chooses a token for each of `moved`. Unfinished sequences become active, finished ones are returned.
    fn advance_sequences(
        &mut self,
        moved: Vec<ActiveSequence>,
        logits: &[f32],
        detokenise: Option<&Detokeniser>,
    ) -> Vec<FinishedSequence> {
        let vocabulary = logits.len() / moved.len();
        let mut finished = Vec::new();
        for (mut sequence, logits) in moved.into_iter().zip(logits.chunks_exact(vocabulary)) {
            let ended = match choose(logits, &sequence.request.sampling, sequence.ids.len()) {
                Ok(chosen) => take_token(&mut sequence, chosen, detokenise).map(Ok),
                Err(error) => Some(Err(error)),
            };
            match ended {
                None => self.active.push(sequence),
                Some(ended) => {
                    let generated = ended.map(|finish| GenerateResult {
                        ids: std::mem::take(&mut sequence.ids),
                        log_probs: std::mem::take(&mut sequence.log_probs),
                        finish,
                    });
                    finished.push((sequence.tag, generated));
                    self.release_sequence(sequence);
                }
            }
        }
        finished
    }

    fn release_sequence(&mut self, sequence: ActiveSequence) {
        self.blocks.give_back(sequence.own);
        if let Ok(shared) = Arc::try_unwrap(sequence.shared) {
            self.blocks.give_back(shared.own);
            self.cross_blocks.give_back(shared.cross);
        }
    }
}

/// Appends a token. Returns the reason if it ended the sequence.
fn take_token(
    sequence: &mut ActiveSequence,
    ChosenToken { id, log_prob }: ChosenToken,
    detokenise: Option<&Detokeniser>,
) -> Option<FinishReason> {
    if sequence.request.ends.contains(&id) {
        return Some(FinishReason::End);
    }
    sequence.last = id;
    sequence.ids.push(id);
    sequence.log_probs.push(log_prob);
    if let (Some(detokenise), false) = (detokenise, sequence.request.stop.is_empty())
        && cut_at_stop(&detokenise(&sequence.ids), &sequence.request.stop).1
    {
        return Some(FinishReason::Stop);
    }
    (sequence.ids.len() >= sequence.request.max_tokens).then_some(FinishReason::Length)
}

/// Logits of every row, on the host.
fn read_logits<D: Device>(device: &D, head: &LmHead<D>, hidden: &D::Tensor) -> Result<Vec<f32>, DeviceError> {
    device.project(hidden, &head.weight, head.bias.as_ref(), head.scale)
}

/// Groups rows into runs of neighbours: `(first, count)`.
fn row_runs(rows: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    rows.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len() as u32))
}

/// The text before the first of the stop strings, and whether there was one.
pub fn cut_at_stop<'a>(text: &'a str, stop: &[String]) -> (&'a str, bool) {
    let first = stop.iter().filter(|s| !s.is_empty()).filter_map(|s| text.find(s.as_str())).min();
    first.map_or((text, false), |at| (&text[..at], true))
}
