//! What services did, as counters that their threads share.

use hopeval_methods::Response;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What a service did for one worker.
#[derive(Debug, Default)]
pub struct Spent {
    /// Requests that reached it; equal ones that are in flight together count once.
    pub requests: AtomicU64,
    /// Different keys among them, in this generation.
    pub unique: AtomicU64,
    /// Answered from the journal.
    pub journalled: AtomicU64,
    /// Computed.
    pub computed: AtomicU64,
    /// Failed.
    pub failed: AtomicU64,
    /// Journalled answers that could not be used, and were computed again.
    pub unreadable: AtomicU64,
    /// Tokens of the prompts of what was computed.
    pub prompt_tokens: AtomicU64,
    /// Tokens that were generated.
    pub completion_tokens: AtomicU64,
    /// Tokens that were scored.
    pub scored_tokens: AtomicU64,
    /// Operations of what was computed, each request by itself.
    pub operations: AtomicU64,
    /// Tokens that went through a model: fewer where work was shared.
    pub computed_tokens: AtomicU64,
    /// Requests of what was computed whose texts were cut to fit.
    pub cut: AtomicU64,
    /// Microseconds of service; of a model those of its device.
    pub service_us: AtomicU64,
    /// Microseconds of a device.
    pub device_us: AtomicU64,
    /// Microseconds of a device for what has its energy counted.
    pub metered_us: AtomicU64,
    /// Microjoules that the device used for that.
    pub energy_uj: AtomicU64,
}

/// How long an answer took, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Took {
    /// From the request's arrival until work on it began.
    pub(super) queue_us: u64,
    /// From there to its answer.
    pub(super) service_us: u64,
    /// Its share of a device's time; none where there is no device.
    pub(super) device_us: u64,
}

impl Spent {
    /// Counts a response that was computed, and how long it kept its service and its device busy.
    pub(super) fn count(&self, response: &Response, service_us: u64, device_us: u64) {
        add(&self.computed, 1);
        add(&self.failed, u64::from(response.result.is_err()));
        add(&self.prompt_tokens, response.work.prompt_tokens);
        add(&self.completion_tokens, response.work.completion_tokens);
        add(&self.scored_tokens, response.work.scored_tokens);
        add(&self.operations, response.work.operations);
        add(&self.cut, u64::from(response.is_cut() == Some(true)));
        add(&self.service_us, service_us);
        add(&self.device_us, device_us);
    }
}

/// What the services of a worker did, by name.
pub type Books = Arc<BTreeMap<Arc<str>, Spent>>;

/// Books for the services of these names.
pub fn books<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> Books {
    Arc::new(names.into_iter().map(|name| (Arc::clone(name), Spent::default())).collect())
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// Seconds as whole microseconds.
pub(super) fn microseconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

/// Joules as whole microjoules.
pub(super) fn microjoules(joules: f64) -> u64 {
    (joules * 1e6).round() as u64
}

/// Whole microseconds since `begun`.
pub(super) fn elapsed_us(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The microseconds of a batch of `n`, shared evenly: what one of it took alone is not known. The first has what the shares
/// leave over, so that their sum is the batch's.
pub(super) fn shares(us: u64, n: usize) -> impl Iterator<Item = u64> {
    let n = n.max(1) as u64;
    std::iter::once(us / n + us % n).chain((1..n).map(move |_| us / n))
}
