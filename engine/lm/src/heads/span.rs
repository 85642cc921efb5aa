//! The best answer span of a passage, from the logits of its start and its end (Devlin et al. 2019, section 4.2).

use std::ops::Range;

/// A span of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerSpan {
    /// Indexes of the tokens; at least one.
    pub tokens: Range<usize>,
    /// `start[first] + end[last]`, in `f32`.
    pub score: f32,
}

/// The span within `context` of at most `max_length` tokens with the highest `start[first] + end[last]`.
///
/// `start` and `end` have one logit for each token of the sequence. Scores are compared by [`f32::total_cmp`]; of equal
/// ones the earliest first token wins, then the shortest span. `None` if `context` is empty or `max_length` is 0.
/// MDR's `max_ans_len` counts the tokens after the first, so it is one less than `max_length` (`scripts/train_qa.py`);
/// `max_answer_length` of SQuAD's evaluation is `max_length`.
pub fn best_span(start: &[f32], end: &[f32], context: Range<usize>, max_length: usize) -> Option<AnswerSpan> {
    let limit = context.end.min(start.len()).min(end.len());
    let spans = (context.start..limit)
        .flat_map(|first| (first..limit.min(first.saturating_add(max_length))).map(move |last| (first, last)));
    let mut best: Option<AnswerSpan> = None;
    for (first, last) in spans {
        let score = start[first] + end[last];
        if best.as_ref().is_none_or(|best| score.total_cmp(&best.score).is_gt()) {
            best = Some(AnswerSpan { tokens: first..last + 1, score });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_go_to_the_earliest_then_the_shortest() {
        let flat = [1.0_f32; 6];
        assert_eq!(best_span(&flat, &flat, 2..6, 3), Some(AnswerSpan { tokens: 2..3, score: 2.0 }));
    }

    #[test]
    fn an_end_before_the_start_is_no_span() {
        let (start, end) = ([0.0, 0.0, 9.0], [9.0, 0.0, 0.0]);
        assert_eq!(best_span(&start, &end, 0..3, 3), Some(AnswerSpan { tokens: 0..1, score: 9.0 }));
    }

    #[test]
    fn no_context_or_no_length_is_no_span() {
        let logits = [1.0, 2.0];
        assert_eq!(best_span(&logits, &logits, 1..1, 5), None);
        assert_eq!(best_span(&logits, &logits, 0..2, 0), None);
        assert_eq!(best_span(&logits, &logits, 7..9, 5), None);
        assert_eq!(best_span(&logits, &logits, 0..9, usize::MAX).map(|s| s.tokens), Some(1..2));
    }

    /// Few distinct values, so that ties are common.
    fn logits() -> impl Strategy<Value = Vec<(f32, f32)>> {
        prop::collection::vec((-3_i8..4, -3_i8..4), 0..24)
            .prop_map(|pairs| pairs.into_iter().map(|(a, b)| (f32::from(a) * 0.5, f32::from(b) * 0.5)).collect())
    }

    proptest! {
        #[test]
        fn it_is_the_first_of_all_spans_sorted(
            logits in logits(), from in 0_usize..26, length in 0_usize..26, max_length in 0_usize..10,
        ) {
            let (start, end): (Vec<_>, Vec<_>) = logits.iter().copied().unzip();
            let context = from..from + length;
            let mut spans = (0..logits.len())
                .flat_map(|first| (0..logits.len()).map(move |last| (first, last)))
                .filter(|(first, last)| first <= last && last - first < max_length)
                .filter(|(first, last)| context.contains(first) && context.contains(last))
                .map(|(first, last)| (start[first] + end[last], first, last))
                .collect::<Vec<_>>();
            spans.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
            let expected = spans.first().map(|&(score, first, last)| AnswerSpan { tokens: first..last + 1, score });
            prop_assert_eq!(best_span(&start, &end, context, max_length), expected);
        }

        #[test]
        fn it_does_not_look_outside_the_context(logits in logits(), from in 0_usize..12, length in 1_usize..12) {
            let (mut start, mut end): (Vec<_>, Vec<_>) = logits.iter().copied().unzip();
            let context = from..from + length;
            let before = best_span(&start, &end, context.clone(), 5);
            for i in (0..start.len()).filter(|i| !context.contains(i)) {
                (start[i], end[i]) = (f32::INFINITY, f32::INFINITY);
            }
            prop_assert_eq!(best_span(&start, &end, context, 5), before);
        }
    }
}
