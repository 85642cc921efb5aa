//! Cuts a text into words, the units of labels for EfficientRAG's models.
//!
//! The services of these models read the same words: Python's `re.findall(r"\w+|[^\w\s]", text)`, less commas (the
//! authors' code drops every token with a comma as its lemma). Models tokenise each word on its own.

use hopeval_pytext::{is_word, lower_into, words_and_marks};

/// A word and where it begins in its text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextWord<'t> {
    /// As the text has it.
    pub text: &'t str,
    /// Its first byte.
    pub start: usize,
}

impl TextWord<'_> {
    /// The byte behind it.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The words of `text`, in order.
pub fn split_words(text: &str) -> Vec<TextWord<'_>> {
    let mut behind = 0;
    let placed = words_and_marks(text).map(|word| {
        // Only whitespace stands between two words, so the first place is the word's own.
        let start = behind + text[behind..].find(word).expect("a word stands in its text; this is a bug");
        behind = start + word.len();
        TextWord { text: word, start }
    });
    placed.filter(|word| word.text != ",").collect()
}

/// The words of `text`, owned.
pub fn owned_words(text: &str) -> Vec<String> {
    split_words(text).into_iter().map(|word| word.text.to_owned()).collect()
}

/// The words of `text` in lower case.
pub(crate) fn folded_words(text: &str) -> Vec<String> {
    split_words(text).into_iter().map(|word| lower_case(word.text)).collect()
}

/// A word in lower case, by Python's rule.
pub(crate) fn lower_case(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    lower_into(word, &mut out);
    out
}

/// A name without the part that tells namesakes apart: `Springfield (Dalia)` and `Springfield, Dalia` are both
/// `Springfield`.
pub(crate) fn bare_name(name: &str) -> &str {
    let name = name.split_once(" (").map_or(name, |(name, _)| name);
    name.split_once(", ").map_or(name, |(name, _)| name)
}

/// Words without content, in lower case.
const FUNCTION_WORDS: &[&str] = &[
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "from", "by", "with", "and", "or", "nor", "but", "is",
    "was", "are", "were", "be", "been", "being", "did", "do", "does", "done", "has", "have", "had", "who", "whom",
    "whose", "what", "when", "where", "which", "why", "how", "that", "this", "these", "those", "it", "its", "he",
    "she", "his", "her", "they", "their", "as", "s", "t", "there", "than", "then", "into", "also", "one", "same",
    "both", "between",
];

/// Whether a word, in lower case, has content: no function word, no punctuation.
pub(crate) fn is_content(word: &str) -> bool {
    word.chars().any(is_word) && !FUNCTION_WORDS.contains(&word)
}

/// Endings of words behind their common stem.
const ENDINGS: &[&str] = &[
    "", "s", "es", "e", "d", "ed", "r", "er", "or", "rs", "ers", "ors", "n", "en", "an", "ion", "ing", "al", "ial",
    "ly", "red", "ten", "ist", "ian",
];

/// Forms of a final `y` with an ending.
const ENDINGS_OF_Y: &[&str] = &["ies", "ied", "ier"];

/// Endings of the adjectives and of the names of places, behind their common stem.
const ENDINGS_OF_ADJECTIVES: &[&str] = &["n", "an", "ian", "ese", "uese", "ish", "i"];
const ENDINGS_OF_PLACES: &[&str] = &["", "a", "y", "o", "e", "en", "ey", "al", "ain", "um"];

/// The ends of two words behind their common stem, if it has at least four letters.
fn behind_stem<'w>(a: &'w str, b: &'w str) -> Option<(&'w str, &'w str)> {
    let shared = a.chars().zip(b.chars()).take_while(|(x, y)| x == y && x.is_alphabetic());
    let (letters, bytes) = shared.fold((0, 0), |(letters, bytes), (x, _)| (letters + 1, bytes + x.len_utf8()));
    (letters >= 4).then(|| (&a[bytes..], &b[bytes..]))
}

/// Whether two words, in lower case, are forms of one word: equal, or equal up to common endings after a stem of at
/// least four letters (`star` and `starred`, `founder` and `founded`, but not `country` and `counted`).
pub(crate) fn is_form_of(a: &str, b: &str) -> bool {
    a == b
        || behind_stem(a, b).is_some_and(|ends| match ends {
            ("y", other) | (other, "y") => ENDINGS_OF_Y.contains(&other),
            (one, other) => ENDINGS.contains(&one) && ENDINGS.contains(&other),
        })
}

/// Whether a word, in lower case, is the adjective of a place: `korean` of `korea`, `german` of `germany`, `swedish` of
/// `sweden`.
pub(crate) fn is_adjective_of(word: &str, place: &str) -> bool {
    behind_stem(word, place).is_some_and(|(end, of_place)| {
        (end, of_place) == ("", "y") || (ENDINGS_OF_ADJECTIVES.contains(&end) && ENDINGS_OF_PLACES.contains(&of_place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_pythons_less_commas() {
        assert_eq!(
            owned_words("KGOT (AM): 1,000 kW – the team’s o'clock, naïve_x."),
            [
                "KGOT", "(", "AM", ")", ":", "1", "000", "kW", "–", "the", "team", "’", "s", "o", "'", "clock",
                "naïve_x", "."
            ]
        );
        assert!(owned_words(" \u{a0}, ").is_empty());
        let places: Vec<usize> = split_words("a, ab b a\u{a0}a").iter().map(|word| word.start).collect();
        assert_eq!(places, [0, 3, 6, 8, 11]);
    }

    #[test]
    fn endings_make_no_other_word() {
        assert!(is_form_of("star", "starred") && is_form_of("founder", "founded") && is_form_of("died", "died"));
        assert!(is_form_of("marry", "married") && is_form_of("location", "located") && is_form_of("writer", "written"));
        assert!(!is_form_of("birth", "born") && !is_form_of("die", "died") && !is_form_of("1901", "1902"));
        let others = [("country", "counted"), ("county", "country"), ("county", "counted"), ("19012", "1901")];
        assert!(!others.iter().any(|(a, b)| is_form_of(a, b)));
    }

    #[test]
    fn adjectives_of_places_are_known_by_their_endings() {
        let pairs = [("korean", "korea"), ("german", "germany"), ("swedish", "sweden"), ("portuguese", "portugal")];
        assert!(pairs.iter().all(|(word, place)| is_adjective_of(word, place)));
        let others = [
            ("parish", "paris"),
            ("korea", "korea"),
            ("french", "france"),
            ("indian", "indiana"),
            ("martian", "martin"),
        ];
        assert!(!others.iter().any(|(word, place)| is_adjective_of(word, place)));
    }

    #[test]
    fn names_are_bare() {
        assert_eq!(["A (b), c", "A, b (c)", "A"].map(bare_name), ["A", "A", "A"]);
    }
}
