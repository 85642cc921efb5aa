//! Jobs: from a TOML file to a dataflow, and from its outcomes to tables.
//!
//! This crate is where the worlds meet, each pair in exactly one file:
//!
//! | file | knows |
//! | --- | --- |
//! | [`job`], [`sweep`] | the job file: settings, overrides, configurations |
//! | [`tune`], [`choices`], [`draw`] | searches on questions that are not evaluated, and what methods take from them |
//! | [`worlds`], [`corpora`], [`questions`] | datasets and corpora: what is built once before a run |
//! | [`services`] | methods' requests and what answers them: indexes, models, the corpus |
//! | [`host`] | methods' machines and the dataflow that drives them |
//! | [`journal`], [`recall`], [`record`], [`sink`], [`ledger`] | the dataflow and the store: records, outcomes, commits |
//! | [`gold`], [`corrections`] | edits of gold, of finished runs and of those going on |
//! | [`judge`] | outcomes and measures |
//! | [`render`] | a job, as a dataflow on one worker |
//! | [`run`], [`drain`] | the life of a run: prepare, open, finish; its early end |
//! | [`tables`], [`publish`] | final tables, and where people find them; [`show`], [`replicates`], [`compare`], [`export`], [`plan`], [`failures`], [`accounting`]: what people ask of them |

pub mod accounting;
pub mod calibrate;
pub mod choices;
pub mod compare;
pub mod corpora;
pub mod corrections;
pub mod drain;
pub mod draw;
pub mod export;
pub mod failures;
pub mod gold;
pub mod host;
pub mod job;
pub mod journal;
pub mod judge;
pub mod ledger;
pub mod plan;
pub mod publish;
pub mod questions;
pub mod recall;
pub mod record;
pub mod render;
pub mod replicates;
pub mod run;
pub mod scoring;
pub mod services;
pub mod show;
pub mod sink;
pub mod sweep;
pub mod tables;
pub mod tune;
pub mod worlds;

mod early;
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
