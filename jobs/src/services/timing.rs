//! Times and energies in whole microseconds and microjoules, for counters and records.

use std::time::Instant;

/// The times of an answer, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerTiming {
    /// From the request's arrival to the start of work on it.
    pub(super) queue_us: u64,
    /// From the start of work to the answer.
    pub(super) service_us: u64,
    /// Its share of a device's time; 0 without a device.
    pub(super) device_us: u64,
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

/// Shares the microseconds of a batch of `n` evenly, because the time of a single member is unknown. The first share
/// has the remainder, so that the sum is the batch's time.
pub(super) fn share_evenly(us: u64, n: usize) -> impl Iterator<Item = u64> {
    let n = n.max(1) as u64;
    std::iter::once(us / n + us % n).chain((1..n).map(move |_| us / n))
}
