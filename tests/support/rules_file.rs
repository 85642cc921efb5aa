//! Writes a small file of word rules as spaCy's tokenizer does: patterns and special cases made up for tests.
//!
//! The file is shared by the tests of several crates.

use serde::Serialize;
use std::collections::BTreeMap;

/// spaCy's numbers of a word's text and of its normal form.
const ORTH: u64 = 65;
const NORM: u64 = 67;

/// The fields of the file, in spaCy's order.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RulesFile {
    pub(crate) vocab: BTreeMap<String, u32>,
    pub(crate) prefix_search: Option<String>,
    pub(crate) suffix_search: Option<String>,
    pub(crate) infix_finditer: Option<String>,
    pub(crate) token_match: Option<String>,
    pub(crate) url_match: Option<String>,
    pub(crate) exceptions: BTreeMap<String, Vec<BTreeMap<u64, String>>>,
    pub(crate) faster_heuristics: bool,
}

impl RulesFile {
    /// Rules that keep initials and abbreviations whole, and cut off possessives and units.
    pub(crate) fn small() -> Self {
        let text = |pattern: &str| Some(pattern.to_owned());
        let mut file = Self {
            vocab: BTreeMap::from([("size".to_owned(), 1)]),
            prefix_search: text("^[(\"\\$]|^'|^\\+(?![0-9])"),
            suffix_search: text("[)\",;:?!]$|'$|'s$|(?<=[0-9])km$|(?<=[a-z])\\.$|(?<=\\))\\.$"),
            infix_finditer: text("--+|(?<=[0-9])[\\-+](?=[0-9])|(?<=[a-z]),(?=[a-z])|/"),
            token_match: None,
            url_match: text("(?u)^\\w+://\\S+$"),
            exceptions: BTreeMap::new(),
            faster_heuristics: true,
        };
        for words in [&["do", "n't"][..], &["St."], &[":)"], &["'s"], &["etc."]] {
            file.add_special_case(words);
        }
        file
    }

    /// Adds the special case whose words these are.
    pub(crate) fn add_special_case(&mut self, words: &[&str]) {
        let norms = |word: &&str| BTreeMap::from([(ORTH, (*word).to_owned()), (NORM, word.to_lowercase())]);
        self.exceptions.insert(words.concat(), words.iter().map(norms).collect());
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).expect("rules can be written")
    }
}
