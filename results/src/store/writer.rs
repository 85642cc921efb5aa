//! Writes one large object piece by piece.
//!
//! A small object is one put, a larger one goes up in parts. Either way nothing is visible before
//! [`ObjectWriter::finish`], and a dropped writer leaves nothing behind.

use super::{Store, StoreError};
use bytes::Bytes;
use object_store::buffered::BufWriter;
use object_store::path::Path as ObjectPath;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::AsyncWrite;

/// Bytes of a part; S3 wants at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// Parts under way at once.
const PARTS: usize = 4;

/// Writes one object; see [`Store::writer`].
pub struct ObjectWriter {
    store: Store,
    name: String,
    buffer: BufWriter,
    written: u64,
    /// True if the object is finished, or cannot be finished any more.
    closed: bool,
}

impl ObjectWriter {
    pub(super) fn new(store: Store, name: &str, path: ObjectPath) -> Self {
        let objects = Arc::clone(&store.inner.objects);
        let buffer = BufWriter::with_capacity(objects, path, PART_BYTES).with_max_concurrency(PARTS);
        Self { store, name: name.to_owned(), buffer, written: 0, closed: false }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.written += bytes.len() as u64;
        if self.closed {
            return Err(self.earlier_failure());
        }
        let put = self.buffer.put(bytes);
        self.store.block_on(put).map_err(|e| {
            self.closed = true;
            self.store.store_error("write", &self.name, e)
        })
    }

    /// Makes the object visible and returns its size in bytes.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn finish(mut self) -> Result<u64, StoreError> {
        if std::mem::replace(&mut self.closed, true) {
            return Err(self.earlier_failure());
        }
        let buffer = &mut self.buffer;
        let shutdown = std::future::poll_fn(|context| Pin::new(&mut *buffer).poll_shutdown(context));
        self.store.block_on(shutdown).map_err(|e| StoreError::from_io("write", self.store.full_name(&self.name), e))?;
        Ok(self.written)
    }

    fn earlier_failure(&self) -> StoreError {
        let source = "an earlier part of it could not be written".into();
        StoreError::Failed { operation: "write", path: self.store.full_name(&self.name), source }
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if !self.closed {
            let abort = self.buffer.abort();
            // Best effort: the object was never visible, and parts left behind are the bucket's to expire.
            drop(self.store.block_on(abort));
        }
    }
}
