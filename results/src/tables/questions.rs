//! The table `questions`: the evaluated questions with gold. Written once per run; workers read it as a stream.
//!
//! Edits of gold hold such rows as JSON under the columns' names; `tests/golden/question.txt` has an example.

use super::row::row;
use super::{TableError, TableReader};
use crate::check::{FileCheck, FileRemedy};
use crate::layout;
use crate::store::Store;

row! {
    table "questions" at "runs/RUN/questions.parquet" with 1024 rows in a group;
    /// The evaluated questions in the dataset's order, with gold.
    pub struct QuestionRow {
        /// Position in the dataset, from 0.
        pub index: u64,
        /// The dataset's id.
        pub id: String,
        /// The question.
        pub text: String,
        /// The dataset's type of question; null where it gives none.
        pub kind: Option<String>,
        /// Hops, as the dataset counts them; null where it does not.
        pub hops: Option<u32>,
        /// Groups of the question in the table `measures`.
        pub strata: Vec<(String, String)>,
        /// Gold answers, the main one first.
        pub answers: Vec<String>,
        /// Gold passages as numbers in the corpus; each inner list holds equally good passages.
        pub gold: Vec<Vec<u32>>,
        /// Given candidates as numbers in the corpus.
        pub candidates: Vec<u32>,
        /// Digest of all gold of the question.
        pub gold_digest: String,
        /// Everything else the dataset says about the question, as JSON; with what files of rankings have of it.
        pub record: String,
    }
}

/// The questions of `run` from position `from` on, read a row group at a time. `check` is in the run's record.
///
/// # Errors
/// An absent, foreign or corrupt table, or an error of the store.
pub fn stream_questions(
    store: &Store,
    run: &str,
    check: Option<&FileCheck>,
    from: u64,
) -> Result<impl Iterator<Item = Result<QuestionRow, TableError>> + Send + use<>, TableError> {
    let reader =
        TableReader::<QuestionRow>::open_checked(store, &layout::questions_table(run), check, FileRemedy::Restore)?;
    let first = reader.groups_where("index", from, u64::MAX).first().copied().unwrap_or(reader.row_groups());
    Ok(reader.rows_from(first).skip_while(move |row| row.as_ref().is_ok_and(|row| row.index < from)))
}
