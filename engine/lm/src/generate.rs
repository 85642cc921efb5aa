//! Generates continuations with a key/value cache: prompts join between steps, finished sequences leave at once.
//!
//! ```text
//!   waiting --admit--> prefill (what no prompt before it had) --> active --step--> one token each --> finished
//! ```
//!
//! The keys of a decoder's sequence are rows of its prompt, but for the prompt's last token, and rows of its own. The
//! prompts' rows are a tree that outlives its sequences (`prefix_cache`): a few-shot prefix is computed once,
//! for all batches. The last token is always computed, for its state gives the first new one. For encoder-decoders a
//! second cache holds the projected keys and values of encoder states, shared by equal prompts of an admission.
//!
//! A step takes all sequences at once. If memory runs out, it takes half as many at a time, and after many good steps
//! more again. A sequence ends only if memory runs out for it alone.

use crate::blocks::{BlockAllocator, RowBlock, first_rows, row_at};
use crate::model::{CacheSlots, Decoder, EncoderDecoder, EncoderMemory, KeyValueCache, LmHead, PackedBatch};
use crate::prefix_cache::{NodeId, PrefixCache, PrefixPath};
use crate::request::{FinishReason, GenerateRequest, GenerateResult, TokenIds};
use crate::sample::{for_prompt, rule_at};
use crate::score;
use crate::states_pool::StatesPool;
use crate::stop::StopSearch;
use hopeval_device::{ChosenToken, Device, DeviceError, NextToken, Packing, TensorColumns, TokenRule, UnusableLogits};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use crate::stop::{Detokeniser, cut_at_stop};

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
    /// Prompts of decoders.
    prefixes: PrefixCache,
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

/// A request that fits the caches, and what was reserved for it.
#[derive(Debug)]
struct AdmittedRequest {
    /// Its index in the input.
    nth: usize,
    own: Vec<RowBlock>,
    /// Of decoders: its prompt without the last token.
    prefix: PrefixPath,
}

#[derive(Debug)]
struct ActiveSequence {
    tag: u64,
    request: GenerateRequest,
    /// Its path in the tree of prompts (decoders).
    prefix: PrefixPath,
    /// Rows of encoder states, shared by the sequences of one admission.
    cross: Option<Arc<RowBlock>>,
    /// Key rows of that path, in order.
    prompt_spans: Vec<(u32, u32)>,
    /// Key rows of the encoder's states.
    cross_span: (u32, u32),
    /// The position of the token in its first own row.
    offset: u32,
    own: Vec<RowBlock>,
    filled: u32,
    /// The next token to read.
    last: u32,
    ids: Vec<u32>,
    log_probs: Vec<f32>,
    stop: StopSearch,
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
    /// Reserves caches of `rows` tokens. With `keeps`, rows of prompts stay for later ones while there is room.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn new(device: &D, model: &GenerativeModel<'_, D>, rows: u32, keeps: bool) -> Result<Self, DeviceError> {
        let (sizes, cross_rows) = match model {
            GenerativeModel::Decoder(model) => (model.sizes(), 0),
            GenerativeModel::EncoderDecoder(model) => (model.sizes(), rows),
        };
        Ok(Self {
            cache: KeyValueCache::reserve(device, sizes.layers, rows as usize, sizes.kv_width)?,
            blocks: BlockAllocator::new(rows),
            prefixes: PrefixCache::new(keeps),
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
        match (model, pool) {
            (GenerativeModel::Decoder(model), _) => {
                let mut fresh = BTreeSet::new();
                let admitted = self.admit_fitting(requests, oldest, |generator, request| {
                    generator.reserve_decoder(request, &mut fresh)
                });
                let taken = admitted.iter().map(|one| one.nth).collect();
                let finished = self.prefill(device, *model, detokenise, requests, admitted, &fresh)?;
                Ok(AdmissionResult { taken, finished })
            }
            (GenerativeModel::EncoderDecoder(model), Some(pool)) => {
                // The prompts of an admission, unshared, must fit. Sharing only leaves more room.
                let mut prompts = 0;
                let admitted = self.admit_fitting(requests, oldest, |generator, request| {
                    generator.reserve_encoder_decoder(request, &mut prompts)
                });
                let taken = admitted.iter().map(|one| one.nth).collect();
                self.encode_prompts(device, *model, pool, requests, admitted)?;
                Ok(AdmissionResult { taken, finished: Vec::new() })
            }
            (GenerativeModel::EncoderDecoder(_), None) => {
                panic!("an encoder-decoder has a pool of states; this is a bug")
            }
        }
    }

    /// The requests that `reserve` finds room for, the oldest first; in the order of the input.
    fn admit_fitting(
        &mut self,
        requests: &[(u64, GenerateRequest)],
        oldest: usize,
        mut reserve: impl FnMut(&mut Self, &GenerateRequest) -> Option<(Vec<RowBlock>, PrefixPath)>,
    ) -> Vec<AdmittedRequest> {
        let mut admitted: Vec<AdmittedRequest> = Vec::new();
        let others = (0..requests.len()).filter(|n| *n != oldest);
        for nth in std::iter::once(oldest).chain(others).take(requests.len()) {
            match reserve(self, &requests[nth].1) {
                Some((own, prefix)) => admitted.push(AdmittedRequest { nth, own, prefix }),
                None if nth == oldest => break,
                None => {}
            }
        }
        admitted.sort_by_key(|one| one.nth);
        admitted
    }

    /// Rows of a decoder's prompt and continuation. The last token of the prompt has the first own row; the last
    /// generated one is never read and needs none.
    fn reserve_decoder(
        &mut self,
        request: &GenerateRequest,
        fresh: &mut BTreeSet<NodeId>,
    ) -> Option<(Vec<RowBlock>, PrefixPath)> {
        let prefix = &request.prompt[..request.prompt.len() - 1];
        let path = self.prefixes.enter(&mut self.blocks, prefix, fresh)?;
        let own = self.prefixes.take_rows(&mut self.blocks, request.max_tokens as u32);
        if own.is_none() {
            self.prefixes.undo(&mut self.blocks, path, fresh);
        }
        own.map(|own| (own, path))
    }

    /// Rows of a continuation, if there is room for the encoder states, too, beside those of `prompts` other tokens.
    fn reserve_encoder_decoder(
        &mut self,
        request: &GenerateRequest,
        prompts: &mut u32,
    ) -> Option<(Vec<RowBlock>, PrefixPath)> {
        let own = self.blocks.take(request.max_tokens as u32)?;
        let wanted = *prompts + request.prompt.len() as u32;
        match self.cross_blocks.take(wanted) {
            Some(block) => {
                self.cross_blocks.give_back(block);
                *prompts = wanted;
                Some((vec![own], PrefixPath { end: None }))
            }
            None => {
                self.blocks.give_back(own);
                None
            }
        }
    }

    /// Reads the prompts of decoders, as far as the cache lacks them, and chooses the first tokens.
    fn prefill(
        &mut self,
        device: &D,
        model: &dyn Decoder<D>,
        detokenise: Option<&Detokeniser>,
        requests: &[(u64, GenerateRequest)],
        admitted: Vec<AdmittedRequest>,
        fresh: &BTreeSet<NodeId>,
    ) -> Result<Vec<FinishedSequence>, DeviceError> {
        if admitted.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = PrefillRows::default();
        for run in fresh.iter().map(|id| self.prefixes.fresh_run(*id)) {
            let positions = run.start..run.start + run.tokens.len() as u32;
            rows.push(&run.tokens, positions, &run.rows, run.spans.iter().copied());
        }
        let first = rows.ids.len() as u32;
        let mut begun = Vec::with_capacity(admitted.len());
        for AdmittedRequest { nth, own, prefix } in admitted {
            let (tag, mut request) = requests[nth].clone();
            request.sampling = for_prompt(&request.sampling, &request.prompt);
            let prompt_spans = self.prefixes.spans(prefix);
            let offset = request.prompt.len() as u32 - 1;
            let last = &request.prompt[offset as usize..];
            let row = row_at(&own, 0);
            rows.push(last, offset..offset + 1, &[row], prompt_spans.iter().copied().chain([(row, 1)]));
            begun.push(ActiveSequence {
                tag,
                request,
                prefix,
                cross: None,
                prompt_spans,
                cross_span: (0, 0),
                offset,
                own,
                filled: 1,
                last: 0,
                ids: Vec::new(),
                log_probs: Vec::new(),
                stop: StopSearch::default(),
            });
        }
        let slots = CacheSlots { cache: &mut self.cache, rows: &rows.slots };
        let batch = PackedBatch { ids: &rows.ids, positions: &rows.positions, type_ids: &[], packing: &rows.packing };
        let chosen = model.forward(device, &batch, Some(slots)).and_then(|hidden| {
            let hidden = device.gather(&hidden, &(first..rows.ids.len() as u32).collect::<Vec<_>>())?;
            choose_next(device, model.head(), &hidden, &begun)
        });
        match chosen {
            Ok(chosen) => {
                self.computed_tokens += rows.ids.len() as u64;
                Ok(self.advance_sequences(begun, chosen, detokenise))
            }
            Err(error) => {
                begun.into_iter().for_each(|sequence| self.release_sequence(sequence));
                self.prefixes.forget(&mut self.blocks, fresh);
                Err(error)
            }
        }
    }

    /// Encodes the prompts of encoder-decoders and projects their states.
    fn encode_prompts(
        &mut self,
        device: &D,
        model: &dyn EncoderDecoder<D>,
        pool: &mut StatesPool<D>,
        requests: &[(u64, GenerateRequest)],
        admitted: Vec<AdmittedRequest>,
    ) -> Result<(), DeviceError> {
        if admitted.is_empty() {
            return Ok(());
        }
        let prompts = admitted.iter().map(|one| &requests[one.nth].1.prompt).collect::<BTreeSet<&TokenIds>>();
        let projected = self.project_prompts(device, model, pool, &prompts);
        let (block, spans) = match projected {
            Ok(projected) => projected,
            Err(error) => {
                admitted.into_iter().flat_map(|one| one.own).for_each(|block| self.blocks.give_back(block));
                return Err(error);
            }
        };
        let cross = Arc::new(block);
        for AdmittedRequest { nth, own, prefix } in admitted {
            let (tag, mut request) = requests[nth].clone();
            request.sampling = for_prompt(&request.sampling, &request.prompt);
            let (start, n) = spans[&request.prompt];
            self.active.push(ActiveSequence {
                tag,
                request,
                prefix,
                cross: Some(Arc::clone(&cross)),
                prompt_spans: Vec::new(),
                cross_span: (block.start + start, n),
                offset: 0,
                own,
                filled: 0,
                last: model.decoder_start(),
                ids: Vec::new(),
                log_probs: Vec::new(),
                stop: StopSearch::default(),
            });
        }
        Ok(())
    }

    /// The cache rows of the prompts' projected states, and each prompt's rows among them.
    fn project_prompts<'p>(
        &mut self,
        device: &D,
        model: &dyn EncoderDecoder<D>,
        pool: &mut StatesPool<D>,
        prompts: &BTreeSet<&'p TokenIds>,
    ) -> Result<ProjectedPrompts<'p>, DeviceError> {
        let encoded = score::encode_prompts(device, model, pool, prompts)?;
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
        Ok((block, encoded.spans))
    }

    /// Adds a token to every active sequence, in as few passes as memory allows.
    pub fn step(&mut self, device: &D, model: &GenerativeModel<'_, D>, detokenise: Option<&Detokeniser>) -> StepResult {
        let mut stepped = StepResult::default();
        let mut waiting = std::mem::take(&mut self.active);
        while !waiting.is_empty() {
            let count = waiting.len().min(self.limit.most);
            let chosen = self.run_pass(device, model, &waiting[..count]);
            stepped.passes += 1;
            if count > 1 && matches!(chosen, Err(DeviceError::OutOfMemory { .. })) {
                self.limit.halve(count);
                stepped.halved += 1;
                continue;
            }
            let rest = waiting.split_off(count);
            let mut moved = std::mem::replace(&mut waiting, rest);
            match chosen {
                Ok(chosen) => {
                    self.limit.went_well();
                    self.computed_tokens += count as u64;
                    moved.iter_mut().for_each(|sequence| sequence.filled += 1);
                    stepped.finished.extend(self.advance_sequences(moved, chosen, detokenise));
                }
                Err(error) => {
                    stepped.failed.push((moved.iter().map(|sequence| sequence.tag).collect(), error));
                    moved.into_iter().for_each(|sequence| self.release_sequence(sequence));
                }
            }
        }
        stepped
    }

    /// The next token of each sequence. Fills a row of the cache for each; a repeated pass fills it
    /// again.
    fn run_pass(
        &mut self,
        device: &D,
        model: &GenerativeModel<'_, D>,
        sequences: &[ActiveSequence],
    ) -> Result<Vec<NextToken>, DeviceError> {
        let mut packing = Packing::new();
        let mut cross = Packing::new();
        for sequence in sequences {
            let own = first_rows(&sequence.own, sequence.filled + 1);
            packing.push(1, sequence.prompt_spans.iter().copied().chain(own));
            cross.push(1, [sequence.cross_span]);
        }
        let ids = sequences.iter().map(|s| s.last).collect::<Vec<_>>();
        let positions = sequences.iter().map(|s| s.offset + s.filled).collect::<Vec<_>>();
        let rows = sequences.iter().map(|s| row_at(&s.own, s.filled)).collect::<Vec<_>>();
        let batch = PackedBatch { ids: &ids, positions: &positions, type_ids: &[], packing: &packing };
        let slots = Some(CacheSlots { cache: &mut self.cache, rows: &rows });
        let hidden = match model {
            GenerativeModel::Decoder(model) => model.forward(device, &batch, slots)?,
            GenerativeModel::EncoderDecoder(model) => {
                model.decode(device, &batch, EncoderMemory::Projected(&self.cross), &cross, slots)?
            }
        };
        choose_next(device, model.head(), &hidden, sequences)
    }

    /// Appends its chosen token to each of `moved`. Unfinished sequences become active, finished ones are returned.
    fn advance_sequences(
        &mut self,
        moved: Vec<ActiveSequence>,
        chosen: Vec<NextToken>,
        detokenise: Option<&Detokeniser>,
    ) -> Vec<FinishedSequence> {
        let mut finished = Vec::new();
        for (mut sequence, chosen) in moved.into_iter().zip(chosen) {
            let ended = match chosen {
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
        sequence.own.into_iter().for_each(|block| self.blocks.give_back(block));
        self.prefixes.release(&mut self.blocks, sequence.prefix);
        if let Some(cross) = sequence.cross.and_then(Arc::into_inner) {
            self.cross_blocks.give_back(cross);
        }
    }
}

/// The cache rows of several prompts' projected states, and each prompt's rows among them.
type ProjectedPrompts<'p> = (RowBlock, BTreeMap<&'p TokenIds, (u32, u32)>);

/// The rows of an admission's pass.
#[derive(Debug)]
struct PrefillRows {
    ids: Vec<u32>,
    positions: Vec<u32>,
    /// The cache row of each.
    slots: Vec<u32>,
    packing: Packing,
}

impl Default for PrefillRows {
    fn default() -> Self {
        Self { ids: Vec::new(), positions: Vec::new(), slots: Vec::new(), packing: Packing::new() }
    }
}

impl PrefillRows {
    /// Adds neighbouring tokens of a prompt, which attend to `spans` of the cache.
    fn push(
        &mut self,
        ids: &[u32],
        positions: std::ops::Range<u32>,
        slots: &[u32],
        spans: impl IntoIterator<Item = (u32, u32)>,
    ) {
        self.ids.extend(ids);
        self.positions.extend(positions);
        self.slots.extend(slots);
        self.packing.push(ids.len(), spans);
    }
}

/// The next token of each of `sequences`, whose states are the rows of `hidden`.
fn choose_next<D: Device>(
    device: &D,
    head: &LmHead<D>,
    hidden: &D::Tensor,
    sequences: &[ActiveSequence],
) -> Result<Vec<NextToken>, DeviceError> {
    let rule = |sequence: &ActiveSequence| rule_at(&sequence.request.sampling, sequence.ids.len());
    let rules: Vec<TokenRule> = sequences.iter().map(rule).collect();
    device.next_tokens(hidden, &head.weight, head.bias.as_ref(), head.scale, &rules)
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
    if let Some(detokenise) = detokenise
        && sequence.stop.has_stopped(&sequence.ids, &sequence.request.stop, detokenise)
    {
        return Some(FinishReason::Stop);
    }
    (sequence.ids.len() >= sequence.request.max_tokens).then_some(FinishReason::Length)
}
