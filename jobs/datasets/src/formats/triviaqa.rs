//! TriviaQA (Joshi et al., ACL 2017), open: read as described in `open.rs`.
//!
//! Distinguished from Natural Questions by its ids, by its answers, or by the file's name.

use super::{FormatEntry, open};
use crate::gold::GoldMatch;
use crate::scoring::ScoringScript;
use crate::value::JsonValue;

const NAME: &str = "triviaqa";

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::TriviaQa,
    asked: 70,
    recognises: |row, path| open::is_row(row) && (has_marks(row) || open::is_named_trivia(path)),
    read: |row, n| Ok(vec![open::read_question(row, NAME, n)?]),
    read_table: Some(|row, n| open::table_question(row, NAME, n)),
};

/// Whether a row of open questions is in TriviaQA's own schema, or has an id that names TriviaQA.
fn has_marks(row: &JsonValue<'_>) -> bool {
    row.has("QuestionId")
        || row.get("answer").is_some_and(|answer| answer.has("value"))
        || row.get("id").and_then(|id| id.str().ok()).is_some_and(|id| id.contains("trivia"))
}
