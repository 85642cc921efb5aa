//! The wordings of the generated world, prepared for matching: statements, questions, noun phrases.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use hopeval_world::wordings::{
    RelationWordings, age_wordings, lead_nouns, person_nouns, quality_words, relation_wordings,
};
use rustc_hash::FxHashSet;

/// The world's wordings, for matching.
pub(crate) struct WorldGrammar {
    /// Every relation.
    pub(crate) relations: Vec<RelationWordings>,
    /// Sentences that state a fact.
    pub(crate) statements: Vec<StatementPattern>,
    /// Questions for an object: the relation and its pattern.
    pub(crate) asks: Vec<(usize, OneSlotPattern)>,
    /// Noun phrases, without the article.
    pub(crate) phrases: Vec<(usize, OneSlotPattern)>,
    /// Comparisons.
    pub(crate) comparisons: Vec<(ComparisonRule, TwoSlotPattern)>,
    /// The nouns of leads.
    pub(crate) nouns: Vec<&'static str>,
    /// Those of persons.
    pub(crate) persons: FxHashSet<&'static str>,
    /// Adjectives before noun phrases.
    pub(crate) qualities: FxHashSet<&'static str>,
    /// Finds the longest literal part of every statement; pattern `n` belongs to statement `n`.
    pub(crate) anchors: AhoCorasick,
}

/// The comparison that a question makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparisonRule {
    /// Whether both have the same object.
    Same { relation: usize },
    /// The one with the smaller or larger value.
    Order { relation: usize, smaller: bool },
    /// The one whose person (the object of `bridge`) was born first or last.
    Age { bridge: usize, smaller: bool },
}

/// A sentence with a subject and an object.
pub(crate) struct StatementPattern {
    pub(crate) relation: usize,
    /// The sentence stands in the passage of the fact's object; then the passage's own slot is the object.
    pub(crate) is_back: bool,
    /// The passage's own entity fills the first slot.
    pub(crate) own_first: bool,
    pub(crate) slots: TwoSlotPattern,
}

/// `HEAD{x}TAIL`.
pub(crate) struct OneSlotPattern {
    head: String,
    tail: String,
}

/// `HEAD{..}MIDDLE{..}TAIL`; the slots may come in either order.
pub(crate) struct TwoSlotPattern {
    pub(crate) head: String,
    pub(crate) middle: String,
    pub(crate) tail: String,
}

impl OneSlotPattern {
    fn new(pattern: &str) -> Option<Self> {
        let (head, tail) = pattern.split_once("{x}")?;
        Some(Self { head: head.to_owned(), tail: tail.to_owned() })
    }

    /// The words in the slot.
    pub(crate) fn match_slot<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.strip_prefix(self.head.as_str())?.strip_suffix(self.tail.as_str()).filter(|slot| !slot.is_empty())
    }
}

impl TwoSlotPattern {
    /// The pattern, and whether the slot `first` comes first.
    fn new(pattern: &str, first: &str, second: &str) -> Option<(Self, bool)> {
        let (a, b) = (pattern.find(first)?, pattern.find(second)?);
        let (left, right) = (a.min(b), a.max(b));
        let parts = Self {
            head: pattern[..left].to_owned(),
            middle: pattern[left + 3..right].to_owned(),
            tail: pattern[right + 3..].to_owned(),
        };
        Some((parts, a < b))
    }

    /// The words in both slots, for every way to read them.
    pub(crate) fn match_slots<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
        let inner = strip_capital(text, &self.head).and_then(|rest| rest.strip_suffix(self.tail.as_str()));
        inner.into_iter().flat_map(|inner| {
            inner
                .match_indices(self.middle.as_str())
                .map(|(at, _)| (&inner[..at], &inner[at + self.middle.len()..]))
                .filter(|(left, right)| !left.is_empty() && !right.is_empty())
        })
    }

    fn anchor(&self) -> &str {
        // The first letter of a sentence may be a capital.
        let head = self.head.get(1..).unwrap_or_default();
        [self.middle.as_str(), head, &self.tail].into_iter().max_by_key(|part| part.len()).unwrap_or_default()
    }
}

/// Strips a head whose first letter may be a capital in the text.
fn strip_capital<'t>(text: &'t str, head: &str) -> Option<&'t str> {
    let start = text.get(..head.len())?;
    start.eq_ignore_ascii_case(head).then(|| &text[head.len()..]).filter(|_| start.get(1..) == head.get(1..))
}

impl WorldGrammar {
    /// The grammar; it is made once.
    pub(crate) fn shared() -> &'static Self {
        static GRAMMAR: OnceLock<WorldGrammar> = OnceLock::new();
        GRAMMAR.get_or_init(Self::new)
    }

    fn new() -> Self {
        let relations = relation_wordings();
        let mut statements = vec![];
        let (mut asks, mut phrases, mut comparisons) = (vec![], vec![], vec![]);
        for (number, relation) in relations.iter().enumerate() {
            statements.extend(relation.says.iter().filter_map(|says| StatementPattern::new(number, says, false)));
            let back = relation.says_back.iter().flatten();
            statements.extend(back.filter_map(|says| StatementPattern::new(number, says, true)));
            asks.extend(relation.asks.iter().filter_map(|ask| Some((number, OneSlotPattern::new(ask)?))));
            let nouns = relation.phrase.iter().flatten().filter_map(|phrase| phrase.strip_prefix("the "));
            phrases.extend(nouns.filter_map(|phrase| Some((number, OneSlotPattern::new(phrase)?))));
            let groups = [
                (ComparisonRule::Same { relation: number }, relation.same),
                (ComparisonRule::Order { relation: number, smaller: true }, relation.first),
                (ComparisonRule::Order { relation: number, smaller: false }, relation.last),
            ];
            for (rule, wordings) in groups {
                let patterns = wordings.into_iter().flatten();
                comparisons.extend(patterns.filter_map(|p| Some((rule, TwoSlotPattern::new(p, "{a}", "{b}")?.0))));
            }
        }
        comparisons.extend(age_comparisons(&relations));
        let anchors = AhoCorasick::new(statements.iter().map(|statement| statement.slots.anchor()));
        Self {
            relations,
            statements,
            asks,
            phrases,
            comparisons,
            nouns: lead_nouns(),
            persons: person_nouns().into_iter().collect(),
            qualities: quality_words().iter().copied().collect(),
            anchors: anchors.expect("the world's wordings are few; this is a bug"),
        }
    }
}

impl StatementPattern {
    fn new(relation: usize, pattern: &str, is_back: bool) -> Option<Self> {
        let (slots, own_first) = TwoSlotPattern::new(pattern, "{s}", "{o}")?;
        Some(Self { relation, is_back, own_first, slots })
    }
}

/// The questions about age, for every relation whose object plays a part and every noun of its subjects.
fn age_comparisons(relations: &[RelationWordings]) -> Vec<(ComparisonRule, TwoSlotPattern)> {
    let mut comparisons = vec![];
    for (bridge, relation) in relations.iter().enumerate() {
        let Some(part) = relation.person_part else { continue };
        for (wordings, smaller) in age_wordings().into_iter().zip([true, false]) {
            for noun in &relation.subject_nouns {
                let patterns = wordings.map(|wording| wording.replace("{n}", noun).replace("{r}", part));
                let rule = ComparisonRule::Age { bridge, smaller };
                comparisons
                    .extend(patterns.iter().filter_map(|p| Some((rule, TwoSlotPattern::new(p, "{a}", "{b}")?.0))));
            }
        }
    }
    comparisons
}
