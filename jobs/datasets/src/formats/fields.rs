//! Rows of one's own: a job's table `fields` maps hopeval's fields to the names in the file (`mapping.rs`).
//!
//! Without such a table the file has hopeval's own names. Rows are JSON, Parquet, or lines of a table whose first line
//! names the columns. The format is never recognised from a row: it is named, or meant by the table.

use super::FormatEntry;
use crate::gold::GoldMatch;
use crate::mapping::MappedQuestions;
use crate::scoring::ScoringScript;

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::Squad,
    asked: 1000,
    recognises: |_, _| false,
    read: |row, n| Ok(vec![MappedQuestions::new(None).read_question(row, n)?]),
    read_table: None,
};
