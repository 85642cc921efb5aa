//! Analyzers: turn text into terms.
//!
//! | name | rule |
//! | --- | --- |
//! | `word` | Python's `re.findall(r"\w+", text.lower())` |
//! | `whitespace` | Python's `text.lower().split()` |
//! | `english` | Lucene's `EnglishAnalyzer`, called `english` in Elasticsearch |

mod english;
mod porter;

use std::{fmt, str::FromStr};

use hopeval_pytext as pytext;
use serde::{Deserialize, Serialize};

/// A way to turn text into terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Analyzer {
    /// `re.findall(r"\w+", text.lower())`.
    #[default]
    Word,
    /// `text.lower().split()`.
    Whitespace,
    /// Unicode words (UAX #29), without a possessive 's, in lower case, without Lucene's 33 English stop words, with
    /// Porter's original stemmer.
    English,
}

impl Analyzer {
    /// Every analyzer, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Word, Self::Whitespace, Self::English];

    /// The name in settings files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Whitespace => "whitespace",
            Self::English => "english",
        }
    }

    /// The terms of `text`, in order, with repetitions.
    pub fn terms(self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.each_term(text, &mut String::new(), |term| terms.push(String::from_utf8_lossy(term).into_owned()));
        terms
    }

    /// Calls `emit` with the bytes of each term. `lower` is scratch.
    pub(crate) fn each_term(self, text: &str, lower: &mut String, mut emit: impl FnMut(&[u8])) {
        match self {
            Self::Word => {
                lower.clear();
                pytext::lower_into(text, lower);
                if lower.is_ascii() {
                    each_run(lower.as_bytes(), |byte| byte.is_ascii_alphanumeric() || byte == b'_', emit);
                } else {
                    pytext::words(lower).for_each(|word| emit(word.as_bytes()));
                }
            }
            Self::Whitespace => {
                lower.clear();
                pytext::lower_into(text, lower);
                if lower.is_ascii() {
                    each_run(lower.as_bytes(), |byte| !matches!(byte, b'\t'..=b'\r' | 0x1c..=0x1f | b' '), emit);
                } else {
                    pytext::split(lower).for_each(|word| emit(word.as_bytes()));
                }
            }
            Self::English => english::each_term(text, lower, emit),
        }
    }
}

/// Calls `emit` with each longest run of bytes for which `inside` holds.
fn each_run(bytes: &[u8], inside: impl Fn(u8) -> bool, mut emit: impl FnMut(&[u8])) {
    let mut start = None;
    for (at, &byte) in bytes.iter().enumerate() {
        match (inside(byte), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                emit(&bytes[from..at]);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        emit(&bytes[from..]);
    }
}

impl fmt::Display for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name of no known analyzer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no analyzer is called {name:?}; there are word, whitespace, english")]
pub struct UnknownAnalyzer {
    /// The name.
    pub name: String,
}

impl FromStr for Analyzer {
    type Err = UnknownAnalyzer;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|a| a.name() == name).ok_or_else(|| UnknownAnalyzer { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_pythons() {
        // Each expectation is the output of CPython 3.11.
        assert_eq!(Analyzer::Word.terms("Don't_stop—the 2nd Café, x²!"), ["don", "t_stop", "the", "2nd", "café", "x²"]);
        assert_eq!(Analyzer::Word.terms("İstanbul ΑΣ"), ["i", "stanbul", "ας"]);
        assert_eq!(Analyzer::Word.terms("  .. "), Vec::<String>::new());
        assert_eq!(Analyzer::Word.terms("last word"), ["last", "word"]);
    }

    #[test]
    fn whitespace_is_pythons() {
        assert_eq!(Analyzer::Whitespace.terms("A-b\u{1c}C,\td\u{a0}E"), ["a-b", "c,", "d", "e"]);
        assert_eq!(Analyzer::Whitespace.terms("A-b\u{1c}C,\td E."), ["a-b", "c,", "d", "e."]);
    }

    #[test]
    fn names_round_trip() {
        for analyzer in Analyzer::ALL {
            assert_eq!(analyzer.to_string().parse(), Ok(analyzer));
            assert_eq!(serde_json::to_string(&analyzer).unwrap(), format!("\"{analyzer}\""));
        }
        assert!("porter".parse::<Analyzer>().unwrap_err().to_string().contains("word, whitespace, english"));
    }
}
