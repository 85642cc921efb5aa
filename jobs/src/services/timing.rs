//! Times and energies in whole microseconds and microjoules, as counters and records have them.

use std::time::Instant;

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
