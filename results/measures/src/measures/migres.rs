//! `migres`: whether to give `em_migres` and `cem_migres`, as MIGRES's evaluation scores answers (evaluate.py).
//!
//! Normalised as SQuAD's; `true` and `false` are yes and no. An answer is exact if it is equal to a gold answer, if it
//! is without spaces, or if it has as many words and all of the gold answer's; it contains one if the gold answer is a
//! part of it (`migres_rules.rs`). The best gold answer counts.
//!
//! The script leaves questions without a final answer out. `em_migres` counts them as wrong, and `em_migres_answered`
//! leaves them out.

use super::MeasureKey;
use crate::answer::Profile;
use crate::migres_rules::{contains_gold, is_exact};
use crate::registry::{Column, MeasureInput};

const VERSION: &str = "1";

pub(crate) struct MigresAnswers;

impl MeasureKey for MigresAnswers {
    type Value = bool;

    fn build_columns(_: &bool, _: Profile) -> Vec<Column> {
        type AnswerRule = fn(&str, &[String]) -> bool;
        let rules: [(&str, AnswerRule); 2] = [("em_migres", is_exact), ("cem_migres", contains_gold)];
        let of_rule = |(name, rule): (&str, AnswerRule)| {
            let value = move |input: &MeasureInput<'_>| {
                input.answer?;
                let answer = input.outcome.answer?;
                Some(f64::from(u8::from(rule(answer, input.outcome.answers))))
            };
            let all = move |input: &MeasureInput<'_>| {
                input.answer?;
                Some(value(input).unwrap_or(0.0))
            };
            let answered = Column::new(format!("{name}_answered"), VERSION, value);
            [Column::new(name.to_owned(), VERSION, all), answered.none_if_failed()]
        };
        rules.into_iter().flat_map(of_rule).collect()
    }
}
