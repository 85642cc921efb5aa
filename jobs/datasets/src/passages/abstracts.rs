//! The HotpotQA abstracts dump: `{id, url, title, text, charoffset, text_with_links, charoffset_with_links}`.
//!
//! `text` is a list of sentences, all but the first beginning with a space, or a list of paragraphs of such sentences
//! (the dump of whole articles). `text_with_links` is the same with `<a href="Percent%20encoded">anchor</a>`. The
//! dump's offsets are of tokens and are not needed.

use super::anchors;
use crate::error::FieldError;
use crate::passage::PassageRecord;
use crate::value::{FieldResult, JsonValue};

pub(super) fn read_passage(row: &JsonValue<'_>) -> FieldResult<PassageRecord> {
    let sentences = row.required("text", read_sentences)?;
    let mut passage = PassageRecord::from_sentences(row.required("title", JsonValue::string)?, &sentences, "");
    passage.id = row.optional("id", JsonValue::id)?;
    if let Some(linked) = row.optional("text_with_links", read_sentences)? {
        if linked.len() != sentences.len() {
            let found = format!("{} sentences", linked.len());
            return Err(
                FieldError::new(found, format!("{}, as in `text`", sentences.len())).under_key("text_with_links")
            );
        }
        let mut links = Vec::new();
        let mut start = 0;
        for (plain, marked) in sentences.iter().zip(&linked) {
            anchors::find_links(plain, marked, start, &mut links);
            start += plain.len();
        }
        passage.links = Some(links);
    }
    Ok(passage)
}

/// The sentences of a list of sentences, or of a list of such lists.
fn read_sentences<'v>(value: &'v JsonValue<'_>) -> FieldResult<Vec<&'v str>> {
    let mut sentences = Vec::new();
    for (index, item) in value.items()?.iter().enumerate() {
        match item {
            JsonValue::String(sentence) => sentences.push(sentence.as_ref()),
            JsonValue::List(paragraph) => {
                for (inner, sentence) in paragraph.iter().enumerate() {
                    sentences.push(sentence.str().map_err(|error| error.at_index(inner).at_index(index))?);
                }
            }
            _ => return Err(FieldError::new(item.describe(), "a sentence, or a list of sentences").at_index(index)),
        }
    }
    Ok(sentences)
}
