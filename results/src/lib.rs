//! Where a run's results live: the store, the journal, the commit log, the run record and the tables.
//!
//! ```text
//!   Store ----- a local folder, an S3-compatible bucket, or memory: get, put, put if absent, list
//!     |-- journal/   answered requests, shared by all runs: immutable segments, keys by bucket
//!     `-- runs/RUN/  run.json, log/ (numbered commits and fences), outcomes/ (parts), tables/ and final/ (copies for people)
//! ```
//!
//! The crate knows arrow, parquet and object_store. It must not depend on timely, on datasets, corpora, indexes or
//! methods: what it stores are keys, bytes and rows. Its face is blocking, for plain threads; the small asynchronous
//! runtime that talks to the storage lives inside [`Store`]. Nothing here panics on I/O or on what a file holds.

pub mod conformance;
pub mod journal;
pub mod layout;
pub mod log;
mod parallel;
pub mod run;
pub mod store;
pub mod tables;

pub use journal::{Entry, Journal, JournalError, Key, Location, Segment};
pub use log::{Log, LogError};
pub use run::{RunError, RunRecord};
pub use store::{Store, StoreError};
pub use tables::TableError;
