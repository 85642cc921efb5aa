//! Reports on runs: final tables, live figures, plans, costs, comparisons, published figures, exports.

pub mod accounting;
pub mod agreement;
pub mod calibrate;
pub mod compare;
pub mod compare_runs;
pub mod costs;
pub mod export;
pub mod failures;
pub mod measure_means;
mod measure_versions;
mod named_passages;
pub mod paid;
pub mod plan;
pub mod price_gap;
pub mod probe;
pub mod publish;
pub mod question_list;
pub mod replicates;
pub mod reproduce;
pub mod requests;
pub mod scoring;
pub mod show;
pub mod tables;
