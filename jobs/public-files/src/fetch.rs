//! Fetches files of the list into a data folder.
//!
//! ```text
//!   there?   yes: compared with the list, never overwritten
//!            no:  address after address --transfer--> FILE.part --size, SHA-256--> FILE
//! ```
//!
//! A transfer that breaks goes on where it broke, also in another process: the `.part` stays. A file has its name only
//! once its bytes are those of the list, as far as the list knows them.

mod client;
mod progress;
mod transfer;
mod wanted;

pub use progress::FetchProgress;

use crate::address::shown_address;
use crate::error::FetchError;
use crate::files::{PublicFile, PublicFiles};
use crate::hub::{HubFile, HubRepository};
use crate::verify::verify_file;
use client::HttpClients;
use progress::ProgressReport;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;
use transfer::FileTransfer;
use wanted::WantedFile;

/// A file that is in its place now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FetchedFile {
    /// The entry's name.
    pub name: String,
    /// Its place.
    pub path: PathBuf,
    /// Whether it was there before.
    pub was_there: bool,
    /// Bytes that came in this call; 0 if it was there.
    pub bytes: u64,
    /// Whether its digest is known and fits. Files of unknown digests are taken as the server gave them.
    pub is_verified: bool,
    /// The command that still unpacks it from its archive, which is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpack: Option<String>,
}

/// Fetches into a data folder.
pub struct FileFetcher {
    folder: PathBuf,
    clients: HttpClients,
    runtime: Runtime,
}

impl FileFetcher {
    /// A fetcher into `folder`. It honours `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, but not for this machine itself.
    ///
    /// # Errors
    /// No HTTP client can be made here.
    pub fn new(folder: &Path) -> Result<Self, FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| FetchError::Runtime { source })?;
        Ok(Self { folder: folder.to_owned(), clients: HttpClients::build()?, runtime })
    }

    /// Fetches the entry `name` of `list`, and its archive if it comes in one.
    ///
    /// # Errors
    /// Another file is in its place; no address gives it; the bytes are not the list's; a local file cannot be written.
    pub fn fetch(
        &self,
        list: &PublicFiles,
        name: &str,
        file: &PublicFile,
        report: ProgressReport<'_>,
    ) -> Result<FetchedFile, FetchError> {
        let path = file.place(&self.folder);
        if path.exists() && file.repository.is_none() {
            return self.compare_there(list, name, file, report);
        }
        if let Some(repository) = &file.repository {
            return self.fetch_model(name, file, repository, report);
        }
        let archive = file.archive.as_deref().and_then(|archive| Some((archive, list.get(archive)?)));
        match (self.fetch_from(name, file, report), archive) {
            (Some(Ok(fetched)), _) => Ok(fetched),
            (Some(Err(error)), None) => Err(error),
            // A mirror that failed is no loss: the archive has the file.
            (_, Some((archive, entry))) => {
                let fetched = self.fetch(list, archive, entry, report)?;
                Ok(FetchedFile { name: name.to_owned(), path, unpack: file.unpack.clone(), ..fetched })
            }
            (None, None) => unreachable!("an entry has an origin, as the list is checked: this is a bug"),
        }
    }

    /// The file that is there, if it is the list's.
    fn compare_there(
        &self,
        list: &PublicFiles,
        name: &str,
        file: &PublicFile,
        report: ProgressReport<'_>,
    ) -> Result<FetchedFile, FetchError> {
        let tell = &mut |done| report(FetchProgress { file: name, compared: true, done, total: file.bytes });
        let finding = verify_file(&self.folder, list, name, file, tell);
        let path = file.place(&self.folder);
        if !finding.is_good() {
            return Err(FetchError::Taken { path, finding: finding.to_string() });
        }
        let is_verified = file.sha256.is_some();
        Ok(FetchedFile { name: name.to_owned(), path, was_there: true, bytes: 0, is_verified, unpack: None })
    }

    /// The file from the first address that gives it; `None` if it has no address.
    fn fetch_from(
        &self,
        name: &str,
        file: &PublicFile,
        report: ProgressReport<'_>,
    ) -> Option<Result<FetchedFile, FetchError>> {
        let wanted =
            WantedFile { name, path: file.place(&self.folder), bytes: file.bytes, sha256: file.sha256.as_deref() };
        let mut failures = Vec::new();
        for url in &file.from {
            match self.fetch_file(&wanted, url, None, report) {
                Ok(bytes) => return Some(Ok(fetched_file(&wanted, bytes))),
                // Of this machine, not of the address.
                Err(error @ (FetchError::Io { .. } | FetchError::Busy { .. })) => return Some(Err(error)),
                Err(error) => failures.push(error),
            }
        }
        let last = failures.pop()?;
        if failures.is_empty() {
            return Some(Err(last));
        }
        let may_pass = last.may_pass() || failures.iter().any(FetchError::may_pass);
        let others = failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let (name, addresses) = (name.to_owned(), file.from.len());
        Some(Err(FetchError::Everywhere { name, addresses, others, may_pass, last: Box::new(last) }))
    }

    /// The files of a model's repository that hopeval reads, one after the other. Those that are there are compared.
    fn fetch_model(
        &self,
        name: &str,
        file: &PublicFile,
        repository: &str,
        report: ProgressReport<'_>,
    ) -> Result<FetchedFile, FetchError> {
        let folder = file.place(&self.folder);
        let hub = HubRepository::of_environment(repository)?;
        let client = self.clients.for_address(hub.address());
        let files = self.runtime.block_on(hub.list_files(client))?;
        let (mut bytes, mut fetched_any) = (0, false);
        for HubFile { name, url, size, sha256 } in &files {
            let wanted = WantedFile { name, path: folder.join(name), bytes: *size, sha256: sha256.as_deref() };
            if wanted.is_there(report)? {
                continue;
            }
            bytes += self.fetch_file(&wanted, url, hub.token(), report)?;
            fetched_any = true;
        }
        let (name, was_there) = (name.to_owned(), !fetched_any);
        Ok(FetchedFile { name, path: folder, was_there, bytes, is_verified: false, unpack: None })
    }

    /// Fetches one file from one address, and returns the bytes that came.
    fn fetch_file(
        &self,
        wanted: &WantedFile<'_>,
        url: &str,
        token: Option<&str>,
        report: ProgressReport<'_>,
    ) -> Result<u64, FetchError> {
        let address = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let address =
            address.ok_or_else(|| FetchError::Address { name: wanted.name.to_owned(), url: shown_address(url) })?;
        let client = self.clients.for_address(&address);
        let transfer = FileTransfer::open(client, address, wanted, token)?;
        let completed = self.runtime.block_on(transfer.complete(report));
        let accepted = completed.and_then(|bytes| transfer.accept(report).map(|()| bytes));
        if accepted.is_err() {
            transfer.leave();
        }
        accepted
    }
}

fn fetched_file(wanted: &WantedFile<'_>, bytes: u64) -> FetchedFile {
    let (name, path, is_verified) = (wanted.name.to_owned(), wanted.path.clone(), wanted.sha256.is_some());
    FetchedFile { name, path, was_there: false, bytes, is_verified, unpack: None }
}
