//! The table `scores`: each measure of each question under each configuration.
//!
//! It is the longest table, and its texts repeat: rows share them.

use super::row::row;
use std::sync::Arc;

row! {
    table "scores" at "runs/RUN/final/scores.parquet" with 65536 rows in a group;
    /// Each measure of each question under each configuration, sorted by configuration (in the job's order), question
    /// (in the dataset's) and measure.
    pub struct ScoreRow {
        /// The configuration's name.
        pub configuration: Arc<str>,
        /// The question's position in the dataset, from 0.
        pub index: u64,
        /// The question's id.
        pub question: Arc<str>,
        /// The measure's name.
        pub measure: Arc<str>,
        /// The name of the job's profile and the measure's own version, with a space between them.
        pub version: Arc<str>,
        /// Digest of the gold used for the outcome.
        pub gold_digest: Arc<str>,
        /// The value; null where the measure is undefined for the question. A failed outcome scores 0 in headline
        /// measures.
        pub value: Option<f64>,
    }
}
