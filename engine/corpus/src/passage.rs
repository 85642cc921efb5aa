//! The id of a passage, and the builder's input for a new one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A passage's position in its corpus, counted from 0.
///
/// It means nothing outside the corpus with the digest it was taken from; outside, use the external id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct PassageId(pub u32);

impl PassageId {
    /// The position as an index into a table with one row for each passage.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PassageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A passage to be stored, in the caller's memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewPassage<'a> {
    /// The external id. Without one, it is the [`PassageId`] in decimal.
    pub id: Option<&'a str>,
    /// The title; empty if the source has none.
    pub title: &'a str,
    /// The text.
    pub text: &'a str,
    /// Byte offset in `text` of the end of each sentence. The sentences partition the text: the ends never decrease,
    /// lie on character boundaries, and the last is the text's length. Empty: sentences are unknown.
    pub sentences: &'a [u32],
    /// Hyperlinks in any order; `None` if the source has no information about them, unlike an empty list.
    pub links: Option<&'a [NewLink<'a>]>,
}

/// A hyperlink in a passage to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLink<'a> {
    /// Title of the target passage, percent-decoded; underscores may stand for spaces.
    pub title: &'a str,
    /// Byte offset in the text of the anchor's start.
    pub start: u32,
    /// Byte offset in the text of the anchor's end.
    pub end: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_bare_number_outside() {
        assert_eq!(serde_json::to_string(&PassageId(7)).unwrap(), "7");
        assert_eq!(serde_json::from_str::<PassageId>("7").unwrap(), PassageId(7));
        assert_eq!(format!("{:>3}", PassageId(7)), "  7");
    }
}
