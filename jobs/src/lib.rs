//! Jobs: from a TOML file to a dataflow, and from its outcomes to tables.
//!
//! This crate joins the other crates. ARCHITECTURE lists the files that join two of them:
//!
//! | module | does |
//! | --- | --- |
//! | [`job`] | the job file: settings, overrides, checks, configurations |
//! | [`prepare`] | datasets, corpora and worlds: everything built once before a run |
//! | [`choices`] | values of parameters from earlier searches and samples |
//! | [`services`] | methods' requests, and the indexes, models and look-ups for answering them |
//! | [`run`] | the life of a run: made, opened, rendered as a dataflow, committed, corrected |
//! | [`report`] | final tables, plans, exports, comparisons: all reports about a run |
//! | [`tune`] | searches on questions outside the evaluation |

pub mod bad_value;
pub mod cache;
pub mod choices;
pub mod clock;
pub mod fault;
pub mod job;
pub mod mode;
pub mod places;
pub mod prepare;
pub mod race;
pub mod report;
pub mod run;
pub mod services;
pub mod spending;
pub mod tune;
pub mod waker;
pub mod write_backlog;

mod error;
mod thread_start;

pub use error::JobError;
pub use job::Job;

/// BLAKE3 of several texts, each with its length.
pub fn digest_of(parts: &[&str]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The default job: the comparison of methods on a generated world.
pub const DEFAULT_JOB: &str = include_str!("../examples/world-comparison.toml");
