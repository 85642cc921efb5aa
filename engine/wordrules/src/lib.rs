//! Cuts texts into words by the rules that a user's spaCy wrote into a file.
//!
//! EfficientRAG's labeler and filter read words of spaCy's rule-based tokenizer. Its patterns and special cases are
//! data of a language and of a version of spaCy, and none of them stands here: they come from the file `tokenizer` that
//! `nlp.to_disk(FOLDER)` and `nlp.tokenizer.to_disk(FILE)` write. This crate has the algorithm. It knows no models, no
//! passages and no jobs.
//!
//! ```text
//!   file --saved_rules--> patterns as texts --python_regex--> fancy-regex's syntax --python_pattern--> searches
//!                         special cases ----special_cases--> chunks by text, phrases by first word
//!   text --whitespace--> chunks --affixes (with chunk_cache)--> words --special_cases--> words
//! ```
//!
//! All words are slices of the text. Only single spaces between other characters are no part of a word: further
//! whitespace is a word of its own, as in spaCy. What a special case says besides its words' texts has no effect on
//! them, and is ignored.
//!
//! One habit of spaCy is left out: chunks of the special case that it loads last stay in its cache as they were cut
//! without special cases. That can only be seen if this special case has whitespace.

mod affixes;
mod chunk_cache;
mod error;
mod python_pattern;
mod python_regex;
mod saved_rules;
mod special_cases;

pub use error::{MOST_BYTES, MOST_STEPS, WordCutError, WordRulesError};

use affixes::AffixRules;
use chunk_cache::ChunkCache;
use hopeval_pytext::is_space;
use python_pattern::{PatternUse, PythonPattern};
use saved_rules::SavedRules;
use special_cases::SpecialCases;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// Version of the digest. It rises when words change for other reasons than the rules.
const VERSION: &str = "wordrules 1";

/// The rules of a tokenizer, ready to cut texts.
#[derive(Debug)]
pub struct WordRules {
    affixes: AffixRules,
    special_cases: SpecialCases,
    cache: ChunkCache,
    digest: String,
}

impl WordRules {
    /// Reads the rules from a file that spaCy wrote.
    ///
    /// # Errors
    /// [`WordRulesError`], which names the file.
    pub fn open(path: &Path) -> Result<Self, WordRulesError> {
        let unreadable = |source| WordRulesError::Unreadable { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(WordRulesError::TooLarge { path: path.to_owned() });
        }
        Self::read(&bytes, path)
    }

    /// The rules in the bytes of a file; `path` is its name in errors.
    ///
    /// # Errors
    /// [`WordRulesError`], which names the file.
    pub fn read(bytes: &[u8], path: &Path) -> Result<Self, WordRulesError> {
        let saved = saved_rules::read_saved_rules(bytes, path)?;
        let pattern = |key: &'static str, text: &Option<String>, used: PatternUse| {
            let compiled = text.as_ref().map(|text| PythonPattern::compile(key, text, used));
            compiled.transpose().map_err(|mistake| WordRulesError::Pattern {
                path: path.to_owned(),
                key,
                position: mistake.position,
                reason: mistake.reason,
            })
        };
        let affixes = AffixRules {
            prefix: pattern("prefix_search", &saved.prefix_search, PatternUse::Search)?,
            suffix: pattern("suffix_search", &saved.suffix_search, PatternUse::Search)?,
            infix: pattern("infix_finditer", &saved.infix_finditer, PatternUse::Search)?,
            token: pattern("token_match", &saved.token_match, PatternUse::Match)?,
            url: pattern("url_match", &saved.url_match, PatternUse::Match)?,
        };
        let (digest, few) = (digest(&saved), saved.faster_heuristics);
        let special_cases = SpecialCases::prepare(saved.exceptions, few, &affixes)
            .map_err(|source| WordRulesError::SpecialCase { path: path.to_owned(), source })?;
        Ok(Self { affixes, special_cases, cache: ChunkCache::default(), digest })
    }

    /// Hash of all that decides about words. Files of equal rules have equal digests, whatever else they hold.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The words of `text`, in order.
    ///
    /// # Errors
    /// [`WordCutError`], if a pattern takes too long.
    pub fn words<'t>(&self, text: &'t str) -> Result<Vec<&'t str>, WordCutError> {
        let words =
            self.special_cases.apply(text, cut_chunks(text, |chunk, at, words| self.cut_chunk(chunk, at, words))?);
        Ok(words.into_iter().map(|word| &text[word]).collect())
    }

    /// Appends the words of a chunk that begins at `at`.
    fn cut_chunk(&self, chunk: &str, at: usize, words: &mut Vec<Range<usize>>) -> Result<(), WordCutError> {
        if let Some(lengths) = self.special_cases.word_lengths(chunk) {
            append_words(at, lengths.iter().copied(), words);
        } else if !self.cache.with_lengths(chunk, |lengths| append_words(at, lengths, words)) {
            let lengths = self.affixes.cut(chunk, |part| self.special_cases.word_lengths(part))?;
            self.cache.keep(chunk, &lengths);
            append_words(at, lengths.iter().copied(), words);
        }
        Ok(())
    }
}

/// Calls `cut` with each chunk of `text` and its place: a run of whitespace or of other characters. The space between
/// two other characters, and one behind them, belongs to no chunk.
fn cut_chunks<'t>(
    text: &'t str,
    mut cut: impl FnMut(&'t str, usize, &mut Vec<Range<usize>>) -> Result<(), WordCutError>,
) -> Result<Vec<Range<usize>>, WordCutError> {
    let mut words = Vec::with_capacity(text.len() / 5 + 1);
    let (mut start, mut in_space) = (0, text.starts_with(is_space));
    for (at, c) in text.char_indices() {
        if is_space(c) == in_space {
            continue;
        }
        if start < at {
            cut(&text[start..at], start, &mut words)?;
        }
        start = if c == ' ' { at + 1 } else { at };
        in_space = !in_space;
    }
    if start < text.len() {
        cut(&text[start..], start, &mut words)?;
    }
    Ok(words)
}

/// Appends words that stand behind each other from `at` on.
fn append_words(mut at: usize, lengths: impl Iterator<Item = usize>, words: &mut Vec<Range<usize>>) {
    words.extend(lengths.map(|length| {
        let word = at..at + length;
        at = word.end;
        word
    }));
}

/// The hash of [`WordRules::digest`]. Every text is hashed with its length, so that no two lists of texts are alike.
fn digest(saved: &SavedRules) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    add(VERSION);
    for pattern in
        [&saved.prefix_search, &saved.suffix_search, &saved.infix_finditer, &saved.token_match, &saved.url_match]
    {
        add(if pattern.is_some() { "pattern" } else { "none" });
        add(pattern.as_deref().unwrap_or_default());
    }
    add(if saved.faster_heuristics { "few phrases" } else { "all phrases" });
    for (chunk, words) in &saved.exceptions {
        add(chunk);
        add(&words.len().to_string());
        words.iter().for_each(|word| add(word));
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Vec<&str> {
        let whole = |chunk: &str, at: usize, words: &mut Vec<Range<usize>>| {
            words.push(at..at + chunk.len());
            Ok(())
        };
        cut_chunks(text, whole).unwrap().into_iter().map(|word| &text[word]).collect()
    }

    #[test]
    fn single_spaces_are_no_chunk_and_other_whitespace_is() {
        assert_eq!(chunks("a b"), ["a", "b"]);
        assert_eq!(chunks(" a  b "), [" ", "a", " ", "b"]);
        assert_eq!(chunks("a \n b\u{a0}c  "), ["a", "\n ", "b", "\u{a0}", "c", " "]);
        assert_eq!(chunks("  "), ["  "]);
        assert_eq!(chunks(""), [""; 0]);
        assert_eq!(chunks("a\t "), ["a", "\t "]);
    }
}
