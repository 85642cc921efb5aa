//! Jobs: from a TOML file to a dataflow, and from its outcomes to tables.
//!
//! This crate is where the worlds meet; ARCHITECTURE says which files know which two:
//!
//! | wing | does |
//! | --- | --- |
//! | [`job`] | the job file: settings, overrides, checks, configurations |
//! | [`prepare`] | datasets, corpora and worlds: everything that is built once before a run |
//! | [`choices`] | values that methods take from searches and samples made before |
//! | [`services`] | methods' requests, and the indexes, models and look-ups that answer them |
//! | [`run`] | the life of a run: made, opened, rendered as a dataflow, committed, corrected |
//! | [`report`] | final tables, plans, exports, comparisons: all that people ask of a run |
//! | [`tune`] | searches on questions that are not evaluated |

pub mod bad_value;
pub mod cache;
pub mod choices;
pub mod clock;
pub mod fault;
pub mod job;
pub mod mode;
pub mod places;
pub mod prepare;
pub mod report;
pub mod run;
pub mod services;
pub mod tune;
pub mod waker;

mod error;

pub use error::JobError;
pub use job::Job;

/// BLAKE3 of some texts, kept apart.
pub fn digest_of(parts: &[&str]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The job that is run when none is named: the comparison of methods on a generated world.
pub const DEFAULT_JOB: &str = include_str!("../examples/world-comparison.toml");
