//! Finds the question of a prompt and understands it by the world's templates.
//!
//! The question is the last one on a line that begins with `Question:` or `Q:`, or else the last one anywhere, among
//! those that a template of the world fits. A template may fit in several ways (names hold `and`, noun phrases nest),
//! so all readings are returned.

use crate::grammar::{ComparisonRule, WorldGrammar};

/// A way to read a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuestionReading {
    /// For the object of a relation.
    Object { relation: usize, of: NounPhrase },
    /// For the result of a comparison.
    Comparison { rule: ComparisonRule, a: NounPhrase, b: NounPhrase },
}

/// An entity by name, or as an object of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NounPhrase {
    Name(NamedEntity),
    Object { relation: usize, of: Box<NounPhrase> },
}

/// An entity as a question names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamedEntity {
    pub(crate) name: String,
    /// The noun before the name.
    pub(crate) noun: Option<&'static str>,
    /// The year before or after it: of a work, or of a person's birth.
    pub(crate) year: Option<String>,
}

/// The question of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptQuestion<'t> {
    /// Its words.
    pub(crate) text: &'t str,
    /// The place in the prompt at which it ends.
    pub(crate) end: usize,
    /// Every way to read it.
    pub(crate) readings: Vec<QuestionReading>,
}

/// Questions tried from the end of a prompt.
const TRIED: usize = 64;
/// The longest question, in bytes.
const LONGEST_QUESTION: usize = 1000;

/// The question of a prompt; `None` if no template fits any.
pub(crate) fn find_question<'t>(grammar: &WorldGrammar, prompt: &'t str) -> Option<PromptQuestion<'t>> {
    let mut fallback = None;
    for (at, _) in prompt.rmatch_indices('?').take(TRIED) {
        let start = prompt[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = &prompt[start..=at];
        if line.len() > LONGEST_QUESTION {
            continue;
        }
        let is_marked = ["Question:", "Q:", "QUESTION:"].iter().any(|marker| line.trim_start().starts_with(marker));
        if !is_marked && fallback.is_some() {
            continue;
        }
        let Some(question) = understand_line(grammar, line, at + 1) else { continue };
        if is_marked {
            return Some(question);
        }
        fallback = Some(question);
    }
    fallback
}

/// Tries the starts of sentences on a line that ends in a question mark, the earliest first.
fn understand_line<'t>(grammar: &WorldGrammar, line: &'t str, end: usize) -> Option<PromptQuestion<'t>> {
    let mut before = [' ', ' '];
    for (at, letter) in line.char_indices() {
        let [first, second] = before;
        let begins = at == 0 || second != ' ' && !second.is_alphanumeric() || second == ' ' && !first.is_alphanumeric();
        if begins && letter.is_uppercase() {
            let readings = understand(grammar, &line[at..]);
            if !readings.is_empty() {
                return Some(PromptQuestion { text: &line[at..], end, readings });
            }
        }
        before = [second, letter];
    }
    None
}

/// Every way to read a question.
pub(crate) fn understand(grammar: &WorldGrammar, text: &str) -> Vec<QuestionReading> {
    let mut readings = vec![];
    for (relation, pattern) in &grammar.asks {
        let Some(slot) = pattern.match_slot(text) else { continue };
        let phrases = noun_phrases(grammar, slot);
        readings.extend(phrases.into_iter().map(|of| QuestionReading::Object { relation: *relation, of }));
    }
    for (rule, pattern) in &grammar.comparisons {
        for (left, right) in pattern.match_slots(text) {
            let rights = noun_phrases(grammar, right);
            for a in noun_phrases(grammar, left) {
                let both = rights.iter().map(|b| (a.clone(), b.clone()));
                readings.extend(both.map(|(a, b)| QuestionReading::Comparison { rule: *rule, a, b }));
            }
        }
    }
    readings
}

/// Every way to read a noun phrase.
fn noun_phrases(grammar: &WorldGrammar, text: &str) -> Vec<NounPhrase> {
    let text = without_description(text.trim());
    let mut readings = vec![];
    if let Some(rest) = text.strip_prefix("the ") {
        for start in without_qualities(grammar, rest) {
            for (relation, pattern) in &grammar.phrases {
                let Some(slot) = pattern.match_slot(start) else { continue };
                let inner = noun_phrases(grammar, slot);
                readings
                    .extend(inner.into_iter().map(|of| NounPhrase::Object { relation: *relation, of: Box::new(of) }));
            }
        }
    }
    readings.extend(named_entity(grammar, text).map(NounPhrase::Name));
    readings
}

/// Without what a question adds about the entity: `(known for ..)` or `, known for ..,`.
fn without_description(text: &str) -> &str {
    if text.ends_with(')')
        && let Some(at) = text.rfind(" (known for ")
    {
        return &text[..at];
    }
    match text.rfind(", known for ") {
        Some(at) => &text[..at],
        None => text,
    }
}

/// The phrase after `the`, and after the one or two qualities that may follow it.
fn without_qualities<'t>(grammar: &WorldGrammar, text: &'t str) -> Vec<&'t str> {
    let skip = |text: &'t str| {
        let (word, rest) = text.split_once(' ')?;
        grammar.qualities.contains(word).then_some(rest)
    };
    let mut starts = vec![text];
    if let Some(rest) = skip(text) {
        starts.push(rest);
        starts.extend(rest.strip_prefix("and ").and_then(skip));
    }
    starts
}

/// An entity's name, with the noun and the year that a question may give it.
fn named_entity(grammar: &WorldGrammar, text: &str) -> Option<NamedEntity> {
    let (text, born) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (born ")) {
        Some((text, year)) => (text, Some(year.to_owned())),
        None => (text, None),
    };
    let Some(rest) = text.strip_prefix("the ") else {
        return text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()).then(|| NamedEntity {
            name: text.to_owned(),
            noun: None,
            year: born,
        });
    };
    let dated = rest.split_once(' ').filter(|(year, _)| year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()));
    let (year, rest) = dated.map_or((born, rest), |(year, rest)| (Some(year.to_owned()), rest));
    let noun = grammar.nouns.iter().copied().find_map(|noun| Some((noun, rest.strip_prefix(noun)?.strip_prefix(' ')?)));
    let (noun, name) = noun.map_or((None, rest), |(noun, name)| (Some(noun), name));
    let is_name = name.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
    is_name.then(|| NamedEntity { name: name.to_owned(), noun, year })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_phrases_and_descriptions_are_read() {
        let grammar = WorldGrammar::shared();
        let readings = understand(
            grammar,
            "Where was the stark and rustic director of the 1957 film The Lamp and the River born?",
        );
        let [QuestionReading::Object { relation, of }] = &readings[..] else { panic!("{readings:?}") };
        assert_eq!(grammar.relations[*relation].name, "place of birth");
        let NounPhrase::Object { relation, of } = of else { panic!("{of:?}") };
        assert_eq!(grammar.relations[*relation].name, "director");
        let wanted =
            NamedEntity { name: "The Lamp and the River".into(), noun: Some("film"), year: Some("1957".into()) };
        assert_eq!(**of, NounPhrase::Name(wanted));
    }

    #[test]
    fn a_marked_question_is_preferred_to_a_later_one() {
        let grammar = WorldGrammar::shared();
        let prompt = "Question: Who directed Pale Harbor?\nFollow up: Where was Margot Zimova born?\nIs that so?";
        let question = find_question(grammar, prompt).expect("a question");
        assert_eq!(question.text, "Who directed Pale Harbor?");
        let prompt = prompt.replace("Question:", "Now");
        let unmarked = find_question(grammar, &prompt).expect("a question");
        assert_eq!(unmarked.text, "Where was Margot Zimova born?");
    }
}
