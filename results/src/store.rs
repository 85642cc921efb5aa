//! A place for objects: a local folder, an S3-compatible bucket, or memory.
//!
//! All three behave alike: a put is atomic (the whole object exists, or nothing), a reader sees an object as soon as
//! its put has returned, [`Store::put_if_absent`] has one winner, listings are sorted. All methods block; do not call
//! them from asynchronous code. Outages are waited out (`patience`); all other failures end a call at once.

mod error;
mod folder;
mod open;
mod patience;
mod removal;
mod simulation;
mod staging;
mod writer;

pub use error::{StoreError, store_error};
pub use patience::DEFAULT_PATIENCE;
pub use simulation::{SimulatedFate, SimulatedOperation};
pub use staging::StagingFile;
pub use writer::ObjectWriter;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use patience::{OperationName, StoragePatience};
use simulation::{StorageSimulation, simulated_failure};
use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most open requests of one call.
const CONCURRENCY: usize = 32;

/// Bytes of a copy held in memory.
const PIECE_BYTES: u64 = 8 << 20;

/// Tries of a put that is refused although no other object exists.
const PUT_TRIES: u32 = 8;

/// The pause before the second such try. Each further pause is twice as long, 6 seconds in all.
const PUT_PAUSE: Duration = Duration::from_millis(50);

/// The object of [`Store::check_conditions`]. It stays in the bucket, for the next check.
const PROBE: &str = "probes/put-if-absent";

/// A handle on a store; clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

struct StoreInner {
    objects: Arc<dyn ObjectStore>,
    /// The same bucket, for parts of large objects; `None` for a folder and memory.
    parts: Option<Arc<dyn MultipartStore>>,
    patience: StoragePatience,
    /// Whether a conditional put is known to be one. Only a bucket's is in doubt.
    conditions: AtomicBool,
    /// In tests: decides the ends of operations.
    simulation: Option<StorageSimulation>,
    /// `None` only while the store is being dropped.
    runtime: Option<tokio::runtime::Runtime>,
    uri: String,
    local: Option<PathBuf>,
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        // A runtime must not wait for its threads if the caller happens to be asynchronous.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.inner.uri).finish()
    }
}

impl Store {
    /// Opens a store: a local folder (created if absent; writes are synced to the disk), `file:///folder`,
    /// `s3://bucket/prefix` or `memory:` (private to this handle and its clones).
    ///
    /// A bucket takes its settings from the usual environment: `AWS_ENDPOINT_URL`, `AWS_REGION` (`us-east-1` unless
    /// set), `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, and so on. Plain HTTP is allowed if the endpoint says so.
    ///
    /// # Errors
    /// If the address is malformed or the folder cannot be created. A bucket is not contacted.
    pub fn open(uri: &str) -> Result<Self, StoreError> {
        Self::open_patiently(uri, DEFAULT_PATIENCE)
    }

    /// As [`Store::open`]. Outages of up to `patience` are waited out instead of [`DEFAULT_PATIENCE`].
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_patiently(uri: &str, patience: Duration) -> Result<Self, StoreError> {
        open::open_store(uri, patience)
    }

    /// As [`Store::open_patiently`], for readers: creates nothing.
    ///
    /// # Errors
    /// As [`Store::open`], and if the local folder is absent.
    pub fn open_existing(uri: &str, patience: Duration) -> Result<Self, StoreError> {
        open::open_existing(uri, patience)
    }

    /// Ends all waiting for the storage, now and later: an operation that fails, or has no answer within seconds, is an
    /// error at once. For a process that was asked to stop.
    pub fn end_patience(&self) {
        self.inner.patience.end();
    }

    /// Checks that a bucket's server honours the condition of [`Store::put_if_absent`]: the second put of the same name
    /// must be refused. Checked once by each handle, at the latest before its first conditional put.
    ///
    /// # Errors
    /// [`StoreError::Unconditional`] if it does not, or as [`Store::put`].
    pub fn check_conditions(&self) -> Result<(), StoreError> {
        if self.inner.conditions.load(Ordering::Acquire) {
            return Ok(());
        }
        let bytes = Bytes::from_static(b"two puts of this object, if absent: the second one is refused\n");
        if self.put_conditionally(PROBE, bytes.clone())? && self.put_conditionally(PROBE, bytes)? {
            return Err(StoreError::Unconditional { uri: self.uri(), path: self.full_name(PROBE) });
        }
        self.inner.conditions.store(true, Ordering::Release);
        Ok(())
    }

    /// The address, without secrets.
    pub fn uri(&self) -> String {
        self.inner.uri.clone()
    }

    /// The folder of a local store.
    pub fn local_path(&self) -> Option<&Path> {
        self.inner.local.as_deref()
    }

    /// An object's name for people: its path in a local folder, else its address.
    pub fn full_name(&self, name: &str) -> String {
        match &self.inner.local {
            Some(folder) => folder.join(name).display().to_string(),
            None if name.is_empty() => self.inner.uri.clone(),
            None => format!("{}/{name}", self.inner.uri.trim_end_matches('/')),
        }
    }

    /// An object's bytes.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or another error of the store.
    pub fn get(&self, name: &str) -> Result<Bytes, StoreError> {
        let path = self.object_path(name, "read")?;
        self.persist("read", name, || async { self.inner.objects.get(&path).await?.bytes().await })
    }

    /// Several objects, in the order of `names`; absent ones are `None`.
    ///
    /// # Errors
    /// An error of the store.
    pub fn get_many(&self, names: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if let Some(root) = self.plain_folder() {
            return self.read_files(root, names);
        }
        let paths = names.iter().map(|name| self.object_path(name, "read")).collect::<Result<Vec<_>, _>>()?;
        let reads = paths.iter().zip(names).map(|(path, name)| async move {
            let get = || async { self.inner.objects.get(path).await?.bytes().await };
            match self.attempt("read", name, get).await {
                Ok(bytes) => Ok(Some(bytes)),
                Err(StoreError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        self.block_on(futures::stream::iter(reads).buffered(CONCURRENCY).try_collect())
    }

    /// All bytes of `range`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Short`] if the object ends before the range, or another error of the
    /// store.
    pub fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        let path = self.object_path(name, "read")?;
        self.block_on(self.read_range(&path, name, range))
    }

    /// The bytes of several ranges of one object, in their order. Neighbouring ranges are read together.
    ///
    /// # Errors
    /// As [`Store::get_range`].
    pub fn get_ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, StoreError> {
        let path = self.object_path(name, "read")?;
        self.block_on(self.read_ranges(&path, name, ranges))
    }

    /// Like [`Store::get_ranges`] for several objects at once. A failure of one does not affect the others.
    pub fn get_ranges_many(&self, wanted: &[(&str, Vec<Range<u64>>)]) -> Vec<Result<Vec<Bytes>, StoreError>> {
        let reads = wanted.iter().map(|(name, ranges)| async move {
            let path = self.object_path(name, "read")?;
            self.read_ranges(&path, name, ranges).await
        });
        self.block_on(futures::stream::iter(reads).buffered(CONCURRENCY).collect())
    }

    /// An object's size in bytes.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or another error of the store.
    pub fn size(&self, name: &str) -> Result<u64, StoreError> {
        let path = self.object_path(name, "look at")?;
        let meta = self.persist("look at", name, || self.inner.objects.head(&path))?;
        Ok(meta.size)
    }

    /// True if the object exists.
    ///
    /// # Errors
    /// An error of the store.
    pub fn exists(&self, name: &str) -> Result<bool, StoreError> {
        match self.size(name) {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes an object. Replaces an existing one of the same name.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Denied`], or another error of the store. The write may have happened.
    pub fn put(&self, name: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.put_payload(name, &PutPayload::from_bytes(bytes))
    }

    fn put_payload(&self, name: &str, payload: &PutPayload) -> Result<(), StoreError> {
        let path = self.object_path(name, "write")?;
        self.persist("write", name, || self.inner.objects.put(&path, payload.clone())).map(drop)
    }

    /// Writes an object unless the name exists. Returns `true` if this call made it.
    ///
    /// # Contract
    /// Of several writers, at most one gets `true`. The writer of the object may itself get `false`, if the answer of a
    /// bucket was lost and the put was retried. To be certain, read the object back and compare.
    ///
    /// # Errors
    /// As [`Store::put`] and [`Store::check_conditions`].
    pub fn put_if_absent(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError> {
        self.check_conditions()?;
        self.put_conditionally(name, bytes)
    }

    /// Writes an object unless the name exists. Returns the existing object, or `None` if this call made it.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn put_or_get(&self, name: &str, bytes: &Bytes) -> Result<Option<Bytes>, StoreError> {
        let mut tries = 0;
        loop {
            if self.put_if_absent(name, bytes.clone())? {
                return Ok(None);
            }
            match self.get(name) {
                // A bucket may refuse all of several simultaneous writers: then nobody has won. An NFS client may
                // remember for a while that there is no such file.
                Err(StoreError::NotFound { .. }) if tries + 1 < PUT_TRIES => {
                    std::thread::sleep(PUT_PAUSE * (1 << tries))
                }
                // Nobody has won after all, which may pass.
                Err(StoreError::NotFound { operation, path }) => {
                    let source = "it can neither be written, as if it were there, nor be read".into();
                    return Err(StoreError::Failed { operation, path, source });
                }
                got => return got.map(Some),
            }
            tries += 1;
        }
    }

    /// Copies an object to the name `to`, piece by piece. Replaces an existing one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or as [`Store::put`]; then `to` is unchanged.
    pub fn copy(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let size = self.size(from)?;
        let mut copy = self.writer(to)?;
        for start in (0..size).step_by(PIECE_BYTES as usize) {
            copy.write(self.get_range(from, start..(start + PIECE_BYTES).min(size))?)?;
        }
        copy.finish().map(drop)
    }

    /// Gives an object, which is never replaced, the second name `to`; replaces an existing object of that name. In a
    /// local folder both are one file (a hard link), so the bytes are stored once. A bucket, and a file system without
    /// links, get a copy.
    ///
    /// # Errors
    /// As [`Store::copy`].
    pub fn link(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let Some(root) = self.local_path().map(Path::to_owned) else { return self.copy(from, to) };
        let (object, link) = (from.to_owned(), to.to_owned());
        match self.do_in_folder("write", to, move || staging::link_file(&root, &object, &link)) {
            Err(hung @ StoreError::Hung { .. }) => Err(hung),
            // The copy says what is wrong.
            Err(_) => self.copy(from, to),
            Ok(()) => Ok(()),
        }
    }

    /// A writer for an object too large for memory. The object is invisible until the writer is finished.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn writer(&self, name: &str) -> Result<ObjectWriter, StoreError> {
        Ok(ObjectWriter::new(self.clone(), name, self.object_path(name, "write")?))
    }

    /// The objects under a folder, at any depth, as (name, size in bytes), sorted by name. An absent folder is empty.
    ///
    /// # Errors
    /// An error of the store.
    pub fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let path = self.object_path(folder, "list")?;
        let mut found: Vec<_> = self.persist("list", folder, || {
            self.inner.objects.list(Some(&path)).map_ok(|meta| (meta.location.to_string(), meta.size)).try_collect()
        })?;
        found.sort();
        Ok(found)
    }

    /// The objects directly in each of `folders`, as (name, size in bytes), sorted by name.
    ///
    /// # Errors
    /// An error of the store.
    pub fn list_many(&self, folders: &[String]) -> Result<Vec<Vec<(String, u64)>>, StoreError> {
        if let Some(root) = self.plain_folder() {
            return self.list_files(root, folders);
        }
        let paths = folders.iter().map(|folder| self.object_path(folder, "list")).collect::<Result<Vec<_>, _>>()?;
        let lists = paths.iter().zip(folders).map(|(path, folder)| async move {
            let listed = self.attempt("list", folder, || self.inner.objects.list_with_delimiter(Some(path))).await?;
            let mut found: Vec<_> =
                listed.objects.into_iter().map(|meta| (meta.location.to_string(), meta.size)).collect();
            found.sort();
            Ok(found)
        });
        self.block_on(futures::stream::iter(lists).buffered(CONCURRENCY).try_collect())
    }

    /// The names of the folders directly in a folder, sorted, each without the parent's name.
    ///
    /// # Errors
    /// An error of the store.
    pub fn list_folders(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let path = self.object_path(folder, "list")?;
        let listed = self.persist("list", folder, || self.inner.objects.list_with_delimiter(Some(&path)))?;
        let mut found: Vec<String> =
            listed.common_prefixes.iter().filter_map(|p| p.filename().map(str::to_owned)).collect();
        found.sort();
        Ok(found)
    }

    /// Removes an object, if it exists.
    ///
    /// # Errors
    /// An error of the store.
    pub fn delete(&self, name: &str) -> Result<(), StoreError> {
        let path = self.object_path(name, "remove")?;
        match self.persist("remove", name, || self.inner.objects.delete(&path)) {
            Err(StoreError::NotFound { .. }) => Ok(()),
            result => result,
        }
    }

    /// The folder of a local store without simulated faults.
    fn plain_folder(&self) -> Option<&Path> {
        self.local_path().filter(|_| self.inner.simulation.is_none())
    }

    /// [`Store::put_if_absent`] on trust.
    fn put_conditionally(&self, name: &str, bytes: Bytes) -> Result<bool, StoreError> {
        let path = self.object_path(name, "write")?;
        let payload = PutPayload::from_bytes(bytes);
        self.persist("write", name, || async {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            match self.inner.objects.put_opts(&path, payload.clone(), options).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    async fn read_range(&self, path: &ObjectPath, name: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let wanted = range.end - range.start;
        let get = || async {
            let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            self.inner.objects.get_opts(path, options).await?.bytes().await
        };
        let bytes = self.attempt("read", name, get).await?;
        if bytes.len() as u64 != wanted {
            return Err(StoreError::Short { path: self.full_name(name), start: range.start, end: range.end });
        }
        Ok(bytes)
    }

    async fn read_ranges(
        &self,
        path: &ObjectPath,
        name: &str,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StoreError> {
        let got = self.attempt("read", name, || self.inner.objects.get_ranges(path, ranges)).await?;
        for (bytes, range) in got.iter().zip(ranges) {
            if bytes.len() as u64 != range.end - range.start {
                return Err(StoreError::Short { path: self.full_name(name), start: range.start, end: range.end });
            }
        }
        Ok(got)
    }

    fn object_path(&self, name: &str, operation: &'static str) -> Result<ObjectPath, StoreError> {
        ObjectPath::parse(name).map_err(|source| StoreError::Refused {
            operation,
            path: self.full_name(name),
            source: Box::new(source),
        })
    }

    /// Runs an operation, waits out outages, and classifies its error.
    async fn attempt<T, F>(
        &self,
        operation: &'static str,
        name: &str,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let (object, full) = (name, self.full_name(name));
        let name = OperationName { operation, path: &full };
        let classified = || {
            let attempt = attempt();
            async { attempt.await.map_err(|error| StoreError::classify(operation, full.clone(), error)) }
        };
        let fate = match &self.inner.simulation {
            None => return self.inner.patience.persist(name, classified).await,
            Some(simulation) => simulation.begin(operation, object).await,
        };
        let ended = match fate {
            SimulatedFate::Failure => None,
            _ => Some(self.inner.patience.persist(name, classified).await),
        };
        match ended {
            Some(ended) if fate == SimulatedFate::Success => ended,
            _ => Err(simulated_failure(operation, full.clone())),
        }
    }

    /// Does work on the files of a local folder, with the time limit of an operation: the file system may hang.
    fn do_in_folder<T: Send + 'static>(
        &self,
        operation: &'static str,
        name: &str,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let full = self.full_name(name);
        let failed = |error| StoreError::from_io(operation, full.clone(), error);
        let done = async {
            match tokio::task::spawn_blocking(work).await {
                Ok(done) => done.map_err(failed),
                Err(panic) => Err(failed(std::io::Error::other(panic))),
            }
        };
        self.block_on(self.inner.patience.bound(OperationName { operation, path: &full }, done))
    }

    /// As [`Store::attempt`], and waits for its end.
    fn persist<T, F>(&self, operation: &'static str, name: &str, attempt: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        self.block_on(self.attempt(operation, name, attempt))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        match &self.inner.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("this is a bug: a store was used while it was being dropped"),
        }
    }
}
