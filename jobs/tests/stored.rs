//! Pins all that jobs store and all that keys are made of: keys, fingerprints, digests, records, the run's record.
//!
//! The golden files are in `tests/golden`; `tests/support/golden.rs` says what it means to bless them. Models run as
//! `cpu-avx2`, whose numerics class every host has, so that fingerprints are the same on all.

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
