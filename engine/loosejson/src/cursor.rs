//! A place in the text, with the repairs so far.

use crate::repair::{Repair, RepairCounts};

/// White space of JSON.
pub(crate) fn is_json_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// A character without width: marks of byte order, joiners.
pub(crate) fn has_no_width(c: char) -> bool {
    matches!(c, '\u{feff}' | '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}')
}

/// A place in a text.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'t> {
    /// The whole text.
    pub(crate) text: &'t str,
    /// The place, in bytes.
    pub(crate) at: usize,
    /// The repairs so far.
    pub(crate) repairs: RepairCounts,
    /// Whether three quotes without a partner were met: then none has one from here on.
    pub(crate) lone_triple: bool,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at, repairs: RepairCounts::default(), lone_triple: false }
    }

    /// The text from here on.
    pub(crate) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The next character.
    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the next character.
    pub(crate) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Takes `words` if they are next.
    pub(crate) fn take(&mut self, words: &str) -> bool {
        let is_next = self.rest().starts_with(words);
        if is_next {
            self.at += words.len();
        }
        is_next
    }

    /// Takes characters as long as they fit.
    pub(crate) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Counts a repair.
    pub(crate) fn repair(&mut self, repair: Repair) {
        self.repairs.add(repair);
    }

    /// Passes over space and comments.
    pub(crate) fn skip_space(&mut self) {
        while let Some(c) = self.peek() {
            if is_json_space(c) {
                self.at += 1;
            } else if has_no_width(c) {
                self.repair(Repair::ByteOrderMark);
                self.at += c.len_utf8();
            } else if c.is_whitespace() {
                self.repair(Repair::OddSpace);
                self.at += c.len_utf8();
            } else if let Some(length) = comment_length(self.rest()) {
                self.repair(Repair::Comment);
                self.at += length;
            } else {
                return;
            }
        }
    }
}

/// The length of the comment at the beginning of `rest`, without its end of line.
pub(crate) fn comment_length(rest: &str) -> Option<usize> {
    if let Some(body) = rest.strip_prefix("/*") {
        return Some(body.find("*/").map_or(rest.len(), |end| end + 4));
    }
    if rest.starts_with("//") || rest.starts_with('#') {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some(body) = rest.strip_prefix("<!--") {
        return Some(body.find("-->").map_or(rest.len(), |end| end + 7));
    }
    None
}
