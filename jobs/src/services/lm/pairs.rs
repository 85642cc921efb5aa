//! `Rerank`, and `Entail` by a classifier: sequence classifiers over pairs of texts.

use super::entailment::entailment_position;
use super::model::{Model, PreparedRequest, ResponseBuilder, encoded_answer};
use super::prompts::tokenizer_failure;
use super::read::ContextText;
use hopeval_corpus::Corpus;
use hopeval_lm::request as engine;
use hopeval_methods::request::{EntailPayload, RerankPayload};
use hopeval_methods::{Answer, Failure, FailureKind, PromptReport};

impl Model {
    /// The one logit of each (query, item).
    pub(super) fn rerank(&self, corpus: &Corpus, asked: &RerankPayload) -> Result<PreparedRequest, Failure> {
        let pairs = asked.items.iter().map(|item| self.truncate_pair(&asked.query, &self.content_text(corpus, item)?));
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        // The query is in every pair, and its lost tokens depend on the item's length.
        let of_query = pairs.iter().map(|pair| pair.lost.0).sum();
        let lost = [of_query].into_iter().chain(pairs.iter().map(|pair| pair.lost.1));
        let tokens = pairs.iter().map(|pair| pair.request.ids.len()).sum();
        let report = PromptReport::of_texts(tokens, lost);
        let requests = pairs.into_iter().map(|pair| engine::Request::Encode(pair.request)).collect();
        let finish = |answers: Vec<engine::Answer>| {
            let logit = |answer| encoded_answer(answer).sequence_logits.first().copied().map(f64::from);
            let logits = answers.into_iter().map(logit).collect::<Option<Vec<_>>>();
            logits.map(Answer::Rerank).ok_or_else(|| Failure {
                kind: FailureKind::ParseFailure,
                message: "the cross-encoder gave no logit".to_owned(),
            })
        };
        Ok(PreparedRequest { requests, builder: ResponseBuilder { report: Some(report), finish: Box::new(finish) } })
    }

    /// The probability of the entailment label for (premise, hypothesis).
    pub(super) fn classify_pair(&self, corpus: &Corpus, asked: &EntailPayload) -> Result<PreparedRequest, Failure> {
        let premise = self.assemble_prompt(corpus, &asked.premise, None, false)?;
        let (mut report, parts) = (premise.report, premise.texts.len());
        let text = ContextText::from_parts(premise.texts);
        let TruncatedPair { request, pair, lost } = self.truncate_pair(&text.whole, &asked.hypothesis)?;
        let at = entailment_position(&self.session, &self.settings).unwrap_or_default();
        report.tokens = request.ids.len() as u32;
        text.note_lost_tokens(&mut report, &pair.encoded.offsets[pair.first.end - lost.0..pair.first.end]);
        report.add_lost_tokens(parts, lost.1);
        Ok(PreparedRequest::single_request(engine::Request::Encode(request), Some(report), move |answer| {
            Ok(Answer::Entail(label_probability(&encoded_answer(answer).sequence_logits, at)))
        }))
    }

    /// Two texts as one sequence; if it is too long, the longer text is cut, token by token.
    fn truncate_pair(&self, first: &str, second: &str) -> Result<TruncatedPair, Failure> {
        let pair = self.encode_pair(first, second)?;
        let (ids, type_ids, lost) = pair.cut_longest(self.length_limit(self.settings.pair_tokens));
        let request = engine::EncodeRequest {
            ids: ids.into(),
            type_ids: self.type_ids(type_ids),
            want: engine::EncoderOutput::Logits,
        };
        Ok(TruncatedPair { request, pair, lost })
    }

    /// The tokens of a pair, with the range of the first text.
    pub(super) fn encode_pair(&self, first: &str, second: &str) -> Result<EncodedPair, Failure> {
        self.encode_marked_pair(first, second, &[])
    }

    /// As [`Self::encode_pair`]; words of the second text that are `markers` are tokens of the vocabulary.
    pub(super) fn encode_marked_pair(
        &self,
        first: &str,
        second: &str,
        markers: &[String],
    ) -> Result<EncodedPair, Failure> {
        let encoded = self.tokenizer.encode_marked_pair(first, second, markers);
        let encoded = encoded.map_err(|error| tokenizer_failure(&error))?;
        let alone = self.tokenizer.ids(first, false).map_err(|error| tokenizer_failure(&error))?;
        // The first text's tokens stand before the second's, behind special ones.
        let end = if encoded.second.is_empty() { encoded.ids.len() } else { encoded.second.start };
        let lead = (0..end).find(|&at| encoded.ids[at..end].starts_with(&alone)).unwrap_or(0);
        Ok(EncodedPair { first: lead..lead + alone.len(), encoded })
    }
}

/// A pair cut to the model's limit.
struct TruncatedPair {
    request: engine::EncodeRequest,
    /// The whole pair.
    pair: EncodedPair,
    /// Tokens lost by each text.
    lost: (usize, usize),
}

/// Two texts as one sequence.
pub(super) struct EncodedPair {
    pub(super) encoded: hopeval_lm::tokenise::TokenisedText,
    /// The tokens of the first text.
    pub(super) first: std::ops::Range<usize>,
}

impl EncodedPair {
    /// The positions left after keeping `first` tokens of the first text and `second` of the second.
    pub(super) fn kept_positions(&self, first: usize, second: usize) -> Vec<usize> {
        let cut = |range: &std::ops::Range<usize>, most: usize| range.start.saturating_add(most)..range.end;
        let (a, b) = (cut(&self.first, first), cut(&self.encoded.second, second));
        (0..self.encoded.ids.len()).filter(|at| !a.contains(at) && !b.contains(at)).collect()
    }

    /// Number of tokens outside both texts.
    pub(super) fn special(&self) -> usize {
        self.encoded.ids.len() - self.first.len() - self.encoded.second.len()
    }

    /// Ids and types of at most `most` tokens after transformers' `longest_first` truncation, and the number of tokens
    /// lost by each text.
    fn cut_longest(&self, most: usize) -> (Vec<u32>, Vec<u32>, (usize, usize)) {
        let room = most.saturating_sub(self.special());
        let (first, second) = longest_first(self.first.len(), self.encoded.second.len(), room);
        let kept = self.kept_positions(first, second);
        let of = |values: &[u32]| kept.iter().filter_map(|&at| values.get(at).copied()).collect();
        let lost = (self.first.len() - first, self.encoded.second.len() - second);
        (of(&self.encoded.ids), of(&self.encoded.type_ids), lost)
    }
}

/// Cuts two lengths to `room` in total, like `LongestFirst` of the `tokenizers` library: only the longer one is cut
/// until both are half of it.
fn longest_first(first: usize, second: usize, room: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    let (shorter, half) = (first.min(second), room / 2);
    let (short, long) = if shorter <= half { (shorter, room - shorter) } else { (half, half + room % 2) };
    if first > second { (long, short) } else { (short, long) }
}

/// The softmax probability of the label `at`.
fn label_probability(logits: &[f32], at: usize) -> f64 {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| f64::from(logit - highest).exp();
    logits.get(at).map_or(0.0, |&logit| weight(logit) / logits.iter().map(|&logit| weight(logit)).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_lm::tokenise::TokenisedText;

    /// `[9] first [8] second [8]`.
    fn pair(first: usize, second: usize) -> EncodedPair {
        let ids: Vec<u32> =
            [vec![9], vec![1; first], vec![8], vec![2; second], vec![8]].into_iter().flatten().collect();
        let type_ids = [vec![0; first + 2], vec![1; second + 1]].concat();
        let at = first + 2;
        EncodedPair {
            first: 1..first + 1,
            encoded: TokenisedText {
                offsets: vec![(0, 0); ids.len()],
                words: vec![(0, 0); ids.len()],
                ids,
                type_ids,
                second: at..at + second,
            },
        }
    }

    #[test]
    fn the_longer_text_is_cut_first() {
        assert_eq!(pair(2, 6).cut_longest(8).0, [9, 1, 1, 8, 2, 2, 2, 8]);
        assert_eq!(pair(6, 2).cut_longest(8).0, [9, 1, 1, 1, 8, 2, 2, 8]);
        let (ids, types, lost) = pair(4, 4).cut_longest(8);
        assert_eq!((ids, types), (vec![9, 1, 1, 8, 2, 2, 2, 8], vec![0, 0, 0, 0, 1, 1, 1, 1]));
        assert_eq!((lost, pair(2, 6).cut_longest(8).2, pair(6, 2).cut_longest(8).2), ((2, 1), (0, 3), (3, 0)));
        assert_eq!((pair(1, 1).cut_longest(512).0.len(), pair(1, 1).cut_longest(512).2), (5, (0, 0)));
    }

    #[test]
    fn probabilities_are_a_softmax() {
        assert!((label_probability(&[0.0, 2.0_f32.ln(), 1.0_f32.ln()], 1) - 0.5).abs() < 1e-7);
        assert!((label_probability(&[1000.0, 1000.0], 0) - 0.5).abs() < 1e-12);
    }
}
