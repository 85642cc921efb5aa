//! Opens a store from its address.

use super::patience::{ANSWER_LIMIT, StoragePatience};
use super::{Store, StoreError, StoreInner};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};
use reqwest::Url;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Once};
use std::time::Duration;

/// The allowed forms of an address, for messages.
const ALLOWED: &str = "allowed are a folder, file:///FOLDER, s3://BUCKET/PREFIX and memory:";

/// The variables naming another server than AWS's. The first one set counts.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// Threads of the runtime: they move bytes and wait, no more.
const THREADS: usize = 2;

/// Quick retries of a request by object_store itself, for single faults. Longer outages are the store's patience.
const QUICK_RETRIES: usize = 3;

/// The time after which object_store does not retry by itself.
const QUICK_TIME: Duration = Duration::from_secs(2);

pub(super) fn open_store(uri: &str, patience: Duration) -> Result<Store, StoreError> {
    let address = |reason: String| StoreError::Address { uri: uri.to_owned(), reason };
    let mut parts: Option<Arc<dyn MultipartStore>> = None;
    let (objects, name, local): (Arc<dyn ObjectStore>, String, Option<PathBuf>) = match uri.split_once(':') {
        Some(("memory", "")) => (Arc::new(InMemory::new()), uri.to_owned(), None),
        Some(("s3", rest)) if rest.starts_with("//") => {
            let bucket = Arc::new(open_bucket(uri, &rest[2..])?);
            parts = Some(bucket.clone());
            (bucket, uri.to_owned(), None)
        }
        Some(("file", rest)) if rest.starts_with("///") => open_folder(uri, Path::new(&rest[2..]))?,
        Some((_, rest)) if rest.starts_with("//") => return Err(address(format!("unknown scheme; {ALLOWED}"))),
        _ if uri.is_empty() => return Err(address(format!("it is empty; {ALLOWED}"))),
        _ => open_folder(uri, Path::new(uri))?,
    };
    let (patience, conditions) = (StoragePatience::new(patience), AtomicBool::new(parts.is_none()));
    let (simulation, runtime) = (None, Some(start_runtime()?));
    let inner = StoreInner { objects, parts, patience, conditions, simulation, runtime, uri: name, local };
    Ok(Store { inner: Arc::new(inner) })
}

/// The runtime of a handle.
pub(super) fn start_runtime() -> Result<tokio::runtime::Runtime, StoreError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("hopeval-store")
        .enable_all()
        .build()
        .map_err(|source| StoreError::Runtime { source })
}

/// As [`open_store`], but a local folder must be there.
pub(super) fn open_existing(uri: &str, patience: Duration) -> Result<Store, StoreError> {
    let folder = match uri.split_once(':') {
        Some(("file", rest)) if rest.starts_with("///") => Some(&rest[2..]),
        Some(("memory", "")) => None,
        Some((_, rest)) if rest.starts_with("//") => None,
        _ if uri.is_empty() => None,
        _ => Some(uri),
    };
    if let Some(folder) = folder.map(PathBuf::from)
        && !within_limit("open the folder", uri, ANSWER_LIMIT, move || Ok(folder.exists()))?
    {
        return Err(StoreError::Address { uri: uri.to_owned(), reason: "there is no such folder".to_owned() });
    }
    open_store(uri, patience)
}

type StoreParts = (Arc<dyn ObjectStore>, String, Option<PathBuf>);

/// A local folder, created if absent. Writes and their folders are synced.
fn open_folder(uri: &str, path: &Path) -> Result<StoreParts, StoreError> {
    let (named, created) = (path.display().to_string(), path.to_owned());
    within_limit("create the folder", &named, ANSWER_LIMIT, move || std::fs::create_dir_all(created))?;
    let opened = path.to_owned();
    let path = within_limit("open the folder", &named, ANSWER_LIMIT, move || opened.canonicalize())?;
    let objects = LocalFileSystem::new_with_prefix(&path)
        .map_err(|e| StoreError::Address { uri: uri.to_owned(), reason: e.to_string() })?
        .with_fsync(true);
    Ok((Arc::new(objects), path.display().to_string(), Some(path)))
}

/// Does work on a folder whose file system may hang, in a thread that is left behind after `limit`.
fn within_limit<T: Send + 'static>(
    operation: &'static str,
    path: &str,
    limit: Duration,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let failed = |error| StoreError::from_io(operation, path.to_owned(), error);
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("folder".to_owned());
    thread.spawn(move || drop(sender.send(work()))).map_err(failed)?;
    match receiver.recv_timeout(limit) {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(StoreError::Hung { operation, path: path.to_owned(), seconds: limit.as_secs() }),
    }
}

/// A bucket and a prefix in it, with the environment's settings.
fn open_bucket(uri: &str, address: &str) -> Result<PrefixStore<AmazonS3>, StoreError> {
    install_crypto();
    let failed = |reason: String| StoreError::Address { uri: uri.to_owned(), reason };
    let (name, prefix) = address.split_once('/').unwrap_or((address, ""));
    if name.is_empty() {
        return Err(failed(format!("it names no bucket; {ALLOWED}")));
    }
    let retry = RetryConfig { max_retries: QUICK_RETRIES, retry_timeout: QUICK_TIME, ..RetryConfig::default() };
    let mut builder = from_environment().with_bucket_name(name).with_retry(retry);
    if ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().all(|variable| set_variable(variable).is_none()) {
        builder = builder.with_region("us-east-1");
    }
    if let Some((variable, value)) = ENDPOINTS.iter().find_map(|variable| Some((*variable, set_variable(variable)?))) {
        let endpoint = parse_endpoint(variable, &value.to_string_lossy()).map_err(failed)?;
        if endpoint.scheme() == "http" {
            builder = builder.with_allow_http(true);
        }
        // The key with precedence over all others. It replaces the value taken unchecked from the environment.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.as_str().trim_end_matches('/'));
    }
    let objects = builder.build().map_err(|e| failed(e.to_string()))?;
    let prefix = ObjectPath::parse(prefix.trim_end_matches('/')).map_err(|e| failed(e.to_string()))?;
    Ok(PrefixStore::new(objects, prefix))
}

/// A variable's value. An empty value counts as not set: templates that pass on an unset variable make it empty.
fn set_variable(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// The settings of the `AWS_*` variables with a value (see [`set_variable`]), otherwise as
/// [`AmazonS3Builder::from_env`].
fn from_environment() -> AmazonS3Builder {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let aws = names.filter(|name| name.starts_with("AWS_"));
    aws.filter_map(|name| {
        Some((name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>().ok()?, set_variable(&name)?.into_string().ok()?))
    })
    .fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value))
}

/// The address of a bucket's server. object_store accepts any text, and panics at the first request.
///
/// # Errors
/// A message with the mistake and the allowed values. It omits everything before an `@`, possibly a password.
fn parse_endpoint(variable: &str, value: &str) -> Result<Url, String> {
    let wrong = |what: &str| {
        let shown = value.rsplit_once('@').map_or(value.to_owned(), |(_, rest)| format!("…@{rest}"));
        format!(
            "{variable} is `{shown}`: {what}; allowed are http://HOST and https://HOST, \
             with :PORT where it is another than usual"
        )
    };
    let url = Url::parse(value).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it does not begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "it has a user or a password, which belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ));
    }
    // The parser guarantees a host in such an address.
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it goes on with a query or a fragment"));
    }
    Ok(url)
}

/// TLS needs a provider of cryptography, one for the process. The first one installed stays.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_hangs_is_noticed() {
        const SHORT: Duration = Duration::from_millis(50);
        let hanging = || {
            std::thread::park();
            Ok(())
        };
        let hung = within_limit("open the folder", "store", SHORT, hanging).unwrap_err();
        assert_eq!(hung.to_string(), "cannot open the folder `store`: the storage gave no answer for 0 seconds");
        assert!(hung.may_pass());
        assert_eq!(within_limit("open the folder", "store", ANSWER_LIMIT, || Ok(7)).unwrap(), 7);

        // To open a pipe without a writer hangs, as a file of a dead server.
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut store = open_store(&dir.path().display().to_string(), Duration::ZERO).unwrap();
        let inner = Arc::get_mut(&mut store.inner).expect("nobody shares it");
        inner.patience = StoragePatience::new(Duration::ZERO).with_answer_limit(SHORT);
        for hung in [store.get("pipe").map(drop), store.do_in_folder("list", "a", hanging)] {
            assert!(matches!(hung, Err(StoreError::Hung { .. })), "{hung:?}");
        }
        drop(store);
        // The thread that hangs ends.
        drop(std::fs::File::options().write(true).open(pipe).unwrap());
    }

    #[test]
    fn an_endpoint_has_a_scheme_and_a_host() {
        for (value, taken) in [
            ("http://localhost:9000", "http://localhost:9000/"),
            ("HTTPS://s3.example.org/", "https://s3.example.org/"),
            ("http://[::1]:9000/under/here", "http://[::1]:9000/under/here"),
        ] {
            assert_eq!(parse_endpoint("AWS_ENDPOINT", value).unwrap().as_str(), taken);
        }
        for value in [
            "",
            "localhost:9000",
            "notaurl",
            "http://",
            "http://a b",
            "http://a:x",
            "ftp://a",
            "http://a?b",
            "http://a#b",
        ] {
            let error = parse_endpoint("AWS_ENDPOINT_URL", value).unwrap_err();
            assert!(error.starts_with(&format!("AWS_ENDPOINT_URL is `{value}`: ")), "{error}");
            assert!(error.contains("; allowed are http://HOST and https://HOST"), "{error}");
        }
    }

    #[test]
    fn what_may_be_a_password_is_not_told() {
        for value in ["http://user:hunter2@a:9000", "http://hunter2@a", "ftp://user:hunter2@a?x=1", "user:hunter2@a"] {
            let error = parse_endpoint("AWS_ENDPOINT_URL", value).unwrap_err();
            assert!(error.starts_with("AWS_ENDPOINT_URL is `…@a"), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("user:"), "{error}");
        }
        let error = parse_endpoint("AWS_ENDPOINT_URL", "http://user:hunter2@a").unwrap_err();
        assert!(error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
    }
}
