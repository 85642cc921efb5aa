//! The job file: what is evaluated, on what, by which methods.
//!
//! A job is TOML; unknown keys are errors that list what is allowed. Paths resolve against the file, those of `--set`
//! against the working directory. Precedence: `--set`, then the file, then the defaults; environment variables name
//! places and secrets only, never anything that can change a number.
//!
//! The run's record stores the same names as JSON, and the definition of a service is in its fingerprint. So a new setting
//! of a service has a default that is not written, or all answers of that kind are computed again:
//! `tests/golden/services.txt`.
//!
//! | file | does |
//! | --- | --- |
//! | [`mod@file`] | the tables of a job and their defaults |
//! | [`paths`], [`world`], [`sample`], [`tune`], [`infill`] | tables that several others hold |
//! | `parse` | reads the file and applies the overrides of `overrides` |
//! | `check`, `preflight` | refuse values, and methods and services that do not fit, before anything is built |
//! | [`sweep`] | the configurations of a job's sweeps |
//! | [`scoring`] | the profile by which a dataset's answers are scored |
//! | [`references`] | values that the store or a sample will fill in |
//! | `sampled` | the job of a search: the same over the tune sample |

mod check;
pub mod file;
pub mod infill;
mod overrides;
mod parse;
pub mod paths;
mod preflight;
pub mod references;
pub mod sample;
mod sampled;
pub mod scoring;
pub mod sweep;
pub mod tune;
pub mod world;

pub use file::{Corpus, Dataset, Job, MethodEntry, RunSettings};
pub use hopeval_datasets::GoldBy;
pub use paths::{CONTEXTS, OneOrMany};
