//! Python's rules for words, whitespace and case.
//!
//! Official evaluation scripts and published retrieval baselines are Python programs, so the last digit of a figure
//! depends on the behaviour of `re`'s `\w`, `str.split` and `str.lower` beyond ASCII. Rust's `char` methods differ:
//! combining marks are alphabetic to Rust and not to Python, `²` is a word character to Python's `\w`, and
//! U+001C..U+001F separate words in `str.split`. This crate has Python's answers as tables and depends on no other
//! crate. Beside them stand the one splitter of sentences, and nltk's words.

mod sentences;
mod tables;
mod treebank;

pub use sentences::{sentence_ends, sentences};
pub use tables::UNICODE_VERSION;
use tables::{ALNUM, SPACE};
pub use treebank::treebank_words;

fn in_table(table: &[(u32, u32)], code: u32) -> bool {
    let after = table.partition_point(|&(first, _)| first <= code);
    after > 0 && code <= table[after - 1].1
}

/// Whether `re` counts `c` as `\w`: `c.isalnum() or c == "_"`.
#[inline]
pub fn is_word(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() || c == '_' } else { in_table(&ALNUM, c as u32) }
}

/// Whether `str.isspace` holds for `c`; `str.split()` without arguments splits at these characters.
#[inline]
pub fn is_space(c: char) -> bool {
    if c.is_ascii() { matches!(c, '\t'..='\r' | '\x1c'..='\x1f' | ' ') } else { in_table(&SPACE, c as u32) }
}

/// The characters of [`is_word`] as inclusive ranges of code points, in ascending order.
pub fn word_ranges() -> impl Iterator<Item = (u32, u32)> {
    let (before, behind) = ALNUM.split_at(ALNUM.partition_point(|&(first, _)| first < u32::from('_')));
    before.iter().copied().chain([(u32::from('_'), u32::from('_'))]).chain(behind.iter().copied())
}

/// The characters of [`is_space`] as inclusive ranges of code points, in ascending order.
pub fn space_ranges() -> impl Iterator<Item = (u32, u32)> {
    SPACE.into_iter()
}

/// `text.split()`: the non-empty runs between whitespace.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `re.findall(r"\w+", text)`.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// `re.findall(r"\w+|[^\w\s]", text)`: words, and each other non-space character by itself.
pub fn words_and_marks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_space);
        let first = rest.chars().next()?;
        let end = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (found, after) = rest.split_at(end);
        rest = after;
        Some(found)
    })
}

/// Appends `text.lower()` to `out`.
///
/// Python and Rust agree on it, including the final sigma and `İ`; ASCII takes a shortcut.
pub fn lower_into(text: &str, out: &mut String) {
    if text.is_ascii() {
        out.extend(text.bytes().map(|b| char::from(b.to_ascii_lowercase())));
    } else {
        out.push_str(&text.to_lowercase());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combining_marks_are_not_words_and_superscripts_are() {
        assert!(!is_word('\u{301}'));
        assert!(is_word('²') && is_word('é') && is_word('_') && is_word('京'));
        assert!(!is_word('-') && !is_word('’'));
    }

    #[test]
    fn information_separators_split() {
        assert_eq!(split("x\u{1c}y\u{a0}z\u{2028}w  v").collect::<Vec<_>>(), ["x", "y", "z", "w", "v"]);
        assert!(!is_space('\u{200b}'));
    }

    #[test]
    fn ascii_shortcuts_agree_with_the_tables() {
        for code in 0..128u8 {
            let c = char::from(code);
            assert_eq!(is_word(c), in_table(&ALNUM, code.into()) || c == '_', "{code}");
            assert_eq!(is_space(c), in_table(&SPACE, code.into()), "{code}");
        }
    }

    #[test]
    fn ranges_hold_what_the_tests_of_characters_say() {
        let all: Vec<_> = word_ranges().collect();
        assert!(all.is_sorted() && all.iter().all(|&(first, last)| first <= last));
        for code in 0..0x3000 {
            let Some(c) = char::from_u32(code) else { continue };
            assert_eq!(word_ranges().any(|(first, last)| (first..=last).contains(&code)), is_word(c), "{code:x}");
            assert_eq!(space_ranges().any(|(first, last)| (first..=last).contains(&code)), is_space(c), "{code:x}");
        }
    }

    #[test]
    fn marks_stand_alone_and_words_together() {
        let found: Vec<_> = words_and_marks(" Who's \u{a0}J.R.R. Tolkien?! (né_e 1892)\n—ok").collect();
        let expected =
            ["Who", "'", "s", "J", ".", "R", ".", "R", ".", "Tolkien", "?", "!", "(", "né_e", "1892", ")", "—", "ok"];
        assert_eq!(found, expected);
        assert_eq!(words_and_marks(" \t").count(), 0);
    }

    #[test]
    fn lower_case_has_final_sigma() {
        let mut out = String::new();
        lower_into("ΑΣ ΣΑ İ", &mut out);
        assert_eq!(out, "ας σα i\u{307}");
    }
}
