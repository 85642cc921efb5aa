//! The engine's thread: takes in submissions, runs one batch of each sort in turn, and hands the results to be told.
//!
//! A device that works beside the host has two batches of scores or encodings: the thread packs and requests the next
//! one before it reads the results of the last. Generation reads each token before it requests the next.
//!
//! ```text
//!   thread   request 1 | request 2 | wait, read 1 | request 3 | wait, read 2 |
//!   device             |------------- 1 ----------|------------- 2 ----------|-- 3
//! ```

mod meter;

use super::answering::{FinishedGroup, ProportionalShares, temperature_grid};
use super::pool_tokens::cache_numbers;
use super::queue::{QueueItem, RequestIdentity};
use super::{EngineCounters, EngineOptions, Refusal, Submission};
use crate::generate::{AdmissionResult, Detokeniser, FinishedSequence, GenerativeModel, Generator};
use crate::loaded_model::LoadedModel;
use crate::pack::Packer;
use crate::request::{Answer, Request, ScoreRequest};
use crate::score::{self, BatchResults};
use crate::states_pool::StatesPool;
use hopeval_device::{Device, DeviceError, PendingRead};
use meter::{DeviceUsage, WorkMeter, measure_work};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Instant;

/// The state of the thread.
pub(super) struct EngineWorker<'a, D: Device> {
    device: &'a D,
    model: &'a LoadedModel<D>,
    options: EngineOptions,
    counters: &'a EngineCounters,
    detokenise: Option<Box<Detokeniser>>,
    /// Waiting scores and encodings.
    batches: Packer<QueueItem>,
    /// The batch whose results are to be read next.
    running: Option<RunningBatch<'a>>,
    /// Prompts waiting for their continuation.
    prompts: Packer<QueueItem>,
    /// True if some of them did not fit beside the active continuations. Nothing is admitted until one of those ends.
    full: bool,
    pool: Option<StatesPool<D>>,
    generator: Option<Generator<D>>,
    groups: u64,
    /// Submissions by group. Equal requests form one group; its first submission creates the item.
    waiting: HashMap<u64, RequestGroup>,
    /// Groups whose item still waits, by request.
    group_of: HashMap<RequestIdentity, u64>,
    /// Submissions that no batch may begin with. They are dropped, and so answered, with the engine.
    set_aside: Vec<Submission>,
    /// To the thread that answers.
    finished: Sender<FinishedGroup>,
    /// True once that thread has ended, by a panic of a reply.
    is_unheard: bool,
    /// The begin of the first finished piece of work.
    first_begun: Option<Instant>,
}

/// The submissions that wait for one answer.
struct RequestGroup {
    identity: RequestIdentity,
    submissions: Vec<Submission>,
    /// The time at which its item left the queue.
    started: Option<Instant>,
    device_s: f64,
    /// Device energy in joules, or `None` once a piece of work was not metered.
    energy_j: Option<f64>,
    computed_tokens: u64,
}

/// A batch of which the device has all the work.
struct RunningBatch<'a> {
    items: Vec<(u64, QueueItem)>,
    results: PendingRead<BatchResults<Answer>>,
    meter: WorkMeter<'a>,
}

impl<'a, D: Device> EngineWorker<'a, D> {
    pub(super) fn new(
        device: &'a D,
        model: &'a LoadedModel<D>,
        options: EngineOptions,
        detokenise: Option<Box<Detokeniser>>,
        counters: &'a EngineCounters,
        finished: Sender<FinishedGroup>,
    ) -> Self {
        Self {
            device,
            model,
            options,
            counters,
            detokenise,
            batches: Packer::new(options.batch_tokens),
            running: None,
            prompts: Packer::new(options.batch_tokens),
            full: false,
            pool: None,
            generator: None,
            groups: 0,
            waiting: HashMap::new(),
            group_of: HashMap::new(),
            set_aside: Vec::new(),
            finished,
            is_unheard: false,
            first_begun: None,
        }
    }

    /// Runs until the queue is closed and everything is answered, or until `stop`. Then the waiting submissions are
    /// dropped; this answers them.
    pub(super) fn run(mut self, submissions: &Receiver<Vec<Submission>>, stop: &AtomicBool) {
        let mut open = true;
        while (open || !self.waiting.is_empty()) && !self.is_unheard && !stop.load(Relaxed) {
            if open && self.waiting.is_empty() {
                match submissions.recv() {
                    Ok(submissions) => submissions.into_iter().for_each(|submission| self.take_in(submission)),
                    Err(_) => open = false,
                }
            }
            loop {
                match submissions.try_recv() {
                    Ok(submissions) => submissions.into_iter().for_each(|submission| self.take_in(submission)),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        open = false;
                        break;
                    }
                }
            }
            self.run_batch();
            self.run_generation();
        }
        self.finish_running(None);
    }

    fn take_in(&mut self, submission: Submission) {
        let tokens = request_tokens(&submission.request);
        self.counters.requested_tokens.fetch_add(tokens, Relaxed);
        self.counters.operations.fetch_add(submission.work.operations, Relaxed);
        let identity = RequestIdentity::from_request(&submission.request);
        if self.options.share
            && let Some(group) = self.group_of.get(&identity)
        {
            let group = self.waiting.get_mut(group).expect("a waiting request has a group; this is a bug");
            group.submissions.push(submission);
            return;
        }
        self.counters.unique_tokens.fetch_add(tokens, Relaxed);
        self.groups += 1;
        self.group_of.insert(identity.clone(), self.groups);
        let request = submission.request.clone();
        let group = RequestGroup {
            identity,
            submissions: vec![submission],
            started: None,
            device_s: 0.0,
            energy_j: self.device.energy().map(|_| 0.0),
            computed_tokens: 0,
        };
        self.waiting.insert(self.groups, group);
        let packer = if matches!(request, Request::Generate(_)) { &mut self.prompts } else { &mut self.batches };
        let item = QueueItem::new(self.model, request, self.groups, self.options.share);
        let fits = packer.push(item).is_ok();
        assert!(fits, "what cannot fit was refused on submission; this is a bug");
    }

    /// Requests the next batch of scores or encodings, then reads the one before it.
    fn run_batch(&mut self) {
        let mut next = self.request_batch();
        self.finish_running(next.as_mut());
        self.running = next;
    }

    /// Takes a batch from the queue and requests its results, which are read at once where they are ready. `None` if
    /// there is nothing to wait for.
    fn request_batch(&mut self) -> Option<RunningBatch<'a>> {
        let items = self.batches.next_batch()?;
        let items = self.without_set_aside(items);
        if items.is_empty() {
            return None;
        }
        let device = self.device;
        let meter = if self.running.is_some() { WorkMeter::begin_behind() } else { WorkMeter::begin(device) };
        let (requested, busy) = device.run_timed(|| self.request_answers(&items));
        self.counters.batches.fetch_add(1, Relaxed);
        match requested {
            Ok(results) if results.is_ready() => {
                let usage = meter.end(device, Some(busy));
                self.finish_batch(items, results.read(), &usage);
                None
            }
            Ok(results) => {
                self.leave_queue(&items, meter.begun);
                Some(RunningBatch { items, results, meter })
            }
            Err(error) => {
                // Its preparation is taken with it, unless the batch before it lasts for that time, too.
                if self.running.is_none() {
                    let _ = meter.end(device, Some(busy));
                }
                self.fail_batch(items, &error);
                None
            }
        }
    }

    /// Waits for the batch on the device, if there is one. From then on the device works for `next`.
    fn finish_running(&mut self, next: Option<&mut RunningBatch<'a>>) {
        if let Some(RunningBatch { items, results, meter }) = self.running.take() {
            let results = results.read();
            let usage = meter.end(self.device, None);
            if let Some(next) = next {
                next.meter.follow(self.device);
            }
            self.finish_batch(items, results, &usage);
        }
    }

    fn finish_batch(
        &mut self,
        items: Vec<(u64, QueueItem)>,
        results: Result<BatchResults<Answer>, DeviceError>,
        usage: &DeviceUsage,
    ) {
        match results {
            Ok(BatchResults { results, computed_tokens }) => {
                self.batches.done();
                self.leave_queue(&items, usage.begun);
                let groups = items.iter().map(|(_, item)| item.group).collect::<Vec<_>>();
                self.charge_groups(&groups, usage, computed_tokens, request_tokens);
                for ((_, item), result) in items.iter().zip(results) {
                    self.complete_group(item.group, Ok(result));
                }
            }
            Err(error) => self.fail_batch(items, &error),
        }
    }

    /// Lets the items of a batch that found no memory wait for a smaller one; refuses those of any other failure.
    fn fail_batch(&mut self, items: Vec<(u64, QueueItem)>, error: &DeviceError) {
        if matches!(error, DeviceError::OutOfMemory { .. }) && items.len() > 1 {
            self.counters.halved.fetch_add(1, Relaxed);
            let alone = self.batches.out_of_memory(items);
            assert!(alone.is_none(), "several items wait again; this is a bug");
        } else {
            items.into_iter().for_each(|(_, item)| self.complete_group(item.group, Err(device_refusal(error))));
        }
    }

    /// The items of a batch that may begin. The submissions that may not are set aside.
    fn without_set_aside(&mut self, mut batch: Vec<(u64, QueueItem)>) -> Vec<(u64, QueueItem)> {
        batch.retain(|(_, item)| {
            let group = self.waiting.get_mut(&item.group).expect("an item has a group; this is a bug");
            let (begun, kept): (Vec<_>, Vec<_>) =
                std::mem::take(&mut group.submissions).into_iter().partition(Submission::may_begin);
            self.set_aside.extend(kept);
            let begins = !begun.is_empty();
            group.submissions = begun;
            if !begins && let Some(group) = self.waiting.remove(&item.group) {
                self.group_of.remove(&group.identity);
            }
            begins
        });
        batch
    }

    fn request_answers(
        &mut self,
        batch: &[(u64, QueueItem)],
    ) -> Result<PendingRead<BatchResults<Answer>>, DeviceError> {
        if let LoadedModel::Encoder(model) = self.model {
            let requests = batch.iter().map(|(_, item)| item.request.as_encode()).collect::<Vec<_>>();
            let encoded = model.answer_batch(self.device, &requests)?;
            return Ok(encoded.map(|encoded| wrap_results(encoded, Answer::Encoded)));
        }
        let requests = batch.iter().map(|(_, item)| self.score_of(item)).collect::<Vec<_>>();
        let scores = requests.iter().collect::<Vec<_>>();
        let scores = match self.model {
            LoadedModel::Decoder(model) => score::with_decoder(self.device, &**model, &scores, self.options.share)?,
            LoadedModel::EncoderDecoder(model) => {
                self.open_pool()?;
                let pool = self.pool.as_mut().expect("it was opened; this is a bug");
                let scored = score::with_encoder_decoder(self.device, &**model, pool, &scores);
                if self.options.states_tokens.most == 0 {
                    pool.clear();
                }
                scored?
            }
            LoadedModel::Encoder(_) => unreachable!("it was answered above; this is a bug"),
        };
        Ok(scores.map(|scores| wrap_results(scores, Answer::Scored)))
    }

    /// The score request of an item, with the temperatures of all waiting submissions.
    fn score_of(&self, item: &QueueItem) -> ScoreRequest {
        let temperatures = temperature_grid(&self.waiting[&item.group].submissions);
        ScoreRequest { temperatures, ..item.request.as_score().clone() }
    }

    fn open_pool(&mut self) -> Result<(), DeviceError> {
        if self.pool.is_none() {
            let (device, hidden) = (self.device, self.model.sizes().hidden);
            let reserve = |tokens: usize| StatesPool::reserve(device, tokens.max(self.options.batch_tokens), hidden);
            let tokens = self.options.states_tokens.within(device.free_numbers(), hidden);
            self.pool = Some(tokens.reserve(reserve)?);
        }
        Ok(())
    }

    fn open_generator(&mut self, model: &GenerativeModel<'_, D>) -> Result<(), DeviceError> {
        if matches!(model, GenerativeModel::EncoderDecoder(_)) {
            self.open_pool()?;
        }
        if self.generator.is_none() {
            // As encoder states are: nothing of other requests where requests are timed one by one.
            let keeps = self.options.share && self.options.states_tokens.most > 0;
            let reserve = |tokens: usize| Generator::new(self.device, model, tokens as u32, keeps);
            let numbers = cache_numbers(&self.model.sizes(), matches!(model, GenerativeModel::EncoderDecoder(_)));
            let tokens = self.options.cache_tokens.within(self.device.free_numbers(), numbers);
            self.generator = Some(tokens.reserve(reserve)?);
        }
        Ok(())
    }

    /// Admits the prompts that fit, and adds a token to every continuation.
    fn run_generation(&mut self) {
        let idle = self.generator.as_ref().is_none_or(Generator::is_empty);
        if self.prompts.is_empty() && idle {
            return;
        }
        // Each step reads its tokens: a batch before it would count as its own.
        self.finish_running(None);
        let model = match self.model {
            LoadedModel::Decoder(model) => GenerativeModel::Decoder(&**model),
            LoadedModel::EncoderDecoder(model) => GenerativeModel::EncoderDecoder(&**model),
            LoadedModel::Encoder(_) => unreachable!("encoders are not asked to generate; this is a bug"),
        };
        if let Err(error) = self.open_generator(&model) {
            while let Some(batch) = self.prompts.next_batch() {
                batch.into_iter().for_each(|(_, item)| self.complete_group(item.group, Err(device_refusal(&error))));
            }
            return;
        }
        if !self.full
            && let Some(batch) = self.prompts.next_batch()
        {
            let batch = self.without_set_aside(batch);
            if !batch.is_empty() {
                self.admit_prompts(&model, batch);
            }
        }
        let generator = self.generator.as_mut().expect("it was opened; this is a bug");
        if generator.is_empty() {
            return;
        }
        let (device, detokenise) = (self.device, self.detokenise.as_deref());
        let groups = generator.tags();
        let (stepped, usage) = measure_work(device, || generator.step(device, &model, detokenise));
        let computed_tokens = generator.take_computed();
        self.counters.batches.fetch_add(stepped.passes, Relaxed);
        self.counters.halved.fetch_add(stepped.halved, Relaxed);
        self.full &= !stepped.has_left();
        // One token for each.
        self.charge_groups(&groups, &usage, computed_tokens, |_| 1);
        self.finish_sequences(stepped.finished);
        for (groups, error) in stepped.failed {
            groups.into_iter().for_each(|group| self.complete_group(group, Err(device_refusal(&error))));
        }
    }

    fn admit_prompts(&mut self, model: &GenerativeModel<'_, D>, batch: Vec<(u64, QueueItem)>) {
        let requests =
            batch.iter().map(|(_, item)| (item.group, item.request.as_generate().clone())).collect::<Vec<_>>();
        let oldest = (0..batch.len()).min_by_key(|n| batch[*n].0).expect("a batch holds an item; this is a bug");
        let generator = self.generator.as_mut().expect("it was opened; this is a bug");
        let others = !generator.is_empty();
        let (device, pool, detokenise) = (self.device, self.pool.as_mut(), self.detokenise.as_deref());
        let (outcome, usage) =
            measure_work(device, || generator.admit(device, model, pool, detokenise, &requests, oldest));
        match outcome {
            Ok(AdmissionResult { taken, finished }) => {
                let computed_tokens = generator.take_computed();
                self.prompts.done();
                let (begun, left): (Vec<_>, Vec<_>) =
                    batch.into_iter().enumerate().partition(|(n, _)| taken.binary_search(n).is_ok());
                let [begun, left] =
                    [begun, left].map(|part| part.into_iter().map(|(_, item)| item).collect::<Vec<_>>());
                self.full = !left.is_empty() && finished.is_empty();
                self.prompts.put_back(left);
                self.leave_queue(&begun, usage.begun);
                let groups = begun.iter().map(|(_, item)| item.group).collect::<Vec<_>>();
                self.charge_groups(&groups, &usage, computed_tokens, request_tokens);
                self.finish_sequences(finished);
            }
            Err(DeviceError::OutOfMemory { .. }) if batch.len() > 1 => {
                self.counters.halved.fetch_add(1, Relaxed);
                let alone = self.prompts.out_of_memory(batch);
                assert!(alone.is_none(), "several items wait again; this is a bug");
            }
            // The others may hold the memory that it lacks.
            Err(DeviceError::OutOfMemory { .. }) if others => {
                self.prompts.put_back(batch);
                self.full = true;
            }
            Err(error) => {
                batch.into_iter().for_each(|(_, item)| self.complete_group(item.group, Err(device_refusal(&error))))
            }
        }
    }

    fn finish_sequences(&mut self, finished: Vec<FinishedSequence>) {
        for (group, generated) in finished {
            self.complete_group(group, generated.map(Answer::Generated).map_err(|_| Refusal::NotFinite));
        }
    }

    /// Marks these items as no longer waiting: later equal requests are answered on their own.
    fn leave_queue(&mut self, batch: &[(u64, QueueItem)], started: Instant) {
        for (_, item) in batch {
            let group = self.waiting.get_mut(&item.group).expect("an item has a group; this is a bug");
            group.started = Some(started);
            if self.group_of.get(&group.identity) == Some(&item.group) {
                self.group_of.remove(&group.identity);
            }
        }
    }

    /// Divides the cost of finished work among groups: the seconds and the energy by the operations of each group
    /// alone, the computed tokens by the tokens of each group.
    fn charge_groups(
        &mut self,
        groups: &[u64],
        usage: &DeviceUsage,
        computed_tokens: u64,
        tokens: impl Fn(&Request) -> u64,
    ) {
        let &DeviceUsage { begun, ended, lasted, busy, energy_j } = usage;
        let since = *self.first_begun.get_or_insert(begun);
        self.counters.working_us.fetch_add(lasted.as_micros() as u64, Relaxed);
        self.counters.span_us.store((ended - since).as_micros() as u64, Relaxed);
        self.counters.device_us.fetch_add(busy.as_micros() as u64, Relaxed);
        if let Some(energy_j) = energy_j {
            self.counters.metered_us.fetch_add(busy.as_micros() as u64, Relaxed);
            self.counters.energy_uj.fetch_add((energy_j * 1e6).round() as u64, Relaxed);
        }
        self.counters.computed_tokens.fetch_add(computed_tokens, Relaxed);
        let operations = |group: &RequestGroup| group.submissions[0].work.operations.max(1) as f64;
        let tokens = |group: &RequestGroup| tokens(&group.submissions[0].request);
        let all_operations = groups.iter().map(|group| operations(&self.waiting[group])).sum::<f64>();
        let all_tokens = groups.iter().map(|group| tokens(&self.waiting[group])).sum();
        let mut shares = ProportionalShares::new(computed_tokens, all_tokens);
        for group in groups {
            let group = self.waiting.get_mut(group).expect("a group waits until it is complete; this is a bug");
            let share = operations(group) / all_operations;
            group.device_s += busy.as_secs_f64() * share;
            group.energy_j = group.energy_j.zip(energy_j).map(|(sum, joules)| sum + joules * share);
            group.computed_tokens += shares.next(tokens(group));
        }
    }

    fn complete_group(&mut self, number: u64, result: Result<Answer, Refusal>) {
        let group = self.waiting.remove(&number).expect("a group is completed once; this is a bug");
        if self.group_of.get(&group.identity) == Some(&number) {
            self.group_of.remove(&group.identity);
        }
        let RequestGroup { submissions, started, device_s, energy_j, computed_tokens, .. } = group;
        let finished = FinishedGroup { submissions, result, started, device_s, energy_j, computed_tokens };
        // A thread that has ended answers nobody: the drop of the submissions does, and no further batch is of use.
        self.is_unheard |= self.finished.send(finished).is_err();
    }
}

fn wrap_results<T>(batch: BatchResults<T>, wrap: impl Fn(T) -> Answer) -> BatchResults<Answer> {
    BatchResults { results: batch.results.into_iter().map(wrap).collect(), computed_tokens: batch.computed_tokens }
}

fn device_refusal(error: &DeviceError) -> Refusal {
    let reason = error.to_string();
    match error {
        DeviceError::OutOfMemory { .. } => Refusal::OutOfMemory { reason },
        DeviceError::Lost { .. } => Refusal::Device { reason },
        DeviceError::Unsupported { .. } | DeviceError::Unavailable { .. } | DeviceError::Weight { .. } => {
            Refusal::Incapable { reason }
        }
    }
}

/// Tokens of a request alone, before anything is generated.
fn request_tokens(request: &Request) -> u64 {
    let tokens = match request {
        Request::Score(score) => score.prompt.len() + score.target.len(),
        Request::Encode(encode) => encode.ids.len(),
        Request::Generate(generate) => generate.prompt.len(),
    };
    tokens as u64
}

#[cfg(test)]
mod tests;
