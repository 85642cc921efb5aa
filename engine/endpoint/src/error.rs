//! Errors in front of the first call: wrong settings, a missing key, a client that cannot be built.

use std::path::PathBuf;

/// An endpoint that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// A setting has a value that is not allowed.
    #[error("`{key}` is {found}; allowed: {allowed}")]
    Setting {
        /// The setting's name.
        key: String,
        /// The value found.
        found: String,
        /// The allowed values.
        allowed: String,
    },
    /// The variable with the key is not set.
    #[error("no API key: the environment variable {variable} is not set\nhint: set it, or name a file in `key_file`")]
    NoKey {
        /// The variable's name.
        variable: String,
    },
    /// The file with the key cannot be read.
    #[error("cannot read the API key from {}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The key's text cannot stand in a header.
    #[error("the API key of {origin} is empty or has letters that no HTTP header can carry")]
    KeyText {
        /// The variable or file.
        origin: String,
    },
    /// The HTTP client could not be built.
    #[error("cannot build the HTTP client for {url}")]
    Client {
        /// The server.
        url: String,
        /// The reason.
        #[source]
        source: reqwest::Error,
    },
    /// The runtime's thread could not be started.
    #[error("cannot start the endpoint's thread")]
    Thread(#[source] std::io::Error),
}

impl EndpointError {
    /// A setting with a wrong value.
    pub(crate) fn setting(key: &str, found: impl ToString, allowed: impl ToString) -> Self {
        Self::Setting { key: key.to_owned(), found: found.to_string(), allowed: allowed.to_string() }
    }
}
