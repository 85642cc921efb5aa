//! The table `errors`: input that was set aside.

use super::row::row;

row! {
    table "errors" at "runs/RUN/final/errors.parquet" with 4096 rows in a group;
    /// Rows of the input that were set aside, and why.
    pub struct ErrorRow {
        /// Where it came up: `dataset`, `corpus` or another stage.
        pub stage: String,
        /// The file.
        pub file: String,
        /// The line in it, from 1; null where the file has no lines.
        pub line: Option<u64>,
        /// The field; null where it is the whole row.
        pub field: Option<String>,
        /// What is wrong, and what is allowed.
        pub message: String,
    }
}
