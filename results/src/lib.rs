//! The home of a run's results: the store, the journal, the commit log, the run record and the tables.
//!
//! ```text
//!   Store ----- a local folder, an S3-compatible bucket, or memory: get, put, put if absent, list
//!     |-- journal/   answered requests, shared by all runs: immutable segments, keys by bucket
//!     `-- runs/RUN/  run.json, log/ (numbered commits and fences), outcomes/ (parts), tables/,
//!                    final/ (for people)
//! ```
//!
//! The crate knows arrow, parquet and object_store. It must not depend on timely, on datasets, corpora, indexes or
//! methods: it stores keys, bytes and rows. Its interface blocks, for plain threads; a small asynchronous runtime
//! inside [`Store`] talks to the storage. Neither I/O nor the content of a file makes this crate panic.

pub mod check;
pub mod conformance;
pub mod journal;
pub mod layout;
pub mod log;
pub mod note;
pub mod parallel;
pub mod removal;
pub mod run;
pub mod seal;
pub mod store;
pub mod tables;
pub mod verify;

pub use check::{FileCheck, FileRemedy};
pub use journal::{AnswerLocation, Journal, JournalEntry, JournalError, JournalKey, Segment};
pub use log::{Log, LogError};
pub use note::{NoteError, RunNote};
pub use run::{RunError, RunRecord};
pub use store::{DEFAULT_PATIENCE, Store, StoreError, store_error};
pub use tables::TableError;
