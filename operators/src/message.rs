//! Messages between workers: request envelopes and replies.

use serde::{Deserialize, Serialize};

/// Number of buckets for routes. Bucket `b` belongs to worker `b mod W`.
pub const BUCKETS: u16 = 4096;

/// The identity of a request: a BLAKE3 hash of kind, fingerprint of the service, canonical payload and draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestKey(pub [u8; 32]);

/// A request on its way to the owner of its bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope<R> {
    /// The request's identity.
    pub key: RequestKey,
    /// The request's route, below [`BUCKETS`].
    pub bucket: u16,
    /// The asking worker.
    pub from: u32,
    /// The request.
    pub request: R,
}

/// A reply on its way back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply<S> {
    /// The request's identity.
    pub key: RequestKey,
    /// The asking worker.
    pub to: u32,
    /// The response.
    pub response: S,
}

/// The owner of a bucket.
pub fn worker_of(bucket: u16, workers: usize) -> usize {
    usize::from(bucket) % workers
}

impl RequestKey {
    /// The bucket of a request routed by its key alone.
    pub fn bucket(&self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]]) % BUCKETS
    }
}

impl std::fmt::Display for RequestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
