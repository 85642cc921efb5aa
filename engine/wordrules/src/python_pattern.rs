//! A pattern of Python, compiled: its leftmost match, and all of them.
//!
//! Python takes the leftmost match and, among those that begin there, that of the first alternative. A tokenizer's
//! pattern has hundreds of alternatives, of which few look around; one of those would send the whole pattern to the
//! backtracking engine. So neighbours that an automaton can search are compiled together, the others one by one, and
//! the leftmost match of all, with the first of its kind, is the pattern's.

use crate::error::{MOST_STEPS, WordCutError};
use crate::python_regex::{DollarPlace, PatternAlternative, PatternMistake, translate};
use fancy_regex::{Error, Regex, RegexBuilder};
use std::ops::Range;
use std::sync::OnceLock;

/// The greatest size of a compiled alternative, in bytes.
const MOST_SIZE: usize = 64 << 20;

/// Longest beginning of a chunk in an error, in characters.
const SHOWN_CHUNK: usize = 40;

/// The use of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternUse {
    /// Python's `search`, `finditer`.
    Search,
    /// Python's `match`, from the beginning of the text.
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct PythonPattern {
    key: &'static str,
    usual: AlternativeSet,
    /// For texts that end in a line break, if it matters there.
    before_break: Option<AlternativeSet>,
}

/// Compiled alternatives, in their order.
#[derive(Debug)]
struct AlternativeSet {
    regexes: Vec<Regex>,
    /// The same without empty matches at the place where a search begins; compiled on first use.
    advancing: OnceLock<Result<Vec<Regex>, String>>,
}

impl PythonPattern {
    /// Compiles the pattern that the file has under `key`.
    pub(crate) fn compile(key: &'static str, pattern: &str, used: PatternUse) -> Result<Self, PatternMistake> {
        let usual = translate(pattern, DollarPlace::End)?;
        let before_break = translate(pattern, DollarPlace::EndOrLastBreak)?;
        let differs = usual != before_break;
        Ok(Self {
            key,
            usual: AlternativeSet::compile(usual, used)?,
            before_break: differs.then(|| AlternativeSet::compile(before_break, used)).transpose()?,
        })
    }

    /// The place of the first match.
    pub(crate) fn find(&self, text: &str) -> Result<Option<Range<usize>>, WordCutError> {
        self.find_from(text, 0, false)
    }

    /// The places of all matches, as Python's `finditer` gives them: an empty one may follow another match, and behind
    /// an empty one, at the same place, a longer one.
    pub(crate) fn find_all(&self, text: &str) -> Result<Vec<Range<usize>>, WordCutError> {
        let mut found = Vec::new();
        let (mut from, mut advance) = (0, false);
        while let Some(place) = self.find_from(text, from, advance)? {
            (from, advance) = (place.end, place.is_empty());
            found.push(place);
        }
        Ok(found)
    }

    fn find_from(&self, text: &str, from: usize, advance: bool) -> Result<Option<Range<usize>>, WordCutError> {
        let set = if text.ends_with('\n') { self.before_break.as_ref().unwrap_or(&self.usual) } else { &self.usual };
        set.find_from(text, from, advance).map_err(|reason| WordCutError::GaveUp {
            key: self.key,
            chunk: text.chars().take(SHOWN_CHUNK).collect(),
            reason,
        })
    }
}

impl AlternativeSet {
    fn compile(alternatives: Vec<PatternAlternative>, used: PatternUse) -> Result<Self, PatternMistake> {
        let mut regexes = Vec::new();
        for neighbours in alternatives.chunk_by(|a, b| a.plain && b.plain) {
            let regex = compile_together(neighbours, used);
            // The error of one alternative has its place.
            let regex = regex.map_err(|reason| {
                let alone = |one| compile_together(std::slice::from_ref(one), used).err().map(|reason| (one, reason));
                let (one, reason) = neighbours.iter().find_map(alone).unwrap_or((&neighbours[0], reason));
                PatternMistake { position: one.position, reason }
            })?;
            regexes.push(regex);
        }
        Ok(Self { regexes, advancing: OnceLock::new() })
    }

    fn find_from(&self, text: &str, from: usize, advance: bool) -> Result<Option<Range<usize>>, String> {
        let regexes = if advance { self.advancing()? } else { &self.regexes[..] };
        let mut first: Option<Range<usize>> = None;
        for regex in regexes {
            let found = regex.find_from_pos(text, from).map_err(|error| error.to_string())?;
            let earlier = found.filter(|found| first.as_ref().is_none_or(|first| found.start() < first.start));
            first = earlier.map(|found| found.range()).or(first);
            if first.as_ref().is_some_and(|first| first.start == from) {
                break;
            }
        }
        Ok(first)
    }

    fn advancing(&self) -> Result<&[Regex], String> {
        // `\G` is the place where the search begins: a match that begins and ends there is empty.
        let compile = || self.regexes.iter().map(|regex| compile(&format!("(?:{})(?!\\G)", regex.as_str()))).collect();
        self.advancing.get_or_init(compile).as_deref().map_err(Clone::clone)
    }
}

fn compile_together(alternatives: &[PatternAlternative], used: PatternUse) -> Result<Regex, String> {
    let texts: Vec<&str> = alternatives.iter().map(|one| one.text.as_str()).collect();
    match used {
        PatternUse::Search => compile(&texts.join("|")),
        PatternUse::Match => compile(&format!("\\A(?:{})", texts.join("|"))),
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text).backtrack_limit(MOST_STEPS).delegate_size_limit(MOST_SIZE).build();
    // The place is one in the translated text.
    built.map_err(|error| if let Error::ParseError(_, kind) = error { kind.to_string() } else { error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(pattern: &str) -> PythonPattern {
        PythonPattern::compile("infix_finditer", pattern, PatternUse::Search).unwrap()
    }

    fn found<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
        search(pattern).find(text).unwrap().map(|place| &text[place])
    }

    fn all(pattern: &str, text: &str) -> Vec<(usize, usize)> {
        search(pattern).find_all(text).unwrap().into_iter().map(|place| (place.start, place.end)).collect()
    }

    #[test]
    fn the_leftmost_match_of_the_first_alternative_counts() {
        assert_eq!(found("(?<=b)c|a|ab|(?=a)abc", "xabc"), Some("a"));
        assert_eq!(found("(?=a)abc|a|ab", "xabc"), Some("abc"));
        assert_eq!(found("c|(?<=a)b", "abc"), Some("b"));
        assert_eq!(found("d|(?<=a)c", "abc"), None);
    }

    #[test]
    fn a_dollar_is_also_before_the_last_line_break() {
        assert_eq!(search("b$").find("ab\n").unwrap(), Some(1..2));
        assert_eq!(search("b$").find("ab").unwrap(), Some(1..2));
        assert_eq!(search("b\\Z").find("ab\n").unwrap(), None);
        assert_eq!(search("b$").find("ab\n\n").unwrap(), None);
    }

    #[test]
    fn matches_follow_each_other_as_in_python() {
        // [m.span() for m in re.finditer(PATTERN, TEXT)]
        assert_eq!(all("x*", "axb"), [(0, 0), (1, 2), (2, 2), (3, 3)]);
        assert_eq!(all("(?=x)|x", "axxb"), [(1, 1), (1, 2), (2, 2), (2, 3)]);
        assert_eq!(all("", "é"), [(0, 0), (2, 2)]);
        assert_eq!(all("-|(?<=a)b", "ab-ab"), [(1, 2), (2, 3), (4, 5)]);
    }

    #[test]
    fn words_and_whitespace_are_those_of_python() {
        assert_eq!(found("\\w+", "\u{301}²é_"), Some("²é_"));
        assert_eq!(found("\\s", "a\u{1c}"), Some("\u{1c}"));
        assert_eq!(found("\\S+", "\u{85}a\u{200b}"), Some("a\u{200b}"));
        assert_eq!(found("a\\b", "a\u{301}"), Some("a"), "a combining mark is no part of a word");
        assert_eq!(found("[^\\W\\d]+", "4٤ab"), Some("ab"));
        assert_eq!(found("[][&&~~a-]+", "x]&[-~a"), Some("]&[-~a"));
        assert_eq!(found("(?P<q>['\"])a(?P=q)", "'a\"a\""), Some("\"a\""));
        assert_eq!(found("(?i)STRASSE|é", "É"), Some("É"));
    }

    #[test]
    fn a_match_begins_at_the_beginning() {
        let pattern = PythonPattern::compile("token_match", "a|(?<=x)b", PatternUse::Match).unwrap();
        assert_eq!(pattern.find("ab").unwrap(), Some(0..1));
        assert_eq!(pattern.find("xb").unwrap(), None);
    }

    #[test]
    fn an_alternative_that_does_not_compile_has_its_place() {
        let mistake = PythonPattern::compile("infix_finditer", "a|b|*c|d", PatternUse::Search).unwrap_err();
        assert_eq!(mistake.position, 4, "{mistake:?}");
    }

    #[test]
    fn an_endless_search_is_an_error() {
        let pattern = search("(?:(?=a)a|a)*b");
        let error = pattern.find(&"a".repeat(60)).unwrap_err();
        let WordCutError::GaveUp { key, chunk, .. } = error;
        assert_eq!((key, chunk.as_str()), ("infix_finditer", "a".repeat(SHOWN_CHUNK).as_str()));
    }
}
