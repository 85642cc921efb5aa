//! Counts of the rows made of a dataset or of a run's annotations, and of the questions without rows.

use crate::rows::QuestionRows;
use crate::skip::SkipReason;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Counts of one construction. `questions` counts every question read; `skipped` and `cut_short` count the questions
/// with no rows or with fewer, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConstructReport {
    /// Questions read.
    pub questions: u64,
    /// Questions without a row, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Questions without rows for later hops, by reason.
    pub cut_short: BTreeMap<&'static str, u64>,
    /// Rows, by table.
    pub rows: BTreeMap<&'static str, u64>,
    /// Labeler rows, by tag.
    pub tags: BTreeMap<&'static str, u64>,
    /// Words of gold chunks.
    pub gold_words: u64,
    /// Kept words of gold chunks.
    pub kept_words: u64,
    /// Labeler rows of gold chunks without a kept word: the last hop's answer is not in the text (yes, no, a
    /// comparison's winner).
    pub gold_without_span: u64,
    /// Labeler rows of other chunks that contain the hop's answer all the same; `None` if not checked.
    pub negatives_with_answer: Option<u64>,
    /// Hops with nothing but gold found.
    pub hops_without_negative: u64,
    /// Random negatives requested and not found: in a small corpus almost every passage is gold or found already.
    /// `None` if none were requested.
    pub random_negatives_missing: Option<u64>,
    /// Next queries without a content word of the question.
    pub queries_without_question: u64,
    /// Questions with an answer in none of their gold passages, and so without a positive reader row; `None` if no
    /// reader rows are made.
    pub answers_not_found: Option<u64>,
    /// Words copied by a language model that are not in the source; 0 without a model.
    pub copied_words_not_found: u64,
    /// All words written by it as copies.
    pub copied_words: u64,
}

impl ConstructReport {
    pub(crate) fn count_skipped(&mut self, reason: impl ToString) {
        *self.skipped.entry(reason.to_string()).or_default() += 1;
    }

    pub(crate) fn count_cut_short(&mut self, skip: SkipReason) {
        *self.cut_short.entry(skip.name()).or_default() += 1;
    }

    pub(crate) fn count_rows(&mut self, rows: &QuestionRows) {
        for (table, count) in [
            ("labeler", rows.labeler.len()),
            ("filter", rows.filter.len()),
            ("scorer", rows.scorer.len()),
            ("reader", rows.reader.len()),
            ("encoder", rows.encoder.len()),
        ] {
            *self.rows.entry(table).or_default() += count as u64;
        }
        for row in &rows.labeler {
            *self.tags.entry(row.tag).or_default() += 1;
        }
    }
}

impl fmt::Display for ConstructReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "questions: {}", self.questions)?;
        for (title, counts) in
            [("rows", &self.rows), ("labeler rows by tag", &self.tags), ("questions cut short", &self.cut_short)]
        {
            for (name, count) in counts {
                write!(f, "\n{title}: {name}: {count}")?;
            }
        }
        for (reason, count) in &self.skipped {
            write!(f, "\nquestions without rows: {reason}: {count}")?;
        }
        if self.gold_words > 0 {
            let share = 100.0 * self.kept_words as f64 / self.gold_words as f64;
            write!(f, "\nwords kept of gold chunks: {} of {} ({share:.1} %)", self.kept_words, self.gold_words)?;
        }
        for (title, count) in [
            ("gold chunks without a kept word", Some(self.gold_without_span)),
            ("negatives that have the hop's answer", self.negatives_with_answer),
            ("hops without a negative", Some(self.hops_without_negative)),
            ("random negatives that were not found", self.random_negatives_missing),
            ("next queries without a content word of the question", Some(self.queries_without_question)),
            ("questions whose answer is in no gold passage", self.answers_not_found),
        ] {
            if let Some(count) = count {
                write!(f, "\n{title}: {count}")?;
            }
        }
        if self.copied_words > 0 {
            let (missing, all) = (self.copied_words_not_found, self.copied_words);
            write!(f, "\ncopied words that are not in their source: {missing} of {all}")?;
        }
        Ok(())
    }
}
