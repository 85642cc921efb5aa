//! Punctuation of embedded passages as Contriever's scripts write it: dashes, quotes and dots of ASCII.
//!
//! The characters are those of its `normalize_text.py` (after ChemDataExtractor's `chemdataextractor.text.normalize`),
//! which EfficientRAG's authors apply to passages and not to queries.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The punctuation of embedded passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassagePunctuation {
    /// As the passage has it.
    #[default]
    AsWritten,
    /// Of ASCII.
    Ascii,
}

impl PassagePunctuation {
    /// Whether it is the default, which is not written.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The text with this punctuation.
    pub(super) fn apply(self, text: &str) -> Cow<'_, str> {
        let stays = |character: char| replacement(character).is_none();
        if self.is_default() || (text.chars().all(stays) && !has_dots(text)) {
            return Cow::Borrowed(text);
        }
        let mut written = String::with_capacity(text.len());
        for character in text.chars() {
            match replacement(character) {
                Some(replacement) => written.push_str(replacement),
                None => written.push(character),
            }
        }
        Cow::Owned(if has_dots(&written) { written.replace(SPACED_DOTS, " ... ") } else { written })
    }
}

const SPACED_DOTS: &str = " . . . ";

fn has_dots(text: &str) -> bool {
    text.contains(SPACED_DOTS)
}

/// The text in the place of a character; `None` for one that stays.
fn replacement(character: char) -> Option<&'static str> {
    Some(match character {
        // Control characters that no other step makes a space, and the soft hyphen.
        '\u{1}'..='\u{8}' | '\u{e}' | '\u{f}' | '\u{11}'..='\u{1b}' | '\u{ad}' => "",
        '\u{b}' | '\u{c}' | '\u{85}' => " ",
        '‐' | '‑' | '⁃' | '‒' | '–' | '—' | '―' | '−' | '－' | '⁻' => "-",
        '“' | '”' | '„' | '‟' => "\"",
        '‘' | '’' | '‚' | '‛' | '՚' | 'Ꞌ' | 'ꞌ' | '＇' | '`' | '´' | '′' | '‵' => "'",
        '″' | '‶' => "''",
        '‴' | '‷' => "'''",
        '⁗' => "''''",
        '…' => "...",
        '⁄' | '∕' => "/",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_becomes_that_of_ascii() {
        let ascii = |text: &str| PassagePunctuation::Ascii.apply(text).into_owned();
        assert_eq!(ascii("1914–18 — “it’s” `so´"), "1914-18 - \"it's\" 'so'");
        assert_eq!(ascii("5′ 6″ ½ … a\u{ad}b\u{7}c\u{b}d 1⁄2"), "5' 6'' ½ ... abc d 1/2");
        assert_eq!(ascii("`a`"), "'a'");
        assert_eq!(ascii("and so on . . . to the end"), "and so on ... to the end");
        assert_eq!(ascii("Ångström ~ ˜ naïve\n\t"), "Ångström ~ ˜ naïve\n\t");
        assert!(matches!(PassagePunctuation::Ascii.apply("plain, text."), Cow::Borrowed(_)));
        assert_eq!(PassagePunctuation::AsWritten.apply("1914–18"), "1914–18");
    }
}
