//! Natural Questions (Kwiatkowski et al., TACL 2019), open: read as described in `open.rs`.
//!
//! Recognised by the lack of TriviaQA's distinctive fields.

use super::{FormatEntry, open};
use crate::gold::GoldMatch;
use crate::scoring::ScoringScript;

const NAME: &str = "nq";

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::Squad,
    asked: 80,
    recognises: |row, _| open::is_row(row),
    read: |row, n| Ok(vec![open::read_question(row, NAME, n)?]),
    read_table: Some(|row, n| open::table_question(row, NAME, n)),
};
