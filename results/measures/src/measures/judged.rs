//! `judged`: whether to give the accuracies that judging models make of answers. hopeval sets it in the runs of judges.
//!
//! `acc_migres` is MIGRES's Acc (table 3, evaluate.py): exact by its rules, or the judge says yes, or, for open-domain
//! questions, a gold answer is contained. `acc_efficientrag` is EfficientRAG's (table 3): the judge says yes. Each is
//! defined for judges of its rule and questions with gold answers. A failed outcome, a failed judge and a missing
//! answer count as wrong.

use super::MeasureKey;
use crate::answer::Profile;
use crate::judging::AccuracyRule;
use crate::registry::{Column, MeasureInput};

const VERSION: &str = "1";

pub(crate) struct JudgedAnswers;

impl MeasureKey for JudgedAnswers {
    type Value = bool;

    fn build_columns(_: &bool, _: Profile) -> Vec<Column> {
        let rules = [AccuracyRule::Migres { is_open_domain: false }, AccuracyRule::EfficientRag];
        let column = |of: AccuracyRule| {
            let value = move |input: &MeasureInput<'_>| {
                let judged = input.outcome.judged.as_ref().filter(|judged| judged.rule.measure() == of.measure())?;
                let golds = Some(input.outcome.answers).filter(|golds| !golds.is_empty())?;
                Some(f64::from(u8::from(judged.rule.accepts(judged, golds))))
            };
            Column::new(of.measure().to_owned(), VERSION, value).of_judges()
        };
        rules.into_iter().map(column).collect()
    }
}
