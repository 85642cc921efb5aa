//! Tells by its name which gold passage of a question a ranked passage is. No corpus is there to look into.
//!
//! A passage has the name of its id, its name in `hopeval export` (the id with `_` for white space) or its title, which
//! may have `_` for white space if no other passage has the name. The passages that the dataset gives with a question
//! say which titles several passages share.

use crate::prepare::rankings::{exported_name, spaced_title};
use hopeval_datasets::{GoldMatch, GoldPassage, PassageRecord, Question};
use std::collections::{HashMap, HashSet};

/// The gold passage that a name may mean: its position in the question, or `None` where the name is that of several
/// passages.
type NamedGold = Option<u32>;

/// The gold passages of a question, by name.
pub(super) struct GoldNames {
    ids: HashMap<String, NamedGold>,
    titles: HashMap<String, NamedGold>,
    /// The titles of given passages, by id.
    titles_of: HashMap<String, String>,
    /// The titles of given passages that are not gold.
    other_titles: HashSet<String>,
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
        let (ids, titles, titles_of, other_titles) = Default::default();
        let mut names = Self { ids, titles, titles_of, other_titles, count };
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
            names.other_titles.insert(passage.title.clone());
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

    /// The meaning of a name: an id before a title, and a title before one with `_` for white space.
    pub(super) fn meaning(&self, name: &str) -> NameMeaning {
        let spaced = self.spaced_title(name);
        let titled = || self.titles.get(spaced.as_deref().unwrap_or(name));
        match self.ids.get(name).or_else(titled) {
            Some(Some(position)) => NameMeaning::Gold(*position),
            Some(None) => NameMeaning::Several,
            None => NameMeaning::Other,
        }
    }

    /// The title that a name means with `_` for white space, where no known passage has the name itself.
    fn spaced_title(&self, name: &str) -> Option<String> {
        let is_known = self.titles_of.contains_key(name) || self.titles.contains_key(name);
        spaced_title(name).filter(|_| !is_known && !self.other_titles.contains(name))
    }

    /// The title of the passage with this name: that of the known passage with this id, or the title that the name is.
    pub(super) fn title(&self, name: &str) -> String {
        self.titles_of.get(name).cloned().unwrap_or_else(|| {
            let spaced = self.spaced_title(name).filter(|title| self.titles.contains_key(title));
            spaced.unwrap_or_else(|| name.to_owned())
        })
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
        assert_eq!(["a b", "Up", "x"].map(|name| names.title(name)), ["Up", "Up", "x"]);
    }

    #[test]
    fn a_title_may_have_underscores_where_no_passage_has_the_name() {
        let question = Question {
            gold: vec![
                gold(None, Some("Ed Wood"), None),
                gold(None, Some("a b"), None),
                gold(None, Some("Up x"), None),
            ],
            candidates: vec![passage(None, "a_b", "other"), passage(Some("Up_x"), "Up", "other")],
            ..Question::default()
        };
        let names = GoldNames::of_question(&question, GoldMatch::Title);
        let meanings = ["Ed Wood", "Ed_Wood", "a_b", "a b", "Up_x", "Ed__Wood"].map(|name| names.meaning(name));
        let (wood, other, second) = (NameMeaning::Gold(0), NameMeaning::Other, NameMeaning::Gold(1));
        assert_eq!(meanings, [wood, wood, other, second, other, other]);
        assert_eq!(["Ed_Wood", "a_b", "Up_x", "x_y"].map(|name| names.title(name)), ["Ed Wood", "a_b", "Up", "x_y"]);
        // Of a title that tells nothing, neither does this form.
        let candidates = vec![passage(None, "Ed Wood", "another")];
        let names = GoldNames::of_question(&Question { candidates, ..question }, GoldMatch::TitleAndText);
        assert_eq!(names.meaning("Ed_Wood"), NameMeaning::Several);
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
