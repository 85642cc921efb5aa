//! The job file: datasets, corpora, services and methods of an evaluation.
//!
//! A job is TOML; an error for an unknown key lists the allowed keys. Paths resolve against the file, those of `--set`
//! against the working directory. Precedence: `--set`, then the file, then the defaults. Environment variables name
//! only places and secrets; they never change a number.
//!
//! The run's record stores the same names as JSON, and the definition of a service is part of its fingerprint. So the
//! default of a new service setting must not be written, or all answers of that kind are computed again
//! (`tests/golden/services.txt`).
//!
//! | file | does |
//! | --- | --- |
//! | [`mod@file`] | the tables of a job and their defaults |
//! | [`paths`], [`world`], [`sample`], [`tune`], [`infill`], [`race`] | tables inside other tables |
//! | `parse` | reads the file and applies the overrides of `overrides` |
//! | `parameter_files` | reads the values of parameters that stand in files |
//! | [`rankings`] | names of parameters for outcomes of other systems |
//! | `check`, `preflight` | refuse bad values, methods and services before anything is built |
//! | `single_mode` | refuses races and searches over several context modes |
//! | [`sweep`], [`sweep_draw`], [`sweep_conditions`] | the configurations of a job's sweeps; drawn, conditional |
//! | [`sweep_race`], [`race_record`] | sweeps that stop weak points early; the stored decisions of races |
//! | `service_sweep` | services with several values of a key: one service for each |
//! | `named_services` | leaves out services that no method names |
//! | [`scoring`] | the profile for scoring a dataset's answers |
//! | [`references`] | values to be filled in from the store or a sample |
//! | `search_job` | the job of a search: the same job over the tune sample; its candidates |
//! | [`judging_job`] | the job of judges: over the outcomes of a run |

pub(crate) mod check;
pub mod file;
pub mod infill;
pub mod judging_job;
pub mod missing_gold;
pub(crate) mod named_services;
mod overrides;
mod parameter_files;
mod parse;
pub mod paths;
mod preflight;
pub mod race;
pub mod race_record;
pub mod rankings;
pub mod references;
pub mod sample;
pub mod scoring;
mod search_job;
mod service_sweep;
pub(crate) mod single_mode;
pub mod sweep;
pub mod sweep_conditions;
pub mod sweep_draw;
pub mod sweep_race;
pub mod tune;
pub mod world;

pub use file::{CorpusEntry, DatasetEntry, Job, MethodEntry, RunSettings};
pub use hopeval_datasets::GoldMatch;
pub use paths::{CONTEXTS, OneOrMany};
