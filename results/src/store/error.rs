//! Errors of a store, by meaning.

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
    /// Anything else; a write may have happened all the same.
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

impl StoreError {
    /// Classifies an error of object_store. The operating system's own code, deep in its chain, is the best evidence.
    pub(crate) fn classify(operation: &'static str, path: String, source: object_store::Error) -> Self {
        use object_store::Error as E;
        // A later writer took this one for dead and removed its staging file: the put failed, and may be tried again.
        if matches!(source, E::NotFound { .. }) && operation != "write" {
            return Self::NotFound { operation, path };
        }
        let kind = io_kind(&source);
        let denied = matches!(source, E::PermissionDenied { .. } | E::Unauthenticated { .. })
            || matches!(kind, Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem));
        let anonymous = METADATA_PATHS.iter().any(|path| source.to_string().contains(path));
        let source = Box::new(source);
        match kind {
            _ if anonymous => Self::NoCredentials { operation, path, source },
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Self::Full { operation, path, source },
            _ if denied => Self::Denied { operation, path, source },
            _ => Self::Failed { operation, path, source },
        }
    }

    /// Classifies an error of the operating system.
    pub(crate) fn from_io(operation: &'static str, path: String, source: std::io::Error) -> Self {
        Self::classify(operation, path, object_store::Error::Generic { store: "folder", source: Box::new(source) })
    }
}

/// The deepest kind of I/O error in the chain of causes. Errors above it may only wrap it as `Other`.
fn io_kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    let mut kind = None;
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        kind = io.map(std::io::Error::kind).or(kind);
        next = match io.and_then(std::io::Error::get_ref) {
            // An I/O error's `source` skips the carried error.
            Some(carried) => Some(carried),
            None => error.source(),
        };
    }
    kind
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
    fn a_full_disk_and_a_read_only_place_have_their_own_message() {
        assert!(matches!(classified(ErrorKind::StorageFull), StoreError::Full { .. }));
        assert!(matches!(classified(ErrorKind::QuotaExceeded), StoreError::Full { .. }));
        assert!(matches!(classified(ErrorKind::ReadOnlyFilesystem), StoreError::Denied { .. }));
        assert!(matches!(classified(ErrorKind::PermissionDenied), StoreError::Denied { .. }));
        assert!(matches!(classified(ErrorKind::NotADirectory), StoreError::Failed { .. }));
        assert_eq!(
            classified(ErrorKind::StorageFull).to_string(),
            "cannot write `/disk/runs/a`: no space is left there"
        );
    }
}
