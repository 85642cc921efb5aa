//! What was made of a dataset, or of a run's annotations, and what was not.

use crate::rows::Rows;
use crate::skip::Skip;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Counts of one construction. Every question is in it: `questions` is those read, `skipped` and `cut_short` say of the
/// others why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Questions read.
    pub questions: u64,
    /// Questions that made no row, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Questions whose later hops made no rows, by reason.
    pub cut_short: BTreeMap<&'static str, u64>,
    /// Rows, by table.
    pub rows: BTreeMap<&'static str, u64>,
    /// Labeler rows, by tag.
    pub tags: BTreeMap<&'static str, u64>,
    /// Words of gold chunks.
    pub gold_words: u64,
    /// Those of them that are kept.
    pub kept_words: u64,
    /// Labeler rows of gold chunks without a kept word: the last hop's answer does not stand there (yes, no, a
    /// comparison's winner).
    pub gold_without_span: u64,
    /// Labeler rows of other chunks in which the hop's answer stands all the same; none where that is not looked at.
    pub negatives_with_answer: Option<u64>,
    /// Hops for which nothing but gold was found.
    pub hops_without_negative: u64,
    /// Random negatives that were asked for and not found: a small corpus has little but what is gold or found already. None where
    /// none were asked for.
    pub random_negatives_missing: Option<u64>,
    /// Next queries in which no content word of the question is left.
    pub queries_without_question: u64,
    /// Questions whose answer stands in none of their gold passages: no reader row with it; none where there are no reader rows.
    pub answers_not_found: Option<u64>,
    /// Words that a language model wrote and that are not in what it copied from; none without one.
    pub copied_words_not_found: u64,
    /// All words that it wrote as copies.
    pub copied_words: u64,
}

impl Report {
    pub(crate) fn skip(&mut self, reason: impl ToString) {
        *self.skipped.entry(reason.to_string()).or_default() += 1;
    }

    pub(crate) fn cut(&mut self, skip: Skip) {
        *self.cut_short.entry(skip.name()).or_default() += 1;
    }

    pub(crate) fn count(&mut self, rows: &Rows) {
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

impl fmt::Display for Report {
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
