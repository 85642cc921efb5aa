//! Errors of the list and of downloads.

use crate::address::shown_address;
use reqwest::StatusCode;
use std::io;
use std::path::PathBuf;

/// Why a list of public files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PublicFilesError {
    /// The list cannot be read.
    #[error("{}: cannot read the list of public files", path.display())]
    Read {
        /// The list.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The list is no TOML, or has an unknown key.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The list.
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    /// An entry is wrong.
    #[error("{}: [{name}]: {reason}", path.display())]
    Entry {
        /// The list.
        path: PathBuf,
        /// The entry.
        name: String,
        /// The key, its value, and what is allowed.
        reason: String,
    },
    /// No entry has the name.
    #[error("the list of public files has no `{name}`; allowed: {allowed}")]
    Unknown {
        /// The name.
        name: String,
        /// The allowed names.
        allowed: String,
    },
}

/// Why a file was not fetched. Its `.part` stays, and the next attempt goes on from it, unless the variant says
/// otherwise.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No client for HTTP: on machines without certificates of authorities, for example.
    #[error("cannot make an HTTP client")]
    Client {
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The runtime of the client cannot start.
    #[error("cannot start the runtime of the HTTP client")]
    Runtime {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The address is no URL.
    #[error("[{name}]: `{url}` is no address; allowed: http:// or https://")]
    Address {
        /// The entry.
        name: String,
        /// The address.
        url: String,
    },
    /// The server answers with a status that is no success.
    #[error("{url} answers {status}\nhint: {hint}")]
    Status {
        /// The address.
        url: String,
        /// The status, with its usual words.
        status: String,
        /// Whether it may pass.
        may_pass: bool,
        /// What to do.
        hint: &'static str,
    },
    /// The server answers with a web page in place of the file.
    #[error(
        "{url} answers with a web page in place of the file\nhint: it may ask for a consent or have used up a quota: \
         open it in a browser, and put the file at {}", path.display()
    )]
    Page {
        /// The address.
        url: String,
        /// The file's place.
        path: PathBuf,
    },
    /// The server cannot be reached, or the connection broke too often.
    #[error(
        "{url}: {bytes} bytes came before the connection failed for the last of {attempts} times\n\
         hint: the same command goes on from there; HTTPS_PROXY and NO_PROXY name a proxy"
    )]
    Transfer {
        /// The address.
        url: String,
        /// Bytes in the `.part`.
        bytes: u64,
        /// Attempts in a row without progress.
        attempts: u32,
        /// The last failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request cannot be made, or is redirected without end: another attempt ends like this one.
    #[error("{url} cannot be asked for")]
    Request {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// A body that ends with its connection, and nothing that tells a whole one from a broken one.
    #[error(
        "{url}: the server does not say how long the file is, so a broken connection looks like its end\n\
         hint: write the file's `bytes` or `sha256` into the list"
    )]
    UnknownEnd {
        /// The address.
        url: String,
    },
    /// The token of the hub is none.
    #[error("HF_TOKEN is no token; allowed: visible ASCII characters, without spaces between them")]
    Token,
    /// Another process has the `.part`, or had it until now.
    #[error(
        "{}: another process is fetching it, or has just done so\nhint: the same command compares it later",
        path.display()
    )]
    Busy {
        /// The file's place.
        path: PathBuf,
    },
    /// The whole body came, and it is of another size. The `.part` is removed.
    #[error(
        "{url} has {found} bytes, and the list says {expected}: it is another file\n\
         hint: the publisher may have replaced it; a file from elsewhere can be put in its place and be verified"
    )]
    Size {
        /// The address.
        url: String,
        /// Its bytes.
        found: u64,
        /// The list's.
        expected: u64,
    },
    /// The whole body came, and its digest is another one. The `.part` is removed.
    #[error(
        "{url} has the SHA-256 {found}, and the list says {expected}: it is another file, or was damaged on its way\n\
         hint: fetch it once more; if the digest stays, the publisher has replaced the file"
    )]
    Digest {
        /// The address.
        url: String,
        /// Its digest.
        found: String,
        /// The list's.
        expected: String,
    },
    /// Another file is in the place.
    #[error(
        "{} is there, and it is another file: {finding}\nhint: move it away, and fetch again", path.display()
    )]
    Taken {
        /// The place.
        path: PathBuf,
        /// The difference.
        finding: String,
    },
    /// The hub's description of a repository cannot be read.
    #[error("{url} does not describe a repository of the hub")]
    Repository {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A local file cannot be read or written.
    #[error("{}: {operation}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        operation: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Every address of a file failed.
    #[error("[{name}]: none of {addresses} addresses gave the file; the others: {others}")]
    Everywhere {
        /// The entry.
        name: String,
        /// Number of addresses.
        addresses: usize,
        /// The failures of all but the last.
        others: String,
        /// Whether one of them may give it later.
        may_pass: bool,
        /// The failure of the last one.
        #[source]
        last: Box<FetchError>,
    },
}

impl FetchError {
    /// The error of a status that is no success.
    pub(crate) fn of_status(url: String, status: StatusCode) -> Self {
        let hint = match status.as_u16() {
            401 | 403 => "the publisher may ask for a consent: give it on its page; HF_TOKEN is sent to the hub",
            404 | 410 => "the publisher has moved the file: get it elsewhere, put it in its place, and verify it",
            407 => "the proxy of HTTPS_PROXY or HTTP_PROXY wants a name and a password, in its address",
            408 | 429 | 500.. => "the server is busy or out of order: the same command goes on later",
            _ => "open the address in a browser; a file from elsewhere can be put in its place and be verified",
        };
        let may_pass = matches!(status.as_u16(), 408 | 429 | 500..);
        Self::Status { url, status: status.to_string(), may_pass, hint }
    }

    /// The error of a request that has no answer, and no `.part`.
    pub(crate) fn of_request(url: &str, error: reqwest::Error) -> Self {
        let (url, source) = (shown_address(url), error.without_url());
        if source.is_builder() || source.is_redirect() {
            return Self::Request { url, source };
        }
        Self::Transfer { url, bytes: 0, attempts: 1, source: Box::new(source) }
    }

    /// Whether the same command may succeed later without help.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Transfer { .. } | Self::Busy { .. } => true,
            Self::Status { may_pass, .. } | Self::Everywhere { may_pass, .. } => *may_pass,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_what_to_do_and_whether_to_try_again() {
        for (status, hint, may_pass) in [(404, "moved", false), (403, "consent", false), (503, "busy", true)] {
            let error = FetchError::of_status("http://a".to_owned(), StatusCode::from_u16(status).unwrap());
            assert!(error.to_string().contains(hint) && error.to_string().contains(&status.to_string()), "{error}");
            assert_eq!(error.may_pass(), may_pass);
        }
    }
}
