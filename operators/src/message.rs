//! What travels: requests with their key and route, replies with their asker.

use serde::{Deserialize, Serialize};

/// Buckets that routes are spread over; bucket `b` belongs to worker `b mod W`.
pub const BUCKETS: u16 = 4096;

/// The identity of a request: a BLAKE3 hash of kind, fingerprint of the service, canonical payload and draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub [u8; 32]);

/// A request on its way to the worker that owns its bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope<R> {
    /// What is asked.
    pub key: Key,
    /// Its route, below [`BUCKETS`].
    pub bucket: u16,
    /// The worker that asks.
    pub from: u32,
    /// The request.
    pub request: R,
}

/// A reply on its way back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply<S> {
    /// What was asked.
    pub key: Key,
    /// The worker that asked.
    pub to: u32,
    /// The response.
    pub response: S,
}

/// The worker that owns a bucket.
pub fn worker_of(bucket: u16, workers: usize) -> usize {
    usize::from(bucket) % workers
}

impl Key {
    /// The bucket of a request that nothing but its key routes.
    pub fn bucket(&self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]]) % BUCKETS
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
