//! Sentences of an answer with the documents that they cite, such as `[1][3]`.

use std::ops::Range;

/// A sentence of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CitingSentence {
    /// Its text without citations.
    pub(super) text: String,
    /// The positions of the cited documents, from 0, each once.
    pub(super) cited: Vec<usize>,
}

/// The citations of a text: the bytes of each, with the number in it.
fn citations(text: &str) -> Vec<(Range<usize>, usize)> {
    let at_bracket = |(at, _): (usize, &str)| {
        let inner = &text[at + 1..];
        let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
        let number = inner[..digits].parse().ok()?;
        inner[digits..].starts_with(']').then_some((at..at + digits + 2, number))
    };
    text.match_indices('[').filter_map(at_bracket).collect()
}

/// A text without its citations and the spaces before them.
pub(super) fn without_citations(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut from = 0;
    for (place, _) in citations(text) {
        plain.push_str(text[from..place.start].trim_end_matches(' '));
        from = place.end;
    }
    plain.push_str(&text[from..]);
    plain.trim().to_owned()
}

/// The sentences of an answer, at most `most`; citations of documents beyond `documents` count for nothing. Citations
/// behind the full stop belong to the sentence before it.
pub(super) fn citing_sentences(text: &str, documents: usize, most: usize) -> Vec<CitingSentence> {
    let mut sentences: Vec<CitingSentence> = Vec::new();
    for sentence in hopeval_pytext::sentences(text) {
        let plain = without_citations(sentence);
        let numbers = citations(sentence).into_iter().map(|(_, number)| number);
        let places: Vec<usize> =
            numbers.filter_map(|number| number.checked_sub(1)).filter(|&at| at < documents).collect();
        let is_text = plain.chars().any(char::is_alphanumeric);
        match sentences.last_mut().filter(|_| !is_text) {
            Some(last) => last.cite(places),
            None if is_text => {
                let mut next = CitingSentence { text: plain, cited: Vec::new() };
                next.cite(places);
                sentences.push(next);
            }
            None => {}
        }
    }
    sentences.truncate(most);
    sentences
}

impl CitingSentence {
    fn cite(&mut self, places: Vec<usize>) {
        for place in places {
            if !self.cited.contains(&place) {
                self.cited.push(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_leave_no_trace() {
        assert_eq!(without_citations("Rome [1][2]. It is old [3]."), "Rome. It is old.");
        assert_eq!(without_citations("[1] A[b] [2x] [] [12]"), "A[b] [2x] []");
    }

    #[test]
    fn sentences_know_the_documents_they_cite() {
        let read = |text| {
            let sentences = citing_sentences(text, 3, 9);
            sentences.into_iter().map(|sentence| (sentence.text, sentence.cited)).collect::<Vec<_>>()
        };
        let sentence = |text: &str, cited: &[usize]| (text.to_owned(), cited.to_vec());
        assert_eq!(
            read("Rome is old [1][3][1]. It is big. [2] Nobody left [7][0]."),
            [sentence("Rome is old.", &[0, 2]), sentence("It is big.", &[]), sentence("Nobody left.", &[1])],
        );
        assert_eq!(read("Rome is old. [2]"), [sentence("Rome is old.", &[1])]);
        assert!(read("[1]").is_empty());
        assert_eq!(citing_sentences("A one. A two.", 1, 1).len(), 1);
    }
}
