//! The table `errors`: rows of the input set aside as bad.

use super::row::row;

row! {
    table "errors" at "runs/RUN/final/errors.parquet" with 4096 rows in a group;
    /// Rows of the input set aside, and the reasons.
    pub struct ErrorRow {
        /// Origin of the row: `dataset`, `corpus` or another stage.
        pub stage: String,
        /// The file.
        pub file: String,
        /// The line in it, from 1; null where the file has no lines.
        pub line: Option<u64>,
        /// The field; null where it is the whole row.
        pub field: Option<String>,
        /// The mistake, and the allowed values.
        pub message: String,
    }
}
