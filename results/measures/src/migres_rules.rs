//! MIGRES's rules for right answers (evaluate.py): exact, contained, and accurate by the word of a judging model.

use crate::normalize::normalize;

/// A normalised answer, with `true` and `false` as yes and no.
fn normalized_answer(text: &str) -> String {
    match normalize(text) {
        truth if truth == "true" => "yes".to_owned(),
        truth if truth == "false" => "no".to_owned(),
        other => other,
    }
}

fn is_exact_pair(prediction: &str, gold: &str) -> bool {
    let words = |text: &'_ str| text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let (of_prediction, of_gold) = (words(prediction), words(gold));
    prediction == gold
        || of_prediction.concat() == of_gold.concat()
        || (of_prediction.len() == of_gold.len() && of_gold.iter().all(|word| of_prediction.contains(word)))
}

/// Whether the answer is equal to one of the gold answers, by MIGRES's rules.
pub fn is_exact(prediction: &str, golds: &[impl AsRef<str>]) -> bool {
    let prediction = normalized_answer(prediction);
    golds.iter().any(|gold| is_exact_pair(&prediction, &normalized_answer(gold.as_ref())))
}

/// Whether one of the gold answers is a part of the answer.
pub fn contains_gold(prediction: &str, golds: &[impl AsRef<str>]) -> bool {
    let prediction = normalized_answer(prediction);
    golds.iter().any(|gold| prediction.contains(&normalized_answer(gold.as_ref())))
}

/// MIGRES's Acc: exact, or the judging model said yes, or, for open-domain questions, a gold answer is contained.
pub fn is_accurate(prediction: &str, golds: &[impl AsRef<str>], judged: bool, is_open_domain: bool) -> bool {
    judged || is_exact(prediction, golds) || (is_open_domain && contains_gold(prediction, golds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of a restatement of the script in Python: prediction, gold answers, exact, contained.
    const GOLDEN: [(&str, &[&str], bool, bool); 14] = [
        ("The Rome", &["rome"], true, true),
        ("Jean Luc Picard", &["Picard Jean Luc"], true, false),
        ("jeanluc picard", &["Jean-Luc Picard"], true, true),
        ("Jean Luc Picard", &["Jean-Luc Picard"], true, false),
        ("New York City", &["New York"], false, true),
        ("York", &["New York"], false, false),
        ("True", &["yes"], true, true),
        ("no", &["False", "yes"], true, true),
        ("true story", &["yes"], false, false),
        ("", &["Rome"], false, false),
        ("", &["the"], true, true),
        ("Rome", &["an"], false, true),
        ("a b b", &["b b c"], false, false),
        ("b c b", &["b b c"], true, false),
    ];

    #[test]
    fn answers_are_scored_as_the_script_does() {
        for (prediction, golds, exact, contained) in GOLDEN {
            assert_eq!(
                (is_exact(prediction, golds), contains_gold(prediction, golds)),
                (exact, contained),
                "{prediction}"
            );
        }
    }

    #[test]
    fn accuracy_takes_the_judge_or_for_open_domain_the_contained_answer() {
        let accurate = |judged, open| is_accurate("New York City", &["New York"], judged, open);
        assert_eq!([accurate(false, false), accurate(true, false), accurate(false, true)], [false, true, true]);
        assert!(is_accurate("Rome", &["rome"], false, false));
    }
}
