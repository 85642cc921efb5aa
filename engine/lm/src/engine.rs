//! The engine: a thread that owns a device and a model, takes requests from a queue and gives completions.
//!
//! ```text
//!   submit --check--> queue --equal ones meet--> packers --batch--> model --> completions, one for each submission
//! ```
//!
//! Work-conserving: between two batches the thread takes in whatever has come, and it never waits for more. A request leaves
//! exactly once; a bad one is refused at the door and harms no other, and where the engine is dropped first, that is its answer.

mod queue;
mod worker;

use crate::generate::Detokenise;
use crate::loaded::Loaded;
use crate::request::{Answer, Request, Work};
use crate::{LmError, Sizes};
use hopeval_device::{Device, Identity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// How the engine uses its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tokens in a batch at most.
    pub batch_tokens: usize,
    /// Tokens whose encoder states are kept (encoder-decoders); at least a batch is. With 0, each batch's are forgotten
    /// after it.
    pub states_tokens: usize,
    /// Tokens that the key/value cache holds (generation).
    pub cache_tokens: usize,
    /// Whether equal requests meet and prefixes are shared; off only to measure what that brings.
    pub share: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch_tokens: 2048, states_tokens: 32_768, cache_tokens: 16_384, share: true }
    }
}

/// Why a request has no answer.
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
        /// What it needs.
        tokens: usize,
        /// What there is.
        positions: usize,
    },
    /// It is longer than a batch, or than the cache.
    #[error("{tokens} tokens, and {what} holds at most {limit}")]
    TooLong {
        /// What it needs.
        tokens: usize,
        /// What there is.
        limit: usize,
        /// `a batch` or `the cache`.
        what: &'static str,
    },
    /// A token that the model does not have.
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
        /// Which.
        name: &'static str,
        /// What it was.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The checkpoint cannot do this.
    #[error("this checkpoint cannot {task}; it can {offers}")]
    Unsupported {
        /// What was asked.
        task: &'static str,
        /// What it can do.
        offers: String,
    },
    /// The model gave numbers that are none.
    #[error("the model gave a number that is not finite")]
    NotFinite,
    /// Alone in a batch, it still ran out of memory.
    #[error("out of memory, alone in a batch: {reason}")]
    OutOfMemory {
        /// What the device said.
        reason: String,
    },
    /// The device cannot do what the request needs, and works all the same.
    #[error("{reason}")]
    Incapable {
        /// What it said.
        reason: String,
    },
    /// The device failed.
    #[error("{reason}")]
    Device {
        /// What it said.
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

    /// Whether it would be refused again: a failing device may do better another time.
    pub fn is_determinate(&self) -> bool {
        !matches!(self, Self::OutOfMemory { .. } | Self::Device { .. })
    }
}

/// A request's end.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The answer, or why there is none.
    pub result: Result<Answer, Refusal>,
    /// The work it needs alone.
    pub work: Work,
    /// What it cost.
    pub cost: Cost,
}

/// What an answer cost, measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds between submission and the start of its batch.
    pub queue_s: f64,
    /// Seconds from there to its answer.
    pub service_s: f64,
    /// Its share of the seconds that its batches kept the device busy ([`Device::busy`]), by operations.
    pub device_s: f64,
    /// Its share of what the device used for its batches, in joules, by operations; none where that of one of them was not
    /// counted.
    pub energy_j: Option<f64>,
    /// Its share, by tokens, of those that went through the model for its batches: over all completions they sum to
    /// [`Counters::computed_tokens`], as long as no batch failed.
    pub computed_tokens: u64,
}

/// What an engine has done.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that came.
    pub requests: AtomicU64,
    /// Tokens of all requests, as if each were alone.
    pub requested_tokens: AtomicU64,
    /// Tokens of different requests.
    pub unique_tokens: AtomicU64,
    /// Tokens that went through the model.
    pub computed_tokens: AtomicU64,
    /// Operations of all requests, as if each were alone.
    pub operations: AtomicU64,
    /// Batches.
    pub batches: AtomicU64,
    /// Batches for which memory ran out, and which were tried again in parts.
    pub halved: AtomicU64,
    /// Microseconds that batches kept the device busy ([`Device::busy`]).
    pub device_us: AtomicU64,
    /// Microseconds in those batches whose energy was counted.
    pub metered_us: AtomicU64,
    /// Microjoules that the device used for them.
    pub energy_uj: AtomicU64,
}

/// What an engine's model can be asked.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// Sizes of the model.
    pub sizes: Sizes,
    /// `score` and `generate` for language models, the heads' tasks for encoders.
    pub tasks: Vec<&'static str>,
}

/// Who waits for a completion.
pub type Reply = Box<dyn FnOnce(Completion) + Send>;

/// A request on its way. Dropped without an answer, it says so: no request is ever lost.
struct Submission {
    request: Request,
    work: Work,
    reply: Option<Reply>,
    since: Instant,
}

impl Submission {
    fn answer(mut self, completion: Completion) {
        if let Some(reply) = self.reply.take() {
            reply(completion);
        }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply(refused(Refusal::Device { reason: "the engine's thread has ended".into() }));
        }
    }
}

fn refused(refusal: Refusal) -> Completion {
    Completion { result: Err(refusal), work: Work::default(), cost: Cost::default() }
}

type WorkOf = dyn Fn(&Request) -> Result<Work, Refusal> + Send + Sync;

/// A running engine. Dropping it ends the thread after the batch that it is at; what is not answered by then is refused
/// ([`Refusal::Device`]). Who wants all answers waits for them first.
pub struct Engine {
    queue: Option<Sender<Vec<Submission>>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    check: Arc<WorkOf>,
    counters: Arc<Counters>,
    abilities: Abilities,
    identity: Identity,
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
        model: Loaded<D>,
        options: Options,
        detokenise: Option<Box<Detokenise>>,
    ) -> Result<Self, LmError> {
        let (device, model) = (Arc::new(device), Arc::new(model));
        let counters = Arc::new(Counters::default());
        let abilities = Abilities { sizes: model.sizes(), tasks: model.tasks() };
        let has_text = detokenise.is_some();
        let check: Arc<WorkOf> = {
            let model = model.clone();
            Arc::new(move |request| queue::check(&model, request, &options, has_text))
        };
        let (queue, submissions) = channel();
        let identity = device.identity();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (counters, stop) = (counters.clone(), stop.clone());
            let work =
                move || worker::Worker::new(&*device, &*model, options, detokenise, &counters).run(&submissions, &stop);
            std::thread::Builder::new().name("lm-engine".into()).spawn(work).map_err(LmError::Thread)?
        };
        Ok(Self { queue: Some(queue), thread: Some(thread), stop, check, counters, abilities, identity })
    }

    /// What the model can be asked.
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// What it runs on.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What it has done; who shares them may outlive the engine.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Asks. `reply` is called once, on the engine's thread, or at once here if the request is refused.
    pub fn submit(&self, request: Request, reply: impl FnOnce(Completion) + Send + 'static) {
        self.submit_all([(request, Box::new(reply) as Reply)]);
    }

    /// Asks for several things that wait together, so that the first batch is made of all of them: alone, the first would
    /// have its prefix computed before those that share it are there. Each is answered as by [`submit`](Self::submit).
    pub fn submit_all(&self, asked: impl IntoIterator<Item = (Request, Reply)>) {
        let admitted: Vec<_> = asked.into_iter().filter_map(|(request, reply)| self.admit(request, reply)).collect();
        if !admitted.is_empty() {
            let queue = self.queue.as_ref().expect("the queue is open until the engine is dropped; this is a bug");
            // What cannot be sent is dropped with the error, and answers so.
            drop(queue.send(admitted));
        }
    }

    /// Asks for several things, and waits; answers come in the order of the requests.
    pub fn ask(&self, requests: impl IntoIterator<Item = Request>) -> Vec<Completion> {
        let (answers, completions) = channel();
        let mut count = 0;
        self.submit_all(requests.into_iter().enumerate().map(|(n, request)| {
            let answers = answers.clone();
            count = n + 1;
            // The receiver below outlives every sender.
            (request, Box::new(move |completion| drop(answers.send((n, completion)))) as Reply)
        }));
        drop(answers);
        let mut sorted = completions.into_iter().collect::<Vec<_>>();
        assert_eq!(sorted.len(), count, "every request is answered once; this is a bug");
        sorted.sort_by_key(|(n, _)| *n);
        sorted.into_iter().map(|(_, completion)| completion).collect()
    }

    /// Checks a request; one that is refused has its answer.
    fn admit(&self, request: Request, reply: Reply) -> Option<Submission> {
        self.counters.requests.fetch_add(1, Relaxed);
        match (self.check)(&request) {
            Ok(work) => Some(Submission { request, work, reply: Some(reply), since: Instant::now() }),
            Err(refusal) => {
                reply(refused(refusal));
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
            // A panic there was reported by the panic hook; submissions that it held are gone with their replies.
            drop(thread.join());
        }
    }
}
