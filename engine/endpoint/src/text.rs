//! The text of a prompt, in pieces: a piece that many prompts share is written as JSON once.
//!
//! A few-shot text has thousands of bytes, and every prompt of a method begins with it. Thousands of calls wait for a
//! server at once, and each keeps its body for another attempt. So a body holds such a piece by reference.

use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A body has a copy of a shorter shared piece: a reference to it takes as much.
const REFERRED_FROM: usize = 512;

/// A text that many prompts share. Clones share it, and its JSON.
#[derive(Clone)]
pub struct SharedText(Arc<SharedForms>);

struct SharedForms {
    text: Arc<str>,
    escaped: OnceLock<Bytes>,
}

impl SharedText {
    /// A text to be shared.
    pub fn new(text: Arc<str>) -> Self {
        Self(Arc::new(SharedForms { text, escaped: OnceLock::new() }))
    }

    /// The text.
    pub fn text(&self) -> &Arc<str> {
        &self.0.text
    }

    /// Whether a body refers to it, and has no copy of it.
    pub(crate) fn is_referred_to(&self) -> bool {
        self.0.text.len() >= REFERRED_FROM
    }

    /// The text as it stands within a string of JSON, without the quotes around it.
    pub(crate) fn escaped(&self) -> Bytes {
        let make = || {
            let mut json = Vec::new();
            append_escaped(&self.0.text, &mut json);
            Bytes::from(json)
        };
        self.0.escaped.get_or_init(make).clone()
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

/// Appends a text as it stands within a string of JSON, without the quotes around it.
pub(crate) fn append_escaped(text: &str, json: &mut Vec<u8>) {
    // The writer sets quotes. The first one falls onto the byte before, which is put back.
    let before = json.pop();
    let begin = json.len();
    serde_json::to_writer(&mut *json, text).expect("this is a bug: a text is JSON, and a vector takes it");
    json.pop();
    match before {
        Some(byte) => json[begin] = byte,
        None => drop(json.remove(begin)),
    }
}

/// A piece of a text.
#[derive(Clone, Debug)]
pub(crate) enum TextPiece {
    Own(String),
    Shared(SharedText),
}

impl TextPiece {
    fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Shared(shared) => shared.text(),
        }
    }
}

/// The text of a prompt, or of one of its messages: pieces with nothing between them.
#[derive(Clone, Debug, Default)]
pub struct PromptText(Vec<TextPiece>);

impl PromptText {
    /// Appends a text.
    pub fn push(&mut self, text: String) {
        if !text.is_empty() {
            self.0.push(TextPiece::Own(text));
        }
    }

    /// Appends a text that other prompts have, too.
    pub fn push_shared(&mut self, text: &SharedText) {
        if !text.text().is_empty() {
            self.0.push(TextPiece::Shared(text.clone()));
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.as_str().len()).sum()
    }

    /// Whether it has no letter.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|piece| piece.as_str().is_empty())
    }

    /// The bytes of its pieces that are copied into a body.
    pub(crate) fn own_bytes(&self) -> usize {
        let own = |piece: &TextPiece| match piece {
            TextPiece::Shared(shared) if shared.is_referred_to() => 0,
            piece => piece.as_str().len(),
        };
        self.0.iter().map(own).sum()
    }

    /// Its pieces.
    pub(crate) fn pieces(&self) -> &[TextPiece] {
        &self.0
    }

    /// Its first bytes, at most `most`.
    pub(crate) fn head(&self, most: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(most);
        for piece in &self.0 {
            let bytes = piece.as_str().as_bytes();
            head.extend_from_slice(&bytes[..bytes.len().min(most - head.len())]);
        }
        head
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.0.iter().flat_map(|piece| piece.as_str().bytes())
    }
}

impl From<String> for PromptText {
    fn from(text: String) -> Self {
        let mut whole = Self::default();
        whole.push(text);
        whole
    }
}

impl From<&str> for PromptText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for PromptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| f.write_str(piece.as_str()))
    }
}

/// Equal texts are equal, in whatever pieces.
impl PartialEq for PromptText {
    fn eq(&self, other: &Self) -> bool {
        self.bytes().eq(other.bytes())
    }
}

impl Eq for PromptText {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_text_is_that_of_json_without_quotes() {
        for text in ["", "plain", "\"", "a\"b\\c\n\u{1}é\u{2028}", "\u{7f}/"] {
            let json = serde_json::to_string(text).unwrap();
            for before in ["", "\"", "xyz"] {
                let mut bytes = before.as_bytes().to_vec();
                append_escaped(text, &mut bytes);
                let expected = [before, &json[1..json.len() - 1]].concat();
                assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn a_text_is_its_pieces_and_a_body_refers_to_long_ones() {
        let long = SharedText::new("long ".repeat(200).into());
        let mut text = PromptText::from("a");
        text.push_shared(&SharedText::new("b".into()));
        text.push(String::new());
        text.push_shared(&long);
        text.push("c".to_owned());
        assert_eq!((text.pieces().len(), text.own_bytes()), (4, 3));
        assert_eq!(text.to_string(), format!("ab{}c", long.text()));
        assert_eq!((text.len(), text.head(6)), (1003, b"ablong".to_vec()));
        assert_eq!(text, PromptText::from(text.to_string()));
        assert_ne!(text, PromptText::from("ab"));
        assert_eq!(long.escaped().as_ptr(), long.clone().escaped().as_ptr(), "its JSON is made once");
        assert!(PromptText::default().is_empty() && PromptText::from("").is_empty());
    }
}
