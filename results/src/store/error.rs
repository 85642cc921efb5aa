//! Errors of a store, by meaning, sorted where they arise.
//!
//! An error is *determinate* if the same operation fails again until a person changes something: missing rights, a full
//! disk, a request that the server refuses. All others are *indeterminate*: the operation may have happened, and may
//! succeed later. [`StoreError::may_pass`] is the only judge of that, for waiting and for exit codes.

use std::error::Error;
use std::io::ErrorKind;

/// A failed store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address is malformed, or its store cannot be opened.
    #[error("cannot open the store `{uri}`: {reason}")]
    Address {
        /// The given address.
        uri: String,
        /// The mistake, and the allowed values.
        reason: String,
    },
    /// The asynchronous runtime could not be started.
    #[error("cannot start the threads of the store")]
    Runtime {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no such object.
    #[error("cannot {operation} `{path}`: there is no such object")]
    NotFound {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
    },
    /// The object ends before the end of the wanted range.
    #[error("cannot read bytes {start} to {end} of `{path}`: it is shorter")]
    Short {
        /// The object.
        path: String,
        /// First byte.
        start: u64,
        /// After the last byte.
        end: u64,
    },
    /// The object is not the one that was written.
    #[error("`{path}` is damaged: {found}, and {expected} was written\nhint: {hint}")]
    Damaged {
        /// The object.
        path: String,
        /// Its size or its digest.
        found: String,
        /// The size or the digest of the written object.
        expected: String,
        /// The way to get it back.
        hint: &'static str,
    },
    /// No space is left.
    #[error("cannot {operation} `{path}`: no space is left there")]
    Full {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The store is read-only, or the credentials do not suffice.
    #[error("cannot {operation} `{path}`: permission denied, or the place is read-only")]
    Denied {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A bucket needs credentials, and there are no credentials.
    #[error(
        "cannot {operation} `{path}`: no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
         or give this machine a role"
    )]
    NoCredentials {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
        /// Error of the last resort, the machine's metadata service.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A file would grow beyond the limit of this process (`ulimit -f`) or of the file system.
    #[error(
        "cannot {operation} `{path}`: the file would be larger than allowed\n\
         hint: raise the limit of this process (`ulimit -f`), or use a place that takes larger files"
    )]
    FileLimit {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server ignores the condition of a conditional put.
    #[error(
        "cannot use the store `{uri}`: its server ignores `If-None-Match: *`: a second put of `{path}` replaced the \
         first, so two processes could both commit\n\
         hint: allowed are servers with conditional puts, as AWS S3 and MinIO; a proxy must pass the header on"
    )]
    Unconditional {
        /// The store's address.
        uri: String,
        /// The object that was put twice.
        path: String,
    },
    /// The store refuses the operation, and will refuse it again.
    #[error("cannot {operation} `{path}`: {source}")]
    Refused {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// No answer came in time. A write may have happened all the same.
    #[error("cannot {operation} `{path}`: the storage gave no answer for {seconds} seconds")]
    Hung {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
        /// The time limit.
        seconds: u64,
    },
    /// Anything else, which may pass. A write may have happened all the same.
    #[error("cannot {operation} `{path}`: {source}")]
    Failed {
        /// The attempted operation.
        operation: &'static str,
        /// The object.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Paths in the URLs of a machine's metadata service. The service is asked only if nothing else gives credentials. The
/// URL is the only sign of this case in an error of object_store.
const METADATA_PATHS: [&str; 2] = ["/latest/api/token", "/latest/meta-data/iam/security-credentials"];

/// A server's refusal: object_store keeps its status private, and tells it in this text.
const STATUS_TEXT: &str = "non-2xx status code: ";

impl StoreError {
    /// Classifies an error of object_store. The operating system's own code and object_store's own kind, deep in its
    /// chain, are the best evidence.
    pub(crate) fn classify(operation: &'static str, path: String, source: object_store::Error) -> Self {
        let evidence = ErrorEvidence::gather(&source);
        let source: Box<dyn Error + Send + Sync> = Box::new(source);
        match evidence.meaning() {
            // A bucket that is absent is not an absent object.
            _ if evidence.no_bucket => Self::Refused { operation, path, source },
            _ if evidence.anonymous => Self::NoCredentials { operation, path, source },
            // A later writer took this one for dead and removed its staging file. The put may be tried again.
            ErrorMeaning::Absent if operation == "write" => Self::Failed { operation, path, source },
            ErrorMeaning::Absent => Self::NotFound { operation, path },
            ErrorMeaning::Full => Self::Full { operation, path, source },
            ErrorMeaning::TooLarge => Self::FileLimit { operation, path, source },
            ErrorMeaning::Denied => Self::Denied { operation, path, source },
            ErrorMeaning::Refused => Self::Refused { operation, path, source },
            ErrorMeaning::Unknown => Self::Failed { operation, path, source },
        }
    }

    /// Classifies an error of the operating system.
    pub(crate) fn from_io(operation: &'static str, path: String, source: std::io::Error) -> Self {
        Self::classify(operation, path, object_store::Error::Generic { store: "folder", source: Box::new(source) })
    }

    /// Whether the same operation may succeed later without a person's help.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Hung { .. })
    }

    /// Whether space or a larger limit would help.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::FileLimit { .. })
    }
}

/// The failure of a store that `error` is or passes on. A transparent error hides the error that it passes on from the
/// chain of causes.
pub fn store_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a StoreError> {
    use crate::{JournalError, LogError, RunError, TableError};
    let log = |error: &'a LogError| match error {
        LogError::Store(error) => Some(error),
        _ => None,
    };
    if let Some(error) = error.downcast_ref() {
        Some(error)
    } else if let Some(error) = error.downcast_ref() {
        log(error)
    } else if let Some(JournalError::Store(error)) = error.downcast_ref() {
        Some(error)
    } else if let Some(RunError::Store(error)) = error.downcast_ref() {
        Some(error)
    } else {
        match error.downcast_ref()? {
            TableError::Store(error) => Some(error),
            TableError::Log(error) => log(error),
            _ => None,
        }
    }
}

/// The meaning of an error's evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorMeaning {
    Absent,
    Full,
    TooLarge,
    Denied,
    Refused,
    Unknown,
}

/// Everything in a chain of causes that tells its meaning. The deepest cause counts: those above may only wrap it.
#[derive(Default)]
struct ErrorEvidence {
    /// The kind of an error of the operating system.
    kind: Option<ErrorKind>,
    /// The meaning of object_store's own kind of error.
    own: Option<ErrorMeaning>,
    /// The status of a server's answer.
    status: Option<u16>,
    /// Whether a bucket's client failed. A folder fails by an error of the operating system, or for good: a range
    /// beyond a file's end, for one.
    remote: bool,
    /// Whether the last resort for credentials was asked.
    anonymous: bool,
    /// Whether the server says that there is no such bucket.
    no_bucket: bool,
}

impl ErrorEvidence {
    fn gather(error: &(dyn Error + 'static)) -> Self {
        let text = error.to_string();
        let mut found = Self {
            status: text.split_once(STATUS_TEXT).and_then(|(_, rest)| rest.get(..3)?.parse().ok()),
            anonymous: METADATA_PATHS.iter().any(|path| text.contains(path)),
            no_bucket: text.contains("<Code>NoSuchBucket</Code>"),
            ..Self::default()
        };
        let mut next = Some(error);
        while let Some(error) = next {
            let io = error.downcast_ref::<std::io::Error>();
            found.kind = io.map(std::io::Error::kind).filter(|kind| *kind != ErrorKind::Other).or(found.kind);
            if let Some(object_store::Error::Generic { store: "S3", .. }) = error.downcast_ref() {
                found.remote = true;
            }
            found.own = error.downcast_ref::<object_store::Error>().and_then(own_meaning).or(found.own);
            next = match io.and_then(std::io::Error::get_ref) {
                // An I/O error's `source` skips the carried error.
                Some(carried) => Some(carried),
                None => error.source(),
            };
        }
        found
    }

    fn meaning(&self) -> ErrorMeaning {
        let unknown = if self.remote || self.kind.is_some() { ErrorMeaning::Unknown } else { ErrorMeaning::Refused };
        let by_kind = self.kind.map_or(unknown, kind_meaning);
        self.own.or_else(|| self.status.map(status_meaning)).unwrap_or(by_kind)
    }
}

/// The meaning of object_store's own kinds; `None` for those that only wrap another error.
fn own_meaning(error: &object_store::Error) -> Option<ErrorMeaning> {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => Some(ErrorMeaning::Absent),
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => Some(ErrorMeaning::Denied),
        E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => Some(ErrorMeaning::Refused),
        E::UnknownConfigurationKey { .. } => Some(ErrorMeaning::Refused),
        _ => None,
    }
}

/// The meaning of a status. Of the answers that blame the request, only those about time, conflicts and load may
/// pass; of those that blame the server, only "not implemented" stays.
fn status_meaning(status: u16) -> ErrorMeaning {
    match status {
        404 => ErrorMeaning::Absent,
        401 | 403 => ErrorMeaning::Denied,
        507 => ErrorMeaning::Full,
        408 | 409 | 412 | 425 | 429 => ErrorMeaning::Unknown,
        300..=499 | 501 => ErrorMeaning::Refused,
        _ => ErrorMeaning::Unknown,
    }
}

/// The meaning of an operating system's error.
fn kind_meaning(kind: ErrorKind) -> ErrorMeaning {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ErrorMeaning::Full,
        ErrorKind::FileTooLarge => ErrorMeaning::TooLarge,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => ErrorMeaning::Denied,
        // A file where a folder must be, among them: a put of an object that exists has a kind of its own.
        ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput
        | ErrorKind::Unsupported
        | ErrorKind::TooManyLinks
        | ErrorKind::CrossesDevices => ErrorMeaning::Refused,
        _ => ErrorMeaning::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(kind: ErrorKind) -> StoreError {
        StoreError::from_io("write", "/disk/runs/a".to_owned(), std::io::Error::from(kind))
    }

    #[test]
    fn a_full_disk_is_recognised_below_other_errors() {
        let full = std::io::Error::from(ErrorKind::StorageFull);
        let inner = object_store::Error::Generic { store: "inner", source: Box::new(full) };
        let error = StoreError::from_io("write", "/disk/a".to_owned(), std::io::Error::other(inner));
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    }

    #[test]
    fn a_lack_of_credentials_is_told_from_a_bucket_that_fails() {
        let said = |text: &str| {
            let source = object_store::Error::Generic { store: "S3", source: text.to_owned().into() };
            StoreError::classify("list", "s3://bucket/runs".to_owned(), source)
        };
        let error = said("Error performing PUT http://169.254.169.254/latest/api/token in 1ms: connection refused");
        assert!(matches!(error, StoreError::NoCredentials { .. }), "{error:?}");
        assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
        let error = said("Error performing GET http://127.0.0.1:9000/bucket in 1ms: connection refused");
        assert!(matches!(error, StoreError::Failed { .. }), "{error:?}");
    }

    #[test]
    fn a_server_s_refusal_is_sorted_by_its_status() {
        for (status, passes) in
            [(400, false), (405, false), (408, true), (429, true), (500, true), (501, false), (503, true)]
        {
            let text =
                format!("Error performing PUT http://h/b in 1ms - Server returned non-2xx status code: {status} X: ");
            let source = object_store::Error::Generic { store: "S3", source: text.into() };
            let error = StoreError::classify("write", "s3://b/a".to_owned(), source);
            assert_eq!(error.may_pass(), passes, "{status}: {error:?}");
        }
    }

    #[test]
    fn missing_rights_are_found_below_a_writer_s_error() {
        let denied =
            object_store::Error::PermissionDenied { path: "a".to_owned(), source: "Server returned 403".into() };
        let wrapped = std::io::Error::other(denied);
        let error = StoreError::from_io("write", "s3://b/a".to_owned(), wrapped);
        assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
        assert!(!error.may_pass());
    }

    #[test]
    fn a_full_disk_and_a_read_only_place_have_their_own_message() {
        assert!(matches!(classified(ErrorKind::StorageFull), StoreError::Full { .. }));
        assert!(matches!(classified(ErrorKind::QuotaExceeded), StoreError::Full { .. }));
        assert!(matches!(classified(ErrorKind::ReadOnlyFilesystem), StoreError::Denied { .. }));
        assert!(matches!(classified(ErrorKind::PermissionDenied), StoreError::Denied { .. }));
        assert!(matches!(classified(ErrorKind::NotADirectory), StoreError::Refused { .. }));
        assert!(matches!(classified(ErrorKind::FileTooLarge), StoreError::FileLimit { .. }));
        assert_eq!(
            classified(ErrorKind::StorageFull).to_string(),
            "cannot write `/disk/runs/a`: no space is left there"
        );
    }
}
