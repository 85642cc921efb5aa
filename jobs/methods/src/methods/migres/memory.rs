//! The memory module: what is known, what was asked, and what was shown.

use super::choices::QueryHistory;
use crate::knowledge::KnowledgePiece;
use crate::request::PassageId;
use std::collections::{BTreeMap, BTreeSet};

/// The memory of one question.
#[derive(Clone, Debug, Default)]
pub(super) struct QuestionMemory {
    /// Statements that were kept, each once.
    known: Vec<String>,
    /// Every query, the question first.
    written: Vec<String>,
    /// The queries for which passages were shown.
    shown_queries: Vec<String>,
    /// How often each passage was shown, once more for being cited.
    shown: BTreeMap<PassageId, u32>,
    /// The shown passages, in order.
    order: Vec<PassageId>,
    /// Those that were cited.
    cited: BTreeSet<PassageId>,
}

impl QuestionMemory {
    pub(super) fn known(&self) -> &[String] {
        &self.known
    }

    /// Adds a statement; false if it is known.
    pub(super) fn learn(&mut self, info: &str) -> bool {
        let is_new = !self.known.iter().any(|known| known == info);
        if is_new {
            self.known.push(info.to_owned());
        }
        is_new
    }

    pub(super) fn note_query(&mut self, query: &str) {
        add_once(&mut self.written, query);
    }

    /// The queries that are not to be asked again.
    pub(super) fn history(&self, history: QueryHistory) -> &[String] {
        match history {
            QueryHistory::All => &self.written,
            QueryHistory::Shown => &self.shown_queries,
        }
    }

    /// Whether a piece may be shown: it was not shown `most` times (0 for no bound), and has enough words.
    pub(super) fn may_show(&self, piece: &KnowledgePiece, most: u32, shortest: u32) -> bool {
        let times = piece.passage.and_then(|passage| self.shown.get(&passage)).copied().unwrap_or(0);
        (most == 0 || times < most) && hopeval_pytext::split(&piece.text).count() >= shortest as usize
    }

    /// Remembers that a piece is shown for a query.
    pub(super) fn note_shown(&mut self, piece: &KnowledgePiece, query: &str) {
        add_once(&mut self.shown_queries, query);
        if let Some(passage) = piece.passage {
            *self.shown.entry(passage).or_default() += 1;
            if !self.order.contains(&passage) {
                self.order.push(passage);
            }
        }
    }

    /// Remembers that a passage was cited.
    pub(super) fn note_cited(&mut self, passage: PassageId) {
        *self.shown.entry(passage).or_default() += 1;
        self.cited.insert(passage);
    }

    /// The shown passages: first those that were cited, each group in its order.
    pub(super) fn ranked_passages(&self) -> Vec<PassageId> {
        let (cited, others): (Vec<_>, Vec<_>) = self.order.iter().partition(|passage| self.cited.contains(passage));
        cited.into_iter().chain(others).collect()
    }
}

fn add_once(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|old| old == text) {
        list.push(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::PassageText;

    #[test]
    fn a_passage_is_shown_twice_or_once_if_cited() {
        let piece = |id| KnowledgePiece::whole(&PassageText::new(PassageId(id), "T", "three words here"), 0);
        let mut memory = QuestionMemory::default();
        memory.note_shown(&piece(1), "q");
        memory.note_shown(&piece(2), "q");
        assert!(memory.may_show(&piece(1), 2, 3) && !memory.may_show(&piece(1), 2, 4));
        memory.note_cited(PassageId(2));
        assert!(!memory.may_show(&piece(2), 2, 0) && memory.may_show(&piece(2), 0, 0));
        memory.note_shown(&piece(1), "r");
        assert!(!memory.may_show(&piece(1), 2, 0));
        assert_eq!(memory.ranked_passages(), [PassageId(2), PassageId(1)]);
        assert_eq!(memory.history(QueryHistory::Shown), ["q", "r"]);
    }

    #[test]
    fn a_statement_is_learnt_once() {
        let mut memory = QuestionMemory::default();
        assert!(memory.learn("A") && !memory.learn("A") && memory.learn("B"));
        assert_eq!(memory.known(), ["A", "B"]);
    }
}
