//! The transfer of one file from one address into its `.part`, attempt after attempt, and its acceptance.
//!
//! | answer | means |
//! | --- | --- |
//! | 200 | the whole file, whatever was asked for: the `.part` begins anew |
//! | 206 with the range that was asked for | the rest: it is appended |
//! | 206 with another range, 416 | the `.part` is of another file, or complete |
//! | 408, 429, 5xx; a broken connection; a body that ends early | another attempt, after a pause |
//! | any other status; a web page | no file at this address |
//!
//! A rest is asked for with `If-Range` and the first answer's entity tag or date, so that a file that was replaced in
//! between comes whole. Without either, a rest is asked for only if the digest is known to tell.
//!
//! A body without a length that ends with its connection may be a broken one. It is taken only where the list has the
//! size or the digest.

use super::progress::{FetchProgress, ProgressReport};
use super::wanted::WantedFile;
use crate::address::shown_address;
use crate::checksum::file_sha256;
use crate::error::FetchError;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, IF_RANGE, LAST_MODIFIED, RANGE, TRANSFER_ENCODING,
};
use reqwest::{Client, Response, StatusCode, Url};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Attempts in a row without a new byte.
const MOST_ATTEMPTS: u32 = 5;

/// The pause after the first of them; it doubles.
const PAUSE: Duration = Duration::from_millis(500);

/// A transfer under way. Its `.part` is locked, so that two processes cannot write it together.
pub(super) struct FileTransfer<'a> {
    client: &'a Client,
    url: Url,
    wanted: &'a WantedFile<'a>,
    token: Option<&'a str>,
    part: PathBuf,
    file: File,
}

/// The end of an attempt other than well.
enum AttemptEnd {
    /// Another attempt may help.
    Broken(FailedAttempt),
    /// No attempt helps.
    Final(FetchError),
}

/// Why another attempt is made.
enum FailedAttempt {
    Status(StatusCode),
    Connection(Box<dyn std::error::Error + Send + Sync>),
}

impl From<FetchError> for AttemptEnd {
    fn from(error: FetchError) -> Self {
        Self::Final(error)
    }
}

impl From<reqwest::Error> for AttemptEnd {
    fn from(error: reqwest::Error) -> Self {
        Self::Broken(FailedAttempt::Connection(Box::new(error.without_url())))
    }
}

impl AttemptEnd {
    fn broken(reason: String) -> Self {
        Self::Broken(FailedAttempt::Connection(reason.into()))
    }
}

impl<'a> FileTransfer<'a> {
    /// Opens the `.part` beside the file's place, and makes the folder for it.
    ///
    /// # Errors
    /// Another process has the `.part` now, or has put the file in its place since it was looked for.
    pub(super) fn open(
        client: &'a Client,
        url: Url,
        wanted: &'a WantedFile<'a>,
        token: Option<&'a str>,
    ) -> Result<Self, FetchError> {
        let part = beside(&wanted.path, ".part");
        if let Some(folder) = part.parent() {
            std::fs::create_dir_all(folder).map_err(failed(folder, "cannot make the folder"))?;
        }
        let busy = || FetchError::Busy { path: wanted.path.clone() };
        let file = loop {
            let file = OpenOptions::new().create(true).append(true).open(&part);
            let file = file.map_err(failed(&part, "cannot be written"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy()),
                Err(TryLockError::Error(error)) => return Err(failed(&part, "cannot be locked")(error)),
            }
            // Before the lock was free its owner may have given the file its name, or removed it.
            if is_at(&file, &part).map_err(failed(&part, "cannot be read"))? {
                break file;
            }
        };
        let transfer = Self { client, url, wanted, token, part, file };
        if wanted.path.exists() {
            transfer.leave();
            return Err(busy());
        }
        Ok(transfer)
    }

    /// Makes attempts until the `.part` is complete. Returns the bytes that came.
    pub(super) async fn complete(&self, report: ProgressReport<'_>) -> Result<u64, FetchError> {
        let (mut attempts, mut received) = (0, 0);
        loop {
            let before = received;
            let failure = match self.attempt(&mut received, report).await {
                Ok(()) => return Ok(received),
                Err(AttemptEnd::Final(error)) => return Err(error),
                Err(AttemptEnd::Broken(failure)) => failure,
            };
            attempts = if received > before { 1 } else { attempts + 1 };
            if attempts >= MOST_ATTEMPTS {
                return Err(self.last_failure(failure, attempts));
            }
            tokio::time::sleep(PAUSE * 2u32.pow(attempts - 1)).await;
        }
    }

    fn last_failure(&self, failure: FailedAttempt, attempts: u32) -> FetchError {
        let url = self.address();
        match failure {
            FailedAttempt::Status(status) => FetchError::of_status(url, status),
            FailedAttempt::Connection(source) => {
                FetchError::Transfer { url, bytes: self.length().unwrap_or(0), attempts, source }
            }
        }
    }

    /// Asks for what is missing, once.
    async fn attempt(&self, received: &mut u64, report: ProgressReport<'_>) -> Result<(), AttemptEnd> {
        let mut have = self.length()?;
        let validator = std::fs::read_to_string(self.validator_file()).ok();
        if have > 0 && validator.is_none() && self.wanted.sha256.is_none() {
            self.clear()?;
            have = 0;
        }
        if have > 0 && self.wanted.bytes == Some(have) {
            return Ok(());
        }
        let mut request = self.client.get(self.url.clone()).header(ACCEPT_ENCODING, "identity");
        if let Some(token) = self.token {
            request = request.bearer_auth(token);
        }
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
            if let Some(validator) = &validator {
                request = request.header(IF_RANGE, validator);
            }
        }
        let response = request.send().await.map_err(|error| self.unanswered(error))?;
        let status = response.status();
        match status {
            StatusCode::OK => {
                self.refuse_page(&response)?;
                self.clear()?;
                self.keep_validator(response.headers())?;
                self.receive(response, 0, None, received, report).await
            }
            StatusCode::PARTIAL_CONTENT if have > 0 => match ContentRange::of(response.headers()) {
                Some(range) if range.start == Some(have) => {
                    self.receive(response, have, range.total, received, report).await
                }
                _ => {
                    self.clear()?;
                    Err(AttemptEnd::broken(format!("the server sent another range than from byte {have} on")))
                }
            },
            StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => {
                let total = ContentRange::of(response.headers()).and_then(|range| range.total);
                if total == Some(have) && self.wanted.bytes.is_none_or(|expected| expected == have) {
                    return Ok(());
                }
                self.clear()?;
                Err(AttemptEnd::broken(format!("the server has no bytes from {have} on")))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(AttemptEnd::Broken(FailedAttempt::Status(status)))
            }
            _ if status.is_server_error() => Err(AttemptEnd::Broken(FailedAttempt::Status(status))),
            _ => Err(FetchError::of_status(self.address(), status).into()),
        }
    }

    /// Appends the body to the `.part`, of which `have` bytes are there, of `total` if the answer's range says so.
    async fn receive(
        &self,
        mut response: Response,
        have: u64,
        total: Option<u64>,
        received: &mut u64,
        report: ProgressReport<'_>,
    ) -> Result<(), AttemptEnd> {
        let total = total.or_else(|| response.content_length().map(|rest| have + rest));
        if let (Some(found), Some(expected)) = (total, self.wanted.bytes)
            && found != expected
        {
            self.clear()?;
            return Err(FetchError::Size { url: self.address(), found, expected }.into());
        }
        let total = total.or(self.wanted.bytes);
        if total.is_none() && self.wanted.sha256.is_none() && !is_chunked(response.headers()) {
            return Err(FetchError::UnknownEnd { url: self.address() }.into());
        }
        let mut length = have;
        while let Some(bytes) = response.chunk().await? {
            (&self.file).write_all(&bytes).map_err(failed(&self.part, "cannot be written"))?;
            length += bytes.len() as u64;
            *received += bytes.len() as u64;
            report(FetchProgress { file: self.wanted.name, compared: false, done: length, total });
        }
        match total {
            Some(total) if length < total => {
                Err(AttemptEnd::broken(format!("the body ended after {length} of {total} bytes")))
            }
            Some(expected) if length > expected => {
                self.clear()?;
                Err(FetchError::Size { url: self.address(), found: length, expected }.into())
            }
            _ => Ok(()),
        }
    }

    /// Compares the complete `.part` with the digest, and gives it its name.
    pub(super) fn accept(&self, report: ProgressReport<'_>) -> Result<(), FetchError> {
        self.file.sync_all().map_err(failed(&self.part, "cannot be written"))?;
        if let Some(expected) = self.wanted.sha256 {
            let total = self.length().ok();
            let tell = &mut |done| report(FetchProgress { file: self.wanted.name, compared: true, done, total });
            let found = file_sha256(&self.part, tell).map_err(failed(&self.part, "cannot be read"))?;
            if found != expected {
                self.clear()?;
                let url = self.address();
                return Err(FetchError::Digest { url, found, expected: expected.to_owned() });
            }
        }
        std::fs::rename(&self.part, &self.wanted.path).map_err(failed(&self.wanted.path, "cannot be named"))?;
        self.forget_validator();
        Ok(())
    }

    /// Leaves the `.part` to the next call, unless it is empty.
    pub(super) fn leave(&self) {
        if self.length().is_ok_and(|length| length == 0) {
            self.forget_validator();
            // The next call begins with an empty one as with none.
            drop(std::fs::remove_file(&self.part));
        }
    }

    /// The address as it is printed.
    fn address(&self) -> String {
        shown_address(self.url.as_str())
    }

    /// The end of a request without an answer.
    fn unanswered(&self, error: reqwest::Error) -> AttemptEnd {
        match FetchError::of_request(self.url.as_str(), error) {
            FetchError::Transfer { source, .. } => AttemptEnd::Broken(FailedAttempt::Connection(source)),
            lasting => lasting.into(),
        }
    }

    fn refuse_page(&self, response: &Response) -> Result<(), FetchError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/html") {
            return Err(FetchError::Page { url: self.address(), path: self.wanted.path.clone() });
        }
        Ok(())
    }

    fn length(&self) -> Result<u64, FetchError> {
        Ok(self.file.metadata().map_err(failed(&self.part, "cannot be read"))?.len())
    }

    /// Empties the `.part`.
    fn clear(&self) -> Result<(), FetchError> {
        self.forget_validator();
        self.file.set_len(0).map_err(failed(&self.part, "cannot be written"))
    }

    /// The file with the entity tag or the date of the `.part`.
    fn validator_file(&self) -> PathBuf {
        beside(&self.part, ".validator")
    }

    /// Keeps the answer's strong entity tag, else its date.
    fn keep_validator(&self, headers: &HeaderMap) -> Result<(), FetchError> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(validator) = text(ETAG).filter(|tag| !tag.starts_with("W/")).or_else(|| text(LAST_MODIFIED)) else {
            return Ok(());
        };
        let path = self.validator_file();
        std::fs::write(&path, validator).map_err(failed(&path, "cannot be written"))
    }

    fn forget_validator(&self) {
        // It may not be there.
        drop(std::fs::remove_file(self.validator_file()));
    }
}

/// Whether the body has an end of its own, and not that of the connection alone.
fn is_chunked(headers: &HeaderMap) -> bool {
    let encoding = headers.get(TRANSFER_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    encoding.to_ascii_lowercase().ends_with("chunked")
}

/// Whether the open file is the one at this path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// `bytes START-END/TOTAL`, or `bytes */TOTAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentRange {
    start: Option<u64>,
    total: Option<u64>,
}

impl ContentRange {
    fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(CONTENT_RANGE)?.to_str().ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let start = range.split_once('-').and_then(|(start, _)| start.parse().ok());
        Some(Self { start, total: total.parse().ok() })
    }
}

fn failed(path: &Path, operation: &'static str) -> impl Fn(io::Error) -> FetchError {
    let path = path.to_owned();
    move |source| FetchError::Io { path: path.clone(), operation, source }
}

/// The path with `ending` behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_another_at_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.part");
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path).unwrap());
        std::fs::rename(&path, dir.path().join("file")).unwrap();
        assert!(!is_at(&file, &path).unwrap());
        File::create(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
    }

    #[test]
    fn a_body_of_chunks_has_an_end() {
        let headers = |value: &str| HeaderMap::from_iter([(TRANSFER_ENCODING, value.parse().unwrap())]);
        assert!(is_chunked(&headers("Chunked")) && is_chunked(&headers("gzip, chunked")));
        assert!(!is_chunked(&headers("identity")) && !is_chunked(&HeaderMap::new()));
    }

    #[test]
    fn ranges_are_read() {
        let range = |start, total| Some(ContentRange { start, total });
        assert_eq!(ContentRange::parse("bytes 5-9/10"), range(Some(5), Some(10)));
        assert_eq!(ContentRange::parse("bytes 5-9/*"), range(Some(5), None));
        assert_eq!(ContentRange::parse("bytes */10"), range(None, Some(10)));
        assert_eq!(ContentRange::parse("5-9"), None);
    }
}
