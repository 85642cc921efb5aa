//! Readers of questions and passages: every dataset becomes one question model, every corpus source one passage record.
//! Readers of what other systems made of them: rankings and vectors.
//!
//! ```text
//!  file -> input (gzip, zstd, bzip2) -> records (array, lines, …) -> rows -> value -> formats::* -> Question
//!   \-> parquet_file (pages, Arrow batches) ------------------------/         \-> passages::* -> PassageRecord
//! ```
//!
//! Everything streams. Memory does not grow with a file, except for a set of the seen ids (to refuse duplicates), for
//! BEIR's judgements and for the places of rankings. Nothing here knows a method, a measure, an index or a dataflow.
//! Nothing prints.
//!
//! * [`Questions`] reads a dataset's questions, [`Passages`] a corpus's passages. [`check_dataset`] reports a file's
//!   content. [`RankingsFile`] reads what another system found for the questions, [`VectorFile`] what an encoder made
//!   of texts.
//! * A wrong row is a [`RowError`] with file, line, record, field and the allowed values. [`RowPolicy`] decides whether
//!   it stops the reading or is set aside.

mod check;
mod columns;
mod dataset_error;
mod error;
mod format;
mod formats;
mod gold;
pub mod input;
mod literal;
mod mapping;
mod parquet_file;
mod passage;
mod passages;
mod question;
mod questions;
mod rankings;
pub mod records;
mod rows;
mod scoring;
mod table;
mod value;
mod vectors;

pub use check::{CheckReport, CountSpread, check_dataset};
pub use dataset_error::DatasetError;
pub use error::{RecordPosition, RowError};
pub use format::{FormatError, detect_format};
pub use formats::Format;
pub use formats::beir::read_judged_questions;
pub use formats::musique::musique_official_id;
pub use gold::GoldMatch;
pub use mapping::{
    FieldMapping, FieldPath, GuessedPassages, GuessedQuestions, PassageMapping, guess_passages, guess_questions,
};
pub use parquet_file::catches_panics;
pub use passage::{LinkRecord, PassageRecord};
pub use passages::{PassageFormat, PassageFormatError, PassageSpec, Passages, detect_passages};
pub use question::{GoldPassage, Question, SubQuestion};
pub use questions::{DatasetSpec, QuarantinedRow, Questions, RowPolicy};
pub use rankings::{
    RankedName, RankingsFacts, RankingsFile, RankingsFormat, RankingsRow, RowCost, UnknownRankingsFormat,
};
pub use scoring::ScoringScript;
pub use vectors::{NameFile, VectorError, VectorFile, VectorRow, VectorSpec};
