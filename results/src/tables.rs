//! The tables of a run, as Parquet.
//!
//! One file here is one table: its row as a Rust struct. The doc comments are the columns' descriptions in the files'
//! metadata and in the documentation ([`schema_markdown`]). Every file names its table and [`SCHEMA_VERSION`].
//! Writing the same rows gives the same bytes: fixed row groups, fixed settings, no time, no host.

mod cell;
pub mod configurations;
pub mod costs;
mod documentation;
mod error;
pub mod errors;
pub mod latencies;
pub mod measures;
pub mod outcomes;
pub mod passages;
pub mod questions;
mod reader;
pub mod requests;
mod row;
pub mod runs;
pub mod scores;
pub mod traces;
mod writer;

pub use configurations::ConfigurationRow;
pub use costs::CostRow;
pub use documentation::schema_markdown;
pub use error::TableError;
pub use errors::ErrorRow;
pub use latencies::LatencyRow;
pub use measures::MeasureRow;
pub use outcomes::{CallRow, FinalOutcomeRow, MeasuredCallRow, OutcomeRow, OutcomeTrace, Timing};
pub use passages::PassageRow;
pub use questions::QuestionRow;
pub use reader::{TableReader, read_final, read_table};
pub use requests::RequestRow;
pub use row::{Row, TableInfo};
pub use runs::RunRow;
pub use scores::ScoreRow;
pub use traces::{NamedSentenceRow, NoteRow, StepCallRow, TraceRow};
pub use writer::{TableWriter, write_table};

/// Version of all tables' schemas. It rises when a column changes its meaning, type or name, when a column is removed,
/// and when a column without nulls is added.
pub const SCHEMA_VERSION: u32 = 1;
