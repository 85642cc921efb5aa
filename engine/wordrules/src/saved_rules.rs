//! Reads the file of spaCy's tokenizer: a MessagePack map of patterns and special cases.
//!
//! ```text
//!   {"vocab": bytes, "prefix_search": text or nil, "suffix_search", "infix_finditer", "token_match", "url_match",
//!    "exceptions": {CHUNK: [{65: WORD, 67: its normal form}, ..]}, "faster_heuristics": bool}
//! ```
//!
//! 65 and 67 are spaCy's numbers for ORTH and NORM. Keys that it may write besides, like `vocab`, are passed over and
//! never held in memory.

use crate::error::WordRulesError;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The key of the special cases.
const SPECIAL_CASES_KEY: &str = "exceptions";

/// spaCy's number of the attribute with a word's text.
const ORTH: u64 = 65;

/// spaCy's number of the attribute with a word's normal form.
const NORM: u64 = 67;

/// Containers within each other. The rules have 4.
const MOST_DEPTH: usize = 32;

/// The allowed form of a file of rules.
const FILE: &str = "a file that `nlp.tokenizer.to_disk(FILE)` of spaCy 3 writes, or the file `tokenizer` in the folder \
                    of `nlp.to_disk(FOLDER)`";

/// The rules as the file has them.
#[derive(Debug, PartialEq)]
pub(crate) struct SavedRules {
    pub(crate) prefix_search: Option<String>,
    pub(crate) suffix_search: Option<String>,
    pub(crate) infix_finditer: Option<String>,
    pub(crate) token_match: Option<String>,
    pub(crate) url_match: Option<String>,
    /// The words of each special case.
    pub(crate) exceptions: BTreeMap<String, Vec<String>>,
    /// Whether only special cases with an affix or a space are looked for among finished words.
    pub(crate) faster_heuristics: bool,
}

/// Reads the rules from a file's bytes; `path` is its name in errors.
pub(crate) fn read_saved_rules(bytes: &[u8], path: &Path) -> Result<SavedRules, WordRulesError> {
    let contents = |key: &str, found: String, allowed| WordRulesError::Contents {
        path: path.to_owned(),
        key: key.to_owned(),
        found,
        allowed,
    };
    if !bytes.first().is_some_and(|&first| matches!(first, 0x80..=0x8f | 0xde | 0xdf)) {
        return Err(contents("file", "no MessagePack map".to_owned(), FILE));
    }
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(MOST_DEPTH);
    let key = RefCell::new("file".to_owned());
    let saved = reader.deserialize_map(FileVisitor { key: &key });
    let saved = saved.map_err(|error| {
        let key = key.borrow();
        contents(&key, mistake(&error), allowed_values(&key))
    })?;
    if IgnoredAny::deserialize(&mut reader).is_ok() {
        return Err(contents("file", "further bytes behind the map".to_owned(), FILE));
    }
    for (chunk, words) in &saved.exceptions {
        if chunk.is_empty() || words.iter().any(String::is_empty) || words.concat() != *chunk {
            let found = format!("{chunk:?} has the words {words:?}");
            return Err(contents(SPECIAL_CASES_KEY, found, "words that are not empty and make up the special case"));
        }
    }
    Ok(saved)
}

fn mistake(error: &rmp_serde::decode::Error) -> String {
    use rmp_serde::decode::Error;
    match error {
        Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) => "the file ends within it".to_owned(),
        Error::DepthLimitExceeded => format!("more than {MOST_DEPTH} containers within each other"),
        other => other.to_string(),
    }
}

fn allowed_values(key: &str) -> &'static str {
    match key {
        "prefix_search" | "suffix_search" | "infix_finditer" | "token_match" | "url_match" => "a pattern, or nil",
        SPECIAL_CASES_KEY => "a map of texts to lists of words, each a map with ORTH (65), and NORM (67) or not",
        "faster_heuristics" => "true or false",
        _ => FILE,
    }
}

/// Reads the file's map, and keeps the current key for errors.
struct FileVisitor<'k> {
    key: &'k RefCell<String>,
}

impl<'de> Visitor<'de> for FileVisitor<'_> {
    type Value = SavedRules;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SavedRules, A::Error> {
        let mut patterns: BTreeMap<&str, Option<String>> = BTreeMap::new();
        let mut exceptions = None;
        let mut faster_heuristics = None;
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            *self.key.borrow_mut() = key.clone();
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom("it stands there twice"));
            }
            match key.as_str() {
                SPECIAL_CASES_KEY => exceptions = Some(map.next_value::<BTreeMap<String, Vec<SavedWord>>>()?),
                "faster_heuristics" => faster_heuristics = Some(map.next_value::<bool>()?),
                other => match PATTERN_KEYS.iter().find(|&&known| known == other) {
                    Some(known) => {
                        patterns.insert(known, map.next_value()?);
                    }
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        let mut pattern = |key: &'static str| {
            *self.key.borrow_mut() = key.to_owned();
            patterns.remove(key).ok_or_else(|| A::Error::custom("it is missing"))
        };
        let [prefix_search, suffix_search, infix_finditer, token_match, url_match] = PATTERN_KEYS;
        let (prefix_search, suffix_search) = (pattern(prefix_search)?, pattern(suffix_search)?);
        let (infix_finditer, token_match, url_match) =
            (pattern(infix_finditer)?, pattern(token_match)?, pattern(url_match)?);
        *self.key.borrow_mut() = SPECIAL_CASES_KEY.to_owned();
        let exceptions = exceptions.ok_or_else(|| A::Error::custom("it is missing"))?;
        let texts = |words: Vec<SavedWord>| words.into_iter().map(|SavedWord(text)| text).collect();
        Ok(SavedRules {
            prefix_search,
            suffix_search,
            infix_finditer,
            token_match,
            url_match,
            exceptions: exceptions.into_iter().map(|(chunk, words)| (chunk, texts(words))).collect(),
            // Versions before this choice did what is now its default.
            faster_heuristics: faster_heuristics.unwrap_or(true),
        })
    }
}

/// The keys of patterns. All of them are written, with nil for a pattern that a language does not have.
const PATTERN_KEYS: [&str; 5] = ["prefix_search", "suffix_search", "infix_finditer", "token_match", "url_match"];

/// The text of a special case's word.
struct SavedWord(String);

impl<'de> Deserialize<'de> for SavedWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SavedWordVisitor)
    }
}

struct SavedWordVisitor;

impl<'de> Visitor<'de> for SavedWordVisitor {
    type Value = SavedWord;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of a word's attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SavedWord, A::Error> {
        let mut text = None;
        while let Some(attribute) = map.next_key::<WordAttribute>()? {
            match attribute {
                WordAttribute::Orth => text = Some(map.next_value::<String>()?),
                WordAttribute::Norm => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        text.map(SavedWord).ok_or_else(|| A::Error::custom("a word without ORTH"))
    }
}

/// An attribute of a special case's word. spaCy writes its number, or the name that a user gave it by.
enum WordAttribute {
    Orth,
    Norm,
}

impl<'de> Deserialize<'de> for WordAttribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordAttributeVisitor)
    }
}

struct WordAttributeVisitor;

impl Visitor<'_> for WordAttributeVisitor {
    type Value = WordAttribute;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attribute ORTH (65) or NORM (67)")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<WordAttribute, E> {
        match number {
            ORTH => Ok(WordAttribute::Orth),
            NORM => Ok(WordAttribute::Norm),
            other => Err(E::custom(format!("a word with the attribute {other}"))),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<WordAttribute, E> {
        self.visit_u64(u64::try_from(number).map_err(|_| E::custom(format!("a word with the attribute {number}")))?)
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<WordAttribute, E> {
        match name.to_ascii_uppercase().as_str() {
            "ORTH" => Ok(WordAttribute::Orth),
            "NORM" => Ok(WordAttribute::Norm),
            _ => Err(E::custom(format!("a word with the attribute {name:?}"))),
        }
    }
}
