//! Leaves a run whose endpoint is out of order: what was paid for is made durable first.
//!
//! ```text
//!   fault of an endpoint --no work begins--> calls in flight end, for a while --> flush --all durable--> exit
//! ```

use hopeval_jobs::JobError;
use hopeval_jobs::run::generation::Generation;
use std::time::{Duration, Instant};

/// The longest wait for the calls in flight: their answers are paid for.
const CALLS_WAIT: Duration = Duration::from_secs(2);

/// The same for an endpoint that is down, which answers nothing: answers from before may wait for a worker's look.
const LOOKS_WAIT: Duration = Duration::from_millis(50);

/// The longest wait for the journal behind that.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

/// The departure after the fault of an endpoint.
#[derive(Debug)]
pub(super) struct FaultDeparture {
    error: JobError,
    /// The latest begin of the flush.
    flush_at: Instant,
    flushing: bool,
}

impl FaultDeparture {
    /// Begins it: no work begins any more.
    pub(super) fn begin(error: JobError, generation: &Generation) -> Self {
        generation.drain();
        let wait = if error.is_transient() { LOOKS_WAIT } else { CALLS_WAIT };
        Self { error, flush_at: Instant::now() + wait, flushing: false }
    }

    /// The fault, once everything paid for is durable, or the time for that is over.
    pub(super) fn is_over(&mut self, generation: &Generation) -> Option<&JobError> {
        let now = Instant::now();
        if !self.flushing && (generation.is_quiet() || now >= self.flush_at) {
            self.flushing = true;
            self.flush_at = now;
            generation.flush();
        }
        let over = self.flushing && (generation.is_flushed() || now >= self.flush_at + FLUSH_WAIT);
        over.then_some(&self.error)
    }
}
