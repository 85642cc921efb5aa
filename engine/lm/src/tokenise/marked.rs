//! Pairs of texts with tokens of the vocabulary among their words, as MDR's reader marks sentences by `[unused1]`.

use super::{TokeniseError, TokenisedText, Tokenizer};

/// A text with some token, which the second text of a pair replaces.
const STAND_IN: &str = "a";

impl Tokenizer {
    /// The tokens of two texts as one sequence, with special tokens. A word of the second text, between white space,
    /// that is one of `markers` is the vocabulary's token of this spelling, whatever the tokenizer makes of it
    /// elsewhere.
    ///
    /// # Errors
    /// [`TokeniseError::NoToken`] for a marker outside the vocabulary, [`TokeniseError::Failed`].
    pub fn encode_marked_pair(
        &self,
        text: &str,
        pair: &str,
        markers: &[String],
    ) -> Result<TokenisedText, TokeniseError> {
        if markers.is_empty() {
            return self.encode_pair(text, pair);
        }
        let TokenisedText { mut ids, mut type_ids, mut offsets, mut words, second } =
            self.encode_pair(text, STAND_IN)?;
        let marked = self.encode_marked(pair, markers)?;
        let kind = type_ids.get(second.start).copied().unwrap_or_default();
        let end = second.start + marked.ids.len();
        type_ids.splice(second.clone(), std::iter::repeat_n(kind, marked.ids.len()));
        ids.splice(second.clone(), marked.ids);
        offsets.splice(second.clone(), marked.offsets);
        words.splice(second.clone(), marked.words);
        Ok(TokenisedText { ids, type_ids, offsets, words, second: second.start..end })
    }

    /// The tokens of a text with markers, without special tokens.
    fn encode_marked(&self, text: &str, markers: &[String]) -> Result<TokenisedText, TokeniseError> {
        let mut found = TokenisedText::default();
        let mut push = |part: TokenisedText, first: usize| {
            let moved = |range: (usize, usize)| (range.0 + first, range.1 + first);
            found.ids.extend(part.ids);
            found.type_ids.extend(part.type_ids);
            found.offsets.extend(part.offsets.into_iter().map(moved));
            found.words.extend(part.words.into_iter().map(moved));
        };
        // The byte and the character at which the unread text begins.
        let (mut byte, mut character) = (0, 0);
        for (begin, end) in marked_words(text, markers) {
            let (before, marker) = (&text[byte..begin], &text[begin..end]);
            push(self.encode(before, false)?, character);
            character += before.chars().count();
            let id = self
                .inner
                .token_to_id(marker)
                .ok_or_else(|| TokeniseError::NoToken { folder: self.folder.clone(), token: marker.to_owned() })?;
            let whole = vec![(0, marker.chars().count())];
            let token =
                TokenisedText { ids: vec![id], type_ids: vec![0], offsets: whole.clone(), words: whole, second: 0..1 };
            push(token, character);
            character += marker.chars().count();
            byte = end;
        }
        push(self.encode(&text[byte..], false)?, character);
        Ok(found)
    }
}

/// The bytes of the words between white space that are markers.
fn marked_words(text: &str, markers: &[String]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut begin = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c.is_whitespace(), begin) {
            (false, None) => begin = Some(at),
            (true, Some(from)) => {
                if markers.iter().any(|marker| *marker == text[from..at]) {
                    found.push((from, at));
                }
                begin = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenise::tests::tokenizer;

    #[test]
    fn markers_are_words_between_spaces() {
        let markers = ["[X]".to_owned()];
        assert_eq!(marked_words("[X] a [X]b [X]", &markers), [(0, 3), (11, 14)]);
        assert_eq!(marked_words("", &markers), []);
    }

    #[test]
    fn a_marker_is_one_token_and_the_rest_as_ever() {
        let bert = tokenizer("bert-uncased");
        let plain = bert.encode_pair("who?", "the film é the").expect("ids");
        assert_eq!(bert.encode_marked_pair("who?", "the film é the", &["[SEP]".to_owned()]).expect("ids"), plain);
        let sep = bert.special_id(crate::tokenise::SpecialRole::Sep).expect("[SEP]");
        let marked = bert.encode_marked_pair("who?", "the film é [SEP] the", &["[SEP]".to_owned()]).expect("ids");
        let at =
            marked.ids[marked.second.clone()].iter().position(|&id| id == sep).expect("a marker") + marked.second.start;
        assert_eq!(marked.offsets[at], (11, 16));
        assert_eq!(marked.ids.len(), plain.ids.len() + 1);
        assert_eq!(marked.offsets[marked.second.end - 1].1, 20);
        assert_eq!(marked.type_ids.len(), marked.ids.len());
        assert_eq!(marked.type_ids[at], plain.type_ids[plain.second.start]);
        let unknown = bert.encode_marked_pair("who?", "a [nothing] b", &["[nothing]".to_owned()]).unwrap_err();
        assert!(unknown.to_string().contains("no token `[nothing]`"), "{unknown}");
    }
}
