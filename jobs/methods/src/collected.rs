//! The passages that a method collects from retrievals, for prompts: each once, in the order of their arrival.

use crate::few_shot::ShownPassage;
use crate::outcome::RankedPassage;
use crate::ranking;
use crate::request::PassageId;
use crate::response::{Failure, FailureKind, PassageText, Response};
use crate::similarity::is_similar;
use std::collections::BTreeMap;

/// The rules of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionRules {
    /// The most passages.
    pub(crate) most: u32,
    /// The most words of a passage, between single spaces; longer ones are passed over.
    pub(crate) longest_passage: Option<u32>,
    /// The ratio from which title and text of a passage are those of another (`rapidfuzz.fuzz.ratio`, of 100). With
    /// it, a passage is known, too, if one passage has its title and one its text.
    pub(crate) near_duplicates: Option<u32>,
}

/// Collected passages.
#[derive(Clone, Debug)]
pub(crate) struct CollectedPassages {
    rules: CollectionRules,
    shown: Vec<ShownPassage>,
}

impl CollectedPassages {
    pub(crate) fn new(rules: CollectionRules) -> Self {
        Self { rules, shown: Vec::new() }
    }

    /// The passages, in the order of their arrival.
    pub(crate) fn shown(&self) -> &[ShownPassage] {
        &self.shown
    }

    /// Whether no further passage is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.shown.len() >= self.rules.most as usize
    }

    /// The passages of the corpus, ranked by their arrival.
    pub(crate) fn ranked(&self) -> Vec<RankedPassage> {
        ranking::by_position(self.shown.iter().filter_map(|shown| shown.passage))
    }

    /// Forgets what the passages say, once nothing is to be shown or added any more: open machines would keep it.
    pub(crate) fn forget_texts(&mut self) {
        for shown in &mut self.shown {
            (shown.title, shown.text) = (String::new(), String::new());
        }
    }

    /// Adds the best `k` hits of a retrieval, as far as the rules let them in.
    ///
    /// # Errors
    /// The retrieval's failure; a hit without its text.
    pub(crate) fn add_hits(&mut self, mut response: Response, k: u32) -> Result<(), Failure> {
        let texts = std::mem::take(&mut response.passages);
        let hits = ranking::from_hits(response.hits()?, k);
        self.add_texts(hits.iter().map(|hit| hit.passage), texts)
    }

    /// Adds the passages of a look-up, in the order asked.
    ///
    /// # Errors
    /// The look-up's failure; a passage without its text.
    pub(crate) fn add_found(&mut self, mut response: Response) -> Result<(), Failure> {
        let texts = std::mem::take(&mut response.passages);
        self.add_texts(response.found()?.into_iter(), texts)
    }

    /// Adds the passage that belongs to the question, whatever the rules say. It counts as one of the most.
    pub(crate) fn pin(&mut self, shown: ShownPassage) {
        self.shown.push(shown);
    }

    /// Adds a passage, if the rules let it in.
    pub(crate) fn add(&mut self, shown: ShownPassage) {
        if !self.is_full() && !self.is_too_long(&shown) && !self.is_known(&shown) {
            self.shown.push(shown);
        }
    }

    fn add_texts(&mut self, passages: impl Iterator<Item = PassageId>, texts: Vec<PassageText>) -> Result<(), Failure> {
        let mut texts: BTreeMap<PassageId, PassageText> = texts.into_iter().map(|text| (text.passage, text)).collect();
        for passage in passages {
            if self.is_full() {
                break;
            }
            if self.shown.iter().any(|shown| shown.passage == Some(passage)) {
                continue;
            }
            let PassageText { title, text, .. } = texts.remove(&passage).ok_or_else(|| Failure {
                kind: FailureKind::ParseFailure,
                message: format!("the text of passage {} is missing", passage.0),
            })?;
            self.add(ShownPassage { passage: Some(passage), title, text });
        }
        Ok(())
    }

    fn is_too_long(&self, shown: &ShownPassage) -> bool {
        self.rules.longest_passage.is_some_and(|most| shown.text.split(' ').count() > most as usize)
    }

    fn is_known(&self, shown: &ShownPassage) -> bool {
        let is_same = |known: &ShownPassage| {
            let alike = |threshold| {
                is_similar(&known.title, &shown.title, threshold) && is_similar(&known.text, &shown.text, threshold)
            };
            let is_id = known.passage.is_some() && known.passage == shown.passage;
            let is_text = known.title == shown.title && known.text == shown.text;
            is_id || is_text || self.rules.near_duplicates.is_some_and(alike)
        };
        self.shown.iter().any(is_same) || self.rules.near_duplicates.is_some() && self.knows_title_and_text(shown)
    }

    /// Whether a passage has the title of one that is here and the text of one, perhaps of another (IRCoT's code).
    fn knows_title_and_text(&self, shown: &ShownPassage) -> bool {
        self.shown.iter().any(|known| known.title == shown.title)
            && self.shown.iter().any(|known| known.text == shown.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(passage: u32, title: &str, text: &str) -> ShownPassage {
        ShownPassage { passage: Some(PassageId(passage)), title: title.to_owned(), text: text.to_owned() }
    }

    fn kept(rules: CollectionRules, passages: &[ShownPassage]) -> Vec<u32> {
        let mut collected = CollectedPassages::new(rules);
        passages.iter().for_each(|passage| collected.add(passage.clone()));
        collected.ranked().iter().map(|entry| entry.passage.0).collect()
    }

    #[test]
    fn rules_keep_passages_out() {
        let free = CollectionRules { most: 9, longest_passage: None, near_duplicates: None };
        let passages = [
            shown(1, "Alder", "The alder is a tree that grows by rivers."),
            shown(2, "Alder", "The alder is a tree that grows by rivers!"),
            shown(1, "Other", "Other."),
            shown(3, "Alders", "one two three four"),
            shown(4, "Alder", "The alder is a tree that grows by rivers."),
        ];
        assert_eq!(kept(free, &passages), [1, 2, 3]);
        assert_eq!(kept(CollectionRules { near_duplicates: Some(90), ..free }, &passages), [1, 3]);
        assert_eq!(kept(CollectionRules { near_duplicates: Some(100), ..free }, &passages), [1, 2, 3]);
        let apart = [shown(1, "Alder", "Empty."), shown(2, "Elm", "Full."), shown(3, "Elm", "Empty.")];
        assert_eq!(kept(free, &apart), [1, 2, 3]);
        assert_eq!(kept(CollectionRules { near_duplicates: Some(90), ..free }, &apart), [1, 2], "as the code");
        assert_eq!(kept(CollectionRules { longest_passage: Some(4), ..free }, &passages), [1, 3]);
        assert_eq!(kept(CollectionRules { longest_passage: Some(3), ..free }, &passages), [1]);
        assert_eq!(kept(CollectionRules { most: 2, ..free }, &passages), [1, 2]);
    }
}
