//! Reads the generated world's passages that stand in a text: whom each is about, and the facts that it states.
//!
//! A text is read line by line. A passage begins with its lead (`Margot Zimova is a director known for ..`); the line
//! before it, or the words before it on its line, may hold the title with what tells namesakes apart. Without a lead, a
//! heading alone names the passage. A sentence states a fact if it has one of the world's wordings and the passage's
//! own entity, by name, by noun or by pronoun, fills its slot.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::grammar::{StatementPattern, WorldGrammar};

/// The entity that a passage is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassageOwner {
    /// The title, with what tells namesakes apart if the text shows it.
    pub(crate) title: String,
    /// The bare name.
    pub(crate) name: String,
    /// The noun of the lead; `None` without a lead.
    pub(crate) noun: Option<&'static str>,
}

/// A fact that a sentence states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatedFact {
    pub(crate) relation: usize,
    pub(crate) subject: String,
    pub(crate) object: String,
    /// The fact's side that the passage is about.
    pub(crate) owner_side: OwnerSide,
}

/// The side of a fact that is the passage's own entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerSide {
    Subject,
    Object,
    /// The sentence stands alone.
    Neither,
}

/// Sentences in a row about one entity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PassageReading {
    pub(crate) owner: Option<PassageOwner>,
    pub(crate) facts: Vec<StatedFact>,
}

/// The key of a line in the cache: its words and what they are read under.
type LineKey = [u8; 16];

/// Reads texts; lines that were read before are remembered, up to a bound.
pub(crate) struct PassageReader {
    grammar: &'static WorldGrammar,
    lines: FxHashMap<LineKey, Arc<[PassageReading]>>,
    /// The lines of the generation before: a line that is read again is kept.
    older: FxHashMap<LineKey, Arc<[PassageReading]>>,
}

/// Lines in each of the two generations of the cache. A line takes about 1 KiB.
const LINES_KEPT: usize = 32_768;
/// A shorter line states nothing.
const SHORTEST_LINE: usize = 12;
/// A longer line is no heading.
const LONGEST_HEADING: usize = 160;

impl PassageReader {
    pub(crate) fn new() -> Self {
        Self { grammar: WorldGrammar::shared(), lines: FxHashMap::default(), older: FxHashMap::default() }
    }

    /// The passages of a text.
    pub(crate) fn read_text(&mut self, text: &str) -> Vec<Arc<[PassageReading]>> {
        let mut readings = vec![];
        let mut owner: Option<PassageOwner> = None;
        let mut heading = "";
        for line in text.lines().map(str::trim) {
            if line.is_empty() {
                owner = None;
                continue;
            }
            if ["Title: ", "Wikipedia Title: ", "#", "["].iter().any(|marker| line.starts_with(marker)) {
                owner = None;
            }
            let reading = self.read_line(line, heading, owner.as_ref());
            owner = reading.last().and_then(|last| last.owner.clone());
            heading = line;
            if reading.iter().any(|passage| passage.owner.is_some() || !passage.facts.is_empty()) {
                readings.push(reading);
            }
        }
        readings
    }

    fn read_line(&mut self, line: &str, heading: &str, owner: Option<&PassageOwner>) -> Arc<[PassageReading]> {
        let heading = if heading.len() > LONGEST_HEADING { "" } else { heading };
        let key = line_key(line, heading, owner);
        if let Some(reading) = self.lines.get(&key) {
            return Arc::clone(reading);
        }
        let reading = match self.older.remove(&key) {
            Some(reading) => reading,
            None => read_sentences(self.grammar, line, heading, owner).into(),
        };
        if self.lines.len() >= LINES_KEPT {
            self.older = std::mem::take(&mut self.lines);
        }
        self.lines.insert(key, Arc::clone(&reading));
        reading
    }
}

fn line_key(line: &str, heading: &str, owner: Option<&PassageOwner>) -> LineKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(line.as_bytes()).update(b"\n").update(heading.as_bytes()).update(b"\n");
    if let Some(owner) = owner {
        hasher.update(owner.title.as_bytes()).update(owner.noun.unwrap_or_default().as_bytes());
    }
    let mut key = LineKey::default();
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

/// Reads the sentences of a line; `owner` is the entity of the line before.
fn read_sentences(
    grammar: &WorldGrammar,
    line: &str,
    heading: &str,
    owner: Option<&PassageOwner>,
) -> Vec<PassageReading> {
    let mut passages = vec![PassageReading { owner: owner.cloned(), facts: vec![] }];
    if line.len() < SHORTEST_LINE || line.ends_with('?') {
        return passages;
    }
    for (number, whole) in split_sentences(line).enumerate() {
        let (before, sentence) = split_heading(whole);
        let begins = match find_lead(grammar, sentence) {
            Some((name, noun)) => {
                let shown = if number == 0 { [before, heading] } else { [before, ""] };
                Some(named_owner(grammar, name, noun, shown))
            }
            None => heading_title(before).map(titled_owner),
        };
        if begins.is_some() {
            passages.push(PassageReading { owner: begins, facts: vec![] });
        } else if number == 0
            && owner.is_none()
            && let Some(title) = plain_heading(heading)
        {
            passages.push(PassageReading { owner: Some(titled_owner(title)), facts: vec![] });
        }
        if let Some(passage) = passages.last_mut() {
            read_statement(grammar, sentence.trim_end_matches('.'), passage);
        }
    }
    passages
}

/// The sentences of a line. A full stop after a single capital is an initial's.
fn split_sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.match_indices(". ").map(|(at, _)| at).find(|&at| !ends_in_initial(&rest[..at]));
        let (sentence, after) = match end {
            Some(at) => (&rest[..=at], rest[at + 2..].trim_start()),
            None => (rest, ""),
        };
        rest = after;
        Some(sentence)
    })
}

fn ends_in_initial(text: &str) -> bool {
    let mut letters = text.chars().rev();
    letters.next().is_some_and(|last| last.is_ascii_uppercase())
        && letters.next().is_none_or(|before| !before.is_alphanumeric())
}

/// What stands before a sentence on its line, as in `[3] (Title: Pale Harbor): ` or `Passage 2: `, and the sentence.
fn split_heading(sentence: &str) -> (&str, &str) {
    let colon = sentence.rfind(": ").map(|at| at + 2);
    let bracket = sentence.rfind("] ").map(|at| at + 2);
    match colon.max(bracket) {
        Some(at) => (&sentence[..at], sentence[at..].trim_start()),
        None => ("", sentence),
    }
}

const LEAD_TAILS: [&str; 5] = [
    " known for ",
    " and public figure, best known for ",
    " who became known for ",
    " that is best known for ",
    ", known above all for ",
];

/// The name and the noun of a lead.
fn find_lead<'t>(grammar: &WorldGrammar, sentence: &'t str) -> Option<(&'t str, &'static str)> {
    sentence.match_indices(" is a").find_map(|(at, is)| {
        let rest = &sentence[at + is.len()..];
        let rest = rest.strip_prefix("n ").or_else(|| rest.strip_prefix(' '))?;
        let noun = grammar.nouns.iter().copied().find(|noun| {
            rest.strip_prefix(noun).is_some_and(|rest| LEAD_TAILS.iter().any(|tail| rest.starts_with(tail)))
        })?;
        let name = sentence[..at].split(" (often just ").next()?;
        Some((name, noun))
    })
}

/// The entity of a lead; its title is looked for in what stands before it.
fn named_owner(grammar: &WorldGrammar, lead: &str, noun: &'static str, shown: [&str; 2]) -> PassageOwner {
    let name = match noun {
        "river" | "award" => without_article(lead).to_owned(),
        noun if grammar.persons.contains(noun) => without_middle_name(lead),
        _ => lead.to_owned(),
    };
    let title = shown.iter().find_map(|text| {
        let after = &text[text.rfind(&name)? + name.len()..];
        let inner = after.strip_prefix(" (")?.split_once(')')?.0;
        inner.ends_with(|c: char| c.is_ascii_digit() || c.is_ascii_lowercase()).then(|| format!("{name} ({inner})"))
    });
    PassageOwner { title: title.unwrap_or_else(|| name.clone()), name, noun: Some(noun) }
}

/// `Margot Zimova` for `Margot Ada Zimova`; initials stay.
fn without_middle_name(name: &str) -> String {
    let words: Vec<&str> = name.split(' ').collect();
    let last = words.len() - 1;
    let kept = words.iter().enumerate().filter(|(n, word)| *n == 0 || *n == last || word.ends_with('.'));
    kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

/// The title in what stands before a sentence, if it looks like one.
fn heading_title(before: &str) -> Option<&str> {
    let text = before.trim_end_matches([' ', ':']);
    let text = text.rsplit_once("Title: ").map_or(text, |(_, title)| title);
    let text = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.trim_start(),
        None => text,
    };
    let opens = text.matches('(').count();
    let text = if text.matches(')').count() > opens { text.strip_suffix(')')? } else { text };
    let is_marker = [
        "Title",
        "Wikipedia Title",
        "Passage",
        "Document",
        "Text",
        "Context",
        "A",
        "Q",
        "Answer",
        "Question",
        "Sentence",
        "Observation",
        "Thought",
        "Action",
        "Follow up",
        "Intermediate answer",
        "So the final answer is",
    ]
    .iter()
    .any(|marker| text.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ') == *marker);
    let is_title = text.starts_with(|c: char| c.is_uppercase()) && text.len() <= LONGEST_HEADING && !is_marker;
    is_title.then_some(text)
}

/// The title in a line of its own before a text.
fn plain_heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#').trim();
    let text = ["Wikipedia Title: ", "Title: "].iter().find_map(|marker| text.strip_prefix(marker)).unwrap_or(text);
    let text = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.trim(),
        None => text,
    };
    let is_title = text.starts_with(|c: char| c.is_uppercase()) && !text.ends_with(['.', '?', ':', '!']);
    is_title.then_some(text)
}

/// The entity of a title alone.
fn titled_owner(title: &str) -> PassageOwner {
    let name = title.split_once(" (").map_or(title, |(name, _)| name);
    PassageOwner { title: title.to_owned(), name: without_article(name).to_owned(), noun: None }
}

/// Rivers and awards are written with an article, and filed without it.
pub(crate) fn without_article(name: &str) -> &str {
    name.strip_prefix("the ").or_else(|| name.strip_prefix("The ")).unwrap_or(name)
}

/// Adds the facts of a sentence.
fn read_statement(grammar: &WorldGrammar, sentence: &str, passage: &mut PassageReading) {
    for anchor in grammar.anchors.find_overlapping_iter(sentence) {
        let statement = &grammar.statements[anchor.pattern().as_usize()];
        for (left, right) in statement.slots.match_slots(sentence) {
            if let Some(fact) = stated_fact(grammar, statement, left, right, passage.owner.as_ref())
                && !passage.facts.contains(&fact)
            {
                passage.facts.push(fact);
            }
        }
    }
}

fn stated_fact(
    grammar: &WorldGrammar,
    statement: &StatementPattern,
    left: &str,
    right: &str,
    owner: Option<&PassageOwner>,
) -> Option<StatedFact> {
    let relation = &grammar.relations[statement.relation];
    let (own, other) = if statement.own_first { (left, right) } else { (right, left) };
    let nouns = if statement.is_back { &relation.object_nouns } else { &relation.subject_nouns };
    let (own, owner_side) = match owner {
        Some(owner) if owner.noun.is_none_or(|noun| nouns.contains(&noun)) && names_owner(grammar, owner, own) => {
            (owner.name.as_str(), if statement.is_back { OwnerSide::Object } else { OwnerSide::Subject })
        }
        // A sentence by itself must name both sides.
        None if looks_like_name(grammar, own) => (own, OwnerSide::Neither),
        _ => return None,
    };
    let is_value = relation.object_nouns.is_empty();
    let fits = if is_value { other.contains(|c: char| c.is_ascii_digit()) } else { looks_like_name(grammar, other) };
    let other = other.strip_prefix("the ").unwrap_or(other);
    let (subject, object) = if statement.is_back { (other, own) } else { (own, other) };
    fits.then(|| StatedFact {
        relation: statement.relation,
        subject: subject.to_owned(),
        object: object.to_owned(),
        owner_side,
    })
}

/// Whether words stand for the passage's own entity.
fn names_owner(grammar: &WorldGrammar, owner: &PassageOwner, words: &str) -> bool {
    let bare = without_article(words);
    if bare == owner.name || words == owner.title || words == owner.name {
        return true;
    }
    let is_person = owner.noun.is_none_or(|noun| grammar.persons.contains(noun));
    let is_thing = owner.noun.is_none_or(|noun| !grammar.persons.contains(noun));
    match words {
        "she" | "he" | "She" | "He" => is_person,
        "it" | "It" => is_thing,
        words if bare.len() < words.len() => owner.noun.map_or(grammar.nouns.contains(&bare), |noun| noun == bare),
        surname => is_person && owner.name.rsplit(' ').next() == Some(surname),
    }
}

/// Whether words are a name: they begin with a capital, perhaps after an article, and are no pronoun or noun.
fn looks_like_name(grammar: &WorldGrammar, words: &str) -> bool {
    let bare = words.strip_prefix("the ").unwrap_or(words);
    let is_stand_in = matches!(words, "She" | "He" | "It") || grammar.nouns.contains(&without_article(words));
    bare.starts_with(|c: char| c.is_uppercase()) && !is_stand_in && words.len() <= LONGEST_HEADING
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Vec<(String, String, String)> {
        let grammar = WorldGrammar::shared();
        let readings = PassageReader::new().read_text(text);
        let passages = readings.iter().flat_map(|line| line.iter());
        let facts = passages.flat_map(|passage| passage.facts.clone());
        facts.map(|fact| (fact.subject, grammar.relations[fact.relation].name.to_owned(), fact.object)).collect()
    }

    fn fact(subject: &str, relation: &str, object: &str) -> (String, String, String) {
        (subject.to_owned(), relation.to_owned(), object.to_owned())
    }

    #[test]
    fn a_passage_is_read_with_pronouns_and_mentions() {
        let text = "Wikipedia Title: Margot Zimova (director, born 1931)\n\
                    Margot Ada Zimova is a director known for stark montage and spicy dialogue. She was born in \
                    Millford, Arbia. The feature Pale Harbor was directed by Zimova. M. Other was born in Nowhere.";
        assert_eq!(
            facts(text),
            [
                fact("Margot Zimova", "place of birth", "Millford, Arbia"),
                fact("Pale Harbor", "director", "Margot Zimova"),
            ]
        );
    }

    #[test]
    fn sentences_alone_must_name_both_sides() {
        assert_eq!(
            facts("Pale Harbor was directed by Margot Zimova."),
            [fact("Pale Harbor", "director", "Margot Zimova")]
        );
        assert_eq!(facts("It was directed by Margot Zimova."), []);
        let titled = "Title: Pale Harbor\nIt was directed by Margot Zimova.";
        assert_eq!(facts(titled), [fact("Pale Harbor", "director", "Margot Zimova")]);
    }

    #[test]
    fn lines_that_were_read_are_remembered() {
        let text = "Pale Harbor is a film known for stark montage and spicy dialogue. It was released in 1957.";
        let mut reader = PassageReader::new();
        let first = reader.read_text(text);
        assert!(Arc::ptr_eq(&first[0], &reader.read_text(text)[0]));
    }
}
