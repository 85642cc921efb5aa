//! Accuracies made of judges' words: MIGRES's rule and EfficientRAG's.

use crate::migres_rules::is_accurate;

/// A prediction with a judge's word about it.
#[derive(Clone, Copy, Debug)]
pub struct JudgedAnswer<'a> {
    /// The judged answer; `None` without one.
    pub prediction: Option<&'a str>,
    /// The word; `None` if the judge said none.
    pub says_yes: Option<bool>,
    /// The rule that makes an accuracy of it.
    pub rule: AccuracyRule,
}

/// The rule that makes an accuracy of a judge's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccuracyRule {
    /// MIGRES's.
    Migres {
        /// Whether an answer that contains a gold answer is right.
        is_open_domain: bool,
    },
    /// EfficientRAG's.
    EfficientRag,
}

impl AccuracyRule {
    /// The measure's name.
    pub fn measure(self) -> &'static str {
        match self {
            Self::Migres { .. } => "acc_migres",
            Self::EfficientRag => "acc_efficientrag",
        }
    }

    /// Whether a prediction is right.
    pub fn accepts(self, judged: &JudgedAnswer<'_>, golds: &[impl AsRef<str>]) -> bool {
        let said_yes = judged.says_yes == Some(true);
        match (self, judged.prediction) {
            (_, None) => false,
            (Self::Migres { is_open_domain }, Some(answer)) => is_accurate(answer, golds, said_yes, is_open_domain),
            (Self::EfficientRag, Some(_)) => said_yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_take_the_word_or_more() {
        let judged = |prediction, says_yes, rule| JudgedAnswer { prediction, says_yes, rule };
        let accepts = |prediction, says_yes, rule: AccuracyRule| {
            rule.accepts(&judged(prediction, says_yes, rule), &["New York", "NYC"])
        };
        let strict = AccuracyRule::Migres { is_open_domain: false };
        let open = AccuracyRule::Migres { is_open_domain: true };
        let word = AccuracyRule::EfficientRag;
        for (prediction, says_yes, [by_strict, by_open, by_word]) in [
            (Some("York New"), Some(false), [true, true, false]),
            (Some("New York City"), Some(false), [false, true, false]),
            (Some("New York City"), Some(true), [true, true, true]),
            (Some("Boston"), None, [false, false, false]),
            (None, Some(true), [false, false, false]),
        ] {
            let found = [strict, open, word].map(|rule| accepts(prediction, says_yes, rule));
            assert_eq!(found, [by_strict, by_open, by_word], "{prediction:?} {says_yes:?}");
        }
    }
}
