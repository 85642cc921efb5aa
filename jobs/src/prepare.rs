//! Everything that is built once before a run: worlds, corpora, the table of questions.

pub mod corpora;
pub mod draw;
pub mod questions;
pub mod worlds;
