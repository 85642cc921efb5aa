//! The table `runs`: one row about the run.

use super::row::row;

row! {
    table "runs" at "runs/RUN/final/runs.parquet" with 1024 rows in a group;
    /// The run: its job, settings, inputs and counts. One row.
    pub struct RunRow {
        /// The run's id. Ids sort by time of creation.
        pub run: String,
        /// The job's name.
        pub job: String,
        /// Digest of everything that determines the outcomes.
        pub job_digest: String,
        /// The resolved settings, as JSON.
        pub settings: String,
        /// Version of the program that finished the run.
        pub program_version: String,
        /// When the run was made, in milliseconds since 1970 (UTC).
        pub created_ms: u64,
        /// When its tables were written, in milliseconds since 1970 (UTC).
        pub finished_ms: u64,
        /// How often the mesh was started.
        pub generations: u64,
        /// Workers of the last generation.
        pub workers: u32,
        /// Processes of the last generation.
        pub processes: u32,
        /// The dataset's format.
        pub dataset: String,
        /// Digest of the evaluated questions.
        pub dataset_digest: String,
        /// The corpus; null where the job has none.
        pub corpus: Option<String>,
        /// Digest of the corpus; null where the job has none.
        pub corpus_digest: Option<String>,
        /// Passages in the corpus; null where the job has none.
        pub passages: Option<u64>,
        /// Questions admitted, after limit and quarantine.
        pub questions: u64,
        /// Rows of the dataset set aside as bad.
        pub quarantined: u64,
        /// Configurations.
        pub configurations: u32,
        /// Outcomes: questions times configurations.
        pub outcomes: u64,
        /// Outcomes with another status than `ok`.
        pub failed: u64,
        /// Questions of a cohort.
        pub chunk_size: u64,
        /// The last edit of gold included in the tables; 0 if there was no edit.
        pub gold_edit: u64,
    }
}
