//! A class of characters: Python's members in, one safe way of writing out.
//!
//! The classes of `fancy-regex` know nested classes and operators on them (`&&`, `--`, `~~`), and it takes away the
//! backslash of some escapes. Sorted ranges without overlap, with a hyphen first, cannot be mistaken for those.

use hopeval_pytext::{space_ranges, word_ranges};
use std::fmt::{self, Write};

/// Python's `\w` as a class of its own.
pub(super) const WORD_CLASS: WordClass = WordClass;

/// Writes the class of Python's `\w`.
pub(super) struct WordClass;

impl fmt::Display for WordClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut class = CharacterClass::default();
        class.add_category('w');
        f.write_str(&class.written(false))
    }
}

/// The characters of a class.
#[derive(Clone, Debug, Default)]
pub(super) struct CharacterClass {
    /// Inclusive ranges of codes, in any order.
    ranges: Vec<(u32, u32)>,
    /// Whether Unicode's decimal digits are in it.
    digits: bool,
    /// Whether all others than these digits are in it.
    others_than_digits: bool,
}

/// The greatest code.
const LAST: u32 = char::MAX as u32;

/// Halves of surrogate pairs, which stand in no text.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

impl CharacterClass {
    /// Adds the characters from `least` to `most`.
    pub(super) fn add_range(&mut self, least: u32, most: u32) {
        self.ranges.push((least, most));
    }

    /// Adds the characters of `\d`, `\s`, `\w` or, with a capital letter, all others.
    pub(super) fn add_category(&mut self, letter: char) {
        match letter {
            'd' => self.digits = true,
            'D' => self.others_than_digits = true,
            's' => self.ranges.extend(space_ranges()),
            'S' => self.ranges.extend(complement(space_ranges())),
            'w' => self.ranges.extend(word_ranges()),
            _ => self.ranges.extend(complement(word_ranges())),
        }
    }

    /// The class, or that of all other characters.
    pub(super) fn written(&self, negated: bool) -> String {
        let ranges = merged(&self.ranges);
        let mut text = String::from(if negated { "[^" } else { "[" });
        if ranges.iter().any(|&(least, most)| (least..=most).contains(&HYPHEN)) {
            text.push('-');
        }
        for (least, most) in ranges.into_iter().flat_map(without_hyphen_ends) {
            write_character(least, &mut text);
            if least < most {
                text.push('-');
                write_character(most, &mut text);
            }
        }
        let digits = [(self.digits, "\\p{Nd}"), (self.others_than_digits, "\\P{Nd}")];
        digits.into_iter().filter(|(has, _)| *has).for_each(|(_, name)| text.push_str(name));
        if text == "[" || text == "[^" {
            // No character at all, or every one.
            return String::from(if negated { "(?s:.)" } else { "[^\\x{0}-\\x{10ffff}]" });
        }
        text.push(']');
        text
    }
}

const HYPHEN: u32 = '-' as u32;

fn write_character(code: u32, text: &mut String) {
    match char::from_u32(code).filter(|c| c.is_alphanumeric()) {
        Some(c) => text.push(c),
        None => write!(text, "\\x{{{code:x}}}").expect("a text can be written to"),
    }
}

/// A range without a hyphen at its ends, which is written by itself.
fn without_hyphen_ends((least, most): (u32, u32)) -> Option<(u32, u32)> {
    let least = if least == HYPHEN { least + 1 } else { least };
    let most = if most == HYPHEN { most.wrapping_sub(1) } else { most };
    (least <= most).then_some((least, most))
}

/// Sorted ranges without overlap and without surrogates.
fn merged(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let apart = |&(least, most): &(u32, u32)| {
        [(least, most.min(SURROGATES.0 - 1)), (least.max(SURROGATES.1 + 1), most.min(LAST))]
    };
    let mut parts: Vec<_> = ranges.iter().flat_map(apart).filter(|(least, most)| least <= most).collect();
    parts.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(parts.len());
    for (least, most) in parts {
        match merged.last_mut().filter(|last| least <= last.1 + 1) {
            Some(last) => last.1 = last.1.max(most),
            None => merged.push((least, most)),
        }
    }
    merged
}

/// All other codes; `ranges` are sorted.
fn complement(ranges: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let (mut others, mut next) = (Vec::new(), 0);
    for (least, most) in ranges {
        if next < least {
            others.push((next, least - 1));
        }
        next = most + 1;
    }
    others.push((next, LAST));
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(ranges: &[(char, char)], negated: bool) -> String {
        let mut class = CharacterClass::default();
        ranges.iter().for_each(|&(least, most)| class.add_range(least as u32, most as u32));
        class.written(negated)
    }

    #[test]
    fn classes_have_no_operators() {
        assert_eq!(written(&[('a', 'c'), ('b', 'e'), ('-', '-')], false), "[-a-e]");
        assert_eq!(written(&[('*', '-')], true), "[^-\\x{2a}-\\x{2c}]");
        assert_eq!(written(&[('-', '/'), ('&', '&'), ('&', '&')], false), "[-\\x{26}\\x{2e}-\\x{2f}]");
        assert_eq!(written(&[('+', '/')], false), "[-\\x{2b}-\\x{2f}]");
        assert_eq!(written(&[('-', '-')], true), "[^-]");
    }

    #[test]
    fn nothing_and_all_are_written() {
        assert_eq!(written(&[], false), "[^\\x{0}-\\x{10ffff}]");
        assert_eq!(written(&[], true), "(?s:.)");
        let mut surrogates = CharacterClass::default();
        surrogates.add_range(0xd801, 0xdc00);
        assert_eq!(surrogates.written(true), "(?s:.)");
        surrogates.add_range(0xd7ff, 0xe000);
        assert_eq!(surrogates.written(false), "[\\x{d7ff}\\x{e000}]");
    }

    #[test]
    fn others_than_whitespace_are_all_other_characters() {
        let mut class = CharacterClass::default();
        class.add_category('S');
        class.add_category('s');
        assert_eq!(merged(&class.ranges), [(0, SURROGATES.0 - 1), (SURROGATES.1 + 1, LAST)]);
    }
}
