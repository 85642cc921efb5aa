//! Public datasets and models: their list, the comparison of a folder with it, and their download.
//!
//! ```text
//!   data.toml --> PublicFiles --+--> verify_folder: a finding for each file (missing, size, digest, counts)
//!                               +--> FileFetcher:   address --> FILE.part --digest--> FILE
//! ```
//!
//! Forbidden here: jobs, methods, dataflow, storage, tables. The list says nothing about jobs, and jobs find their
//! files without it. Nothing is printed.

mod address;
mod checksum;
mod error;
mod fetch;
mod files;
mod hub;
mod verify;

pub use checksum::file_sha256;
pub use error::{FetchError, PublicFilesError};
pub use fetch::{FetchProgress, FetchedFile, FileFetcher};
pub use files::{PublicFile, PublicFiles};
pub use verify::{FileFinding, VerifiedFile, verify_folder};
