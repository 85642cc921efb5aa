//! `Label` and `Filter`: EfficientRAG's labeler and filter, word by word (section 3.1; tokenisation and decoding follow
//! the official script).

use super::model::{Model, PreparedRequest, encoded_answer};
use super::prompts::tokenizer_failure;
use super::settings::LabelScope;
use hopeval_corpus::Corpus;
use hopeval_lm::heads::highest_logit;
use hopeval_lm::request as engine;
use hopeval_lm::tokenise::WordPieces;
use hopeval_methods::request::{FilterPayload, LabelPayload};
use hopeval_methods::response::ChunkLabels;
use hopeval_methods::{Answer, Failure, FailureKind, PromptReport};
use hopeval_pytext::words_and_marks;
use hopeval_wordrules::WordCutError;
use std::sync::Arc;

/// The label of kept tokens.
const KEEP: usize = 1;

impl Model {
    /// `[CLS] words of the query [SEP] words of the chunk [SEP]`; the information is the text of the kept tokens.
    pub(super) fn label(&self, corpus: &Corpus, asked: &LabelPayload) -> Result<PreparedRequest, Failure> {
        let chunk = self.content_text(corpus, &asked.chunk)?;
        let (query, chunk) = (self.words(&asked.query)?, self.words(&chunk)?);
        let pieces =
            self.tokenizer.encode_word_sequence(&query, Some(&chunk), self.length_limit(self.settings.label_tokens));
        let pieces = pieces.map_err(|error| tokenizer_failure(&error))?;
        let (tokenizer, scope) = (Arc::clone(&self.tokenizer), self.settings.label_scope);
        let request = encode_request(&pieces);
        Ok(PreparedRequest::single_request(request, Some(pieces_report(&pieces)), move |answer| {
            let found = encoded_answer(answer);
            let of_chunk = |at: usize| pieces.pieces[at].is_some_and(|piece| piece.text == 1);
            let counts = |at: usize| scope == LabelScope::Sequence || of_chunk(at);
            let kept = kept_tokens(&pieces, &found, counts);
            let labels = ChunkLabels { information: tokenizer.decode(&kept, true), tag_logits: found.sequence_logits };
            Ok(Answer::Label(labels))
        }))
    }

    /// `[CLS] words [SEP]`, of the query with the found information. The next query is the text of the kept tokens.
    /// Blank information is left out.
    pub(super) fn filter(&self, asked: &FilterPayload) -> Result<PreparedRequest, Failure> {
        let text = filter_text(asked);
        let words = self.words(&text)?;
        let pieces = self.tokenizer.encode_word_sequence(&words, None, self.length_limit(self.settings.filter_tokens));
        let pieces = pieces.map_err(|error| tokenizer_failure(&error))?;
        let tokenizer = Arc::clone(&self.tokenizer);
        Ok(PreparedRequest::single_request(encode_request(&pieces), Some(pieces_report(&pieces)), move |answer| {
            Ok(Answer::Filter(tokenizer.decode(&kept_tokens(&pieces, &encoded_answer(answer), |_| true), true)))
        }))
    }

    /// The words of a text, cut as in the model's training: by the rules of the settings, where whitespace other than
    /// single spaces is a word, too, or into words and punctuation marks.
    fn words<'a>(&self, text: &'a str) -> Result<Vec<&'a str>, Failure> {
        let mut words = match &self.word_rules {
            Some(rules) => rules.words(text).map_err(|error| rules_failure(&error))?,
            None => words_and_marks(text).collect(),
        };
        words.retain(|word| !(self.settings.drop_commas && *word == ","));
        Ok(words)
    }
}

/// A refusal, because the rules would fail again: they are part of the fingerprint.
fn rules_failure(error: &WordCutError) -> Failure {
    Failure { kind: FailureKind::Refused, message: error.to_string() }
}

/// `Query: … Info: …; Info: …`.
fn filter_text(asked: &FilterPayload) -> String {
    let information = asked.information.iter().filter(|info| !info.trim().is_empty());
    let information = information.map(|info| format!("Info: {info}")).collect::<Vec<_>>().join("; ");
    format!("Query: {} {information}", asked.query)
}

fn pieces_report(pieces: &WordPieces) -> PromptReport {
    PromptReport::of_texts(pieces.ids.len(), pieces.lost)
}

/// Without token types, as in the models' training.
fn encode_request(pieces: &WordPieces) -> engine::Request {
    let ids = pieces.ids.clone().into();
    engine::Request::Encode(engine::EncodeRequest {
        ids,
        type_ids: engine::TokenIds::default(),
        want: engine::EncoderOutput::Labels,
    })
}

/// The tokens with the label `KEEP` at positions accepted by `counts`.
fn kept_tokens(pieces: &WordPieces, found: &engine::EncodeResult, counts: impl Fn(usize) -> bool) -> Vec<u32> {
    let keep = |at: &usize| highest_logit(found.token_logits.row(*at)) == Some(KEEP) && counts(*at);
    (0..pieces.ids.len()).filter(keep).map(|at| pieces.ids[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_information_is_left_out() {
        let filter = |information: &[&str]| {
            filter_text(&FilterPayload {
                query: "who?".into(),
                information: information.iter().map(|&i| i.into()).collect(),
            })
        };
        assert_eq!(filter(&["a b", " ", "c"]), "Query: who? Info: a b; Info: c");
        assert_eq!(filter(&[]), "Query: who? ");
    }
}
