//! Tells by its name which gold passage of a question a ranked passage is. No corpus is there to look into.
//!
//! A passage has the name of its id, its name in `hopeval export` (the id with `_` for white space) or its title. The
//! passages that the dataset gives with a question say which titles several passages share.

use crate::prepare::rankings::exported_name;
use hopeval_datasets::{GoldMatch, GoldPassage, PassageRecord, Question};
use std::collections::HashMap;

/// The gold passage that a name may mean: its position in the question, or `None` where the name is that of several
/// passages.
type NamedGold = Option<u32>;

/// The gold passages of a question, by name.
pub(super) struct GoldNames {
    ids: HashMap<String, NamedGold>,
    titles: HashMap<String, NamedGold>,
    /// The titles of given passages, by id.
    titles_of: HashMap<String, String>,
    count: u32,
}

/// The meaning of a name in a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMeaning {
    /// The gold passage at this position.
    Gold(u32),
    /// A passage that is not gold.
    Other,
    /// One of several passages, of which at least one is gold.
    Several,
}

impl GoldNames {
    /// The names of a question's gold passages, where `rule` makes given passages equal to them.
    pub(super) fn of_question(question: &Question, rule: GoldMatch) -> Self {
        let count = question.gold.len() as u32;
        let (ids, titles, titles_of) = Default::default();
        let mut names = Self { ids, titles, titles_of, count };
        for (position, gold) in (0..).zip(&question.gold) {
            names.add_id(gold.id.as_deref(), position);
            if let Some(title) = &gold.title {
                let same = rule == GoldMatch::Title;
                let known = names.titles.entry(title.clone()).or_insert(Some(position));
                if *known != Some(position) && !same {
                    *known = None;
                }
            }
            if let Some((id, title)) = gold.id.as_ref().zip(gold.title.as_ref()) {
                names.titles_of.insert(id.clone(), title.clone());
            }
        }
        let gold_of = |passage: &PassageRecord| question.gold.iter().position(|gold| is_same(rule, gold, passage));
        for passage in &question.candidates {
            if let Some(position) = gold_of(passage) {
                names.add_id(passage.id.as_deref(), position as u32);
                names.titles.entry(passage.title.clone()).or_insert(Some(position as u32));
            }
            if let Some(id) = &passage.id {
                names.titles_of.insert(id.clone(), passage.title.clone());
            }
        }
        for passage in question.candidates.iter().filter(|passage| gold_of(passage).is_none()) {
            // A title that a gold passage has, too, tells nothing.
            if let Some(known) = names.titles.get_mut(&passage.title) {
                *known = None;
            }
        }
        names
    }

    /// Whether two names are the ids of different given passages: where titles make gold, several passages are the same
    /// gold one.
    pub(super) fn differ(&self, name: &str, other: &str) -> bool {
        let is_id = |name: &str| self.titles_of.contains_key(name);
        name != other && is_id(name) && is_id(other)
    }

    fn add_id(&mut self, id: Option<&str>, position: u32) {
        for name in id.iter().flat_map(|id| [(*id).to_owned(), exported_name(id)]) {
            let known = self.ids.entry(name).or_insert(Some(position));
            if *known != Some(position) {
                *known = None;
            }
        }
    }

    /// The number of gold passages.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The meaning of a name: an id before a title.
    pub(super) fn meaning(&self, name: &str) -> NameMeaning {
        match self.ids.get(name).or_else(|| self.titles.get(name)) {
            Some(Some(position)) => NameMeaning::Gold(*position),
            Some(None) => NameMeaning::Several,
            None => NameMeaning::Other,
        }
    }

    /// The title of the passage with this name, which is the title itself or the id of a known passage.
    pub(super) fn title<'a>(&'a self, name: &'a str) -> &'a str {
        self.titles_of.get(name).map_or(name, String::as_str)
    }
}

/// Whether a given passage is a gold passage.
fn is_same(rule: GoldMatch, gold: &GoldPassage, passage: &PassageRecord) -> bool {
    let has_title = gold.title.as_deref() == Some(passage.title.as_str());
    match rule {
        GoldMatch::Id => gold.id.is_some() && gold.id == passage.id,
        GoldMatch::Title | GoldMatch::Snippet => has_title,
        GoldMatch::TitleAndText => has_title && gold.text.as_deref() == Some(passage.text.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(id: Option<&str>, title: &str, text: &str) -> PassageRecord {
        PassageRecord {
            id: id.map(str::to_owned),
            title: title.to_owned(),
            text: text.to_owned(),
            ..PassageRecord::default()
        }
    }

    fn gold(id: Option<&str>, title: Option<&str>, text: Option<&str>) -> GoldPassage {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        GoldPassage { id: owned(id), title: owned(title), text: owned(text), ..GoldPassage::default() }
    }

    #[test]
    fn a_gold_passage_has_its_id_its_exported_name_and_its_title() {
        let question = Question {
            gold: vec![gold(Some("a b"), Some("Up"), None), gold(Some("c"), None, None)],
            ..Question::default()
        };
        let names = GoldNames::of_question(&question, GoldMatch::Id);
        let meanings = ["a b", "a_b", "Up", "c", "d"].map(|name| names.meaning(name));
        let (first, second) = (NameMeaning::Gold(0), NameMeaning::Gold(1));
        assert_eq!(meanings, [first, first, first, second, NameMeaning::Other]);
        assert_eq!((names.title("a b"), names.title("Up"), names.title("x")), ("Up", "Up", "x"));
    }

    #[test]
    fn a_title_of_several_passages_tells_nothing_unless_titles_make_gold() {
        let question = Question {
            gold: vec![gold(None, Some("Up"), Some("a film"))],
            candidates: vec![passage(Some("1"), "Up", "a film"), passage(Some("2"), "Up", "a direction")],
            ..Question::default()
        };
        let names = GoldNames::of_question(&question, GoldMatch::TitleAndText);
        let meanings = ["1", "2", "Up"].map(|name| names.meaning(name));
        assert_eq!(meanings, [NameMeaning::Gold(0), NameMeaning::Other, NameMeaning::Several]);
        let names = GoldNames::of_question(&question, GoldMatch::Title);
        assert_eq!(["1", "2", "Up"].map(|name| names.meaning(name)), [NameMeaning::Gold(0); 3]);
    }
}
