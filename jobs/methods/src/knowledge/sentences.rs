//! Keeps the relevant sentences of a passage (MIGRES, section 3.2: sentence-level re-ranking and filtering).

use crate::response::PassageText;

/// Details of the authors' code that the paper does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentenceRules {
    /// A sentence that does not begin with a capital letter belongs to the one before it.
    pub(crate) glue_fragments: bool,
    /// A sentence that stands in the query is left out.
    pub(crate) drop_query_sentences: bool,
}

/// The sentences of a passage that are scored by themselves.
pub(crate) fn candidate_sentences(passage: &PassageText, query: &str, rules: SentenceRules) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for sentence in passage.sentence_texts().into_iter().filter(|sentence| !sentence.is_empty()) {
        let is_fragment = rules.glue_fragments && !sentence.starts_with(char::is_uppercase);
        match sentences.last_mut().filter(|_| is_fragment) {
            Some(last) => {
                last.push(' ');
                last.push_str(sentence);
            }
            None => sentences.push(sentence.to_owned()),
        }
    }
    if rules.drop_query_sentences {
        sentences.retain(|sentence| !query.contains(sentence.as_str()));
    }
    sentences
}

/// The sentences that are relevant enough, joined by spaces; `None` if the whole passage is kept: none is, or the
/// passage is more relevant than each of them.
pub(crate) fn relevant_sentences(
    sentences: &[String],
    relevances: &[f64],
    passage: f64,
    threshold: f64,
) -> Option<String> {
    if !relevances.iter().any(|&relevance| relevance >= passage) {
        return None;
    }
    let relevant = sentences.iter().zip(relevances).filter(|&(_, &relevance)| relevance >= threshold);
    let kept: Vec<&str> = relevant.map(|(sentence, _)| sentence.as_str()).collect();
    (!kept.is_empty()).then(|| kept.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::PassageId;

    #[test]
    fn fragments_are_glued_and_the_querys_sentences_dropped() {
        let text = PassageText {
            sentences: vec![9, 18, 30],
            ..PassageText::new(PassageId(1), "T", "It is St. peter's. Who built it?")
        };
        let text = PassageText { sentences: vec![9, 18, text.text.len() as u32], ..text };
        let with = |glue_fragments, drop_query_sentences| {
            candidate_sentences(&text, "Who built it? I ask.", SentenceRules { glue_fragments, drop_query_sentences })
        };
        assert_eq!(with(false, false), ["It is St.", "peter's.", "Who built it?"]);
        assert_eq!(with(true, false), ["It is St. peter's.", "Who built it?"]);
        assert_eq!(with(true, true), ["It is St. peter's."]);
    }

    #[test]
    fn the_whole_passage_stays_if_it_is_more_relevant() {
        let sentences = ["A.", "B.", "C."].map(str::to_owned);
        let kept = |relevances: &[f64], passage| relevant_sentences(&sentences, relevances, passage, 3.0);
        assert_eq!(kept(&[4.0, 2.0, 3.0], 4.0), Some("A. C.".to_owned()));
        assert_eq!(kept(&[4.0, 2.0, 3.0], 4.5), None);
        assert_eq!(kept(&[2.0, 1.0, 0.0], 1.0), None, "none is relevant enough");
    }
}
