//! Pins all stored forms of jobs and all parts of keys: keys, fingerprints, digests, records, the run's record.
//!
//! The golden files are in `tests/golden`; `tests/support/golden.rs` explains blessing them. Models run as `cpu-avx2`:
//! every host has this numerics class, so fingerprints are the same on all hosts.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "../../tests/support/golden.rs"]
mod golden;

mod stored {
    mod choices;
    mod commits;
    mod keys;
    mod questions;
    mod records;
    mod runs;
    mod services;
    mod tiny;
}
