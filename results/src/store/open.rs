//! Opens a store from its address.

use super::{Inner, Store, StoreError};
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

/// What addresses look like, for messages.
const ALLOWED: &str = "allowed are a folder, file:///FOLDER, s3://BUCKET/PREFIX and memory:";

/// Threads of the runtime: they move bytes and wait, no more.
const THREADS: usize = 2;

pub(super) fn open(uri: &str) -> Result<Store, StoreError> {
    let address = |reason: String| StoreError::Address { uri: uri.to_owned(), reason };
    let (objects, name, local): (Arc<dyn ObjectStore>, String, Option<PathBuf>) = match uri.split_once(':') {
        Some(("memory", "")) => (Arc::new(InMemory::new()), uri.to_owned(), None),
        Some(("s3", rest)) if rest.starts_with("//") => (bucket(uri, &rest[2..])?, uri.to_owned(), None),
        Some(("file", rest)) if rest.starts_with("///") => folder(uri, Path::new(&rest[2..]))?,
        Some((_, rest)) if rest.starts_with("//") => return Err(address(format!("unknown scheme; {ALLOWED}"))),
        _ if uri.is_empty() => return Err(address(format!("it is empty; {ALLOWED}"))),
        _ => folder(uri, Path::new(uri))?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("hopeval-store")
        .enable_all()
        .build()
        .map_err(|source| StoreError::Runtime { source })?;
    Ok(Store { inner: Arc::new(Inner { objects, runtime: Some(runtime), uri: name, local }) })
}

/// As [`open`], but a local folder must be there.
pub(super) fn open_existing(uri: &str) -> Result<Store, StoreError> {
    let folder = match uri.split_once(':') {
        Some(("file", rest)) if rest.starts_with("///") => Some(&rest[2..]),
        Some(("memory", "")) => None,
        Some((_, rest)) if rest.starts_with("//") => None,
        _ if uri.is_empty() => None,
        _ => Some(uri),
    };
    if let Some(folder) = folder
        && !Path::new(folder).exists()
    {
        return Err(StoreError::Address { uri: uri.to_owned(), reason: "there is no such folder".to_owned() });
    }
    open(uri)
}

type Opened = (Arc<dyn ObjectStore>, String, Option<PathBuf>);

/// A local folder, created if absent. Writes and their folders are synced.
fn folder(uri: &str, path: &Path) -> Result<Opened, StoreError> {
    let named = path.display().to_string();
    std::fs::create_dir_all(path).map_err(|e| StoreError::from_io("create the folder", named.clone(), e))?;
    let path = path.canonicalize().map_err(|e| StoreError::from_io("open the folder", named, e))?;
    let objects = LocalFileSystem::new_with_prefix(&path)
        .map_err(|e| StoreError::Address { uri: uri.to_owned(), reason: e.to_string() })?
        .with_fsync(true);
    Ok((Arc::new(objects), path.display().to_string(), Some(path)))
}

/// A bucket and a prefix in it, with the environment's settings.
fn bucket(uri: &str, address: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
    install_crypto();
    let failed = |reason: String| StoreError::Address { uri: uri.to_owned(), reason };
    let (name, prefix) = address.split_once('/').unwrap_or((address, ""));
    if name.is_empty() {
        return Err(failed(format!("it names no bucket; {ALLOWED}")));
    }
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(name);
    if ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().all(|variable| std::env::var_os(variable).is_none()) {
        builder = builder.with_region("us-east-1");
    }
    let endpoint =
        ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].iter().find_map(|v| std::env::var(v).ok());
    if let Some(endpoint) = endpoint {
        let plain = endpoint.starts_with("http://");
        builder = builder.with_endpoint(endpoint);
        if plain {
            builder = builder.with_allow_http(true);
        }
    }
    let objects = builder.build().map_err(|e| failed(e.to_string()))?;
    let prefix = ObjectPath::parse(prefix.trim_end_matches('/')).map_err(|e| failed(e.to_string()))?;
    Ok(Arc::new(PrefixStore::new(objects, prefix)))
}

/// TLS needs a provider of cryptography, one for the process; whoever was first stays.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
