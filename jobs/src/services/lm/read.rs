//! `Read`: answer spans by an extractive reader (Devlin et al. 2019, section 4.2; with a rank head as in MDR).
//!
//! The reader's best tokens may begin or end inside a word: [`SpanText`] says how they become the text of an answer.

use super::model::{Model, PreparedRequest, encoded_answer};
use hopeval_corpus::Corpus;
use hopeval_lm::request as engine;
use hopeval_lm::tokenise::Tokenizer;
use hopeval_methods::request::{ReadPayload, SpanText};
use hopeval_methods::response::AnswerSpan;
use hopeval_methods::{Answer, Failure, PromptReport};
use std::ops::Range;
use std::sync::Arc;

impl Model {
    /// Question and context as one sequence; the question is cut to its limit, then the context to the remaining room.
    pub(super) fn read(&self, corpus: &Corpus, asked: &ReadPayload) -> Result<PreparedRequest, Failure> {
        let context = self.assemble_prompt(corpus, &asked.context, None, false)?;
        let text = ContextText::from_parts(context.texts);
        let pair = self.encode_marked_pair(&asked.question, &text.whole, &asked.markers)?;
        let question = pair.first.len().min(self.settings.question_tokens);
        let room = self.length_limit(self.settings.read_tokens).saturating_sub(pair.special() + question);
        let second = pair.encoded.second.len().min(room);
        let kept = pair.kept_positions(question, second);
        let of = |values: &[u32]| kept.iter().filter_map(|&at| values.get(at).copied()).collect::<Vec<_>>();
        let start = pair.encoded.second.start.saturating_sub(pair.first.len() - question);
        let allowed = start..start + second;
        let tokens: Vec<ContextToken> = pair
            .encoded
            .second
            .clone()
            .take(second)
            .map(|at| ContextToken {
                id: pair.encoded.ids[at],
                bytes: text.bytes(pair.encoded.offsets[at]),
                word: text.bytes(pair.encoded.words[at]),
            })
            .collect();
        let (tokenizer, span_text) = (Arc::clone(&self.tokenizer), asked.span_text);
        let request = engine::EncodeRequest {
            ids: of(&pair.encoded.ids).into(),
            type_ids: self.type_ids(of(&pair.encoded.type_ids)),
            want: engine::EncoderOutput::Span,
        };
        let (length, count) = (asked.max_answer_tokens as usize, asked.spans as usize);
        let (mut report, parts) = (context.report, text.ends.len());
        report.tokens = request.ids.len() as u32;
        text.note_lost_tokens(
            &mut report,
            &pair.encoded.offsets[pair.encoded.second.start + second..pair.encoded.second.end],
        );
        report.add_lost_tokens(parts, pair.first.len() - question);
        Ok(PreparedRequest::single_request(engine::Request::Encode(request), Some(report), move |answer| {
            let found = encoded_answer(answer);
            let best = best_spans(&found.start_logits[allowed.clone()], &found.end_logits[allowed], length, count);
            let span = |(range, score): (Range<usize>, f32)| {
                let read = &tokens[range];
                let (first, last) = (&read[0], &read[read.len() - 1]);
                let bytes = match span_text {
                    SpanText::Tokens => first.bytes.start..last.bytes.end,
                    SpanText::Words => first.word.start..last.word.end,
                    SpanText::FinalText => return text.final_span(read, &tokenizer, score, found.rank),
                };
                text.span(bytes, score, found.rank)
            };
            Ok(Answer::Read(best.into_iter().map(span).collect()))
        }))
    }
}

/// The `count` best spans of at most `length` tokens, best first. The score is `start[first] + end[last]`. Ties: the
/// earliest first token, then the shortest, as in the engine's own `best_span`.
fn best_spans(start: &[f32], end: &[f32], length: usize, count: usize) -> Vec<(Range<usize>, f32)> {
    let tokens = start.len().min(end.len());
    let spans =
        (0..tokens).flat_map(|first| (first..tokens.min(first.saturating_add(length))).map(move |last| (first, last)));
    let mut scored: Vec<_> = spans.map(|(first, last)| (first..last + 1, start[first] + end[last])).collect();
    // Spans come in the order of ties, and the sort is stable.
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    scored.truncate(count);
    scored
}

/// A token of a context.
struct ContextToken {
    id: u32,
    /// Its bytes in the context.
    bytes: Range<usize>,
    /// The bytes of its word.
    word: Range<usize>,
}

/// The text of a context, with the ends of its parts.
pub(super) struct ContextText {
    pub(super) whole: String,
    /// Byte offsets of the parts' ends.
    ends: Vec<usize>,
    /// Byte offset of each character, and of the end.
    characters: Vec<usize>,
}

impl ContextText {
    pub(super) fn from_parts(parts: Vec<String>) -> Self {
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.len();
            end
        });
        let ends = ends.collect();
        let whole = parts.concat();
        let characters = whole.char_indices().map(|(at, _)| at).chain([whole.len()]).collect();
        Self { whole, ends, characters }
    }

    /// A range of characters as a range of bytes.
    fn bytes(&self, (from, to): (usize, usize)) -> Range<usize> {
        let last = self.characters.len() - 1;
        self.characters[from.min(last)]..self.characters[to.min(last)]
    }

    /// The part containing a byte.
    fn part(&self, byte: usize) -> usize {
        self.ends.partition_point(|&end| end <= byte)
    }

    /// Notes the parts of cut tokens in the report; `tokens` are ranges of characters.
    pub(super) fn note_lost_tokens(&self, report: &mut PromptReport, tokens: &[(usize, usize)]) {
        let last = self.ends.len().saturating_sub(1);
        tokens.iter().for_each(|&token| report.add_lost_tokens(self.part(self.bytes(token).start).min(last), 1));
    }

    /// The answer span of tokens by BERT's `get_final_text`, over the words between white space that they are of. Its
    /// place is told where the context has single spaces between these words.
    fn final_span(&self, tokens: &[ContextToken], tokenizer: &Tokenizer, score: f32, rank: Option<f32>) -> AnswerSpan {
        let (first, last) = (tokens[0].bytes.start, tokens[tokens.len() - 1].bytes.end);
        let begin = self.whole[..first]
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + self.whole[at..].chars().next().map_or(0, char::len_utf8));
        let end = self.whole[last..].find(char::is_whitespace).map_or(self.whole.len(), |at| last + at);
        let original = self.whole[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        let text = tokenizer.final_text(&ids, &original);
        match self.whole[begin..end].find(&*text) {
            Some(at) => self.span(begin + at..begin + at + text.len(), score, rank),
            None => AnswerSpan { text, score: f64::from(score), rank: rank.map(f64::from), at: None },
        }
    }

    /// The answer span in a range of bytes, without white space at its ends.
    fn span(&self, bytes: Range<usize>, score: f32, rank: Option<f32>) -> AnswerSpan {
        let covered = self.whole.get(bytes.clone()).unwrap_or_default();
        let text = covered.trim();
        let from = bytes.start + (covered.len() - covered.trim_start().len());
        let part = self.part(from);
        let begin = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        let within = self.ends.get(part).is_some_and(|&end| from + text.len() <= end);
        let at = within.then(|| (part as u32, (from - begin) as u32, (from - begin + text.len()) as u32));
        AnswerSpan { text: text.to_owned(), score: f64::from(score), rank: rank.map(f64::from), at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_lm::heads::best_span;

    #[test]
    fn the_best_of_all_is_the_engine_s() {
        let (start, end) = ([0.5, 2.0, -1.0, 2.0, 0.0], [1.0, 0.0, 3.0, 3.0, -2.0]);
        for length in 1..6 {
            let found = best_spans(&start, &end, length, 3);
            let expected = best_span(&start, &end, 0..5, length).unwrap();
            assert_eq!(found[0], (expected.tokens, expected.score), "{length}");
            assert!(found.is_sorted_by(|a, b| a.1 >= b.1) && found.len() == 3);
        }
        assert_eq!(best_spans(&start, &end, 0, 3), []);
    }

    #[test]
    fn spans_are_told_by_part_and_byte() {
        let context = ContextText::from_parts(vec!["yes no ".into(), "Né in Brno.".into(), " End".into()]);
        let span = |from, to| context.span(context.bytes((from, to)), 1.0, None);
        assert_eq!((span(0, 3).text.as_str(), span(0, 3).at), ("yes", Some((0, 0, 3))));
        assert_eq!((span(7, 9).text.as_str(), span(7, 9).at), ("Né", Some((1, 0, 3))));
        assert_eq!((span(9, 12).text.as_str(), span(9, 12).at), ("in", Some((1, 4, 6))));
        assert_eq!((span(13, 22).text.as_str(), span(13, 22).at), ("Brno. End", None));
    }
}
