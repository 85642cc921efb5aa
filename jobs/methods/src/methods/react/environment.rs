//! The environment of ReAct: actions, the current page, and the texts of observations.

use super::parameters::SentenceRule;
use crate::python_text::python_list;
use crate::response::PassageText;

/// An action, as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReactAction {
    /// Look a page up by its title.
    Search(String),
    /// Look up the next sentence with these words.
    Lookup(String),
    /// End with this answer.
    Finish(String),
    /// Think without effect.
    Think,
    /// Anything else.
    Invalid(String),
}

impl ReactAction {
    /// Reads an action by the authors' rules: its first letter may be large, everything else is as it is spelled.
    pub(super) fn parse(text: &str) -> Self {
        let mut letters = text.chars();
        let lowered: String = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
        let action = lowered.trim();
        let inside = |name: &str| {
            let rest = action.strip_prefix(name)?.strip_prefix('[')?;
            rest.strip_suffix(']').map(str::to_owned)
        };
        let parsed = inside("search").map(Self::Search).or_else(|| inside("lookup").map(Self::Lookup));
        let parsed = parsed.or_else(|| inside("finish").map(Self::Finish));
        let parsed = parsed.or_else(|| inside("think").map(|_| Self::Think));
        parsed.unwrap_or_else(|| Self::Invalid(action.to_owned()))
    }
}

/// The current page, and the place of the last look-up on it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReactPage {
    sentences: Vec<String>,
    words: Option<String>,
    /// Sentences with the words that were shown.
    shown: usize,
}

impl ReactPage {
    /// The page of these passages.
    pub(super) fn new(passages: &[&PassageText], rule: SentenceRule) -> Self {
        let sentences = match rule {
            SentenceRule::Corpus => {
                let texts = passages.iter().flat_map(|passage| passage.sentence_texts());
                texts.filter(|sentence| !sentence.is_empty()).map(str::to_owned).collect()
            }
            SentenceRule::Points => passages.iter().flat_map(|passage| cut_at_points(&passage.text)).collect(),
        };
        Self { sentences, ..Self::default() }
    }

    /// The first sentences.
    pub(super) fn beginning(&self, sentences: u32) -> String {
        let most = self.sentences.len().min(sentences as usize);
        self.sentences[..most].join(" ")
    }

    /// The next sentence with these words, whatever their case; other words begin anew.
    pub(super) fn look_up(&mut self, words: &str) -> String {
        if self.words.as_deref() != Some(words) {
            self.words = Some(words.to_owned());
            self.shown = 0;
        }
        let lower = words.to_lowercase();
        let found: Vec<&String> = self.sentences.iter().filter(|s| s.to_lowercase().contains(&lower)).collect();
        match found.get(self.shown) {
            None => NO_MORE_RESULTS.to_owned(),
            Some(sentence) => {
                self.shown += 1;
                format!("(Result {} / {}) {sentence}", self.shown, found.len())
            }
        }
    }
}

/// The observation after the last sentence with the words.
pub(super) const NO_MORE_RESULTS: &str = "No more results.";

/// The observation of a search without a page.
pub(super) fn not_found(title: &str, similar: &[&str]) -> String {
    format!("Could not find {title}. Similar: {}.", python_list(similar))
}

/// The authors' sentences: lines, cut at a point with a space behind it; each ends with a point more, as theirs do.
fn cut_at_points(text: &str) -> Vec<String> {
    let lines = text.split('\n').map(str::trim).filter(|line| !line.is_empty());
    let pieces = lines.flat_map(|line| line.split(". ")).map(str::trim).filter(|piece| !piece.is_empty());
    pieces.map(|piece| format!("{piece}.")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::PassageId;

    #[test]
    fn actions_are_read_as_the_authors_read_them() {
        let parse = ReactAction::parse;
        assert_eq!(parse("Search[The [x] Files]"), ReactAction::Search("The [x] Files".to_owned()));
        assert_eq!(parse("finish[] "), ReactAction::Finish(String::new()));
        assert_eq!(parse("Think[so]"), ReactAction::Think);
        for wrong in ["SEARCH[a]", " Search[a]", "Search[a].", "Search a", "Search", ""] {
            assert!(matches!(parse(wrong), ReactAction::Invalid(_)), "{wrong:?}");
        }
        assert_eq!(parse("Ask[him]"), ReactAction::Invalid("ask[him]".to_owned()));
    }

    #[test]
    fn look_ups_go_on_while_the_words_stay() {
        let text = PassageText::new(PassageId(1), "T", "He ran. She won! He Won twice.\nWon again");
        let mut page = ReactPage::new(&[&text], SentenceRule::Corpus);
        assert_eq!(page.beginning(2), "He ran. She won!");
        assert_eq!(page.look_up("won"), "(Result 1 / 3) She won!");
        assert_eq!(page.look_up("won"), "(Result 2 / 3) He Won twice.");
        assert_eq!(page.look_up("ran"), "(Result 1 / 1) He ran.");
        assert_eq!(page.look_up("ran"), NO_MORE_RESULTS);
        assert_eq!(page.look_up("won"), "(Result 1 / 3) She won!");
        assert_eq!(ReactPage::default().look_up("won"), NO_MORE_RESULTS);
    }

    #[test]
    fn the_authors_cut_at_points() {
        let text = PassageText::new(PassageId(1), "T", "Mr. Vale ran. He won!\n\n It rained.");
        let page = ReactPage::new(&[&text], SentenceRule::Points);
        assert_eq!(page.beginning(9), "Mr. Vale ran. He won!. It rained..");
    }

    #[test]
    fn no_similar_page_is_an_empty_list() {
        assert_eq!(not_found("X", &[]), "Could not find X. Similar: [].");
    }
}
