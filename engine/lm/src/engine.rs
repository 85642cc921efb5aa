//! The engine: a thread with a device and a model. It takes requests from a queue; a second thread gives completions.
//!
//! ```text
//!   submit --check--> queue --equal ones merge--> packers --batch--> model --> completions, one for each submission
//!                     '----------------- a thread with the device ----------'  '-------- a thread beside it -------'
//! ```
//!
//! Work-conserving: between two batches the thread takes in all new submissions, and it never waits for more. A device
//! that works beside the host has the next batch before the last one is read. Each request is answered exactly once. A
//! bad one is refused on submission and does not affect the others. If the engine is dropped first, the remaining
//! requests are refused.

mod answering;
mod pool_tokens;
mod queue;
mod worker;

use crate::generate::Detokeniser;
use crate::loaded_model::LoadedModel;
use crate::request::{Answer, Request, RequestWork};
use crate::{LmError, ModelSizes};
use answering::FinishedGroup;
use hopeval_device::{Device, DeviceIdentity};
pub use pool_tokens::PoolTokens;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use worker::EngineWorker;

/// How the engine uses its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Tokens in a batch at most.
    pub batch_tokens: usize,
    /// Tokens of the encoder states to keep (encoder-decoders); at least a batch. With 0, the states are dropped after
    /// each batch, and so are the prompts of decoders in the key/value cache.
    pub states_tokens: PoolTokens,
    /// Tokens in the key/value cache (generation): of open sequences, and of kept prompts where there is room.
    pub cache_tokens: PoolTokens,
    /// Whether equal requests merge and prefixes are shared; off only to measure the gain.
    pub share: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            batch_tokens: 2048,
            states_tokens: PoolTokens::exactly(32_768),
            cache_tokens: PoolTokens::exactly(16_384),
            share: true,
        }
    }
}

/// The reason for a refusal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It has no token where at least one is needed.
    #[error("the {part} holds no token")]
    Empty {
        /// `prompt`, `target` or `text`.
        part: &'static str,
    },
    /// It is longer than the model's positions.
    #[error("{tokens} tokens, and the model has {positions} positions")]
    Positions {
        /// The request's tokens.
        tokens: usize,
        /// The model's positions.
        positions: usize,
    },
    /// It is longer than a batch, or larger than the cache.
    #[error("{tokens} tokens, and a request may have at most {limit} in {what}")]
    TooLong {
        /// The request's tokens.
        tokens: usize,
        /// The tokens of a batch or of the cache.
        limit: usize,
        /// `a batch` or `the cache`.
        what: &'static str,
    },
    /// The model does not have this token.
    #[error("token id {id}, and the model has {vocabulary}")]
    Token {
        /// The id.
        id: u32,
        /// Ids are below this.
        vocabulary: usize,
    },
    /// A parameter out of range.
    #[error("{name} = {value}: {allowed}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The checkpoint cannot do this.
    #[error("this checkpoint cannot {task}; it can {offers}")]
    Unsupported {
        /// The requested task.
        task: &'static str,
        /// The supported tasks.
        offers: String,
    },
    /// A number from the model is not finite.
    #[error("the model gave a number that is not finite")]
    NotFinite,
    /// Memory ran out even with the request alone in a batch.
    #[error("out of memory, alone in a batch: {reason}")]
    OutOfMemory {
        /// The device's message.
        reason: String,
    },
    /// The device does not support the request, but still works.
    #[error("{reason}")]
    Incapable {
        /// The device's message.
        reason: String,
    },
    /// The device failed.
    #[error("{reason}")]
    Device {
        /// The device's message.
        reason: String,
    },
}

impl Refusal {
    /// A short name for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty { .. } => "empty",
            Self::Positions { .. } => "positions",
            Self::TooLong { .. } => "too_long",
            Self::Token { .. } => "token",
            Self::Parameter { .. } => "parameter",
            Self::Unsupported { .. } => "unsupported",
            Self::NotFinite => "not_finite",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::Incapable { .. } => "incapable",
            Self::Device { .. } => "device",
        }
    }

    /// True if the same request would be refused again; a failing device may recover.
    pub fn is_determinate(&self) -> bool {
        !matches!(self, Self::OutOfMemory { .. } | Self::Device { .. })
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The answer, or the reason for its absence.
    pub result: Result<Answer, Refusal>,
    /// The work of the request alone.
    pub work: RequestWork,
    /// The measured cost.
    pub cost: CompletionCost,
}

/// The measured cost of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CompletionCost {
    /// Seconds between submission and the start of its batch.
    pub queue_s: f64,
    /// Seconds from there to the answer.
    pub service_s: f64,
    /// Its share of the device's busy seconds in its batches, by operations: those of [`Device::run_timed`], or, with
    /// two batches in flight, from the end of the batch before.
    pub device_s: f64,
    /// Its share of the device energy in its batches, in joules, by operations; `None` if one of the batches was not
    /// metered.
    pub energy_j: Option<f64>,
    /// Its share of the tokens computed in its batches, by tokens. The shares of all completions sum to
    /// [`EngineCounters::computed_tokens`], as long as no batch failed.
    pub computed_tokens: u64,
}

/// Counts of an engine's work.
#[derive(Debug, Default)]
pub struct EngineCounters {
    /// Requests received.
    pub requests: AtomicU64,
    /// Tokens of all requests, each counted alone.
    pub requested_tokens: AtomicU64,
    /// Tokens of the different requests.
    pub unique_tokens: AtomicU64,
    /// Tokens computed by the model.
    pub computed_tokens: AtomicU64,
    /// Operations of all requests, each counted alone.
    pub operations: AtomicU64,
    /// Batches.
    pub batches: AtomicU64,
    /// Batches split and tried again because memory ran out.
    pub halved: AtomicU64,
    /// Microseconds of the device's work on batches, as in [`CompletionCost::device_s`].
    pub device_us: AtomicU64,
    /// Microseconds in which the thread or its device had a batch.
    pub working_us: AtomicU64,
    /// Microseconds from the begin of the first batch to the end of the last one.
    pub span_us: AtomicU64,
    /// Microseconds in metered batches.
    pub metered_us: AtomicU64,
    /// Microjoules of the device in the metered batches.
    pub energy_uj: AtomicU64,
}

/// The sizes and tasks of an engine's model.
#[derive(Clone, Debug)]
pub struct ModelAbilities {
    /// Sizes of the model.
    pub sizes: ModelSizes,
    /// `score` and `generate` for language models, the heads' tasks for encoders.
    pub tasks: Vec<&'static str>,
}

/// Receives a completion.
pub type CompletionCallback = Box<dyn FnOnce(Completion) + Send>;

/// Asked before the first batch with a request. On `false` the request is set aside: it is neither computed nor
/// answered as long as the engine runs. Later calls must give the same answer.
pub type BeginCheck = Box<dyn Fn() -> bool + Send>;

/// A request for [`Engine::submit_all`].
pub struct EngineCall {
    /// The request.
    pub request: Request,
    /// Called once with the completion.
    pub reply: CompletionCallback,
    /// Whether a batch may begin with it; `None` if it always may.
    pub may_begin: Option<BeginCheck>,
}

/// A submitted request. If it is dropped without an answer, it answers with a refusal: no request is ever lost.
struct Submission {
    request: Request,
    work: RequestWork,
    reply: Option<CompletionCallback>,
    may_begin: Option<BeginCheck>,
    since: Instant,
}

impl Submission {
    fn may_begin(&self) -> bool {
        self.may_begin.as_ref().is_none_or(|may_begin| may_begin())
    }

    fn answer(mut self, completion: Completion) {
        if let Some(reply) = self.reply.take() {
            reply(completion);
        }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply(refused_completion(Refusal::Device { reason: "the engine's thread has ended".into() }));
        }
    }
}

fn refused_completion(refusal: Refusal) -> Completion {
    Completion { result: Err(refusal), work: RequestWork::default(), cost: CompletionCost::default() }
}

type RequestCheck = dyn Fn(&Request) -> Result<RequestWork, Refusal> + Send + Sync;

/// A running engine. Dropping it ends the thread after the current batch. Requests without an answer are then refused
/// ([`Refusal::Device`]). To get all answers, wait for them before the drop.
pub struct Engine {
    queue: Option<Sender<Vec<Submission>>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    check: Arc<RequestCheck>,
    counters: Arc<EngineCounters>,
    abilities: ModelAbilities,
    identity: DeviceIdentity,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("abilities", &self.abilities).field("identity", &self.identity).finish()
    }
}

impl Engine {
    /// Starts a thread for `model` on `device`. `detokenise` is needed for stop strings only.
    ///
    /// # Errors
    /// [`LmError::Thread`].
    pub fn start<D: Device>(
        device: D,
        model: LoadedModel<D>,
        options: EngineOptions,
        detokenise: Option<Box<Detokeniser>>,
    ) -> Result<Self, LmError> {
        let (device, model) = (Arc::new(device), Arc::new(model));
        let counters = Arc::new(EngineCounters::default());
        let abilities = ModelAbilities { sizes: model.sizes(), tasks: model.tasks() };
        let has_text = detokenise.is_some();
        let check: Arc<RequestCheck> = {
            let model = model.clone();
            Arc::new(move |request| queue::check_request(&model, request, &options, has_text))
        };
        let (queue, submissions) = channel();
        let identity = device.identity();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (counters, stop) = (counters.clone(), stop.clone());
            let work = move || {
                let (finished, groups) = channel();
                let answer = || groups.into_iter().for_each(|group: FinishedGroup| group.answer(&*model, &counters));
                std::thread::scope(|scope| {
                    let answering = std::thread::Builder::new().name("lm-answers".into()).spawn_scoped(scope, answer);
                    // Without it nothing is run: the drop of the submissions refuses them.
                    if answering.is_ok() {
                        EngineWorker::new(&*device, &*model, options, detokenise, &counters, finished)
                            .run(&submissions, &stop);
                    }
                });
            };
            std::thread::Builder::new().name("lm-engine".into()).spawn(work).map_err(LmError::Thread)?
        };
        Ok(Self { queue: Some(queue), thread: Some(thread), stop, check, counters, abilities, identity })
    }

    /// The sizes and tasks of the model.
    pub fn abilities(&self) -> &ModelAbilities {
        &self.abilities
    }

    /// The device's identity.
    pub fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    /// Counts of the engine's work; a clone of the `Arc` may outlive the engine.
    pub fn counters(&self) -> &Arc<EngineCounters> {
        &self.counters
    }

    /// Submits a request. `reply` is called once, on a thread of the engine, or here at once if the request is refused.
    pub fn submit(&self, request: Request, reply: impl FnOnce(Completion) + Send + 'static) {
        self.submit_all([EngineCall { request, reply: Box::new(reply), may_begin: None }]);
    }

    /// Submits several requests that enter the queue together, so the first batch can hold all of them. If they came
    /// one by one, the first would have its prefix computed before the requests that share it arrive. Each is answered
    /// as by [`submit`](Self::submit).
    pub fn submit_all(&self, asked: impl IntoIterator<Item = EngineCall>) {
        let admitted: Vec<_> = asked.into_iter().filter_map(|call| self.admit_request(call)).collect();
        if !admitted.is_empty() {
            let queue = self.queue.as_ref().expect("the queue is open until the engine is dropped; this is a bug");
            // If sending fails, the submissions are dropped with the error; the drop answers them.
            drop(queue.send(admitted));
        }
    }

    /// Submits several requests, and waits. The answers come in the order of the requests.
    pub fn ask(&self, requests: impl IntoIterator<Item = Request>) -> Vec<Completion> {
        let (answers, completions) = channel();
        let mut count = 0;
        self.submit_all(requests.into_iter().enumerate().map(|(n, request)| {
            let answers = answers.clone();
            count = n + 1;
            // The receiver below outlives every sender.
            let reply = Box::new(move |completion| drop(answers.send((n, completion))));
            EngineCall { request, reply, may_begin: None }
        }));
        drop(answers);
        let mut sorted = completions.into_iter().collect::<Vec<_>>();
        assert_eq!(sorted.len(), count, "every request is answered once; this is a bug");
        sorted.sort_by_key(|(n, _)| *n);
        sorted.into_iter().map(|(_, completion)| completion).collect()
    }

    /// Checks a request. Answers it at once if it is refused.
    fn admit_request(&self, call: EngineCall) -> Option<Submission> {
        let EngineCall { request, reply, may_begin } = call;
        self.counters.requests.fetch_add(1, Relaxed);
        match (self.check)(&request) {
            Ok(work) => Some(Submission { request, work, reply: Some(reply), may_begin, since: Instant::now() }),
            Err(refusal) => {
                reply(refused_completion(refusal));
                None
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic there. Its submissions are gone with their replies.
            drop(thread.join());
        }
        let [batches, working, span] = [&self.counters.batches, &self.counters.working_us, &self.counters.span_us]
            .map(|count| count.load(Relaxed));
        if span > 0 {
            let idle = 100.0 * span.saturating_sub(working) as f64 / span as f64;
            let (seconds, device) = (span as f64 / 1e6, &self.identity.name);
            tracing::info!("{device}: {batches} batches within {seconds:.1} s, idle for {idle:.1} % of it");
        }
    }
}
