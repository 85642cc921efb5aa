//! The table `passages`: the passages that a finished run names.

use super::row::row;

row! {
    table "passages" at "runs/RUN/final/passages.parquet" with 4096 rows in a group;
    /// The passages named by the outcomes and the gold of a run, sorted by number. With them, a finished run is shown,
    /// exported and scored again without its corpus.
    pub struct PassageRow {
        /// Its number in the corpus.
        pub passage: u32,
        /// Its id in the corpus: the source's, or else its number.
        pub id: String,
        /// Its title; empty if the source has none.
        pub title: String,
        /// Its text; null unless a measure of the run reads the texts of ranked passages.
        pub text: Option<String>,
    }
}
