//! DROP's measure, as in `drop_eval.py` (DROP, AllenNLP; IIRC and IRCoT use it): tokens split at spaces and hyphens,
//! numbers compared as floats, *sets* of tokens, several spans aligned one to one, and an F1 of 0 if the gold's numbers
//! are not among the predicted ones. F1, precision and recall are rounded to two digits, as in the script.
//!
//! An answer is a list of spans. In a flat list of golds each string is one alternative of one span. A string with a
//! JSON array of strings (`["Ali", "Frazier"]`) is one alternative of several spans. IIRC's reader writes gold so.
//!
//! A prediction is a text, too. A JSON array of strings is the list that a prediction file of the script has in the
//! place of a string. Any other text is one span, as every string is in the script (`_answer_to_bags`): nothing is cut
//! at commas or at `and`. So `Ali, Frazier` against those two spans has EM 0 and F1 0.33.

mod assignment;
pub(crate) mod number;

use rustc_hash::FxHashSet;

use crate::answer::AnswerScore;
use assignment::best_assignment;
use number::{parse_float, python_repr};

/// Scores under DROP's rules.
#[derive(Clone, Debug, Default)]
pub struct DropScorer {}

/// An answer's normalised spans and their bags.
struct SpanBags {
    spans: Vec<String>,
    tokens: Vec<FxHashSet<String>>,
}

/// The spans of a flat answer: a JSON array's strings, or the text itself.
pub fn answer_spans(answer: &str) -> Vec<String> {
    let trimmed = answer.trim();
    if trimmed.starts_with('[')
        && let Ok(spans) = serde_json::from_str::<Vec<String>>(trimmed)
    {
        return spans;
    }
    vec![answer.to_owned()]
}

/// `get_metrics`: one answer's spans against one gold's.
pub fn score_spans<P: AsRef<str>, G: AsRef<str>>(predicted: &[P], gold: &[G]) -> AnswerScore {
    score_bags(&SpanBags::new(predicted), &SpanBags::new(gold))
}

impl DropScorer {
    /// The best over the alternatives in `golds`: the highest (EM, F1, precision, recall) in this order, as in IRCoT's
    /// `metric_max_over_ground_truths`.
    pub fn score_best<S: AsRef<str>>(&mut self, prediction: &str, golds: &[S]) -> AnswerScore {
        let predicted = SpanBags::new(&answer_spans(prediction));
        let mut best = AnswerScore::default();
        for gold in golds {
            let score = score_bags(&predicted, &SpanBags::new(&answer_spans(gold.as_ref())));
            let order = |s: &AnswerScore| [s.em, s.f1, s.precision, s.recall];
            if order(&score) > order(&best) {
                best = score;
            }
        }
        best
    }
}

impl SpanBags {
    fn new<S: AsRef<str>>(answer: &[S]) -> Self {
        let spans: Vec<String> = answer.iter().map(|span| normalize_answer(span.as_ref())).collect();
        let tokens = spans.iter().map(|span| hopeval_pytext::split(span).map(str::to_owned).collect()).collect();
        Self { spans, tokens }
    }
}

fn score_bags(predicted: &SpanBags, gold: &SpanBags) -> AnswerScore {
    let set = |bags: &SpanBags| bags.spans.iter().cloned().collect::<FxHashSet<String>>();
    let em = predicted.spans.len() == gold.spans.len() && set(predicted) == set(gold);
    let mut scores = Vec::with_capacity(gold.tokens.len());
    for gold in &gold.tokens {
        scores.push(predicted.tokens.iter().map(|bag| score_bag(bag, gold)).collect::<Vec<_>>());
    }
    let f1s: Vec<Vec<f64>> = scores.iter().map(|row| row.iter().map(|s| s.f1).collect()).collect();
    let mut sum = AnswerScore::default();
    for (row, column) in best_assignment(&f1s) {
        let score = scores[row][column];
        sum.f1 += score.f1;
        sum.precision += score.precision;
        sum.recall += score.recall;
    }
    let count = gold.tokens.len().max(predicted.tokens.len()).max(1) as f64;
    AnswerScore {
        em: f64::from(u8::from(em)),
        f1: round_two(sum.f1 / count),
        precision: round_two(sum.precision / count),
        recall: round_two(sum.recall / count),
    }
}

/// F1, precision and recall of two bags. Zero if the gold has numbers and all of them are missing from the prediction.
fn score_bag(predicted: &FxHashSet<String>, gold: &FxHashSet<String>) -> AnswerScore {
    let mut numbers = gold.iter().filter(|word| parse_float(word).is_some()).peekable();
    if numbers.peek().is_some() && !numbers.any(|number| predicted.contains(number)) {
        return AnswerScore::default();
    }
    let common = gold.intersection(predicted).count() as f64;
    let precision = if predicted.is_empty() { 1.0 } else { common / predicted.len() as f64 };
    let recall = if gold.is_empty() { 1.0 } else { common / gold.len() as f64 };
    let f1 = if precision == 0.0 && recall == 0.0 { 0.0 } else { (2.0 * precision * recall) / (precision + recall) };
    AnswerScore { em: 0.0, f1, precision, recall }
}

/// `_normalize_answer`: each part between spaces and hyphens on its own.
pub fn normalize_answer(text: &str) -> String {
    let mut parts = Vec::new();
    for token in text.split([' ', '-']) {
        let mut lowered = String::with_capacity(token.len());
        hopeval_pytext::lower_into(token, &mut lowered);
        let number = parse_float(&lowered).or_else(|| {
            lowered.retain(|c| !c.is_ascii_punctuation());
            parse_float(&lowered)
        });
        let part = match number {
            // `repr` gives no articles and no spaces, so the later steps would not change it.
            Some(number) => python_repr(number),
            None => crate::normalize::normalize(&lowered),
        };
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts.join(" ")
}

/// numpy's `round(x, 2)`: to the nearest even hundredth after scaling.
fn round_two(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_floats_and_hyphens_split() {
        assert_eq!(normalize_answer("5"), "5.0");
        assert_eq!(normalize_answer("The 1,000 Jean-Luc"), "1000.0 jean luc");
        assert_eq!(normalize_answer("-3.50%"), "350.0");
        assert_eq!(score_spans(&["5"], &["5.0"]).em, 1.0);
        assert_eq!(score_spans(&["U.S."], &["US"]).em, 1.0);
    }

    #[test]
    fn a_wrong_number_costs_everything() {
        assert_eq!(score_spans(&["12 yards"], &["13 yards"]), AnswerScore::default());
        assert_eq!(score_spans(&["yards 13"], &["13 yards"]).f1, 1.0);
    }

    #[test]
    fn spans_are_aligned_and_missing_ones_count() {
        let s = score_spans(&["Frazier", "Ali"], &["Ali", "Frazier"]);
        assert_eq!((s.em, s.f1), (1.0, 1.0));
        let s = score_spans(&["Ali"], &["Ali", "Frazier", "Foreman"]);
        assert_eq!((s.em, s.f1), (0.0, 0.33));
        let s = DropScorer::default().score_best("[\"b c\", \"a\"]", &["z", "[\"a\", \"b\"]"]);
        assert_eq!((s.em, s.f1, s.recall), (0.0, 0.83, 1.0));
        assert_eq!(answer_spans("[not json"), ["[not json"]);
    }

    /// Values of `get_metrics(prediction, ["Ali", "Frazier"])`.
    #[test]
    fn a_predicted_text_is_one_span_and_a_json_array_several() {
        for (prediction, em, f1) in [
            ("Ali, Frazier", 0.0, 0.33),
            ("Frazier and Ali", 0.0, 0.25),
            ("Ali", 0.0, 0.5),
            ("[\"Frazier\", \"Ali\"]", 1.0, 1.0),
            ("[\"Ali\", \"Ali\"]", 0.0, 0.5),
        ] {
            let score = DropScorer::default().score_best(prediction, &["[\"Ali\", \"Frazier\"]"]);
            assert_eq!((score.em, score.f1), (em, f1), "{prediction}");
        }
    }

    #[test]
    fn empty_bags() {
        assert_eq!(score_spans(&["the"], &["a"]), AnswerScore { em: 1.0, f1: 1.0, precision: 1.0, recall: 1.0 });
        assert_eq!(score_spans::<&str, _>(&[], &["a b"]).f1, 0.0);
    }
}
