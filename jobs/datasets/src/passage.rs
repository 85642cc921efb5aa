//! A passage as stored in files: title, text, ends of sentences, links.

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::value::{FieldResult, JsonValue};

/// A passage. Its text is its sentences, one behind the other, with the dataset's separator between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PassageRecord {
    /// Its id, if the source has ids.
    pub id: Option<String>,
    /// Its title; empty if the source has no titles.
    pub title: String,
    /// The sentences joined: by nothing if they include their space (HotpotQA), otherwise by a space (2Wiki).
    pub text: String,
    /// The end of each sentence: byte offsets into `text`, ascending. Sentence i is
    /// `text[sentences[i-1]..sentences[i]]` (from 0 for the first), so the space between two sentences belongs to the
    /// later one, as in HotpotQA. Empty if the source does not split sentences.
    pub sentences: Vec<u32>,
    /// Hyperlinks in the order of the text. `None`: the source has no links. Empty: this passage has no links.
    pub links: Option<Vec<LinkRecord>>,
}

/// A hyperlink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// The target's title: percent-decoded, without a section, first letter in upper case (as MediaWiki resolves it).
    pub title: String,
    /// Start of the anchor in `text`, in bytes.
    pub start: u32,
    /// End of the anchor; equal to `start` if the anchor's text was not found in the sentence.
    pub end: u32,
}

impl PassageRecord {
    /// A passage of `sentences`, joined by `separator`.
    pub fn from_sentences<S: AsRef<str>>(title: String, sentences: &[S], separator: &str) -> Self {
        let length = sentences.iter().map(|sentence| sentence.as_ref().len() + separator.len()).sum();
        let mut text = String::with_capacity(length);
        let mut ends = Vec::with_capacity(sentences.len());
        for (index, sentence) in sentences.iter().enumerate() {
            if index > 0 {
                text.push_str(separator);
            }
            text.push_str(sentence.as_ref());
            ends.push(text.len() as u32);
        }
        Self { id: None, title, text, sentences: ends, links: None }
    }

    /// Sentence `index`, with the space before it; `None` behind the last.
    pub fn sentence(&self, index: usize) -> Option<&str> {
        let end = *self.sentences.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.sentences[index - 1] as usize };
        self.text.get(start..end)
    }

    /// Reads a passage in this schema. `id` may be called `_id`, as in BEIR.
    pub(crate) fn read(value: &JsonValue<'_>) -> FieldResult<Self> {
        let id = if value.has("_id") { "_id" } else { "id" };
        let passage = Self {
            id: value.optional(id, JsonValue::id)?,
            title: value.optional("title", JsonValue::string)?.unwrap_or_default(),
            text: value.required("text", JsonValue::string)?,
            sentences: value.list("sentences", JsonValue::index)?,
            links: value.optional("links", |links| links.read_each(LinkRecord::read))?,
        };
        if passage.offsets_hold() {
            Ok(passage)
        } else {
            Err(FieldError::new(
                "offsets of sentences or links that do not fit `text`",
                "ascending byte offsets of characters in `text`",
            ))
        }
    }

    /// Whether every offset is in the text, on a character's border and in order.
    pub(crate) fn offsets_hold(&self) -> bool {
        let border = |offset: u32| self.text.is_char_boundary(offset as usize);
        self.sentences.is_sorted()
            && self.sentences.iter().all(|&end| border(end))
            && self.links.iter().flatten().all(|link| link.start <= link.end && border(link.start) && border(link.end))
    }
}

impl LinkRecord {
    fn read(value: &JsonValue<'_>) -> FieldResult<Self> {
        Ok(Self {
            title: value.required("title", JsonValue::string)?,
            start: value.required("start", JsonValue::index)?,
            end: value.required("end", JsonValue::index)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cut_back_out_of_the_text() {
        let hotpot = PassageRecord::from_sentences("T".into(), &["One.", " Zwei ü.", ""], "");
        assert_eq!(hotpot.text, "One. Zwei ü.");
        let cut: Vec<_> = (0..4).map(|index| hotpot.sentence(index)).collect();
        assert_eq!(cut, [Some("One."), Some(" Zwei ü."), Some(""), None]);
        let two_wiki = PassageRecord::from_sentences("T".into(), &["One.", "Two."], " ");
        assert_eq!((two_wiki.text.as_str(), two_wiki.sentence(1)), ("One. Two.", Some(" Two.")));
        assert!(hotpot.offsets_hold() && two_wiki.offsets_hold());
    }
}
