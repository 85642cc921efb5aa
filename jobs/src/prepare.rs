//! Everything built once before a run: worlds, corpora, the table of questions; and the opening of a job.

pub mod brought;
pub mod corpora;
pub(crate) mod draw;
mod gold;
pub mod opening;
mod quarantine;
pub(crate) mod question_filter;
pub(crate) mod question_ids;
pub mod questions;
pub mod rankings;
pub mod worlds;
