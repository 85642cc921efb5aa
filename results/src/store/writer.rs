//! Writes one large object piece by piece.
//!
//! A small object is one put, a larger one goes up in parts, several at once. Either way nothing is visible before
//! [`ObjectWriter::finish`], and a dropped writer leaves nothing behind. Outages of a bucket are waited out at each
//! part; a folder has no parts that could be written twice.

use super::patience::OperationName;
use super::{Store, StoreError};
use bytes::Bytes;
use futures::future::try_join_all;
use object_store::multipart::PartId;
use object_store::path::Path as ObjectPath;
use object_store::{MultipartId, MultipartUpload, ObjectStoreExt, PutPayload};

/// Bytes of a part; S3 wants at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// Parts of an upload to a bucket that are under way at once. A folder takes one after the other: more would only take
/// memory.
const BUCKET_PARTS: usize = 4;

/// Writes one object; see [`Store::writer`].
pub struct ObjectWriter {
    store: Store,
    name: String,
    path: ObjectPath,
    /// Full parts, and the beginning of the next one.
    parts: Vec<PartPieces>,
    upload: Option<PartsUpload>,
    written: u64,
    /// True if the object is finished, or cannot be finished any more.
    closed: bool,
    /// Whether the failure that closed it may pass.
    may_pass: bool,
}

/// The bytes of a part, as they came.
#[derive(Default)]
struct PartPieces {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl PartPieces {
    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.push(piece);
    }

    fn into_payload(self) -> PutPayload {
        self.pieces.into_iter().collect()
    }
}

/// An upload in parts that has begun.
enum PartsUpload {
    /// To a bucket: each part has its number, and can be sent again.
    Bucket { id: MultipartId, sent: Vec<PartId> },
    /// To another place.
    Folder(Box<dyn MultipartUpload>),
}

impl ObjectWriter {
    pub(super) fn new(store: Store, name: &str, path: ObjectPath) -> Self {
        Self {
            store,
            name: name.to_owned(),
            path,
            parts: Vec::new(),
            upload: None,
            written: 0,
            closed: false,
            may_pass: false,
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn write(&mut self, mut bytes: Bytes) -> Result<(), StoreError> {
        if self.closed {
            return Err(self.earlier_failure());
        }
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = match self.parts.last() {
                Some(part) if part.bytes < PART_BYTES => PART_BYTES - part.bytes,
                _ => {
                    self.send_if_many()?;
                    self.parts.push(PartPieces::default());
                    PART_BYTES
                }
            };
            let piece = bytes.split_to(room.min(bytes.len()));
            if let Some(part) = self.parts.last_mut() {
                part.push(piece);
            }
        }
        Ok(())
    }

    /// Makes the object visible and returns its size in bytes.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn finish(mut self) -> Result<u64, StoreError> {
        if self.closed {
            return Err(self.earlier_failure());
        }
        if self.upload.is_none() && self.parts.len() <= 1 {
            self.closed = true;
            let whole = self.parts.pop().unwrap_or_default();
            self.store.put_payload(&self.name, &whole.into_payload())?;
            return Ok(self.written);
        }
        self.send_parts()?;
        // From here on a failure may leave the finished object, so it is not to be aborted.
        self.closed = true;
        self.complete()?;
        Ok(self.written)
    }

    fn send_if_many(&mut self) -> Result<(), StoreError> {
        let most = if self.store.inner.parts.is_some() { BUCKET_PARTS } else { 1 };
        if self.parts.len() >= most { self.send_parts() } else { Ok(()) }
    }

    /// Sends all parts in memory, at once.
    fn send_parts(&mut self) -> Result<(), StoreError> {
        let sent = self.try_send_parts();
        if let Err(error) = &sent {
            self.may_pass = error.may_pass();
            self.abort();
        }
        sent
    }

    fn try_send_parts(&mut self) -> Result<(), StoreError> {
        let parts: Vec<PutPayload> =
            std::mem::take(&mut self.parts).into_iter().map(PartPieces::into_payload).collect();
        if self.upload.is_none() {
            self.upload = Some(self.begin()?);
        }
        let (store, path, full) = (self.store.clone(), &self.path, self.store.full_name(&self.name));
        let name = OperationName { operation: "write", path: &full };
        let failed = |error| StoreError::classify("write", full.clone(), error);
        match (&mut self.upload, &store.inner.parts) {
            (Some(PartsUpload::Bucket { id, sent }), Some(bucket)) => {
                let (first, id) = (sent.len(), &*id);
                let puts = parts.into_iter().enumerate().map(|(i, part)| {
                    let put = move || {
                        let part = part.clone();
                        async move { bucket.put_part(path, id, first + i, part).await.map_err(failed) }
                    };
                    store.inner.patience.persist(name, put)
                });
                let puts: Vec<_> = puts.collect();
                sent.extend(store.block_on(try_join_all(puts))?);
                Ok(())
            }
            (Some(PartsUpload::Folder(upload)), _) => {
                let puts: Vec<_> = parts.into_iter().map(|part| upload.put_part(part)).collect();
                let puts = async { try_join_all(puts).await.map(drop).map_err(failed) };
                store.block_on(store.inner.patience.bound(name, puts))
            }
            _ => unreachable!("this is a bug: an upload to a bucket without parts"),
        }
    }

    fn begin(&self) -> Result<PartsUpload, StoreError> {
        let store = &self.store;
        match &store.inner.parts {
            Some(bucket) => {
                let id = store.persist("write", &self.name, || bucket.create_multipart(&self.path))?;
                Ok(PartsUpload::Bucket { id, sent: Vec::new() })
            }
            None => {
                let upload = store.persist("write", &self.name, || store.inner.objects.put_multipart(&self.path))?;
                Ok(PartsUpload::Folder(upload))
            }
        }
    }

    fn complete(&mut self) -> Result<(), StoreError> {
        let store = self.store.clone();
        match (self.upload.take(), &store.inner.parts) {
            (Some(PartsUpload::Bucket { id, sent }), Some(bucket)) => {
                let complete = || bucket.complete_multipart(&self.path, &id, sent.clone());
                match store.persist("write", &self.name, complete) {
                    // The answer of an earlier try was lost: the upload is over, and the object is there.
                    Err(StoreError::NotFound { .. }) if store.size(&self.name)? == self.written => Ok(()),
                    result => result.map(drop),
                }
            }
            (Some(PartsUpload::Folder(mut upload)), _) => {
                let full = store.full_name(&self.name);
                let name = OperationName { operation: "write", path: &full };
                let failed = |error| StoreError::classify("write", full.clone(), error);
                let complete = async { upload.complete().await.map(drop).map_err(failed) };
                store.block_on(store.inner.patience.bound(name, complete))
            }
            _ => unreachable!("this is a bug: an upload that was never begun is completed"),
        }
    }

    /// Gives the upload up. Best effort: the object was never visible, and the bucket expires parts left behind.
    fn abort(&mut self) {
        self.closed = true;
        match (self.upload.take(), &self.store.inner.parts) {
            (Some(PartsUpload::Bucket { id, .. }), Some(bucket)) => {
                drop(self.store.block_on(bucket.abort_multipart(&self.path, &id)));
            }
            (Some(PartsUpload::Folder(mut upload)), _) => {
                let full = self.store.full_name(&self.name);
                let name = OperationName { operation: "remove", path: &full };
                let failed = |error| StoreError::classify("remove", full.clone(), error);
                let abort = async { upload.abort().await.map_err(failed) };
                drop(self.store.block_on(self.store.inner.patience.bound(name, abort)));
            }
            _ => {}
        }
    }

    fn earlier_failure(&self) -> StoreError {
        let (operation, path) = ("write", self.store.full_name(&self.name));
        let source = "an earlier part of it could not be written".into();
        match self.may_pass {
            true => StoreError::Failed { operation, path, source },
            false => StoreError::Refused { operation, path, source },
        }
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if !self.closed {
            self.abort();
        }
    }
}
