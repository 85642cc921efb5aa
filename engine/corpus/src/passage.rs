//! What a passage is called, and what a caller hands in to have one stored.

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
    /// The external id. Without one the passage is called by its [`PassageId`] in decimal.
    pub id: Option<&'a str>,
    /// The title; empty where the source has none.
    pub title: &'a str,
    /// The text.
    pub text: &'a str,
    /// Byte offset in `text` of the end of each sentence. They partition the text: never decreasing, on character
    /// boundaries, the last one its length. Empty: sentences are not known.
    pub sentences: &'a [u32],
    /// Hyperlinks in any order; `None` where the source does not say, which is not the same as none.
    pub links: Option<&'a [NewLink<'a>]>,
}

/// A hyperlink in a passage to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLink<'a> {
    /// Title of the passage it points to, percent-decoded; underscores may stand for spaces.
    pub title: &'a str,
    /// Byte offset in the text where its anchor starts.
    pub start: u32,
    /// Byte offset in the text where its anchor ends.
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
